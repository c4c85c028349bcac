"""The tree of parts as a chart of what each adds to an operation, and as lines."""

from typing import Any

import altair as alt
import polars as pl
from great_tables import GT

from rqps.pages.perf_schema_instruments.tree import sums_of_parts
from rqps.stats.perf_schema import CPU
from rqps.stats.perf_schema_parts import COSTS_MORE
from rqps.view import (
    COST_SIGNS,
    ROW_PX,
    VERDICT_COLOURS,
    Row,
    Sentences,
    coverage_of,
    in_order,
    interval_ticks,
    rounds_of,
    row_labels,
    slim,
    table,
    titled,
    verdict_colour,
    verdict_words,
)

MOST_ROWS = 80
LABELS_PX = 250
NOT_TAKEN_APART = "This study was not taken apart: one that says `take_apart` is, when all its rounds are measured."
_MORE, _LESS = "more than 1 % of an operation", "less"
_INDENT = "\u2003"
_COLUMNS = ("row", "part", "level", "n", "added", "added_low", "added_high", "share", "coverage", "verdict")


def instrument_bars(costs: pl.DataFrame) -> Any:
    """One row per part, below the part that it was taken from; of the first step; by instructions where known."""
    if costs["level"].max() in (None, 0):
        return Sentences([NOT_TAKEN_APART])
    first = costs.filter(step=costs["step"][0]).head(MOST_ROWS)
    rows = first.with_columns(
        pl.struct("level", "part").map_elements(_name, pl.String).alias("row"),
        (pl.col("median") - 1).alias("share"),
        pl.col("verdict").replace(verdict_words(CPU)),
        pl.struct("added", "added_instructions").map_elements(_label, pl.String).alias("label"),
        pl.when(pl.col("instructions") > COSTS_MORE).then(pl.lit(_MORE)).otherwise(pl.lit(_LESS)).alias("much"),
    )
    order = rows["row"].to_list()
    axis = alt.Axis(title=None, ticks=False, domain=False, labelLimit=LABELS_PX, labelOverlap=False)
    tooltip: list[Any] = ["part:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    tooltip += [
        alt.Tooltip(f"{name}:Q", format="+,.3f", title=f"{name}, µs") for name in ("added", "added_low", "added_high")
    ]
    tooltip += [alt.Tooltip("share:Q", format="+.1%")]
    tooltip += [alt.Tooltip("added_instructions:Q", format="+,.0f", title="instructions added")]
    base = alt.Chart(slim(rows, *_COLUMNS, "added_instructions", "label", "much")).encode(
        y=alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=axis), tooltip=tooltip
    )
    layers = _by_instructions(base, rows) if _counted(first) else _by_time(base, rows)
    chart = alt.layer(*layers).properties(width="container", height=ROW_PX * len(order))
    return titled(chart, _claim(first), _how(rows), min_width_px=330)


def _by_time(base: alt.Chart, rows: pl.DataFrame) -> tuple[alt.Chart, ...]:
    room = alt.Scale(domainMax=1.3 * float(rows["added_high"].max() or rows["added"].max() or 0))  # type: ignore[arg-type]
    x = alt.X("added:Q", title="server CPU added, µs per operation", scale=room)
    coloured = base.encode(color=verdict_colour(CPU, labelLimit=0))
    return interval_ticks(coloured, x, "added_low", "added_high")


def _by_instructions(base: alt.Chart, rows: pl.DataFrame) -> tuple[alt.Chart, ...]:
    shades = alt.Scale(domain=[_MORE, _LESS], range=[VERDICT_COLOURS["slower"], VERDICT_COLOURS["unsure"]])
    room = alt.Scale(domainMax=1.35 * float(rows["added_instructions"].max() or 0))  # type: ignore[arg-type]
    x = alt.X("added_instructions:Q", title="instructions added to an operation", scale=room)
    bars = base.mark_bar(height=13).encode(x=x, color=alt.Color("much:N", title=None, scale=shades))
    return bars, row_labels(base, "added_instructions")


