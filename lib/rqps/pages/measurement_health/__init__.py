"""Measurement health: the reasons to believe a study's numbers, or not to."""

from rqps.pages.measurement_health.charts import over_rounds, smallest_differences
from rqps.pages.measurement_health.sentences import HEADS, advice, answer, in_a_sentence
from rqps.pages.measurement_health.tables import drift_table, itself, machine, round_table, step_table
