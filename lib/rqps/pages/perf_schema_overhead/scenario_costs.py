"""The cost of each scenario as tables, and throughput against the number of clients."""

from typing import Any

import altair as alt
import polars as pl
from great_tables import GT

from rqps import show
from rqps.engines.mysql.perf_schema import DISABLED, OFF
from rqps.pages.perf_schema_overhead.parts import step_on_build
from rqps.show import COST_SIGNS, SERIES, SIGNS, Column, Nothing, Row, Sentences, in_order, interval_of
from rqps.show.lines import NUMBERS_AXIS, panels
from rqps.show.theme import numbers
from rqps.stats import absolute, measured
from rqps.stats.metrics import THROUGHPUT
from rqps.stats.scenarios import cpu_costs, ranked, scenarios
from rqps.store.read import Study

PANEL_PX, CLIENTS_PX, PANEL_OF_CLIENTS_PX = 200, 320, 120
_GREY = "#9aa4ad"
_OF_CLIENTS = ("scenario", "build", "load", "step", "dbms", "clients", "n", "estimate", "low", "high")
NONE = "This study has no two scenarios of the performance schema of one build."


def costs(study: Study, against: str = OFF) -> pl.DataFrame:
    """The tidy frame of server CPU per operation against a scenario, the cheapest first and those unsure last."""
    return ranked(cpu_costs(study, against))


def cost_table(costs: pl.DataFrame) -> GT | Sentences:
    """One row per scenario, by step: throughput, and CPU added in µs and in percent, with intervals."""
    if costs.is_empty():
        return Sentences([NONE])
    shares = {"share": "estimate", "share_low": "low", "share_high": "high"}
    shares |= {name: name for name in ("throughput", "throughput_low", "throughput_high")}
    rows = costs.with_columns(**{name: pl.col(ratio) - 1 for name, ratio in shares.items()})
    shown = [
        {
            **row,
            "throughput": _cell(row, "throughput", "+.1%", SIGNS.get(row["throughput_verdict"], "")),
            "cpu": _cell(row, "added", "+,.2f"),
            "share": _cell(row, "share", "+.1%", COST_SIGNS[row["verdict"]]),
        }
        for row in rows.with_columns(step_on_build(rows)).to_dicts()
    ]
    return show.table(
        shown,
        [
            Column("throughput", form=str, align="center"),
            Column("cpu", "server CPU added, µs/o", str, align="center"),
            Column("share", "of the CPU without it", str, align="center"),
            Column("needs", "what it would take", lambda needs: needs.partition(" at this spread")[0]),
            Column("n", "rounds"),
        ],
        name="scenarios",
        group="step",
        rows="scenario",
        note=f"Against {costs['against'][0]} of the same build and round; mean of {show.rounds_of(costs['n'])}, "
        f"{show.coverage_of(costs['coverage'])}. {show.legend_of(costs)} µs/o is "
        "CPU time per operation.",
    )


def cost_matrix(costs: pl.DataFrame) -> Any:
    """Scenarios by step, or by build where there are several: the CPU that each adds to an operation, in percent."""
    if costs.is_empty():
        return Nothing([NONE])
    several = costs["build"].n_unique() > 1
    across = "build" if several else "step"
    shares = costs.with_columns(
        share=pl.col("estimate") - 1, share_low=pl.col("low") - 1, share_high=pl.col("high") - 1
    )
    order = shares.sort("position", "build", "share", descending=[False, False, True], maintain_order=True)

    def cell(row: Row) -> str:
        return _cell(row, "share", "+.1%", COST_SIGNS[row["verdict"]])

    heads = in_order(shares.sort("position", maintain_order=True)[across])
    group = "step" if several else ""
    return show.table(
        show.spread(order, across, [*filter(None, [group]), "scenario"]),
        [Column("scenario"), *(Column(each, form=cell, align="center") for each in heads)],
        name="scenario-matrix",
        group=group,
        note=f"Server CPU that a scenario adds to an operation, against {costs['against'][0]} of the same build and "
        f"round: mean of {show.rounds_of(costs['n'])}, {show.coverage_of(costs['coverage'])}. "
        f"{show.legend_of(costs)}",
    )


def _cell(row: Row, name: str, form: str, sign: str = "") -> str:
    if row[name] is None:
        return "–"
    number = f"<b>{f'{sign} {row[name]:{form}}'.strip()}</b>"
    return show.whose(row, show.two_lines(number, interval_of(row, form, name)))


def _lines_with_intervals(base: alt.Chart, y: alt.Y, data: pl.DataFrame) -> Any:
    """Layers of a line, its points, and the interval `low` to `high` of each."""
    interval = base.mark_rule(strokeWidth=4, opacity=0.3).encode(y=alt.Y("low:Q"), y2="high:Q")
    points = base.mark_point(filled=True, size=34, opacity=1).encode(y=y)
    return alt.layer(interval, base.mark_line(strokeWidth=1.6).encode(y=y), points, data=data)


