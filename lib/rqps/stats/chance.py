"""Moved to `estimate` and `verdict`; this door closes when its last user has moved."""

from collections.abc import Sequence

from rqps.stats.estimate import STUDENT
from rqps.stats.verdict import FALSE_FINDINGS as FALSE_FINDINGS

t_of = STUDENT.quantile


def two_sided_p(t: float, freedom: int) -> float:
    """Chance that Student's t goes as far from 0."""
    from scipy import stats

    return float(2 * stats.t.sf(abs(t), freedom))


def adjusted(chances: Sequence[float]) -> list[float]:
    """False-discovery-adjusted chances."""
    from scipy import stats

    return [float(each) for each in stats.false_discovery_control(chances)] if len(chances) else []
