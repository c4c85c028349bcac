"""Generates tables from their description in runs.yaml: the number of rows, and the source of each column's
values."""

import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date, timedelta
from hashlib import sha256
from itertools import accumulate, islice
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter, model_validator

from rqps.engines import Strict
from rqps.errors import RqpsError
from rqps.workloads.own.steps import Scalar, ValuesSpec, limits, values
from rqps.workloads.own.tables_file import DIGITS, PATIENCE_S

KEY = "key"
MOST_ROWS, LONGEST_TEXT = 10_000_000, 2000
ROWS_AT_ONCE = 1000
_TEXT, _DAYS = re.compile(r"text (\d+)"), re.compile(r"\d{4}-\d\d-\d\d\.\.\d{4}-\d\d-\d\d")
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,59}$"
_SIGNS = string.ascii_lowercase + "     "
_OF_FOUR_BYTES = 2**31
_FORMS = (
    f"write key, text 20 (up to {LONGEST_TEXT}), days as in 2020-01-01..2024-12-31, a range such as 1..100000, a "
    "list, or a column of this table or one above, such as customers.id"
)


def _days(text: str) -> tuple[date, date]:
    first, last = (date.fromisoformat(day) for day in text.split(".."))
    if first > last:
        raise ValueError(f"{text!r} has no days: write the earlier one first")
    return first, last


def _column(given: Any) -> Any:
    """Checks the description of a column: a text such as `key` or `text 20`, or a range, list or column of values."""
    if not isinstance(given, str):
        return values(given)
    if _DAYS.fullmatch(given):
        _days(given)
        return given
    if match := _TEXT.fullmatch(given):
        if not 0 < int(match[1]) <= LONGEST_TEXT:
            raise ValueError(f"{given!r} is no text; write 1 to {LONGEST_TEXT} characters")
        return given
    if given == KEY:
        return given
    if "." not in given:
        raise ValueError(f"{given!r} is no column; {_FORMS}")
    return values(given)


def _text_or_more(given: Any) -> str:
    return "text" if isinstance(given, str) else "more"


Column = Annotated[
    Annotated[str, Tag("text")] | Annotated[ValuesSpec, Tag("more")],
    Discriminator(_text_or_more),
    BeforeValidator(_column),
]
Name = Annotated[str, Field(pattern=_NAME)]


Index = Annotated[
    Annotated[Name, Tag("text")] | Annotated[tuple[Name, ...], Field(min_length=1, strict=False), Tag("more")],
    Discriminator(_text_or_more),
]


class TableSpec(Strict):
    """A table whose rows are generated."""

    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    """The number of rows."""
    columns: Annotated[dict[Name, Column], Field(min_length=1)]
    """The values of each column, by name. `key` is the primary key: 1, 2, 3 and so on. `text 20` is up to twenty
    random letters. 2020-01-01..2024-12-31 is a random day in this range. Other columns take random values, as
    placeholders in statements do: from a range, a list, or a column that is defined earlier, in this table or
    another one."""
    indexes: Annotated[tuple[Index, ...], Field(strict=False)] = ()
    """Secondary indexes; each is the name of a column, or a list of several names."""

    @model_validator(mode="after")
    def _has_what_it_names(self) -> Self:
        if [*self.columns.values()].count(KEY) > 1:
            raise ValueError("a table has one key at most")
        for index in self.indexed:
            if unknown := [name for name in index if name not in self.columns]:
                raise ValueError(f"indexes: {unknown[0]!r} is no column; the columns are {', '.join(self.columns)}")
        return self

    @property
    def indexed(self) -> list[tuple[str, ...]]:
        return [(index,) if isinstance(index, str) else index for index in self.indexes]


Tables = Annotated[
    Annotated[str, Field(min_length=1, examples=["shop.sql"]), Tag("text")]
    | Annotated[dict[Name, TableSpec], Field(min_length=1), Tag("more")],
    Discriminator(_text_or_more),
]
"""The name of a file with tables, or a mapping of table names to descriptions of tables."""


class _Drawn(NamedTuple):
    """The values of a column, one per row; `places` are their positions in the list of possible values."""

    values: Sequence[Scalar]
    places: Sequence[int]
    type: str


def checked(tables: Mapping[str, TableSpec]) -> None:
    """Raises an error if a column takes its values from a column that is not defined before it, if its
    `same_row_as` names values of another table or a list of another length, or if its range is too wide for Zipf's
    law."""
    above = set[str]()
    for table, spec in tables.items():
        for name, column in spec.columns.items():
            where = f"tables.{table}.columns.{name}"
            if isinstance(column, ValuesSpec):
                if column.column and column.column not in above:
                    known = ", ".join(sorted(above)) or "none"
                    raise ValueError(f"{where}: {column.column!r} stands nowhere above; there are {known}")
                _check_place(where, spec, name, column)
                low, high = limits(column.range or "0..0")
                if column.zipf and high - low > MOST_ROWS:
                    raise ValueError(f"{where}: zipf: {column.range!r} is wider than {MOST_ROWS:,}")
            above.add(f"{table}.{name}")


