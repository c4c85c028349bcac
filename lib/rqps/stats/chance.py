"""Student's t for whole degrees of freedom, and how many of many findings may be false.

Closed forms (Abramowitz and Stegun, 26.7.3 and 26.7.4), since nothing else here needs a library for them.
"""

import math
from collections.abc import Sequence
from functools import cache

WANTED_COVERAGE = 0.95
FALSE_FINDINGS = 0.05
"""Of what is called a finding, the share that may be chance."""


def two_sided_p(t: float, freedom: int) -> float:
    """How likely chance alone goes as far from 0 as `t`, to either side.

    >>> round(two_sided_p(2.776, 4), 4), two_sided_p(0.0, 4)
    (0.05, 1.0)
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    total = 0.0
    for k in range(1 if freedom % 2 else 0, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (k + 1) / (k + 2)
    inside = 2 / math.pi * (angle + sine * total) if freedom % 2 else sine * total
    return min(1.0, max(0.0, 1 - inside))


@cache
def t_of(freedom: int) -> float:
    """How many standard errors on either side make a 95 % interval.

    >>> round(t_of(4), 3), round(t_of(30), 3)
    (2.776, 2.042)
    """
    low, high = 0.0, 1e4
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > 1 - WANTED_COVERAGE else (low, middle)
    return high


def adjusted(chances: Sequence[float]) -> list[float]:
    """For each p, the share of false findings among all that are at least as sure (Benjamini and Hochberg, 1995).

    >>> adjusted([0.01, 0.04, 0.03, 0.5])
    [0.04, 0.05333333333333333, 0.05333333333333333, 0.5]
    """
    falling = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
    found = [1.0] * len(chances)
    least = 1.0
    for above, index in enumerate(falling):
        least = min(least, chances[index] * (len(chances) / (len(chances) - above)))
        found[index] = least
    return found
