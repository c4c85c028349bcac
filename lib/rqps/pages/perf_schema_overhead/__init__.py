"""The page on what the performance schema costs: by scenario, step, release, part and event, and its memory."""

from rqps.pages.perf_schema_overhead.parts import parts_chart
from rqps.pages.perf_schema_overhead.recorded import events, memory
from rqps.pages.perf_schema_overhead.scenario_costs import client_charts, cost_chart, cost_matrix, cost_table, costs
from rqps.pages.perf_schema_overhead.sentences import by_instructions, findings, largest
