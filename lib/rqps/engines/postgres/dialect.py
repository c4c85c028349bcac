"""PostgreSQL's SQL for workloads that any server with SQL can have. This module of each engine has the same
functions."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from rqps.engines import Access
from rqps.engines.asked import Connections
from rqps.engines.postgres.client import Connection, Row
from rqps.engines.postgres.postmaster import Server
from rqps.errors import RqpsError

STORED_BY = "heap"
LONGEST_STATEMENT = 300
TYPES = {"integer": "int", "character": "char"}
SECONDS_BETWEEN_LOOKS = 0.2
_INDEX = """
SELECT i.relname, a.attname, x.indisprimary FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
JOIN LATERAL unnest(x.indkey) WITH ORDINALITY AS k (number, place) ON true
JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
WHERE x.indrelid = '{}'::regclass ORDER BY 1, k.place"""
_AT_WORK = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'autovacuum:%' AND pid <> pg_backend_pid()"


def query(connection: Connection, sql: str) -> list[Row]:
    """All rows of one statement."""
    return connection.query(sql)


def check_connections(connection: Connection, asked: Connections) -> None:
    """Refuses a load that would find the server full in the middle of a step."""
    most = int(str(connection.query("SHOW max_connections")[0][0]))  # we may take those that are reserved, too
    if asked.needed > most:
        raise RqpsError(
            f"max_connections is {most}, and {asked.clients} {asked.parameter} are asked for, "
            f"with {asked.ours} connections beside theirs",
            fix=f"set max_connections to {asked.needed} or more in the config, or ask for fewer {asked.parameter}",
        )


def tables_of(connection: Connection, schema: str) -> list[str]:
    """The tables of a schema by name."""
    rows = connection.query(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' ORDER BY 1")
    return [str(name) for (name,) in rows]


def described(connection: Connection, schema: str, name: str) -> tuple[str, dict[str, str], dict[str, list[str]]]:
    """The storage of a table, its columns with their types, and its indexes with their columns; the primary key goes
    by the name PRIMARY."""
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


def read_whole(connection: Connection, table: str, indexes: Mapping[str, str]) -> None:
    """Reads every page of a table and its indexes, given with a column that each of them leads to."""
    connection.query(f"SELECT COUNT(*) FROM {table} WHERE {indexes['PRIMARY']} <> ''")  # all of the heap
    for _, column, _ in connection.query(_INDEX.format(table)):
        forced = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
        connection.query(f"BEGIN; {forced}; SELECT COUNT({column}) FROM {table} WHERE {column} >= 0; COMMIT")


def access(connection: Connection, step: str, statement: str) -> Access:
    """The way in which the server finds a statement's rows, by EXPLAIN with the values in place: a prepared statement
    may get a general plan after five calls."""
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
    return Access(index, covers, row, row["extra"])


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def settle(server: Server, tables: Sequence[str], limit_s: float) -> None:
    """Vacuums and analyzes these tables, writes all that is dirty, and waits until autovacuum has nothing under way:
    dead rows, pages without a map of what is visible, and a checkpoint are what later statements would pay for."""
    deadline = time.monotonic() + limit_s
    try:
        with closing(server.connect(patience_s=limit_s)) as connection:
            for table in tables:
                connection.query(f"VACUUM (ANALYZE) {table}")
            connection.query("CHECKPOINT")
            while connection.query(_AT_WORK) != [("0",)]:
                if time.monotonic() > deadline:
                    raise TimeoutError
                time.sleep(SECONDS_BETWEEN_LOOKS)
    except TimeoutError:
        raise RqpsError(
            f"flush of {server.name}: vacuum and checkpoint were not done within {limit_s:.0f} s",
            fix="set flush_seconds in the study's parameters to a higher number",
        ) from None
