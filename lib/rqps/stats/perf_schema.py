"""Scenarios of the performance schema: one per dbms, its cost against another one, and the events it records."""

import polars as pl

from rqps.stats.metrics import COMPARED, measured
from rqps.stats.relative import comparable, paired
from rqps.stats.summary import estimates, summarise
from rqps.store.flat import IDENTITY
from rqps.study.perf_schema import class_of

CPU = "server_cpu_us_per_operation"
OFF, DISABLED, DEFAULT, ENABLED = "off", "all-disabled", "default", "all-enabled"

_BY_OPTION = {"OFF": OFF, "0": OFF, "ON": DEFAULT, "1": DEFAULT}
"""Scenario of a dbms whose config names none, but switches the performance schema on or off."""

_EVENTS = "perf_schema/"
MEMORY = "perf_schema/memory_bytes"
_STATEMENTS = "questions"


def scenarios(runs: pl.DataFrame, conditions: pl.DataFrame) -> pl.DataFrame:
    """One row a dbms: `dbms, build, version, scenario`. What says nothing of its performance schema is left out."""
    options = conditions.filter(kind="option").select("dbms", "name", "value").unique()
    named = options.filter(name="perf_schema").select("dbms", scenario="value")
    switched = options.filter(name="performance_schema").select(
        "dbms", switched=pl.col("value").str.to_uppercase().replace_strict(_BY_OPTION, default=None)
    )
    return (
        runs.select("dbms", "build", "version")
        .unique("dbms", maintain_order=True)
        .join(named, on="dbms", how="left", maintain_order="left")
        .join(switched, on="dbms", how="left", maintain_order="left")
        .select("dbms", "build", "version", scenario=pl.coalesce("scenario", "switched"))
        .drop_nulls("scenario")
        .sort("dbms")
    )


def scenario_ratios(steps: pl.DataFrame, runs: pl.DataFrame, named: pl.DataFrame, against: str) -> pl.DataFrame:
    """Each round of a dbms beside the same build's in the scenario `against`; a build without that is left out."""
    comparable(runs)
    bases = named.filter(scenario=against).select("build", base="dbms")
    pairs = named.join(bases, on="build").filter(pl.col("dbms") != pl.col("base")).select("base", "dbms").rows()
    of_scenario = named.select("dbms", "scenario")
    threads = steps.select("step", "threads").unique("step")
    return (
        paired(measured(steps, runs, COMPARED), pairs)
        .join(of_scenario, on="dbms", maintain_order="left")
        .join(threads, on="step", maintain_order="left")
        .with_columns(against=pl.lit(against))
    )


def scenario_costs(ratios: pl.DataFrame) -> pl.DataFrame:
    """What a scenario costs: throughput, and the µs of server CPU that it adds to an operation.

    One row a step and dbms. `share` is throughput lost (0.25 is a quarter), `added_us` CPU; each has its interval
    from low to high, and `verdict` is what the rounds support of the CPU. Rows are `ranked`.
    """
    keys = ["host", "step", "position", "base", "dbms", "build"]
    whose = ratios.select(*keys, "scenario", "against", "threads").unique(maintain_order=True)
    summed = summarise(ratios)
    lost = summed.filter(metric="operations_per_s").select(
        *keys,
        share=1 - pl.col("median"),
        share_low=1 - pl.col("high"),
        share_high=1 - pl.col("low"),
        share_verdict="verdict",
    )
    dearer = summed.filter(metric=CPU).select(
        *keys, cpu_ratio="median", cpu_low="low", cpu_high="high", verdict="verdict", needs="needs"
    )
    added = ratios.filter(metric=CPU).with_columns(added_us=pl.col("me_value") - pl.col("base_value"))
    names = {"median": "added_us", "low": "added_low_us", "high": "added_high_us"}
    of_base = added.group_by(keys, maintain_order=True).agg(pl.col("base_value").median().alias("base_us"))
    return ranked(
        whose.join(lost, on=keys, how="left", maintain_order="left")
        .join(dearer, on=keys, how="left", maintain_order="left")
        .join(estimates(added, keys, "added_us").rename(names), on=keys, how="left", maintain_order="left")
        .join(of_base, on=keys, how="left", maintain_order="left")
    )


