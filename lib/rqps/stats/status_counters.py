"""Status counters of the server: their values per operation, and the false discovery rate of each change."""

from collections.abc import Sequence

import polars as pl

from rqps.engines import ENGINES, OS_WAITS, SPIN_ROUNDS, SPIN_WAITS, facts_of
from rqps.stats.metrics import usable
from rqps.stats.verdict import false_shares

CERTAIN = 0.0001
"""Changes with a smaller false discovery rate (column `chance`) count as certain and are ordered by size."""
RARE = 0.001
"""A count that grows by less than this per operation is rare: among equally certain changes, rare counts are last."""
STEADY_T = 2.0
"""Two counts per second are the same if they differ by fewer standard errors than this."""


def status_changes(
    status: pl.LazyFrame | pl.DataFrame, steps: pl.DataFrame, pairs: Sequence[tuple[str, str]]
) -> pl.DataFrame:
    """One row per host, step, pair of base and me, and counter: its `kind`; `base_value` and `me_value`, the means of
    the rounds; and `chance`, the false discovery rate if this change and all more significant ones are called real.
    The most significant come first.

    The name of a count of one object, such as a latch, ends with the object: `os_waits of log_sys`.
    A `count` is compared per operation, a `gauge` by its value at the end of the step; the engine lists its gauges.
    Counts that do not depend on operations are left out: counts that grow by the same amount in all rounds of a dbms,
    whatever the number of operations, and rare counts whose growth per second is the same on both sides.

    >>> runs = [{"host": "vm", "run": f"{dbms}{number}", "dbms": dbms, "round": number, "step": "scan"}
    ...         for dbms in ("a.x", "b.x") for number in (1, 2)]
    >>> rows = [{**run, "name": "reads", "object": None, "moment": moment, "value": value}
    ...         for run in runs for moment, value in (("before", "10"), ("after", "30"))]
    >>> of_step = {"operations": 10, "errors": 0, "operations_per_s": 5.0, "elapsed_s": 2.0, "warmup_s": 0.0}
    >>> done = [{**run, **of_step, "engine": ENGINES[0]} for run in runs]
    >>> status_changes(pl.DataFrame(rows), pl.DataFrame(done), [("a.x", "b.x")]).row(0)
    ('vm', 'scan', 'a.x', 'b.x', 'reads', 'count', 2, 2.0, 2.0, 1.0)
    """
    values = _values(status, steps)
    keys = ["host", "step", "round", "name", "kind"]
    names = pl.DataFrame(pairs, schema={"base": pl.String, "dbms": pl.String}, orient="row")
    of_base = values.select(*keys, base="dbms", **{f"base_{name}": name for name in _NUMBERS})
    both = values.join(names, on="dbms").join(of_base, on=["base", *keys])
    changes = both.group_by("host", "step", "base", "dbms", "name", "kind").agg(
        pl.len().alias("n"),
        pl.col("base_value").mean(),
        pl.col("value").mean().alias("me_value"),
        _standard_errors(pl.col("value") - pl.col("base_value")).alias("t"),
        _standard_errors(pl.col("per_s") - pl.col("base_per_s")).alias("t_per_s"),
        of_a_run=_is_of_a_run("") & _is_of_a_run("base_"),
    )
    most = pl.max_horizontal(pl.col("base_value").abs(), pl.col("me_value").abs())
    is_rare = (pl.col("kind") == "count") & (most < RARE)
    by_the_second = is_rare & (pl.col("t_per_s").abs() < STEADY_T)
    changes = changes.filter(pl.col("n") > 1, ~pl.col("of_a_run"), ~by_the_second)
    chances = false_shares(changes["t"].to_list(), (changes["n"] - 1).to_list())
    size = ((pl.col("me_value") - pl.col("base_value")).abs() / most).fill_nan(0)
    # The last digits of a sum depend on the arbitrary order of the rows, so values are rounded before ranking.
    rank = (pl.col("chance").clip(CERTAIN).round(9), is_rare, -size.round(9), "name")
    return (
        changes.drop("t", "t_per_s", "of_a_run")
        .with_columns(pl.Series("chance", chances, pl.Float64))
        .sort("host", "step", "base", "dbms", *rank)
    )


