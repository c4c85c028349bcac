"""Throughput against the number of clients, for each scenario of the performance schema."""

from typing import Any

import altair as alt
import polars as pl

from rqps import view
from rqps.pages.perf_schema_overhead.parts import PANEL_PX, lines_with_intervals
from rqps.stats import absolute, measured
from rqps.stats.scenarios import DISABLED, scenarios
from rqps.store.read import Study
from rqps.view import SERIES, Sentences, in_order
from rqps.view.lines import panels
from rqps.view.theme import numbers

HEIGHT_PX, PANEL_HEIGHT_PX = 320, 120
_GREY = "#9aa4ad"
# 40k, and 0.5 rather than 500m.
_RATE = alt.Axis(tickCount=4, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')")
_CLIENTS = alt.X("clients:O", title="clients", axis=alt.Axis(labelAngle=0, grid=False))
_COLUMNS = ("scenario", "build", "step", "clients", "n", "median", "low", "high")
_TOOLTIP = ["scenario:N", "step:N", "build:N", "clients:O", *numbers(",.0f")]


def by_clients(study: Study) -> pl.DataFrame:
    """Throughput by number of clients of steps that were measured with several; `step` is without that number."""
    named = scenarios(study).select("dbms", "scenario")
    step = pl.col("step").str.strip_suffix(pl.format("@{}", "clients"))
    values = measured(study.steps, study.runs, ["operations_per_s"]).with_columns(step)
    shown = values.filter(pl.col("clients").n_unique().over("step") > 1).join(named, on="dbms", maintain_order="left")
    found = absolute(shown, keys=["host", "step", "build", "dbms", "scenario", "clients"])
    return found.sort("host", "step", "build", "scenario", "clients")


def client_charts(study: Study) -> list[Any]:
    """All scenarios in one chart, a line each; and a small chart for each, beside all-disabled in grey."""
    series = by_clients(study)
    if series.is_empty():
        return [Sentences(["No step of this study was measured with several numbers of clients and scenarios."])]
    order, own = _by_height(series), iter(SERIES * (1 + series["scenario"].n_unique() // len(SERIES)))
    shades = alt.Scale(domain=order, range=[_GREY if name == DISABLED else next(own) for name in order])
    # Two fit beside each other on a telephone; in one row of ten the last ones are cut off.
    colour = alt.Color("scenario:N", title=None, sort=order, scale=shades, legend=alt.Legend(columns=2))
    chart = _lines(view.slim(series, *_COLUMNS), colour, "operations/s").properties(
        width="container", height=HEIGHT_PX
    )
    how = _how(series, "one line per scenario, the highest first")
    shown = [view.titled(chart, _lowest(series), how, min_width_px=330)]
    return [*shown, _one_by_one(series)] if DISABLED in order else shown


def _lines(data: pl.DataFrame, colour: alt.Color, title: str | None) -> Any:
    base = alt.Chart().encode(x=_CLIENTS, color=colour, tooltip=_TOOLTIP)
    y = alt.Y("median:Q", title=title, scale=alt.Scale(zero=True), axis=_RATE)
    return lines_with_intervals(base, y, data)


def _one_by_one(series: pl.DataFrame) -> Any:
    shown = [name for name in _by_height(series) if name != DISABLED]
    both = [
        series.filter(scenario=scenario).with_columns(panel=pl.lit(name), line=pl.lit(line))
        for name in shown
        for line, scenario in (("the scenario", name), (DISABLED, DISABLED))
    ]
    shades = alt.Scale(domain=["the scenario", DISABLED], range=[SERIES[1], _GREY])
    data = view.slim(pl.concat(both), "panel", "line", *_COLUMNS)
    panel = _lines(data, alt.Color("line:N", title=None, scale=shades), None).properties(height=PANEL_HEIGHT_PX)
    how = _how(series, "operations/s, all on one axis")
    return panels(panel, "panel", shown, _clearly_below(series), how, width_px=PANEL_PX)


def _by_height(series: pl.DataFrame) -> list[str]:
    """Scenarios by throughput with the most clients, the highest first, as the lines end."""
    most = series.filter(pl.col("clients") == pl.col("clients").max())
    return in_order(most.sort("median", descending=True)["scenario"])


def _lowest(series: pl.DataFrame) -> str:
    """The scenario with the lowest throughput at most clients, beside all-disabled if that was measured."""
    most = series.filter(pl.col("clients") == pl.col("clients").max()).sort("median")
    low = most.row(0, named=True)
    beside = most.filter(scenario=DISABLED, build=low["build"], step=low["step"]).to_dicts()
    high = beside[0] if beside else most.row(-1, named=True)
    clients = f"With {high['clients']} clients"
    if low["high"] is None or low["high"] >= high["low"]:
        return f"{clients}, the rounds do not separate {low['scenario']}, the lowest, from {high['scenario']}."
    share = 1 - low["median"] / high["median"]
    return f"{clients}, {low['scenario']} does {share:.0%} less of {low['step']} than {high['scenario']}."


def _clearly_below(series: pl.DataFrame) -> str:
    keys = ["host", "build", "step", "clients"]
    grey = series.filter(scenario=DISABLED).select(*keys, base_low="low")
    below = series.join(grey, on=keys).filter(pl.col("high") < pl.col("base_low"))
    names = [name for name in _by_height(series) if name in set(below["scenario"]) - {DISABLED}]
    if not names:
        return "No scenario lies clearly below all-disabled with any number of clients."
    return f"Clearly below all-disabled, with some number of clients: {', '.join(names)}."


def _how(series: pl.DataFrame, what: str) -> str:
    build = ", ".join(in_order(series["build"]))
    rounds = view.rounds_of(series["n"])
    return f"{', '.join(in_order(series['step']))} on {build}; {what}. Median of {rounds}, the bar is its interval."
