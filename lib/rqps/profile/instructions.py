"""The functions that execute most instructions.

Counted instructions are the work of the server's own code for a statement. CPU time also depends on the cost of an
instruction (cache misses, waits for memory), and includes the kernel's work, the server's work around a statement,
and its background threads.
"""

import polars as pl

from rqps.profile.costs import instruction_costs
from rqps.profile.names import readable
from rqps.stats import metrics
from rqps.stats.metrics import usable

COUNTED = metrics.COUNTED.name


def most_expensive_functions(
    instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame, most: int = 10
) -> pl.DataFrame:
    """The functions of each run and step that execute most instructions themselves: instructions and calls per
    operation, and the share of all instructions."""
    named = instructions.lazy().select(
        "step", "run", "calls", "instructions", pl.col("frames").list.last().alias("symbol")
    )
    rows = named.collect().join(usable(steps).select("run", "step", "position", "operations"), on=["run", "step"])
    spelt = {symbol: readable(symbol) for symbol in set(rows["symbol"])}
    operations = pl.col("operations").first()
    return (
        rows.with_columns(pl.col("symbol").replace_strict(spelt, return_dtype=pl.String).alias("function"))
        .group_by("run", "position", "step", "function")
        .agg(
            (pl.col("instructions").sum() / operations).alias(COUNTED),
            (pl.col("calls").sum() / operations).alias("calls_per_operation"),
        )
        .with_columns((pl.col(COUNTED) / pl.col(COUNTED).sum().over("run", "step")).alias("share"))
        .sort("run", "position", COUNTED, "function", descending=[False, False, True, False])
        .group_by("run", "step", maintain_order=True)
        .head(most)
        .select("run", "step", "function", COUNTED, "share", "calls_per_operation")
    )


def function_changes(
    instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame, before: str, after: str
) -> pl.DataFrame:
    """Each function's own instructions per operation in two dbms, the largest change first.

    One row per step and function: the instructions `before`, `after`, and their `change`. All functions of a step add
    up to the whole step.
    """
    names = {before: "before", after: "after"}
    of_pair = steps.filter(pl.col("dbms").is_in(list(names)))
    rows = instructions.lazy().filter(pl.col("run").is_in(of_pair["run"].implode()))
    rounds = pl.col("round").n_unique().over("step", "dbms")
    costs = instruction_costs(rows.collect().filter(pl.col("step").is_in(of_pair["step"].implode())), of_pair)
    own = costs.with_columns(
        pl.col("dbms").replace(names), function=pl.col("stack").list.last(), cost=pl.col("cost") / rounds
    )
    both = own.group_by("step", "function").agg(
        *(pl.col("cost").filter(dbms=name).sum().alias(name) for name in names.values())
    )
    changed = both.with_columns(change=pl.col("after") - pl.col("before"))
    return changed.sort("step", pl.col("change").abs(), "function", descending=[False, True, False])
