"""Which instruments cost what: a tree of parts, with what each adds to an operation."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import ROW_PX, slim
from rqps.view.text import Sentences
from rqps.view.theme import (
    COST_SIGNS,
    INK,
    VERDICT_COLOURS,
    coverage_of,
    in_order,
    rounds_of,
    titled,
    verdict_words,
)

CPU = "server_cpu_us_per_operation"
MOST_ROWS = 80
LABELS_PX = 250
NOT_APART = "This study was not taken apart: one that says `take_apart` is, when all its rounds are measured."
WORTH_TELLING = 1.01
"""Times the instructions of the base, from which on a part is taken apart."""
_MORE, _LESS = "more than 1 % of an operation", "less"
_INDENT = "\u2003"
_COLUMNS = (
    *("row", "part", "level", "n", "added_us", "added_low_us", "added_high_us", "share", "coverage", "verdict"),
    *("added_instructions", "label", "much"),
)


def instrument_bars(costs: pl.DataFrame) -> Any:
    """A row a part, below the part that it was taken from; of the first step; by instructions where known."""
    if costs["level"].max() in (None, 0):
        return Sentences([NOT_APART])
    first = costs.filter(step=costs["step"][0]).head(MOST_ROWS)
    rows = first.with_columns(
        pl.struct("level", "part").map_elements(_name, pl.String).alias("row"),
        (pl.col("cpu_ratio") - 1).alias("share"),
        pl.col("verdict").replace(verdict_words(CPU)),
        pl.struct("added_us", "added_instructions").map_elements(_label, pl.String).alias("label"),
        pl.when(pl.col("instructions") > WORTH_TELLING).then(pl.lit(_MORE)).otherwise(pl.lit(_LESS)).alias("much"),
    )
    order = rows["row"].to_list()
    axis = alt.Axis(title=None, ticks=False, domain=False, labelLimit=LABELS_PX, labelOverlap=False)
    told: list[Any] = ["part:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    told += [alt.Tooltip(f"{name}:Q", format="+,.3f") for name in ("added_us", "added_low_us", "added_high_us")]
    told += [alt.Tooltip("share:Q", format="+.1%")]
    told += [alt.Tooltip("added_instructions:Q", format="+,.0f", title="instructions added")]
    base = alt.Chart(slim(rows, *_COLUMNS)).encode(
        y=alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=axis), tooltip=told
    )
    layers = _by_instructions(base, rows) if _counted(first) else _by_time(base, rows)
    chart = alt.layer(*layers).properties(width="container", height=ROW_PX * len(order))
    return titled(chart, _claim(first), _how(rows), min_width_px=330)


def _by_time(base: alt.Chart, rows: pl.DataFrame) -> tuple[alt.Chart, ...]:
    words = verdict_words(CPU)
    shades = alt.Scale(domain=[words[each] for each in VERDICT_COLOURS], range=list(VERDICT_COLOURS.values()))
    room = alt.Scale(domainMax=1.3 * float(rows["added_high_us"].max() or rows["added_us"].max() or 0))  # type: ignore[arg-type]
    x = alt.X("added_us:Q", title="server CPU added, µs an operation", scale=room)
    base = base.encode(color=alt.Color("verdict:N", title=None, scale=shades, legend=alt.Legend(labelLimit=0)))
    zero = alt.Chart(pl.DataFrame({"added_us": [0.0]})).mark_rule(color="#8a949c", strokeDash=[4, 3])
    return (
        zero.encode(x="added_us:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("added_low_us:Q"), x2="added_high_us:Q"),
        base.mark_tick(thickness=3, size=14).encode(x=x),
        base.mark_text(align="left", dx=6, fontSize=11).encode(
            x="added_high_us:Q", text="label:N", color=alt.value(INK)
        ),
    )


def _by_instructions(base: alt.Chart, rows: pl.DataFrame) -> tuple[alt.Chart, ...]:
    shades = alt.Scale(domain=[_MORE, _LESS], range=[VERDICT_COLOURS["slower"], VERDICT_COLOURS["unsure"]])
    room = alt.Scale(domainMax=1.35 * float(rows["added_instructions"].max() or 0))  # type: ignore[arg-type]
    x = alt.X("added_instructions:Q", title="instructions added to an operation", scale=room)
    return (
        base.mark_bar(height=13).encode(x=x, color=alt.Color("much:N", title=None, scale=shades)),
        base.mark_text(align="left", dx=6, fontSize=11).encode(x=x, text="label:N", color=alt.value(INK)),
    )


def _how(rows: pl.DataFrame) -> str:
    where = (
        f"{rows['step'][0]} on {', '.join(in_order(rows['build']))}, against {rows['against'][0]} of the same level"
    )
    if _counted(rows):
        return f"{where}; instructions counted one by one, in brackets the server CPU, of {_rounds(rows)}."
    sure = coverage_of(rows["coverage"].to_list())
    return f"{where} and round: median of {_rounds(rows)}, the bar is its interval ({sure})."


def _rounds(rows: pl.DataFrame) -> str:
    return rounds_of(rows["n"].to_list())


def instrument_text(costs: pl.DataFrame) -> str:
    """The tree as lines: µs that a part adds, interval and verdict; instructions; events a statement, ns of each."""
    if costs.is_empty():
        return NOT_APART
    lines = ["added, µs/o".ljust(32) + "instructions".rjust(13) + "events".rjust(8) + "ns each".rjust(9)]
    lines[-1] += "i. each".rjust(9) + "  part"
    for (step,), rows in costs.group_by("step", maintain_order=True):
        lines += ["", str(step), *(_line(row) for row in rows.to_dicts())]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    low, high = row["added_low_us"], row["added_high_us"]
    reach = "no interval" if low is None else f"{low:+.2f} to {high:+.2f}"
    added = f"{COST_SIGNS[row['verdict']]} {row['added_us']:+.2f} ({reach}) n={row['n']}"
    counted = "–" if row["added_instructions"] is None else f"{row['added_instructions']:+,.0f}"
    each_counted = "–"
    if row["added_instructions"] is not None and row["per_statement"]:
        each_counted = f"{row['added_instructions'] / row['per_statement']:,.0f}"
    events = "–" if row["per_statement"] is None else f"{row['per_statement']:,.1f}"
    each = "?" if row["each_ns"] is None else f"{row['each_ns']:,.0f}"
    return f"{added:32}{counted:>13}{events:>8}{each:>9}{each_counted:>9}  {'  ' * row['level']}{row['part']}"


def _name(row: dict[str, Any]) -> str:
    """A part's name, indented by its level; of many instruments, the first and how many more."""
    first, *others = str(row["part"]).split(", ")
    more = f" and {len(others)} more" if others else ""
    return f"{_INDENT * int(row['level'])}{first}{more}"


