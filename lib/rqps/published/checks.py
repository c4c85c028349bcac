"""Evaluates checks.yaml: SQL queries compare each assertion of a source with the figures that the source prints."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from string import Formatter
from typing import Any

import polars as pl

from rqps.errors import RqpsError
from rqps.numbers import formatted
from rqps.published.figures import FILES, KINDS, Check, Host, Published

COLUMNS = ("source", "place", "says", "evidence", "kind", "difference", "rounding", "found")
SENTENCES = ("source", "place", "says", "evidence", "difference", "rounding")
AGREES = ("exactly", "rounded", "zeros", "no")
SLACK = 1e-9
"""The tolerance of comparisons. Decimal fractions are not exact in binary: 0.985 - 0.005 is a little less than
0.98."""


def checked(published: Published) -> pl.DataFrame:
    """The result of every check that recalculates an assertion of a source, including assertions that hold."""
    with closing(_database(published)) as database:
        return _frame(row for check in published.checks for row in _findings(database, check))


def contradictions(published: Published) -> pl.DataFrame:
    """Every assertion that does not hold, sorted by source, the gravest first. `found` is `numbers` for an assertion
    that a calculation refutes, and `reading` for an assertion that a person found to be wrong by reading."""
    read = _frame(_finding(check, {}, check.kind, "reading") for check in published.readings)
    every = pl.concat([checked(published).filter(pl.col("kind") != "agrees"), read])
    order = {"source": list(published.sources), "kind": list(KINDS)}
    ranks = [pl.col(name).cast(pl.Enum(words)) for name, words in order.items()]
    return every.sort(*ranks, maintain_order=True)


def view(published: Published, name: str) -> pl.DataFrame:
    """A view of `views.sql` on the published figures."""
    with closing(_database(published)) as database:
        return pl.read_database(f"SELECT * FROM {name}", database, infer_schema_length=None)


def _frame(rows: Iterator[dict[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(COLUMNS, pl.String))


def _findings(database: sqlite3.Connection, check: Check) -> Iterator[dict[str, str]]:
    """One result for each row of the check's query `figures`. The result's kind is `agrees` if the condition `holds`
    is true for the row, else it is the check's kind."""
    try:
        cursor = database.execute(f"SELECT *, ({check.holds or 0}) AS _holds FROM ({check.figures}\n)")
        names = [column[0] for column in cursor.description]
        for values in cursor:
            row = dict(zip(names, values, strict=True))
            yield _finding(check, row, "agrees" if row["_holds"] else check.kind, "numbers")
    except (sqlite3.Error, KeyError, ValueError, TypeError) as error:
        raise RqpsError(
            f"checks.yaml: the check of {check.source}, {check.place}: {error}",
            fix="correct its `figures`, its `holds` or the names in braces",
        ) from error


def _finding(check: Check, row: dict[str, Any], kind: str, observed: str) -> dict[str, str]:
    words = {name: _Sentence().vformat(getattr(check, name), (), row) for name in SENTENCES}
    if kind == "agrees":
        words |= {"difference": "", "rounding": ""}
    return words | {"kind": kind, "found": observed}


class _Sentence(Formatter):
    """Fills the templates of checks; `{ratio:change}` in a template becomes the change in percent."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "change":
            return f"{formatted(100 * (value - 1), '+.0f')} %"
        return str(super().format_field(value, format_spec))


def _database(published: Published) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.create_function("meets", 4, _meets, deterministic=True)
    database.create_function("form", 2, lambda value, spec: _Sentence().format_field(value, spec), deterministic=True)
    for name in FILES:
        frame: pl.DataFrame = getattr(published, name)
        numbered = frame.with_row_index("line").with_columns(
            (pl.col("value") - pl.col("half")).clip(0).alias("low"), (pl.col("value") + pl.col("half")).alias("high")
        )
        _table(database, name, numbered.columns, numbered.rows())
    hosts = [
        (source, name, *host.model_dump().values())
        for source, about in published.sources.items()
        for name, host in about.hosts.items()
    ]
    _table(database, "hosts", ["source", "host", *Host.model_fields], hosts)
    _table(database, "sources", ["source", "number"], [(name, i) for i, name in enumerate(published.sources)])
    database.executescript(published.views)
    return database


def _table(database: sqlite3.Connection, name: str, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    named = ", ".join(f'"{column}"' for column in columns)
    database.execute(f"CREATE TABLE {name} ({named})")
    database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)


def _meets(low: float, high: float, other_low: float, other_high: float) -> bool:
    """True if both ranges have a number in common.

    >>> _meets(0.955, 0.965, 0.9650001, 0.97), _meets(0.955, 0.965, 0.965, 0.97)
    (False, True)
    """
    return low <= other_high + SLACK and other_low <= high + SLACK
