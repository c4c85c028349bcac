"""Change points in courses over releases: the releases that changed a metric, by how much, and with what certainty.

A course is a step's ratio to the first release, release after release. It is constant between changes, or it drifts.
The changes are those that minimize the sum of squared errors plus a penalty for each change. The penalty is the
squared error that a change must explain, so that at most one page of twenty names a false change
(benchmarks/change_points.py).

>>> levels = {"my57.z": 1.001, "my80.z": 0.87, "my84.z": 0.871, "my90.z": 0.869}
>>> cell = {"host": "vm", "step": "scan", "metric": "operations_per_s", "base": "my56.z"}
>>> starts = enumerate((0.002, -0.001, 0.003, -0.002))
>>> rows = [cell | {"dbms": dbms, "round": one, "ratio": levels[dbms] + (-1) ** at * luck}
...         for one, luck in starts for at, dbms in enumerate(levels)]
>>> course = courses(pl.DataFrame(rows), ["my56.z", *levels])
>>> course.changes.select("before", "dbms", pl.col("estimate", "certainty").round(2)).rows()
[('my57.z', 'my80.z', 0.87, 1.0)]
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rqps.stats.build_versions import versions
from rqps.stats.comparison import relate
from rqps.stats.estimate import STUDENT, USUAL_WEIGHS
from rqps.stats.metrics import version_order, with_groups
from rqps.stats.summary import OVER_ALL, left_out, means
from rqps.stats.verdict import COVERAGE, OCCASIONS_FOR_OTHER_HOURS
from rqps.store.read import Study

FEWEST_RELEASES = 3
"""Minimum number of releases in a course: two releases are only a comparison."""
FEWEST_OF_A_DRIFT = 6
"""Minimum number of releases for a drift: with fewer releases, a drift can't be distinguished from single changes."""
LEAST = 0.005
"""Smallest change that is named, as a share of the level before the change. Counts of instructions are so exact that
nearly every release changes them significantly, though by less than this share."""
ITERATIONS_OF_MEANS = 50
"""Number of iterations after which the row and column means of a table with empty cells have converged."""
FALSE_PAGES = 0.03
"""Share of pages of equal releases on which a change is named by mistake, if noise is normally distributed. Real
noise has longer tails and causes more mistakes, so this share is less than the one in twenty that is allowed."""
CELL = ("host", "step", "metric")
ALL_STEPS = "all steps"
"""The name of the course of the geometric mean over the steps of a study."""
Floats = NDArray[np.floating[Any]]
_NUMBERS = dict.fromkeys(("estimate", "low", "high"), pl.Float64)
_KEYS = dict.fromkeys((*CELL, "base"), pl.String)
_SCHEMAS: tuple[dict[str, Any], ...] = (
    {"rank": pl.Int32, "dbms": pl.String, "n": pl.Int32, **_NUMBERS, "level": pl.Float64},
    {"rank": pl.Int32, **dict.fromkeys(("before", "dbms", "until", "earliest", "latest"), pl.String)}
    | {**_NUMBERS, "points": pl.Float64, "way": pl.String, "certainty": pl.Float64},
    {"course": pl.String, "first": pl.String, "last": pl.String, **_NUMBERS}
    | {"points": pl.Float64, "resolves": pl.Float64},
)


class Courses(NamedTuple):
    """The courses of a study."""

    points: pl.DataFrame
    """One row per host, step, metric and release in order: the `estimate` relative to the first release, with its
    95 % interval, and the `level` of the course at this release, which is constant between two changes."""
    changes: pl.DataFrame
    """One row per change. `estimate` is the ratio of the level after the change to the level before the change, with
    an interval, and `way` is up or down. `points` is the difference, in percentage points, between two ratios to the
    base that the tables print: the ratio of `dbms` minus the ratio of `before`. The change most likely lies between
    the releases `before` and `dbms`, with the probability `certainty`; with 95 % probability, one of the releases
    from `earliest` to `latest` caused the change. `until` is the last release before the next change."""
    summary: pl.DataFrame
    """One row per host, step and metric. `course` is `flat`, `steps` or `drift`. `estimate` is the ratio of the last
    release to the first, with an interval, and `points` is the difference between the ratios of these two releases to
    the base, in percentage points; both are computed from the ratios that the tables print. `resolves` is the
    smallest change that would be named if only the last release had it."""


