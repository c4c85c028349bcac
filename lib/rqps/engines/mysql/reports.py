"""A server's own reports: its variables, its status, the settings of its performance schema, and its plans."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from rqps.engines.asked import Connections
from rqps.engines.mysql.instance import Connection, query
from rqps.engines.mysql.perf_schema import State
from rqps.engines.mysql.written_bytes import FILES, REDO_LSN
from rqps.errors import RqpsError

Row = dict[str, Any]
Plan = dict[str, Any]
LONGEST_STATEMENT = 300
_FILE = "wait/io/file/"
_REDO = re.compile(r"Log sequence number\s+(\d+)")
_TABLE_OR_PART = re.compile(r"(?P<table>\w+)\.(.*\.)?memory")
_FORBIDDEN = {code for name, code in vars(ER).items() if name.endswith("ACCESS_DENIED_ERROR")}


def read_variables(connection: Connection, pattern: str = "%") -> dict[str, str]:
    """Global variables by their names in lower case."""
    return _pairs(connection, f"SHOW GLOBAL VARIABLES LIKE '{pattern}'")


def read_status(connection: Connection, pattern: str = "%") -> dict[str, str]:
    """Global status values by their names in lower case."""
    return _pairs(connection, f"SHOW GLOBAL STATUS LIKE '{pattern}'")


def _pairs(connection: Connection, statement: str) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in query(connection, statement)}


def is_55(connection: Connection) -> bool:
    """True for MySQL 5.5, which explains only a SELECT, writes numbers in hexadecimal, and whose purge sleeps."""
    return str(query(connection, "SELECT VERSION()")[0][0]).startswith("5.5.")


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
    """The first row of a statement's plan."""
    return next(iter(explain_all(connection, statement)), {})


def explain_all(connection: Connection, statement: str) -> list[Plan]:
    """A statement's plan, by the names of EXPLAIN's columns.

    Since 9.0 the plan comes as a tree unless it is asked for as rows. 5.5 neither understands that nor explains
    anything but a SELECT, and finds rows that are to be changed in the same way.
    """
    form = "FORMAT=TRADITIONAL "
    if is_55(connection):
        form = ""
        statement = re.sub(r"^(?:UPDATE|DELETE FROM) (\S+) .*?WHERE", r"SELECT * FROM \1 WHERE", statement)
    with connection.cursor(DictCursor) as cursor:
        cursor.execute(f"EXPLAIN {form}{statement}")
        return list(cursor.fetchall())


def plan_row(step: str, statement: str, plan: Plan) -> Plan:
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
    "setup_instruments": ("instrument", "{name}", "enabled"),
    "setup_consumers": ("consumer", "{name}", "enabled"),
    "setup_timers": ("timer", "{name}", "timer_name"),
    "setup_actors": ("actor", "{host}/{user}/{role}", "enabled"),
    "setup_objects": ("object", "{object_type}/{object_schema}/{object_name}", "enabled"),
    "setup_threads": ("thread", "{name}", "enabled"),
}
"""Kind, name and value of their rows, from 5.5 (instruments, consumers and timers) to 9.7 (no timers any more)."""


def read_settings(connection: Connection) -> list[Row]:
    """Rows of the table `settings`: every variable, and what the performance schema records, in its own words."""
    rows: list[Row] = [
        {"kind": "variable", "name": name, "value": value} for name, value in read_variables(connection).items()
    ]
    for timer in schema_rows(connection, "performance_timers"):
        name = timer.pop("timer_name")  # its frequency, resolution and overhead are left
        facts = {fact.removeprefix("timer_"): str(value) for fact, value in timer.items() if value is not None}
        rows += [{"kind": "timer", "name": f"{name} {fact}", "value": value} for fact, value in facts.items()]
    for table, (kind, name, column) in SETUP_TABLES.items():
        for row in schema_rows(connection, table):
            value = row.get(column, "YES")  # before 5.7 actors have no switch: one that is listed is watched
            rows.append({"kind": kind, "name": name.format(**row), "value": value, "timed": row.get("timed")})
    return rows


