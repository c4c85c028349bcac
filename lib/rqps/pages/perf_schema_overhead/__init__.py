"""What the performance schema costs: by scenario, by part, by release, and for the memory that it takes."""

from rqps.pages.perf_schema_instruments.instruments import instrument_costs, sums_of_parts
from rqps.pages.perf_schema_overhead.counted import parts_by_instructions, same_order, scenario_instructions
from rqps.pages.perf_schema_overhead.memory import memory_use, timers
from rqps.pages.perf_schema_overhead.parts import scenario_parts
from rqps.pages.perf_schema_overhead.told import scenario_findings
from rqps.stats.perf_schema import (
    by_clients,
    event_costs,
    events_per_statement,
    scenario_costs,
    scenario_ratios,
    scenarios,
)

__all__ = [
    "by_clients",
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
    "sums_of_parts",
    "timers",
]
