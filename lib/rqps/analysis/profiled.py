"""Which numbers lead on to a profile: those of which both sides were looked into in the same round."""

import polars as pl

_CELL = ["host", "step", "dbms"]


def with_profiles(summary: pl.DataFrame, runs: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The summary with `profile`: whether a page of call stacks or of instructions tells of that step and dbms.

    `runs` and `steps` are those of all modes: `rqps.load(study, mode=None)`.
    """
    looked_into = runs.filter(pl.col("mode") != "throughput").select("run", "mode")
    cells = steps.join(looked_into, on="run").select("mode", "round", *_CELL).unique()
    of_base = cells.rename({"dbms": "base"})
    both = cells.join(of_base, on=["mode", "round", "host", "step"]).filter(pl.col("dbms") != pl.col("base"))
    found = both.select(*_CELL, "base").unique().with_columns(pl.lit(True).alias("profile"))
    joined = summary.join(found, on=[*_CELL, "base"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("profile").fill_null(False))
