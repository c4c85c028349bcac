"""Cost of an operation by component or function on both sides, and the differences that are more than chance."""

from collections.abc import Sequence
from typing import Literal

import polars as pl

from rqps.profile.components import OTHER
from rqps.profile.pair import BASE, ME, Pair, pairs
from rqps.stats.comparison import compare
from rqps.study import SMALLEST_EFFECT

By = Literal["component", "function", "inclusive", "operation"]

MICROSECONDS, INSTRUCTIONS = "µs/operation", "instructions/operation"

_OPERATION = ("host", "step", "base", "dbms", "unit")
# Of costs, which add up, the middle of the rounds is their mean. `estimate`, `low` and `high` are of the difference.
_NUMBERS = ("base_estimate", "me_estimate", "estimate", "low", "high", "coverage")
_COMPARED = {"n": pl.Int32, **dict.fromkeys(_NUMBERS, pl.Float64), "verdict": pl.String, "needs": pl.String}
_OF_PARTS = (
    "base_samples",  # null where each instruction was counted
    "me_samples",
    "base_measured",  # of the whole operation, as are the next two
    "me_measured",
    "measured_error",
    "smallest_effect",  # the study's, as a share of the whole operation
)
BREAKDOWN = pl.Schema(
    {
        **dict.fromkeys(_OPERATION, pl.String),
        "part": pl.String,
        "component": pl.String,  # of a function: the one that most of its cost belongs to
        **_COMPARED,
        **dict.fromkeys(_OF_PARTS, pl.Float64),
    }
)
OPERATIONS = pl.Schema({**dict.fromkeys(_OPERATION, pl.String), **_COMPARED, "smallest_effect": pl.Float64})


def breakdown(
    costs: pl.DataFrame, base: str, by: By = "component", smallest_effect: float = SMALLEST_EFFECT
) -> pl.DataFrame:
    """The tidy frame of differences, one row per host, step, dbms and part of an operation.

    Components, or functions, add up to the measured cost of an operation. `inclusive` has each function with all that
    it called. The verdicts of all rows hold together.
    """
    rounds, wholes = _rounds(costs, base, by, "operation")
    if rounds.is_empty():
        return pl.DataFrame(schema=BREAKDOWN)
    keys = [*_OPERATION, "part"]
    parts = _compared(rounds, "part", [*keys, "component"], smallest_effect)
    samples = pl.when(pl.col("unit") == MICROSECONDS).then(pl.col("base_samples", "me_samples"))
    of_parts = rounds.group_by(keys).agg(pl.col("base_samples", "me_samples").sum())
    of_wholes = _compared(wholes, "difference", _OPERATION, smallest_effect).select(
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


def operation_costs(costs: pl.DataFrame, base: str, smallest_effect: float = SMALLEST_EFFECT) -> pl.DataFrame:
    """Whole operations in the same tidy frame, one row per host, step and dbms."""
    (wholes,) = _rounds(costs, base, "operation")
    if wholes.is_empty():
        return pl.DataFrame(schema=OPERATIONS)
    compared = _compared(wholes, "difference", _OPERATION, smallest_effect)
    return compared.select(pl.col(name).cast(kind) for name, kind in OPERATIONS.items())


def _compared(
    rounds: pl.DataFrame, of: Literal["part", "difference"], keys: Sequence[str], smallest_effect: float
) -> pl.DataFrame:
    settings = rounds.with_columns(metric="unit", smallest_effect=pl.lit(smallest_effect))
    return compare(settings, of, [*keys, "metric"])


def _rounds(costs: pl.DataFrame, base: str, *kinds: By) -> list[pl.DataFrame]:
    """The paired rounds of all parts, a frame for each kind of part."""
    frames: list[list[pl.DataFrame]] = [[pl.DataFrame()] for _ in kinds]
    for host, step, dbms, pair in pairs(costs, base):
        unit = INSTRUCTIONS if pair.counted else MICROSECONDS
        names = dict(zip(_OPERATION, (host, step, base, dbms, unit), strict=True))
        identity = [pl.lit(value).alias(name) for name, value in names.items()]
        for of_kind, by in zip(frames, kinds, strict=True):
            of_kind.append(pair.by_round(_grouped(pair, by), ["part", "component"]).with_columns(identity))
    return [pl.concat(of_kind, how="diagonal") for of_kind in frames]


def _grouped(pair: Pair, by: By) -> pl.DataFrame:
    """Each part with the sums of its rows; the component `other` is there even where it is empty."""
    rows, sums = pair.rows, pl.col(pair.columns).sum()
    if by == "operation":
        return rows.select(pl.lit("").alias("part"), pl.lit("").alias("component"), sums)
    if by == "component":
        nothing = pl.DataFrame({"component": [OTHER]})
        of_components = pl.concat([rows.drop("stack"), nothing], how="diagonal").group_by("component").agg(sums)
        return of_components.with_columns(pl.col("component").alias("part"))
    if by == "function":
        parts = rows.with_columns(pl.col("stack").list.last().alias("part"))
    else:
        # A function that calls itself is in its stack more than once and costs that once.
        parts = rows.with_columns(pl.col("stack").list.unique().alias("part")).explode("part")
    cost = (pair.mean(BASE) + pair.mean(ME)).sum()
    most = parts.group_by("part", "component").agg(cost.alias("cost"))
    most = most.sort("cost", "component", descending=[True, False]).unique("part", keep="first", maintain_order=True)
    return parts.group_by("part").agg(sums).join(most.select("part", "component"), on="part")
