"""Lines: throughput and counters over time, and the ratio of each step over the releases."""

from typing import Any

import altair as alt
import polars as pl

from rqps.show.rows import MOST_POINTS, slim
from rqps.show.theme import GRID, INK, MUTED, SERIES, VERDICT_COLOURS, colours, dbms_colours, numbers, titled
from rqps.show.words import Nothing, by_host, in_order, rounds_of, short_dbms, short_steps, shown_of
from rqps.stats import version_order
from rqps.stats.metrics import THROUGHPUT

PANEL_HEIGHT_PX = 130
AXES_PX = 90
MOST_STEPS = 6
_SECONDS = alt.Axis(grid=False, tickMinStep=1, format="~g")
# 40k, and 0.5 rather than 500m.
NUMBERS_AXIS = alt.Axis(tickCount=4, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')")

RELEASE_PX, RELEASE_HEIGHT_PX, RELEASE_AXES_PX = 150, 76, 40
COLUMNS = 5
GREY = (0.95, 1.05)
"""As the published studies colour it: too near to 1 to speak of."""
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
FEWEST = 3
"""Releases, the base among them, that can show a course."""


def throughput(series: pl.DataFrame, of_steps: int | None = None) -> Any:
    """Operations/s by second, one panel per step: the median of the rounds in a band from lowest to highest.

    `of_steps` is the number of all steps, where these were chosen from more."""
    if series.is_empty():
        return Nothing(["The load generator of this workload does not report each second."])
    series = by_host(series)
    lines = series.filter(pl.col("step").is_in(in_order(series["step"])[:MOST_STEPS]))
    if lines.group_by("step", "dbms").len()["len"].max() == 1:
        return Nothing(["Each step was measured for a second only, which has no course."])
    dbms = in_order(lines["dbms"])
    base = alt.Chart(slim(lines, "step", "dbms", "second", "estimate", "low", "high", "n")).encode(
        x=alt.X("second:Q", title="seconds since the step began", axis=_SECONDS),
        color=colours("dbms", dbms_colours(dbms)),
        tooltip=["dbms:N", "second:Q", *numbers(",.0f")],
    )
    y = alt.Y("estimate:Q", title="operations/s", scale=alt.Scale(zero=True), axis=NUMBERS_AXIS)
    panel = alt.layer(
        base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", title="operations/s"), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
    )
    of_line = lines.group_by("step", "dbms").agg((pl.col("estimate").std() / pl.col("estimate").mean()).alias("cv"))
    worst = of_line.drop_nulls("cv").sort("cv", "step", "dbms", descending=[True, False, False]).row(0, named=True)
    claim = (
        f"From second to second throughput varies by at most {100 * worst['cv']:.1f} % of its mean ({worst['step']}, "
        f"{worst['dbms']})."
    )
    how = f"Median of {rounds_of(lines['n'])}, in a band from the lowest to the highest; the warm-up is left out."
    if lines["n"].max() == 1:
        how = "Measured seconds only, the warm-up is left out; n is one run, so there is no band."
    some = shown_of(lines["step"].n_unique(), of_steps or series["step"].n_unique())
    return _panels(panel, "step", in_order(lines["step"]), claim, how + some)


def counters(series: pl.DataFrame) -> Any:
    """The counters of one run, one panel per measure, from its first measured second to its last."""
    if series.is_empty():
        return Nothing(["Nothing was sampled: no step lasts a number of seconds here."])
    several = series["run"].n_unique() > 1
    who = in_order(series["who"])
    shown = slim(_thinned(series), "measure", "who", "step", "second", "value")
    panel = (alt.Chart(shown).mark_line(strokeWidth=1.6)).encode(
        x=alt.X("second:Q", title="seconds since the first step began", axis=_SECONDS),
        y=alt.Y("value:Q", title=None, axis=NUMBERS_AXIS),
        color=alt.Color("who:N", title=None, scale=alt.Scale(domain=who, range=list(SERIES))),
        detail="step:N",
        tooltip=["who:N", "step:N", "second:Q", alt.Tooltip("value:Q", format=",.3~f")],
    )
    servers = series.filter(pl.col("who").str.starts_with("server"), measure="CPUs busy")
    busy = servers.select(pl.col("value").median()).item()
    claim = "No counters were recorded."
    if busy is not None:
        claim = f"{'A' if several else 'The'} server had {busy:.2f} CPUs busy, in the median of the seconds."
    how = "One row per second from the system's own counters; n is one run, so there is no interval."
    if several:
        how += " In a duet the counters of client and host are of all its servers together."
    return _panels(panel, "measure", in_order(series["measure"]), claim, how)


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


def panels(panel: Any, by: str, order: list[str], claim: str, how: str, *, width_px: int) -> Any:
    """A small chart for each value of a column, three in a row on the same axes."""
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=12, labelPadding=2)
    facet = alt.Facet(f"{by}:N", sort=order, header=header)
    drawn = panel.properties(width=width_px).facet(facet=facet, columns=3, spacing=12)
    made = titled(alt.vconcat(drawn), claim, how)
    made.usermeta["rqps"] |= {"panel": width_px + 25, "minWidth": 300}
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


