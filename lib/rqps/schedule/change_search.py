"""Searches an ordered list of candidates for changes: first for the largest change, then before and after that
change.

It measures one candidate at a time, and only a few of them.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import pvariance
from typing import NamedTuple

from rqps.engines import Say
from rqps.numbers import counted, formatted

MOST_UNDECIDED = 2
"""The search for one change ends after this number of undecided candidates. A candidate is undecided if its level is
not significantly nearer to one of the two ends."""
SHARE_WORTH_FINDING = 0.25
"""After a change was located, the search looks only for changes that are larger than this share of that change."""
COVERAGES = (0.95, 0.99)
"""Two probabilities. The reported range of builds contains the change with the first probability. The two builds
around a change are called certain if the change lies between them with the second probability. It is higher, since
the place of a change that is small compared with the spread between servers mostly seems certain only when its size
is overestimated (benchmarks/bisecting.py)."""
LEAST_SQUARES = 1e-18
"""Lower bound of a sum of squares, so that it has a logarithm even if the levels do not vary."""


class Level(NamedTuple):
    """The level of a candidate. `value` is the logarithm of its ratio to the good end, or its share of the difference
    between both ends; `half` is half the width of the confidence interval of `value`."""

    value: float
    half: float

    @property
    def words(self) -> str:
        """The change from the good end in percent, with its interval. Requires a `value` that is the logarithm of a
        ratio."""
        low, size, high = (100 * math.expm1(self.value + way * self.half) for way in (-1, 0, 1))
        return "{} % ({} to {})".format(*(formatted(number, "+.2f") for number in (size, low, high)))


def between(before: Level, after: Level) -> Level:
    """The level of `after` relative to the level of `before`."""
    return Level(after.value - before.value, math.hypot(before.half, after.half))


class Change(NamedTuple):
    """A change between two candidates. All candidates between them are undecided or could not be measured."""

    before: int
    after: int
    size: Level


Pair = tuple[int, int]
"""The last candidate before a change, and the first one after it."""


def likely_range(
    occasions: Sequence[Mapping[int, float]], larger: Sequence[Pair], pair: Pair, coverage: float
) -> Pair:
    """The two candidates between which the change of `pair` lies with a probability of `coverage`: the pair, or two
    that are farther apart. `larger` has the pairs of the changes that the search found before this change: the search
    looks for the largest change first.

    `occasions` maps the candidates to the logarithms of their ratios, one mapping per occasion; the search is the
    first occasion. Builds between two changes are assumed to be equally fast, but each server is faster or slower at
    random on each occasion, by an amount that is estimated from the logarithms. Before anything is measured, each
    build is equally likely to have brought the change. (The priors of the levels and of the logarithm of the spread
    are flat. So the likelihood of a place for the change depends on the sum of squared deviations from the mean
    levels between the changes, as in a t distribution.)
    """
    first = max((after for _, after in larger if after <= pair[0]), default=0)
    last = min((before for before, _ in larger if before >= pair[1]), default=max(occasions[0]))
    gaps = list(pairwise(sorted(at for at in occasions[0] if first <= at <= last)))
    logs = []
    for before, after in gaps:
        cuts, groups = sorted([after, *(other for _, other in larger)]), defaultdict(list)
        for number, levels in enumerate(occasions):
            for at, level in levels.items():
                groups[number, bisect_right(cuts, at)].append(level)
        squares = sum(len(group) * pvariance(group) for group in groups.values())
        freedom = sum(len(group) - 1 for group in groups.values())
        fits = -freedom / 2 * math.log(max(squares, LEAST_SQUARES))
        logs.append(math.log(after - before) + fits - sum(math.log(len(group)) for group in groups.values()) / 2)
    chances = [math.exp(log - max(logs)) for log in logs]
    inside = [at for at, (before, after) in enumerate(gaps) if pair[0] <= before and after <= pair[1]]
    low, high = inside[0], inside[-1] + 1
    while sum(chances[low:high]) < coverage * sum(chances):
        if high == len(gaps) or (low > 0 and chances[low - 1] > chances[high]):
            low -= 1
        else:
            high += 1
    return gaps[low][0], gaps[high - 1][1]


@dataclass
class Search:
    """The search for changes among ordered candidates.

    `measure` returns the level of a candidate; its second argument asks for more rounds first. It returns None if the
    candidate can't be measured, or gets no more rounds.
    """

    measure: Callable[[int, bool], Level | None]
    title: Callable[[int], str]
    say: Say
    levels: dict[int, Level | None] = field(default_factory=dict)

    def changes(self, first: int, last: int, least: float) -> Iterator[Change]:
        """Yields the changes between two candidates that are significantly larger than `least`, in the order of the
        search."""
        if last == first or not self.differ(first, last, least):
            return
        before, after = self._located(first, last)
        yield (change := Change(before, after, self.between(before, after)))
        least = max(least, SHARE_WORTH_FINDING * abs(change.size.value))
        yield from self.changes(first, before, least)
        yield from self.changes(after, last, least)

    def settle(self, last: int) -> None:
        """Measures the bad end until it differs significantly from the good end, or gets no more rounds."""
        while not self.differ(0, last, 0.0) and (more := self.measure(last, True)):
            self.levels[last] = more

    def differ(self, first: int, last: int, least: float) -> bool:
        size = self.between(first, last)
        return abs(size.value) - size.half > least

    def between(self, first: int, last: int) -> Level:
        """The level of the last candidate relative to the level of the first."""
        return between(self._end(first), self._end(last))

    def level(self, candidate: int) -> Level | None:
        if candidate not in self.levels:
            self.levels[candidate] = self.measure(candidate, False)
        return self.levels[candidate]

    def _end(self, candidate: int) -> Level:
        """The level of a candidate that can be measured and is not undecided."""
        level = self.level(candidate)
        assert level is not None
        return level

    def _located(self, first: int, last: int) -> tuple[int, int]:
        """The two candidates to which a bisection narrows a change: each probe keeps the half with more of the
        change."""
        undecided = 0
        while (untested := self._untested(first, last)) and undecided < MOST_UNDECIDED:
            candidate = min(untested, key=lambda at: abs(at - (first + last) / 2))
            ends = f"between {self.title(first)} and {self.title(last)} are {counted(len(untested), 'build')}"
            probes = counted(math.ceil(math.log2(len(untested) + 1)), "probe")
            self.say(f"{ends}, at most {probes} left; next is {self.title(candidate)}")
            nearer = self._nearer_to_last(first, candidate, last)
            if nearer is None:
                undecided += self.levels[candidate] is not None
                self.levels[candidate] = None
            elif nearer:
                last = candidate
            else:
                first = candidate
        return first, last

    def _untested(self, first: int, last: int) -> list[int]:
        """The candidates between `first` and `last`, except those that are undecided or could not be measured."""
        return [at for at in range(first + 1, last) if self.levels.get(at, True)]

    def _nearer_to_last(self, first: int, candidate: int, last: int) -> bool | None:
        """True if the level of `candidate` is significantly nearer to the level of `last`, False if it is
        significantly nearer to that of `first`; None if neither."""
        level = self.level(candidate)
        while level:
            before, after = self._end(first), self._end(last)
            away = level.value - (before.value + after.value) / 2
            if abs(away) > math.hypot(level.half, before.half / 2, after.half / 2):
                return (away > 0) == (after.value > before.value)
            level = self.measure(candidate, True)
            for end in (first, last):
                self.levels[end] = self.measure(end, True) or self._end(end)
            self.levels[candidate] = level or self.levels[candidate]
        return None
