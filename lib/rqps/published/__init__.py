"""Figures of published studies: read strictly, calculated again, and held against themselves and against ours."""

from rqps.published.beside import Beside, beside, what_differs
from rqps.published.checks import agreement, checked, contradictions, recomputed, view
from rqps.published.figures import COSTS, KINDS, Published, read
from rqps.published.quoted import (
    costs_table,
    in_short,
    quoted_ratios,
    quotes,
    response_times,
    rqps_table,
    small_tables,
    tally,
)
from rqps.published.releases import (
    inserts_beside,
    inserts_differ,
    lookups_beside,
    lookups_contradictions,
    lookups_differ,
    response_time_values,
)

__all__ = [
    "COSTS",
    "KINDS",
    "Beside",
    "Published",
    "agreement",
    "beside",
    "checked",
    "contradictions",
    "costs_table",
    "in_short",
    "inserts_beside",
    "inserts_differ",
    "lookups_beside",
    "lookups_contradictions",
    "lookups_differ",
    "quoted_ratios",
    "quotes",
    "read",
    "recomputed",
    "response_time_values",
    "response_times",
    "rqps_table",
    "small_tables",
    "tally",
    "view",
    "what_differs",
]
