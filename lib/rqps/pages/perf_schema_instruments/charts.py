"""The tree of parts as a chart of what each adds to an operation, and as lines."""

from typing import Any

import altair as alt
import polars as pl

from rqps import view
from rqps.stats.scenarios import COSTS_MORE, CPU
from rqps.view import VERDICT_COLOURS, Row
from rqps.view.theme import numbers

MOST_ROWS = 80
LABELS_PX = 250
NOT_DIVIDED = "This study was not divided: one that says `measure_parts_of` is, when all its rounds are measured."
_MORE, _LESS = "more than 1 % of an operation", "less"
_BY_INSTRUCTIONS = ("added_instructions", "added_instructions", "instructions added to an operation", 1.35)
_BY_TIME = ("added", "added_high", "server CPU added, µs per operation", 1.3)
_INDENT = "\u2003"
_COLUMNS = ("row", "part", "level", "n", "added", "added_low", "added_high", "share", "coverage", "verdict")


def instrument_bars(costs: pl.DataFrame) -> Any:
    """One row per part, below the part that it was taken from; of the first step; by instructions where known."""
    if costs["level"].max() in (None, 0):
        return view.Sentences([NOT_DIVIDED])
    first = costs.filter(step=costs["step"][0]).head(MOST_ROWS)
    rows = first.with_columns(
        pl.struct("level", "part").map_elements(_name, pl.String).alias("row"),
        (pl.col("median") - 1).alias("share"),
        pl.col("verdict").replace(view.verdict_words(CPU)),
        pl.struct("added", "added_instructions").map_elements(_label, pl.String).alias("label"),
        pl.when(pl.col("instructions") > COSTS_MORE).then(pl.lit(_MORE)).otherwise(pl.lit(_LESS)).alias("much"),
    )
    order = rows["row"].to_list()
    axis = alt.Axis(title=None, ticks=False, domain=False, labelLimit=LABELS_PX, labelOverlap=False)
    times = numbers("+,.3f", ", µs", ("added", "added_low", "added_high"))
    counted = alt.Tooltip("added_instructions:Q", format="+,.0f", title="instructions added")
    tooltip = ["part:N", "verdict:N", *times, alt.Tooltip("share:Q", format="+.1%"), counted]
    base = alt.Chart(view.slim(rows, *_COLUMNS, "added_instructions", "label", "much")).encode(
        y=alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=axis), tooltip=tooltip
    )
    builds, rounds = ", ".join(view.in_order(rows["build"])), view.rounds_of(rows["n"])
    how = f"{rows['step'][0]} on {builds}, against {rows['against'][0]} of the same level"
    by_count = _counted(first)
    column, high, title, room = _BY_INSTRUCTIONS if by_count else _BY_TIME
    most = room * float(rows[high].max() or rows[column].max() or 0)  # type: ignore[arg-type]
    x = alt.X(f"{column}:Q", title=title, scale=alt.Scale(domainMax=most))
    if by_count:
        how += f"; instructions counted one by one, in brackets the server CPU, of {rounds}."
        shades = alt.Scale(domain=[_MORE, _LESS], range=[VERDICT_COLOURS["slower"], VERDICT_COLOURS["unsure"]])
        bars = base.mark_bar(height=13).encode(x=x, color=alt.Color("much:N", title=None, scale=shades))
        layers: tuple[alt.Chart, ...] = (bars, view.row_labels(base, column))
    else:
        how += f" and round: median of {rounds}, the bar is its interval ({view.coverage_of(rows['coverage'])})."
        layers = view.interval_ticks(base.encode(color=view.verdict_colour(CPU, labelLimit=0)), x, "added_low", high)
    chart = alt.layer(*layers).properties(width="container", height=view.ROW_PX * len(order))
    return view.titled(chart, _claim(first), how, min_width_px=330)


def instrument_text(costs: pl.DataFrame) -> str:
    """The tree as lines: µs that a part adds, with interval and verdict; instructions; events, and ns of each."""
    if costs.is_empty():
        return NOT_DIVIDED
    lines = [f"{'added, µs/o':32}{'instructions':>13}{'events':>8}{'ns each':>9}{'i. each':>9}  part"]
    for (step,), rows in costs.group_by("step", maintain_order=True):
        lines += ["", str(step), *(_line(row) for row in rows.to_dicts())]
    return "\n".join(lines)


def _line(row: Row) -> str:
    low, counted, events = row["added_low"], row["added_instructions"], row["per_statement"]
    reach = "no interval" if low is None else f"{low:+.2f} to {row['added_high']:+.2f}"
    added = f"{view.COST_SIGNS[row['verdict']]} {row['added']:+.2f} ({reach}) n={row['n']}"
    each = "?" if row["each_ns"] is None else f"{row['each_ns']:,.0f}"
    instructions = "–" if counted is None else f"{counted:+,.0f}"
    instructions_each = "–" if counted is None or not events else f"{counted / events:,.0f}"
    per_statement = "–" if events is None else f"{events:,.1f}"
    numbers = f"{added:32}{instructions:>13}{per_statement:>8}{each:>9}{instructions_each:>9}"
    return f"{numbers}  {'  ' * row['level']}{row['part']}"


def _name(row: dict[str, Any]) -> str:
    """A part's name, indented by its level; of many instruments, the first and the number of the others."""
    first, *others = str(row["part"]).split(", ")
    more = f" and {len(others)} more" if others else ""
    return f"{_INDENT * int(row['level'])}{first}{more}"


def _label(row: dict[str, Any]) -> str:
    counted, time = row["added_instructions"], f"{row['added']:+,.2f} µs"
    return time if counted is None else f"{counted:+,.0f} ({time})"


def _counted(costs: pl.DataFrame) -> bool:
    return costs["added_instructions"].null_count() == 0


def _claim(costs: pl.DataFrame) -> str:
    """The most expensive kind, and single instrument: by instructions, or by time where the rounds show a cost."""
    parts = costs.filter(pl.col("level") > 0)
    column, form = ("added_instructions", "{:,.0f} instructions") if _counted(costs) else ("added", "{:.1f} µs")
    shown = parts if _counted(costs) else parts.filter(verdict="slower")
    rows = shown.sort(column, descending=True).to_dicts()
    if not rows:
        return "The rounds show no part to cost anything."
    first = next((row for row in rows if row["level"] == 1), rows[0])
    claim = f"{first['part']} costs most: {form.format(first[column])} per operation"
    single = next((row for row in rows if row["level"] > 1 and not {"%", ","} & set(row["part"])), first)
    if single["part"] != first["part"]:
        claim += f"; of single instruments, {single['part']}: {form.format(single[column])}"
    return f"{claim}."
