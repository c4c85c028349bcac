"""Cost of an operation by component, thread or function for base and me, with verdicts on the differences."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import polars as pl

from rqps.profile.components import OTHER
from rqps.profile.costs import COSTS, as_measured, instruction_costs, stack_costs
from rqps.profile.pair import BASE, ME, SIDES, Pair, pairs
from rqps.stats.comparison import compare, relate
from rqps.stats.metrics import CPU, with_groups
from rqps.stats.metrics import INSTRUCTIONS as COUNTS
from rqps.store.read import Study, load
from rqps.study import SMALLEST_EFFECT, Mode

By = Literal["component", "thread", "function", "inclusive"]
Whole = Literal["operation"]

MICROSECONDS, INSTRUCTIONS = "µs/operation", "instructions/operation"
METRIC_OF = {MICROSECONDS: CPU, INSTRUCTIONS: COUNTS}
"""Maps a unit to the metric that measures the whole operation in that unit."""
SMALL_FUNCTION = 0.01
"""Functions that cost less, in both base and me, than this share of the more expensive of the two operations are
pooled into one part: verdicts are corrected for the number of comparisons, so each further part would widen the
intervals of all others."""

_OPERATION = ("host", "step", "base", "dbms", "unit")
# Numbers are arithmetic means of the rounds, so that the means of parts add up. `estimate`, `low` and `high` describe
# the difference.
_NUMBERS = ("base_estimate", "me_estimate", "estimate", "low", "high", "coverage")
_COMPARED = {"n": pl.Int32, **dict.fromkeys(_NUMBERS, pl.Float64), "verdict": pl.String, "needs": pl.String}
_OF_PARTS = (
    "base_samples",  # null for counted instructions
    "me_samples",
    "base_measured",  # cost of the whole operation in the base
    "me_measured",
    "measured_error",  # half the width of the interval of the whole operation's difference
    "smallest_effect",  # the study's smallest effect, a share of the part's cost
)
BREAKDOWN = pl.Schema(
    {
        **dict.fromkeys(_OPERATION, pl.String),
        "by": pl.String,
        "part": pl.String,
        "component": pl.String,  # for a function, the component with most of its cost
        **_COMPARED,
        **dict.fromkeys(_OF_PARTS, pl.Float64),
    }
)
OPERATIONS = pl.Schema({**dict.fromkeys(_OPERATION, pl.String), **_COMPARED, "smallest_effect": pl.Float64})


class Profile(NamedTuple):
    """A study's profile of one mode. All frames are empty if the base was not profiled."""

    profiled: pl.DataFrame
    """Costs by stack, as measured in the profiled rounds."""
    costs: pl.DataFrame
    """Costs by stack, scaled so that they add up to the cost of an operation in the rounds of mode `throughput`."""
    operations: pl.DataFrame
    parts: pl.DataFrame
    """Components, threads and functions of each operation, with the `group` and `kind` of its step."""
    compared: pl.DataFrame
    """The study's compared frame. Its verdicts and the verdicts on parts are corrected together for multiple
    comparisons."""


@lru_cache(maxsize=2)
def profiled_costs(study: Study, mode: Mode) -> pl.DataFrame:
    """The cost of an operation by stack in the profiled rounds: sampled CPU time (mode `stacks`), or counted
    `instructions`."""
    recorded = load(study.place, mode=mode)
    if mode == "stacks":
        return stack_costs(recorded.stacks, recorded.steps)
    return instruction_costs(recorded.instructions, recorded.steps)


