"""Tables and charts of the performance report of the insert benchmark."""

from rqps.pages.insert_benchmark_report.beside_table import beside_table
from rqps.pages.insert_benchmark_report.columns_text import columns_text
from rqps.pages.insert_benchmark_report.histogram_table import histogram_table
from rqps.pages.insert_benchmark_report.over_time_charts import client_charts, settling_chart
from rqps.pages.insert_benchmark_report.report_tables import (
    bound_table,
    corrected_cpu_table,
    corrected_rates_table,
    dbms_tables,
    debt_table,
    held_table,
    percentile_table,
)
from rqps.pages.insert_benchmark_report.summary_tables import (
    insert_rate_table,
    relative_throughput_table,
    throughput_table,
)

__all__ = [
    "beside_table",
    "bound_table",
    "client_charts",
    "columns_text",
    "corrected_cpu_table",
    "corrected_rates_table",
    "dbms_tables",
    "debt_table",
    "held_table",
    "histogram_table",
    "insert_rate_table",
    "percentile_table",
    "relative_throughput_table",
    "settling_chart",
    "throughput_table",
]
