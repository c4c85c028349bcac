"""Line charts of throughput and counters over time."""

from typing import Any

import altair as alt
import polars as pl

from rqps.show.rows import MOST_POINTS, slim
from rqps.show.theme import SERIES, colours, dbms_colours, numbers, titled
from rqps.show.words import Nothing, by_host, in_order, rounds_of, shown_of

PANEL_HEIGHT_PX = 130
AXES_PX = 90
MOST_STEPS = 6
_SECONDS = alt.Axis(grid=False, tickMinStep=1, format="~g")
NUMBERS = "format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')"
"""Vega expression for the labels of an axis: 40k for 40,000, but 0.5 and not 500m."""
NUMBERS_AXIS = alt.Axis(tickCount=4, labelExpr=NUMBERS)


def throughput(series: pl.DataFrame) -> Any:
    """Operations/s in each second, one panel per step: the median over the rounds, and a band from the lowest to the
    highest round."""
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
    some = shown_of(lines["step"].n_unique(), series["step"].n_unique())
    return _panels(panel, "step", in_order(lines["step"]), claim, how + some)


def counters(series: pl.DataFrame) -> Any:
    """The counters of one run or one duet over time, one panel per measure."""
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
    # A facet can't adapt to the width of its page: the page sets the width, less the width of the axis.
    made.usermeta["rqps"]["axes"] = AXES_PX
    return made


def panels(panel: Any, by: str, order: list[str], claim: str, how: str, *, width_px: int) -> Any:
    """Small charts, one for each value of a column, three in a row, with shared axes."""
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=12, labelPadding=2)
    facet = alt.Facet(f"{by}:N", sort=order, header=header)
    drawn = panel.properties(width=width_px).facet(facet=facet, columns=3, spacing=12)
    made = titled(alt.vconcat(drawn), claim, how)
    made.usermeta["rqps"] |= {"panel": width_px + 25, "minWidth": 300}
    return made


def _thinned(series: pl.DataFrame) -> pl.DataFrame:
    """The series with few enough points for one chart: seconds are grouped into intervals of equal length, and each
    interval has the mean of its values."""
    lines = series.select("measure", "who", "step").n_unique()
    seconds = float(series["second"].max() or 1)  # type: ignore[arg-type]
    piece_s = max(1.0, seconds * series.select("measure", "who").n_unique() / max(1, MOST_POINTS - lines))
    if piece_s == 1.0:
        return series
    at = (pl.col("second") // piece_s * piece_s).alias("second")
    return series.group_by("measure", "who", "step", at, maintain_order=True).agg(pl.col("value").mean())
