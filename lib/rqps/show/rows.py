"""Charts with one row per dbms, grouped below the name of the step.

A chart is one view, since a facet can't adapt to the width of its page.
"""

from typing import Any

import altair as alt
import polars as pl

from rqps.show.theme import VERDICT_COLOURS, colours
from rqps.show.words import in_order, verdict_words

BETWEEN = " ⋅ "
ROW_PX = 19
MOST_POINTS = 4500
"""Maximum number of points in one chart: the page contains the value of every point."""
_IS_GROUP = f"indexof(datum.value, '{BETWEEN}') < 0"


def with_rows(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> pl.DataFrame:
    """Adds the column "row" to the frame, by which `row_axis` places marks: the texts of the two given columns,
    joined."""
    return frame.with_columns(pl.concat_str(group, row, separator=BETWEEN).alias("row"))


def row_axis(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> tuple[alt.Y, int]:
    """The axis of rows, in the order of the frame, with the groups as headings; and its height in pixels."""
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
    """The columns that a chart uses, rounded to five significant digits: the page contains every value."""
    return frame.select(*columns).with_columns(pl.col(pl.Float64).round_sig_figs(5))


def room(times: float, values: pl.Series) -> alt.Scale:
    """A scale whose end is `times` the largest value, so that a label fits after the longest bar."""
    return alt.Scale(domainMax=times * float(values.max() or 0))  # type: ignore[arg-type]


def verdict_colour(metric: str) -> alt.Color:
    """The colour encoding of the column `verdict`, which may have verdicts or the metric's words for them
    (`verdict_words`). The legend has the words."""
    words = verdict_words(metric)
    shades = {words[verdict]: colour for verdict, colour in VERDICT_COLOURS.items()}
    legend = alt.Legend(values=list(shades))
    return colours("verdict", shades | VERDICT_COLOURS).title(None).legend(legend)
