"""MySQL's SQL for workloads that run on every SQL server. Each engine with SQL has a module `dialect` with the same
functions."""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import pymysql

from rqps.engines import Access
from rqps.engines.mysql.innodb import eager, left, read_debt, wake_purge
from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.reports import check_connections, explain, explain_all, plan_row, read_status
from rqps.engines.sources.fetching import size_bytes

__all__ = ["access", "check_connections", "query", "read_debt"]

STORED_BY = "innodb"
NUMBERED, NEXT_NUMBER = "int primary key auto_increment", "null"
"""The type of a key whose values the server generates, and the SQL for its next value in an INSERT."""
AT_REST = ()
"""Statements that prepare a loaded `{table}` for reads, such as VACUUM; MySQL needs none."""
WHOLE_TABLE = ("ALL", "index")
"""Access types of EXPLAIN that read every row of a table, or every entry of an index."""
NOT_USABLE = {
    "YES": "",
    "DEFAULT": "",
    "NO": "it was built without it",
    "DISABLED": "its options disable it",
    "FORBIDDEN": "its config disables it",
}
IDS_AT_ONCE = 1
"""The number of generated ids that a connection reserves at a time; ids that it does not use become gaps."""
REFUSALS: tuple[type[Exception], ...] = (pymysql.err.MySQLError,)
"""The exceptions that the client library raises when the server refuses a statement."""
TABLE_OF_ANY_TEXT = " DEFAULT CHARACTER SET utf8mb4"
"""The end of CREATE TABLE for a table whose columns take any Unicode text."""
BACKSLASH_ESCAPES = True
"""True if a backslash in a string literal escapes the next character."""
_OF_ITS_DATABASE = re.compile(
    r"(?:/\*!\d*\s*)?(?:(?:CREATE|DROP|ALTER)\s+(?:DATABASE|SCHEMA)|USE\s|SET\s+@@(?:GLOBAL|SESSION)\.|CHANGE\s)",
    re.IGNORECASE,
)
_DEFINER = re.compile(r"\bDEFINER\s*=\s*(?:`[^`]*`|'[^']*'|\w+)(?:@(?:`[^`]*`|'[^']*'|[\w.%]+))?", re.IGNORECASE)
_COMMENTS = re.compile(r"(?:\s+|/\*(?!!).*?\*/)+", re.DOTALL)
PUBLISHED = {"innodb_idle_flush_pct": 100, "innodb_max_dirty_pages_pct_lwm": 1, "innodb_max_dirty_pages_pct": 1}
"""Options that the published client of the insert benchmark sets while it waits for the server to flush. They are
set in this order, since the low-water mark must not exceed the maximum: it is lowered first."""


def create_table(key: str, columns: Mapping[str, str]) -> str:
    """CREATE TABLE for a table with generated ids. In this statement, and in those that the functions below return,
    `{table}` stands for the table's name."""
    typed = "".join(f"{name} {kind}, " for name, kind in columns.items())
    return (
        f"CREATE TABLE {{table}} ( {key} BIGINT NOT NULL AUTO_INCREMENT, {typed}PRIMARY KEY ({key})) ENGINE = InnoDB"
    )


def stored_by(engine: str) -> str:
    """The clause of CREATE TABLE that names the storage engine."""
    return f" engine={engine}"


def storage_engines(connection: Connection) -> dict[str, str]:
    """Maps each storage engine that the server knows to the reason why tables can't use the engine; the reason is
    empty if they can."""
    support = dict(query(connection, "SELECT LOWER(engine), support FROM information_schema.engines ORDER BY engine"))
    for _, disabled in query(connection, "SHOW GLOBAL VARIABLES LIKE 'disabled_storage_engines'"):
        support |= dict.fromkeys(disabled.lower().split(","), "FORBIDDEN")
    return {name: NOT_USABLE.get(str(word), "it has no such engine") for name, word in support.items() if name}


def add_indexes(indexes: Mapping[str, Sequence[str]]) -> str:
    """ALTER TABLE that adds all indexes of a table in one statement."""
    added = (f"ADD INDEX {{table}}_{name} ({', '.join(columns)})" for name, columns in indexes.items())
    return f"ALTER TABLE {{table}} {', '.join(added)}"


def by_index(name: str) -> str:
    """The clause after a table's name that forces a query to use an index."""
    return f" FORCE INDEX ({{table}}_{name})"