def _label(row: dict[str, Any]) -> str:
    """`+0.52 µs`, or instructions where they were counted."""
    counted, time = row["added_instructions"], f"{row['added_us']:+,.2f} µs"
    return time if counted is None else f"{counted:+,.0f} ({time})"


def _counted(costs: pl.DataFrame) -> bool:
    return costs["added_instructions"].null_count() == 0


def _claim(costs: pl.DataFrame) -> str:
    """The dearest kind, and the dearest of the last level: by instructions, or by what the rounds are sure of."""
    parts = costs.filter(pl.col("level") > 0)
    by = "added_instructions" if _counted(costs) else "added_us"
    if not _counted(costs):
        parts = parts.filter(verdict="slower")
    parts = parts.sort(by, descending=True)
    if parts.is_empty():
        return "The rounds show no part to cost anything."

    def words(row: dict[str, Any]) -> str:
        return f"{row[by]:,.0f} instructions" if by == "added_instructions" else f"{row[by]:.1f} µs"

    first = (parts.filter(level=1).head(1).to_dicts() or parts.head(1).to_dicts())[0]
    single = parts.filter(pl.col("level") > 1, ~pl.col("part").str.contains("[%,]")).head(1).to_dicts()
    told = f"{first['part']} costs most: {words(first)} an operation"
    if single and single[0]["part"] != first["part"]:
        told += f"; of single instruments, {single[0]['part']}: {words(single[0])}"
    return f"{told}."
