"""A server's own reports: its variables, its status, its settings, and how it will read."""

import re
from collections.abc import Iterator
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


SETUP_TABLES = {
    "setup_instruments": ("instrument", "{NAME}", "ENABLED"),
    "setup_consumers": ("consumer", "{NAME}", "ENABLED"),
    "setup_timers": ("timer", "{NAME}", "TIMER_NAME"),
    "setup_actors": ("actor", "{HOST}/{USER}/{ROLE}", "ENABLED"),
    "setup_objects": ("object", "{OBJECT_TYPE}/{OBJECT_SCHEMA}/{OBJECT_NAME}", "ENABLED"),
    "setup_threads": ("thread", "{NAME}", "ENABLED"),
}
"""Kind, name and value of their rows, from 5.5 (instruments, consumers and timers) to 9.7 (no timers any more)."""


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
    for table, (kind, name, column) in SETUP_TABLES.items():
        if table in there:
            cursor.execute(f"SELECT * FROM performance_schema.{table}")
            for row in cursor.fetchall():
                value = row.get(column, "YES")  # before 5.7 actors have no switch: one that is listed is watched
                yield {"kind": kind, "name": name.format(**row), "value": value, "timed": row.get("TIMED")}