def release_series(compared: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The ratios of each step in the order of releases, with rows of 1 for the base."""
    ratios = compared.filter(metric=THROUGHPUT)
    ones = {name: pl.lit(1.0) for name in ("estimate", "low", "high")}
    of_step = ["host", "group", "step", "kind", "range", "base"]
    counted = ratios.group_by(of_step).agg(pl.col("n").max())
    bases = runs.select("build", "config", base="dbms").unique()
    of_base = counted.join(bases, on="base").with_columns(dbms="base", verdict=pl.lit("base"), **ones)
    shown = [*of_step, "dbms", "build", "config", "n", *ones, "verdict"]
    order = {step: number for number, step in enumerate(in_order(ratios["step"]))}
    place = pl.col("step").replace_strict(order, return_dtype=pl.Int32)
    both = pl.concat([ratios.select(shown), of_base.select(shown)])
    return both.join(version_order(runs), on="dbms").sort("host", place, "rank")


def over_releases(compared: pl.DataFrame, runs: pl.DataFrame) -> Any:
    """Small charts of one step each, in groups and on one logarithmic axis; the base is 1 and stands in its place."""
    series = release_series(compared, runs)
    if series["build"].n_unique() < FEWEST:
        return Nothing(["There are too few releases in this study to draw a course over them."])
    heads, _ = short_dbms(series["build"])
    differs = ["config"] + (["host"] if series["host"].n_unique() > 1 else [])
    points = series.with_columns(
        pl.col("step").replace_strict(short_steps(series)).alias("name"),
        pl.col("build").replace_strict(heads).alias("release"),
        pl.concat_str(differs, separator=" on ").alias("line"),
        pl.col("low", "high").fill_null(pl.col("estimate")),
    )
    low, high = min([*points["low"], GREY[0]]), max([*points["high"], GREY[1]])
    y = alt.Scale(type="log", domain=[0.97 * low, 1.03 * high], nice=False)
    panels = [_of_group(points.filter(group=group), str(group), y) for group in in_order(points["group"])]
    last = series.filter(pl.col("verdict") != "base").group_by("host", "step", maintain_order=True).last()
    below, base = (last["verdict"] == "slower").sum(), series["base"][0]
    claim = f"In the last release {below} of {last.height} steps are shown to be slower than {base}."
    configs = in_order(points["line"])
    how = (
        f"rQPS of each step over the releases, relative to {base}, on a logarithmic axis that all share: mean of "
        f"{rounds_of(series['n'])}, with its interval. The grey band is 0.95 to 1.05."
        + (f" Lines: {', '.join(configs)}." if len(configs) > 1 else "")
    )
    made = titled(alt.vconcat(*panels, spacing=6).resolve_scale(color="shared"), claim, how)
    made.usermeta["rqps"] |= {"panel": RELEASE_PX + RELEASE_AXES_PX // 2, "minWidth": 300}
    return made


def _of_group(points: pl.DataFrame, group: str, y: alt.Scale) -> Any:
    shown = slim(points, "name", "step", "release", "dbms", "line", "n", "estimate", "low", "high", "verdict")
    lines = in_order(shown["line"])
    x = alt.X("release:N", sort=in_order(points["release"]), title=None, axis=alt.Axis(labelAngle=-90, grid=False))
    ticks = [tick for tick in TICKS if y.domain[0] <= tick <= y.domain[1]]
    axis = alt.Axis(values=ticks, format="~g", title=None)
    tooltip = ["step:N", "dbms:N", *numbers(".3f"), "verdict:N"]
    base = alt.Chart().encode(x=x, y=alt.Y("estimate:Q", scale=y, axis=axis), tooltip=tooltip)
    colour = colours("verdict", VERDICT_COLOURS | {"base": INK})
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
