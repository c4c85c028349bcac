"""What every client did in the course of every step."""

import polars as pl

from rqps.pages.insert_benchmark_report.steps import main_kind, reads, seconds_of
from rqps.stats.metrics import usable
from rqps.stats.over_time import throughput_over_time
from rqps.store.read import Study

FEW_CLIENTS = 4
"""So many are drawn as lines; of more, each is a strip."""
PIECES, PIECES_OF_MANY = 60, 30
INDEXES = "l.x"


def steps_over_time(study: Study, *, queries: bool) -> pl.DataFrame:
    """Throughput of every second, all clients together: of the steps with queries, or of those that only write."""
    steps = study.steps.filter(reads() == queries, pl.col("step") != INDEXES)
    found = throughput_over_time(study.intervals, steps)
    positions = steps.select("step", "position").unique()
    return found.join(positions, on="step", maintain_order="left").sort("host", "position", maintain_order=True)


def clients_over_time(study: Study) -> pl.DataFrame:
    """One row a step, dbms, client and piece of time: rows inserted or queries in a second.

    `median` of the rounds' means; `low` and `high` are the lowest and highest single second of all rounds, so that a
    stall is not lost in a mean. A step without such a course, one that makes indexes, is left out.
    """
    steps = usable(study.steps).filter(pl.col("step") != INDEXES)
    seconds = seconds_of(study.clients, steps, ["insert", "query"]).filter(pl.col("kind") == main_kind())
    pieces = PIECES if seconds["client"].n_unique() <= FEW_CLIENTS else PIECES_OF_MANY
    length = pl.col("second").max().over("host", "step", "dbms") + 1
    piece_s = ((length + pieces - 1) // pieces).alias("piece_s")
    keys = ["host", "position", "step", "dbms", "kind", "client", "piece_s", "second"]
    done = pl.col("operations")
    of_round = (
        seconds.with_columns(piece_s)
        .with_columns(pl.col("second") // pl.col("piece_s") * pl.col("piece_s"))
        .group_by(*keys, "round")
        .agg(done.mean().alias("mean"), done.min().alias("low"), done.max().alias("high"))
    )
    return (
        of_round.group_by(keys)
        .agg(pl.col("mean").median().alias("median"), pl.col("low").min(), pl.col("high").max(), pl.len().alias("n"))
        .sort("host", "dbms", "position", "client", "second")
    )
