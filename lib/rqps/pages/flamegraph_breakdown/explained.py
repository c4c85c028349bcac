"""How much of the time that a client waits for an operation a profile of the server's CPU can explain."""

import polars as pl

from rqps.stats.metrics import usable

_KEYS = ("host", "position", "step", "dbms")
_TIMES = ("response_us", "server_cpu_us", "client_cpu_us", "neither_us", "explained")


def explained(steps: pl.DataFrame) -> pl.DataFrame:
    """One row a step and dbms: a client's time per operation, and what of it was CPU time of server and client.

    `neither_us` is the rest: for a lock, a disk, the network, or until a CPU is free or awake. Threads in the
    background take CPU time beside the clients, so where they are busy it comes out too small, or below 0. Medians of
    the rounds.
    """
    operations = pl.col("operations")
    times = usable(steps).select(
        *_KEYS,
        (1e6 * pl.col("elapsed_s") * pl.col("threads") / operations).alias("response_us"),
        (1e6 * pl.col("server_cpu_s") / operations).alias("server_cpu_us"),
        (1e6 * pl.col("client_cpu_s") / operations).alias("client_cpu_us"),
    )
    parts = times.with_columns(
        (pl.col("response_us") - pl.col("server_cpu_us") - pl.col("client_cpu_us")).alias("neither_us"),
        (pl.col("server_cpu_us") / pl.col("response_us")).alias("explained"),
    )
    medians = parts.group_by(_KEYS, maintain_order=True).agg(
        pl.col(_TIMES).median(), pl.len().cast(pl.Int32).alias("n")
    )
    return medians.sort("host", "position", maintain_order=True).drop("position")
