"""Relative throughput: what a change costs, in relative queries per second.

`rounds, compared, configs = relate(study)` gives the frames; the rest shows them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl
from markupsafe import Markup

from rqps import stats, view
from rqps.pages.relative_throughput.configs import Configs, config_table, configs
from rqps.pages.relative_throughput.findings import findings
from rqps.pages.relative_throughput.groups import MANY, group_table, over_releases, worst_table
from rqps.stats import MEDIAN, Statistic
from rqps.store import Study

__all__ = [
    "conditions",
    "config_table",
    "findings",
    "group_table",
    "in_short",
    "over_releases",
    "over_time",
    "relate",
    "worst_table",
]

MOST_IN_THROUGHPUT, MOST_IN_LATENCY = 6, 12


def relate(study: Study, statistic: Statistic = MEDIAN) -> tuple[pl.DataFrame, pl.DataFrame, Configs]:
    """Rounds against the study's base, the tidy frame of them with warnings, and configs within each build."""
    values = stats.measured(study.steps, study.runs, stats.COMPARED)
    rounds = stats.rounds(values, study.runs, study.card.base)
    compared = stats.in_tables(stats.compare(rounds, statistic))
    warned = stats.with_warnings(compared, stats.all_warnings(study))
    return rounds, warned, configs(study, rounds, statistic)


def over_time(study: Study, compared: pl.DataFrame) -> Iterator[Any]:
    """Throughput of each second, and the latencies, of the steps that changed most."""
    seconds = stats.throughput_over_time(study.intervals, study.steps)
    yield view.throughput(seconds, stats.most_changed(compared, MOST_IN_THROUGHPUT))
    yield view.latencies(stats.latencies_of_steps(study.steps), stats.most_changed(compared, MOST_IN_LATENCY))


def conditions(study: Study) -> Iterator[Any]:
    """Builds that answered, options that some have, conditions that all share, and settings that differ unasked."""
    yield view.builds_table(stats.builds(study.runs, study.conditions))
    columns = [view.Column("option"), view.Column("value"), view.Column("dbms", "asked of")]
    yield view.table(stats.options_of_some(study.conditions), columns, name="options-of-some")
    yield view.conditions_table(stats.same_for_all(study.conditions))
    yield view.differences_table(stats.hidden_differences(study.settings, study.conditions, study.card.base))


class InShort(NamedTuple):
    """Findings as sentences, with the table of all ratios; of many steps, with those of the groups and the worst."""

    sentences: tuple[str, ...]
    table: Markup
    groups: Markup = Markup("")


def in_short(study: Study) -> InShort:
    """The study in short, for the first page of its report."""
    _, compared, found = relate(study)
    sentences = findings(compared, *found).sentences
    if compared["step"].n_unique() <= MANY:
        return InShort(sentences, Markup(view.ratio_table(compared).as_raw_html()))
    by_group, worst = group_table(compared), worst_table(compared)
    return InShort(sentences, Markup(worst.as_raw_html()), Markup(by_group.as_raw_html()))
