"""Latency percentiles of each step and dbms."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.text import Sentences
from rqps.view.theme import by_host, in_order, rounds_of, titled

PERCENTILES = ("p50", "p95", "p99", "p99.9", "max")
COLOURS = ("#0b3c5d", "#1f78a4", "#5aa7c7", "#e08244", "#a63c06")
MOST_ROWS = 72
_LOG = alt.Scale(type="log", nice=False, padding=12)


def latency(latencies: pl.DataFrame, steps: list[str] | None = None) -> Any:
    """Dots on a logarithmic axis; the line through each reaches from its lowest round to its highest."""
    if latencies.is_empty():
        return Sentences(["The load generator of this workload does not time single operations."])
    ours = by_host(latencies)
    at_most = max(1, MOST_ROWS // ours["dbms"].n_unique())
    shown = (steps or in_order(ours["step"]))[:at_most]
    rows = with_rows(ours.filter(pl.col("step").is_in(shown)))
    axis, height = row_axis(rows), height_of(rows)
    kept = slim(rows, "row", "percentile", "median", "low", "high", "n")
    colour = alt.Color("percentile:N", title=None, scale=alt.Scale(domain=list(PERCENTILES), range=list(COLOURS)))
    told: list[Any] = ["row:N", "percentile:N", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f", title=f"{name}, µs") for name in ("median", "low", "high")]
    x = alt.X("median:Q", title="latency, µs (logarithmic)", scale=_LOG, axis=alt.Axis(format="~s"))
    base = alt.Chart(kept).encode(y=axis, color=colour, tooltip=told)
    chart = alt.layer(
        base.mark_rule(strokeWidth=2, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_point(filled=True, size=55, opacity=1).encode(x=x, shape=_shapes()),
    ).properties(width="container", height=height)
    return titled(chart, _claim(rows), _how(kept, len(shown), ours["step"].n_unique()), min_width_px=330)


def _shapes() -> alt.Shape:
    scale = alt.Scale(domain=list(PERCENTILES), range=["circle", "square", "diamond", "triangle-up", "cross"])
    return alt.Shape("percentile:N", title=None, scale=scale)


def _claim(rows: pl.DataFrame) -> str:
    tail = rows.filter(percentile="p99").sort("median", descending=True, maintain_order=True)
    if tail.is_empty():
        return "No latencies were recorded."
    row = tail.row(0, named=True)
    return f"The longest 99th percentile is {row['median']:,.0f} µs ({row['step']}, {row['dbms']})."


def _how(kept: pl.DataFrame, shown: int, steps: int) -> str:
    some = f" {shown} of {steps} steps are shown." if shown < steps else ""
    return (
        f"Latency of a transaction: median of {rounds_of(kept['n'].to_list())}, the line from the lowest to the "
        f"highest. Closed loop: a slow answer also delays the next question, so a stall counts once.{some}"
    )
