"""Pure functions from frames to frames: what the numbers say, and how sure that is."""

from rqps.pages.flamegraph_breakdown.explained import explained
from rqps.pages.flamegraph_breakdown.findings import (
    Profile,
    breakdown_findings,
    most_changed_part,
    part_from,
    profile,
    profile_findings,
)
from rqps.pages.flamegraph_breakdown.thread_time import threads_not_told
from rqps.pages.flamegraph_breakdown.thread_time import time_of_threads as thread_time
from rqps.pages.point_lookups.lookups import (
    generator_shares,
    lookup_plans,
    lookups_in_us,
    lookups_normalised,
    lookups_server_cpu,
    response_times,
)
from rqps.profile import (
    FOLD_BELOW,
    breakdown,
    completeness,
    counted_beside,
    flame_tree,
    flame_trees,
    folded,
    folded_difference,
    instruction_costs,
    instruction_ratios,
    instructions_beside,
    instructions_per_operation,
    most_expensive_functions,
    operation_costs,
    speedscope,
    stack_costs,
)
from rqps.stats.comparison import grouped, strongest
from rqps.stats.conditions import builds, config_changes, hidden_differences, options_of_some, same_for_all, varying
from rqps.stats.metrics import METRICS, measured
from rqps.stats.over_time import counters_over_time, latencies_of_steps, throughput_over_time
from rqps.stats.pairing import where_from
from rqps.stats.relative import comparable, config_effect, given_back, ratios_to, relative
from rqps.stats.summary import absolute, summarise, summarise_given_back
from rqps.stats.warnings import all_warnings, carried

__all__ = [
    "FOLD_BELOW",
    "METRICS",
    "Profile",
    "absolute",
    "all_warnings",
    "breakdown",
    "breakdown_findings",
    "builds",
    "carried",
    "comparable",
    "completeness",
    "config_changes",
    "config_effect",
    "counted_beside",
    "counters_over_time",
    "explained",
    "flame_tree",
    "flame_trees",
    "folded",
    "folded_difference",
    "generator_shares",
    "given_back",
    "grouped",
    "hidden_differences",
    "instruction_costs",
    "instruction_ratios",
    "instructions_beside",
    "instructions_per_operation",
    "latencies_of_steps",
    "lookup_plans",
    "lookups_in_us",
    "lookups_normalised",
    "lookups_server_cpu",
    "measured",
    "most_changed_part",
    "most_expensive_functions",
    "operation_costs",
    "options_of_some",
    "part_from",
    "profile",
    "profile_findings",
    "ratios_to",
    "relative",
    "response_times",
    "same_for_all",
    "speedscope",
    "stack_costs",
    "strongest",
    "summarise",
    "summarise_given_back",
    "thread_time",
    "threads_not_told",
    "throughput_over_time",
    "varying",
    "where_from",
]