@lru_cache(maxsize=2)
def profile_of(study: Study, mode: Mode) -> Profile:
    """The profile of a study: of sampled CPU time (mode `stacks`) or of counted `instructions`.

    The cost of an operation, and its verdict, come from the ordinary rounds or, if there are none, from the profiled
    rounds."""
    profiled, base = profiled_costs(study, mode), study.card.base
    if base not in set(profiled["dbms"]):
        of_steps = pl.Schema(dict.fromkeys(("group", "kind"), pl.String()))
        described = [pl.Schema({**schema, **of_steps}) for schema in (OPERATIONS, BREAKDOWN)]
        schemas = (COSTS, COSTS, *described, pl.Schema({**described[0], "metric": pl.String()}))
        return Profile(*(pl.DataFrame(schema=schema) for schema in schemas))
    _, compared = relate(study if base in set(study.runs["dbms"]) else load(study.place, mode=mode))
    unit = MICROSECONDS if mode == "stacks" else INSTRUCTIONS
    costs, least = (
        as_measured(profiled, measured_costs(compared.filter(metric=METRIC_OF[unit]))),
        study.card.smallest_effect,
    )
    parts = breakdown(costs, base, ("component", "thread", "function"), least, compared)
    operations, parts = (
        with_groups(frame, compared) for frame in (operation_costs(costs, base, least, compared), parts)
    )
    return Profile(profiled, costs, operations, parts, compared)


def sampled_parts(study: Study) -> pl.DataFrame:
    """The parts of each operation of a study, in sampled CPU time."""
    return profile_of(study, "stacks").parts


def counted_parts(study: Study) -> pl.DataFrame:
    """The parts of each operation of a study, in counted instructions."""
    return profile_of(study, "instructions").parts


