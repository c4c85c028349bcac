"""The versions of a build that was rebuilt at its place: each one against the base, and against the one before."""

import polars as pl

from rqps.stats.comparison import relate, relate_pairs
from rqps.stats.metrics import COMPARED, measured, with_counts
from rqps.stats.pairing import rounds_of_pairs
from rqps.store.read import Study
from rqps.store.schemas import Columns

VERSION: Columns = {
    "build": pl.String,
    "build_of": pl.String,
    "number": pl.Int32,
    "since": pl.Datetime("ms", "UTC"),
    "revision": pl.String,
    "note": pl.String,
}


def versions(study: Study) -> pl.DataFrame:
    """The versions of builds that were rebuilt: `build` as its runs have it, `build_of` as runs.yaml has it."""
    rebuilt = {version.build for version in study.card.builds if version.number > 1}
    rows = [
        {"build": version.name, "build_of": version.build, **version.model_dump(include={*VERSION} - {"build"})}
        for version in study.card.builds
        if version.build in rebuilt
    ]
    return pl.DataFrame(rows, schema=VERSION).unique("build", keep="last").sort("build_of", "number")


def by_version(study: Study) -> pl.DataFrame:
    """The tidy frame of all versions of builds that were rebuilt, one row for each that stands for nothing else.

    `against` is `base`, or `last` for the version before. Each step from one version to the next is judged by itself,
    so that a verdict stays when further versions come; those against the base hold together with the whole study.
    """
    every = versions(study)
    if every.is_empty() or study.card.base not in set(study.runs["dbms"]):
        return every.with_columns(against=pl.lit(None, pl.String)).clear()
    _, compared = relate(study)
    dbms = study.runs.select("dbms", "build", "config").unique().join(every, on="build")
    before = dbms.sort("number").with_columns(last=pl.col("dbms").shift().over("build_of", "config"))
    values = with_counts(measured(study, COMPARED), study)
    paired = [rounds_of_pairs(values, [pair]) for pair in before.drop_nulls("last").select("last", "dbms").rows()]
    steps = [relate_pairs(rounds, compared) for rounds in paired if not rounds.is_empty()]
    rows = [
        compared.drop("warnings", "explained").with_columns(against=pl.lit("base")),
        *(frame.with_columns(against=pl.lit("last")) for frame in steps),
    ]
    return every.join(pl.concat(rows, how="diagonal"), on="build", how="left", maintain_order="left_right")


def superseded(study: Study) -> tuple[str, ...]:
    """The dbms of versions that another one has replaced; the study's base stays."""
    newest = versions(study).group_by("build_of").agg(pl.col("build").last())
    earlier = versions(study).join(newest, on="build", how="anti")
    runs = study.runs.filter(pl.col("build").is_in(earlier["build"].to_list()), pl.col("dbms") != study.card.base)
    return tuple(runs["dbms"].unique().sort())