@dataclass(frozen=True)
class Found:
    """The settings of a performance schema. A table that the server's version does not have is empty here."""

    instruments: Mapping[str, State] = field(default_factory=dict)
    consumers: Mapping[str, bool] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Rows of setup_actors, setup_objects and setup_timers, in words."""
    thread_classes: Mapping[str, bool] = field(default_factory=dict)
    """Switched like instruments, as they are since 8.0."""
    threads_unwatched: tuple[str, ...] = ()
    """Threads that are there and whose events are not recorded; the one that reads this is none of them."""


@dataclass(frozen=True)
class Known(Found):
    """The performance schema of a build, with it on and nothing else asked for, and all of its variables."""

    variables: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """The memory of the performance schema's tables, by table, at the sizes that the variables have."""


@contextmanager
def explained(connection: Connection) -> Iterator[None]:
    """Explains the error of a user without the rights for the performance schema."""
    try:
        yield
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _FORBIDDEN:
            raise
        user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user
        raise RqpsError(
            f"the performance schema can't be verified: {error.args[1]}",
            fix=f"let this user read and set it: GRANT SELECT, UPDATE ON performance_schema.* TO {user}; "
            f"GRANT PROCESS ON *.* TO {user}",
        ) from error


def schema_rows(connection: Connection, table: str, which: str = "", columns: str = "*") -> list[Row]:
    """Rows of a table of the performance schema, by column names in lower case; none where it has no such table."""
    with explained(connection), connection.cursor(DictCursor) as cursor:
        try:
            cursor.execute(f"SELECT {columns} FROM performance_schema.{table} {which}")
        except pymysql.err.MySQLError as error:
            if error.args[0] in (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR):  # the second where it was compiled without
                return []
            raise
        return [{str(name).lower(): value for name, value in row.items()} for row in cursor.fetchall()]


def read_setup(connection: Connection) -> Found:
    """The settings of the performance schema now."""
    read = partial(schema_rows, connection)
    actors = (f"actor {row['user']}@{row['host']}: {_switches(row)}" for row in read("setup_actors"))
    objects = (
        f"object {row['object_type']} {row['object_schema']}.{row['object_name']}: {_switches(row)}"
        for row in read("setup_objects")
    )
    timers = (f"timer {row['name']}: {row['timer_name']}" for row in read("setup_timers"))
    threads = read("threads", "WHERE processlist_id IS NULL OR processlist_id <> CONNECTION_ID()")
    unwatched = (str(row["name"]) for row in threads if row.get("instrumented", "YES") != "YES")
    return Found(
        instruments={str(row["name"]): _state(row) for row in read("setup_instruments")},
        consumers={str(row["name"]): row["enabled"] == "YES" for row in read("setup_consumers")},
        others=tuple(sorted([*actors, *objects, *timers])),
        thread_classes={str(row["name"]): row["enabled"] == "YES" for row in read("setup_threads")},
        threads_unwatched=tuple(sorted(unwatched)),
    )


def _state(row: Row) -> State:
    if row["enabled"] != "YES":
        return "off"
    return "timed" if row["timed"] == "YES" else "counted"


def _switches(row: Row) -> str:
    """The switches of a row; before 5.7 an actor has none, and is watched by being there."""
    return ", ".join(f"{name} {row[name]}" for name in ("enabled", "timed", "history") if name in row) or "watched"


def read_written(connection: Connection) -> dict[str, str]:
    """The counters that SHOW GLOBAL STATUS lacks: the redo log's sequence number and, where the performance schema
    watches files, the bytes written to each kind of them."""
    match = _REDO.search(str(query(connection, "SHOW ENGINE INNODB STATUS")[0][2]))
    columns = "event_name, sum_number_of_bytes_write AS written"
    rows = schema_rows(connection, "file_summary_by_event_name", "WHERE sum_number_of_bytes_write > 0", columns)
    files = {f"{FILES}{str(row['event_name']).removeprefix(_FILE)}": str(row["written"]) for row in rows}
    return files | ({REDO_LSN: match[1]} if match else {})


def memory_status(connection: Connection) -> dict[str, int]:
    """The sizes that the performance schema reports of its own memory."""
    rows = query(connection, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
    return {str(name): int(value) for _, name, value in rows}


def read_known(connection: Connection) -> Known:
    """All that a server knows of itself before anything is asked of it."""
    variables = read_variables(connection)
    if "performance_schema" not in variables:  # compiled without
        return Known(variables=variables)
    memory = Counter[str]()  # a table can have more than one part: its rows, and the texts of its statements
    for name, value in memory_status(connection).items():
        if part := _TABLE_OR_PART.fullmatch(name):
            memory[part["table"]] += value
    return Known(**vars(read_setup(connection)), variables=variables, memory_bytes=memory)
