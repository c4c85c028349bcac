"""Steps by dbms, coloured by rQPS."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.cells import TOLD, cells_of, claim_of, colour, how_of, ink
from rqps.view.overview import overview
from rqps.view.theme import in_order, titled, told_apart

ROW_PX = 34
COLUMN_PX = 64
LABELS_PX = 150
LINE_PX = 14
MANY_STEPS = 12
"""More than these are drawn in rows of half the height, in their groups."""

# A name is broken at its dots and underscores where a column is too narrow for it.
_BROKEN = "split(replace(datum.value, /([._])/g, '␟$1'), '␟')"


def heatmap(summary: pl.DataFrame, metric: str = "operations_per_s") -> Any:
    """One cell a step and dbms: the sign of the verdict, the median ratio, and its interval below."""
    numbers, of_all = told_apart(summary.filter(metric=metric))
    cells = cells_of(numbers)
    steps, dbms = in_order(cells["step"]), in_order(cells["dbms"])
    if len(steps) > MANY_STEPS:
        return overview(cells, of_all)
    top: dict[str, Any] = {"orient": "top", "labelAngle": 0, "labelLimit": 0, "labelOverlap": False}
    if len(dbms) > 3 or max(map(len, dbms)) > 11:
        top["labelExpr"] = _BROKEN
        # Lines of a label grow downwards from where a single one would stand: into the cells.
        top["labelPadding"] = 2 + LINE_PX * max(name.count(".") + name.count("_") for name in dbms)
    plain: dict[str, Any] = {"title": None, "ticks": False, "domain": False}
    base = alt.Chart(cells).encode(
        x=alt.X("dbms:N", sort=dbms, axis=alt.Axis(**top, **plain)),
        y=alt.Y("step:N", sort=steps, axis=alt.Axis(**plain)),
        tooltip=TOLD,
    )
    chart = alt.layer(
        base.mark_rect(stroke="#ffffff", strokeWidth=2).encode(color=colour(cells)),
        base.mark_text(fontSize=13, fontWeight="bold", dy=-5).encode(text="label:N", color=ink()),
        base.mark_text(fontSize=10, dy=9).encode(text="interval:N", color=ink()),
    ).properties(width="container", height=ROW_PX * len(steps))
    how = how_of(cells, "below it") + of_all
    return titled(chart, claim_of(cells), how, min_width_px=LABELS_PX + COLUMN_PX * len(dbms))
