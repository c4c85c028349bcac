"""Pure functions from frames to frames: what the numbers say, and how sure that is."""

from rqps.analysis.conditions import config_changes, hidden_differences, same_for_all, varying
from rqps.analysis.findings import findings
from rqps.analysis.groups import grouped
from rqps.analysis.metrics import METRICS, measured
from rqps.analysis.over_time import counters_over_time, latencies_of_steps, throughput_over_time
from rqps.analysis.relative import comparable, config_effect, given_back, relative
from rqps.analysis.summary import absolute, summarise, summarise_given_back
from rqps.analysis.trace import builds, strongest, where_from
from rqps.analysis.warnings import all_warnings, carried

__all__ = [
    "METRICS",
    "absolute",
    "all_warnings",
    "builds",
    "carried",
    "comparable",
    "config_changes",
    "config_effect",
    "counters_over_time",
    "findings",
    "given_back",
    "grouped",
    "hidden_differences",
    "latencies_of_steps",
    "measured",
    "relative",
    "same_for_all",
    "strongest",
    "summarise",
    "summarise_given_back",
    "throughput_over_time",
    "varying",
    "where_from",
]
