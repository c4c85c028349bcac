"""Scenarios of the performance schema on real servers: told in the way of each version, and verified."""

from rqps.engines.mysql.perf_schema.known import Known, known
from rqps.engines.mysql.perf_schema.realise import Realised, realise
from rqps.engines.mysql.perf_schema.watch import Watch, apply, silence, unheard, verify, watching

__all__ = ["Known", "Realised", "Watch", "apply", "known", "realise", "silence", "unheard", "verify", "watching"]
