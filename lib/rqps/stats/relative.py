"""Moved to `pairing`; this door closes when its last user has moved."""

from collections.abc import Sequence

import polars as pl

from rqps.stats.metrics import COMPARED, measured
from rqps.stats.pairing import comparable, rounds, rounds_of_pairs, rounds_within_build

__all__ = ["comparable", "config_effect", "given_back", "paired", "ratios_to", "relative"]

paired = rounds_of_pairs


def relative(steps: pl.DataFrame, runs: pl.DataFrame, base: str, metrics: Sequence[str] = COMPARED) -> pl.DataFrame:
    """`rounds` of the usual metrics."""
    return rounds(measured(steps, runs, metrics), runs, base)


def ratios_to(base: str, values: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """`rounds`."""
    return rounds(values, runs, base)


def config_effect(
    steps: pl.DataFrame, runs: pl.DataFrame, base: str, metrics: Sequence[str] = COMPARED
) -> pl.DataFrame:
    """`rounds_within_build` of the usual metrics."""
    return rounds_within_build(measured(steps, runs, metrics), runs, base)


def given_back(ratios: pl.DataFrame, effects: pl.DataFrame) -> pl.DataFrame:
    """By how much another config of a build moves rQPS: two ratios to one base, subtracted round by round."""
    keys = ["host", "step", "metric", "round"]
    mine = ratios.select(*keys, "base", "dbms", "ratio")
    pairs = effects.select(*keys, "position", "dbms", instead_of="base")
    return (
        pairs.join(mine, on=[*keys, "dbms"], maintain_order="left")
        .join(
            mine.rename({"dbms": "instead_of", "ratio": "instead"}),
            on=[*keys, "base", "instead_of"],
            maintain_order="left",
        )
        .with_columns((pl.col("ratio") - pl.col("instead")).alias("difference"))
    )
