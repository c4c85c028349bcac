"""Configs of one build against each other, and how much closer to the base another config comes."""

from typing import Any

import polars as pl
from great_tables import GT

from rqps import stats
from rqps.stats import MEDIAN, Statistic, verdict
from rqps.store import Study
from rqps.view import Column, Sentences, coverage_of, legend_of, ratio_cell, rounds_of, spread, table, two_lines

Configs = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def configs(study: Study, rounds: pl.DataFrame, statistic: Statistic = MEDIAN) -> Configs:
    """Configs within each build compared, what they give back against the study's base, and their options."""
    values = stats.measured(study.steps, study.runs, stats.COMPARED)
    within = stats.rounds_within_build(values, study.runs, study.card.base)
    changes = stats.config_changes(study.conditions)
    return stats.compare(within, statistic), gains_of(rounds, within, statistic), changes


def gains_of(rounds: pl.DataFrame, within: pl.DataFrame, statistic: Statistic = MEDIAN) -> pl.DataFrame:
    """Gains of rQPS by another config of a build: two ratios to one base, subtracted round by round."""
    keys = ["host", "step", "metric", "round"]
    mine = rounds.select(*keys, "base", "dbms", "ratio")
    of_first = mine.rename({"dbms": "instead_of", "ratio": "instead"})
    differences = (
        within.select(*keys, "position", "dbms", instead_of="base")
        .join(mine, on=[*keys, "dbms"], maintain_order="left")
        .join(of_first, on=[*keys, "base", "instead_of"], maintain_order="left")
        .with_columns((pl.col("ratio") - pl.col("instead")).alias("difference"))
    )
    whose = ["host", "step", "position", "metric", "base", "instead_of", "dbms"]
    found = statistic.estimate(differences, whose, "difference")
    return found.with_columns(verdict.decided(sure=statistic.sure, null=0.0, near=0.0).alias("verdict"))


def config_table(within: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame) -> GT | Sentences:
    """Throughput and CPU of another config against the first one of its build, and the rQPS that it gives back."""
    if within.is_empty():
        return Sentences(["No build of this study ran with two configs."])
    keys = ["host", "step", "dbms", "base"]
    gained = {
        (row["host"], row["step"], row["dbms"], row["instead_of"]): row
        for row in gains.filter(metric="operations_per_s").to_dicts()
    }
    change = {(row["dbms"], row["instead_of"]): row["change"] for row in changes.to_dicts()}
    several = within["host"].n_unique() > 1
    rows: list[dict[str, Any]] = []
    for row in spread(within, "metric", keys):
        where = f" on {row['host']}" if several else ""
        asked = change.get((row["dbms"], row["base"]), "same options")
        pair = f"{row['dbms']}{where} ({asked}) against {row['base']}"
        rows.append(row | {"pair": pair, "gain": gained.get(tuple(row[key] for key in keys))})
    return table(
        rows,
        [
            Column("step"),
            Column("operations_per_s", "throughput", ratio_cell, align="center"),
            Column("server_cpu_us_per_operation", "server CPU/o", ratio_cell, align="center"),
            Column("gain", "rQPS given back", _gain, align="center"),
        ],
        name="config",
        group="pair",
        note=f"Median of {rounds_of(within['n'])}, {coverage_of(within['coverage'])}. Throughput: "
        f"{legend_of('operations_per_s')} CPU/o: ▲ more expensive, ▼ cheaper. Given back: how much higher rQPS "
        "against the study's base is, round by round.",
    )


def _gain(row: dict[str, Any]) -> str:
    reach = "no interval" if row["low"] is None else f"{row['low']:+.2f} to {row['high']:+.2f}"
    return two_lines(f"<b>{row['median']:+.2f}</b>", f"{reach} · n={row['n']}")