def by_clients(study: Study) -> pl.DataFrame:
    """Throughput by number of clients of steps that were measured with several; `load` is the step without it."""
    named = scenarios(study).select("dbms", "scenario")
    load = pl.col("step").str.strip_suffix(pl.format("@{}", "clients"))
    values = measured(study, [THROUGHPUT]).with_columns(load=load)
    shown = values.filter(pl.col("clients").n_unique().over("load") > 1).join(named, on="dbms", maintain_order="left")
    found = absolute(shown, keys=["host", "load", "step", "build", "dbms", "scenario", "clients"])
    return found.sort("host", "load", "build", "scenario", "clients")


def client_charts(study: Study) -> list[Any]:
    """All scenarios in one chart, a line each; and a small chart for each, beside all-disabled in grey."""
    series = by_clients(study)
    if series.is_empty():
        return [Nothing(["No step of this study was measured with several numbers of clients and scenarios."])]
    order, own = _by_height(series), iter(SERIES * (1 + series["scenario"].n_unique() // len(SERIES)))
    shades = alt.Scale(domain=order, range=[_GREY if name == DISABLED else next(own) for name in order])
    # Two fit beside each other on a telephone; in one row of ten the last ones are cut off.
    colour = alt.Color("scenario:N", title=None, sort=order, scale=shades, legend=alt.Legend(columns=2))
    lines = _lines_of_clients(show.slim(series, *_OF_CLIENTS), colour, "operations/s")
    how = _how(series, "one line per scenario, the highest first")
    chart = lines.properties(width="container", height=CLIENTS_PX)
    shown = [show.titled(chart, _lowest(series), how, min_width_px=330)]
    return [*shown, _one_by_one(series)] if DISABLED in order else shown


def _lines_of_clients(data: pl.DataFrame, colour: alt.Color, title: str | None) -> Any:
    tooltip = ["scenario:N", "step:N", "build:N", "clients:O", *numbers(",.0f")]
    x = alt.X("clients:O", title="clients", axis=alt.Axis(labelAngle=0, grid=False))
    y = alt.Y("estimate:Q", title=title, scale=alt.Scale(zero=True), axis=NUMBERS_AXIS)
    base = alt.Chart().encode(x=x, color=colour, tooltip=tooltip, detail=["load:N", "build:N"])
    return _lines_with_intervals(base, y, data)


def _one_by_one(series: pl.DataFrame) -> Any:
    shown = [name for name in _by_height(series) if name != DISABLED]
    both = [
        series.filter(scenario=scenario).with_columns(panel=pl.lit(name), line=pl.lit(line))
        for name in shown
        for line, scenario in (("the scenario", name), (DISABLED, DISABLED))
    ]
    shades = alt.Scale(domain=["the scenario", DISABLED], range=[SERIES[1], _GREY])
    data = show.slim(pl.concat(both), "panel", "line", *_OF_CLIENTS)
    lines = _lines_of_clients(data, alt.Color("line:N", title=None, scale=shades), None)
    how = _how(series, "operations/s, all on one axis")
    panel = lines.properties(height=PANEL_OF_CLIENTS_PX)
    return panels(panel, "panel", shown, _clearly_below(series), how, width_px=PANEL_PX)


def _by_height(series: pl.DataFrame) -> list[str]:
    """Scenarios by throughput with the most clients, the highest first, as the lines end."""
    most = series.filter(pl.col("clients") == pl.col("clients").max())
    return in_order(most.sort("estimate", descending=True)["scenario"])


def _lowest(series: pl.DataFrame) -> str:
    """The scenario with the lowest throughput at most clients, beside all-disabled if that was measured."""
    most = series.filter(pl.col("clients") == pl.col("clients").max()).sort("estimate")
    low = most.row(0, named=True)
    beside = most.filter(scenario=DISABLED, build=low["build"], load=low["load"]).to_dicts()
    high = beside[0] if beside else most.row(-1, named=True)
    clients = f"With {high['clients']} clients"
    if low["high"] is None or low["high"] >= high["low"]:
        return f"{clients}, the rounds do not separate {low['scenario']}, the lowest, from {high['scenario']}."
    share = 1 - low["estimate"] / high["estimate"]
    return f"{clients}, {low['scenario']} does {share:.0%} less of {low['load']} than {high['scenario']}."


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
    rounds = show.rounds_of(series["n"])
    return f"{', '.join(in_order(series['load']))} on {build}; {what}. Median of {rounds}, the bar is its interval."
