"""PostgreSQL's SQL for workloads that run on any SQL server. Each engine with SQL has a module `dialect` with the
same functions."""

import json
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from rqps.engines import Access
from rqps.engines.asked import Connections
from rqps.engines.postgres.client import Connection, Row, StatementError
from rqps.engines.postgres.postmaster import Server

STORED_BY = "heap"
NUMBERED, NEXT_NUMBER = "serial primary key", "nextval('{table}_{key}_seq')"
"""The type of a key whose values the server generates, and the SQL for its next value in an INSERT."""
AT_REST = ("vacuum (analyze) {table}",)
"""Statements that prepare a loaded `{table}` for reading: they set its visibility map and its statistics."""
IDS_AT_ONCE = 1000
"""Number of ids that a connection reserves from the server at once, as in the published client. Reserved ids that it
does not use become gaps."""
REFUSALS: tuple[type[Exception], ...] = (StatementError, OSError)
"""The exceptions that are raised if the server refuses a statement, or ends while it executes the statement."""
TABLE_OF_ANY_TEXT = ""
"""The clause at the end of CREATE TABLE that lets a table store any text; PostgreSQL needs no such clause."""
BACKSLASH_ESCAPES = False
"""True if a backslash in a text literal escapes the character after it."""
_OF_ITS_DATABASE = re.compile(
    r"(?:(?:CREATE|DROP|ALTER)\s+DATABASE|GRANT|REVOKE|CREATE\s+SCHEMA\s+public|ALTER\s.*\sOWNER\s+TO"
    r"|COMMENT\s+ON\s+(?:SCHEMA|EXTENSION|DATABASE)|SELECT\s+pg_catalog\.set_config\('search_path')",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(r"SET\s+(?:SESSION\s+)?(\w+)\s*(?:=|TO)\s*'?([^']*)'?$", re.IGNORECASE)
_COMMENTS = re.compile(r"(?:\s+|/\*.*?\*/)+", re.DOTALL)
LONGEST_STATEMENT = 300
TYPES = {"integer": "int", "character": "char", "character varying": "varchar"}
TYPES |= {"timestamp without time zone": "datetime"}
MOST_DEAD = 100
"""Maximum number of dead rows at which a server still counts as vacuumed."""
STATISTICS_LATE_S = 0.6
"""Seconds to wait before statistics are read: up to release 14 they may be half a second old."""
_INDEX = """
SELECT i.relname, a.attname, x.indisprimary FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
JOIN LATERAL unnest(x.indkey) WITH ORDINALITY AS k (number, place) ON true
JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
WHERE x.indrelid = '{}'::regclass ORDER BY 1, k.place"""
_DEBT = """
SELECT (SELECT sum(n_dead_tup) FROM pg_stat_user_tables),
(SELECT setting::bigint * 8 FROM pg_settings WHERE name = 'shared_buffers'), {diff}({now}(), {redo}) / 1024,
(SELECT setting::bigint * CASE unit WHEN 'MB' THEN 1 ELSE 16 END * 1024 FROM pg_settings WHERE name = 'max_wal_size')
FROM pg_control_checkpoint()"""
_WAL = {"diff": "pg_wal_lsn_diff", "now": "pg_current_wal_lsn", "redo": "redo_lsn"}
_WAL_BEFORE_10 = {"diff": "pg_xlog_location_diff", "now": "pg_current_xlog_location", "redo": "redo_location"}
_AT_WORK = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'autovacuum:%' AND pid <> pg_backend_pid()"


def create_table(key: str, columns: Mapping[str, str]) -> str:
    """CREATE TABLE for a table with generated ids. In this statement, and in those that the functions below return,
    `{table}` stands for the table's name."""
    typed = "".join(f"{name} {kind}, " for name, kind in columns.items()).replace("DATETIME", "TIMESTAMP")
    return (
        f"CREATE TABLE {{table}} ({key} BIGSERIAL, {typed}PRIMARY KEY ({key})); "
        f"ALTER SEQUENCE {{table}}_{key}_seq CACHE {IDS_AT_ONCE}"
    )


def stored_by(engine: str) -> str:  # noqa: ARG001
    """The clause after a table's columns that names its storage engine: empty, since PostgreSQL has only one."""
    return ""


def storage_engines(connection: Connection) -> dict[str, str]:  # noqa: ARG001
    """Maps each storage engine of the server to the reason why tables can't use the engine; the reason is empty if
    they can."""
    return {STORED_BY: ""}


def add_indexes(indexes: Mapping[str, Sequence[str]]) -> str:
    """The statements that create all indexes of a table, one after the other in one transaction."""
    return "; ".join(
        f"CREATE INDEX {{table}}_{name} ON {{table}} ({', '.join(columns)})" for name, columns in indexes.items()
    )


def by_index(name: str) -> str:  # noqa: ARG001
    """The clause after a table's name that forces a query to use an index: empty, since PostgreSQL has no such
    clause. EXPLAIN shows which index the planner chooses."""
    return ""


def delete_first(key: str) -> str:
    """The statement that deletes the first `{rows}` rows whose key is not below `{low}`."""
    first = f"SELECT {key} FROM {{table}} WHERE {key} >= {{low}} ORDER BY {key} ASC LIMIT {{rows}}"
    return f"DELETE FROM {{table}} WHERE {key} IN ({first})"


def query(connection: Connection, sql: str) -> list[Row]:
    """All rows of one statement."""
    return connection.query(sql)


def check_connections(connection: Connection, asked: Connections) -> None:
    """Refuses a load that needs more connections than the server allows: it would fail in the middle of a step."""
    # The user of rqps is a superuser, so it may also use the connections that are reserved for superusers.
    most = int(str(connection.query("SHOW max_connections")[0][0]))
    asked.refuse_beyond(most)


def tables_of(connection: Connection, schema: str) -> list[str]:
    """The names of the tables of a schema, in order."""
    rows = connection.query(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' ORDER BY 1")
    return [str(name) for (name,) in rows]


def described(connection: Connection, schema: str, name: str) -> tuple[str, dict[str, str], dict[str, list[str]]]:
    """The storage engine of a table, its columns with their types, and its indexes with their columns. The primary
    key has the name PRIMARY."""
    if name not in tables_of(connection, schema):
        return "no such table", {}, {}
    columns = {}
    for column, kind, length in connection.query(
        "SELECT column_name, data_type, character_maximum_length FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
    ):
        short = TYPES.get(str(kind), str(kind))
        columns[str(column)] = f"{short}({length})" if length else short
    indexes: dict[str, list[str]] = {}
    for index, column, primary in connection.query(_INDEX.format(f"{schema}.{name}")):
        indexes.setdefault("PRIMARY" if primary == "t" else str(index), []).append(str(column))
    return STORED_BY, columns, indexes


def read_whole(connection: Connection, table: str, indexes: Mapping[str, str]) -> None:  # noqa: ARG001
    """Reads every page of a table and its indexes. The indexes are looked up in the server, so `indexes` is not
    used."""
    of_the_heap = f"SET LOCAL enable_indexonlyscan = off; SELECT COUNT(*) FROM {table}"
    connection.query(f"BEGIN; {of_the_heap}; COMMIT")
    columns = {str(column) for _, column, _ in connection.query(_INDEX.format(table))}
    for column in map(quoted, sorted(columns)):
        forced = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
        some = f"SELECT COUNT({column}) FROM {table} WHERE {column} IS NOT NULL"
        connection.query(f"BEGIN; {forced}; {some}; COMMIT")


def quoted(name: str) -> str:
    """The name of a column, an index or a table in quotes, as SQL needs it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(value: str | int | float) -> str:
    """
    >>> literal("it's"), literal(7)
    ("'it''s'", '7')
    """
    doubled = str(value).replace("'", "''")
    return f"'{doubled}'" if isinstance(value, str) else repr(value)


def schemas(connection: Connection, ours: str) -> list[str]:
    """The schemas that may hold the tables of a load: `ours` first, then all others except the system schemas."""
    rows = connection.query(
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$' ORDER BY 1"
    )
    return [ours, *(str(name) for (name,) in rows if name != ours)]


def analyze(connection: Connection, table: str) -> None:
    """Renews the statistics and the visibility map of a table."""
    connection.query(f"VACUUM (ANALYZE) {table}")


def of_a_dump(statement: str) -> str:
    """Adapts a statement of a dump to the database and the user of rqps. The result is empty for a statement about
    the dump's own database, owners or rights, and for a text of comments only. A SET is rewritten so that the
    statement does nothing if the release lacks the option.

    >>> of_a_dump("ALTER TABLE public.orders OWNER TO joe"), of_a_dump("SET row_security = off")
    ('', "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'row_security'")
    """
    statement = statement[match.end() :] if (match := _COMMENTS.match(statement)) else statement
    if _OF_ITS_DATABASE.match(statement):
        return ""
    if option := _SET.match(statement):
        return f"SELECT set_config(name, '{option[2]}', false) FROM pg_settings WHERE name = '{option[1]}'"
    return statement


def takes_rows(statement: str) -> bool:
    """True if the lines after a statement are its rows, as after COPY … FROM stdin."""
    return bool(re.match(r"COPY\b.*\bFROM\s+stdin", statement, re.IGNORECASE | re.DOTALL))


def copy_rows(connection: Connection, statement: str, lines: Iterable[str]) -> None:
    """Runs a statement that reads its rows from `lines`."""
    connection.copy_in(statement, lines)


def plan(connection: Connection, step: str, statement: str) -> list[dict[str, Any]]:
    """A statement's plan as rows of the table `plans`: one row per node, from the top node down."""
    text = "".join(str(row[0]) for row in connection.query(f"EXPLAIN (FORMAT JSON) {statement}"))
    return [
        {
            "step": step,
            "statement": statement[:LONGEST_STATEMENT],
            "access": node["Node Type"],
            "possible_keys": None,
            "key": node.get("Index Name"),
            "rows": node["Plan Rows"],
            "extra": node.get("Relation Name"),
        }
        for node in _nodes(json.loads(text)[0]["Plan"])
    ]


def access(connection: Connection, step: str, statement: str) -> Access:
    """The access path of a statement, according to EXPLAIN of the statement with its actual values. A generic plan,
    which the server may choose for a prepared statement after five executions, can differ from this plan."""
    text = "".join(str(row[0]) for row in connection.query(f"EXPLAIN (FORMAT JSON) {statement}"))
    top = json.loads(text)[0]["Plan"]
    nodes = list(_nodes(top))
    indexes = [node["Index Name"] for node in nodes if "Index Name" in node]
    index = re.sub(r"^\w+_pkey$", "PRIMARY", indexes[0]) if indexes else None
    covers = any(node["Node Type"] == "Index Only Scan" for node in nodes)
    scan = next((node for node in nodes if "Scan" in node["Node Type"]), top)
    row = {
        "step": step,
        "statement": statement[:LONGEST_STATEMENT],
        "access": scan["Node Type"],
        "possible_keys": None,
        "key": index,
        "rows": scan["Plan Rows"],
        "extra": " < ".join(node["Node Type"] for node in nodes),
    }
    return Access(index, covers, row, row["extra"], scans=not any("Index Cond" in node for node in nodes))


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def rows_deleted(connection: Connection) -> int:
    """The number of rows deleted from tables so far. Open connections may not have reported all their deletes yet."""
    time.sleep(STATISTICS_LATE_S)
    return int(connection.query("SELECT sum(n_tup_del) FROM pg_stat_user_tables")[0][0] or 0)


def tables_bytes(server: Server, connection: Connection, schema: str) -> int:  # noqa: ARG001 MySQL needs it
    """The size of a schema's tables with their indexes, in bytes."""
    sizes = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
    return int(connection.query(f"{sizes} WHERE relkind = 'r' AND nspname = '{schema}'")[0][0] or 0)


def read_debt(connection: Connection) -> dict[str, Any]:
    """The debt of the server, by the columns of the table `engine`. `history_length` is the number of dead rows.
    `dirty_kb` is None, since no view shows the number of dirty pages."""
    ((version,),) = connection.query("SHOW server_version_num")
    wal = _WAL if int(str(version)) >= 100_000 else _WAL_BEFORE_10
    ((dead, buffers_kb, age_kb, capacity_kb),) = connection.query(_DEBT.format(**wal))
    return {
        "history_length": int(dead or 0),
        "dirty_kb": None,
        "buffer_pool_kb": float(str(buffers_kb)),
        "checkpoint_age_kb": float(str(age_kb)),
        "redo_capacity_kb": float(str(capacity_kb)),
    }


def settling(
    server: Server,
    tables: Sequence[str],
    *,
    change: tuple[str, str],  # noqa: ARG001 only MySQL's dialect needs it, to wake purge
    published: bool = False,  # noqa: ARG001 only for MySQL: the published client sets some of MySQL's options
    limit_s: float | None = None,
) -> Generator[tuple[dict[str, Any], str]]:
    """Recomputes the statistics of these tables and makes the server work off its debt, for which later statements
    would pay: VACUUM removes dead rows and fills the visibility map, and a checkpoint writes the dirty pages. Another
    checkpoint before the VACUUM flushes the WAL of asynchronous commits: until then, VACUUM can't mark their rows as
    visible to all. Yields the current debt and a message, again and again until the generator is closed; the message
    is empty once no debt is left."""
    try:
        with closing(server.connect(patience_s=limit_s)) as connection:
            connection.query("CHECKPOINT")
            for table in tables:
                connection.query(f"VACUUM (ANALYZE) {table}")
            connection.query("CHECKPOINT")
            while True:
                ((workers,),) = connection.query(_AT_WORK)
                debt = read_debt(connection)
                # VACUUM leaves rows that a transaction may need, and the count of dead rows may be old: try again.
                if debt["history_length"] > MOST_DEAD:
                    yield debt, f"{debt['history_length']} dead rows are not vacuumed"
                    for table in tables:
                        connection.query(f"VACUUM {table}")
                else:
                    yield debt, "" if workers == "0" else f"{workers} autovacuum workers are at work"
    except TimeoutError:
        while True:
            yield {}, "vacuum and checkpoint are not done"
