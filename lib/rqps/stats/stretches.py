"""The course of one step over releases: its segments, its changes, and their certainty."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rqps.stats.estimate import STUDENT, USUAL_WEIGHS
from rqps.stats.verdict import COVERAGE, OCCASIONS_FOR_OTHER_HOURS

FEWEST_RELEASES = 3
"""Minimum number of releases in a course: two releases are only a comparison."""
FEWEST_OF_A_DRIFT = 6
"""Minimum number of releases for a drift: with fewer releases, a drift can't be distinguished from single changes."""
LEAST = 0.005
"""Smallest change that is named, as a share of the level before the change. Counts of instructions are so exact that
nearly every release changes them significantly, though by less than this share."""
ITERATIONS_OF_MEANS = 50
"""Number of iterations after which the row and column means of a table with empty cells have converged."""
Floats = NDArray[np.floating[Any]]


class Stretches(NamedTuple):
    """The segments of a course: a segment is the part between two change points, with one level."""

    starts: tuple[int, ...]
    """The index of the first release of each segment, except the first segment."""
    levels: Floats
    drifts: bool = False


@dataclass(frozen=True)
class Course:
    """The logarithm of a step's ratio at each release, with its standard error."""

    dbms: Sequence[str]
    rounds: Sequence[int]
    values: Floats
    errors: Floats
    freedom: float
    shown: Floats
    """The logarithms of the ratios to the base that the tables print. For a release that no table has, the logarithm
    is computed from `values`."""

    def described(self, coverage: float) -> tuple[Iterator[dict[str, Any]], ...]:
        """Rows of the frames `points`, `changes` and `summary`. The penalty of a change follows from `coverage`: a
        change is named only if its interval of that coverage excludes a ratio of 1."""
        quantile = STUDENT.quantile(self.freedom, coverage)
        stretches = stretched(self.values, self.errors, quantile**2)
        return self._points(stretches), self._changes(stretches), iter([self._summary(stretches, quantile)])

    def _interval(self, value: float, *errors: float) -> dict[str, float]:
        """A ratio with its 95 % interval, from the logarithm of the ratio and the standard errors of the two values
        that it compares."""
        half = STUDENT.quantile(self.freedom, COVERAGE) * math.hypot(*errors)
        ways = {"estimate": 0, "low": -1, "high": 1}
        return {name: float(np.exp(value + way * half)) for name, way in ways.items()}

    def _between(self, start: int, end: int) -> float:
        """The difference between the ratios of two releases, in percentage points of the base."""
        return float(100 * (np.exp(self.shown[end]) - np.exp(self.shown[start])))

    def _points(self, stretches: Stretches) -> Iterator[dict[str, Any]]:
        levels = np.exp(stretches.levels - self.values[0])
        for rank, dbms in enumerate(self.dbms):
            errors = (self.errors[rank], self.errors[0]) if rank else (0.0, 0.0)
            ratio = self._interval(self.shown[rank] - self.shown[0], *errors)
            yield {"rank": rank, "dbms": dbms, "n": self.rounds[rank], **ratio, "level": float(levels[rank])}

    def _changes(self, stretches: Stretches) -> Iterator[dict[str, Any]]:
        ends = (0, *stretches.starts, len(self.dbms))
        for begin, start, end in zip(ends, ends[1:], ends[2:], strict=False):
            chances = self._chances(begin, end)
            certain = np.argsort(-chances)
            few = int(np.searchsorted(chances[certain].cumsum(), COVERAGE)) + 1
            places = begin + 1 + certain[:few]
            sides = (self.errors[begin:start], self.errors[start:end])
            named = {"before": start - 1, "dbms": start, "until": end - 1}
            named |= {"earliest": min(places), "latest": max(places)}
            change = stretches.levels[start] - stretches.levels[start - 1]
            yield {
                "rank": start,
                **{name: self.dbms[at] for name, at in named.items()},
                **self._interval(change, *map(_of_mean, sides)),
                "points": self._between(start - 1, start),
                "way": "up" if change > 0 else "down",
                "certainty": float(chances[start - begin - 1]),
            }

    def _chances(self, begin: int, end: int) -> Floats:
        """For each release after `begin` and before `end`, the probability that this release caused the change, given
        that exactly one release did."""
        values, weights = self.values[begin:end], self.errors[begin:end] ** -2
        sums, totals = (weights * values).cumsum(), weights.cumsum()
        before, after = sums[:-1] ** 2 / totals[:-1], (sums[-1] - sums[:-1]) ** 2 / (totals[-1] - totals[:-1])
        explained = before + after
        odds = (1 + (explained.max() - explained) / self.freedom) ** (-(self.freedom + 1) / 2)
        return np.asarray(odds / odds.sum())

    def _summary(self, stretches: Stretches, quantile: float) -> dict[str, Any]:
        starts, levels = stretches.starts, stretches.levels
        course = "drift" if stretches.drifts else "steps" if starts else "flat"
        begin = max((start for start in starts if start < len(levels) - 1), default=0)
        resolves = math.expm1(quantile * math.hypot(self.errors[-1], _of_mean(self.errors[begin:-1])))
        ends = {"course": course, "first": self.dbms[0], "last": self.dbms[-1]}
        ratio = self._interval(self.shown[-1] - self.shown[0], self.errors[0], self.errors[-1])
        return ends | ratio | {"points": self._between(0, -1), "resolves": max(resolves, LEAST)}


