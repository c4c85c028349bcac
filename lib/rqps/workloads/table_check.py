"""Checks tables, as information_schema describes them, against what a workload expects."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rqps.errors import RqpsError

LOAD_AGAIN = "remove the loaded data of this build from the cache; they are made again"


def check_table(
    connection: Any,
    schema: str,
    name: str,
    engine: str,
    columns: Mapping[str, str],
    indexes: Mapping[str, Sequence[str]],
    *,
    step: str = "",
    fix: str = LOAD_AGAIN,
) -> None:
    """Raises an error, which begins with `step`, unless a table has this engine, these columns and these indexes."""
    where = f"{step}{schema}.{name}"
    stored_by, types, parts = connection.dialect.described(connection, schema, name)
    must_be(where, "engine", engine, stored_by, fix=fix)
    actual = {column: re.sub(r"int\(\d+\)", "int", kind) for column, kind in types.items()}
    must_be(where, "columns", columns, actual, fix=fix)
    must_be(where, "indexes", indexes, parts, fix=fix)


def must_be(where: str, what: str, asked: Any, actual: Any, *, fix: str = LOAD_AGAIN) -> None:
    """Raises an error with both values if they differ."""
    if asked != actual:
        raise RqpsError(f"{where}: {what}: asked for {_words(asked)}, found {_words(actual)}", fix=fix)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name} {of}" if isinstance(of, str) else f"{name} ({', '.join(of)})" for name, of in value.items()]
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
