"""What an operation costs by component or function on both sides, and which differences are more than chance."""

from typing import Literal

import polars as pl

from rqps.profile.components import OTHER
from rqps.profile.pair import BASE, ME, Pair, pairs
from rqps.stats.chance import FALSE_FINDINGS, adjusted, t_of, two_sided_p
from rqps.stats.interval import ROUNDS_FOR_A_VERDICT, SAME_WITHIN

By = Literal["component", "function", "inclusive"]

MICROSECONDS, INSTRUCTIONS = "µs/operation", "instructions/operation"

_OPERATION = ("host", "step", "base", "dbms", "unit")

BREAKDOWN = pl.Schema(
    {
        "host": pl.String,
        "step": pl.String,
        "base": pl.String,
        "dbms": pl.String,
        "part": pl.String,
        "component": pl.String,  # of a function: the one that most of its cost belongs to
        "unit": pl.String,
        "base_cost": pl.Float64,  # per operation, the mean of the rounds
        "me_cost": pl.Float64,
        "difference": pl.Float64,
        "error": pl.Float64,  # half the width of the 95 % interval of the difference
        "share": pl.Float64,  # of the whole operation's difference
        "base_measured": pl.Float64,  # of the whole operation
        "me_measured": pl.Float64,
        "measured_error": pl.Float64,
        "base_samples": pl.Float64,  # null where each instruction was counted
        "me_samples": pl.Float64,
        "n": pl.Int32,  # rounds
        "false_share": pl.Float64,  # of all findings as sure as this one, how many are expected to be chance
        "verdict": pl.String,
        "needs": pl.String,
    }
)


def breakdown(costs: pl.DataFrame, base: str, by: By = "component") -> pl.DataFrame:
    """One row per host, step, dbms and part: its cost on both sides, the difference with its error, and a verdict.

    By component or function, the parts of an operation add up to what it measured, and their differences to the
    measured difference. `inclusive` has each function with all that it called; those don't add up.

    A part is `slower` or `faster` where its interval leaves out 0 and, of all such rows of this table, at most 5 %
    are expected to be chance (Benjamini and Hochberg); `same` where the whole interval is within 2 % of the base's
    operation; else `unsure`, as is every difference of samples of fewer than 4 rounds.
    """
    parts = [
        _parts(pair, by).select(
            pl.lit(host).alias("host"),
            pl.lit(step).alias("step"),
            pl.lit(base).alias("base"),
            pl.lit(dbms).alias("dbms"),
            pl.all(),
        )
        for host, step, dbms, pair in pairs(costs, base)
    ]
    if not parts:
        return pl.DataFrame(schema=BREAKDOWN)
    return _judged(pl.concat(parts)).select(pl.col(each).cast(kind) for each, kind in BREAKDOWN.items())


def operation_costs(parts: pl.DataFrame) -> pl.DataFrame:
    """The whole operations of a breakdown, one row per host, step and dbms: their costs, difference and verdict.

    The verdict follows the breakdown's rule for a part, for the one comparison that it is about.
    """
    difference, error, n = pl.col("difference"), pl.col("error"), pl.col("n")
    too_few = pl.col("unit").eq(MICROSECONDS) & (n < ROUNDS_FOR_A_VERDICT)
    verdict = (
        pl.when(too_few)
        .then(pl.lit("unsure"))
        .when(difference.abs() > error)
        .then(pl.when(difference > 0).then(pl.lit("slower")).otherwise(pl.lit("faster")))
        .when(difference.abs() + error <= SAME_WITHIN * pl.col("base_cost"))
        .then(pl.lit("same"))
        .otherwise(pl.lit("unsure"))
    )
    return (
        parts.select(
            *_OPERATION,
            pl.col("base_measured").alias("base_cost"),
            pl.col("me_measured").alias("me_cost"),
            (pl.col("me_measured") - pl.col("base_measured")).alias("difference"),
            pl.col("measured_error").alias("error"),
            "n",
        )
        .unique(_OPERATION, keep="first", maintain_order=True)
        .with_columns(verdict.alias("verdict"))
    )


def _parts(pair: Pair, by: By) -> pl.DataFrame:
    grouped = _grouped(pair, by)
    whole = pair.rows.select(pl.col(pair.columns).sum()).select(pair.error()).item()
    measured = {side: pair.measured(side) for side in (BASE, ME)}
    difference = measured[ME] - measured[BASE]
    return grouped.select(
        "part",
        "component",
        pl.lit(INSTRUCTIONS if pair.counted else MICROSECONDS).alias("unit"),
        pair.mean(BASE).alias("base_cost"),
        pair.mean(ME).alias("me_cost"),
        (pair.mean(ME) - pair.mean(BASE)).alias("difference"),
        pair.error().alias("error"),
        ((pair.mean(ME) - pair.mean(BASE)) / (difference or None)).alias("share"),
        pl.lit(measured[BASE]).alias("base_measured"),
        pl.lit(measured[ME]).alias("me_measured"),
        pl.lit(whole).alias("measured_error"),
        pair.all_samples(BASE).alias("base_samples"),
        pair.all_samples(ME).alias("me_samples"),
        pl.lit(pair.rounds, pl.Int32).alias("n"),
        pl.lit(pair.freedom).alias("freedom"),
    ).sort(pl.col("difference").abs(), "part", descending=[True, False])


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
    component = most.select("part", "component")
    return parts.group_by("part").agg(sums).join(component, on="part")


def _judged(parts: pl.DataFrame) -> pl.DataFrame:
    chances = [
        two_sided_p(difference / error * t_of(freedom), freedom) if error else float(difference == 0)
        for difference, error, freedom in parts.select("difference", "error", "freedom").iter_rows()
    ]
    difference, error = pl.col("difference"), pl.col("error")
    near = SAME_WITHIN * pl.col("base_measured")
    is_found = (pl.col("false_share") <= FALSE_FINDINGS) & (difference.abs() > error)
    verdict = (
        pl.when(pl.col("unit").eq(MICROSECONDS) & (pl.col("n") < ROUNDS_FOR_A_VERDICT))
        .then(pl.lit("unsure"))
        .when(is_found)
        .then(pl.when(difference > 0).then(pl.lit("slower")).otherwise(pl.lit("faster")))
        .when(difference.abs() + error <= near)
        .then(pl.lit("same"))
        .otherwise(pl.lit("unsure"))
    )
    # An interval narrows with the square root of the rounds.
    enough = pl.max_horizontal(difference.abs(), near - difference.abs())
    rounds = (pl.col("n") * (error / enough) ** 2).ceil().clip(lower_bound=pl.col("n") + 1)
    needs = (
        pl.when(pl.col("verdict") != "unsure")
        .then(pl.lit(""))
        .when(pl.col("n") < ROUNDS_FOR_A_VERDICT)
        .then(pl.format("{} rounds: there are {}", pl.lit(ROUNDS_FOR_A_VERDICT), "n"))
        .otherwise(pl.format("about {} rounds at this spread", rounds.cast(pl.Int64)))
    )
    return (
        parts.with_columns(pl.Series("false_share", adjusted(chances), pl.Float64))
        .with_columns(verdict.alias("verdict"))
        .with_columns(needs.alias("needs"))
    )
