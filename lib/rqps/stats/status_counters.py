"""Status counters of the server: what an operation adds to each, and how unlikely it is that a change is chance."""

from collections.abc import Sequence

import polars as pl

from rqps.stats.metrics import usable
from rqps.stats.verdict import false_shares

CERTAIN = 0.0001
"""Less chance than that is none: such changes are ordered by their size."""
RARE = 0.001
"""An operation that touches a counter less often hardly touches it: of changes that are certain, these come last."""


def status_changes(
    status: pl.LazyFrame | pl.DataFrame, steps: pl.DataFrame, pairs: Sequence[tuple[str, str]]
) -> pl.DataFrame:
    """One row per host, step, pair of base and me, and counter: `base_value` and `me_value` per operation, the means
    of the rounds, and `chance`, the share of chance among changes as sure as this one. The most unlikely come first.

    >>> runs = [{"host": "vm", "run": f"{dbms}{number}", "dbms": dbms, "round": number, "step": "scan"}
    ...         for dbms in ("a.x", "b.x") for number in (1, 2)]
    >>> rows = [{**run, "name": "reads", "moment": moment, "value": value}
    ...         for run in runs for moment, value in (("before", "10"), ("after", "30"))]
    >>> of_step = {"operations": 10, "errors": 0, "operations_per_s": 5.0, "elapsed_s": 2.0, "warmup_s": 0.0}
    >>> done = [{**run, **of_step} for run in runs]
    >>> status_changes(pl.DataFrame(rows), pl.DataFrame(done), [("a.x", "b.x")]).row(0)
    ('vm', 'scan', 'a.x', 'b.x', 'reads', 2, 2.0, 2.0, 1.0)
    """
    keys = ["host", "step", "round", "name"]
    # Counters are read around the warm-up, too, whose operations nobody counted.
    done = pl.col("operations") * (pl.col("warmup_s").fill_null(0) / pl.col("elapsed_s") + 1)
    value = pl.col("value").cast(pl.Float64, strict=False)
    moments = (value.filter(pl.col("moment") == moment).first().alias(moment) for moment in ("before", "after"))
    grown = (
        status.lazy()
        .group_by("run", "dbms", *keys)
        .agg(*moments)
        .join(usable(steps).lazy().select("run", "step", operations=done), on=["run", "step"])
        .select("dbms", *keys, value=(pl.col("after") - pl.col("before")) / pl.col("operations"))
        .filter(pl.col("value").is_finite())
        .collect()
    )
    names = pl.DataFrame(pairs, schema={"base": pl.String, "dbms": pl.String}, orient="row")
    of_base = grown.rename({"dbms": "base", "value": "base_value"})
    both = grown.join(names, on="dbms").join(of_base, on=["base", *keys])
    change = pl.col("value") - pl.col("base_value")
    error = change.std() / pl.len().sqrt()
    certain = pl.when(change.mean() == 0).then(0.0).otherwise(float("inf"))
    changes = both.group_by("host", "step", "base", "dbms", "name").agg(
        pl.len().alias("n"),
        pl.col("base_value").mean(),
        pl.col("value").mean().alias("me_value"),
        pl.when(error > 0).then(change.mean() / error).otherwise(certain).alias("t"),
    )
    changes = changes.filter(pl.col("n") > 1)
    chances = false_shares(changes["t"].to_list(), (changes["n"] - 1).to_list())
    most = pl.max_horizontal(pl.col("base_value").abs(), pl.col("me_value").abs())
    size = ((pl.col("me_value") - pl.col("base_value")).abs() / most).fill_nan(0)
    # The last digits of a sum depend on the order of the rows, and that on nothing: they decide no place.
    rank = (pl.col("chance").clip(CERTAIN).round(9), most < RARE, -size.round(9), "name")
    return (
        changes.drop("t")
        .with_columns(pl.Series("chance", chances, pl.Float64))
        .sort("host", "step", "base", "dbms", *rank)
    )
