"""Ratios of one step by duets, by counted instructions and by long rounds, of studies that have been measured."""

from pathlib import Path

import polars as pl
import rqps
from rqps import stats
from rqps.profile import instruction_ratios, instructions_per_operation


def agreement(duets: str, rounds: str, counted: str, build: str, step: str, data: Path | None) -> pl.DataFrame:
    """One row per build and way of measuring: each against `build`, both with the config of the study's base."""
    found = []
    for way, name in (("duets", duets), ("rounds", rounds), ("instructions", counted)):
        study = rqps.load(name, data, mode="instructions" if way == "instructions" else "throughput")
        config = study.card.base.partition(".")[2]
        if way == "instructions":
            values = instructions_per_operation(study.instructions, study.steps, study.runs)
            compared = instruction_ratios(values, study.runs, f"{build}.{config}")
        else:
            paired = stats.rounds(stats.measured(study, stats.COMPARED), study.runs, f"{build}.{config}")
            compared = stats.compare(paired)
        found.append(compared.filter(step=step, config=config).with_columns(way=pl.lit(way), study=pl.lit(name)))
    return pl.concat(found, how="diagonal_relaxed")


def agreement_table(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per build: what each way says of it."""
    low, high = pl.col("low"), pl.col("high")
    reach = pl.when(low.is_null()).then(pl.lit("")).otherwise(pl.format(" ({} – {})", low.round(3), high.round(3)))
    metric = pl.col("metric").replace({"operations_per_s": "throughput", "server_cpu_us_per_operation": "CPU"})
    shown = rows.select(
        "build",
        pl.format("{}{}", pl.col("median").round(3), reach).alias("said"),
        pl.when(way="instructions")
        .then(pl.lit("instructions"))
        .otherwise(pl.format("{}: {}", "way", metric))
        .alias("way"),
    )
    return shown.pivot(on="way", index="build", values="said", aggregate_function="first").sort("build")
