"""Steps by dbms, coloured by rQPS."""

from typing import Any

import altair as alt
import polars as pl

from rqps.charts.theme import (
    COLOURS,
    INK,
    LIMITS,
    SIGNS,
    by_host,
    coverage_of,
    in_order,
    legend_of,
    rounds_of,
    signs_of,
    titled,
    told_apart,
)

ROW_PX = 34
COLUMN_PX = 64
LABELS_PX = 150
LINE_PX = 14

# A name is broken at its dots and underscores where a column is too narrow for it.
_BROKEN = "split(replace(datum.value, /([._])/g, '␟$1'), '␟')"


def heatmap(summary: pl.DataFrame, metric: str = "operations_per_s") -> Any:
    """One cell a step and dbms: the sign of the verdict, the median ratio, and its interval below."""
    numbers, of_all = told_apart(summary.filter(metric=metric))
    cells = _cells(numbers)
    steps, dbms = in_order(cells["step"]), in_order(cells["dbms"])
    top: dict[str, Any] = {"orient": "top", "labelAngle": 0, "labelLimit": 0, "labelOverlap": False}
    if len(dbms) > 3 or max(map(len, dbms)) > 11:
        top["labelExpr"] = _BROKEN
        # Lines of a label grow downwards from where a single one would stand: into the cells.
        top["labelPadding"] = 2 + LINE_PX * max(name.count(".") + name.count("_") for name in dbms)
    plain: dict[str, Any] = {"title": None, "ticks": False, "domain": False}
    base = alt.Chart(cells).encode(
        x=alt.X("dbms:N", sort=dbms, axis=alt.Axis(**top, **plain)),
        y=alt.Y("step:N", sort=steps, axis=alt.Axis(**plain)),
        tooltip=[
            "step:N",
            "dbms:N",
            "base:N",
            alt.Tooltip("median:Q", format=".3f", title="median"),
            alt.Tooltip("interval:N", title="interval"),
            alt.Tooltip("coverage:Q", format=".1%", title="coverage of the interval"),
            alt.Tooltip("n:Q", title="rounds"),
            "verdict:N",
            alt.Tooltip("needs:N", title="to be sure"),
            alt.Tooltip("warned:N", title="warnings"),
        ],
    )
    colour = alt.Color(
        "median:Q",
        scale=alt.Scale(type="threshold", domain=list(LIMITS), range=list(COLOURS)),
        legend=alt.Legend(title="ratio", gradientLength=240, direction="horizontal", format=".2f"),
    )
    dark = f"datum.median < {LIMITS[0]} || datum.median >= {LIMITS[-1]}"
    ink = alt.when(dark).then(alt.value("#ffffff")).otherwise(alt.value(INK))
    chart = alt.layer(
        base.mark_rect(stroke="#ffffff", strokeWidth=2).encode(color=colour),
        base.mark_text(fontSize=13, fontWeight="bold", dy=-5).encode(text="label:N", color=ink),
        base.mark_text(fontSize=10, dy=9).encode(text="interval:N", color=ink),
    ).properties(width="container", height=ROW_PX * len(steps))
    return titled(chart, _claim(cells), _how(cells) + of_all, min_width_px=LABELS_PX + COLUMN_PX * len(dbms))


def _cells(summary: pl.DataFrame) -> pl.DataFrame:
    sign = pl.col("verdict").replace_strict(signs_of(summary["metric"][0]), return_dtype=pl.String)
    two = [pl.col(name).round(2).map_elements("{:.2f}".format, return_dtype=pl.String) for name in ("low", "high")]
    mark = pl.when(pl.col("warned") != "").then(pl.lit(" ⚠")).otherwise(pl.lit(""))
    value = pl.col("median").map_elements("{:.2f}".format, return_dtype=pl.String)
    return by_host(summary).with_columns(
        pl.format("{} {}{}", sign, value, mark).alias("label"),
        pl.format("{}–{}", *two).fill_null("1 round").alias("interval"),
    )


def _claim(cells: pl.DataFrame) -> str:
    count = dict(cells.group_by("verdict").len().rows())
    told = [f"{count[kind]} {kind}" for kind in SIGNS if kind in count]
    many = "comparison" if cells.height == 1 else "comparisons"
    return f"Of {cells.height} {many} with {cells['base'][0]}: {', '.join(told)}."


def _how(cells: pl.DataFrame) -> str:
    rounds, sure = rounds_of(cells["n"].to_list()), coverage_of(cells["coverage"].to_list())
    return (
        f"rQPS, operations/s relative to {cells['base'][0]}: median of {rounds}, each paired with its round's base; "
        f"below it the {sure} of the median. "
        f"{legend_of(cells['metric'][0])}"
    )