def _of_mean(errors: Floats) -> float:
    """The standard error of the weighted mean of some releases."""
    return float((errors**-2).sum() ** -0.5)


def course_of(rounds: pl.DataFrame, ordered: Sequence[str], estimates: Mapping[str, float]) -> Course | None:
    """The course of one step; None if there are too few releases, or if the noise of the rounds can't be estimated.

    All ratios of a round share the random error of the base's value in that round. Therefore the mean of each round
    is subtracted from the logarithms of its ratios, as is the mean of each release; the residuals are the noise. If
    there are at least three occasions, the mean of an occasion counts as one round.
    """
    keys = [name for name in ("occasion", "round") if name in rounds.columns]
    base, measured = rounds["base"][0], dict(rounds.group_by("dbms").len().iter_rows())
    measured[base] = rounds.select(keys).n_unique()
    if "occasion" in keys and rounds["occasion"].n_unique() >= OCCASIONS_FOR_OTHER_HOURS:
        keys = ["occasion"]
    logs = rounds.group_by(*keys, "dbms").agg(pl.col("ratio").log().mean())
    wide = logs.pivot("dbms", index=keys, values="ratio").with_columns(pl.lit(0.0).alias(base))
    dbms = [name for name in ordered if name in wide.columns]
    values = wide.select(dbms).to_numpy()
    levels, noise = _means_and_residuals(values)
    counts = np.isfinite(values).sum(axis=0)
    freedom = float(counts.sum() - values.shape[0] - len(dbms) + 1)
    squares = float(np.nansum(noise**2))
    if "usual_spread" in rounds.columns and (usual := rounds["usual_spread"][0]):
        freedom, squares = freedom + USUAL_WEIGHS, squares + USUAL_WEIGHS * usual**2
    if len(dbms) < FEWEST_RELEASES or freedom <= 0 or squares == 0:
        return None
    own = zip(dbms, levels - levels[dbms.index(base)], strict=True)
    shown = np.array([math.log(estimates[name]) if name in estimates else level for name, level in own])
    errors = np.sqrt(squares / freedom / counts)
    return Course(dbms, [measured[name] for name in dbms], levels, errors, freedom, shown)


def _means_and_residuals(values: Floats) -> tuple[Floats, Floats]:
    """The mean of each column of a table that may have gaps, and the residuals: the values minus the means of their
    row and column."""
    levels = np.zeros(values.shape[1])
    for _ in range(ITERATIONS_OF_MEANS):
        of_rows = np.nanmean(values - levels, axis=1, keepdims=True)
        levels = np.nanmean(values - of_rows, axis=0)
    return levels, values - of_rows - levels


def stretched(values: Floats, errors: Floats, penalty: float) -> Stretches:
    """The segments of a course that minimize the sum of squared errors and penalties; or a drift, if a straight line
    has a smaller sum. Changes smaller than `LEAST` are then removed again, and each remaining change moves to its
    best place between its neighbours.

    >>> course = np.log([1, 1, 1, 0.9, 0.9, 1.2])
    >>> stretched(course, np.full(6, 0.01), 15.0).starts
    (3, 5)
    >>> stretched(np.linspace(0, 0.2, 9), np.full(9, 0.01), 15.0).drifts
    True
    """
    weights = errors**-2
    sums = np.array([np.insert((weights * values**power).cumsum(), 0, 0.0) for power in range(3)])

    def squares(begin: Any, end: int) -> Any:
        weight, first, second = sums[:, end, None] - sums[:, np.atleast_1d(begin)]
        return second - first**2 / weight

    least, last = np.zeros(len(values) + 1), np.zeros(len(values) + 1, dtype=np.int64)
    for end in range(1, len(values) + 1):
        begins = np.arange(end)
        totals = least[:end] + squares(begins, end) + penalty * (begins > 0)
        last[end] = totals.argmin()
        least[end] = totals[last[end]]
    starts: list[int] = []
    while (at := last[starts[0] if starts else len(values)]) > 0:
        starts.insert(0, int(at))
    levels = _levels(values, weights, starts)
    line = np.polynomial.polynomial.polyfit(range(len(values)), values, 1, w=weights**0.5)
    straight = np.polynomial.polynomial.polyval(np.arange(len(values)), line)
    drifts = (weights * (values - straight) ** 2).sum() + penalty < least[-1]
    if starts and drifts and len(values) >= FEWEST_OF_A_DRIFT:
        return Stretches((), straight, drifts=True)
    while starts:
        sizes = [abs(levels[start] - levels[start - 1]) for start in starts]
        if min(sizes) >= np.log1p(LEAST):
            break
        del starts[int(np.argmin(sizes))]
        for at, _ in enumerate(starts):
            begin, end = ([0, *starts][at], [*starts, len(values)][at + 1])
            sums_of_two = [squares(begin, place)[0] + squares(place, end)[0] for place in range(begin + 1, end)]
            starts[at] = begin + 1 + int(np.argmin(sums_of_two))
        levels = _levels(values, weights, starts)
    return Stretches(tuple(starts), levels)


def _levels(values: Floats, weights: Floats, starts: Sequence[int]) -> Floats:
    """The level at each release: the weighted mean of the segment that the release is in."""
    parts = zip((0, *starts), (*starts, len(values)), strict=True)
    means = [np.full(end - begin, np.average(values[begin:end], weights=weights[begin:end])) for begin, end in parts]
    return np.concatenate(means)
