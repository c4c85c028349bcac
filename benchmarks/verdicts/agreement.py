"""Ratios of one step by duets, by counted instructions and by long rounds, of studies that have been measured."""

from pathlib import Path

import polars as pl
import rqps
from rqps import stats
from rqps.profile import instruction_ratios, instructions_per_operation

KEYS = ("step", "base", "dbms")


def agreement(duets: str, rounds: str, counted: str, base: str, step: str, data: Path | None) -> pl.DataFrame:
    """One row per dbms and way of measuring; a study that is not there gives none."""
    found = []
    for way, name in (("duets", duets), ("rounds", rounds)):
        study = rqps.load(name, data)
        paired = stats.rounds(stats.measured(study, stats.COMPARED), study.runs, base)
        found.append(stats.compare(paired).filter(step=step).with_columns(pl.lit(way).alias("way")))
    study = rqps.load(counted, data, mode="instructions")
    values = instructions_per_operation(study.instructions, study.steps, study.runs)
    by_instructions = instruction_ratios(values, study.runs, base).filter(step=step)
    found.append(by_instructions.with_columns(pl.lit("instructions").alias("way")))
    return pl.concat(found, how="diagonal_relaxed")


def agreement_table(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per dbms: what each way says of it."""
    low, high = pl.col("low"), pl.col("high")
    reach = pl.when(low.is_null()).then(pl.lit("")).otherwise(pl.format(" ({} – {})", low.round(3), high.round(3)))
    metric = pl.col("metric").replace({"operations_per_s": "throughput", "server_cpu_us_per_operation": "CPU"})
    shown = rows.filter(pl.col("metric") != "client_cpu_us_per_operation").select(
        "dbms",
        "base",
        pl.format("{}{}", pl.col("median").round(3), reach).alias("said"),
        pl.when(way="instructions")
        .then(pl.lit("instructions"))
        .otherwise(pl.format("{}: {}", "way", metric))
        .alias("way"),
    )
    return shown.pivot(on="way", index=["dbms", "base"], values="said", aggregate_function="first").sort("dbms")
