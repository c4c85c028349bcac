"""Which instruments cost what: a tree of parts, with what each adds to an operation."""

from typing import Any

import altair as alt
import polars as pl

from rqps.charts.rows import ROW_PX, slim
from rqps.charts.text import Sentences
from rqps.charts.theme import (
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
_INDENT = "\u2003"
_COLUMNS = ("row", "part", "level", "n", "added_us", "added_low_us", "added_high_us", "share", "coverage", "verdict")


def instrument_bars(costs: pl.DataFrame) -> Any:
    """A row a part, below the part that it was taken from; of the first step."""
    if costs["level"].max() in (None, 0):
        return Sentences([NOT_APART])
    words = verdict_words(CPU)
    first = costs.filter(step=costs["step"][0]).head(MOST_ROWS)
    rows = first.with_columns(
        pl.struct("level", "part").map_elements(_name, pl.String).alias("row"),
        (pl.col("cpu_ratio") - 1).alias("share"),
        pl.col("verdict").replace(words),
        pl.format("{} µs", pl.col("added_us").map_elements("{:+,.2f}".format, pl.String)).alias("label"),
    )
    order = rows["row"].to_list()
    axis = alt.Axis(title=None, ticks=False, domain=False, labelLimit=LABELS_PX, labelOverlap=False)
    shades = alt.Scale(domain=[words[each] for each in VERDICT_COLOURS], range=list(VERDICT_COLOURS.values()))
    told: list[Any] = ["part:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    told += [alt.Tooltip(f"{name}:Q", format="+,.3f") for name in ("added_us", "added_low_us", "added_high_us")]
    told += [alt.Tooltip("share:Q", format="+.1%")]
    room = alt.Scale(domainMax=1.3 * float(rows["added_high_us"].max() or rows["added_us"].max() or 0))  # type: ignore[arg-type]
    x = alt.X("added_us:Q", title="server CPU added, µs an operation", scale=room)
    base = alt.Chart(slim(rows, *_COLUMNS, "label")).encode(
        y=alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=axis),
        color=alt.Color("verdict:N", title=None, scale=shades),
        tooltip=told,
    )
    zero = alt.Chart(pl.DataFrame({"added_us": [0.0]})).mark_rule(color="#8a949c", strokeDash=[4, 3])
    chart = alt.layer(
        zero.encode(x="added_us:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("added_low_us:Q"), x2="added_high_us:Q"),
        base.mark_tick(thickness=3, size=14).encode(x=x),
        base.mark_text(align="left", dx=6, fontSize=11, color=INK).encode(x="added_high_us:Q", text="label:N"),
    ).properties(width="container", height=ROW_PX * len(order))
    how = (
        f"{rows['step'][0]} on {', '.join(in_order(rows['build']))}, against {rows['against'][0]} of the same level "
        f"and round: median of {rounds_of(rows['n'].to_list())}, the bar is its interval "
        f"({coverage_of(rows['coverage'].to_list())})."
    )
    return titled(chart, _claim(first), how, min_width_px=330)


def instrument_text(costs: pl.DataFrame) -> str:
    """The tree as lines: µs that a part adds, with interval and verdict, events a statement, ns each, the part."""
    if costs.is_empty():
        return NOT_APART
    lines = ["added, µs/o".ljust(32) + "events".rjust(8) + "ns each".rjust(9) + "  part"]
    for (step,), rows in costs.group_by("step", maintain_order=True):
        lines += ["", str(step), *(_line(row) for row in rows.to_dicts())]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    low, high = row["added_low_us"], row["added_high_us"]
    reach = "no interval" if low is None else f"{low:+.2f} to {high:+.2f}"
    added = f"{COST_SIGNS[row['verdict']]} {row['added_us']:+.2f} ({reach}) n={row['n']}"
    events = "–" if row["per_statement"] is None else f"{row['per_statement']:,.1f}"
    each = "?" if row["each_ns"] is None else f"{row['each_ns']:,.0f}"
    return f"{added:32}{events:>8}{each:>9}  {'  ' * row['level']}{row['part']}"


def _name(row: dict[str, Any]) -> str:
    """A part's name, indented by its level; of many instruments, the first and how many more."""
    first, *others = str(row["part"]).split(", ")
    more = f" and {len(others)} more" if others else ""
    return f"{_INDENT * int(row['level'])}{first}{more}"


def _claim(costs: pl.DataFrame) -> str:
    parts = costs.filter(pl.col("level") > 0, verdict="slower").sort("added_us", descending=True)
    if parts.is_empty():
        return "The rounds show no part to cost anything."
    first = parts.filter(level=1).head(1).to_dicts() or parts.head(1).to_dicts()
    names = parts.filter(level=parts["level"].max()).head(1).to_dicts()
    told = f"{first[0]['part']} costs most: {first[0]['added_us']:.1f} µs an operation"
    if names and names[0]["part"] != first[0]["part"]:
        told += f"; of single parts, {names[0]['part']}: {names[0]['added_us']:.1f} µs"
    return f"{told}."
