"""Rounds summed up: one row a step, dbms and metric, with interval, count and verdict."""

from collections.abc import Sequence

import polars as pl

from rqps.stats.interval import Estimate, ends_of, needs, verdict
from rqps.stats.metrics import measured, more_is_better
from rqps.stats.relative import comparable


def summarise(ratios: pl.DataFrame) -> pl.DataFrame:
    """The median ratio of the rounds, its interval and what it supports."""
    found = estimates(ratios, ["host", "step", "position", "metric", "base", "dbms", "build", "config"], "ratio")
    rows = [(row["metric"], Estimate(**{name: row[name] for name in _ESTIMATE})) for row in found.to_dicts()]
    verdicts = [verdict(each, more_is_better=more_is_better(metric)) for metric, each in rows]
    return found.with_columns(
        pl.Series("verdict", verdicts, dtype=pl.String),
        pl.Series("needs", [needs(each) for _, each in rows], dtype=pl.String),
    )


def absolute(steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The median of each metric as it was measured, with its interval, for every dbms."""
    comparable(runs)
    keys = ["host", "step", "position", "metric", "dbms", "build", "config"]
    return estimates(measured(steps, runs), keys, "value")


def summarise_given_back(differences: pl.DataFrame) -> pl.DataFrame:
    """The median of what another config gives back, with its interval."""
    keys = ["host", "step", "position", "metric", "base", "instead_of", "dbms"]
    return estimates(differences, keys, "difference")


_ESTIMATE = ("n", "median", "low", "high", "coverage")


def estimates(frame: pl.DataFrame, keys: Sequence[str], value: str) -> pl.DataFrame:
    """`interval.estimate` of every group at once, since a study has thousands of them."""
    groups = frame.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int32).alias("n"), pl.col(value).sort().alias("ordered")
    )
    sizes = sorted(set(groups["n"]))
    ends = pl.DataFrame(
        [(n, *ends_of(n)) for n in sizes], schema={"n": pl.Int32, "k": pl.Int32, "coverage": pl.Float64}, orient="row"
    )
    n, k, at = pl.col("n"), pl.col("k"), pl.col("ordered").list.get
    return groups.join(ends, on="n", how="left", maintain_order="left").select(
        *keys,
        "n",
        ((at((n - 1) // 2) + at(n // 2)) / 2).alias("median"),
        pl.when(n > 1).then(at(k - 1)).alias("low"),
        pl.when(n > 1).then(at(n - k)).alias("high"),
        "coverage",
    )
