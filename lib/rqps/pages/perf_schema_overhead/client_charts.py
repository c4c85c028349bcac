"""Throughput against the number of clients, for each scenario of the performance schema."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import slim
from rqps.view.text import Sentences
from rqps.view.theme import SERIES, in_order, rounds_of, titled

HEIGHT_PX = 320
PANEL_PX, PANEL_HEIGHT_PX = 200, 120
AXES_PX = 48
DISABLED = "all-disabled"
_GREY = "#9aa4ad"
# 40k, and 0.5 rather than 500m.
_RATE = alt.Axis(tickCount=4, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')")
_CLIENTS: dict[str, Any] = {"title": "clients", "axis": alt.Axis(labelAngle=0, grid=False)}
_COLUMNS = ("scenario", "build", "step", "threads", "n", "median", "low", "high")


def clients_in_one(series: pl.DataFrame) -> Any:
    """All scenarios in one chart, a line each; of several steps or builds, a panel each."""
    if series.is_empty():
        return _too_few()
    points = slim(series, *_COLUMNS)
    order = _by_height(series)
    shades = alt.Scale(domain=order, range=_colours(order))
    # Two fit beside each other on a telephone; in one row of ten the last ones are cut off.
    colour = alt.Color("scenario:N", title=None, sort=order, scale=shades, legend=alt.Legend(columns=2))
    base = alt.Chart(points).encode(x=alt.X("threads:O", **_CLIENTS), color=colour, tooltip=_told())
    y = alt.Y("median:Q", title="operations/s", scale=alt.Scale(zero=True), axis=_RATE)
    chart = alt.layer(
        base.mark_rule(strokeWidth=4, opacity=0.25).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=y),
    ).properties(width="container", height=HEIGHT_PX)
    return titled(chart, _claim(series), _how(series, "a line is a scenario, the highest first"), min_width_px=330)


def clients_one_by_one(series: pl.DataFrame) -> Any:
    """A small chart a scenario, each beside all-disabled in grey."""
    if series.is_empty() or DISABLED not in set(series["scenario"]):
        return _too_few()
    shown = [name for name in _by_height(series) if name != DISABLED]
    grey = series.filter(scenario=DISABLED).drop("scenario")
    both = [
        series.filter(scenario=name).with_columns(panel=pl.lit(name), line=pl.lit("the scenario")) for name in shown
    ]
    both += [
        grey.with_columns(scenario=pl.lit(DISABLED), panel=pl.lit(name), line=pl.lit(DISABLED)) for name in shown
    ]
    points = slim(pl.concat(both, how="diagonal"), "panel", "line", *_COLUMNS)
    lines = ["the scenario", DISABLED]
    colour = alt.Color("line:N", title=None, scale=alt.Scale(domain=lines, range=[SERIES[1], _GREY]))
    base = alt.Chart().encode(x=alt.X("threads:O", **_CLIENTS), color=colour, tooltip=_told())
    y = alt.Y("median:Q", title=None, scale=alt.Scale(zero=True), axis=_RATE)
    panel = alt.layer(
        base.mark_rule(strokeWidth=4, opacity=0.3).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
        data=points,
    ).properties(width=PANEL_PX, height=PANEL_HEIGHT_PX)
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=12, labelPadding=2)
    chart = panel.facet(facet=alt.Facet("panel:N", sort=shown, header=header), columns=3, spacing=12)
    made = titled(chart, _farthest(series), _how(series, "operations/s, all on one axis"))
    made.usermeta["rqps"] |= {"panel": PANEL_PX + AXES_PX // 2, "minWidth": 300}
    return made


def _too_few() -> Sentences:
    return Sentences(["No step of this study was measured with several numbers of clients and scenarios."])


def _colours(order: list[str]) -> list[str]:
    """Grey for all-disabled, which the others are held against."""
    own = iter(SERIES * (1 + len(order) // len(SERIES)))
    return [_GREY if name == DISABLED else next(own) for name in order]


def _by_height(series: pl.DataFrame) -> list[str]:
    """Scenarios by throughput with the most clients, the highest first, as the lines end."""
    most = series.filter(pl.col("threads") == pl.col("threads").max())
    return in_order(most.sort("median", descending=True)["scenario"])


def _told() -> list[Any]:
    told: list[Any] = ["scenario:N", "step:N", "build:N", alt.Tooltip("threads:O", title="clients")]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("median", "low", "high")]
    return [*told, alt.Tooltip("n:Q", title="rounds")]


def _claim(series: pl.DataFrame) -> str:
    """With most clients: the scenario with the lowest throughput, beside all-disabled if that was measured."""
    most = series.filter(pl.col("threads") == pl.col("threads").max()).sort("median")
    low = most.row(0, named=True)
    beside = most.filter(scenario=DISABLED, build=low["build"], step=low["step"]).to_dicts()
    high = beside[0] if beside else most.row(-1, named=True)
    clients = f"With {high['threads']} clients"
    if low["high"] is None or low["high"] >= high["low"]:
        return f"{clients}, the rounds can't tell {low['scenario']}, the lowest, from {high['scenario']}."
    share = 1 - low["median"] / high["median"]
    return f"{clients}, {low['scenario']} does {share:.0%} less of {low['step']} than {high['scenario']}."


def _farthest(series: pl.DataFrame) -> str:
    keys = ["host", "build", "step", "threads"]
    grey = series.filter(scenario=DISABLED).select(*keys, base="median", base_low="low")
    beside = series.filter(pl.col("scenario") != DISABLED).join(grey, on=keys)
    below = beside.filter(pl.col("high") < pl.col("base_low"))
    names = [name for name in _by_height(series) if name in set(below["scenario"])]
    if not names:
        return "No scenario lies clearly below all-disabled with any number of clients."
    return f"Clearly below all-disabled, with some number of clients: {', '.join(names)}."


def _how(series: pl.DataFrame, what: str) -> str:
    build = ", ".join(in_order(series["build"]))
    rounds = rounds_of(series["n"].to_list())
    return f"{', '.join(in_order(series['step']))} on {build}; {what}. Median of {rounds}, the bar is its interval."
