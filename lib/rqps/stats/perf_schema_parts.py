"""Parts of a scenario of the performance schema, level by level, and which of them are measured further."""

from collections.abc import Mapping
from itertools import takewhile

import polars as pl

from rqps.stats.perf_schema import events_per_statement, scenario_costs, scenario_rounds, scenarios, with_added
from rqps.store.read import Study
from rqps.study.perf_schema import class_of

MOST_PARTS = 12
"""The parts with most events are measured alone; beyond this many, the others are measured together."""
FEWEST_EVENTS = 0.01
"""Events per statement; what happens more seldom costs no statement anything."""

COSTS_MORE = 1.01
"""Times the instructions of the base; callgrind's counts of two starts of a server differ by 0.3 %."""

Patterns = tuple[str, ...]


def first_parts(study: Study, whole: str) -> list[Patterns]:
    """Parts of the first level, by the events that the dbms `whole` recorded."""
    return parts_by_kind(recorded_events(events_per_statement(study), whole))


def next_parts(study: Study, base: str, instructions: pl.DataFrame) -> list[Patterns]:
    """Parts of the level after this one: those of each dbms that costs more than the base.

    `instructions` are those per operation, by run, where the study has them counted.
    """
    against = scenarios(study).filter(dbms=base)["scenario"].item()
    counted = with_added(scenario_rounds(study, instructions, against))
    events = events_per_statement(study)
    names = costly(scenario_costs(study, against), counted)
    return [part for dbms in names for part in split_by_name(recorded_events(events, dbms))]


def recorded_events(events: pl.DataFrame, dbms: str) -> dict[str, float]:
    """Events per statement of a dbms in its first step, by instrument, the most first."""
    mine = events.filter(dbms=dbms)
    first = mine.filter(pl.col("step") == mine["step"].first(), pl.col("per_statement") >= FEWEST_EVENTS)
    named = first.filter(pl.col("instrument").map_elements(lambda name: class_of(name) is not None, pl.Boolean))
    return dict(named.sort("per_statement", descending=True).select("instrument", "per_statement").rows())


def parts_by_kind(events: Mapping[str, float]) -> list[Patterns]:
    """Parts of the first level: one for every kind of instruments that had events.

    >>> parts_by_kind({"stage/sql/init": 2.0, "wait/synch/mutex/sql/LOCK_open": 1.0, "stage/sql/end": 1.0})
    [('stage/%',), ('wait/synch/mutex/%',)]
    """
    kinds = dict.fromkeys(class_of(name) for name in events)
    return [(kind if kind in events else f"{kind}/%",) for kind in kinds if kind]


def split_by_name(events: Mapping[str, float], most: int = MOST_PARTS) -> list[Patterns]:
    """Parts of the next level, by the names of one part's instruments as far as these differ.

    >>> split_by_name({"wait/io/file/sql/binlog": 1.0})
    []
    >>> split_by_name({"a/b/x": 3.0, "a/c/y": 1.0, "a/c/z": 1.0}, most=2)
    [('a/b/x',), ('a/c/%',)]
    >>> split_by_name({"a/x": 3.0, "a/y": 2.0, "a/z": 1.0}, most=2)
    [('a/x',), ('a/y', 'a/z')]
    """
    names = list(events)
    if len(names) < 2:
        return []
    columns = zip(*(name.split("/") for name in names), strict=False)
    depth = sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, columns))
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("/".join(name.split("/")[: depth + 1]), []).append(name)
    if len(names) <= most:
        groups = {name: [name] for name in names}
    weight = {start: sum(events[name] for name in members) for start, members in groups.items()}
    order = sorted(groups, key=lambda start: -weight[start])
    alone = order if len(order) <= most else order[: most - 1]
    parts = [tuple(groups[start]) if len(groups[start]) == 1 else (f"{start}/%",) for start in alone]
    rest = [name for start in order[len(alone) :] for name in groups[start]]
    return [*parts, *([tuple(rest)] if rest else [])]


def costly(costs: pl.DataFrame, counted: pl.DataFrame) -> list[str]:
    """The dbms whose first step is shown to cost more than the base's, the most expensive first.

    Counted instructions decide where there are any, since they are steadier than time: 1 % more is more.
    """
    first = pl.col("position") == pl.col("position").min()
    if not counted.is_empty():
        more = counted.filter(first).filter(pl.col("median") > COSTS_MORE)
        return more.sort("median", descending=True)["dbms"].to_list()
    return costs.filter(first).filter(verdict="slower").sort("added", descending=True)["dbms"].to_list()
