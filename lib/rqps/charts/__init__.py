"""Pure functions from frames to charts and tables. Importing this makes charts show themselves everywhere."""

from rqps.charts import light, renderer  # noqa: F401 (light comes before whatever imports altair)
from rqps.charts.cost import cpu_per_operation
from rqps.charts.heatmap import heatmap
from rqps.charts.latency import latency
from rqps.charts.over_time import counters, throughput
from rqps.charts.rounds import most_changed, rounds
from rqps.charts.tables import (
    absolute_table,
    builds_table,
    conditions_table,
    config_table,
    differences_table,
    plain_table,
    relative_table,
    relative_text,
    warnings_table,
)
from rqps.charts.text import Sentences

renderer.enable()

__all__ = [
    "Sentences",
    "absolute_table",
    "builds_table",
    "conditions_table",
    "config_table",
    "counters",
    "cpu_per_operation",
    "differences_table",
    "heatmap",
    "latency",
    "most_changed",
    "plain_table",
    "relative_table",
    "relative_text",
    "rounds",
    "throughput",
    "warnings_table",
]
