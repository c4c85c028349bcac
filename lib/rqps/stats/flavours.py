"""Flavours: builds of one version that were compiled differently, as read from their programs."""

import polars as pl

from rqps.stats.conditions import how_compiled
from rqps.stats.metrics import COMPARED, measured, with_counts
from rqps.stats.pairing import rounds_of_pairs
from rqps.stats.summary import left_out, means_of
from rqps.store.read import Study

FACTS = ("compiler", "optimization", "frame_pointers", "instruction_set", "lto", "pgo")
OPTIONS = ("optimization", "native", "lto", "pgo")
"""Columns that are equal in two builds that differ only in the compiler."""
PLAIN = "x86-64"


def flavours(study: Study) -> pl.DataFrame:
    """One row per host and dbms whose version has several flavours: the facts read from the program, `family` (gcc or
    clang), `native` (yes if it was compiled for a CPU newer than plain x86-64), and the `options` in words."""
    facts = how_compiled(study).pivot("name", FACTS, index=["host", "dbms"], values="value", maintain_order=True)
    runs = study.runs.select("host", "dbms", "version", "config", "listed").unique()
    words = [
        pl.col("optimization"),
        pl.when(pl.col("native") == "yes").then(pl.lit("native")),
        pl.when(pl.col("lto") == "yes").then(pl.lit("LTO")),
        pl.when(pl.col("pgo") == "yes").then(pl.lit("PGO")),
    ]
    known = facts.with_columns(
        family=pl.col("compiler").str.extract(r"^(\S+)"),
        native=pl.when(pl.col("instruction_set") == PLAIN).then(pl.lit("no")).otherwise(pl.lit("yes")),
    ).with_columns(options=pl.concat_str(words, separator=" ", ignore_nulls=True))
    several = pl.struct("compiler", "options", "frame_pointers").n_unique().over("host", "version", "config") > 1
    of_runs = known.join(runs, on=["host", "dbms"], maintain_order="left").drop_nulls("family")
    return of_runs.filter(several).sort("host", "listed").drop("listed")


def means_of_pairs(study: Study, pairs: pl.DataFrame) -> pl.DataFrame:
    """The geometric mean over the steps of each pair (`base`, `dbms`), of throughput, CPU and instructions, with
    verdicts. Base and dbms are paired by round. The verdicts of all pairs are corrected together."""
    without = [step for steps in left_out(study).values() for step in steps]
    values = with_counts(measured(study, COMPARED), study).filter(~pl.col("step").is_in(without))
    distinct = pairs.select("base", "dbms").unique(maintain_order=True)
    return means_of(rounds_of_pairs(values, distinct.rows()), "pair")
