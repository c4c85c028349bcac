"""Time of the threads that serve connections: running, waiting for a CPU, and the other waits."""

import polars as pl

from rqps.stats.metrics import usable

CONNECTION = "connection"
"""The role of a thread that serves a client."""
SERVING = (CONNECTION, "client")
"""The roles of threads that execute the operations of clients; it is `client` for an embedded engine."""
RUNNING, NO_CPU, BLOCKED = "running", "waiting for a CPU", "waiting"
_SEEN = {
    "waiting for the client": "seen_network",
    "waiting for a lock": "seen_lock",
    "waiting for the disk": "seen_disk",
    "sleeping": "seen_timer",
    "waiting for something else": "seen_other",
}
KINDS = (RUNNING, NO_CPU, *_SEEN, BLOCKED)

_KEYS = ("host", "dbms", "round", "step")


def time_of_connections(threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Time of the connections' threads in µs per operation, by kind of activity; the kinds add up to the whole time.

    Running and waiting for a CPU are measured; the remaining time is divided among the kinds of waits, in
    proportion to how often a thread was seen in each. A server whose threads have no names has no row.
    """
    per_s = usable(steps).select("run", *_KEYS, per_s=pl.col("operations") / pl.col("elapsed_s"))
    serving = threads.lazy().filter(role=CONNECTION).collect()
    time = serving.join(per_s, on=["run", *_KEYS], maintain_order="left").with_columns(
        # `per_s` is the rate over the step's whole time; threads were watched for a shorter time.
        operations=pl.col("per_s") * pl.col("elapsed_s"),
        blocked_s=pl.max_horizontal(
            pl.col("threads") * pl.col("elapsed_s") - pl.col("running_s") - pl.col("waiting_s"), 0.0
        ),
        seen=pl.sum_horizontal(*_SEEN.values(), ignore_nulls=False),
    )
    is_known = pl.col("seen").fill_null(0) > 0
    of_look = pl.when(is_known).then(pl.col("blocked_s") / pl.col("seen")).otherwise(0.0)
    parts = {
        RUNNING: pl.col("running_s"),
        NO_CPU: pl.col("waiting_s"),
        **{kind: pl.when(is_known).then(of_look * pl.col(seen)).otherwise(0.0) for kind, seen in _SEEN.items()},
        BLOCKED: pl.when(is_known).then(0.0).otherwise("blocked_s"),
    }
    long = time.select(*_KEYS, "operations", **parts).unpivot(
        index=[*_KEYS, "operations"], variable_name="kind", value_name="seconds"
    )
    return (
        long.filter((pl.col("seconds") > 0) | pl.col("kind").is_in([RUNNING, NO_CPU]))
        .select(
            *_KEYS,
            pl.col("kind").cast(pl.Enum(KINDS)),
            us_per_operation=pl.col("seconds") * 1e6 / pl.col("operations"),
            share=pl.col("seconds") / pl.col("seconds").sum().over(_KEYS),
        )
        .sort(*_KEYS, "kind")
    )
