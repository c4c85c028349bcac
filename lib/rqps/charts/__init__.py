"""Pure functions from frames to charts and tables. Importing this makes charts show themselves everywhere."""

from rqps.pages.cost_per_operation.cost_chart import cpu_per_operation
from rqps.pages.cost_per_operation.cost_tables import cost_tables, cost_text
from rqps.pages.cost_per_operation.operations_text import operations_text
from rqps.pages.flamegraph_breakdown.components import components
from rqps.pages.flamegraph_breakdown.instructions import (
    counted_table,
    instructions_chart,
    instructions_table,
    most_expensive_table,
)
from rqps.pages.flamegraph_breakdown.profile_tables import (
    completeness_table,
    counts_beside,
    explained_table,
    part_table,
)
from rqps.pages.flamegraph_breakdown.thread_time import thread_time
from rqps.pages.perf_schema_overhead.shown import (
    clients_in_one,
    clients_one_by_one,
    cost_against_memory,
    cost_by_release,
    events_table,
    instructions_of_scenarios,
    instrument_bars,
    instrument_text,
    memory_table,
    parts_chart,
    scenario_bars,
    scenario_table,
    scenario_text,
)
from rqps.pages.point_lookups.lookup_charts import generator_answers, lookup_answers, lookup_charts
from rqps.pages.point_lookups.lookup_tables import lookup_plans, lookup_table, lookups_beside
from rqps.pages.relative_throughput.many_tables import group_table, worst_table
from rqps.view import light, renderer  # noqa: F401 (light comes before whatever imports altair)
from rqps.view.condition_tables import builds_table, conditions_table, differences_table, warnings_table
from rqps.view.flame import explorer, flame_graph, flame_svg
from rqps.view.heatmap import heatmap
from rqps.view.latency import latency
from rqps.view.over_time import counters, throughput
from rqps.view.rounds import most_changed, rounds
from rqps.view.small_multiples import over_releases
from rqps.view.tables import absolute_table, config_table, plain_table, relative_table, relative_text
from rqps.view.text import Sentences

renderer.enable()

__all__ = [
    "Sentences",
    "absolute_table",
    "builds_table",
    "clients_in_one",
    "clients_one_by_one",
    "completeness_table",
    "components",
    "conditions_table",
    "config_table",
    "cost_against_memory",
    "cost_by_release",
    "cost_tables",
    "cost_text",
    "counted_table",
    "counters",
    "counts_beside",
    "cpu_per_operation",
    "differences_table",
    "events_table",
    "explained_table",
    "explorer",
    "flame_graph",
    "flame_svg",
    "generator_answers",
    "group_table",
    "heatmap",
    "instructions_chart",
    "instructions_of_scenarios",
    "instructions_table",
    "instrument_bars",
    "instrument_text",
    "latency",
    "lookup_answers",
    "lookup_charts",
    "lookup_plans",
    "lookup_table",
    "lookups_beside",
    "memory_table",
    "most_changed",
    "most_expensive_table",
    "operations_text",
    "over_releases",
    "part_table",
    "parts_chart",
    "plain_table",
    "relative_table",
    "relative_text",
    "rounds",
    "scenario_bars",
    "scenario_table",
    "scenario_text",
    "thread_time",
    "throughput",
    "warnings_table",
    "worst_table",
]
