"""A heat map of steps by dbms, coloured by ratio: large cells for few steps, small cells in groups for many steps."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import altair as alt
import polars as pl

from rqps.numbers import change, formatted, ratio
from rqps.show.rows import BETWEEN, with_rows
from rqps.show.sentences import finding, verdict_counts
from rqps.show.theme import COLOURS, INK, LIMITS, PALE, titled
from rqps.show.words import (
    NOT_COMPARED,
    Sentences,
    by_host,
    change_interval,
    coverage_of,
    first_of_many,
    in_order,
    interval_of,
    legend_of,
    own_warnings,
    rounds_of,
    short_dbms,
    short_steps,
    signs_of,
    verdict_words,
)
from rqps.stats import THROUGHPUTS, TITLES, metric_of
from rqps.stats.pairing import VERDICT_SETTINGS

MANY_STEPS = 12
"""Maximum number of steps that are drawn in large cells; if there are more, all are drawn in rows of half the
height, by group."""
ROW_PX, COLUMN_PX, LABELS_PX, LINE_PX = 34, 64, 150, 14
SMALL_ROW_PX, SMALL_LABELS_PX, SMALL_COLUMN_PX = 18, 146, 22
PHONE_PX = 358
LETTER_PX = 6.4
ROOM_FOR_SIGN_PX, ROOM_FOR_NUMBER_PX = 48, 20
"""Minimum widths of a small cell: to show the sign of its verdict (`▼`) and the number, and to show the number
alone."""
MORE_FOR_PERCENT_PX = 24
"""The further width that a cell needs for a change in percent (`▼ −12.3 %`) in place of a ratio (`▼ 0.88`)."""
SURE = alt.when("datum.verdict === 'unsure'").then(alt.value(PALE)).otherwise(alt.value(1))
"""The opacity of a cell: `PALE` if its verdict is unsure, else 1."""

_AFTER_MEAN: list[Any] = [
    "interval:N",
    alt.Tooltip("coverage:Q", format=".1%", title="coverage of the interval"),
    "verdict:N",
    alt.Tooltip("needs:N", title="to be sure"),
    alt.Tooltip("warned:N", title="warnings"),
]
PLAIN_AXIS: dict[str, Any] = {"title": None, "ticks": False, "domain": False}
_NOT_DRAWN = (
    *("metric", "host", "table_position", "kind", "range"),
    *("clients", "base_estimate", "me_estimate", "build", "config"),
    *("low", "high", "sure_low", "sure_high", "rounds_needed", *VERDICT_SETTINGS),
)
# Vega expressions that wrap a label: the id of a dbms at its dots and underscores, a name at its blanks.
_BROKEN = "split(replace(datum.value, /([._])/g, '␟$1'), '␟')"
_BROKEN_NAME = "split(datum.value, ' ')"


def heatmap(
    compared: pl.DataFrame,
    metric: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
    *,
    percent: bool = False,
) -> Any:
    """One cell per step and dbms: the sign of the verdict and the ratio, coloured. `names` maps dbms to names. With
    `percent`, numbers are changes in percent of the base."""
    metric = metric or metric_of(compared)
    if metric not in set(compared["metric"]):
        return Sentences([NOT_COMPARED])
    numbers, of_all = own_warnings(compared.filter(metric=metric))
    cells = _cells(numbers, names, percent)
    drawn, left_out = first_of_many(cells, cells)
    many = cells["step"].n_unique() > MANY_STEPS
    chart, ending, width = _many(drawn, percent) if many else _few(cells, percent, named=bool(names))
    base, what = cells["base"][0], TITLES[metric]
    base = names.get(base, base)
    claim = finding(f"Against {base}: {verdict_counts(numbers['verdict'])}")
    what = f"rQPS, {what}" if metric in THROUGHPUTS else f"{what[0].upper()}{what[1:]}"
    what = f"Change of {TITLES[metric]} from {base}, in percent" if percent else f"{what} relative to {base}"
    how = (
        f"{what}: mean of {rounds_of(cells['n'])}, each paired with its round's base; "
        f"{'hover for' if many else 'below'} the {coverage_of(cells['coverage'])} of the mean. "
        f"{legend_of(cells)} Pale: unsure."
    )
    return titled(chart, claim, how + ending + of_all + left_out, min_width_px=width)


def _few(cells: pl.DataFrame, percent: bool, *, named: bool) -> tuple[Any, str, int]:
    steps, dbms = in_order(cells["step"]), in_order(cells["dbms"])
    top: dict[str, Any] = {"orient": "top", "labelAngle": 0, "labelLimit": 0, "labelOverlap": False}
    if len(dbms) > 3 or max(map(len, dbms)) > 11:
        top["labelExpr"] = _BROKEN_NAME if named else _BROKEN
        ends = " " if named else "._"
        # A label of several lines grows downwards, into the cells: the padding is the height of its further lines.
        top["labelPadding"] = 2 + LINE_PX * max(sum(map(name.count, ends)) for name in dbms)
    base = alt.Chart(cells.select(pl.exclude("group", *_NOT_DRAWN))).encode(
        x=alt.X("dbms:N", sort=dbms, axis=alt.Axis(**top, **PLAIN_AXIS)),
        y=alt.Y("step:N", sort=steps, axis=alt.Axis(**PLAIN_AXIS)),
        tooltip=_tooltip(percent),
    )
    chart = alt.layer(
        base.mark_rect(stroke="#ffffff", strokeWidth=2).encode(color=_colour(cells, percent), fillOpacity=SURE),
        base.mark_text(fontSize=13, fontWeight="bold", dy=-5).encode(text="label:N", color=ink_of_cells("estimate")),
        base.mark_text(fontSize=10, dy=9).encode(text="interval:N", color=ink_of_cells("estimate")),
    ).properties(width="container", height=ROW_PX * len(steps))
    return chart, "", LABELS_PX + (COLUMN_PX + MORE_FOR_PERCENT_PX * percent) * len(dbms)


def _many(cells: pl.DataFrame, percent: bool) -> tuple[Any, str, int]:
    """A heat map of small cells: rows below the headings of their groups; wide cells show the sign of the verdict."""
    heads, end = short_dbms([*cells["base"], *cells["dbms"]])
    named = cells.with_columns(
        pl.col("dbms").replace_strict(heads, default=pl.col("dbms")).alias("head"),
        pl.col("step").replace_strict(short_steps(cells)).alias("name"),
        pl.format("{}{}", "group", pl.lit(BETWEEN)).alias("heading"),
    )
    rows = with_rows(named, "group", "name")
    columns = in_order(rows["head"])
    headings = rows.filter(pl.col("group") != "").select("group", row="heading").unique(maintain_order=True)
    order: list[str] = []
    for (heading,), of_group in rows.group_by("heading", maintain_order=True):
        order += [*headings.filter(row=heading)["row"], *in_order(of_group["row"])]
    column_px = (PHONE_PX - SMALL_LABELS_PX) / len(columns)
    upright = max(map(len, columns)) * LETTER_PX > column_px
    plain = PLAIN_AXIS | {"labelLimit": 0, "labelOverlap": False}
    label: dict[str, Any] = {"labelExpr": "slice(datum.value, indexof(datum.value, '⋅') + 2)", "labelFontSize": 11}
    x = alt.X("head:N", sort=columns, axis=alt.Axis(orient="top", labelAngle=-90 if upright else 0, **plain))
    y = alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=alt.Axis(values=order, **label, **plain))
    base = alt.Chart(rows.select(pl.exclude("heading", "position", *_NOT_DRAWN))).encode(
        x=x, y=y, tooltip=_tooltip(percent)
    )
    column, room_px = f"width / {len(columns)}", ROOM_FOR_SIGN_PX + MORE_FOR_PERCENT_PX * percent
    text = f"{column} >= {room_px} ? datum.label : {column} >= {ROOM_FOR_NUMBER_PX} ? datum.number : ''"
    letters = f"{column} >= {room_px} ? 10.5 : 9"
    layers: list[Any] = [
        base.mark_rect(stroke="#ffffff", strokeWidth=1).encode(color=_colour(cells, percent), fillOpacity=SURE),
        base.mark_text(fontSize=alt.ExprRef(letters), text=alt.ExprRef(text)).encode(color=ink_of_cells("estimate")),
    ]
    if not headings.is_empty():
        # Headings may extend over the cells. As labels of the axis, long headings would make the cells narrower.
        heading = alt.Chart(headings).mark_text(align="left", fontWeight="bold", fontSize=12, dy=2, color=INK)
        layers.append(heading.encode(x=alt.value(-SMALL_LABELS_PX), y=y, text="group:N"))
    chart = alt.layer(*layers).properties(width="container", height=SMALL_ROW_PX * len(order))
    ending = f" All names end with {end}, which is left out." if end else ""
    width = min(PHONE_PX, SMALL_LABELS_PX + SMALL_COLUMN_PX * len(columns))
    return chart, ending, width


def _cells(numbers: pl.DataFrame, names: Mapping[str, str], percent: bool) -> pl.DataFrame:
    """The numbers with `label`, the ratio with its sign; `number`, the ratio for a narrow cell; and `interval`. With
    `percent`, these are changes in percent, and the column `change` has the change as a share. `verdict` is replaced
    by the metric's word for it, such as `cheaper`."""
    metric = str(numbers["metric"][0])
    sign = pl.col("verdict").replace_strict(signs_of(metric), return_dtype=pl.String)
    more = pl.col("estimate") - 1
    number = pl.col("estimate").map_elements(change if percent else ratio, pl.String)
    short = pl.col("estimate").map_elements(lambda value: formatted(value, ".2f"), pl.String).replace("1.00", "~1")
    if percent:
        short = more.map_elements(lambda value: formatted(100 * value, "+.0f"), pl.String)
        numbers = numbers.with_columns(change=more)
    reach = pl.struct("low", "high", "estimate").map_elements(change_interval if percent else interval_of, pl.String)
    mark = pl.when(pl.col("warned") != "").then(pl.lit(" ⚠")).otherwise(pl.lit(""))
    return by_host(numbers, names).with_columns(
        pl.format("{} {}{}", sign, number, mark).alias("label"),
        short.alias("number"),
        reach.alias("interval"),
        pl.col("verdict").replace(verdict_words(metric)),
    )