def _how(rows: pl.DataFrame) -> str:
    where = (
        f"{rows['step'][0]} on {', '.join(in_order(rows['build']))}, against {rows['against'][0]} of the same level"
    )
    if _counted(rows):
        return f"{where}; instructions counted one by one, in brackets the server CPU, of {rounds_of(rows['n'])}."
    sure = coverage_of(rows["coverage"])
    return f"{where} and round: median of {rounds_of(rows['n'])}, the bar is its interval ({sure})."


def instrument_text(costs: pl.DataFrame) -> str:
    """The tree as lines: µs that a part adds, with interval and verdict; instructions; events, and ns of each."""
    if costs.is_empty():
        return NOT_TAKEN_APART
    lines = [f"{'added, µs/o':32}{'instructions':>13}{'events':>8}{'ns each':>9}{'i. each':>9}  part"]
    for (step,), rows in costs.group_by("step", maintain_order=True):
        lines += ["", str(step), *(_line(row) for row in rows.to_dicts())]
    return "\n".join(lines)


def _line(row: Row) -> str:
    low, high, counted, events = (
        row[name] for name in ("added_low", "added_high", "added_instructions", "per_statement")
    )
    reach = "no interval" if low is None else f"{low:+.2f} to {high:+.2f}"
    added = f"{COST_SIGNS[row['verdict']]} {row['added']:+.2f} ({reach}) n={row['n']}"
    each = "?" if row["each_ns"] is None else f"{row['each_ns']:,.0f}"
    instructions = "–" if counted is None else f"{counted:+,.0f}"
    instructions_each = "–" if counted is None or not events else f"{counted / events:,.0f}"
    per_statement = "–" if events is None else f"{events:,.1f}"
    numbers = f"{added:32}{instructions:>13}{per_statement:>8}{each:>9}{instructions_each:>9}"
    return f"{numbers}  {'  ' * row['level']}{row['part']}"


def sums_table(costs: pl.DataFrame) -> GT:
    """A table of the cost of each part that was taken apart, beside the sum of its own parts."""
    return table(sums_of_parts(costs), name="sums")


def _name(row: dict[str, Any]) -> str:
    """A part's name, indented by its level; of many instruments, the first and the number of the others."""
    first, *others = str(row["part"]).split(", ")
    more = f" and {len(others)} more" if others else ""
    return f"{_INDENT * int(row['level'])}{first}{more}"


def _label(row: dict[str, Any]) -> str:
    """`+0.52 µs`, or instructions where they were counted."""
    counted, time = row["added_instructions"], f"{row['added']:+,.2f} µs"
    return time if counted is None else f"{counted:+,.0f} ({time})"


def _counted(costs: pl.DataFrame) -> bool:
    return costs["added_instructions"].null_count() == 0


def _claim(costs: pl.DataFrame) -> str:
    """The most expensive kind, and single instrument: by instructions, or by time where the rounds show a cost."""
    parts = costs.filter(pl.col("level") > 0)
    if _counted(costs):
        parts = parts.with_columns(pl.format("{} instructions", _written("added_instructions", ",.0f")).alias("cost"))
        parts = parts.sort("added_instructions", descending=True)
    else:
        parts = parts.with_columns(pl.format("{} µs", _written("added", ".1f")).alias("cost"))
        parts = parts.filter(verdict="slower").sort("added", descending=True)
    if parts.is_empty():
        return "The rounds show no part to cost anything."
    kinds = parts.filter(level=1)
    first = (parts if kinds.is_empty() else kinds).row(0, named=True)
    single = parts.filter(pl.col("level") > 1, ~pl.col("part").str.contains("[%,]")).head(1).to_dicts()
    claim = f"{first['part']} costs most: {first['cost']} per operation"
    if single and single[0]["part"] != first["part"]:
        claim += f"; of single instruments, {single[0]['part']}: {single[0]['cost']}"
    return f"{claim}."


def _written(column: str, form: str) -> pl.Expr:
    return pl.col(column).map_elements(lambda value: format(value, form), pl.String)
