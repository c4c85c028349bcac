"""Rows in groups on one axis: a bold row names the step, the rows below it are its dbms.

A single view can take the width of its page, which a facet cannot.
"""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.theme import in_order

BETWEEN = " ⋅ "
ROW_PX = 19

_IS_GROUP = f"indexof(datum.value, '{BETWEEN}') < 0"


def with_rows(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> pl.DataFrame:
    """The frame with the column `row` for such an axis."""
    return frame.with_columns(pl.concat_str(group, row, separator=BETWEEN).alias("row"))


def row_axis(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> alt.Y:
    """The axis: groups and rows in the order in which the frame has them."""
    order: list[str] = []
    for (name,), of_group in frame.group_by(group, maintain_order=True):
        order += [str(name), *(f"{name}{BETWEEN}{each}" for each in in_order(of_group[row]))]
    axis: dict[str, Any] = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelExpr": f"{_IS_GROUP} ? datum.value : split(datum.value, '{BETWEEN}')[1]",
        "labelFontWeight": {"condition": {"test": _IS_GROUP, "value": "bold"}, "value": "normal"},
    }
    return alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=alt.Axis(**axis))


def slim(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Only what a chart uses, in as many digits as can be seen: the page carries every value."""
    kept = frame.select(*columns)
    return kept.with_columns(pl.col(pl.Float64).round_sig_figs(5))


def height_of(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> int:
    """Pixels for all rows."""
    return ROW_PX * (frame[group].n_unique() + frame.select(group, row).n_unique())
