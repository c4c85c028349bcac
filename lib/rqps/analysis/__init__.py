"""Pure functions from frames to frames: what the numbers say, and how sure that is."""

from rqps.stats.comparison import grouped, strongest
from rqps.stats.conditions import (
    all_warnings,
    builds,
    config_changes,
    hidden_differences,
    options_of_some,
    same_for_all,
)
from rqps.stats.conditions import with_warnings as carried
from rqps.stats.metrics import METRICS, measured
from rqps.stats.over_time import counters_over_time, latencies_of_steps, throughput_over_time
from rqps.stats.pairing import where_from
from rqps.stats.relative import comparable, config_effect, given_back, ratios_to, relative
from rqps.stats.summary import absolute, summarise, summarise_given_back

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
    "given_back",
    "grouped",
    "hidden_differences",
    "latencies_of_steps",
    "measured",
    "options_of_some",
    "ratios_to",
    "relative",
    "same_for_all",
    "strongest",
    "summarise",
    "summarise_given_back",
    "throughput_over_time",
    "where_from",
]
