"""Charts of one row per dbms below the name of its step: dots for rounds and latencies, bars for costs.

A single view can take the width of its page, which a facet cannot.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import polars as pl

from rqps.show.theme import INK, VERDICT_COLOURS, colours, numbers, titled
from rqps.show.words import (
    NOT_COMPARED,
    Nothing,
    Sentences,
    by_host,
    coverage_of,
    in_order,
    rounds_of,
    shown_of,
    verdict_words,
)
from rqps.stats import most_changed
from rqps.stats.metrics import THROUGHPUT, TITLES

BETWEEN = " ⋅ "
ROW_PX = 19
MOST_ROWS = 72
MOST_POINTS = 4500
"""Points of one chart: the page carries every value."""
STEADY = 0.05
PERCENTILES = {"p50": "#0b3c5d", "p95": "#1f78a4", "p99": "#5aa7c7", "p99.9": "#e08244", "max": "#a63c06"}
_OF_PARTS = ("#2f6d9b", "#b9cbd8")
_SHAPES = ["circle", "square", "diamond", "triangle-up", "cross"]
_LOG = alt.Scale(type="log", nice=False, padding=12)
_IS_GROUP = f"indexof(datum.value, '{BETWEEN}') < 0"
# By itself the wheel scrolls the page, as everywhere.
_ZOOM = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.altKey]")
_COVERAGE = alt.Tooltip("coverage:Q", format=".1%")
_FEW = alt.Axis(tickCount=8)
_AROUND = alt.Scale(zero=False, padding=14)
_OF_ROW = ("row", "base", "n", "estimate", "low", "high", "coverage", "verdict", "needs")
_OF_ROUND = ("row", "run", "base_run", "round", "ratio", "me_value", "base_value")
_OF_BAR = ("row", "who", "part", "n", "estimate", "low", "high", "coverage", "share", "low_share", "high_share")


def with_rows(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> pl.DataFrame:
    """The frame with the column `row` for such an axis."""
    return frame.with_columns(pl.concat_str(group, row, separator=BETWEEN).alias("row"))


def row_axis(frame: pl.DataFrame, group: str = "step", row: str = "dbms") -> tuple[alt.Y, int]:
    """The axis, with groups and rows in the order in which the frame has them, and its height in pixels."""
    order: list[str] = []
    for (name,), of_group in frame.group_by(group, maintain_order=True):
        order += [str(name), *(f"{name}{BETWEEN}{dbms}" for dbms in in_order(of_group[row]))]
    axis: dict[str, Any] = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelExpr": f"{_IS_GROUP} ? datum.value : split(datum.value, '{BETWEEN}')[1]",
        "labelFontWeight": {"condition": {"test": _IS_GROUP, "value": "bold"}, "value": "normal"},
    }
    y = alt.Y("row:N", sort=order, scale=alt.Scale(domain=order), axis=alt.Axis(**axis))
    return y, ROW_PX * len(order)


def slim(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Only what a chart uses, in as many digits as can be seen: the page carries every value."""
    return frame.select(*columns).with_columns(pl.col(pl.Float64).round_sig_figs(5))


def room(times: float, values: pl.Series) -> alt.Scale:
    """A scale that is so many times as long as the longest bar, for the label behind it."""
    return alt.Scale(domainMax=times * float(values.max() or 0))  # type: ignore[arg-type]


def on_rows(layers: Iterable[alt.Chart], height_px: int, claim: str, how: str) -> Any:
    """Layers on the axis of rows as one chart, as wide as its page."""
    chart = alt.layer(*layers).properties(width="container", height=height_px)
    return titled(chart, claim, how, min_width_px=330)


def _line_at(value: float) -> Any:
    line = alt.Chart(pl.DataFrame({"at": [value]}))
    return line.mark_rule(color="#8a949c", strokeDash=[4, 3]).encode(x="at:Q")


def row_labels(base: alt.Chart, at: str) -> Any:
    """The column `label` of each row, behind the value of `at`."""
    text = base.mark_text(align="left", dx=6, fontSize=11)
    return text.encode(x=f"{at}:Q", text="label:N", color=alt.value(INK))


def verdict_colour(metric: str, title: str | None = None, **legend: Any) -> alt.Color:
    """The colours of the verdicts, by their words."""
    words = verdict_words(metric)
    shades = {words[verdict]: colour for verdict, colour in VERDICT_COLOURS.items()}
    return colours("verdict", shades).title(title).legend(alt.Legend(**legend))


