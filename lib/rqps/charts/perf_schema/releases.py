"""What the performance schema costs in each release, and what memory it takes for that."""

from typing import Any

import altair as alt
import polars as pl

from rqps.charts.rows import slim
from rqps.charts.text import Sentences
from rqps.charts.theme import SERIES, in_order, rounds_of, titled

PANEL_PX, PANEL_HEIGHT_PX = 200, 150
AXES_PX = 52
HEIGHT_PX = 260
FEWEST = 2
_PERCENT = alt.Axis(format="+.0%", tickCount=5)


def cost_by_release(costs: pl.DataFrame) -> Any:
    """A panel a step: CPU that a scenario adds to an operation, in percent of off, release by release."""
    if costs["build"].n_unique() < FEWEST:
        return Sentences(["This study has the scenarios of one build only."])
    points = slim(
        costs.with_columns((pl.col("cpu_ratio", "cpu_low", "cpu_high") - 1).name.keep()),
        *("step", "build", "scenario", "n", "cpu_ratio", "cpu_low", "cpu_high", "added_us", "base_us", "verdict"),
    )
    builds, names = in_order(costs["build"]), in_order(costs.sort("cpu_ratio")["scenario"])
    colour = alt.Color("scenario:N", title=None, scale=alt.Scale(domain=names, range=list(SERIES)))
    told: list[Any] = ["step:N", "build:N", "scenario:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    told += [alt.Tooltip(f"{name}:Q", format="+.1%") for name in ("cpu_ratio", "cpu_low", "cpu_high")]
    told += [alt.Tooltip(f"{name}:Q", format=",.2f") for name in ("added_us", "base_us")]
    axis = alt.Axis(labelAngle=0, grid=False)
    base = alt.Chart().encode(x=alt.X("build:N", sort=builds, title=None, axis=axis), color=colour, tooltip=told)
    panel = alt.layer(
        base.mark_line(strokeWidth=1.4).encode(y=alt.Y("cpu_ratio:Q", title=None, axis=_PERCENT)),
        base.mark_rule(strokeWidth=4, opacity=0.4).encode(y="cpu_low:Q", y2="cpu_high:Q"),
        base.mark_point(filled=True, size=34, opacity=1).encode(y="cpu_ratio:Q"),
        data=points,
    ).properties(width=PANEL_PX, height=PANEL_HEIGHT_PX)
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=12, labelPadding=2)
    facet = alt.Facet("step:N", sort=in_order(costs["step"]), header=header)
    chart = panel.facet(facet=facet, columns=3, spacing=12)
    how = (
        f"Server CPU an operation, against {costs['against'][0]} of the same build and round: median of "
        f"{rounds_of(costs['n'].to_list())} with its interval."
    )
    made = titled(chart, _by_release(costs), how)
    made.usermeta["rqps"] |= {"panel": PANEL_PX + AXES_PX // 2, "minWidth": 300}
    return made


def cost_against_memory(costs: pl.DataFrame, memory: pl.DataFrame) -> Any:
    """A dot a dbms: the megabytes that its performance schema allocated, and the CPU it adds to the first step."""
    first = costs.filter(pl.col("position") == pl.col("position").min())
    points = first.join(memory.select("host", "dbms", "perf_schema_mb", "server_mb"), on=["host", "dbms"])
    if points.is_empty():
        return Sentences(["The runs of this study do not tell what memory the performance schema took."])
    columns = ["dbms", "scenario", "build", "perf_schema_mb", "server_mb", "n"]
    shown = points.select(*columns, share=pl.col("cpu_ratio") - 1)
    builds = in_order(shown["build"])
    told: list[Any] = ["dbms:N", "scenario:N", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("perf_schema_mb", "server_mb")]
    told += [alt.Tooltip("share:Q", format="+.1%")]
    base = alt.Chart(slim(shown, *shown.columns)).encode(
        x=alt.X("perf_schema_mb:Q", title="memory of the performance schema, MB", scale=alt.Scale(zero=True)),
        y=alt.Y("share:Q", title="CPU an operation", axis=_PERCENT),
        tooltip=told,
        color=alt.Color("build:N", title=None, scale=alt.Scale(domain=builds, range=list(SERIES))),
    )
    chart = alt.layer(
        base.mark_point(filled=True, size=60, opacity=0.85),
        base.mark_text(align="left", dx=8, fontSize=11).encode(text="scenario:N"),
    ).properties(width="container", height=HEIGHT_PX)
    taken = sorted(shown["perf_schema_mb"].to_list())
    low, high = taken[0], taken[-1]
    claim = f"All scenarios take {low:,.0f} to {high:,.0f} MB: what is not recorded has its room all the same."
    how = (
        "Memory as the server tells it after the last step; CPU of "
        f"{first['step'][0]} against {first['against'][0]}, median of {rounds_of(first['n'].to_list())}."
    )
    return titled(chart, claim, how, min_width_px=330)


def _by_release(costs: pl.DataFrame) -> str:
    """Of the first step, what `default` costs in the release where it costs least and in that where it costs most."""
    of_step = costs.filter(step=costs["step"][0])
    names = in_order(of_step["scenario"])
    name = "default" if "default" in names else names[0]
    rows = of_step.filter(scenario=name)
    sure, unsure = rows.filter(pl.col("verdict") != "unsure").sort("cpu_ratio"), rows.filter(verdict="unsure")
    what = f"{name} costs {rows['step'][0]}"
    if sure.is_empty():
        return f"In no release can the rounds tell what {what}."
    told = [f"{row['cpu_ratio'] - 1:+.0%} ({row['build']})" for row in sure.to_dicts()]
    reach = f"from {told[0]} to {told[-1]}" if len(told) > 1 else told[0]
    but = f"; of {' and '.join(unsure['build'])} the rounds can't tell" if unsure.height else ""
    return f"{what} {reach} of CPU{but}."
