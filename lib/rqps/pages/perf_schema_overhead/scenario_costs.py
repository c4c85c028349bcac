"""The cost of each scenario: a chart by scenario, one by release, a table, and the same as lines."""

from typing import Any

import altair as alt
import polars as pl

from rqps import view
from rqps.pages.perf_schema_overhead.parts import PANEL_PX, lines_with_intervals, step_on_build
from rqps.stats.scenarios import CPU, OFF, ranked, scenario_costs
from rqps.store.read import Study
from rqps.view import COST_SIGNS, SERIES, SIGNS, Column, Row, Sentences
from rqps.view.lines import panels
from rqps.view.theme import numbers

MOST_ROWS = 72
PANEL_HEIGHT_PX = 150
NONE = "This study has no two scenarios of the performance schema of one build."

_TOOLTIP = [
    *("verdict:N", *numbers("+.1%", names=("share", "low", "high"))),
    alt.Tooltip("added:Q", format=",.2f", title="added, µs"),
    alt.Tooltip("base_median:Q", format=",.2f", title="without it, µs"),
]


def costs(study: Study, against: str = OFF) -> pl.DataFrame:
    """The tidy frame of server CPU per operation against a scenario, the cheapest first and those unsure last."""
    return ranked(scenario_costs(study, against))


def cost_chart(costs: pl.DataFrame, by: str = "scenario") -> Any:
    """CPU that each scenario adds to an operation, in percent: in rows by step, or in panels over the releases."""
    if costs.is_empty():
        return Sentences([NONE])
    if by == "release":
        return _over_releases(costs)
    rows = view.with_rows(_shares(costs).with_columns(step_on_build(costs)).head(MOST_ROWS), "step", "scenario")
    shown = ("row", "scenario", "against", "n", "share", "low", "high", "added", "base_median", "coverage", "verdict")
    axis, height = view.row_axis(rows, "step", "scenario")
    tooltip = ["row:N", "against:N", *_TOOLTIP]
    base = alt.Chart(view.slim(rows, *shown, "label")).encode(y=axis, tooltip=tooltip, color=view.verdict_colour(CPU))
    room = alt.Scale(domainMax=1.25 * float(rows["high"].max() or rows["share"].max() or 0))  # type: ignore[arg-type]
    percent = alt.Axis(format="+.0%", tickCount=8)
    x = alt.X("share:Q", title=f"server CPU per operation, against {costs['against'][0]}", axis=percent, scale=room)
    chart = alt.layer(*view.interval_ticks(base, x, "low", "high")).properties(width="container", height=height)
    how = (
        f"CPU time of the server's process over operations, against {costs['against'][0]} of the same build and "
        f"round: median of {view.rounds_of(rows['n'])}, the bar its interval "
        f"({view.coverage_of(rows['coverage'])}); behind it the µs added."
    )
    return view.titled(chart, _most_expensive(costs), how, min_width_px=330)


def _shares(costs: pl.DataFrame) -> pl.DataFrame:
    """Costs with `share, low, high` of the CPU without the scenario, `label`, and the verdict in words."""
    return costs.with_columns(
        pl.col("median").sub(1).alias("share"),
        pl.col("low", "high") - 1,
        pl.col("verdict").replace(view.verdict_words(CPU)),
        pl.format("{} µs", pl.col("added").map_elements("{:+,.2f}".format, pl.String)).alias("label"),
    )


def _over_releases(costs: pl.DataFrame) -> Any:
    if costs["build"].n_unique() < 2:
        return Sentences(["This study has the scenarios of one build only."])
    columns = ("step", "build", "scenario", "n", "share", "low", "high", "added", "base_median", "verdict")
    names = view.in_order(costs.sort("median")["scenario"])
    base = alt.Chart().encode(
        x=alt.X("build:N", sort=view.in_order(costs["build"]), title=None, axis=alt.Axis(labelAngle=0, grid=False)),
        color=alt.Color("scenario:N", title=None, scale=alt.Scale(domain=names, range=list(SERIES))),
        tooltip=["step:N", "build:N", "scenario:N", *_TOOLTIP],
    )
    y = alt.Y("share:Q", title=None, axis=alt.Axis(format="+.0%", tickCount=5))
    data = view.slim(_shares(costs).with_columns(verdict=costs["verdict"]), *columns)
    panel = lines_with_intervals(base, y, data).properties(height=PANEL_HEIGHT_PX)
    how = (
        f"Server CPU per operation, against {costs['against'][0]} of the same build and round: median of "
        f"{view.rounds_of(costs['n'])} with its interval."
    )
    claim, steps = _from_release_to_release(costs), view.in_order(costs["step"])
    return panels(panel, "step", steps, claim, how, width_px=PANEL_PX)


