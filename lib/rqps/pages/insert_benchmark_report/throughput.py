"""The three tables of the published summary: throughput, relative throughput, and the rate of background inserts."""

import polars as pl

from rqps.pages.insert_benchmark_report.steps import HELD, KEYS, over_rounds, reads, with_insert_rate
from rqps.stats.metrics import tidy
from rqps.stats.relative import comparable
from rqps.stats.summary import estimates
from rqps.store.read import Study


def throughput(study: Study) -> pl.DataFrame:
    """One row a step and dbms: rows inserted (or indexed) or queries in a second, the median of the rounds.

    `met` is null where the step has no rate of inserts to hold; else whether the median of the rounds' insert rates
    is at least 95 % of it.
    """
    comparable(study.runs)
    steps = with_insert_rate(study.steps, study.intervals)
    found = over_rounds(steps, ["operations_per_s"], study.runs)
    rates = insert_rates(study).select("host", "step", "dbms", "met")
    return found.join(rates, on=["host", "step", "dbms"], how="left", maintain_order="left")


def insert_rates(study: Study) -> pl.DataFrame:
    """One row a step with a rate and dbms: rows inserted in a second, `target`, `met`, and in how many rounds it was
    `missed`, each by the published rule."""
    steps = with_insert_rate(study.steps, study.intervals).filter(pl.col("target_per_s").is_not_null(), reads())
    values = tidy(steps, ["ips"], study.runs)
    told = steps.group_by("host", "step", "dbms").agg(
        pl.col("target_per_s").first().alias("target"), (~pl.col("met")).sum().alias("missed")
    )
    found = estimates(values, KEYS, "value").join(
        told, on=["host", "step", "dbms"], how="left", maintain_order="left"
    )
    return found.with_columns((pl.col("median") >= HELD * pl.col("target")).alias("met"))
