"""A study as a whole: the kind of its question, and geometric means over its steps, with verdicts."""

from functools import lru_cache

import polars as pl

from rqps.engines import facts_of
from rqps.stats import verdict
from rqps.stats.comparison import estimated
from rqps.stats.metrics import CPU, THROUGHPUT, THROUGHPUTS, measured
from rqps.stats.pairing import rounds_of_pairs, rounds_within_build
from rqps.store.read import Study
from rqps.study import Asks

MEANS = ("host", "metric", "relation", "base", "dbms", "clients", "steps")
"""Columns that identify a mean. `relation` is `base` or `config` (within a build); `clients` is null for a mean over
steps with any number of clients."""


def asks(study: Study) -> Asks:
    """The kind of a study's question: that of its card or, if none is set, by the differences between its dbms."""
    if study.card.asks:
        return study.card.asks
    switches = {facts_of(engine).scenarios.KEY for engine in study.runs["engine"].unique()}
    options = study.conditions.filter(pl.col("kind") == "option", pl.col("name").is_in(switches))
    if not options.is_empty():
        return "parts"
    if study.runs["version"].n_unique() > 1:
        return "releases"
    return "builds" if study.runs["build"].n_unique() > 1 else "config"


RATED, NO_INDEX = "hold a rate", "use none of the indexes that they could"


def left_out(study: Study) -> dict[str, list[str]]:
    """Maps each reason to the steps that count in no mean and are never called worst or best. A step of rows that are
    written at a fixed rate is left out; queries beside such rows are as fast as possible, and their steps count."""
    held = study.steps.filter(unit="row").drop_nulls("target_per_s")["step"]
    no_index = pl.col("key").is_null() & (pl.col("possible_keys").fill_null("") != "")
    scans = study.plans.filter(no_index).select("step").unique().collect()["step"]
    reasons = {RATED: set(held), NO_INDEX: set(scans) - set(held)}
    order = study.steps["step"].unique(maintain_order=True)
    return {reason: [step for step in order if step in steps] for reason, steps in reasons.items() if steps}


@lru_cache(maxsize=2)  # the sentences of a page need it
def means(study: Study) -> pl.DataFrame:
    """Geometric means of throughput and CPU over the steps of a study: in each round all steps have the same weight.

    Each dbms is compared with the base, and with the base's config in its own build; if there are several numbers of
    clients, it is also compared with the base for each of them. Verdicts are corrected for multiple comparisons
    within each of these three sets. `half` is 1 plus half the width of the interval.
    """
    without = [step for steps in left_out(study).values() for step in steps]
    values = measured(study, (THROUGHPUT, CPU)).drop("usual_spread", strict=False)
    values = values.filter(~pl.col("step").is_in(without))
    base = study.card.base
    others = [(base, dbms) for dbms in study.runs["dbms"].unique(maintain_order=True) if dbms != base]
    to_base = rounds_of_pairs(values, others)
    relations = {"base": to_base, "config": rounds_within_build(values, study.runs, base)}
    frames = [means_of(paired, relation) for relation, paired in relations.items()]
    if to_base["clients"].n_unique() > 1:
        frames.append(means_of(to_base, "base", by_clients=True))
    return pl.concat(frames)


def means_to_base(study: Study) -> pl.DataFrame:
    """The means of each dbms against the base, over steps of any number of clients."""
    return means(study).filter(pl.col("clients").is_null(), relation="base")


def means_of(paired: pl.DataFrame, relation: str, *, by_clients: bool = False) -> pl.DataFrame:
    """Geometric means over the steps of paired rounds, with verdicts that are corrected for all of them together."""
    clients = pl.col("clients") if by_clients else pl.lit(None, pl.Int32)
    keys = ["host", "metric", "relation", "base", "dbms", "clients"]
    free = paired.with_columns(relation=pl.lit(relation), clients=clients)
    occasion, known = ([name] * (name in paired.columns) for name in ("occasion", "usual_spread"))
    within = {name: (pl.col(name) ** 2).sum().sqrt() / pl.len() for name in ("error", *known)}
    of_rounds = (
        free.with_columns(pl.col("error").fill_null(0.0), steps=pl.col("step").n_unique().over(keys))
        .group_by(*keys, "steps", *occasion, "round", "looks", "smallest_effect", maintain_order=True)
        .agg(pl.len(), ratio=pl.col("ratio").log().mean().exp(), **within)
        .filter(pl.col("len") == pl.col("steps"), pl.col("steps") > 1)
        .with_columns(pl.when(pl.col(name) > 0).then(pl.col(name)).alias(name) for name in known)
    )
    rows = estimated(of_rounds, [*MEANS, "smallest_effect"], "ratio")
    better = pl.col("metric").is_in(THROUGHPUTS)
    return rows.with_columns(
        verdict=verdict.decided(near=pl.col("smallest_effect"), more_is_better=better),
        half=1 + (pl.col("high") - pl.col("low")) / 2,
    )
