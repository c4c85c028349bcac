"""Scenarios of the performance schema on real servers: set in the way of each version, and verified."""

from rqps.engines.mysql.perf_schema.scenario import Realised, realise, refuse_too_large
from rqps.engines.mysql.perf_schema.setup import Known, known
from rqps.engines.mysql.perf_schema.watch import StatusWatch, Watch, apply, in_short, unrecorded, verify

__all__ = [
    "Known",
    "Realised",
    "StatusWatch",
    "Watch",
    "apply",
    "in_short",
    "known",
    "realise",
    "refuse_too_large",
    "unrecorded",
    "verify",
]