def _check_place(where: str, spec: TableSpec, name: str, column: ValuesSpec) -> None:
    if column.same_row_as is None:
        return
    before = [*spec.columns][: [*spec.columns].index(name)]
    other = spec.columns[column.same_row_as] if column.same_row_as in before else None
    if not isinstance(other, ValuesSpec) or other.range or other.same_row_as:
        raise ValueError(f"{where}: same_row_as: {column.same_row_as!r} is no list and no column of a table above it")
    mine, its = (len(of.list) if of.list else str(of.column).split(".")[0] for of in (column, other))
    if mine != its:
        raise ValueError(f"{where}: same_row_as: {column.same_row_as!r} is of another table or length")


def digest_of(tables: Mapping[str, TableSpec]) -> str:
    """The first digits of the SHA-256 of the tables' description."""
    text = TypeAdapter(dict[str, TableSpec]).dump_json(dict(tables))
    return sha256(text).hexdigest()[:DIGITS]


def load(server: Any, database: str, tables: Mapping[str, TableSpec]) -> None:
    """Creates and fills the tables in a new database of an empty server; the rows are the same on every server."""
    drawn: dict[str, _Drawn] = {}
    with closing(server.connect()) as connection:
        connection.dialect.query(connection, f"CREATE SCHEMA {database}")
    with closing(server.connect(database, patience_s=PATIENCE_S)) as connection:
        sql = connection.dialect
        for table, spec in tables.items():
            drawn |= {f"{table}.{name}": column for name, column in columns_of(table, spec, drawn)}
            own = [drawn[f"{table}.{name}"] for name in spec.columns]
            try:
                for statement in statements(sql, table, spec, own):
                    sql.query(connection, statement)
            except sql.REFUSALS as error:
                words = ": ".join(map(str, error.args))[:300]
                raise RqpsError(
                    f"tables.{table}: {server.name} refused the table: {words}", fix="change its columns or indexes"
                ) from None
            sql.analyze(connection, sql.quoted(table))


def statements(sql: Any, table: str, spec: TableSpec, drawn: Sequence[_Drawn]) -> Iterator[str]:
    """The statements that create and fill a table, in the dialect `sql`; the indexes are created after the rows."""
    described = [f"{sql.quoted(name)} {of.type} NOT NULL" for name, of in zip(spec.columns, drawn, strict=True)]
    described += [f"PRIMARY KEY ({sql.quoted(name)})" for name, column in spec.columns.items() if column == KEY]
    yield f"CREATE TABLE {sql.quoted(table)} ({', '.join(described)}){sql.TABLE_OF_ANY_TEXT}"
    rows = zip(*(map(sql.literal, of.values) for of in drawn), strict=True)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield f"INSERT INTO {sql.quoted(table)} VALUES ({'), ('.join(map(', '.join, some))})"
    for index in spec.indexed:
        columns = ", ".join(map(sql.quoted, index))
        yield f"CREATE INDEX {sql.quoted('_'.join((table, *index))[:60])} ON {sql.quoted(table)} ({columns})"


def columns_of(table: str, spec: TableSpec, above: Mapping[str, _Drawn]) -> Iterator[tuple[str, _Drawn]]:
    """The columns of a table with their values. Each column has its own seed, so an added column does not change
    the values of the others."""
    own = dict(above)
    for name, column in spec.columns.items():
        seeded = random.Random(f"{table}.{name}")
        made = (
            _made(column, spec.rows, seeded) if isinstance(column, str) else _chosen(column, table, spec, own, seeded)
        )
        own[f"{table}.{name}"] = made
        yield name, made


def _made(column: str, rows: int, seeded: random.Random) -> _Drawn:
    if column == KEY:
        return _Drawn(range(1, rows + 1), range(rows), _whole(rows))
    if match := _TEXT.fullmatch(column):
        size = int(match[1])
        texts = [
            "".join(seeded.choices(_SIGNS, k=seeded.randint((size + 1) // 2, size))).strip() for _ in range(rows)
        ]
        return _Drawn(texts, range(rows), f"VARCHAR({size})")
    first, last = _days(column)
    days = [str(first + timedelta(days)) for days in range((last - first).days + 1)]
    return _Drawn(seeded.choices(days, k=rows), range(rows), "DATE")


def _chosen(
    column: ValuesSpec, table: str, spec: TableSpec, drawn: Mapping[str, _Drawn], seeded: random.Random
) -> _Drawn:
    if column.range:
        low, high = limits(column.range)
        choices: Sequence[Scalar] = range(low, high + 1)
        kind = _whole(max(-low, high))
    elif column.list:
        choices, kind = column.list, _type_of(column.list)
    else:
        choices, _, kind = drawn[str(column.column)]
    if column.same_row_as:
        places: Sequence[int] = drawn[f"{table}.{column.same_row_as}"].places
    elif column.zipf:
        weights = list(accumulate((place + 1) ** -column.zipf for place in range(len(choices))))
        places = seeded.choices(range(len(choices)), cum_weights=weights, k=spec.rows)
    else:
        places = seeded.choices(range(len(choices)), k=spec.rows)
    return _Drawn([choices[place] for place in places], places, kind)


def _type_of(values: Sequence[Scalar]) -> str:
    if all(isinstance(value, int) for value in values):
        return _whole(max(abs(int(value)) for value in values))
    if all(isinstance(value, int | float) for value in values):
        return "DOUBLE PRECISION"
    return f"VARCHAR({max(len(str(value)) for value in values)})"


def _whole(largest: int) -> str:
    return "BIGINT" if largest >= _OF_FOUR_BYTES else "INT"
