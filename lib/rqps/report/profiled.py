"""Of which numbers there is a profile: both sides were looked into in the same round."""

import polars as pl

_CELL = ("host", "step", "dbms")
FIRST = "stacks"
"""A page shows what these tell before anything else."""


def profiled(runs: pl.DataFrame, steps: pl.DataFrame, base: str) -> pl.DataFrame:
    """One row a host, step and dbms; `by` is the mode that tells of it, empty where stacks do.

    `runs` and `steps` are those of all modes, `rqps.load(study, mode=None)`.
    """
    looked_into = runs.filter(pl.col("mode") != "throughput").select("run", "mode")
    cells = steps.join(looked_into, on="run").select("mode", "round", *_CELL).unique()
    of_base = cells.filter(dbms=base).drop("dbms")
    both = cells.filter(pl.col("dbms") != base).join(of_base, on=["mode", "round", "host", "step"], how="semi")
    by = pl.when((pl.col("mode") == FIRST).any()).then(pl.lit("")).otherwise(pl.col("mode").first())
    return both.group_by(_CELL).agg(by.alias("by")).sort(_CELL)
