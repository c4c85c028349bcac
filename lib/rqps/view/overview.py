"""Many steps by many dbms, coloured by rQPS: the whole at a glance, also on a phone."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.cells import TOLD, claim_of, colour, how_of, ink
from rqps.view.names import short_dbms, short_steps
from rqps.view.rows import with_rows
from rqps.view.theme import INK, in_order, titled

ROW_PX = 18
PHONE_PX, LABELS_PX = 358, 146
LETTER_PX = 6.4
ROOM_FOR_SIGN_PX, ROOM_FOR_NUMBER_PX = 48, 20
"""Of a cell: for sign and number, and for the number alone."""
PALE = 0.55


def overview(cells: pl.DataFrame, of_all: str) -> Any:
    """A row a step, below the name of its group; the sign stands where there is room for it."""
    rows, end = _rows(cells)
    columns = in_order(rows["head"])
    order, headings = _order(rows)
    column_px = (PHONE_PX - LABELS_PX) / len(columns)
    upright = max(map(len, columns)) * LETTER_PX > column_px
    plain: dict[str, Any] = {"title": None, "ticks": False, "domain": False, "labelLimit": 0, "labelOverlap": False}
    named: dict[str, Any] = {"labelExpr": "slice(datum.value, indexof(datum.value, '⋅') + 2)", "labelFontSize": 11}
    x = alt.X("head:N", sort=columns, axis=alt.Axis(orient="top", labelAngle=-90 if upright else 0, **plain))
    y = alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=alt.Axis(values=order, **named, **plain))
    base = alt.Chart(rows.drop("metric", "host", "position", strict=False)).encode(x=x, y=y, tooltip=TOLD)
    column = f"width / {len(columns)}"
    words = f"{column} >= {ROOM_FOR_SIGN_PX} ? datum.label : {column} >= {ROOM_FOR_NUMBER_PX} ? datum.number : ''"
    letters = f"{column} >= {ROOM_FOR_SIGN_PX} ? 10.5 : 9"
    sure = alt.when("datum.verdict === 'unsure'").then(alt.value(PALE)).otherwise(alt.value(1))
    layers: list[Any] = [
        base.mark_rect(stroke="#ffffff", strokeWidth=1).encode(color=colour(cells)),
        base.mark_text(fontSize=alt.ExprRef(letters), text=alt.ExprRef(words)).encode(color=ink(), opacity=sure),
    ]
    if not headings.is_empty():
        # Across both the names and the cells: as an axis's label the longest would take the cells' room.
        heading = alt.Chart(headings).mark_text(align="left", fontWeight="bold", fontSize=12, dy=2, color=INK)
        layers.append(heading.encode(x=alt.value(-LABELS_PX), y=y, text="group:N"))
    chart = alt.layer(*layers).properties(width="container", height=ROW_PX * len(order))
    ending = f" All names end with {end}, which is left out." if end else ""
    how = f"{how_of(cells, 'hover for')} Pale: unsure.{ending}{of_all}"
    return titled(chart, claim_of(cells), how, min_width_px=min(PHONE_PX, LABELS_PX + 22 * len(columns)))


def _rows(cells: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The cells with short names, and what is left out of them."""
    heads, end = short_dbms([*cells["base"], *cells["dbms"]])
    group = pl.col("group") if "group" in cells.columns else pl.lit("").alias("group")
    named = cells.with_columns(
        pl.col("dbms").replace_strict(heads, default=pl.col("dbms")).alias("head"),
        pl.col("step").replace_strict(short_steps(cells["step"])).alias("name"),
        group,
    )
    return with_rows(named, "group", "name"), end


def _order(rows: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """The rows of the axis, and those of them that are headings."""
    order: list[str] = []
    headings: list[tuple[str, str]] = []
    for (group,), of_group in rows.group_by("group", maintain_order=True):
        if group:
            headings.append((f"{group} ⋅ ", str(group)))
        order += [*(row for row, name in headings if name == group), *in_order(of_group["row"])]
    return order, pl.DataFrame(headings, schema={"row": pl.String, "group": pl.String}, orient="row")
