"""What the performance schema costs: by scenario, by part, by release, and for the memory that it takes."""

from rqps.pages.perf_schema_instruments.apart import Patterns, active, by_kind, dear, split
from rqps.pages.perf_schema_instruments.events import event_costs, events_per_statement, memory_use, timers
from rqps.pages.perf_schema_instruments.instruments import instrument_costs, sums_of_parts
from rqps.pages.perf_schema_overhead.counted import parts_by_instructions, same_order, scenario_instructions
from rqps.pages.perf_schema_overhead.parts import scenario_parts
from rqps.pages.perf_schema_overhead.scenarios import by_clients, scenario_costs, scenario_ratios, scenarios
from rqps.pages.perf_schema_overhead.told import scenario_findings

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
