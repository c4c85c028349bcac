"""Cost of an operation by component or function on both sides, and the differences that are more than chance."""

from typing import Literal

import polars as pl

from rqps.profile.components import OTHER
from rqps.profile.pair import BASE, ME, Pair, pairs
from rqps.stats.estimate import STUDENT
from rqps.stats.verdict import COVERAGE, FALSE_FINDINGS, decided, false_shares, needs
from rqps.study import SMALLEST_EFFECT

By = Literal["component", "function", "inclusive"]

ROUNDING = 1e-9
"""Share of two sums by which the order of adding may make them differ."""
MICROSECONDS, INSTRUCTIONS = "µs/operation", "instructions/operation"

_OPERATION = dict.fromkeys(("host", "step", "base", "dbms", "unit"), pl.String)
# Of costs, which add up, the middle of the rounds is their mean. `estimate`, `low` and `high` are of the difference.
_NUMBERS = ("base_estimate", "me_estimate", "estimate", "low", "high", "coverage")
_COMPARED = {"n": pl.Int32, **dict.fromkeys(_NUMBERS, pl.Float64), "verdict": pl.String, "needs": pl.String}
_OF_PARTS = (
    "false_share",  # of all findings as sure as this one, the share expected to be chance
    "base_samples",  # null where each instruction was counted
    "me_samples",
    "base_measured",  # of the whole operation, as are the next two
    "me_measured",
    "measured_error",
    "smallest_effect",  # the study's, as a share of the whole operation
)
BREAKDOWN = pl.Schema(
    {
        **_OPERATION,
        "part": pl.String,
        "component": pl.String,  # of a function: the one that most of its cost belongs to
        **_COMPARED,
        **dict.fromkeys(_OF_PARTS, pl.Float64),
    }
)
OPERATIONS = pl.Schema({**_OPERATION, **_COMPARED, "smallest_effect": pl.Float64})


def breakdown(
    costs: pl.DataFrame, base: str, by: By = "component", smallest_effect: float = SMALLEST_EFFECT
) -> pl.DataFrame:
    """The tidy frame of differences, one row per host, step, dbms and part of an operation.

    Components, or functions, add up to the measured cost of an operation. `inclusive` has each function with all that
    it called. Of all rows that are `slower` or `faster`, at most 5 % are expected to be chance.
    """
    parts = [
        _parts(pair, by).with_columns(host=pl.lit(host), step=pl.lit(step), base=pl.lit(base), dbms=pl.lit(dbms))
        for host, step, dbms, pair in pairs(costs, base)
    ]
    if not parts:
        return pl.DataFrame(schema=BREAKDOWN)
    rows = pl.concat(parts).with_columns(smallest_effect=pl.lit(smallest_effect))
    chances = false_shares(rows["t"].to_list(), rows["freedom"].to_list())
    found = rows.with_columns(pl.Series("false_share", chances, pl.Float64))
    judged = _judged(found, pl.col("false_share") <= FALSE_FINDINGS)
    return judged.select(pl.col(each).cast(kind) for each, kind in BREAKDOWN.items())


def operation_costs(parts: pl.DataFrame) -> pl.DataFrame:
    """The whole operations of a breakdown in the same tidy frame, one row per host, step and dbms."""
    difference, error = pl.col("me_measured") - pl.col("base_measured"), pl.col("measured_error")
    whole = parts.unique(list(_OPERATION), keep="first", maintain_order=True).with_columns(
        base_estimate=pl.col("base_measured"),
        me_estimate=pl.col("me_measured"),
        estimate=difference,
        low=difference - error,
        high=difference + error,
    )
    return _judged(whole, pl.lit(True)).select(list(OPERATIONS))


def _judged(rows: pl.DataFrame, significant: pl.Expr) -> pl.DataFrame:
    counted, near = pl.col("unit") == INSTRUCTIONS, pl.col("smallest_effect") * pl.col("base_measured")
    sure = STUDENT.sure | counted
    verdict = decided(sure=sure, null=0, near=near, more_is_better=False, significant=significant)
    needed = needs(sure=STUDENT.sure, too_few=STUDENT.too_few, null=0, near=near, most=None)
    return rows.with_columns(verdict=verdict).with_columns(needs=needed)


def _parts(pair: Pair, by: By) -> pl.DataFrame:
    error = pl.col("error")
    me, base = pl.col("me_estimate"), pl.col("base_estimate")
    difference = pl.when((me - base).abs() > ROUNDING * me).then(me - base).otherwise(0.0)
    measured = pair.rows.select(pl.col(pair.columns).sum()).select(pair.error()).item()
    # Where there is no error at all, any difference is certain, and none is chance.
    certain = pl.when(difference == 0).then(0.0).otherwise(float("inf"))
    return (
        _grouped(pair, by)
        .with_columns(pair.mean(BASE).alias("base_estimate"), pair.mean(ME).alias("me_estimate"), error=pair.error())
        .select(
            "part",
            "component",
            "base_estimate",
            "me_estimate",
            pl.lit(INSTRUCTIONS if pair.counted else MICROSECONDS).alias("unit"),
            difference.alias("estimate"),
            (difference - error).alias("low"),
            (difference + error).alias("high"),
            pl.lit(COVERAGE).alias("coverage"),
            pl.when(error > 0).then(difference / error * pair.quantile).otherwise(certain).alias("t"),
            pair.all_samples(BASE).alias("base_samples"),
            pair.all_samples(ME).alias("me_samples"),
            pl.lit(pair.measured(BASE)).alias("base_measured"),
            pl.lit(pair.measured(ME)).alias("me_measured"),
            pl.lit(measured).alias("measured_error"),
            pl.lit(pair.rounds, pl.Int32).alias("n"),
            pl.lit(pair.freedom).alias("freedom"),
        )
        .sort(pl.col("estimate").abs(), "part", descending=[True, False])
    )


def _grouped(pair: Pair, by: By) -> pl.DataFrame:
    """Each part with the sums of its rows; the component `other` is there even where it is empty."""
    rows, sums = pair.rows, pl.col(pair.columns).sum()
    if by == "component":
        nothing = pl.DataFrame({"component": [OTHER]})
        found = pl.concat([rows.drop("stack"), nothing], how="diagonal").group_by("component").agg(sums)
        return found.with_columns(pl.col("component").alias("part"))
    if by == "function":
        parts = rows.with_columns(pl.col("stack").list.last().alias("part"))
    else:
        # A function that calls itself is in its stack more than once and costs that once.
        parts = rows.with_columns(pl.col("stack").list.unique().alias("part")).explode("part")
    cost = (pair.mean(BASE) + pair.mean(ME)).sum()
    most = parts.group_by("part", "component").agg(cost.alias("cost"))
    most = most.sort("cost", "component", descending=[True, False]).unique("part", keep="first", maintain_order=True)
    return parts.group_by("part").agg(sums).join(most.select("part", "component"), on="part")
