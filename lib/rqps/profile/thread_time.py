"""What the threads that serve clients do with their time: how much of it a profile of CPU can explain."""

import polars as pl

from rqps.stats.metrics import usable

CONNECTION = "connection"
KINDS = {
    "seen_network": "waiting for the client",
    "seen_lock": "waiting for a lock",
    "seen_disk": "waiting for the disk",
    "seen_timer": "sleeping",
    "seen_other": "waiting for something else",
}
RUNNING, NO_CPU, BLOCKED = "running", "waiting for a CPU", "waiting"
ORDER = (RUNNING, NO_CPU, *KINDS.values(), BLOCKED)

_KEYS = ("host", "dbms", "round", "step")


def thread_time(threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """µs of its connection's thread that an operation takes, by what the thread does meanwhile.

    The parts of a step add up to the time of its connections. `running` is what a profile explains; it and
    `waiting for a CPU` are exact, the rest is divided by how often threads were seen at what, or is all `waiting`
    where that is not known. `steps` are those of the same runs.
    """
    serving = threads.lazy().filter(role=CONNECTION).collect()
    per_s = usable(steps).select("run", *_KEYS, per_s=pl.col("operations") / pl.col("elapsed_s"))
    whole = serving.join(per_s, on=["run", *_KEYS], maintain_order="left").with_columns(
        operations=pl.col("per_s") * pl.col("elapsed_s"),  # while the threads were watched
        blocked_s=pl.max_horizontal(
            pl.col("threads") * pl.col("elapsed_s") - pl.col("running_s") - pl.col("waiting_s"), 0.0
        ),
        seen=pl.sum_horizontal(*KINDS, ignore_nulls=False),
    )
    known = pl.col("seen").fill_null(0) > 0
    parts = {
        RUNNING: pl.col("running_s"),
        NO_CPU: pl.col("waiting_s"),
        **{
            kind: pl.when(known).then(pl.col("blocked_s") * pl.col(seen) / pl.col("seen")).otherwise(0.0)
            for seen, kind in KINDS.items()
        },
        BLOCKED: pl.when(known).then(0.0).otherwise("blocked_s"),
    }
    long = whole.select(*_KEYS, "operations", *(part.alias(kind) for kind, part in parts.items())).unpivot(
        index=[*_KEYS, "operations"], variable_name="kind", value_name="seconds"
    )
    return (
        long.filter((pl.col("seconds") > 0) | pl.col("kind").is_in([RUNNING, NO_CPU]))
        .with_columns(share=pl.col("seconds") / pl.col("seconds").sum().over(_KEYS))
        .select(
            *_KEYS,
            pl.col("kind").cast(pl.Enum(ORDER)),
            (pl.col("seconds") * 1e6 / pl.col("operations")).alias("us_per_operation"),
            "share",
        )
        .sort(*_KEYS, "kind")
    )


def threads_not_told(threads: pl.DataFrame | pl.LazyFrame) -> list[str]:
    """The dbms whose threads were watched, but none of which could be told to serve a client."""
    roles = threads.lazy().select("dbms", "role").unique().collect()
    serving = roles.filter(role=CONNECTION)["dbms"]
    return roles.filter(~pl.col("dbms").is_in(serving.to_list()))["dbms"].unique().sort().to_list()
