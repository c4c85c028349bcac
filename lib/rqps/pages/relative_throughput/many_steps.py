"""What a study of many steps comes to: its groups summed up, its worst steps, and each step over the releases."""

import polars as pl

from rqps.stats.metrics import version_order

THROUGHPUT = "operations_per_s"
MANY = 12
"""Steps; of more than these, a reader wants the groups first."""


def by_group(summary: pl.DataFrame, metric: str = THROUGHPUT) -> pl.DataFrame:
    """One row a group and dbms: the median of its steps' medians, their reach, and how many are slower or faster.

    The frame is one that `grouped` has made.
    """
    kinds = [(pl.col("verdict") == kind).sum().alias(kind) for kind in ("slower", "faster", "same", "unsure")]
    middle = pl.col("median")
    return (
        summary.filter(metric=metric)
        .group_by("host", "group", "base", "dbms", maintain_order=True)
        .agg(
            pl.len().alias("steps"),
            middle.median().alias("middle"),
            middle.min().alias("low"),
            pl.col("step").sort_by("median").first().alias("low_step"),
            middle.max().alias("high"),
            pl.col("step").sort_by("median").last().alias("high_step"),
            pl.col("n").min().alias("fewest_rounds"),
            pl.col("n").max().alias("most_rounds"),
            *kinds,
        )
    )


def worst(summary: pl.DataFrame, at_most: int = MANY) -> pl.DataFrame:
    """Each step with the dbms that does worst in it, the worst first, and what the server spends there."""
    ratios = summary.filter(metric=THROUGHPUT).sort("median", maintain_order=True)
    first = ratios.unique(["host", "step"], keep="first", maintain_order=True)
    keys = ["host", "step", "base", "dbms"]
    cpu = summary.filter(metric="server_cpu_us_per_operation").select(
        *keys, cpu="median", cpu_low="low", cpu_high="high"
    )
    shown = first.head(at_most).with_columns(pl.lit(first.height).alias("of_steps"))
    return shown.join(cpu, on=keys, how="left", maintain_order="left")


def over_releases(summary: pl.DataFrame, runs: pl.DataFrame, metric: str = THROUGHPUT) -> pl.DataFrame:
    """The ratios of each step with the base among them, which is 1, in the order of releases."""
    ratios = summary.filter(metric=metric)
    build, config = (pl.col("base").str.splitn(".", 2).struct.field(f"field_{part}") for part in (0, 1))
    of_base = (
        ratios.group_by("host", "group", "step", "base")
        .agg(pl.col("n").max())
        .with_columns(
            build.alias("build"),
            config.alias("config"),
            pl.col("base").alias("dbms"),
            *(pl.lit(1.0).alias(name) for name in ("median", "low", "high")),
            pl.lit("base").alias("verdict"),
        )
    )
    shown = ["host", "group", "step", "base", "dbms", "build", "config", "n", "median", "low", "high", "verdict"]
    order = {step: number for number, step in enumerate(dict.fromkeys(ratios["step"]))}
    place = pl.col("step").replace_strict(order, return_dtype=pl.Int32)
    both = pl.concat([ratios.select(shown), of_base.select(shown)])
    return both.join(version_order(runs), on="dbms").sort("host", place, "rank")