def dots(rounds: pl.DataFrame, compared: pl.DataFrame, metric: str = THROUGHPUT) -> Any:
    """Every round as a dot, with their mean and its interval; of many steps, those that changed most."""
    of_metric = compared.filter(metric=metric)
    if of_metric.is_empty():
        return Sentences([NOT_COMPARED])
    most_rows = min(MOST_ROWS, MOST_POINTS // max(of_metric["n"]))
    shown = most_changed(of_metric, most_rows // of_metric.select("dbms", "host").n_unique())
    rows = with_rows(by_host(of_metric.filter(pl.col("step").is_in(shown))))
    dots = with_rows(by_host(rounds.filter(pl.col("step").is_in(shown), pl.col("metric") == metric)))
    axis, height = row_axis(rows)
    rows, dots = slim(rows, *_OF_ROW), slim(dots, *_OF_ROUND)
    what = TITLES[metric]
    x = alt.X("ratio:Q", title=f"{what}, relative to {rows['base'][0]}", scale=_AROUND, axis=_FEW)
    rows = rows.with_columns(pl.col("verdict").replace(verdict_words(metric)))
    tooltip = ["row:N", "verdict:N", "needs:N", *numbers(".3f"), _COVERAGE]
    of_round: list[Any] = ["run:N", "base_run:N", "round:Q", alt.Tooltip("ratio:Q", format=".4f")]
    of_round += [alt.Tooltip(f"{name}:Q", format=",.1f") for name in ("me_value", "base_value")]
    summed = alt.Chart(rows).encode(y=axis, color=verdict_colour(metric), tooltip=tooltip)
    layers = (
        _line_at(1.0),
        summed.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
        alt.Chart(dots).mark_circle(size=30, opacity=0.75, color=INK).encode(x=x, y=axis, tooltip=of_round),
        summed.mark_tick(thickness=3, size=15).encode(x="estimate:Q"),
    )
    how = (
        f"{what[0].upper()}{what[1:]} relative to {rows['base'][0]}. A dot is a round ({rounds_of(rows['n'])}), the "
        f"tick their mean, the bar its interval ({coverage_of(rows['coverage'])}). Hover for the run; drag to "
        "move, scroll with Alt to zoom."
    )
    return on_rows(layers, height, _spread(of_metric, shown), how).add_params(_ZOOM)


def bars(absolute: pl.DataFrame, base: str, parts: Mapping[str, str]) -> Any:
    """Stacked CPU time per operation: `parts` has the metrics and their names, and the first has its interval drawn.

    Bars of one step are relative to the cost of its base, so that steps of any cost can stand together.
    """
    first, *_ = parts.values()
    parts_drawn = _bars(absolute, base, parts)
    totals = _totals(parts_drawn, first)
    shown = most_changed(
        totals.rename({"share": "estimate"}), MOST_ROWS // parts_drawn.select("dbms", "host").n_unique()
    )
    most = (
        totals.filter(pl.col("dbms") != base).sort("share", descending=True, maintain_order=True).head(1).to_dicts()
    )
    costs = [f"{row['step']} in {row['dbms']}, {row['label']} µs per operation" for row in most]
    claim = f"Most CPU relative to {base}: {costs[0]}." if costs else f"CPU time per operation of {base}."
    parts_drawn = with_rows(by_host(parts_drawn.filter(pl.col("step").is_in(shown))))
    totals = with_rows(_totals(parts_drawn, first))
    axis, height = row_axis(parts_drawn)
    parts_drawn, totals = slim(parts_drawn, *_OF_BAR), slim(totals, "row", "end", "label")
    x = alt.X("share:Q", stack="zero", title=f"CPU per operation, {base} = 1", axis=_FEW)
    tooltip = ["row:N", "who:N", *numbers(",.2f", ", µs"), _COVERAGE]
    colour = colours("who", dict(zip(parts.values(), _OF_PARTS, strict=True)))
    bar = alt.Chart(parts_drawn).mark_bar(height=13)
    interval = alt.Chart(parts_drawn.filter(who=first)).mark_rule(color=INK, strokeWidth=2)
    layers = (
        bar.encode(x=x.scale(room(1.32, totals["end"])), y=axis, color=colour, order="part:Q", tooltip=tooltip),
        interval.encode(x="low_share:Q", x2="high_share:Q", y=axis, tooltip=tooltip),
        row_labels(alt.Chart(totals).encode(y=axis), "end"),
    )
    how = (
        f"CPU time from the processes' own counters at a step's ends, over its operations: median of "
        f"{rounds_of(parts_drawn['n'])}. Figures are µs/operation, {' + '.join(parts.values())}; the line is the "
        f"{first}'s interval ({coverage_of(parts_drawn['coverage'])}). A bar's length is a ratio of medians, of both "
        "together; the tables have the server's alone, the mean of its rounds' ratios."
    )
    return on_rows(layers, height, claim, how)


def latencies(values: pl.DataFrame, steps: list[str] | None = None) -> Any:
    """Latency percentiles on a logarithmic axis, each with a line from its lowest round to its highest."""
    if values.is_empty():
        return Nothing(["The load generator of this workload does not time single operations."])
    ours = by_host(values)
    at_most = max(1, MOST_ROWS // ours["dbms"].n_unique())
    shown = (steps or in_order(ours["step"]))[:at_most]
    rows = with_rows(ours.filter(pl.col("step").is_in(shown)))
    axis, height = row_axis(rows)
    drawn = slim(rows, "row", "percentile", "estimate", "low", "high", "n")
    tooltip = ["row:N", "percentile:N", *numbers(",.0f", ", µs")]
    x = alt.X("estimate:Q", title="latency, µs (logarithmic)", scale=_LOG, axis=alt.Axis(format="~s"))
    shape = alt.Shape("percentile:N", title=None, scale=alt.Scale(domain=list(PERCENTILES), range=_SHAPES))
    base = alt.Chart(drawn).encode(y=axis, color=colours("percentile", PERCENTILES), tooltip=tooltip)
    layers = (
        base.mark_rule(strokeWidth=2, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_point(filled=True, size=55, opacity=1).encode(x=x, shape=shape),
    )
    tail = rows.filter(percentile="p99").sort("estimate", descending=True, maintain_order=True).head(1).to_dicts()
    longest = [f"{row['estimate']:,.0f} µs ({row['step']}, {row['dbms']})" for row in tail]
    claim = f"The longest 99th percentile is {longest[0]}." if longest else "No latencies were recorded."
    how = (
        f"Latency of a transaction: median of {rounds_of(drawn['n'])}, the line from the lowest to the highest. "
        "Closed loop: a slow answer also delays the next question, so a stall counts once."
        f"{shown_of(len(shown), ours['step'].n_unique())}"
    )
    return on_rows(layers, height, claim, how)


def _spread(compared: pl.DataFrame, shown: list[str]) -> str:
    spread = compared.select(((pl.col("high") - pl.col("low")) / pl.col("estimate")).median()).item()
    steps = compared["step"].n_unique()
    some = f" Shown: the {len(shown)} of {steps} steps that changed most." if len(shown) < steps else ""
    if spread is None:
        return f"One round shows no spread.{some}"
    width = "narrower" if spread < STEADY else "wider"
    return f"Half of the intervals are {width} than {100 * spread:.2g} % of their mean.{some}"


def _bars(absolute: pl.DataFrame, base: str, parts: Mapping[str, str]) -> pl.DataFrame:
    bars = absolute.filter(pl.col("metric").is_in(list(parts))).with_columns(
        pl.col("metric").replace_strict(dict(parts), return_dtype=pl.String).alias("who"),
        pl.col("metric").replace_strict(list(parts), range(len(parts)), return_dtype=pl.Int8).alias("part"),
    )
    of_base = bars.filter(dbms=base).group_by("host", "step").agg(pl.col("estimate").sum().alias("whole"))
    shares = [
        (pl.col(name) / pl.col("whole")).alias(share)
        for name, share in (("estimate", "share"), ("low", "low_share"), ("high", "high_share"))
    ]
    joined = bars.join(of_base, on=["host", "step"], maintain_order="left").filter(pl.col("whole") > 0)
    # Rows keep the order of steps and dbms; the metric only stacks.
    return joined.with_columns(shares).sort("host", "position", maintain_order=True)


def _totals(bars: pl.DataFrame, first: str) -> pl.DataFrame:
    parts = pl.col("estimate").sort_by("part").map_elements("{:,.1f}".format, return_dtype=pl.String)
    return bars.group_by("host", "step", "dbms", maintain_order=True).agg(
        pl.col("share").sum(),
        pl.max_horizontal(pl.col("share").sum(), pl.col("high_share").filter(who=first).max()).alias("end"),
        parts.str.join(" + ").alias("label"),
    )
