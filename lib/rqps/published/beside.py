"""Ours beside theirs: the same step and release, with all that differs in the same row."""

from pathlib import Path

import polars as pl

from rqps.analysis import relative, summarise
from rqps.errors import RqpsError
from rqps.published.labels import short
from rqps.published.read import Published
from rqps.store.find import data_folder, studies
from rqps.store.read import Study, load

COLUMNS = {
    "step": pl.String,
    "whose": pl.String,
    "host": pl.String,
    "me": pl.String,
    "base": pl.String,
    "rqps": pl.String,
    "rounds": pl.String,
    "threads": pl.Int64,
    "tables": pl.Int64,
    "rows_per_table": pl.Int64,
    "seconds": pl.String,
}
THEIRS = "regressions-8040-2024"


def measured_here(study: str, data: str | Path | None = None) -> Study | None:
    """The study, or None where it has not been measured."""
    try:
        there = studies(data_folder(data))
    except RqpsError:
        if data:
            raise
        return None  # a checkout in which nothing was measured yet
    return load(study, data) if study in there else None


def beside(published: Published, study: str, data: str | Path | None = None) -> pl.DataFrame:
    """One row a number, theirs and ours, for the steps and releases that both have; none if there are none."""
    measured = measured_here(study, data)
    if measured is None:
        return pl.DataFrame(schema=COLUMNS)
    ours = _ours(measured)
    theirs = _theirs(published).filter(
        pl.col("step").is_in(ours["step"].to_list()), pl.col("me").is_in(ours["me"].str.split(" ").list[0].to_list())
    )
    ours = ours.filter(
        pl.col("step").is_in(theirs["step"].to_list()),
        pl.col("me").str.split(" ").list[0].is_in(theirs["me"].to_list()),
    )
    order = {step: number for number, step in enumerate(dict.fromkeys(ours["step"]))}
    both = pl.concat([theirs, ours])
    return both.sort(pl.col("step").replace_strict(order, return_dtype=pl.Int32, default=None), maintain_order=True)


def what_differs(published: Published, study: str, data: str | Path | None = None) -> list[str]:
    """What a reader has to know before comparing a row of `beside` with another."""
    measured = measured_here(study, data)
    if measured is None:
        return [f"The study {study!r} has not been measured here: only the published numbers are shown."]
    both = beside(published, study, data)
    if both.is_empty():
        return [f"The study {study!r} has no step and release in common with a published table."]
    ours, theirs = both.filter(whose="ours"), both.filter(whose="theirs")
    return [
        f"The base: theirs is {_words(theirs['base'])}, ours is {_words(ours['base'])}. "
        + (
            "Ratios to different bases answer different questions: do not compare them."
            if set(theirs["base"]).isdisjoint(_release(ours))
            else ""
        ),
        f"The host: theirs are {_words(theirs['host'])}, ours is {_words(ours['host'])}.",
        f"The size: theirs {_words(theirs['tables'])} tables of {_words(theirs['rows_per_table'])} rows, ours"
        f" {_words(ours['tables'])} of {_words(ours['rows_per_table'])}.",
        f"The load: theirs {_words(theirs['threads'])} threads for {_words(theirs['seconds'])} s, ours"
        f" {_words(ours['threads'])} for {_words(ours['seconds'])} s.",
        "The repeats: theirs give neither a count nor a spread, ours are the median of rounds with its interval.",
        "The builds: theirs are compiled from source with the same flags; ours are binaries as they are released.",
    ]


def _theirs(published: Published) -> pl.DataFrame:
    tables = published.rqps.filter(pl.col("section").str.starts_with("Results: "), source=THEIRS)
    hosts = published.sources[THEIRS].hosts
    rows = [
        {
            "step": row["step"].split("_range=")[0],
            "whose": "theirs",
            "host": row["host"],
            "me": short(row["build"]),
            "base": "8.0.28",
            "rqps": row["printed"],
            "rounds": "not said",
            "threads": row["threads"],
            "tables": hosts[row["host"]].tables,
            "rows_per_table": hosts[row["host"]].rows_per_table,
            "seconds": "600" if row["step"].startswith(("update", "insert", "delete", "write", "read-w")) else "300",
        }
        for row in tables.iter_rows(named=True)
        if ".pre" not in row["step"] and not row["step"].startswith(("random-points", "read-"))
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def _ours(measured: Study) -> pl.DataFrame:
    card = measured.card
    version = dict(measured.runs.select("dbms", "version").unique().iter_rows())
    summary = summarise(relative(measured.steps, measured.runs, card.base)).filter(metric="operations_per_s")
    rows = [
        {
            "step": row["step"].split("_range=")[0],
            "whose": "ours",
            "host": row["host"],
            "me": _named(row["dbms"], version[row["dbms"]]),
            "base": _named(card.base, version[card.base]),
            "rqps": f"{row['median']:.2f}" + (f" ({row['low']:.2f}–{row['high']:.2f})" if row["low"] else ""),
            "rounds": str(row["n"]),
            "threads": card.parameters.get("threads"),
            "tables": card.parameters.get("tables"),
            "rows_per_table": card.parameters.get("table_rows"),
            "seconds": str(card.parameters.get("seconds", "")),
        }
        for row in summary.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def _named(dbms: str, version: str) -> str:
    return f"{version.split('-')[0]} {dbms.split('.', 1)[1]}"


def _release(ours: pl.DataFrame) -> set[str]:
    return {base.split()[0] for base in ours["base"]}


def _words(values: pl.Series) -> str:
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in dict.fromkeys(values))