def delete_first(key: str) -> str:
    """DELETE for the first `{rows}` rows whose key is `{low}` or above."""
    return f"DELETE FROM {{table}} WHERE {key} >= {{low}} ORDER BY {key} ASC LIMIT {{rows}}"


def tables_of(connection: Connection, schema: str) -> list[str]:
    """The names of a schema's tables, sorted."""
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
    """Reads every page of a table and its indexes, by one query for each index. `indexes` maps each index to the
    column that its query reads in all rows."""
    for index, column in indexes.items():
        query(connection, f"SELECT MAX(LENGTH({quoted(column)})) FROM {table} FORCE INDEX ({quoted(index)})")


def quoted(name: str) -> str:
    """The name of a column, an index or a table as a quoted identifier."""
    return f"`{name.replace('`', '``')}`"


def literal(value: str | int | float) -> str:
    """
    >>> literal("it's"), literal(7)
    ("'it\\\\'s'", '7')
    """
    return f"'{pymysql.converters.escape_string(value)}'" if isinstance(value, str) else repr(value)


def schemas(connection: Connection, ours: str) -> list[str]:  # noqa: ARG001 only PostgreSQL's dialect needs it
    """The schemas that hold the loaded tables."""
    return [ours]


def analyze(connection: Connection, table: str) -> None:
    """Recomputes the optimizer statistics of a table."""
    query(connection, f"ANALYZE TABLE {table}")


def of_a_dump(statement: str) -> str:
    """A statement of a dump, adapted to the database and the user of rqps. Empty if the statement creates or selects
    the dump's own database, or contains only comments.

    >>> of_a_dump("USE shop"), of_a_dump("CREATE DEFINER=`joe`@`%` VIEW v AS SELECT 1")
    ('', 'CREATE  VIEW v AS SELECT 1')
    """
    statement = statement[match.end() :] if (match := _COMMENTS.match(statement)) else statement
    if _OF_ITS_DATABASE.match(statement):
        return ""
    return _DEFINER.sub("", statement) if statement.startswith(("CREATE", "create", "/*!")) else statement


def takes_rows(statement: str) -> bool:  # noqa: ARG001
    """True if the lines after a statement are its rows, as after COPY of PostgreSQL; MySQL has no such statement."""
    return False


def copy_rows(connection: Connection, statement: str, lines: Iterable[str]) -> None:
    """Sends the rows that follow a statement. Never called for MySQL, where `takes_rows` is always false."""
    raise NotImplementedError


def plan(connection: Connection, step: str, statement: str) -> list[dict[str, Any]]:
    """Rows of the table `plans` for a statement: one for each table that the statement reads, in the order of the
    plan."""
    return [plan_row(step, statement, row) for row in explain_all(connection, statement)]


def access(connection: Connection, step: str, statement: str) -> Access:
    """The access path of a statement, according to EXPLAIN."""
    plan = explain(connection, statement)
    covers = "Using index" in str(plan.get("Extra")).split("; ")
    scans = plan.get("type") in WHOLE_TABLE
    return Access(plan.get("key"), covers, plan_row(step, statement, plan), str(plan), scans)


def rows_deleted(connection: Connection) -> int:
    """The number of rows that all connections have deleted since the server started."""
    return int(read_status(connection, "Innodb_rows_deleted")["innodb_rows_deleted"])


def tables_bytes(server: Server, connection: Connection, schema: str) -> int:  # noqa: ARG001 PostgreSQL needs it
    """The total size of a schema's files in bytes, holes in sparse files included."""
    return size_bytes(server.directory / schema)


def settling(
    server: Server,
    tables: Sequence[str],
    *,
    change: tuple[str, str],
    published: bool = False,
    limit_s: float | None = None,  # noqa: ARG001 PostgreSQL's dialect limits the time of VACUUM by it
) -> Generator[tuple[dict[str, Any], str]]:
    """Recomputes the statistics of these tables and makes the server work off its debt. Yields the current debt and a
    message, again and again until the generator is closed; the message is empty once the debt is small enough.
    `change` names a column and the key of the first table: `wake_purge` changes one value of this column."""
    with closing(server.connect()) as connection, eager(connection, PUBLISHED if published else None):
        for table in tables:
            query(connection, f"ANALYZE TABLE {table}")
        if int(query(connection, "SELECT @@log_bin")[0][0]):  # no step needs binary logs of earlier steps
            query(connection, "PURGE BINARY LOGS BEFORE NOW()")
        while True:
            debt = read_debt(connection)
            yield debt, left(debt)
            if not published:
                wake_purge(connection, tables[0], *change)
