"""Lines: throughput and counters over time, and the ratio of each step over the releases."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.names import short_dbms, short_steps
from rqps.view.rows import slim
from rqps.view.theme import GRID, INK, MUTED, SERIES, VERDICT_COLOURS, titled
from rqps.view.words import Sentences, by_host, in_order, rounds_of

PANEL_HEIGHT_PX = 130
AXES_PX = 90
MOST_STEPS = 6
MOST_POINTS = 4500
_SECONDS = alt.Axis(grid=False, tickMinStep=1, format="~g")
# 40k, and 0.5 rather than 500m.
_AXIS = alt.Axis(tickCount=4, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')")

RELEASE_PX, RELEASE_HEIGHT_PX, RELEASE_AXES_PX = 150, 76, 40
COLUMNS = 5
GREY = (0.95, 1.05)
"""As the published studies colour it: too near to 1 to speak of."""
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
FEWEST = 3
"""Releases, the base among them, that can show a course."""
_COLOURS = VERDICT_COLOURS | {"base": INK}


def throughput(series: pl.DataFrame, steps: list[str] | None = None) -> Any:
    """Operations/s by second, one panel per step: the median of the rounds in a band from lowest to highest."""
    if series.is_empty():
        return Sentences(["The load generator of this workload does not report each second."])
    series = by_host(series)
    shown = (steps or in_order(series["step"]))[:MOST_STEPS]
    lines = series.filter(pl.col("step").is_in(shown))
    if lines.group_by("step", "dbms").len()["len"].max() == 1:
        return Sentences(["Each step was measured for a second only, which has no course."])
    dbms = in_order(lines["dbms"])
    colour = alt.Color("dbms:N", title=None, scale=alt.Scale(domain=dbms, range=list(SERIES)))
    tooltip: list[Any] = ["dbms:N", "second:Q", alt.Tooltip("n:Q", title="rounds")]
    tooltip += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("median", "low", "high")]
    base = alt.Chart(slim(lines, "step", "dbms", "second", "median", "low", "high", "n")).encode(
        x=alt.X("second:Q", title="seconds since the step began", axis=_SECONDS),
        color=colour,
        tooltip=tooltip,
    )
    y = alt.Y("median:Q", title="operations/s", scale=alt.Scale(zero=True), axis=_AXIS)
    panel = alt.layer(
        base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", title="operations/s"), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
    )
    order = [step for step in in_order(series["step"]) if step in shown]
    return _panels(panel, "step", order, _steadiness(lines), _how_throughput(lines, series["step"].n_unique()))


def counters(series: pl.DataFrame) -> Any:
    """The counters of one run, one panel per measure, from its first measured second to its last."""
    if series.is_empty():
        return Sentences(["Nothing was sampled: no step lasts a number of seconds here."])
    who = in_order(series["who"])
    panel = (
        alt.Chart(slim(_thinned(series), "measure", "who", "step", "second", "value"))
        .mark_line(strokeWidth=1.6)
        .encode(
            x=alt.X("second:Q", title="seconds since the first step began", axis=_SECONDS),
            y=alt.Y("value:Q", title=None, axis=_AXIS),
            color=alt.Color("who:N", title=None, scale=alt.Scale(domain=who, range=list(SERIES))),
            detail="step:N",
            tooltip=["who:N", "step:N", "second:Q", alt.Tooltip("value:Q", format=",.3~f")],
        )
    )
    busy = series.filter(measure="CPUs busy", who="server").select(pl.col("value").median()).item()
    claim = "" if busy is None else f"The server kept {busy:.2f} CPUs busy, in the median of the seconds."
    how = "One row per second from the system's own counters; n is one run, so there is no interval."
    return _panels(panel, "measure", in_order(series["measure"]), claim or "No counters were recorded.", how)


def _panels(panel: Any, column: str, order: list[str], claim: str, how: str) -> Any:
    header = alt.Header(labelAnchor="start", labelOrient="top", labelPadding=4)
    chart = (
        panel.properties(height=PANEL_HEIGHT_PX, width=680)
        .facet(row=alt.Row(f"{column}:N", sort=order, title=None, header=header), spacing=14)
        .resolve_scale(y="independent")
    )
    made = titled(chart, claim, how, min_width_px=300)
    # A facet can't take the width of its page by itself: the page sets it, less what the axis needs.
    made.usermeta["rqps"]["axes"] = AXES_PX
    return made


def _thinned(series: pl.DataFrame) -> pl.DataFrame:
    """Few enough points for one chart: pieces of equal length, each its mean."""
    lines = series.select("measure", "who", "step").n_unique()
    seconds = float(series["second"].max() or 1)  # type: ignore[arg-type]
    piece_s = max(1.0, seconds * series.select("measure", "who").n_unique() / max(1, MOST_POINTS - lines))
    if piece_s == 1.0:
        return series
    at = (pl.col("second") // piece_s * piece_s).alias("second")
    return series.group_by("measure", "who", "step", at, maintain_order=True).agg(pl.col("value").mean())


def _steadiness(lines: pl.DataFrame) -> str:
    of_line = lines.group_by("step", "dbms").agg((pl.col("median").std() / pl.col("median").mean()).alias("cv"))
    worst = of_line.drop_nulls("cv").sort("cv", "step", "dbms", descending=[True, False, False])
    row = worst.row(0, named=True)
    where = f"{row['step']}, {row['dbms']}"
    return f"From second to second throughput varies by at most {100 * row['cv']:.1f} % of its mean ({where})."


def _how_throughput(lines: pl.DataFrame, steps: int) -> str:
    shown = lines["step"].n_unique()
    some = f" {shown} of {steps} steps are shown." if shown < steps else ""
    n = lines["n"]
    if n.max() == 1:
        return f"Measured seconds only, the warm-up is left out; n is one run, so there is no band.{some}"
    return f"Median of {rounds_of(n)}, in a band from the lowest to the highest; the warm-up is left out.{some}"


def over_releases(series: pl.DataFrame) -> Any:
    """Small charts of one step each, in groups and on one logarithmic axis; the base is 1 and stands in its place."""
    if series["build"].n_unique() < FEWEST:
        return Sentences(["There are too few releases in this study to draw a course over them."])
    points = _points(series)
    low, high = min([*points["low"], GREY[0]]), max([*points["high"], GREY[1]])
    y = alt.Scale(type="log", domain=[0.97 * low, 1.03 * high], nice=False)
    panels = [_of_group(points.filter(group=group), str(group), y) for group in in_order(points["group"])]
    made = titled(
        alt.vconcat(*panels, spacing=6).resolve_scale(color="shared"), _slower(series), _how_releases(series, points)
    )
    made.usermeta["rqps"] |= {"panel": RELEASE_PX + RELEASE_AXES_PX // 2, "minWidth": 300}
    return made


def _points(series: pl.DataFrame) -> pl.DataFrame:
    """One row per release and line; a line is what else differs: a config, a host."""
    heads, _ = short_dbms(series["build"])
    parts = ["config"] + (["host"] if series["host"].n_unique() > 1 else [])
    return series.with_columns(
        pl.col("step").replace_strict(short_steps(series)).alias("name"),
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
    tooltip: list[Any] = ["step:N", "dbms:N", alt.Tooltip("median:Q", format=".3f")]
    tooltip += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("low", "high")]
    tooltip += [alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    base = alt.Chart().encode(x=x, y=alt.Y("median:Q", scale=y, axis=axis), tooltip=tooltip)
    colour = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())))
    dash = {"strokeDash": alt.StrokeDash("line:N", sort=lines, title=None)} if len(lines) > 1 else {}
    grey = alt.Chart().transform_aggregate(points="count()").mark_rect(color=GRID, opacity=0.8)
    panel = alt.layer(
        grey.encode(y=alt.YDatum(GREY[0], scale=y), y2=alt.Y2Datum(GREY[1])),
        base.mark_line(color=MUTED, strokeWidth=1.2).encode(detail="line:N", **dash),
        base.mark_rule(strokeWidth=2.5, opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q", color=colour),
        base.mark_point(filled=True, size=22, opacity=1).encode(color=colour),
        data=shown,
    ).properties(width=RELEASE_PX, height=RELEASE_HEIGHT_PX)
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=11, labelFontWeight="normal", labelPadding=2)
    facet = alt.Facet("name:N", sort=in_order(shown["name"]), header=header)
    return panel.facet(facet=facet, columns=COLUMNS, spacing=10, title=group or alt.Undefined)


def _slower(series: pl.DataFrame) -> str:
    last = series.filter(pl.col("verdict") != "base").group_by("host", "step", maintain_order=True).last()
    below = (last["verdict"] == "slower").sum()
    base = series["base"][0]
    return f"In the last release {below} of {last.height} steps are shown to be slower than {base}."


def _how_releases(series: pl.DataFrame, points: pl.DataFrame) -> str:
    rounds = rounds_of(series["n"])
    configs = in_order(points["line"])
    lines = f" Lines: {', '.join(configs)}." if len(configs) > 1 else ""
    return (
        f"rQPS of each step over the releases, relative to {series['base'][0]}, on a logarithmic axis that all "
        f"share: median of {rounds}, with its interval. The grey band is 0.95 to 1.05.{lines}"
    )
