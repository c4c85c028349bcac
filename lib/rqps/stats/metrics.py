"""Metrics: throughput, and the cost of an operation (a counter's difference over operations)."""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from rqps.stats.pairing import comparable
from rqps.store.schemas import IDENTITY


@dataclass(frozen=True)
class Metric:
    """One thing to compare, with the words for tables and axes."""

    name: str
    title: str
    unit: str
    more_is_better: bool = False


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("operations_per_s", "throughput", "operations/s", more_is_better=True),
        Metric("server_cpu_us_per_operation", "server CPU", "µs/operation"),
        Metric("server_user_cpu_us_per_operation", "server CPU without the kernel", "µs/operation"),
        Metric("client_cpu_us_per_operation", "client CPU", "µs/operation"),
        Metric("host_cpu_us_per_operation", "CPU of the whole host", "µs/operation"),
        Metric("server_context_switches_per_operation", "server context switches", "per operation"),
        Metric("host_context_switches_per_operation", "host context switches", "per operation"),
        Metric("host_reads_per_operation", "reads of the disk", "per operation"),
        Metric("host_read_kb_per_operation", "read from the disk", "KB/operation"),
        Metric("host_write_kb_per_operation", "written to the disk", "KB/operation"),
        Metric("server_instructions_per_operation", "server instructions", "per operation"),
        Metric("server_cycles_per_operation", "server cycles", "per operation"),
    )
}
PUBLISHED: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("cpu/o", "CPU", "percent of host/operation"),
        Metric("cs/o", "context switches", "switches/operation"),
        Metric("r/o", "reads", "reads/operation"),
        Metric("rKB/o", "read", "KB/operation"),
        Metric("wKB/o", "written", "KB/operation"),
        Metric("o/s", "throughput", "operations/s", more_is_better=True),
    )
}
"""The columns of a per-operation table as they are published, in that order. All are of the whole host."""

MORE_IS_BETTER = frozenset(name for name, metric in (METRICS | PUBLISHED).items() if metric.more_is_better)

COMPARED = ("operations_per_s", "server_cpu_us_per_operation", "client_cpu_us_per_operation")

_COUNTERS = {
    "server_cpu_us_per_operation": pl.col("server_cpu_s") * 1e6,
    "server_user_cpu_us_per_operation": pl.col("server_cpu_user_s") * 1e6,
    "client_cpu_us_per_operation": pl.col("client_cpu_s") * 1e6,
    "host_cpu_us_per_operation": (pl.col("host_cpu_user_s") + pl.col("host_cpu_system_s")) * 1e6,
    "server_context_switches_per_operation": pl.col("server_context_switches"),
    "host_context_switches_per_operation": pl.col("host_context_switches"),
    "host_reads_per_operation": pl.col("host_reads"),
    "host_read_kb_per_operation": pl.col("host_read_kb"),
    "host_write_kb_per_operation": pl.col("host_write_kb"),
    "server_instructions_per_operation": pl.col("server_instructions"),  # null where the CPU has no counters for us
    "server_cycles_per_operation": pl.col("server_cycles"),
}

DESCRIBED: dict[str, pl.Expr] = {
    "table_position": pl.col("position"),
    "kind": pl.lit(None, pl.String),
    "range": pl.lit(None, pl.Int64),
    "group": pl.lit("", pl.String),
    "clients": pl.lit(None, pl.Int32),
}
"""Columns that describe a step, and stand-ins for steps that are made up without them."""

_USABLE = (pl.col("operations") > 0) & (pl.col("errors") == 0) & (pl.col("operations_per_s") > 0)


def measured(steps: pl.DataFrame, runs: pl.DataFrame, metrics: Iterable[str] = METRICS) -> pl.DataFrame:
    """One row per step, run and metric: `metric, value`. A step with errors or no operations gives no value.

    Rows are in the order of tables: steps as they were run, older versions before newer ones. Runs that differ in
    more than the dbms are refused.
    """
    per_operation = [(total / pl.col("operations")).alias(name) for name, total in _COUNTERS.items()]
    return tidy(steps.lazy().filter(_USABLE).with_columns(per_operation), metrics, runs)


def usable(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that give a number: something was done, and without errors."""
    return steps.filter(_USABLE)


def tidy(wide: pl.DataFrame | pl.LazyFrame, metrics: Iterable[str], runs: pl.DataFrame) -> pl.DataFrame:
    """Any steps with one column per metric as one row per step, run and metric; unlike runs are refused."""
    comparable(runs)
    names = sorted(metrics)
    metric = pl.col("metric").cast(pl.Enum(names)).to_physical()  # numbers are sorted faster than words
    there = wide.lazy().collect_schema().names()
    missing = [of.alias(name) for name, of in DESCRIBED.items() if name not in there]
    return (
        wide.lazy()
        .with_columns(missing)
        .join(version_order(runs).lazy(), on="dbms")
        .unpivot(
            on=names,
            index=[*IDENTITY, "step", "position", *DESCRIBED, "rank"],
            variable_name="metric",
            value_name="value",
        )
        .filter(pl.col("value").is_finite())
        .sort("host", "position", metric, "rank", "round")
        .collect()
    )


def version_order(runs: pl.DataFrame) -> pl.DataFrame:
    """The `rank` of each dbms, older versions first."""
    numbers = pl.col("version").str.extract_all(r"\d+").cast(pl.List(pl.Int64))
    ordered = runs.select("dbms", numbers=numbers).unique("dbms").sort("numbers", "dbms")
    return ordered.select("dbms").with_row_index("rank")


def unusable(steps: pl.DataFrame) -> pl.DataFrame:
    """Warnings for the steps that give no number: errors, or nothing done."""
    reason = (
        pl.when(pl.col("errors") > 0)
        .then(pl.format("{} errors in {} operations: not compared", "errors", "operations"))
        .otherwise(pl.format("{} operations: not compared", "operations"))
    )
    return steps.filter(~_USABLE.fill_null(False)).select(
        *IDENTITY, pl.lit("errors").alias("kind"), "step", reason.alias("text")
    )


def missed_targets(steps: pl.DataFrame) -> pl.DataFrame:
    """Warnings for the steps that had a rate to hold and did not hold it.

    Where queries are asked, the rate is that of the rows written beside them, and the run itself warns of it.
    """
    reason = pl.format(
        "{} operations/s instead of {}: the rate was not held",
        pl.col("operations_per_s").round(1),
        pl.col("target_per_s").round(1),
    )
    return steps.filter(pl.col("target_held").not_(), pl.col("unit") != "query").select(
        *IDENTITY, pl.lit("target").alias("kind"), "step", reason.alias("text")
    )
