"""Scenarios of what an engine records of itself: the cost of each, the events it records, and its parts."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import takewhile

import polars as pl

from rqps.engines import NO_SCENARIOS, Scenarios, facts_of
from rqps.stats.comparison import KEYS, compare, relate, relate_pairs
from rqps.stats.conditions import asked_options
from rqps.stats.metrics import COMPARED, CPU, THROUGHPUT, measured, version_order
from rqps.stats.pairing import rounds_of_pairs
from rqps.store.read import Study
from rqps.store.schemas import IDENTITY

_KEYS = (*KEYS, "scenario", "against")

MOST_PARTS = 12
"""The parts with most events are measured alone; beyond this many, the others are measured together."""
FEWEST_EVENTS = 0.01
"""Events per statement; what happens more seldom costs no statement anything."""

COSTS_MORE = 1.01
"""Times the instructions of the base; callgrind's counts of two starts of a server differ by 0.3 %."""

Patterns = tuple[str, ...]
ClassOf = Callable[[str], str | None]
"""Gives the kind that an instrument belongs to."""


def recorder(study: Study) -> Scenarios:
    """The scenarios of a study's engine; `NO_SCENARIOS` if it has none."""
    known = (facts_of(name).scenarios for name in study.runs["engine"].unique().sort())
    return next((scenarios for scenarios in known if scenarios is not NO_SCENARIOS), NO_SCENARIOS)


def scenarios(study: Study) -> pl.DataFrame:
    """One row per dbms: `dbms, build, version, scenario`; a dbms whose config says nothing about it has none."""
    options, of_engine = asked_options(study.conditions), recorder(study)
    named = options.filter(name=of_engine.KEY).select("dbms", scenario="value")
    switched = options.filter(name=of_engine.SWITCH).select(
        "dbms",
        switched=pl.col("value")
        .str.to_uppercase()
        .replace_strict(dict(of_engine.BY_OPTION), default=None, return_dtype=pl.String),
    )
    return (
        version_order(study.runs)
        .join(study.runs.select("dbms", "build", "version").unique("dbms"), on="dbms", maintain_order="left")
        .join(named, on="dbms", how="left", maintain_order="left")
        .join(switched, on="dbms", how="left", maintain_order="left")
        .select("dbms", "build", "version", scenario=pl.coalesce("scenario", "switched"))
        .drop_nulls("scenario")
    )


def scenario_rounds(study: Study, values: pl.DataFrame, against: str) -> pl.DataFrame:
    """The rounds of each scenario beside those of the same build in `against`; a build without that has no rows."""
    named = scenarios(study)
    bases = named.filter(scenario=against).select("build", base="dbms")
    pairs = named.join(bases, on="build").filter(pl.col("dbms") != pl.col("base")).select("base", "dbms").rows()
    return (
        rounds_of_pairs(values, pairs)
        .join(named.select("dbms", "scenario"), on="dbms", maintain_order="left")
        .with_columns(against=pl.lit(against))
    )


def scenario_costs(study: Study, against: str) -> pl.DataFrame:
    """The tidy frame of server CPU per operation, with the µs that each adds, and its rQPS as `throughput`."""
    rounds = scenario_rounds(study, measured(study, COMPARED), against)
    named = scenarios(study).select("dbms", "scenario")
    compared = relate_pairs(rounds, relate(study)[1]).join(named, on="dbms", maintain_order="left")
    compared = compared.with_columns(against=pl.lit(against))
    names = {"estimate": "throughput", **{end: f"throughput_{end}" for end in ("low", "high", "verdict")}}
    beside = compared.filter(metric=THROUGHPUT).rename(names)
    keys = ["host", "step", "dbms"]
    return _with_added(compared.filter(metric=CPU), rounds.filter(metric=CPU)).join(
        beside.select(*keys, *names.values()), on=keys, how="left", maintain_order="left"
    )


def with_added(rounds: pl.DataFrame) -> pl.DataFrame:
    """The tidy frame of one metric with the median of the rounds' differences: `added, added_low, added_high`."""
    return _with_added(compare(rounds, keys=_KEYS), rounds)


def _with_added(compared: pl.DataFrame, rounds: pl.DataFrame) -> pl.DataFrame:
    keys = ["host", "step", "dbms"]
    differences = compare(rounds, of="difference", keys=_KEYS)
    more = differences.select(*keys, added="estimate", added_low="low", added_high="high")
    return compared.join(more, on=keys, how="left", maintain_order="left")


def ranked(costs: pl.DataFrame, *, descending: bool = False) -> pl.DataFrame:
    """Rows by step and build, then by cost; those whose cost the rounds leave unsure come last, by name."""
    unsure = pl.col("verdict") == "unsure"
    order = ["position", "build", unsure, pl.when(~unsure).then(pl.col("estimate")), "scenario"]
    return costs.sort(order, descending=[False, False, False, descending, False], maintain_order=True)