def latch_waits(status: pl.LazyFrame | pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step, dbms and latch with the means of the rounds per operation: spin waits, spin rounds and
    OS waits; null if the engine does not count them. Latches that no thread waited for have no row."""
    latches = (
        status.lazy()
        .filter(pl.col("name").is_in(_LATCH_COUNTS))
        .with_columns(quantity="name", latch="object", value=pl.col("value").cast(pl.Int64))
    )
    # Sums treat a missing reading as 0: before a step, an engine may not list a latch that no thread has waited for.
    growth = [(pl.col("value") * sign).filter(moment=moment).sum() for moment, sign in (("after", 1), ("before", -1))]
    done = _between_readings(steps).select("run", "step", "position", "operations")
    cell = ["host", "position", "step", "dbms"]
    grown = latches.group_by("host", "run", "step", "dbms", "latch", "quantity").agg(growth=growth[0] + growth[1])
    rounds = grown.collect().join(done, on=["run", "step"])
    number = rounds.group_by(cell).agg(n=pl.col("run").n_unique())
    per_operation = pl.col("growth") / pl.col("operations")
    sums = rounds.with_columns(per_operation).group_by(*cell, "latch", "quantity").agg(pl.col("growth").sum())
    means = sums.join(number, on=cell).with_columns(pl.col("growth") / pl.col("n"))
    wide = means.pivot("quantity", index=[*cell, "latch", "n"], values="growth")
    absent = [pl.lit(None, pl.Float64).alias(name) for name in _LATCH_COUNTS if name not in wide.columns]
    order = pl.max_horizontal(_LATCH_COUNTS)
    wide = wide.with_columns(absent).filter(order > 0).with_columns(order=order)
    wide = wide.sort(*cell, "order", "latch", descending=[False] * 4 + [True, False])
    return wide.select("host", "step", "dbms", "latch", *_LATCH_COUNTS, "n")


_LATCH_COUNTS = (SPIN_WAITS, SPIN_ROUNDS, OS_WAITS)
_NUMBERS = ("value", "growth", "operations", "per_s")


def _values(status: pl.LazyFrame | pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per dbms, step, round and counter, without the counters that the engine lists as constants: the
    `value` that is compared and, for a count, its `growth` in the step."""
    done = _between_readings(steps).select("run", "step", "engine", "operations", "elapsed_s")
    value = pl.col("value").cast(pl.Float64, strict=False)
    moments = (value.filter(pl.col("moment") == moment).first().alias(moment) for moment in ("before", "after"))
    kind = pl.coalesce(map(_kind_in, ENGINES))
    label = pl.coalesce(pl.format("{} of {}", "name", "object"), "name")
    is_count = pl.col("kind") == "count"
    growth = pl.when(is_count).then(pl.col("after") - pl.col("before"))
    return (
        status.lazy()
        .group_by("run", "dbms", "host", "step", "round", "name", label=label)
        .agg(*moments)
        .join(done.lazy(), on=["run", "step"])
        .with_columns(kind=kind)
        .filter(pl.col("kind") != "constant")
        .with_columns(growth=growth)
        .with_columns(
            value=pl.when(is_count).then(pl.col("growth") / pl.col("operations")).otherwise("after"),
            per_s=pl.col("growth") / pl.col("elapsed_s"),
        )
        .filter(pl.col("value").is_finite())
        .select("dbms", "host", "step", "round", "kind", *_NUMBERS, name="label")
        .collect()
    )


def _between_readings(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that ran without errors (`usable`), with `operations` and `elapsed_s` scaled up to cover the
    warm-up, since the counters are first read before it. The load generator does not record the operations of the
    warm-up, so the warm-up is assumed to have the rate of the step."""
    warmed = pl.col("warmup_s").fill_null(0) / pl.col("elapsed_s") + 1
    return usable(steps).with_columns(pl.col("operations", "elapsed_s") * warmed)


def _kind_in(engine: str) -> pl.Expr:
    """The kind of a counter of this engine: count, gauge or constant; null for a row of another engine."""
    counters = facts_of(engine).counters
    name = pl.col("name")
    constant, gauge = (name.str.contains(f"^({pattern})$") for pattern in (counters.constants, counters.gauges))
    kind = pl.when(constant).then(pl.lit("constant")).when(gauge).then(pl.lit("gauge")).otherwise(pl.lit("count"))
    return pl.when(engine=engine).then(kind)


def _standard_errors(change: pl.Expr) -> pl.Expr:
    """The mean change of the rounds, in standard errors."""
    error = change.std() / pl.len().sqrt()
    certain = pl.when(change.mean() == 0).then(0.0).otherwise(float("inf"))
    return pl.when(error > 0).then(change.mean() / error).otherwise(certain)


def _is_of_a_run(side: str) -> pl.Expr:
    """True for a count of one side (the base or me) that grew by the same amount in all rounds, although the rounds
    had different numbers of operations."""
    grows_alike = (pl.col(f"{side}growth").n_unique() == 1) & pl.col(f"{side}growth").is_not_null().all()
    return grows_alike & (pl.col(f"{side}operations").n_unique() > 1)
