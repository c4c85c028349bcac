"""What an operation costs, by call stack: the parts of a step add up to what was measured."""

from typing import Any

import polars as pl

from rqps.pages.flamegraph_breakdown.stack_tables import OTHER
from rqps.profile.frames import stacks_of
from rqps.profile.mending import mended
from rqps.stats.metrics import usable

_COLUMNS: dict[str, Any] = {  # of polars types; their own class is not public
    "host": pl.String,
    "dbms": pl.String,
    "round": pl.Int32,
    "step": pl.String,
    "stack": pl.List(pl.String),  # readable names, root first
    "component": pl.String,
    "samples": pl.Float64,  # null where each instruction was counted
    "cost": pl.Float64,  # µs of server CPU, or instructions, per operation
}
COSTS = pl.Schema(_COLUMNS)
NOT_SAMPLED = "[not sampled]"
"""The one stack of a step that was over before any sample was taken."""

_KEYS = ("host", "dbms", "round", "step")


def stack_costs(stacks: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """µs of server CPU per operation by stack: its share of the samples' weight, times what the step measured.

    `steps` are those of the same runs. A step with errors or without operations gives no cost.
    """
    rows = mended(stacks.lazy().collect())
    weighed = rows.join(_measured(steps, pl.col("server_cpu_s") * 1e6), on=["run", *_KEYS], maintain_order="left")
    weight = pl.when(pl.col("weight").sum().over("run", "step") > 0).then("weight").otherwise("samples")
    share = weight / weight.sum().over("run", "step")
    costs = weighed.with_columns(cost=share * pl.col("per_operation"), samples=pl.col("samples").cast(pl.Float64))
    return pl.concat([_by_stack(costs), _not_sampled(steps, costs)]).sort(*_KEYS, "cost", descending=_DEAREST_FIRST)


def instruction_costs(instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Instructions per operation by stack, as they were counted one by one; `steps` are those of the same runs."""
    rows = instructions.lazy().filter(pl.col("instructions") > 0).collect()
    counted = rows.join(_measured(steps, pl.lit(1.0)), on=["run", *_KEYS], maintain_order="left")
    costs = counted.with_columns(
        cost=pl.col("instructions") * pl.col("per_operation"), samples=pl.lit(None, pl.Float64)
    )
    return _by_stack(costs).sort(*_KEYS, "cost", descending=_DEAREST_FIRST)


_DEAREST_FIRST = [False] * len(_KEYS) + [True]


def _measured(steps: pl.DataFrame, total: pl.Expr) -> pl.DataFrame:
    return usable(steps).select("run", *_KEYS, (total / pl.col("operations")).alias("per_operation"))


def _by_stack(rows: pl.DataFrame) -> pl.DataFrame:
    readable = pl.concat([rows.select(*_KEYS, "samples", "cost"), stacks_of(rows)], how="horizontal")
    samples = pl.when(pl.col("samples").is_not_null().all()).then(pl.col("samples").sum())
    return (
        readable.group_by(*_KEYS, "stack", "component")
        .agg(samples, pl.col("cost").sum())
        .select(pl.col(name).cast(kind) for name, kind in COSTS.items())
    )


def _not_sampled(steps: pl.DataFrame, costs: pl.DataFrame) -> pl.DataFrame:
    missing = _measured(steps, pl.col("server_cpu_s") * 1e6).join(costs, on=["run", "step"], how="anti")
    stack = pl.lit([NOT_SAMPLED], pl.List(pl.String))
    return missing.with_columns(
        stack=stack, component=pl.lit(OTHER), samples=pl.lit(0.0), cost=pl.col("per_operation")
    ).select(pl.col(name).cast(kind) for name, kind in COSTS.items())
