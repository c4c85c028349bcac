"""What the steps of the insert benchmark are, by their names, and what was done in each of their seconds."""

from collections.abc import Iterable

import polars as pl

from rqps.stats.metrics import tidy, usable
from rqps.stats.summary import estimates

HELD = 0.95
"""The share of its rate that an insert rate has to reach, as published."""
KEYS = ("host", "step", "position", "metric", "dbms")


def reads() -> pl.Expr:
    """Whether a step asks queries while rows come and go (qr100, qp100, q100), or loads (l.i0, l.x, l.i1, l.i2)."""
    return pl.col("step").str.starts_with("q")


def main_kind() -> pl.Expr:
    """The kind of operation that gives a step its throughput."""
    return pl.when(reads()).then(pl.lit("query")).otherwise(pl.lit("insert"))


def with_insert_rate(steps: pl.DataFrame, intervals: pl.LazyFrame) -> pl.DataFrame:
    """The steps that give a number with `ips`, rows inserted (in l.x: indexed) in a second of the step, by all
    clients; and `met`, whether that is 95 % of the rate where the step has one."""
    inserted = intervals.filter(pl.col("kind") == "insert", pl.col("second") >= 0)
    rows = inserted.group_by("run", "step").agg(pl.col("operations").sum().alias("inserted")).collect()
    found = usable(steps).join(rows, on=["run", "step"], how="left", maintain_order="left")
    achieved = pl.col("inserted").fill_null(0) / pl.col("elapsed_s")
    return found.with_columns(
        pl.when(reads()).then(achieved).otherwise("operations_per_s").alias("ips")
    ).with_columns((pl.col("ips") >= HELD * pl.col("target_per_s")).alias("met"))


def seconds_of(rows: pl.LazyFrame, steps: pl.DataFrame, kinds: Iterable[str]) -> pl.DataFrame:
    """Operations of each kind, and client where the rows tell it, in every whole second of a step.

    A second in which nothing was done has no row of its own in the raw tables, and is 0 here: a stall is to be seen.
    """
    who = ["kind", "client"] if "client" in rows.collect_schema() else ["kind"]
    keys = ["run", "step"]
    done = (
        rows.filter(pl.col("kind").is_in(list(kinds)), pl.col("second") >= 0)
        .group_by(*keys, *who, "second")
        .agg(pl.col("operations").sum())
        .collect()
    )
    whole = pl.int_ranges(0, pl.col("elapsed_s").floor().cast(pl.Int32), dtype=pl.Int32).alias("second")
    every = steps.select("host", "dbms", "position", "round", *keys, whole).explode("second").drop_nulls("second")
    there = done.select(*keys, *who).unique(maintain_order=True)
    return (
        every.join(there, on=keys, maintain_order="left_right")
        .join(done, on=[*keys, *who, "second"], how="left", maintain_order="left")
        .with_columns(pl.col("operations").fill_null(0))
    )


def over_rounds(wide: pl.DataFrame, names: Iterable[str], runs: pl.DataFrame) -> pl.DataFrame:
    """Columns of steps as one row a step, dbms and `metric`: the median of the rounds with its interval."""
    return estimates(tidy(wide, names, runs), KEYS, "value")
