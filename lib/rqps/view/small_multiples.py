"""A small chart a step: its rQPS over the releases."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.names import short_dbms, short_steps
from rqps.view.rows import slim
from rqps.view.text import Sentences
from rqps.view.theme import GRID, INK, MUTED, VERDICT_COLOURS, in_order, rounds_of, titled

PANEL_PX, HEIGHT_PX = 150, 76
AXES_PX = 40
COLUMNS = 5
GREY = (0.95, 1.05)
"""As the published studies colour it: too near to 1 to speak of."""
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
FEWEST = 3
"""Releases, the base among them, that make a course."""
_COLOURS = VERDICT_COLOURS | {"base": INK}


def over_releases(series: pl.DataFrame) -> Any:
    """Small charts in groups, all on one logarithmic axis; the base is 1 and stands in its place."""
    if series["build"].n_unique() < FEWEST:
        return Sentences(["There are too few releases in this study to draw a course over them."])
    points = _points(series)
    low, high = min([*points["low"], GREY[0]]), max([*points["high"], GREY[1]])
    y = alt.Scale(type="log", domain=[0.97 * low, 1.03 * high], nice=False)
    panels = [_of_group(points.filter(group=group), str(group), y) for group in in_order(points["group"])]
    made = titled(alt.vconcat(*panels, spacing=6).resolve_scale(color="shared"), _claim(series), _how(series, points))
    made.usermeta["rqps"] |= {"panel": PANEL_PX + AXES_PX // 2, "minWidth": 300}
    return made


def _points(series: pl.DataFrame) -> pl.DataFrame:
    """One row a release and line; a line is what else differs: a config, a host."""
    heads, _ = short_dbms(series["build"])
    parts = ["config"] + (["host"] if series["host"].n_unique() > 1 else [])
    return series.with_columns(
        pl.col("step").replace_strict(short_steps(series["step"])).alias("name"),
        pl.col("build").replace_strict(heads).alias("release"),
        pl.concat_str(parts, separator=" on ").alias("line"),
        pl.col("low", "high").fill_null(pl.col("median")),
    )


def _of_group(points: pl.DataFrame, group: str, y: alt.Scale) -> Any:
    shown = slim(points, "name", "step", "release", "dbms", "line", "n", "median", "low", "high", "verdict")
    lines = in_order(shown["line"])
    x = alt.X("release:N", sort=in_order(points["release"]), title=None, axis=alt.Axis(labelAngle=-90, grid=False))
    ticks = [tick for tick in TICKS if y.domain[0] <= tick <= y.domain[1]]
    axis = alt.Axis(values=ticks, format="~g", title=None)
    told: list[Any] = ["step:N", "dbms:N", alt.Tooltip("median:Q", format=".3f")]
    told += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("low", "high")]
    told += [alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    base = alt.Chart().encode(x=x, y=alt.Y("median:Q", scale=y, axis=axis), tooltip=told)
    colour = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())))
    dash = {"strokeDash": alt.StrokeDash("line:N", sort=lines, title=None)} if len(lines) > 1 else {}
    grey = alt.Chart().transform_aggregate(points="count()").mark_rect(color=GRID, opacity=0.8)
    panel = alt.layer(
        grey.encode(y=alt.YDatum(GREY[0], scale=y), y2=alt.Y2Datum(GREY[1])),
        base.mark_line(color=MUTED, strokeWidth=1.2).encode(detail="line:N", **dash),
        base.mark_rule(strokeWidth=2.5, opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q", color=colour),
        base.mark_point(filled=True, size=22, opacity=1).encode(color=colour),
        data=shown,
    ).properties(width=PANEL_PX, height=HEIGHT_PX)
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=11, labelFontWeight="normal", labelPadding=2)
    facet = alt.Facet("name:N", sort=in_order(shown["name"]), header=header)
    return panel.facet(facet=facet, columns=COLUMNS, spacing=10, title=group or alt.Undefined)


def _claim(series: pl.DataFrame) -> str:
    last = series.filter(pl.col("verdict") != "base").group_by("host", "step", maintain_order=True).last()
    below = (last["verdict"] == "slower").sum()
    base = series["base"][0]
    return f"In the last release {below} of {last.height} steps are shown to be slower than {base}."


def _how(series: pl.DataFrame, points: pl.DataFrame) -> str:
    rounds = rounds_of(series["n"].to_list())
    configs = in_order(points["line"])
    lines = f" Lines: {', '.join(configs)}." if len(configs) > 1 else ""
    return (
        f"rQPS of each step over the releases, relative to {series['base'][0]}, on a logarithmic axis that all "
        f"share: median of {rounds}, with its interval. The grey band is 0.95 to 1.05.{lines}"
    )
