"""Charts and tables of what the performance schema costs."""

from rqps.charts.perf_schema.clients import clients_in_one, clients_one_by_one
from rqps.charts.perf_schema.costs import scenario_bars
from rqps.charts.perf_schema.instruments import instrument_bars, instrument_text
from rqps.charts.perf_schema.parts import parts_chart
from rqps.charts.perf_schema.releases import cost_against_memory, cost_by_release
from rqps.charts.perf_schema.tables import (
    events_table,
    instructions_of_scenarios,
    memory_table,
    scenario_table,
    scenario_text,
)

__all__ = [
    "clients_in_one",
    "clients_one_by_one",
    "cost_against_memory",
    "cost_by_release",
    "events_table",
    "instructions_of_scenarios",
    "instrument_bars",
    "instrument_text",
    "memory_table",
    "parts_chart",
    "scenario_bars",
    "scenario_table",
    "scenario_text",
]
