"""Measurement health: the reasons to believe a study's numbers, or not to."""

from rqps.pages.measurement_health.charts import over_rounds, smallest_differences
from rqps.pages.measurement_health.sentences import HEADS, advice, answer, in_a_sentence
from rqps.pages.measurement_health.tables import drift_table, itself, machine, round_table, step_table

__all__ = ["HEADS", "advice", "answer", "drift_table", "in_a_sentence", "itself", "machine"]
__all__ += ["over_rounds", "round_table", "smallest_differences", "step_table"]
