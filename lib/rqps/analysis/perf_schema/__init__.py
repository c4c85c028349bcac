"""What the performance schema costs: by scenario, by part, by release, and for the memory that it takes."""

from rqps.analysis.perf_schema.apart import Patterns, active, by_kind, dear, split
from rqps.analysis.perf_schema.counted import parts_by_instructions, same_order, scenario_instructions
from rqps.analysis.perf_schema.events import event_costs, events_per_statement, memory_use, timers
from rqps.analysis.perf_schema.instruments import instrument_costs, sums_of_parts
from rqps.analysis.perf_schema.parts import scenario_parts
from rqps.analysis.perf_schema.scenarios import by_clients, scenario_costs, scenario_ratios, scenarios
from rqps.analysis.perf_schema.told import scenario_findings

__all__ = [
    "Patterns",
    "active",
    "by_clients",
    "by_kind",
    "dear",
    "event_costs",
    "events_per_statement",
    "instrument_costs",
    "memory_use",
    "parts_by_instructions",
    "same_order",
    "scenario_costs",
    "scenario_findings",
    "scenario_instructions",
    "scenario_parts",
    "scenario_ratios",
    "scenarios",
    "split",
    "sums_of_parts",
    "timers",
]
