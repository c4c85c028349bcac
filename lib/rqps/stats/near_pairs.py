"""Near-A/A pairs: two runs that should perform alike. Their differences show what a single run can't resolve."""

import math
from collections.abc import Iterator

import polars as pl

from rqps.stats.estimate import STUDENT, USUAL_WEIGHS
from rqps.stats.pairing import rounds_of_pairs
from rqps.store.read import Study
from rqps.study import ROUNDS_FOR_A_VERDICT

OTHERS_WEIGH = 4
"""The spread of a step is estimated from its own pairs and from the pairs of all steps, which count as much as this
number of its own pairs: a step has few pairs."""
PAIR = ("host", "base", "dbms", "because")
NEIGHBOURS = "neighbouring patch releases"
REPEATS = "repeats"
BEFORE_AND_AFTER = "the same step before and after writes"
ROUNDS = (1, 4, 10)
"""Numbers of rounds whose noise floors are shown."""
CELL = ("host", "step", "clients", "metric")


def has_few_rounds(study: Study) -> bool:
    """True for imported results with too few rounds for a verdict, whose intervals come from near-A/A pairs."""
    rounds = study.runs.group_by("host", "dbms").len()["len"].to_list()
    return study.card.imported and max(rounds, default=0) < ROUNDS_FOR_A_VERDICT


def near_pairs(values: pl.DataFrame, runs: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per pair, step and metric: `host, base, dbms, because, step, clients, metric, ratio`.

    Pairs are neighbouring patch releases of one engine and config in the same round, repeats of one dbms, and a step
    of reads before and after the writes of its run.
    """
    neighbours = list(_neighbours(runs))
    paired = rounds_of_pairs(values, neighbours).with_columns(because=pl.lit(NEIGHBOURS))
    of_next = values.select("host", "dbms", *CELL[1:], round=pl.col("round") - 1, next="value")
    repeats = (
        values.join(of_next, on=["host", "dbms", *CELL[1:], "round"], maintain_order="left")
        .filter(pl.col("value") > 0)
        .with_columns(base="dbms", ratio=pl.col("next") / pl.col("value"), because=pl.lit(REPEATS))
    )
    same = ["host", "dbms", "round", "kind", "range", "clients", "metric"]
    twice = steps.select("kind", "kind_after_writes").drop_nulls().unique()
    early = values.join(twice, on="kind").with_columns(kind="kind_after_writes").select(*same, early="value")
    again = (
        values.join(early, on=same, maintain_order="left")
        .filter(pl.col("early") > 0)
        .with_columns(base="dbms", ratio=pl.col("value") / pl.col("early"), because=pl.lit(BEFORE_AND_AFTER))
    )
    columns = [*PAIR, *CELL[1:], "ratio"]
    return pl.concat([frame.select(columns) for frame in (paired, repeats, again)])


def usual_spreads(pairs: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step, clients and metric: `usual_spread`, the standard deviation of a single value as a share
    of the value, and the number of `pairs`.

    A step has few pairs of its own, so its variance is shrunk towards the variance of all steps with the same number
    of clients.
    """
    square = pl.col("ratio").log() ** 2
    of_all = square.mean().over("host", "clients", "metric")
    own = pairs.with_columns(square=square, of_all=of_all).group_by(CELL, maintain_order=True)
    drawn = (pl.col("square").sum() + OTHERS_WEIGH * pl.col("of_all").first()) / (pl.len() + OTHERS_WEIGH)
    # the variance of a ratio is twice that of a value
    return own.agg(usual_spread=(drawn / 2).sqrt(), pairs=pl.len().cast(pl.Int32))


def noise_floors(spreads: pl.DataFrame) -> pl.DataFrame:
    """Adds `floor_1`, `floor_4` and `floor_10`: the smallest ratios above 1 that 1, 4 and 10 rounds resolve.

    >>> known = pl.DataFrame({"step": ["scan"], "usual_spread": [0.01]})
    >>> noise_floors(known).select(pl.selectors.starts_with("floor").round(3)).row(0)
    (1.04, 1.017, 1.01)
    """
    reach = {rounds: STUDENT.quantile(USUAL_WEIGHS + rounds - 1.0) * math.sqrt(2 / rounds) for rounds in ROUNDS}
    floors = {f"floor_{rounds}": (factor * pl.col("usual_spread")).exp() for rounds, factor in reach.items()}
    return spreads.with_columns(**floors)


def _neighbours(runs: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Pairs of dbms of one release series, such as 8.0 or 16, whose versions differ by one in their last number."""
    series = runs.select(
        "dbms", "engine", "config", numbers=pl.col("version").str.extract_all(r"\d+").cast(pl.List(pl.Int64))
    ).unique("dbms", maintain_order=True)
    known = series.filter(pl.col("numbers").list.len() > 1).with_columns(
        of=pl.col("numbers").list.head(pl.col("numbers").list.len() - 1), patch=pl.col("numbers").list.last()
    )
    before = known.select("engine", "config", "of", patch=pl.col("patch") + 1, base="dbms")
    pairs = known.join(before, on=["engine", "config", "of", "patch"]).unique("dbms", keep="first")
    yield from pairs.sort("dbms").select("base", "dbms").iter_rows()