def events_per_statement(study: Study) -> pl.DataFrame:
    """One row per step, dbms and instrument: the median of the rounds' events for each statement of the load."""
    of_engine = recorder(study)
    name, value, step = pl.col("name"), pl.col("value").cast(pl.Int64), [*IDENTITY, "step"]
    is_statement = name == of_engine.STATEMENTS
    wanted = (name.str.starts_with(of_engine.STATUS) & (name != of_engine.MEMORY)) | is_statement
    statements = pl.col("value").filter(is_statement).sum().over(step)
    counted = (
        study.status.filter(wanted)
        .group_by(*step, "name", maintain_order=True)
        .agg(value.filter(moment="after").sum() - value.filter(moment="before").sum())
        .with_columns(statements=statements)
        .filter(~is_statement, pl.col("value") > 0, pl.col("statements") > 0)
        .collect()
    )
    instrument = name.str.strip_prefix(of_engine.STATUS).alias("instrument")
    return (
        counted.group_by("host", "step", "dbms", instrument, maintain_order=True)
        .agg(per_statement=(pl.col("value") / pl.col("statements")).median())
        .with_columns(
            pl.col("instrument").map_elements(lambda name: of_engine.class_of(name) or name, pl.String).alias("class")
        )
        .join(scenarios(study).select("dbms", "scenario"), on="dbms", maintain_order="left")
        .sort("host", "step", "dbms", "per_statement", descending=[False, False, False, True])
    )


def with_events(costs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The CPU that scenarios add, with their events per statement and the nanoseconds that one of these adds.

    An operation must be a statement. `each_ns` is null where the rounds leave it unsure whether there is a cost.
    """
    keys = ["host", "step", "dbms"]
    counted = events.group_by(keys, maintain_order=True).agg(
        pl.col("per_statement").sum(),
        pl.col("class").unique(maintain_order=True).str.join(", ").alias("classes"),
    )
    each_ns = pl.col("added") * 1e3 / pl.col("per_statement")
    return costs.join(counted, on=keys, how="left", maintain_order="left").with_columns(
        each_ns=pl.when(pl.col("added_low") > 0).then(each_ns)
    )


def first_parts(study: Study, dbms: str) -> list[Patterns]:
    """Parts of the first level, by the events that a dbms recorded."""
    class_of = recorder(study).class_of
    return parts_by_kind(recorded_events(events_per_statement(study), dbms, class_of), class_of)


def next_parts(study: Study, base: str, instructions: pl.DataFrame) -> list[Patterns]:
    """Parts of the next level: those of each dbms that costs more than the base, in `instructions` if counted."""
    against = scenarios(study).filter(dbms=base)["scenario"].item()
    counted = with_added(scenario_rounds(study, instructions, against))
    events = events_per_statement(study)
    names = costly(scenario_costs(study, against), counted)
    return [part for dbms in names for part in split_by_name(recorded_events(events, dbms, recorder(study).class_of))]


def recorded_events(events: pl.DataFrame, dbms: str, class_of: ClassOf) -> dict[str, float]:
    """Events per statement of a dbms in its first step, by instrument, the most first."""
    mine = events.filter(dbms=dbms)
    first = mine.filter(pl.col("step") == mine["step"].first(), pl.col("per_statement") >= FEWEST_EVENTS)
    named = first.filter(pl.col("instrument").map_elements(lambda name: class_of(name) is not None, pl.Boolean))
    return dict(named.sort("per_statement", descending=True).select("instrument", "per_statement").rows())


def parts_by_kind(events: Mapping[str, float], class_of: ClassOf) -> list[Patterns]:
    """Parts of the first level: one for every kind of instruments that had events.

    >>> events = {"stage/sql/init": 2.0, "wait/synch/mutex/LOCK_open": 1.0, "stage/sql/end": 1.0}
    >>> parts_by_kind(events, lambda name: "stage" if name.startswith("stage") else "wait/synch/mutex")
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
    names = sorted(events, key=lambda name: -events[name])
    if len(names) <= most:
        return [(name,) for name in names] if len(names) > 1 else []
    columns = zip(*(name.split("/") for name in names), strict=False)
    depth = sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, columns))
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups["/".join(name.split("/")[: depth + 1])].append(name)
    order = sorted(groups, key=lambda start: -sum(events[name] for name in groups[start]))
    alone = order if len(order) <= most else order[: most - 1]
    parts = [tuple(groups[start]) if len(groups[start]) == 1 else (f"{start}/%",) for start in alone]
    rest = tuple(name for start in order[len(alone) :] for name in groups[start])
    return [*parts, rest] if rest else parts


def costly(costs: pl.DataFrame, counted: pl.DataFrame) -> list[str]:
    """The dbms whose first step costs more than the base's, the most expensive first: by instructions if counted."""
    first = pl.col("position") == pl.col("position").min()
    if not counted.is_empty():
        more = counted.filter(first).filter(pl.col("estimate") > COSTS_MORE)
        return more.sort("estimate", descending=True)["dbms"].to_list()
    return costs.filter(first).filter(verdict="slower").sort("added", descending=True)["dbms"].to_list()