def _tooltip(percent: bool) -> list[Any]:
    mean = alt.Tooltip("estimate:Q", format=".3f", title="mean ratio")
    if percent:
        mean = alt.Tooltip("change:Q", format="+.2%", title="mean change")
    return ["step:N", "dbms:N", "base:N", alt.Tooltip("n:Q", title="rounds"), mean, *_AFTER_MEAN]


def _colour(cells: pl.DataFrame, percent: bool) -> alt.Color:
    """The colours of the cells: orange is worse, for costs and for throughput."""
    colours = COLOURS if cells["metric"][0] in THROUGHPUTS else COLOURS[::-1]
    return colour_of_cells("estimate", colours, percent=percent)


def colour_of_cells(column: str, colours: Sequence[str] = COLOURS, *, percent: bool = False) -> alt.Color:
    """The colour encoding of a ratio: the colour changes at the same ratios as in the published studies. With
    `percent`, the legend has changes in percent in place of ratios."""
    scale = alt.Scale(type="threshold", domain=list(LIMITS), range=list(colours))
    labels: dict[str, Any] = {"title": "ratio", "format": ".2f"}
    if percent:
        change_of = "format(100 * (datum.value - 1), '+.0f')"
        labels = {"title": "change, %", "labelExpr": f"isFinite(datum.value) ? {change_of} : ''"}
    legend = alt.Legend(gradientLength=200, direction="horizontal", **labels)
    return alt.Color(f"{column}:Q", scale=scale, legend=legend)


def ink_of_cells(column: str) -> Any:
    """The colour of text on a cell: white on the two darkest colours, black on all others."""
    dark = f"datum.{column} < {LIMITS[0]} || datum.{column} >= {LIMITS[-1]}"
    return alt.when(f"datum.verdict !== 'unsure' && ({dark})").then(alt.value("#ffffff")).otherwise(alt.value(INK))
