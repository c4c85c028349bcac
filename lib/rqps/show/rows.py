"""Charts of one row per dbms below the name of its step.

A single view can take the width of its page, which a facet cannot.
"""

from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl

from rqps.show.theme import INK, VERDICT_COLOURS, colours, titled
from rqps.show.words import (
    in_order,
    verdict_words,
)

BETWEEN = " ⋅ "
ROW_PX = 19
MOST_POINTS = 4500
"""Points of one chart: the page carries every value."""
_IS_GROUP = f"indexof(datum.value, '{BETWEEN}') < 0"


def with_rows(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> pl.DataFrame:
    """The frame with the column `row` for such an axis."""
    return frame.with_columns(pl.concat_str(group, row, separator=BETWEEN).alias("row"))


def row_axis(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> tuple[alt.Y, int]:
    """The axis, with groups and rows in the order in which the frame has them, and its height in pixels."""
    order: list[str] = []
    for (name,), of_group in frame.group_by(group, maintain_order=True):
        order += [str(name), *(f"{name}{BETWEEN}{dbms}" for dbms in in_order(of_group[row]))]
    axis: dict[str, Any] = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelExpr": f"{_IS_GROUP} ? datum.value : split(datum.value, '{BETWEEN}')[1]",
        "labelFontWeight": {"condition": {"test": _IS_GROUP, "value": "bold"}, "value": "normal"},
    }
    y = alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=alt.Axis(**axis))
    return y, ROW_PX * len(order)


def slim(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Only what a chart uses, in as many digits as can be seen: the page carries every value."""
    return frame.select(*columns).with_columns(pl.col(pl.Float64).round_sig_figs(5))


def room(times: float, values: pl.Series) -> alt.Scale:
    """A scale that is so many times as long as the longest bar, for the label behind it."""
    return alt.Scale(domainMax=times * float(values.max() or 0))  # type: ignore[arg-type]


def on_rows(layers: Iterable[alt.Chart], height_px: int, claim: str, how: str) -> Any:
    """Layers on the axis of rows as one chart, as wide as its page."""
    chart = alt.layer(*layers).properties(width="container", height=height_px)
    return titled(chart, claim, how, min_width_px=330)


def row_labels(base: alt.Chart, at: str) -> Any:
    """The column `label` of each row, behind the value of `at`."""
    text = base.mark_text(align="left", dx=6, fontSize=11)
    return text.encode(x=f"{at}:Q", text="label:N", color=alt.value(INK))


def verdict_colour(metric: str, title: str | None = None, **legend: Any) -> alt.Color:
    """The colours of the verdicts, by their words."""
    words = verdict_words(metric)
    shades = {words[verdict]: colour for verdict, colour in VERDICT_COLOURS.items()}
    return colours("verdict", shades).title(title).legend(alt.Legend(**legend))
