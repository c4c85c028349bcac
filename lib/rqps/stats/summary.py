"""Moved to `comparison`; this door closes when its last user has moved."""

import polars as pl

from rqps.stats import comparison
from rqps.stats.estimate import MEDIAN
from rqps.stats.metrics import measured

_KEYS = ["host", "step", "position", "metric", "base", "dbms", "build", "config"]
estimates = MEDIAN.estimate


def summarise(ratios: pl.DataFrame) -> pl.DataFrame:
    """`compare`, without the columns that describe a step."""
    return comparison.compare(ratios, keys=_KEYS).drop("base_median", "me_median")


def absolute(steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """`absolute` of all metrics."""
    return comparison.absolute(measured(steps, runs), keys=[name for name in _KEYS if name != "base"])


def summarise_given_back(differences: pl.DataFrame) -> pl.DataFrame:
    """The median of what another config gives back, with its interval."""
    keys = ["host", "step", "position", "metric", "base", "instead_of", "dbms"]
    return estimates(differences, keys, "difference")
