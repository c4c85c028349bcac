"""Checks tables, as information_schema describes them, against what a workload expects."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rqps.engines.mysql.instance import Connection, query
from rqps.errors import RqpsError

LOAD_AGAIN = "remove the loaded data of this build from the cache; they are made again"


def check_table(
    connection: Connection,
    schema: str,
    name: str,
    engine: str,
    columns: Mapping[str, str],
    indexes: Mapping[str, Sequence[str]],
    *,
    step: str = "",
    fix: str = LOAD_AGAIN,
) -> None:
    """Fails unless a table has this storage engine, these columns and these indexes. `step` begins the error."""
    where = f"{step}{schema}.{name}"
    which = f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
    tables = query(connection, f"SELECT engine FROM information_schema.tables {which}")
    must_be(where, "engine", engine, str(tables[0][0]).lower() if tables else "no such table", fix=fix)
    in_order = f"{which} ORDER BY ordinal_position"
    types = query(connection, f"SELECT column_name, column_type FROM information_schema.columns {in_order}")
    # Some versions return the type as bytes, and integer types with a display width.
    actual = {str(column): kind.decode() if isinstance(kind, bytes) else str(kind) for column, kind in types}
    actual = {column: re.sub(r"int\(\d+\)", "int", kind) for column, kind in actual.items()}
    must_be(where, "columns", columns, actual, fix=fix)
    in_order = f"{which} ORDER BY 1, seq_in_index"
    parts: dict[str, list[str]] = {}
    statistics = f"SELECT index_name, column_name FROM information_schema.statistics {in_order}"
    for index, column in query(connection, statistics):
        parts.setdefault(str(index), []).append(str(column))
    must_be(where, "indexes", indexes, parts, fix=fix)


def must_be(where: str, what: str, asked: Any, actual: Any, *, fix: str = LOAD_AGAIN) -> None:
    """Fails with both values if they differ."""
    if asked != actual:
        raise RqpsError(f"{where}: {what}: asked for {_words(asked)}, found {_words(actual)}", fix=fix)


def tables_of(connection: Connection, schema: str) -> list[str]:
    """The tables of a schema by name."""
    return sorted(str(name) for (name,) in query(connection, f"SHOW TABLES FROM {schema}"))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name} {of}" if isinstance(of, str) else f"{name} ({', '.join(of)})" for name, of in value.items()]
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
