"""What some rounds support: a median, an interval that assumes nothing of the noise's shape, and a verdict.

The interval reaches from one of the sorted values to another (the k-th smallest to the k-th largest). Each
value lies below the true median with probability one half, so the chance that the interval holds the true
median is a sum of binomial terms, whatever the distribution. It takes few values, and 95 % needs six rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Verdict = Literal["slower", "faster", "same", "unsure"]

WANTED_COVERAGE = 0.95
ROUNDS_FOR_A_VERDICT = 4
SAME_WITHIN = 0.02
MOST_ROUNDS_WORTH_NAMING = 60


@dataclass(frozen=True)
class Estimate:
    """The middle of some values, and how far the true median may be from it."""

    n: int
    median: float
    low: float | None
    high: float | None
    coverage: float
    """The chance that an interval made this way holds the true median; 0 with a single value."""

    @property
    def is_sure(self) -> bool:
        return self.n >= ROUNDS_FOR_A_VERDICT and self.coverage >= WANTED_COVERAGE


def coverage(n: int, k: int) -> float:
    """The chance that the k-th smallest and the k-th largest of n values have the true median between them.

    >>> coverage(6, 1)
    0.96875
    """
    return 1 - sum(math.comb(n, below) for below in range(k)) / float(2 ** (n - 1))


def estimate(values: Sequence[float]) -> Estimate:
    """The median with the narrowest interval of at least 95 %, or the widest there is.

    >>> estimate([0.60, 0.62, 0.61, 0.65, 0.63, 0.62])
    Estimate(n=6, median=0.62, low=0.6, high=0.65, coverage=0.96875)
    """
    n, ordered = len(values), sorted(values)
    if n == 1:
        return Estimate(1, ordered[0], None, None, 0.0)
    k, chance = ends_of(n)
    return Estimate(n, median(ordered), ordered[k - 1], ordered[n - k], chance)


def ends_of(n: int) -> tuple[int, float]:
    """From which to which of n sorted values the interval reaches, counted from either side, and its coverage.

    >>> ends_of(6), ends_of(20), ends_of(1)
    ((1, 0.96875), (6, 0.9586105346679688), (1, 0.0))
    """
    good = [k for k in range(1, n // 2 + 1) if coverage(n, k) >= WANTED_COVERAGE]
    k = max(good, default=1)
    return k, coverage(n, k)


def verdict(found: Estimate, *, more_is_better: bool = True) -> Verdict:
    """`same` within 2 %, `faster` or `slower` where 1 is outside; `unsure` below 4 rounds or 95 %.

    >>> verdict(estimate([0.60, 0.62, 0.61, 0.65, 0.63]))
    'unsure'
    """
    if not found.is_sure or found.low is None or found.high is None:
        return "unsure"
    if found.low >= 1 - SAME_WITHIN and found.high <= 1 + SAME_WITHIN:
        return "same"
    if found.low <= 1 <= found.high:
        return "unsure"
    return "faster" if (found.low > 1) == more_is_better else "slower"


def needs(found: Estimate) -> str:
    """What it would take to be sure, in words; empty where the rounds suffice."""
    if verdict(found) != "unsure":
        return ""
    if found.coverage < WANTED_COVERAGE or found.low is None or found.high is None:
        return f"6 rounds or more: with {found.n} there is no 95 % interval of the median"
    # An interval of the median narrows with the square root of the rounds.
    distance = abs(found.median - 1)
    enough = max(distance, SAME_WITHIN - distance)
    half_width = max(found.high - found.median, found.median - found.low)
    rounds = math.ceil(found.n * (half_width / enough) ** 2)
    if rounds > MOST_ROUNDS_WORTH_NAMING:
        return f"more than {MOST_ROUNDS_WORTH_NAMING} rounds at this spread: longer steps or a quieter machine"
    return f"about {max(rounds, found.n + 1)} rounds at this spread"
