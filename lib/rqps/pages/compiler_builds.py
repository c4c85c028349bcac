"""The page on builds by compiler and option: published statements, and the pairs of builds that test them."""

from collections.abc import Iterator

import polars as pl

from rqps import stats
from rqps.show import Clause, Sentences, comparison, finding, listed, phrase
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

FRAME = "pairs of flavours"
NO_FLAVOURS = "The programs of this study show no two builds of one version with different compilers or options."
NO_PAIRS = "No two builds of this study differ in compiler, LTO or profile alone."
TRAINED_BY = "sysbench"
OTHER_WORKLOADS = f"PGO builds created using {TRAINED_BY} also help other workloads"
STATEMENTS = {
    "gcc does slightly better than clang without LTO or PGO": "slower",
    "clang does slightly better than gcc with PGO": "faster",
    "clang does more than slightly better than gcc with PGO + LTO": "faster",
    "gcc with PGO has similar performance as with PGO + LTO": "same",
    OTHER_WORKLOADS: "faster",
}
"""Maps published statements to the verdict on throughput that they predict."""
_NOT_DECIDED = "unsure"
_SAME_RUN = ["host", "version", "config"]


def has_flavours_or_layouts(study: Study) -> bool:
    return not stats.flavours(study).is_empty() or study.runs["layout"].is_not_null().any()


def pairs(flavours: pl.DataFrame) -> pl.DataFrame:
    """The pairs of builds that test the statements: one row per statement, host, base and dbms."""
    by_options = [*_SAME_RUN, *stats.OPTIONS]
    gcc, clang = (flavours.filter(family=name) for name in ("gcc", "clang"))
    compilers = gcc.join(clang, on=by_options, suffix="_me", maintain_order="left")
    lto = [name for name in by_options if name != "lto"]
    with_lto = gcc.filter(lto="no", pgo="yes").join(
        gcc.filter(lto="yes"), on=lto, suffix="_me", maintain_order="left"
    )
    pgo = ["family", *(name for name in by_options if name != "pgo")]
    profiled = flavours.filter(pgo="no").join(flavours.filter(pgo="yes"), on=pgo, suffix="_me", maintain_order="left")
    of_statements = (
        compilers.filter(lto="no", pgo="no"),
        compilers.filter(lto="no", pgo="yes"),
        compilers.filter(lto="yes", pgo="yes"),
        with_lto,
        profiled,
    )
    frames = []
    for (statement, expected), frame in zip(STATEMENTS.items(), of_statements, strict=True):
        frames.append(
            frame.select(
                pl.lit(statement).alias("statement"),
                pl.lit(expected).alias("expected"),
                *("host", "version", "config"),
                base="dbms",
                dbms="dbms_me",
                base_name="flavour",
                name="flavour_me",
            )
        )
    return pl.concat(frames)


def frame(study: Study) -> pl.DataFrame:
    """One row per pair and metric: the geometric mean over the steps, and `outcome`, which compares its verdict with
    the verdict that the statement predicts."""
    asked = pairs(stats.flavours(study))
    means = stats.means_of_pairs(study, asked)
    is_training = (pl.col("statement") == OTHER_WORKLOADS) & pl.lit(TRAINED_BY in set(study.runs["workload"]))
    outcome = (
        pl.when(is_training)
        .then(pl.lit(f"not tested, since this study runs {TRAINED_BY} itself"))
        .when(verdict=_NOT_DECIDED)
        .then(pl.lit("inconclusive"))
        .when(pl.col("verdict") == pl.col("expected"))
        .then(pl.lit("confirmed"))
        .otherwise(pl.lit("contradicted"))
    )
    return asked.join(means, on=["host", "base", "dbms"], maintain_order="left").with_columns(outcome=outcome)


def findings(study: Study) -> Sentences:
    """A sentence for each published statement, with the pairs that test it."""
    if stats.flavours(study).is_empty():
        return Sentences([NO_FLAVOURS])
    return Sentences([*_findings(frame(study).filter(metric=THROUGHPUT))])


def _findings(tested: pl.DataFrame) -> Iterator[Clause]:
    several = tested["host"].n_unique() > 1
    for statement in STATEMENTS:
        rows = tested.filter(statement=statement).to_dicts()
        if not rows:
            yield finding(f"“{statement}”: not tested, since no two builds of this study differ in that alone")
            continue
        outcomes = listed([*dict.fromkeys(row["outcome"] for row in rows)])
        numbers = [
            phrase(
                "{}{}", f"on {row['host']} " * several, comparison(row, row["name"], row["base_name"], frame=FRAME)
            )
            for row in rows
        ]
        yield finding(phrase("“{}”: {}: {}", statement, outcomes, listed(numbers)))
