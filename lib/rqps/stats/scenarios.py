"""Scenarios, which set what a server records about itself: the cost of each scenario, the events that it records, and
its parts."""

from collections.abc import Callable, Mapping
from functools import lru_cache

import polars as pl

from rqps.engines import NO_SCENARIOS, Scenarios, facts_of
from rqps.stats.comparison import over_steps, relate, relate_pairs
from rqps.stats.conditions import asked_options
from rqps.stats.estimate import STUDENT
from rqps.stats.metrics import COMPARED, CPU, INSTRUCTIONS, THROUGHPUT, measured, version_order, with_counts
from rqps.stats.pairing import rounds_of_pairs
from rqps.stats.summary import left_out
from rqps.store.read import Study
from rqps.store.schemas import IDENTITY

MOST_PARTS = 12
"""Maximum number of parts of a scenario that are measured one by one. If there are more, the parts that record the
most events are measured one by one, and all others together."""
FEWEST_EVENTS = 0.01
"""Minimum number of events per statement: the cost of rarer events is negligible."""

COSTS_MORE = 1.01
"""A scenario counts as more expensive than the base if its instructions, divided by the base's, exceed this number.
Two starts of a server differed by 0.1 % in callgrind's counts of the same statements;
benchmarks/counting.py allows up to 0.3 %."""

Patterns = tuple[str, ...]
ClassOf = Callable[[str], str | None]
"""Maps the name of an instrument to the kind that it belongs to; None for unknown names."""


def recorder(study: Study) -> Scenarios:
    """The scenarios of a study's engine; `NO_SCENARIOS` if it has none."""
    known = (facts_of(name).scenarios for name in study.runs["engine"].unique().sort())
    return next((scenarios for scenarios in known if scenarios is not NO_SCENARIOS), NO_SCENARIOS)


def scenarios(study: Study) -> pl.DataFrame:
    """One row per dbms: `dbms, build, version, scenario`; a dbms whose config sets no scenario has no row."""
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


def scenario_rounds(study: Study) -> pl.DataFrame:
    """The rounds of each scenario, paired with the rounds of another scenario of the same build (`against`): the
    scenario of the study's base, or one of the engine's `BASES`. A scenario in `BASES` is compared only with the
    scenarios before it in `BASES`, and with the study's base."""
    named, bases = scenarios(study), recorder(study).BASES
    place = pl.col("scenario").replace_strict(list(bases), range(len(bases)), default=None, return_dtype=pl.Int8)
    named = named.with_columns(place=place)
    pairs = named.join(named, on="build", suffix="_of_base").filter(
        pl.col("dbms") != pl.col("dbms_of_base"),
        (pl.col("dbms_of_base") == study.card.base)
        | (pl.col("place_of_base") < pl.col("place").fill_null(len(bases))),
    )
    pairs = pairs.select("dbms", "scenario", base="dbms_of_base", against="scenario_of_base")
    values = with_counts(measured(study, COMPARED), study)
    rounds = rounds_of_pairs(values, pairs.select("base", "dbms").rows())
    return rounds.join(pairs, on=["base", "dbms"], maintain_order="left")


@lru_cache(maxsize=2)  # most sections of a page use the result
def scenario_costs(study: Study) -> pl.DataFrame:
    """The tidy frame of each scenario against others, for every metric with verdicts. Further columns are the
    `version`; the `release`, which is the version's number, or the build if several builds share a version, with the
    host if there are several; the cost that the scenario `added`, with its interval; and the ratio of `throughput`.
    Pairs with the study's base have the verdicts of `relate`; the verdicts of all other pairs are corrected for
    multiple comparisons together with these."""
    paired = scenario_rounds(study)
    pair, row = ["host", "step", "base", "dbms"], ["host", "step", "base", "dbms", "metric"]
    added = STUDENT.estimate(paired, row, "difference")
    added = added.select(*row, added="estimate", added_low="low", added_high="high")
    names = paired.select("base", "dbms", "scenario", "against").unique()
    compared = (
        relate_pairs(paired, relate(study)[1])
        .join(added, on=row, how="left", maintain_order="left")
        .join(names, on=["base", "dbms"], maintain_order="left")
        .join(_releases(study).drop("scenario"), on="dbms", maintain_order="left")
    )
    beside = {"estimate": "throughput", **{end: f"throughput_{end}" for end in ("low", "high", "verdict")}}
    compared = _with_hosts(compared)
    throughput = compared.filter(metric=THROUGHPUT).rename(beside).select(*pair, *beside.values())
    return compared.join(throughput, on=pair, how="left", maintain_order="left")


def scenario_means(study: Study) -> pl.DataFrame:
    """The geometric mean of each scenario's CPU ratio to the first scenario in the engine's `BASES`, over the steps
    that means are taken over (see `left_out`). A scenario that was not measured in all these steps has no mean."""
    rounds = scenario_rounds(study).filter(pl.col("against").is_in(recorder(study).BASES[:1]), metric=CPU)
    means = over_steps(rounds, left_out(study)).join(_releases(study), on="dbms", maintain_order="left")
    return _with_hosts(means.filter(pl.col("steps") == pl.col("steps").max()))


def _with_hosts(rows: pl.DataFrame) -> pl.DataFrame:
    several = rows["host"].n_unique() > 1
    return rows.with_columns(release=pl.format("{} on {}", "release", "host")) if several else rows


