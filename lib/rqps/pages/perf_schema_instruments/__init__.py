"""The page on the cost of single instruments of the performance schema."""

from rqps.pages.perf_schema_instruments.charts import instrument_bars, instrument_text
from rqps.pages.perf_schema_instruments.instruments import instrument_costs, sums_table

__all__ = ["instrument_bars", "instrument_costs", "instrument_text", "sums_table"]
