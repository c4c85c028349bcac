"""The next thing worth doing about a question: a command, or a what-if, with its reason."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape

import polars as pl

from rqps.pages.one_regression.evidence import Evidence, Question
from rqps.show import Nothing, Sentences
from rqps.show.words import sized
from rqps.stats import THROUGHPUTS

Change = Mapping[str, str | int]
DB_BENCH = "db-bench"

EXAMPLES: dict[str, tuple[Change, ...]] = {
    "performance schema": ({"performance_schema": "OFF"},),
    "adaptive hash index": ({"innodb_adaptive_hash_index": "OFF"},),
    "spinning": ({"innodb_spin_wait_delay": 5}, {"innodb_spin_wait_delay": 6}),
}
"""Changes worth a try, by what they are about."""
_ABOUT = {
    "performance schema": r"^pfs_|_v1$|_v2$|_vc$|^PFS_",
    "adaptive hash index": r"^btr_search_|^ha_search_|^btr_sea",
    "spinning": r"spin|^rw_lock_|^ut_delay|^TTASEventMutex|^mutex_|^PolicyMutex",
}
"""Functions in which each of them shows."""


def next_steps(evidence: Evidence, question: Question) -> Iterator[str]:
    """Sentences as HTML, the most useful first."""
    study, ratios = evidence.study.card.study, evidence.of(question, evidence.compared)
    row = ratios.filter(pl.col("metric").is_in(THROUGHPUTS)).row(0, named=True)
    if row["verdict"] == "unsure":
        yield f"It is undecided: {_code(f'rqps run {study} --budget 30m')} goes on until it is decided."
    layers = evidence.of(question, evidence.layers)
    if layers.is_empty():
        again = f"{_code('stacks_rounds: 4')} in runs.yaml, then {_code(f'rqps run {study}')}"
        yield f"There is no profile: give the study {again}, which samples where the time goes."
    functions = evidence.of(question, evidence.functions)
    for about, changes in _examples_for(evidence):
        there = functions.filter(pl.col("part").str.contains(_ABOUT[about]), pl.col("estimate") > 0)
        costs = f" ({sized(float(there['estimate'].sum()))} {there['unit'][0]} more in it)" if there.height else ""
        calls = " or ".join(_code(what_if_call(study, question, change)) for change in changes)
        yield f"Is it the {about}?{escape(costs)} {calls}"


def examples(evidence: Evidence) -> Sentences:
    """Calls of `rqps.what_if` for the first question, each with what it is about."""
    study, first = evidence.study.card.study, evidence.first
    found = [
        f"{about}: {what_if_call(study, first, change)}"
        for about, changes in _examples_for(evidence)
        for change in changes
    ]
    return Sentences(found) if found else Nothing(["The examples are options of MySQL, and this is no study of it."])


def _examples_for(evidence: Evidence) -> Iterable[tuple[str, tuple[Change, ...]]]:
    return EXAMPLES.items() if evidence.study.card.workload != DB_BENCH else ()


def what_if_call(study: str, question: Question, change: Change) -> str:
    """The call that measures a change of me.

    >>> what_if_call("demo", Question("vm", "scan", "my56.base", "my80.base"), {"ssl": "OFF"})
    "rqps.what_if('demo', step='scan', base='my80.base', config={'ssl': 'OFF'})"
    """
    return f"rqps.what_if({study!r}, step={question.step!r}, base={question.me!r}, config={change!r})"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
