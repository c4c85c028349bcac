"""Moved to `estimate` and `verdict`; this door closes when its last user has moved."""

from collections.abc import Sequence

import polars as pl

from rqps.stats import verdict as _verdict
from rqps.stats.estimate import MEDIAN, coverage, interval_ranks
from rqps.stats.estimate import Estimate as Estimate
from rqps.stats.verdict import COVERAGE, ROUNDS_FOR_A_VERDICT, SAME_WITHIN, Verdict

__all__ = ["ROUNDS_FOR_A_VERDICT", "SAME_WITHIN", "WANTED_COVERAGE", "Estimate", "Verdict", "coverage", "ends_of"]

WANTED_COVERAGE = COVERAGE
ends_of = interval_ranks


def estimate(values: Sequence[float]) -> Estimate:
    """The median with its interval."""
    return MEDIAN.of(values)


def verdict(found: Estimate, *, more_is_better: bool = True) -> Verdict:
    """The verdict of one estimate of a ratio."""
    one = pl.DataFrame([vars(found)], schema=_SCHEMA)
    word: Verdict = one.select(_verdict.decided(sure=MEDIAN.sure, more_is_better=more_is_better)).item()
    return word


_SCHEMA = {"n": pl.Int32, "median": pl.Float64, "low": pl.Float64, "high": pl.Float64, "coverage": pl.Float64}
