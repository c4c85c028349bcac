"""Response times from histograms of all statements: percentiles, with and without the wait for a rate limiter, and
the percent of the statements in each bucket of the published tables."""

from math import inf

import polars as pl

from rqps.stats.comparison import absolute
from rqps.stats.metrics import usable, version_order
from rqps.store.read import Study

STATEMENTS = {"insert": "inserts", "delete": "deletes", "query": "queries"}
_IN_ORDER = [name for statement in STATEMENTS for name in (statement, f"{statement} due")]
BUCKETS = {"256us": 256.0, "1ms": 1e3, "4ms": 4e3, "16ms": 16e3, "64ms": 64e3, "256ms": 256e3}
BUCKETS |= {"1s": 1e6, "4s": 4e6, "16s": 16e6, "gt": inf}
"""Maps each bucket of the published tables to its upper bound in µs."""
LONGEST = "max"
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, LONGEST: 1.0}
KEYS = ["host", "step", "position", "statement", "rank", "dbms"]


def percentiles(study: Study) -> pl.DataFrame:
    """Percentiles of response times in µs, one row per step, statement, dbms and percentile. The times of `insert
    due` and `delete due` begin when the rate limiter scheduled the statement, so they include its wait for the
    client. A percentile beyond which no statement lies, such as the p99.9 of six statements, is left out."""
    keys = [*KEYS, "run"]
    counted = (
        _counted(study)
        .join(_longest(study), on=keys, how="left", maintain_order="left")
        .with_columns(pl.min_horizontal("below_us", "max_us").alias("below_us"))
        .sort(*keys, "from_us")
        .with_columns(below=pl.col("transactions").cum_sum().over(keys), all=pl.col("transactions").sum().over(keys))
    )
    wanted = pl.DataFrame({"percentile": list(PERCENTILES), "share": list(PERCENTILES.values())})
    rank, width = pl.col("share") * pl.col("all"), (pl.col("below_us") - pl.col("from_us")).clip(0)
    inside = (rank - (pl.col("below") - pl.col("transactions"))) / pl.col("transactions")
    values = (
        counted.join(wanted, how="cross", maintain_order="left_right")
        .filter(pl.col("below") >= rank, (pl.col("percentile") == LONGEST) | (pl.col("all") - rank >= 1))
        .group_by(*keys, "percentile", maintain_order=True)
        .first()
        .select(*keys, "percentile", value=pl.col("from_us") + width * inside.clip(0, 1))
    )
    return _in_order(absolute(values, keys=[*KEYS, "percentile"]), study.card.base)


def buckets(study: Study) -> pl.DataFrame:
    """One row per step, statement, dbms and published bucket: the percent of the statements in it; and a row `max`,
    the longest time in seconds. The buckets of the table `latencies` are narrower than the published ones: each is
    assigned to the published bucket that contains its midpoint."""
    counted = _counted(study)
    counted = counted.with_columns(buckets_of((counted["from_us"] + counted["below_us"]) / 2))
    keys = [*KEYS, "run"]
    of_bucket = counted.group_by(*keys, "bucket").agg(pl.col("transactions").sum())
    names = pl.DataFrame({"bucket": list(BUCKETS)})
    all_buckets = counted.select(keys).unique(maintain_order=True).join(names, how="cross")
    percent = 100 * pl.col("transactions") / pl.col("transactions").sum().over(keys)
    shares = all_buckets.join(
        of_bucket.with_columns(value=percent), on=[*keys, "bucket"], how="left", maintain_order="left"
    )
    shares = shares.select(*keys, "bucket", pl.col("value").fill_null(0.0))
    longest = _longest(study).select(*keys, bucket=pl.lit(LONGEST), value=pl.col("max_us") / 1e6)
    both = pl.concat([shares, longest], how="vertical_relaxed")
    return _in_order(absolute(both, keys=[*KEYS, "bucket"]), study.card.base)


def buckets_of(times_us: pl.Series) -> pl.Series:
    """The bucket of the published tables of response times into which each time falls.

    >>> buckets_of(pl.Series([12.0, 256.0, 257.0, 16e6, 2e7])).to_list()
    ['256us', '256us', '1ms', '16s', 'gt']
    """
    places = pl.Series(list(BUCKETS.values())[:-1]).search_sorted(times_us, side="left")
    return pl.Series("bucket", list(BUCKETS), dtype=pl.String).gather(places)


def _counted(study: Study) -> pl.DataFrame:
    rows = study.latencies.filter(pl.col("transactions") > 0)
    return _by_statement(study, rows, pl.col("transactions").sum(), "from_us", "below_us")


def _longest(study: Study) -> pl.DataFrame:
    return _by_statement(study, study.intervals, pl.col("latency_max_us").max().alias("max_us")).drop_nulls()


def _by_statement(study: Study, rows: pl.LazyFrame, value: pl.Expr, *more: str) -> pl.DataFrame:
    timed = rows.filter(pl.col("second") >= 0, pl.col("kind").is_in(_IN_ORDER))
    values = timed.group_by("run", "step", pl.col("kind").alias("statement"), *more).agg(value).collect()
    steps = usable(study.steps).join(version_order(study.runs), on="dbms", maintain_order="left")
    places = steps.select("host", "step", "position", "rank", "dbms", "run")
    return places.join(values, on=["run", "step"], maintain_order="left")


def _in_order(rows: pl.DataFrame, base: str) -> pl.DataFrame:
    """Sorts rows: by statement, in the order of the published tables; then by step, in the order in which the steps
    were run; then by dbms, the base first."""
    place = pl.col("statement").replace_strict(_IN_ORDER, range(len(_IN_ORDER)))
    return rows.sort("host", place, "position", pl.col("dbms") != base, "rank", maintain_order=True)
