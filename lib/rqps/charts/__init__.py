"""Pure functions from frames to charts and tables. Importing this makes charts show themselves everywhere."""

from typing import Any

import polars as pl

from rqps.view import (
    Sentences,
    absolute_table,
    bars,
    builds_table,
    conditions_table,
    counters,
    differences_table,
    heatmap,
    over_releases,
    throughput,
    warnings_table,
)
from rqps.view import dots as rounds
from rqps.view import latencies as latency
from rqps.view import ratio_table as relative_table
from rqps.view import ratio_text as relative_text
from rqps.view.tables import plain_table


def cpu_per_operation(absolute: pl.DataFrame, base: str) -> Any:
    """Bars of the CPU of server and client."""
    return bars(absolute, base, {f"{who}_cpu_us_per_operation": who for who in ("server", "client")})


__all__ = [
    "Sentences",
    "absolute_table",
    "builds_table",
    "conditions_table",
    "counters",
    "cpu_per_operation",
    "differences_table",
    "heatmap",
    "latency",
    "over_releases",
    "plain_table",
    "relative_table",
    "relative_text",
    "rounds",
    "throughput",
    "warnings_table",
]
