"""Time series, aggregated to so few points that they can be drawn."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from rqps.stats.pairing import SHARES_SECONDS
from rqps.store.run_tables import beside

MOST_POINTS_A_LINE, MOST_POINTS = 120, 4500
CLOCKS_DIFFER_S = 0.05
_BESIDE = pl.when(kind="insert").then(1).when(kind="delete").then(2).otherwise(0).cast(pl.Int8)
"""Rank of a kind of operation: the kind with the lowest rank is the main kind of a step. (`replace_strict` would need
a gigabyte more memory.)"""
_BUSY_US = pl.col("latency_mean_us") * pl.col("transactions")


def throughput_over_time(intervals: pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Operations/s over the time of a step, in pieces of one or more seconds: the median of the rounds, and the
    lowest and highest round.

    The last second is left out if the step ended within it. If a step has several kinds of operations, queries are
    counted, or inserted rows if there are no queries. If servers take turns within a second, a server's operations
    are divided by the time that its transactions took, per client.
    """
    line, of_run = ["host", "position", "step", "dbms"], ["run", "step"]
    whole_s = (pl.col("elapsed_s") + CLOCKS_DIFFER_S).floor().cast(pl.Int32).alias("whole_s")
    points = min(MOST_POINTS_A_LINE, max(1, MOST_POINTS // max(1, steps.select(line).n_unique())))
    piece_s = ((pl.col("whole_s").max() - 1) // points + 1).clip(1).over(line).alias("piece_s")
    known = steps.select(*line, "run", "clients", whole_s, shared=SHARES_SECONDS).with_columns(piece_s)
    known = known.with_row_index("of")
    of_rows = known.select(*of_run, "of", "whole_s", "piece_s", "shared")
    begin = (pl.col("second") // pl.col("piece_s") * pl.col("piece_s")).alias("second")
    sums = pl.col("operations", "busy_us").sum()
    keys: dict[str, Any] = {"of": pl.UInt32, "beside": pl.Int8, "second": pl.Int32}

    def pieces_of(rows: pl.DataFrame) -> pl.DataFrame:
        rows_of_runs = beside(rows, of_rows, *of_run).lazy()
        full_seconds = rows_of_runs.filter(
            pl.col("second") >= 0, (pl.col("second") < pl.col("whole_s")) | pl.col("shared")
        )
        return full_seconds.group_by("of", "beside", begin).agg(sums).collect()

    # Rows are processed in batches, as they are read: all rows of a long study do not fit into memory.
    pieces = (
        intervals.filter(pl.col("step").is_in(steps["step"].unique().implode()))
        .select(
            *of_run,
            "second",
            "operations",
            busy_us=_BUSY_US if known["shared"].any() else pl.lit(0.0),
            beside=_BESIDE,
        )
        .map_batches(
            pieces_of,
            schema=pl.Schema(keys | {"operations": pl.Int64, "busy_us": pl.Float64}),
            streamable=True,
            predicate_pushdown=False,
            projection_pushdown=False,
        )
        .group_by(*keys)
        .agg(sums)
        .collect(engine="streaming")
        .join(known, on="of")
    )
    seconds = pl.min_horizontal("piece_s", pl.col("whole_s") - pl.col("second"))
    busy_s = pl.col("busy_us") / 1e6 / pl.col("clients")
    rates = pieces.filter(pl.col("beside") == pl.col("beside").min().over("step")).with_columns(
        pl.col("operations") / pl.when("shared").then(busy_s).otherwise(seconds)
    )
    every = rates.filter(pl.col("operations").is_finite()).group_by(*line, "second").agg(_spread("operations"))
    return every.sort(*line, "second")


def seconds_of(rows: pl.LazyFrame, steps: pl.DataFrame, kinds: Iterable[str]) -> pl.DataFrame:
    """Operations in every whole second of a step, by kind and, if the rows have it, by client.

    A second without operations has no row in the raw tables; here it has a row with 0, so that a stall is visible.
    """
    who = ["kind", "client"] if "client" in rows.collect_schema() else ["kind"]
    done = (
        rows.filter(pl.col("kind").is_in(list(kinds)), pl.col("second") >= 0)
        .group_by("run", "step", *who, "second")
        .agg(pl.col("operations").sum())
        .collect()
    )
    numbers = pl.int_ranges(0, pl.col("elapsed_s").floor().cast(pl.Int32), dtype=pl.Int32).alias("second")
    every = steps.select("host", "dbms", "position", "round", "unit", "run", "step", numbers)
    with_rows = done.select("run", "step", *who).unique(maintain_order=True)
    return (
        every.explode("second")
        .drop_nulls("second")
        .join(with_rows, on=["run", "step"], maintain_order="left_right")
        .join(done, on=["run", "step", *who, "second"], how="left", maintain_order="left")
        .with_columns(pl.col("operations").fill_null(0))
    )


def counters_over_time(counters: pl.LazyFrame, steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Counters of host, dbms and client over one run: `second` of the run, `measure`, `who`, `value` in its unit.

    In a duet each dbms has lines of its own; the lines of host and client cover all dbms and appear once.
    """
    begin = steps.select("run", "step", since=pl.col("started_at") - pl.col("started_at").min().over("run"))
    at = pl.col("second") + pl.col("since").dt.total_milliseconds() / 1000
    rates = counters.join(begin.lazy(), on=["run", "step"]).select(
        "run", "step", at.alias("second"), *(rate.alias(str(line)) for line, rate in enumerate(_RATES.values()))
    )
    index = ["run", "step", "second"]
    long = rates.unpivot(index=index, variable_name="line", value_name="value").drop_nulls("value").collect()
    lines = pl.DataFrame(list(_RATES), schema=["measure", "who"], orient="row").with_row_index("line")
    who = pl.col("who")
    own = (who == "dbms") & (pl.col("run").n_unique() > 1)
    whose = pl.when(own).then(pl.format("{} {}", who, "side")).otherwise(who)
    return (
        long.with_columns(pl.col("line").cast(pl.UInt32))
        .join(lines, on="line", maintain_order="left")
        .join(runs.select("run", "side"), on="run", maintain_order="left")
        .filter(own | (pl.col("run") == pl.col("run").first()))
        .with_columns(whose.alias("who"))
        .sort("run", "line", "second")
        .drop("line", "side")
    )


def _per_s(*names: str) -> pl.Expr:
    return pl.sum_horizontal(names, ignore_nulls=False) / pl.col("interval_s")


def _ms(total_s: str, requests: str) -> pl.Expr:
    """Milliseconds per request; null without a request."""
    return pl.when(pl.col(requests) > 0).then(1e3 * pl.col(total_s) / pl.col(requests))


_RATES: dict[tuple[str, str], pl.Expr] = {
    ("CPUs busy", "dbms"): _per_s("server_cpu_s"),
    ("CPUs busy", "client"): _per_s("client_cpu_s"),
    ("CPUs busy", "whole host"): _per_s("host_cpu_user_s", "host_cpu_system_s"),
    ("CPUs busy", "waiting for the disk"): _per_s("host_cpu_iowait_s"),
    ("CPUs busy", "stolen"): _per_s("host_cpu_steal_s"),
    ("context switches/s", "dbms"): _per_s("server_context_switches"),
    ("context switches/s", "client"): _per_s("client_context_switches"),
    ("context switches/s", "whole host"): _per_s("host_context_switches"),
    ("disk, MB/s", "read"): _per_s("host_read_kb") / 1024,
    ("disk, MB/s", "written"): _per_s("host_write_kb") / 1024,
    ("disk, ms per request", "read"): _ms("host_read_s", "host_reads"),
    ("disk, ms per request", "written"): _ms("host_write_s", "host_writes"),
    ("% of the time in which something waits for a disk", "whole host"): 100 * _per_s("host_io_some_s"),
    ("memory, MB", "dbms"): pl.col("server_rss_kb") / 1024,
    ("memory, MB", "client"): pl.col("client_rss_kb") / 1024,
}


_FEWEST = {"p50": 2, "p95": 20, "p99": 100, "p99_9": 1000, "max": 1}
"""Minimum number of transactions for a percentile of their latency: at least one transaction has to be slower than
the percentile."""


def latencies_of_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Latency percentiles of every step and dbms: the median of the rounds, the lowest and highest round, and the
    number `n` of rounds. A percentile beyond which no transaction lies, such as the p99.9 of six transactions, is
    left out."""
    known = [
        pl.when(pl.col("transactions") >= least).then(f"latency_{name}_us").alias(name.replace("_", "."))
        for name, least in _FEWEST.items()
    ]
    index = ["host", "step", "position", "dbms", "round"]
    long = steps.select(*index, *known).unpivot(index=index, variable_name="percentile", value_name="latency_us")
    return (
        long.filter(pl.col("latency_us") > 0)
        .group_by("host", "position", "step", "dbms", "percentile")
        .agg(_spread("latency_us"))
        .sort("host", "position", "dbms", "estimate")
    )


def _spread(of: str) -> list[pl.Expr]:
    value = pl.col(of)
    return [
        value.median().alias("estimate"),
        value.min().alias("low"),
        value.max().alias("high"),
        pl.len().alias("n"),
    ]
