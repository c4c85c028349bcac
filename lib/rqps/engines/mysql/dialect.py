"""MySQL's SQL for workloads that any server with SQL can have. This module of each engine has the same functions."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from rqps.engines import Access
from rqps.engines.mysql import innodb
from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.reports import check_connections, explain, plan_row
from rqps.errors import RqpsError

__all__ = ["STORED_BY", "access", "check_connections", "described", "query", "read_whole", "settle", "tables_of"]

STORED_BY = "innodb"


def tables_of(connection: Connection, schema: str) -> list[str]:
    """The tables of a schema by name."""
    return sorted(str(name) for (name,) in query(connection, f"SHOW TABLES FROM {schema}"))


def described(connection: Connection, schema: str, name: str) -> tuple[str, dict[str, str], dict[str, list[str]]]:
    """The storage engine of a table, its columns with their types, and its indexes with their columns."""
    which = f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
    tables = query(connection, f"SELECT engine FROM information_schema.tables {which}")
    in_order = f"{which} ORDER BY ordinal_position"
    types = query(connection, f"SELECT column_name, column_type FROM information_schema.columns {in_order}")
    # Some versions return the type as bytes, and integer types with a display width.
    columns = {str(column): kind.decode() if isinstance(kind, bytes) else str(kind) for column, kind in types}
    in_order = f"{which} ORDER BY 1, seq_in_index"
    parts: dict[str, list[str]] = {}
    statistics = f"SELECT index_name, column_name FROM information_schema.statistics {in_order}"
    for index, column in query(connection, statistics):
        parts.setdefault(str(index), []).append(str(column))
    return str(tables[0][0]).lower() if tables else "no such table", columns, parts


def read_whole(connection: Connection, table: str, indexes: Mapping[str, str]) -> None:
    """Reads every page of a table and its indexes, given with a column that each of them leads to."""
    for index, column in indexes.items():
        some = f"{column} <> ''" if index == "PRIMARY" else f"{column} >= 0"
        query(connection, f"SELECT COUNT({column}) FROM {table} FORCE INDEX ({index}) WHERE {some}")


def access(connection: Connection, step: str, statement: str) -> Access:
    """The way in which the server finds a statement's rows, by EXPLAIN."""
    plan = explain(connection, statement)
    covers = "Using index" in str(plan.get("Extra")).split("; ")
    return Access(plan.get("key"), covers, plan_row(step, statement, plan), str(plan))


def settle(server: Server, tables: Sequence[str], limit_s: float) -> None:
    """Waits until all writes are on disk and purged, with the statistics of these tables renewed."""
    deadline = time.monotonic() + limit_s
    with closing(server.connect()) as connection, innodb.eager(connection):
        for table in tables:
            query(connection, f"ANALYZE TABLE {table}")
        while left := innodb.left(innodb.read_debt(connection)):
            if time.monotonic() > deadline:
                raise RqpsError(
                    f"flush of {server.name}: not done within {limit_s:.0f} s: {left}",
                    fix="set flush_seconds in the study's parameters to a higher number",
                )
            innodb.wake_purge(connection, tables[0], "k", "id")
            time.sleep(innodb.SECONDS_BETWEEN_LOOKS)
