"""The performance report of the insert benchmark: as it is published, and what that leaves out."""

from rqps.analysis.insert_benchmark.bound import bound, where_pages_come_from
from rqps.analysis.insert_benchmark.columns import columns, columns_over_rounds
from rqps.analysis.insert_benchmark.debt import debt, settling
from rqps.analysis.insert_benchmark.held import held
from rqps.analysis.insert_benchmark.histograms import percentiles, response_times
from rqps.analysis.insert_benchmark.over_time import clients_over_time, steps_over_time
from rqps.analysis.insert_benchmark.throughput import insert_rates, throughput
from rqps.analysis.insert_benchmark.told import bound_findings, insert_findings, rate_findings
from rqps.analysis.insert_benchmark.trace import column_sources, rounds_of_column

__all__ = [
    "bound",
    "bound_findings",
    "clients_over_time",
    "column_sources",
    "columns",
    "columns_over_rounds",
    "debt",
    "held",
    "insert_findings",
    "insert_rates",
    "percentiles",
    "rate_findings",
    "response_times",
    "rounds_of_column",
    "settling",
    "steps_over_time",
    "throughput",
    "where_pages_come_from",
]