def _releases(study: Study) -> pl.DataFrame:
    number = pl.col("version").str.extract(r"^(\d+(?:\.\d+)+)")
    release = pl.when(number.n_unique() == pl.col("build").n_unique()).then(number).otherwise("build")
    return scenarios(study).select("dbms", "version", "scenario", release=release)


def ranked(costs: pl.DataFrame, *, descending: bool = False) -> pl.DataFrame:
    """Sorts rows by step and build, then by cost; in a build, rows with the verdict `unsure` are last, by name."""
    unsure = pl.col("verdict") == "unsure"
    order = ["position", "build", unsure, pl.when(~unsure).then(pl.col("estimate")), "scenario"]
    return costs.sort(order, descending=[False, False, False, descending, False], maintain_order=True)


def events_per_statement(study: Study) -> pl.DataFrame:
    """One row per step, dbms and instrument: the number of events per statement, as the median of the rounds."""
    of_engine = recorder(study)
    name, value, step = pl.col("name"), pl.col("value").cast(pl.Int64), [*IDENTITY, "step"]
    is_statement = name == of_engine.STATEMENTS
    wanted = (name == of_engine.EVENTS) | is_statement
    statements = pl.col("value").filter(is_statement).sum().over(step)
    counted = (
        study.status.filter(wanted)
        .group_by(*step, "name", instrument="object", maintain_order=True)
        .agg(value.filter(moment="after").sum() - value.filter(moment="before").sum())
        .with_columns(statements=statements)
        .filter(~is_statement, pl.col("value") > 0, pl.col("statements") > 0)
        .collect()
    )
    return (
        counted.group_by("host", "step", "dbms", "instrument", maintain_order=True)
        .agg(per_statement=(pl.col("value") / pl.col("statements")).median())
        .with_columns(
            pl.col("instrument").map_elements(lambda name: of_engine.class_of(name) or name, pl.String).alias("class")
        )
        .join(scenarios(study).select("dbms", "scenario"), on="dbms", maintain_order="left")
        .sort("host", "step", "dbms", "per_statement", descending=[False, False, False, True])
    )


def with_events(costs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Adds the events per statement to the costs of scenarios, and `each_ns`, the CPU time per event in nanoseconds.

    The costs are per operation, so an operation must be a statement. `each_ns` is null unless the interval shows that
    the scenario costs something.
    """
    keys = ["host", "step", "dbms"]
    counted = events.group_by(keys, maintain_order=True).agg(
        pl.col("per_statement").sum(), pl.col("class").unique(maintain_order=True).str.join(", ").alias("classes")
    )
    each_ns = pl.col("added") * 1e3 / pl.col("per_statement")
    return costs.join(counted, on=keys, how="left", maintain_order="left").with_columns(
        each_ns=pl.when(pl.col("sure_low") > 1).then(each_ns)
    )


def first_parts(study: Study, dbms: str) -> list[Patterns]:
    """The parts of a scenario that the first level measures: kinds of instruments with recorded events."""
    class_of = recorder(study).class_of
    return parts_by_kind(recorded_events(events_per_statement(study), dbms, class_of), class_of)


def next_parts(study: Study) -> list[Patterns]:
    """The parts that the next level measures. Each dbms of this level records one part; if it costs more than the
    base, its part is divided further. The cost is in instructions if they were counted, otherwise in CPU time."""
    costs = scenario_costs(study).filter(base=study.card.base)
    events = events_per_statement(study)
    names = costly(costs.filter(metric=CPU), costs.filter(metric=INSTRUCTIONS))
    known = recorder(study)
    recorded = [recorded_events(events, dbms, known.class_of) for dbms in names]
    return [part for of_dbms in recorded for part in known.split(of_dbms, MOST_PARTS)]


def recorded_events(events: pl.DataFrame, dbms: str, class_of: ClassOf) -> dict[str, float]:
    """Maps instruments to their events per statement in the first step of a dbms, the most frequent ones first.
    Instruments of unknown kinds and rare ones are left out."""
    mine = events.filter(dbms=dbms)
    first = mine.filter(pl.col("step") == mine["step"].first(), pl.col("per_statement") >= FEWEST_EVENTS)
    named = first.filter(pl.col("instrument").map_elements(lambda name: class_of(name) is not None, pl.Boolean))
    return dict(named.sort("per_statement", descending=True).select("instrument", "per_statement").rows())


def parts_by_kind(events: Mapping[str, float], class_of: ClassOf) -> list[Patterns]:
    """One part for each kind of instrument that had events: the first level of the breakdown by instrument.

    >>> events = {"stage/init": 2.0, "wait/lock/open": 1.0, "stage/end": 1.0}
    >>> parts_by_kind(events, lambda name: "stage" if name.startswith("stage") else "wait/lock")
    [('stage/%',), ('wait/lock/%',)]
    """
    kinds = dict.fromkeys(class_of(name) for name in events)
    return [(kind if kind in events else f"{kind}/%",) for kind in kinds if kind]


def costly(costs: pl.DataFrame, counted: pl.DataFrame) -> list[str]:
    """The dbms that cost more than the base in the study's first step, the most expensive one first. The cost is in
    instructions if they were counted, otherwise in CPU time."""
    first = pl.col("position") == pl.col("position").min()
    if not counted.is_empty():
        more = counted.filter(first).filter(pl.col("estimate") > COSTS_MORE)
        return more.sort("estimate", descending=True)["dbms"].to_list()
    return costs.filter(first).filter(verdict="slower").sort("added", descending=True)["dbms"].to_list()
