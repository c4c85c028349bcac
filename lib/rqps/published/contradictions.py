"""All places where a source contradicts itself, and what was looked at to find them."""

import polars as pl

from rqps.published.check import KINDS, Check, frame_of
from rqps.published.check_busy_wait import check_busy_wait
from rqps.published.check_tables import check_tables
from rqps.published.check_text import check_text
from rqps.published.read import Published


def checked(published: Published) -> pl.DataFrame:
    """Every statement that was calculated again, whether it agrees or not."""
    return frame_of([*check_tables(published), *check_busy_wait(published), *check_text(published)])


def contradictions(published: Published) -> pl.DataFrame:
    """What does not hold, by calculating or by reading (`found`), in the order of the sources, the gravest first."""
    calculated = checked(published).filter(pl.col("kind") != "agrees").with_columns(pl.lit("numbers").alias("found"))
    read = frame_of(Check(**reading.model_dump()) for reading in published.readings)
    every = pl.concat([calculated, read.with_columns(pl.lit("reading").alias("found"))])
    order = {"source": list(published.sources), "kind": list(KINDS)}
    ranks = [pl.col(name).cast(pl.Enum(words)) for name, words in order.items()]
    return every.sort(*ranks, maintain_order=True)
