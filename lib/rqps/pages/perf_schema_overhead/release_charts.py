"""What the performance schema costs in each release, and what memory it takes for that."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.text import Sentences
from rqps.view.theme import INK, SERIES, VERDICT_COLOURS, in_order, rounds_of, titled, verdict_words

CPU = "server_cpu_us_per_operation"

PANEL_PX, PANEL_HEIGHT_PX = 200, 150
AXES_PX = 52
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
    """A bar a scenario, by build: the megabytes that its performance schema allocated; behind it the CPU it adds."""
    first = costs.filter(pl.col("position") == pl.col("position").min())
    beside = memory.select("host", "dbms", "perf_schema_mb", "server_mb")
    points = first.join(beside, on=["host", "dbms"], maintain_order="left")
    if points.is_empty():
        return Sentences(["The runs of this study do not tell what memory the performance schema took."])
    words = verdict_words(CPU)
    shown = points.with_columns(
        pl.struct("verdict", "cpu_ratio").map_elements(_cpu_words, pl.String).alias("label"),
        (pl.col("cpu_ratio") - 1).alias("share"),
        pl.col("verdict").replace(words),
    )
    columns = ("row", "scenario", "build", "perf_schema_mb", "server_mb", "n", "share", "verdict", "label")
    rows = with_rows(shown, "build", "scenario")
    axis, height = row_axis(rows, "build", "scenario"), height_of(rows, "build", "scenario")
    shades = alt.Scale(domain=[words[each] for each in VERDICT_COLOURS], range=list(VERDICT_COLOURS.values()))
    told: list[Any] = ["row:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("perf_schema_mb", "server_mb")]
    told += [alt.Tooltip("share:Q", format="+.1%")]
    room = alt.Scale(domainMax=1.3 * float(shown["perf_schema_mb"].max() or 0))  # type: ignore[arg-type]
    x = alt.X(
        "perf_schema_mb:Q", title="memory of the performance schema, MB", scale=room, axis=alt.Axis(tickCount=6)
    )
    base = alt.Chart(slim(rows, *columns)).encode(y=axis, tooltip=told)
    chart = alt.layer(
        base.mark_bar(height=13).encode(x=x, color=alt.Color("verdict:N", title="its CPU", scale=shades)),
        base.mark_text(align="left", dx=6, fontSize=11, color=INK).encode(x=x, text="label:N"),
    ).properties(width="container", height=height)
    how = (
        "Memory as the server tells it after the last step; behind it the CPU of "
        f"{first['step'][0]} against {first['against'][0]}, median of {rounds_of(first['n'].to_list())}."
    )
    return titled(chart, _memory(points), how, min_width_px=330)


def _cpu_words(row: dict[str, Any]) -> str:
    return "CPU unsure" if row["verdict"] == "unsure" else f"{row['cpu_ratio'] - 1:+.0%} CPU"


def _memory(points: pl.DataFrame) -> str:
    """What each build takes, whatever it records."""
    taken = []
    for (build,), rows in points.group_by("build", maintain_order=True):
        each = in_order(f"{megabytes:,.0f}" for megabytes in sorted(rows["perf_schema_mb"]))
        reach = f"{each[0]} to {each[-1]}" if len(each) > 1 else each[0]
        taken.append(f"{build} takes {reach} MB")
    return f"{', '.join(taken)}: what is not recorded has its room all the same."


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
