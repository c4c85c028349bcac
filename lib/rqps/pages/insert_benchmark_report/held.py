"""Whether the rate of background inserts was held, second by second.

The published rule looks at the mean of a whole step, which a stall of many seconds need not move by 5 %.
"""

import polars as pl

from rqps.pages.insert_benchmark_report.steps import HELD, over_rounds, reads, seconds_of
from rqps.stats.metrics import usable
from rqps.store.read import Study

HELD_METRICS = ("share", "share_of_worst_client", "stall_s", "latest_insert_s")


def held(study: Study) -> pl.DataFrame:
    """One row a step, dbms and metric, over the rounds.

    `share` of its seconds in which the rate was held by all clients together, and by the worst of them;
    `stall_s`, how many seconds in a row it was not; `latest_insert_s`, by how much an insert was done too late.
    """
    steps = usable(study.steps).filter(pl.col("target_per_s").is_not_null(), reads())
    of_all = seconds_of(study.intervals, steps, ["insert"]).with_columns(pl.lit(0).alias("client"))
    of_each = seconds_of(study.clients, steps, ["insert"])
    rate = steps.select("run", "step", "target_per_s", "threads")
    together = _by_step(_marked(of_all.join(rate, on=["run", "step"]), pl.col("target_per_s")))
    alone = _by_step(_marked(of_each.join(rate, on=["run", "step"]), pl.col("target_per_s") / pl.col("threads")))
    worst = alone.group_by("run", "step").agg(pl.col("share").min().alias("share_of_worst_client"))
    wide = steps
    for more in (together.drop("client"), worst, _latest(study.latencies)):
        wide = wide.join(more, on=["run", "step"], how="left", maintain_order="left")
    return over_rounds(wide, HELD_METRICS, study.runs)


def _marked(seconds: pl.DataFrame, rate: pl.Expr) -> pl.DataFrame:
    """With `held`. What slipped over the edge of a second counts: a surplus in its neighbour makes up for it."""
    rows, of_line = pl.col("operations"), ["run", "step", "client"]
    around = [rows.shift(by).over(of_line, order_by="second").fill_null(0) - rate for by in (-1, 1)]
    return seconds.with_columns((rows + pl.max_horizontal(0, *around) >= HELD * rate).alias("held")).sort(
        *of_line, "second"
    )


def _by_step(seconds: pl.DataFrame) -> pl.DataFrame:
    """Of each step and client the share of seconds held, and how long the longest time was in which none was."""
    keys = ["run", "step", "client"]
    row = pl.col("held").rle_id().over(keys)
    stalls = (
        seconds.with_columns(row.alias("row"))
        .filter(~pl.col("held"))
        .group_by(*keys, "row")
        .len()
        .group_by(keys)
        .agg(pl.col("len").max().cast(pl.Float64).alias("stall_s"))
    )
    return (
        seconds.group_by(keys, maintain_order=True)
        .agg(pl.col("held").mean().alias("share"))
        .join(stalls, on=keys, how="left", maintain_order="left")
        .with_columns(pl.col("stall_s").fill_null(0.0))
    )


def _latest(latencies: pl.LazyFrame) -> pl.DataFrame:
    """Up to when after it was due the last insert was done: the end of the last bucket with any."""
    due = latencies.filter(pl.col("kind") == "insert due", pl.col("transactions") > 0)
    return due.group_by("run", "step").agg((pl.col("below_us").max() / 1e6).alias("latest_insert_s")).collect()
