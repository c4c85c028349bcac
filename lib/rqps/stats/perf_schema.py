"""Scenarios of the performance schema: one per dbms, its cost against another one, and the events it records."""

import polars as pl

from rqps.stats.comparison import KEYS, compare
from rqps.stats.metrics import COMPARED, measured
from rqps.stats.pairing import rounds_of_pairs
from rqps.store.read import Study
from rqps.store.schemas import IDENTITY
from rqps.study.perf_schema import class_of

OFF, DISABLED, DEFAULT, ENABLED = "off", "all-disabled", "default", "all-enabled"
CPU = "server_cpu_us_per_operation"
MEMORY = "perf_schema/memory_bytes"

_BY_OPTION = {"OFF": OFF, "0": OFF, "ON": DEFAULT, "1": DEFAULT}
"""Scenario of a dbms whose config names none, but switches the performance schema on or off."""
_EVENTS = "perf_schema/"
_STATEMENTS = "questions"
_KEYS = (*KEYS, "scenario", "against")


def scenarios(study: Study) -> pl.DataFrame:
    """One row per dbms: `dbms, build, version, scenario`; a dbms whose config says nothing about it has none."""
    options = study.conditions.filter(kind="option").select("dbms", "name", "value").unique()
    named = options.filter(name="perf_schema").select("dbms", scenario="value")
    switched = options.filter(name="performance_schema").select(
        "dbms", switched=pl.col("value").str.to_uppercase().replace_strict(_BY_OPTION, default=None)
    )
    return (
        study.runs.select("dbms", "build", "version")
        .unique("dbms", maintain_order=True)
        .join(named, on="dbms", how="left", maintain_order="left")
        .join(switched, on="dbms", how="left", maintain_order="left")
        .select("dbms", "build", "version", scenario=pl.coalesce("scenario", "switched"))
        .drop_nulls("scenario")
        .sort("dbms")
    )


def scenario_rounds(study: Study, values: pl.DataFrame, against: str) -> pl.DataFrame:
    """The rounds of each scenario beside those of the same build in `against`; a build without that has no rows."""
    named = scenarios(study)
    bases = named.filter(scenario=against).select("build", base="dbms")
    pairs = named.join(bases, on="build").filter(pl.col("dbms") != pl.col("base")).select("base", "dbms").rows()
    return (
        rounds_of_pairs(values, pairs)
        .join(named.select("dbms", "scenario"), on="dbms", maintain_order="left")
        .with_columns(against=pl.lit(against))
    )


def scenario_costs(study: Study, against: str) -> pl.DataFrame:
    """The tidy frame of server CPU per operation, with what each scenario adds, and its throughput beside it.

    `added, added_low, added_high` are µs per operation; `throughput`, its interval and its verdict are of the ratio.
    """
    rounds = scenario_rounds(study, measured(study.steps, study.runs, COMPARED), against)
    names = {"median": "throughput", **{each: f"throughput_{each}" for each in ("low", "high", "verdict")}}
    beside = compare(rounds.filter(metric="operations_per_s"), keys=_KEYS).rename(names)
    keys = ["host", "step", "dbms"]
    return with_added(rounds.filter(metric=CPU)).join(
        beside.select(*keys, *names.values()), on=keys, how="left", maintain_order="left"
    )


def with_added(rounds: pl.DataFrame) -> pl.DataFrame:
    """The tidy frame of one metric with the median of the rounds' differences: `added, added_low, added_high`."""
    added = {"median": "added", "low": "added_low", "high": "added_high"}
    keys = ["host", "step", "dbms"]
    more = compare(rounds, of="difference", keys=_KEYS).rename(added).select(*keys, *added.values())
    return compare(rounds, keys=_KEYS).join(more, on=keys, how="left", maintain_order="left")


def ranked(costs: pl.DataFrame, *, descending: bool = False) -> pl.DataFrame:
    """Rows by step and build, then by cost; those whose cost the rounds leave unsure come last, by name."""
    unsure = pl.col("verdict") == "unsure"
    order = ["position", "build", unsure, pl.when(~unsure).then(pl.col("median")), "scenario"]
    return costs.sort(order, descending=[False, False, False, descending, False], maintain_order=True)


def events_per_statement(study: Study) -> pl.DataFrame:
    """One row per step, dbms and instrument: the median of the rounds' events for each statement of the load."""
    keys = [*IDENTITY, "step", "name"]
    wanted = (pl.col("name").str.starts_with(_EVENTS) & (pl.col("name") != MEMORY)) | (pl.col("name") == _STATEMENTS)
    grown = (
        study.status.filter(wanted)
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
        .with_columns(
            pl.col("instrument").map_elements(lambda name: class_of(name) or name, pl.String).alias("class")
        )
        .join(scenarios(study).select("dbms", "scenario"), on="dbms", maintain_order="left")
        .sort("host", "step", "dbms", "per_statement", descending=[False, False, False, True])
    )


def with_events(costs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The CPU that scenarios add, with their events per statement and the nanoseconds that one of these adds.

    An operation must be a statement. `each_ns` is null where the rounds leave it unsure whether there is a cost.
    """
    keys = ["host", "step", "dbms"]
    counted = events.group_by(keys, maintain_order=True).agg(
        pl.col("per_statement").sum(),
        pl.col("class").unique(maintain_order=True).str.join(", ").alias("classes"),
    )
    each_ns = pl.col("added") * 1e3 / pl.col("per_statement")
    return costs.join(counted, on=keys, how="left", maintain_order="left").with_columns(
        each_ns=pl.when(pl.col("added_low") > 0).then(each_ns)
    )
