"""A server's own reports: its variables, its status, its settings, and how it will read."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from pymysql.cursors import DictCursor

from rqps.engines.mysql.instance import Connection, query
from rqps.errors import RqpsError
from rqps.study import Connections

Row = dict[str, Any]
Plan = dict[str, Any]
LONGEST_STATEMENT = 300


def read_variables(connection: Connection, pattern: str = "%") -> dict[str, str]:
    """Global variables by their names in lower case."""
    return _pairs(connection, f"SHOW GLOBAL VARIABLES LIKE '{pattern}'")


def read_status(connection: Connection, pattern: str = "%") -> dict[str, str]:
    """Global status values by their names in lower case."""
    return _pairs(connection, f"SHOW GLOBAL STATUS LIKE '{pattern}'")


def _pairs(connection: Connection, statement: str) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in query(connection, statement)}


def check_connections(connection: Connection, asked: Connections) -> None:
    """Refuses a load that would find the server full in the middle of a step."""
    most = int(query(connection, "SELECT @@max_connections")[0][0])
    if asked.needed > most:
        raise RqpsError(
            f"max_connections is {most}, and {asked.clients} {asked.parameter} are asked for, "
            f"with {asked.ours} connections beside theirs",
            fix=f"set max_connections to {asked.needed} or more in the config, or ask for fewer {asked.parameter}",
        )


def explain(connection: Connection, statement: str) -> Plan:
    """The first row of a statement's plan, by the names of EXPLAIN's columns.

    Since 9.0 the plan comes as a tree unless it is asked for as rows. 5.5 neither understands that nor explains
    anything but a SELECT, and finds rows that are to be changed in the same way.
    """
    form = "FORMAT=TRADITIONAL "
    if str(query(connection, "SELECT VERSION()")[0][0]).startswith("5.5."):
        form = ""
        statement = re.sub(r"^(?:UPDATE|DELETE FROM) (\S+) .*?WHERE", r"SELECT * FROM \1 WHERE", statement)
    with connection.cursor(DictCursor) as cursor:
        cursor.execute(f"EXPLAIN {form}{statement}")
        return cursor.fetchone() or {}


def plan_row(step: str, statement: str, plan: Plan) -> Plan:
    """A row of the table `plans`."""
    rows = plan.get("rows")
    return {
        "step": step,
        "statement": statement[:LONGEST_STATEMENT],
        "access": plan.get("type"),
        "possible_keys": plan.get("possible_keys"),
        "key": plan.get("key"),
        "rows": None if rows is None else int(rows),
        "extra": plan.get("Extra"),
    }


def _plain(row: Row) -> Row:
    return {"name": row["NAME"], "value": row["ENABLED"], "timed": row.get("TIMED")}


def _timer(row: Row) -> Row:
    return {"name": row["NAME"], "value": row["TIMER_NAME"]}


def _actor(row: Row) -> Row:
    # Before 5.7 there is no switch: who is listed is watched.
    return {"name": f"{row['HOST']}/{row['USER']}/{row['ROLE']}", "value": row.get("ENABLED", "YES")}


def _object(row: Row) -> Row:
    name = f"{row['OBJECT_TYPE']}/{row['OBJECT_SCHEMA']}/{row['OBJECT_NAME']}"
    return {"name": name, "value": row["ENABLED"], "timed": row["TIMED"]}


SETUP_TABLES: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "setup_instruments": ("instrument", _plain),
    "setup_consumers": ("consumer", _plain),
    "setup_timers": ("timer", _timer),
    "setup_actors": ("actor", _actor),
    "setup_objects": ("object", _object),
    "setup_threads": ("thread", _plain),
}
"""From 5.5 (instruments, consumers and timers) to 9.7 (no timers any more)."""


def read_settings(connection: Connection) -> list[Row]:
    """Rows of the table `settings`: every variable, and what the performance schema records, in its own words."""
    with connection.cursor(DictCursor) as cursor:
        return [*_variables(cursor), *_setup(cursor)]


def _variables(cursor: "DictCursor") -> Iterator[Row]:
    cursor.execute("SHOW GLOBAL VARIABLES")
    for row in cursor.fetchall():
        name, value = row.values()
        yield {"kind": "variable", "name": str(name).lower(), "value": str(value)}


def _timers(cursor: "DictCursor") -> Iterator[Row]:
    """The frequency, resolution and overhead (cycles to read it) of each clock that can be had."""
    cursor.execute("SELECT * FROM performance_schema.performance_timers")
    for row in cursor.fetchall():
        name = row.pop("TIMER_NAME")
        for fact, value in row.items():
            if value is not None:
                yield {"kind": "timer", "name": f"{name} {fact.removeprefix('TIMER_').lower()}", "value": str(value)}


def _setup(cursor: "DictCursor") -> Iterator[Row]:
    cursor.execute(
        "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'performance_schema'"
    )
    there = {str(row["name"]).lower() for row in cursor.fetchall()}
    if "performance_timers" in there:
        yield from _timers(cursor)
    for table, (kind, columns) in SETUP_TABLES.items():
        if table in there:
            cursor.execute(f"SELECT * FROM performance_schema.{table}")
            for row in cursor.fetchall():
                yield {"kind": kind, **columns(row)}