class Stretches(NamedTuple):
    """The segments of a course: a segment is the part between two change points, with one level."""

    starts: tuple[int, ...]
    """The index of the first release of each segment, except the first segment."""
    levels: Floats
    drifts: bool = False


def releases(study: Study) -> list[str]:
    """The dbms with the base's config: first one dbms per version, in the order of versions, then the versions of
    rebuilt builds, in the order of their numbers."""
    alike = study.runs.filter(config=study.configs.get(study.card.base, ""))
    ordered = alike.join(version_order(study.runs), on="dbms").sort("rank")
    ordered = ordered.join(versions(study), on="build", how="left", maintain_order="left")
    one_each = ordered.unique(["version", "build_of", "number"], keep="first", maintain_order=True)
    return one_each.sort("build_of", "number", nulls_last=False, maintain_order=True)["dbms"].to_list()


@lru_cache(maxsize=2)  # the page `history` and a report's first page both use the result
def courses_of(study: Study) -> Courses:
    """The courses of a study's steps, with the `group` and `kind` of each step; if there are several steps, also the
    course of their geometric mean, which is named `ALL_STEPS`."""
    paired, compared = relate(study)
    without = [step for steps in left_out(study).values() for step in steps]
    keys = [name for name in ("host", "metric", "base", "dbms", "occasion", "round") if name in paired.columns]
    usual = [name for name in ("usual_spread",) if name in paired.columns]
    steps = pl.col("step").n_unique().over("host", "metric", "base", "dbms")
    of_all = (
        paired.filter(~pl.col("step").is_in(without))
        .with_columns(steps=steps)
        .group_by(keys, maintain_order=True)
        .agg(pl.len(), pl.col("steps", *usual).first(), pl.col("ratio").log().mean().exp())
        .filter(pl.col("len") == pl.col("steps"), pl.col("steps") > 1)
        .select(*keys, *usual, "ratio", step=pl.lit(ALL_STEPS))
    )
    of_means = means(study).filter(OVER_ALL, relation="base").with_columns(step=pl.lit(ALL_STEPS))
    shown = pl.concat(frame.select(*CELL, "base", "dbms", "estimate") for frame in (compared, of_means))
    of_study = courses(pl.concat([paired, of_all], how="diagonal"), releases(study), shown)
    return Courses(*(with_groups(frame, compared) for frame in of_study))


def courses(paired: pl.DataFrame, ordered: Sequence[str], shown: pl.DataFrame | None = None) -> Courses:
    """The courses of paired rounds over the releases in `ordered`. All changes of the frame are corrected for
    multiple comparisons together. `shown` has the comparisons that the tables print: estimates and percentage points
    are computed from their ratios, so that courses agree with tables."""
    rows = paired.filter(pl.col("dbms").is_in(ordered), pl.col("base").is_in(ordered))
    cells = rows.partition_by(*CELL, "base", as_dict=True, maintain_order=True)
    known = {} if shown is None else shown.partition_by(*CELL, "base", as_dict=True)
    estimates = {cell: dict(rows.select("dbms", "estimate").iter_rows()) for cell, rows in known.items()}
    of_cells = {
        cell: course
        for cell, rounds in cells.items()
        if (course := _course(rounds, ordered, estimates.get(cell, {})))
    }
    splits = sum(len(course.dbms) - 1 for course in of_cells.values())
    parts: tuple[list[dict[str, Any]], ...] = ([], [], [])
    for cell, course in of_cells.items():
        described = course.described(1 - FALSE_PAGES / splits)
        for frame, rows_of_course in zip(parts, described, strict=True):
            frame += [dict(zip(_KEYS, cell, strict=True)) | row for row in rows_of_course]
    frames = (pl.DataFrame(part, schema=_KEYS | schema) for part, schema in zip(parts, _SCHEMAS, strict=True))
    return Courses(*frames)


@dataclass(frozen=True)
class _Course:
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
        return {name: float(np.exp(value + way * half)) for name, way in zip(_NUMBERS, (0, -1, 1), strict=True)}

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


def _course(rounds: pl.DataFrame, ordered: Sequence[str], estimates: Mapping[str, float]) -> _Course | None:
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
    return _Course(dbms, [measured[name] for name in dbms], levels, errors, freedom, shown)


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
