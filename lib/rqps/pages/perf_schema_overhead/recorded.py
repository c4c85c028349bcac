"""Events and their cost, the clocks that time them, and the memory that the performance schema takes."""

from typing import Any

import altair as alt
import polars as pl

from rqps import show
from rqps.engines.mysql import perf_schema
from rqps.pages.perf_schema_overhead.parts import step_on_build
from rqps.show import Column, Nothing, Sentences
from rqps.show.theme import numbers
from rqps.stats import scenarios
from rqps.stats.metrics import CPU
from rqps.store.read import Study


def events(study: Study) -> list[Any]:
    """Tables of the events per statement with the time that one takes, and of the clocks that time them."""
    of_clocks = show.table(clocks(study.settings), name="timers")
    costs = scenarios.cpu_costs(study, perf_schema.DISABLED)
    costs = scenarios.cpu_costs(study, perf_schema.OFF) if costs.is_empty() else costs
    rows = scenarios.with_events(costs, scenarios.events_per_statement(study)).drop_nulls("per_statement")
    if rows.is_empty():
        return [Sentences(["The runs of this study do not say what the performance schema recorded."]), of_clocks]
    rows = rows.sort("position", "build", "per_statement", descending=[False, False, True], maintain_order=True)
    shown = show.table(
        rows.with_columns(step_on_build(rows)),
        [
            Column("classes", "kinds"),
            Column("per_statement", "events per statement", ",.2f"),
            Column("added", "CPU added, µs/o", ",.2f"),
            Column("each_ns", "ns per event", ",.0f"),
        ],
        name="ps-events",
        group="step",
        rows="scenario",
        note="Events that the server counted of the load's own connections, per statement; the CPU that the scenario "
        f"adds to {costs['against'][0]}, divided by them. – where the rounds show no cost.",
    )
    return [shown, of_clocks]


def clocks(settings: pl.LazyFrame) -> pl.DataFrame:
    """One row per clock of a build: ticks per second, cycles to read it, and its use, if the version can choose."""
    number = pl.col("value").cast(pl.Int64, strict=False)
    reach = pl.format("{} to {}", number.min(), number.max())
    found = (
        settings.filter(kind="timer")
        .group_by("host", "build", "name", maintain_order=True)
        .agg(pl.when(pl.col("value").n_unique() == 1).then(pl.col("value").first()).otherwise(reach))
        .collect()
    )
    clock, fact = pl.col("name").str.extract(r"^(\S+) "), pl.col("name").str.extract(r" (\S+)$")
    facts = found.filter(clock.is_not_null()).with_columns(clock.alias("clock"), fact.alias("fact"))
    used = found.filter(clock.is_null()).group_by("host", "build", clock="value").agg(used_for=pl.col("name"))
    wide = facts.pivot("fact", on_columns=["frequency", "overhead"], index=["host", "build", "clock"], values="value")
    return (
        wide.join(used, on=["host", "build", "clock"], how="left", maintain_order="left")
        .with_columns(pl.col("used_for").list.join(", "))
        .select("host", "build", "clock", "frequency", "overhead", "used_for")
        .sort("host", "build", maintain_order=True)
    )


def memory_use(study: Study) -> pl.DataFrame:
    """One row per dbms: megabytes that its performance schema allocated, and that the whole server had in memory."""
    of_schema = study.status.filter(pl.col("name") == perf_schema.MEMORY)
    of_dbms = {}
    for name, rows, megabytes in (
        ("perf_schema_mb", of_schema, pl.col("value").cast(pl.Int64) / 1e6),
        ("server_mb", study.counters, pl.col("server_rss_kb") * 1024 / 1e6),
    ):
        of_run = rows.group_by("host", "dbms", "run").agg(megabytes.max().alias(name))
        of_dbms[name] = of_run.group_by("host", "dbms").agg(pl.col(name).median()).collect()
    both = of_dbms["perf_schema_mb"].join(of_dbms["server_mb"], on=["host", "dbms"], how="left")
    named = scenarios.scenarios(study)
    return both.join(named, on="dbms", maintain_order="right").sort("host", maintain_order=True)


def memory(study: Study, costs: pl.DataFrame) -> list[Any]:
    """A chart of the memory of each performance schema beside the CPU that it adds, and the same as a table."""
    use = memory_use(study)
    if use.is_empty():
        return [Nothing(["The runs of this study do not say what memory the performance schema took."])]
    shown = show.table(
        use,
        [
            Column("perf_schema_mb", "performance schema, MB", ",.0f"),
            Column("server_mb", "server in memory, MB", ",.0f"),
        ],
        name="ps-memory",
        group="build",
        rows="scenario",
        note="As the server reports it of its performance schema after each step, and the most that its process had.",
    )
    first = costs.filter(pl.col("position") == pl.col("position").min())
    points = first.join(use.drop("build", "version", "scenario"), on=["host", "dbms"], maintain_order="left")
    return [*([] if points.is_empty() else [_memory_chart(points)]), shown]


def _memory_chart(points: pl.DataFrame) -> Any:
    share = pl.col("estimate") - 1
    rows = show.with_rows(points, "build", "scenario").with_columns(
        share=share,
        label=pl.when(verdict="unsure")
        .then(pl.lit("CPU unsure"))
        .otherwise(share.map_elements("{:+.0%} CPU".format, pl.String)),
        verdict=pl.col("verdict").replace(show.verdict_words(CPU)),
    )
    columns = ("row", "scenario", "build", "perf_schema_mb", "server_mb", "n", "share", "verdict", "label")
    megabytes = numbers(",.0f", names=("perf_schema_mb", "server_mb"))
    tooltip = ["row:N", "verdict:N", *megabytes, alt.Tooltip("share:Q", format="+.1%")]
    axis, height = show.row_axis(rows, "build", "scenario")
    base = alt.Chart(show.slim(rows, *columns)).encode(y=axis, tooltip=tooltip)
    room = show.room(1.3, rows["perf_schema_mb"])
    title = "memory of the performance schema, MB"
    x = alt.X("perf_schema_mb:Q", title=title, scale=room, axis=alt.Axis(tickCount=6))
    bars = base.mark_bar(height=13).encode(x=x, color=show.verdict_colour(CPU, "its CPU"))
    how = (
        "Memory as the server reports it after the last step; behind it the CPU of "
        f"{points['step'][0]} against {points['against'][0]}, mean of {show.rounds_of(points['n'])}."
    )
    return show.on_rows([bars, show.row_labels(base, "perf_schema_mb")], height, _memory_claim(points), how)


def _memory_claim(points: pl.DataFrame) -> str:
    """The memory that each build takes, whatever it records."""
    taken = []
    for (build,), rows in points.group_by("build", maintain_order=True):
        each = show.in_order(f"{megabytes:,.0f}" for megabytes in sorted(rows["perf_schema_mb"]))
        reach = f"{each[0]} to {each[-1]}" if len(each) > 1 else each[0]
        taken.append(f"{build} takes {reach} MB")
    return f"{', '.join(taken)}: room is taken also for what is not recorded."
