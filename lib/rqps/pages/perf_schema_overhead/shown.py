"""Charts and tables of what the performance schema costs."""

from rqps.pages.perf_schema_instruments.instrument_charts import instrument_bars, instrument_text
from rqps.pages.perf_schema_overhead.client_charts import clients_in_one, clients_one_by_one
from rqps.pages.perf_schema_overhead.cost_charts import scenario_bars
from rqps.pages.perf_schema_overhead.parts_chart import parts_chart
from rqps.pages.perf_schema_overhead.release_charts import cost_against_memory, cost_by_release
from rqps.pages.perf_schema_overhead.tables import (
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
