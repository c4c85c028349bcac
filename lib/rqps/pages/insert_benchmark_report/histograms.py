"""Response times from full histograms: in the published buckets, and as percentiles with and without the limiter."""

from math import inf

import polars as pl

from rqps.stats.metrics import usable
from rqps.stats.summary import estimates
from rqps.store.read import Study

KINDS = ("insert", "delete", "query")
BUCKETS: dict[str, float] = {
    "256us": 256.0,
    "1ms": 1e3,
    "4ms": 4e3,
    "16ms": 16e3,
    "64ms": 64e3,
    "256ms": 256e3,
    "1s": 1e6,
    "4s": 4e6,
    "16s": 16e6,
    "gt": inf,
}
"""Of the published tables: by name up to how many µs, the last with all that is longer."""
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

_KEYS = ["host", "step", "position", "kind", "dbms"]


def response_times(study: Study) -> pl.DataFrame:
    """One row a step, kind, dbms and published bucket: the percent of its statements, median of the rounds with its
    interval; and `max`, the longest in seconds. A bucket of ours lies where its middle does."""
    counted = _counted(study)
    middles = (counted["from_us"] + counted["below_us"]) / 2
    counted = counted.with_columns(buckets_of(middles))
    keys = [*_KEYS, "run"]
    of_bucket = counted.group_by(*keys, "bucket").agg(pl.col("transactions").sum())
    every = (
        counted.select(keys).unique(maintain_order=True).join(pl.DataFrame({"bucket": list(BUCKETS)}), how="cross")
    )
    shares = every.join(of_bucket, on=[*keys, "bucket"], how="left", maintain_order="left").with_columns(
        pl.col("transactions").fill_null(0)
    )
    percent = (100 * pl.col("transactions") / pl.col("transactions").sum().over(keys)).alias("value")
    longest = _longest(study).with_columns(pl.lit("max").alias("bucket"))
    both = pl.concat(
        [shares.select(*keys, "bucket", percent), longest.select(*keys, "bucket", value=pl.col("max_us") / 1e6)],
        how="vertical_relaxed",
    )
    return _in_order(estimates(both, [*_KEYS, "bucket"], "value"), study.card.base)


def buckets_of(times_us: pl.Series) -> pl.Series:
    """
    >>> buckets_of(pl.Series([12.0, 256.0, 257.0, 16e6, 2e7])).to_list()
    ['256us', '256us', '1ms', '16s', 'gt']
    """
    places = pl.Series(list(BUCKETS.values())[:-1]).search_sorted(times_us, side="left")
    return pl.Series("bucket", list(BUCKETS), dtype=pl.String).gather(places)


def percentiles(study: Study) -> pl.DataFrame:
    """One row a step, kind, dbms and percentile, in µs, over the rounds. The kinds `insert due` and `delete due`
    count from when the limiter wanted the statement, and so with all the time that it waited for its turn."""
    keys = [*_KEYS, "run"]
    counted = _counted(study).join(
        _longest(study).select(*keys, "max_us"), on=keys, how="left", maintain_order="left"
    )
    counted = counted.with_columns(pl.min_horizontal("below_us", "max_us").alias("below_us")).sort(*keys, "from_us")
    below = pl.col("transactions").cum_sum().over(keys)
    counted = counted.with_columns(below.alias("below"), pl.col("transactions").sum().over(keys).alias("all"))
    found = []
    for name, share in PERCENTILES.items():
        rank = share * pl.col("all")
        first = counted.filter(pl.col("below") >= rank).group_by(keys, maintain_order=True).first()
        width = (pl.col("below_us") - pl.col("from_us")).clip(0)
        inside = (rank - (pl.col("below") - pl.col("transactions"))) / pl.col("transactions")
        value = (pl.col("from_us") + width * inside.clip(0, 1)).alias("value")
        found.append(first.select(*keys, pl.lit(name).alias("percentile"), value))
    last = counted.group_by(keys, maintain_order=True).agg(pl.col("below_us").last().alias("value"))
    found.append(last.select(*keys, pl.lit("max").alias("percentile"), "value"))
    return _in_order(estimates(pl.concat(found), [*_KEYS, "percentile"], "value"), study.card.base)


def _counted(study: Study) -> pl.DataFrame:
    """How many statements of each kind fell into which bucket of a step."""
    places = usable(study.steps).select("host", "step", "position", "dbms", "run")
    kinds = [name for kind in KINDS for name in (kind, f"{kind} due")]
    counted = (
        study.latencies.filter(pl.col("second") >= 0, pl.col("transactions") > 0, pl.col("kind").is_in(kinds))
        .group_by("run", "step", "kind", "from_us", "below_us")
        .agg(pl.col("transactions").sum())
        .collect()
    )
    return places.join(counted, on=["run", "step"], maintain_order="left")


def _longest(study: Study) -> pl.DataFrame:
    places = usable(study.steps).select("host", "step", "position", "dbms", "run")
    longest = (
        study.intervals.filter(pl.col("second") >= 0, pl.col("kind").is_in(KINDS))
        .group_by("run", "step", "kind")
        .agg(pl.col("latency_max_us").max().alias("max_us"))
        .drop_nulls("max_us")
        .collect()
    )
    return places.join(longest, on=["run", "step"], maintain_order="left")


def _in_order(found: pl.DataFrame, base: str) -> pl.DataFrame:
    """Kinds as in the published tables, then steps as they were run, the base first."""
    kinds = [name for kind in KINDS for name in (kind, f"{kind} due")]
    return found.sort(
        "host",
        pl.col("kind").replace_strict(kinds, range(len(kinds)), default=len(kinds)),
        "position",
        pl.col("dbms") != base,
        "dbms",
        maintain_order=True,
    )
