"""Tables as information_schema describes them, checked against what a workload asked for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqps.engines.mysql.instance import Connection, query
from rqps.errors import RqpsError

LOAD_AGAIN = "remove the loaded data of this build from the cache; they are made again"


@dataclass(frozen=True)
class Table:
    """The storage engine, columns and indexes of a table."""

    engine: str
    columns: Mapping[str, str]
    indexes: Mapping[str, Sequence[str]]
    """Their columns in order, by the names of the indexes."""


def check_table(connection: Connection, schema: str, name: str, asked: Table, *, of: str = "", fix: str) -> None:
    """Fail unless a table is as asked for. `of` goes in front of the error: the step."""
    found = _read(connection, schema, name)
    where = f"{of}{schema}.{name}"
    must_be(where, "engine", asked.engine.lower(), found.engine.lower(), fix=fix)
    must_be(where, "columns", asked.columns, found.columns, fix=fix)
    must_be(where, "indexes", asked.indexes, found.indexes, fix=fix)


def must_be(where: str, what: str, asked: Any, found: Any, *, fix: str = LOAD_AGAIN) -> None:
    """Fail with both values where they differ."""
    if asked != found:
        raise RqpsError(f"{where}: {what}: asked for {_words(asked)}, found {_words(found)}", fix=fix)


def tables_of(connection: Connection, schema: str) -> list[str]:
    """The tables of a schema by name."""
    return sorted(str(name) for (name,) in query(connection, f"SHOW TABLES FROM {schema}"))


def _read(connection: Connection, schema: str, name: str) -> Table:
    which = f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
    engine = query(connection, f"SELECT engine FROM information_schema.tables {which}")
    in_order = f"{which} ORDER BY ordinal_position"
    columns = query(connection, f"SELECT column_name, column_type FROM information_schema.columns {in_order}")
    parts = query(
        connection,
        f"SELECT index_name, column_name FROM information_schema.statistics {which} ORDER BY 1, seq_in_index",
    )
    indexes: dict[str, list[str]] = {}
    for index, column in parts:
        indexes.setdefault(str(index), []).append(str(column))
    return Table(
        engine=str(engine[0][0]) if engine else "no such table",
        columns={str(column): re.sub(r"int\(\d+\)", "int", _text(kind)) for column, kind in columns},
        indexes=indexes,
    )


def _text(value: Any) -> str:
    """A word of information_schema, which some versions give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _words(value: Any) -> str:
    match value:
        case Mapping():
            shown = (f"{name} {of if isinstance(of, str) else _listed(of)}" for name, of in value.items())
            return ", ".join(shown) or "none"
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value)


def _listed(columns: Sequence[str]) -> str:
    return f"({', '.join(columns)})"
