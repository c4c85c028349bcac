"""Measurement health: the reasons to believe a study's numbers, or not to."""

from rqps.pages import Reliability
from rqps.pages.measurement_health.charts import over_rounds, smallest_differences
from rqps.pages.measurement_health.sentences import HEADS, advice, answer, in_a_sentence
from rqps.pages.measurement_health.tables import drift_table, itself, machine, round_table, step_table
from rqps.stats import health
from rqps.store import Study


def reliability(study: Study) -> Reliability:
    """The verdict on the study's numbers, for the first page of a report."""
    found = health(study)
    return Reliability(HEADS[found.belief], in_a_sentence(found), found.belief == "doubtful")
