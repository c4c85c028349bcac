"""What whole operations cost on both sides, before it is asked what they are made of."""

import polars as pl

from rqps.profile.breakdown import MICROSECONDS
from rqps.stats.interval import ROUNDS_FOR_A_VERDICT, SAME_WITHIN

_KEYS = ("host", "step", "base", "dbms", "unit")


def operation_costs(parts: pl.DataFrame) -> pl.DataFrame:
    """One row a host, step and dbms of a breakdown: the cost of both sides, the difference with its error, a verdict.

    The verdict follows the breakdown's rule for a part, for the one comparison that it is about.
    """
    difference, error, n = pl.col("difference"), pl.col("error"), pl.col("n")
    too_few = pl.col("unit").eq(MICROSECONDS) & (n < ROUNDS_FOR_A_VERDICT)
    verdict = (
        pl.when(too_few)
        .then(pl.lit("unsure"))
        .when(difference.abs() > error)
        .then(pl.when(difference > 0).then(pl.lit("slower")).otherwise(pl.lit("faster")))
        .when(difference.abs() + error <= SAME_WITHIN * pl.col("base_cost"))
        .then(pl.lit("same"))
        .otherwise(pl.lit("unsure"))
    )
    return (
        parts.select(
            *_KEYS,
            pl.col("base_measured").alias("base_cost"),
            pl.col("me_measured").alias("me_cost"),
            (pl.col("me_measured") - pl.col("base_measured")).alias("difference"),
            pl.col("measured_error").alias("error"),
            "n",
        )
        .unique(_KEYS, keep="first", maintain_order=True)
        .with_columns(verdict.alias("verdict"))
    )
