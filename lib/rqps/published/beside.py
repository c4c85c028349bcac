"""Ours beside theirs: the same steps, the nearest releases, and all that differs between the two said plainly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rqps.errors import RqpsError
from rqps.published.figures import Published
from rqps.published.ours import ours, studies_of
from rqps.published.theirs import Column, tables_of, theirs
from rqps.workloads import step_groups

WORKLOAD = "sysbench"
NUMBERS = {
    "step": pl.String,
    "column": pl.String,
    "whose": pl.String,
    "value": pl.Float64,
    "printed": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "rounds": pl.Int64,
}
CONDITIONS = ("column", "me", "base", "host", "threads", "size", "seconds", "rounds", "builds")


@dataclass(frozen=True)
class Beside:
    """Columns of theirs and of ours, and what kept a study of ours from standing there."""

    columns: tuple[Column, ...]
    refused: tuple[str, ...]

    def of(self, whose: str) -> list[Column]:
        return [column for column in self.columns if column.whose == whose]

    def steps(self, whose: str) -> set[str]:
        return {row["step"] for column in self.of(whose) for row in column.numbers}

    @property
    def numbers(self) -> pl.DataFrame:
        """One row a number, in the groups of the steps that both theirs and ours have."""
        frame = pl.DataFrame([row for column in self.columns for row in column.numbers], schema=NUMBERS)
        groups = step_groups(WORKLOAD, sorted(self.steps("ours") & self.steps("theirs")))
        order = {step: number for number, step in enumerate(groups)}
        step = pl.col("step")
        shown = frame.filter(step.is_in(list(order))).sort(
            step.replace_strict(order, return_dtype=pl.Int32), maintain_order=True
        )
        return shown.select(step.replace_strict(groups, return_dtype=pl.String).alias("group"), *NUMBERS)

    @property
    def conditions(self) -> pl.DataFrame:
        """One row a column, with what it was measured on."""
        rows = [{name: each.conditions[name] for name in CONDITIONS} for each in self.columns]
        return pl.DataFrame(rows, schema=dict.fromkeys(CONDITIONS, pl.String))


def beside(published: Published, study: str, data: str | Path | None = None) -> Beside:
    """The tables of every source beside each study of ours of the same workload, the one that is named first."""
    printed = [pair for table in tables_of(published) for pair in table.pairs.values()]
    found: list[Column] = []
    refused: list[str] = []
    for measured in studies_of(WORKLOAD, study, data):
        try:
            found += ours(measured, printed)
        except RqpsError as error:  # what can't be compared with itself, can't with others
            refused.append(f"The study {measured.card.study} is left out: {error.message}.")
    of_theirs = theirs(published, [column.pair for column in found]) if found else ()
    return Beside((*of_theirs, *found), tuple(refused))


def what_differs(found: Beside) -> list[str]:
    """What a reader has to know before looking from one column to another."""
    if not found.of("ours"):
        return [
            *found.refused,
            f"No study of {WORKLOAD} has been measured here: there is nothing to set beside theirs.",
        ]
    return [*found.refused, *_differences(found)]


def _differences(found: Beside) -> Iterator[str]:
    here, there = found.of("ours"), found.of("theirs")
    same = [one for one in here if any(one.pair.is_same(other.pair) for other in there)]
    versions = f"theirs are {_all(str(each.pair) for each in there)}, ours {_all(str(each.pair) for each in here)}"
    if len(same) == len(here):
        yield f"The releases are the same: {versions}."
    else:
        yield (
            f"The releases: {versions}, the nearest that there are. Ratios of other releases answer another "
            "question: look where each loses and gains, and do not set one number against the other."
        )
    for what in ("host", "threads", "size", "seconds"):
        yield f"{what.capitalize()}: theirs {_told(there, what)}; ours {_told(here, what)}."
    yield "The repeats: theirs give neither a count nor a spread; ours are the median of rounds with its interval."
    yield "The builds: theirs are compiled from source with the same flags; ours are what the table below says."
    alone = found.steps("ours") - found.steps("theirs")
    if alone:
        yield f"Of our steps these are in none of their tables: {_all(sorted(alone))}."


def _told(columns: Sequence[Column], what: str) -> str:
    return _all(column.conditions[what] for column in columns)


def _all(words: Iterator[str] | Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(words))
