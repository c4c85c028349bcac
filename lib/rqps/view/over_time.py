"""Lines over time: throughput of the dbms, and the counters of one run."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import slim
from rqps.view.text import Sentences
from rqps.view.theme import SERIES, by_host, in_order, rounds_of, titled

PANEL_PX = 130
AXES_PX = 90
MOST_STEPS = 6
MOST_POINTS = 4500
_SECONDS = alt.Axis(grid=False, tickMinStep=1, format="~g")
# 40k, and 0.5 rather than 500m.
_AXIS = alt.Axis(tickCount=4, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')")


def throughput(series: pl.DataFrame, steps: list[str] | None = None) -> Any:
    """Operations/s by second, a panel a step: the median of the rounds in a band from lowest to highest."""
    if series.is_empty():
        return Sentences(["The load generator of this workload does not tell what it did in each second."])
    series = by_host(series)
    shown = (steps or in_order(series["step"]))[:MOST_STEPS]
    lines = series.filter(pl.col("step").is_in(shown))
    if lines.group_by("step", "dbms").len()["len"].max() == 1:
        return Sentences(["Each step was measured for a second only, which has no course."])
    dbms = in_order(lines["dbms"])
    colour = alt.Color("dbms:N", title=None, scale=alt.Scale(domain=dbms, range=list(SERIES)))
    told: list[Any] = ["dbms:N", "second:Q", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("median", "low", "high")]
    base = alt.Chart(slim(lines, "step", "dbms", "second", "median", "low", "high", "n")).encode(
        x=alt.X("second:Q", title="seconds since the step began", axis=_SECONDS),
        color=colour,
        tooltip=told,
    )
    y = alt.Y("median:Q", title="operations/s", scale=alt.Scale(zero=True), axis=_AXIS)
    panel = alt.layer(
        base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", title="operations/s"), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
    )
    order = [step for step in in_order(series["step"]) if step in shown]
    return _panels(panel, "step", order, _steadiness(lines), _how(lines, series["step"].n_unique()))


def counters(series: pl.DataFrame) -> Any:
    """The counters of one run, a panel a measure, from its first measured second to its last."""
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
    how = "One row a second from the system's own counters; n is one run, so there is no interval."
    return _panels(panel, "measure", in_order(series["measure"]), claim or "No counters were recorded.", how)


def _panels(panel: Any, column: str, order: list[str], claim: str, how: str) -> Any:
    header = alt.Header(labelAnchor="start", labelOrient="top", labelPadding=4)
    chart = (
        panel.properties(height=PANEL_PX, width=680)
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


def _how(lines: pl.DataFrame, steps: int) -> str:
    shown = lines["step"].n_unique()
    some = f" {shown} of {steps} steps are shown." if shown < steps else ""
    n = lines["n"].to_list()
    if max(n) == 1:
        return f"Measured seconds only, the warm-up is left out; n is one run, so there is no band.{some}"
    return f"Median of {rounds_of(n)}, in a band from the lowest to the highest; the warm-up is left out.{some}"
