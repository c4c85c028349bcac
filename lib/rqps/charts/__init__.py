"""Pure functions from frames to charts and tables. Importing this makes charts show themselves everywhere."""

from typing import Any

import polars as pl

from rqps.pages.flamegraph_breakdown.components import components
from rqps.pages.flamegraph_breakdown.instructions import (
    counted_table,
    instructions_chart,
    instructions_table,
    most_expensive_table,
)
from rqps.pages.flamegraph_breakdown.operations_text import operations_text
from rqps.pages.flamegraph_breakdown.profile_tables import (
    completeness_table,
    counts_beside,
    explained_table,
    part_table,
)
from rqps.pages.flamegraph_breakdown.thread_time import thread_time
from rqps.pages.point_lookups.lookup_charts import generator_answers, lookup_answers, lookup_charts
from rqps.pages.point_lookups.lookup_tables import lookup_plans, lookup_table, lookups_beside
from rqps.view import (
    Sentences,
    absolute_table,
    bars,
    builds_table,
    conditions_table,
    counters,
    differences_table,
    heatmap,
    most_changed,
    over_releases,
    throughput,
    warnings_table,
)
from rqps.view import dots as rounds
from rqps.view import latencies as latency
from rqps.view import ratio_table as relative_table
from rqps.view import ratio_text as relative_text
from rqps.view.flame import explorer, flame_graph, flame_svg
from rqps.view.tables import plain_table


def cpu_per_operation(absolute: pl.DataFrame, base: str) -> Any:
    """Bars of the CPU of server and client."""
    return bars(absolute, base, {f"{who}_cpu_us_per_operation": who for who in ("server", "client")})


__all__ = [
    "Sentences",
    "absolute_table",
    "builds_table",
    "completeness_table",
    "components",
    "conditions_table",
    "counted_table",
    "counters",
    "counts_beside",
    "cpu_per_operation",
    "differences_table",
    "explained_table",
    "explorer",
    "flame_graph",
    "flame_svg",
    "generator_answers",
    "heatmap",
    "instructions_chart",
    "instructions_table",
    "latency",
    "lookup_answers",
    "lookup_charts",
    "lookup_plans",
    "lookup_table",
    "lookups_beside",
    "most_changed",
    "most_expensive_table",
    "operations_text",
    "over_releases",
    "part_table",
    "plain_table",
    "relative_table",
    "relative_text",
    "rounds",
    "thread_time",
    "throughput",
    "warnings_table",
]
