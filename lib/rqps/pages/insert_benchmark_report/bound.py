"""Whether a step was bound by the disk: what it had to read for an operation, counted and not assumed."""

import polars as pl

from rqps.pages.insert_benchmark_report.debt import MB
from rqps.pages.insert_benchmark_report.steps import over_rounds, with_insert_rate
from rqps.store.read import Study

BOUND = ("misses", "device_reads", "read_kb", "tables_mb", "pool_mb")
FEW, MANY = 0.01, 0.1
"""Pages that an operation did not find in memory."""
POOL_READS = "innodb_buffer_pool_reads"


def bound(study: Study) -> pl.DataFrame:
    """One row a step, dbms and metric, over the rounds.

    For an operation (a row in l.*, a query in q*): `misses`, pages that were not in the server's buffer pool;
    `device_reads` and `read_kb` of the device. `tables_mb` are on disk when the step ends, `pool_mb` fit in memory.
    """
    steps = with_insert_rate(study.steps, study.intervals)
    sizes = study.engine.filter(moment="after").select(
        "run", "step", tables_mb=pl.col("tables_kb") / MB, pool_mb=pl.col("buffer_pool_kb") / MB
    )
    wide = steps.join(_misses(study.status), on=["run", "step"], how="left", maintain_order="left").join(
        sizes.unique(["run", "step"], keep="last").collect(), on=["run", "step"], how="left", maintain_order="left"
    )
    of_all = pl.col("operations")
    wide = wide.with_columns(
        pl.col("misses") / of_all,
        (pl.col("host_reads") / of_all).alias("device_reads"),
        (pl.col("host_read_kb") / of_all).alias("read_kb"),
    )
    return over_rounds(wide, BOUND, study.runs)


def where_pages_come_from(found: pl.DataFrame) -> pl.DataFrame:
    """One row a step and dbms with `reads_from` in words: memory, the disk, or the page cache of the system."""
    keys = ["host", "position", "step", "dbms"]
    wide = found.pivot("metric", index=keys, values="median", maintain_order=True)
    wide = wide.with_columns(pl.lit(None, pl.Float64).alias(name) for name in BOUND if name not in wide.columns)
    misses, device = pl.coalesce("misses", "device_reads"), pl.col("device_reads").fill_null(0)
    words = (
        pl.when(misses < FEW)
        .then(pl.lit("memory"))
        .when(misses < MANY)
        .then(pl.lit("mostly memory"))
        .when(device >= misses / 2)
        .then(pl.lit("the disk"))
        .otherwise(pl.lit("the system's page cache"))
    )
    return wide.with_columns(words.alias("reads_from"))


def _misses(status: pl.LazyFrame) -> pl.DataFrame:
    """By how much the server's own count of pages that it had to fetch grew in each step."""
    counted = status.filter(name=POOL_READS).with_columns(pl.col("value").cast(pl.Float64, strict=False))
    at = {moment: pl.col("value").filter(moment=moment).first() for moment in ("before", "after")}
    return counted.group_by("run", "step").agg((at["after"] - at["before"]).alias("misses")).collect()