def _most_expensive(costs: pl.DataFrame) -> str:
    """The most expensive row, and those of the same step whose intervals meet its."""
    rows = costs.filter(verdict="slower").sort("median", descending=True)
    if rows.is_empty():
        return f"The rounds show no scenario to cost more than {costs['against'][0]}."
    most, several = rows.row(0, named=True), costs["build"].n_unique() > 1
    cost = f"{most['median'] - 1:+.0%} of the CPU of {most['against']} for {most['step']}"
    cost += f"{' on ' + most['build'] if several else ''}, {most['added']:,.1f} µs per operation."
    near = rows.filter(pl.col("step") == most["step"], pl.col("dbms") != most["dbms"], pl.col("high") >= most["low"])
    if near.is_empty():
        return f"{most['scenario']} costs most: {cost}"
    others = [f"{row['scenario']} on {row['build']}" if several else row["scenario"] for row in near.to_dicts()]
    return f"{most['scenario']} costs {cost} The rounds do not separate {' and '.join(others)} from it."


def _from_release_to_release(costs: pl.DataFrame) -> str:
    """The cost of `default` for the first step, in the releases where it is least and where it is most."""
    of_step = costs.filter(step=costs["step"][0])
    name = "default" if "default" in of_step["scenario"] else of_step["scenario"][0]
    rows = of_step.filter(scenario=name)
    sure, unsure = rows.filter(pl.col("verdict") != "unsure").sort("median"), rows.filter(verdict="unsure")
    what = f"{name} costs {rows['step'][0]}"
    if sure.is_empty():
        return f"It is unsure in every release whether {what} anything."
    each = [f"{row['median'] - 1:+.0%} ({row['build']})" for row in sure.to_dicts()]
    reach = f"from {each[0]} to {each[-1]}" if len(each) > 1 else each[0]
    but = f"; {' and '.join(unsure['build'])} {'is' if unsure.height == 1 else 'are'} unsure" if unsure.height else ""
    return f"{what} {reach} of CPU{but}."


def cost_table(costs: pl.DataFrame, *, as_text: bool = False) -> Any:
    """One row per scenario, by step: throughput, and CPU added in µs and in percent, with intervals; or as lines."""
    if costs.is_empty():
        return NONE if as_text else Sentences([NONE])
    shares = {"share": "median", "share_low": "low", "share_high": "high"}
    shares |= {name: name for name in ("throughput", "throughput_low", "throughput_high")}
    rows = costs.with_columns(**{name: pl.col(ratio) - 1 for name, ratio in shares.items()})
    if as_text:
        return _lines(rows)
    shown = [
        {
            **row,
            "throughput": _cell(row, "throughput", "+.1%", SIGNS.get(row["throughput_verdict"], "")),
            "cpu": _cell(row, "added", "+,.2f"),
            "share": _cell(row, "share", "+.1%", COST_SIGNS[row["verdict"]]),
        }
        for row in rows.with_columns(step_on_build(rows)).to_dicts()
    ]
    return view.table(
        shown,
        [
            Column("throughput", form=str, align="center"),
            Column("cpu", "server CPU added, µs/o", str, align="center"),
            Column("share", "of the CPU without it", str, align="center"),
            Column("needs", "what it would take"),
            Column("n", "rounds"),
        ],
        name="scenarios",
        group="step",
        rows="scenario",
        note=f"Against {costs['against'][0]} of the same build and round; median of {view.rounds_of(costs['n'])}, "
        f"{view.coverage_of(costs['coverage'])}. Throughput: ▼ slower, ▲ faster; CPU: ▲ costs more, ▼ costs less; = "
        "the same within 2 %, ? unsure. µs/o is CPU time per operation.",
    )


def _cell(row: Row, name: str, form: str, sign: str = "") -> str:
    if row[name] is None:
        return "–"
    return view.two_lines(f"<b>{f'{sign} {row[name]:{form}}'.strip()}</b>", _reach(row, name, form))


def _reach(row: Row, name: str, form: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "no interval" if low is None else f"{low:{form}} to {high:{form}}"


def _lines(rows: pl.DataFrame) -> str:
    """CPU added in percent with its interval and verdict, then µs, then throughput."""
    head = f"{'CPU/o':30}{'added, µs/o':14}{'throughput':13}scenario"
    lines = [f"Against: {rows['against'][0]}", head]
    for (step, build), of_step in rows.group_by("step", "build", maintain_order=True):
        lines += ["", f"{step} on {build}"]
        for row in of_step.to_dicts():
            cpu = f"{COST_SIGNS[row['verdict']]} {row['share']:+.1%} ({_reach(row, 'share', '+.1%')})"
            throughput = "–" if row["throughput"] is None else f"{row['throughput']:+.1%}"
            lines.append(f"{cpu:30}{row['added']:<+14,.2f}{throughput:13}{row['scenario']}, n={row['n']}")
    return "\n".join(lines)