def breakdown(
    costs: pl.DataFrame,
    base: str,
    by: By | Sequence[By] = "component",
    smallest_effect: float = SMALLEST_EFFECT,
    compared: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The tidy frame of differences, one row per host, step, dbms and part of an operation.

    The components of an operation add up to its cost; so do its threads, and its functions. With `inclusive`, the
    cost of a function includes all that it called. The verdicts of all rows are corrected for multiple comparisons
    together with the verdicts in `compared`, the study's compared frame.
    """
    kinds: Sequence[By] = [by] if isinstance(by, str) else by
    every = _rounds(costs, base, [*kinds, "operation"], compared)
    if every.is_empty():
        return pl.DataFrame(schema=BREAKDOWN)
    is_whole = pl.col("by") == "operation"
    rounds, wholes = every.filter(~is_whole), every.filter(is_whole)
    keys = [*_OPERATION, "by", "part"]
    settings = rounds.with_columns(metric="unit", smallest_effect=pl.lit(smallest_effect))
    parts = compare(settings, "difference", [*keys, "component", "metric"], compared)
    samples = pl.when(pl.col("unit") == MICROSECONDS).then(pl.col("base_samples", "me_samples"))
    of_parts = rounds.group_by(keys).agg(pl.col("base_samples", "me_samples").sum())
    of_wholes = _operations(wholes, smallest_effect, compared).select(
        *_OPERATION,
        base_measured="base_estimate",
        me_measured="me_estimate",
        measured_error=(pl.col("high") - pl.col("low")) / 2,
    )
    by_size = [pl.struct(_OPERATION).rle_id(), pl.col("estimate").abs(), pl.col("part")]
    return (
        parts.join(of_parts, on=keys, maintain_order="left")
        .join(of_wholes, on=_OPERATION, maintain_order="left")
        .with_columns(samples)
        .sort(by_size, descending=[False, True, False])
        .select(pl.col(name).cast(kind) for name, kind in BREAKDOWN.items())
    )


def operation_costs(
    costs: pl.DataFrame, base: str, smallest_effect: float = SMALLEST_EFFECT, compared: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The costs of whole operations: one row per host, step and dbms. If `compared`, the study's compared frame, has
    the same comparison, the numbers and the verdict are taken from `compared`."""
    wholes = _rounds(costs, base, ["operation"])
    if wholes.is_empty():
        return pl.DataFrame(schema=OPERATIONS)
    return _operations(wholes, smallest_effect, compared)


def measured_costs(compared: pl.DataFrame) -> pl.DataFrame:
    """The study's comparisons of CPU and instructions per operation, as differences in place of ratios.

    The cost of me is the base's cost times the estimated ratio."""
    of_base, unit_of = pl.col("base_estimate"), {metric: unit for unit, metric in METRIC_OF.items()}
    differences = {name: of_base * (pl.col(name) - 1) for name in ("estimate", "low", "high")}
    return (
        compared.filter(pl.col("metric").is_in(list(unit_of)))
        .with_columns(
            unit=pl.col("metric").replace_strict(unit_of, return_dtype=pl.String),
            me_estimate=of_base * pl.col("estimate"),
            **differences,
        )
        .select(pl.col(name).cast(kind) for name, kind in OPERATIONS.items())
    )


def _operations(wholes: pl.DataFrame, smallest_effect: float, compared: pl.DataFrame | None) -> pl.DataFrame:
    settings = wholes.with_columns(metric="unit", smallest_effect=pl.lit(smallest_effect))
    own = compare(settings, "difference", [*_OPERATION, "metric"])
    own = own.select(pl.col(name).cast(kind) for name, kind in OPERATIONS.items())
    return own if compared is None else own.update(measured_costs(compared), on=_OPERATION)


def _rounds(
    costs: pl.DataFrame, base: str, kinds: Sequence[By | Whole], compared: pl.DataFrame | None = None
) -> pl.DataFrame:
    """One row per round, part and pair of base and me, for the given kinds of parts. The parts of an operation add up
    to its cost in `compared`, if it has that; a pair may lack some of the profiled rounds of base or me."""
    known = () if compared is None else measured_costs(compared).iter_rows(named=True)
    measured = {tuple(row[name] for name in _OPERATION): row for row in known}
    frames = [pl.DataFrame()]
    for host, step, dbms, pair in pairs(costs, base):
        unit = INSTRUCTIONS if pair.counted else MICROSECONDS
        names = dict(zip(_OPERATION, (host, step, base, dbms, unit), strict=True))
        row = measured.get(tuple(names.values()))
        if row and row["base_estimate"] and row["me_estimate"]:
            pair = pair.scaled({side: row[f"{side}_estimate"] for side in SIDES})
        for by in kinds:
            identity = [pl.lit(value).alias(name) for name, value in {**names, "by": by}.items()]
            frames.append(pair.by_round(_grouped(pair, by), ["part", "component"]).with_columns(identity))
    return pl.concat(frames, how="diagonal")


def _grouped(pair: Pair, by: By | Whole) -> pl.DataFrame:
    """One row per part of the kind `by`, with the costs of its stacks summed up. The component `other` has a row
    even if no cost belongs to it."""
    rows, sums = pair.rows, pl.col(pair.columns).sum()
    if by == "operation":
        return rows.select(pl.lit("").alias("part"), pl.lit("").alias("component"), sums)
    if by == "component":
        nothing = pl.DataFrame({"component": [OTHER]})
        of_components = pl.concat([rows.drop("stack"), nothing], how="diagonal").group_by("component").agg(sums)
        return of_components.with_columns(pl.col("component").alias("part"))
    if by == "thread":
        return rows.group_by(part=pl.col("stack").list.first()).agg(sums).with_columns(component=pl.lit(""))
    if by == "function":
        parts = _without_small(rows.with_columns(part=pl.col("stack").list.last()), pair)
    else:
        # A recursive function is in a stack more than once; the stack's cost counts only once for the function.
        parts = rows.with_columns(pl.col("stack").list.unique().alias("part")).explode("part")
    cost = (pair.mean(BASE) + pair.mean(ME)).sum()
    most = parts.group_by("part", "component").agg(cost.alias("cost"))
    most = most.sort("cost", "component", descending=[True, False]).unique("part", keep="first", maintain_order=True)
    return parts.group_by("part").agg(sums).join(most.select("part", "component"), on="part")


def _without_small(rows: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    """Replaces the `part` of functions that are small in both base and me by `(N smaller functions)`, without a
    component. Small is relative to the more expensive of the two operations."""
    least = SMALL_FUNCTION * max(pair.measured(BASE), pair.measured(ME))
    is_small = pl.max_horizontal(pair.mean(side).sum().over("part") for side in (BASE, ME)) < least
    small = pl.format("({} smaller functions)", pl.col("part").filter(is_small).n_unique())
    component = pl.when(is_small).then(pl.lit("")).otherwise("component")
    return rows.with_columns(part=pl.when(is_small).then(small).otherwise("part"), component=component)
