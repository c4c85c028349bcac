"""Figures of published studies: read strictly, calculated again, and held against themselves and against ours."""

from rqps.published.beside import Beside, beside, what_differs
from rqps.published.checks import agreement, checked, contradictions, recomputed
from rqps.published.figures import KINDS, Published, read
from rqps.published.inserts import inserts_beside, inserts_differ
from rqps.published.lookups import lookups_beside, lookups_contradictions, lookups_differ
from rqps.published.views import (
    hosts,
    in_short,
    nanoseconds,
    quoted_ratios,
    quotes,
    response_times,
    rqps_table,
    tally,
    timers,
    where_from,
)

__all__ = [
    "KINDS",
    "Beside",
    "Published",
    "agreement",
    "beside",
    "checked",
    "contradictions",
    "hosts",
    "in_short",
    "inserts_beside",
    "inserts_differ",
    "lookups_beside",
    "lookups_contradictions",
    "lookups_differ",
    "nanoseconds",
    "quoted_ratios",
    "quotes",
    "read",
    "recomputed",
    "response_times",
    "rqps_table",
    "tally",
    "timers",
    "what_differs",
    "where_from",
]