def ranked(costs: pl.DataFrame, *, dearest_first: bool = False) -> pl.DataFrame:
    """Rows by step and build, then by CPU; those whose CPU the rounds can't tell stand behind all others, by name."""
    unsure = (pl.col("verdict") == "unsure").fill_null(True)
    ratio = pl.when(~unsure).then(pl.col("cpu_ratio"))
    order = ["position", "build", unsure, ratio, "scenario"]
    return costs.sort(order, descending=[False, False, False, dearest_first, False], maintain_order=True)


def by_clients(steps: pl.DataFrame, runs: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Throughput of each scenario by its number of clients: `step` without them, `threads`, and the rounds' estimate.

    Only of steps that were measured with several numbers of clients.
    """
    comparable(runs)
    plain = pl.col("step").str.replace(r"@\d+$", "")
    values = measured(steps, runs, ["operations_per_s"]).with_columns(plain)
    several = values.group_by("step").agg(pl.col("threads").n_unique()).filter(pl.col("threads") > 1)["step"]
    shown = values.filter(pl.col("step").is_in(several.implode())).join(
        named.select("dbms", "scenario"), on="dbms", maintain_order="left"
    )
    return estimates(shown, ["host", "step", "build", "dbms", "scenario", "threads"], "value").sort(
        "host", "step", "build", "scenario", "threads"
    )


def events_per_statement(status: pl.LazyFrame, named: pl.DataFrame) -> pl.DataFrame:
    """One row a step, dbms and instrument: the median of the rounds' events for each statement of the load."""
    keys = [*IDENTITY, "step", "name"]
    wanted = (pl.col("name").str.starts_with(_EVENTS) & (pl.col("name") != MEMORY)) | (pl.col("name") == _STATEMENTS)
    grown = (
        status.filter(wanted)
        .with_columns(pl.col("value").cast(pl.Int64))
        .group_by(keys, maintain_order=True)
        .agg(pl.col("value").filter(moment="after").sum() - pl.col("value").filter(moment="before").sum())
        .collect()
    )
    statements = grown.filter(name=_STATEMENTS).select(*IDENTITY, "step", statements="value")
    each = grown.filter(pl.col("name") != _STATEMENTS).join(statements, on=[*IDENTITY, "step"])
    per = each.filter(pl.col("value") > 0).with_columns(
        pl.col("name").str.strip_prefix(_EVENTS).alias("instrument"),
        (pl.col("value") / pl.col("statements")).alias("per_statement"),
    )
    return (
        per.group_by("host", "step", "dbms", "instrument", maintain_order=True)
        .agg(pl.col("per_statement").median())
        .with_columns(pl.col("instrument").map_elements(_kind, pl.String).alias("kind"))
        .join(named.select("dbms", "scenario"), on="dbms", maintain_order="left")
        .sort("host", "step", "dbms", "per_statement", descending=[False, False, False, True])
    )


def _kind(instrument: str) -> str:
    return class_of(instrument) or instrument


def event_costs(events: pl.DataFrame, costs: pl.DataFrame) -> pl.DataFrame:
    """One row a step and scenario: events for each statement, and the nanoseconds of CPU that one of them adds.

    Only where an operation is a statement; a scenario whose cost the rounds can't tell from nothing has no such time.
    """
    keys = ["host", "step", "dbms"]
    counted = events.group_by(keys, maintain_order=True).agg(
        pl.col("per_statement").sum(),
        pl.col("kind").unique(maintain_order=True).str.join(", ").alias("kinds"),
    )
    sure = pl.col("added_low_us") > 0
    each_ns = pl.col("added_us") * 1e3 / pl.col("per_statement")
    return (
        costs.join(counted, on=keys, maintain_order="left")
        .with_columns(each_ns=pl.when(sure).then(each_ns))
        .select(*_EVENT_COSTS)
        .sort("position", "build", "per_statement", descending=[False, False, True], maintain_order=True)
    )


_OF_A_SCENARIO = ("host", "step", "position", "build", "scenario", "against")
_EVENT_COSTS = (*_OF_A_SCENARIO, "kinds", "per_statement", "added_us", "each_ns", "n")
