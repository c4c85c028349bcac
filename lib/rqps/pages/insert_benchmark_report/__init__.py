"""The performance report of the insert benchmark: as it is published, and what that leaves out."""

from rqps.pages.insert_benchmark_report.bound import bound, where_pages_come_from
from rqps.pages.insert_benchmark_report.columns import columns, columns_over_rounds
from rqps.pages.insert_benchmark_report.debt import debt, settling
from rqps.pages.insert_benchmark_report.held import held
from rqps.pages.insert_benchmark_report.histograms import percentiles, response_times
from rqps.pages.insert_benchmark_report.over_time import clients_over_time, steps_over_time
from rqps.pages.insert_benchmark_report.throughput import insert_rates, throughput
from rqps.pages.insert_benchmark_report.told import bound_findings, insert_findings, rate_findings
from rqps.pages.insert_benchmark_report.trace import column_sources, rounds_of_column

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
