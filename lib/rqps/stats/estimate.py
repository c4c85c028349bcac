"""Statistics: ways from the values of some rounds to one value with an interval.

A statistic is chosen once per page and named on it with its assumption. To add one, write a class with the members
of `Statistic`; nothing else changes.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import polars as pl

from rqps.stats.verdict import COVERAGE, ROUNDS_FOR_A_VERDICT


class Statistic(Protocol):
    """One way to estimate. Its name, and its assumption in a sentence for the page."""

    name: str
    assumption: str
    sure: pl.Expr
    """The rounds are enough for a verdict other than `unsure`."""
    too_few: pl.Expr
    """Words for what it takes where they are not."""

    def estimate(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> pl.DataFrame:
        """One row per group, in order: the keys and `n, median, low, high, coverage`."""


class Median:
    """The median, with an interval from one of the sorted values to another: the k-th smallest to the k-th largest.

    Each value lies below the true median with probability one half, so the chance that the interval holds the true
    median is a sum of binomial terms. The interval is the narrowest of at least 95 %, or the widest there is.

    >>> rounds = pl.DataFrame({"step": "scan", "ratio": [0.60, 0.62, 0.61, 0.65, 0.63, 0.62]})
    >>> MEDIAN.estimate(rounds, ["step"], "ratio").row(0)
    ('scan', 6, 0.62, 0.6, 0.65, 0.96875)
    """

    name = "median of the rounds"
    assumption = (
        "The interval runs between two of the sorted rounds and assumes nothing about the shape of the noise, only "
        "that rounds are independent and alike; 95 % needs six of them."
    )
    sure = (pl.col("n") >= ROUNDS_FOR_A_VERDICT) & (pl.col("coverage") >= COVERAGE)
    too_few = pl.format("6 rounds or more: with {} there is no 95 % interval of the median", "n")

    def estimate(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> pl.DataFrame:
        groups = frame.group_by(keys, maintain_order=True).agg(
            pl.len().cast(pl.Int32).alias("n"), pl.col(value).sort().alias("ordered")
        )
        ranks = pl.DataFrame(
            [(size, *interval_ranks(size)) for size in sorted(set(groups["n"]))],
            schema={"n": pl.Int32, "k": pl.Int32, "coverage": pl.Float64},
            orient="row",
        )
        n, k, at = pl.col("n"), pl.col("k"), pl.col("ordered").list.get
        return groups.join(ranks, on="n", how="left", maintain_order="left").select(
            *keys,
            "n",
            ((at((n - 1) // 2) + at(n // 2)) / 2).alias("median"),
            pl.when(n > 1).then(at(k - 1)).alias("low"),
            pl.when(n > 1).then(at(n - k)).alias("high"),
            "coverage",
        )


class Student:
    """The mean, with Student's t interval: for costs that are added up, since only means add up."""

    name = "mean of the rounds, Student's t"
    assumption = (
        "Only means add up. Their interval is Student's t, which assumes that the means of the rounds are spread "
        "normally around the true one."
    )
    sure = pl.col("n") >= ROUNDS_FOR_A_VERDICT
    too_few = pl.format(f"{ROUNDS_FOR_A_VERDICT} rounds: there are {{}}", "n")

    def estimate(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> pl.DataFrame:
        n, mean = pl.col("n"), pl.col("median")
        groups = frame.group_by(keys, maintain_order=True).agg(
            pl.len().cast(pl.Int32).alias("n"),
            pl.col(value).mean().alias("median"),
            (pl.col(value).std() / pl.len().sqrt()).alias("error"),
        )
        quantiles = {size: self.quantile(size - 1) for size in set(groups["n"]) if size > 1}
        half_width = pl.col("error") * n.replace_strict(quantiles, default=None, return_dtype=pl.Float64)
        return groups.select(
            *keys,
            "n",
            mean,
            (mean - half_width).alias("low"),
            (mean + half_width).alias("high"),
            pl.when(n > 1).then(COVERAGE).otherwise(0.0).alias("coverage"),
        )

    def quantile(self, freedom: int) -> float:
        """Standard errors to either side that make a 95 % interval.

        >>> round(STUDENT.quantile(4), 3), round(STUDENT.quantile(30), 3)
        (2.776, 2.042)
        """
        from scipy import stats  # takes a second to import, and only profiles need it

        return float(stats.t.ppf((1 + COVERAGE) / 2, freedom))


MEDIAN, STUDENT = Median(), Student()


def coverage(n: int, k: int) -> float:
    """The chance that the k-th smallest and the k-th largest of n values have the true median between them.

    >>> coverage(6, 1)
    0.96875
    """
    return 1 - sum(math.comb(n, below) for below in range(k)) / float(2 ** (n - 1))


@cache
def interval_ranks(n: int) -> tuple[int, float]:
    """The rank k, from either side of n sorted values, at which the interval begins and ends; and its coverage.

    >>> interval_ranks(6), interval_ranks(20), interval_ranks(1)
    ((1, 0.96875), (6, 0.9586105346679688), (1, 0.0))
    """
    k = max((k for k in range(1, n // 2 + 1) if coverage(n, k) >= COVERAGE), default=1)
    return k, coverage(n, k)
