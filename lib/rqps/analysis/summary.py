"""Rounds summed up: one row a step, dbms and metric, with interval, count and verdict."""

from typing import Any

import polars as pl

from rqps.analysis.interval import estimate, needs, verdict
from rqps.analysis.metrics import METRICS, measured
from rqps.analysis.relative import comparable

_ESTIMATE = {
    "n": pl.Int32,
    "median": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "coverage": pl.Float64,
}


def summarise(ratios: pl.DataFrame) -> pl.DataFrame:
    """The median ratio of the rounds, its interval and what it supports."""
    keys = ["host", "step", "position", "metric", "base", "dbms", "build", "config"]
    rows = []
    for key, group in ratios.group_by(keys, maintain_order=True):
        found = estimate(group["ratio"].to_list())
        row = dict(zip(keys, key, strict=True)) | vars(found)
        better = METRICS[str(row["metric"])].more_is_better
        rows.append(row | {"verdict": verdict(found, more_is_better=better), "needs": needs(found)})
    return _frame(rows, {**ratios.select(keys).schema, **_ESTIMATE, "verdict": pl.String, "needs": pl.String})


def absolute(steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The median of each metric as it was measured, with its interval, for every dbms."""
    comparable(runs)
    return _estimates(
        measured(steps, runs), ["host", "step", "position", "metric", "dbms", "build", "config"], "value"
    )


def summarise_given_back(differences: pl.DataFrame) -> pl.DataFrame:
    """The median of what another config gives back, with its interval."""
    keys = ["host", "step", "position", "metric", "base", "instead_of", "dbms"]
    return _estimates(differences, keys, "difference")


def _estimates(frame: pl.DataFrame, keys: list[str], value: str) -> pl.DataFrame:
    rows = [
        dict(zip(keys, key, strict=True)) | vars(estimate(group[value].to_list()))
        for key, group in frame.group_by(keys, maintain_order=True)
    ]
    return _frame(rows, {**frame.select(keys).schema, **_ESTIMATE})


def _frame(rows: list[dict[str, Any]], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema)
