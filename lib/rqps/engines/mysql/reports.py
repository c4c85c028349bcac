"""Reads a server's own reports: variables, status, performance schema settings and query plans."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from rqps.engines import OS_WAITS, SPIN_ROUNDS, SPIN_WAITS, CountOf
from rqps.engines.asked import Connections
from rqps.engines.mysql.instance import Connection, query
from rqps.engines.mysql.perf_schema import State
from rqps.engines.mysql.written_bytes import FILE_BYTES, REDO_LSN
from rqps.errors import RqpsError

Row = dict[str, Any]
Plan = dict[str, Any]
LONGEST_STATEMENT = 300
_FILE = "wait/io/file/"
_REDO = re.compile(r"Log sequence number\s+(\d+)")
_SPINS = re.compile(r"^(Mutex|RW-\w+) spin(?: wait)?s (\d+), rounds (\d+), OS waits (\d+)", re.MULTILINE)
_RESERVED = re.compile(r"^OS WAIT ARRAY INFO: reservation count (\d+)", re.MULTILINE)
_OF_LATCH = {"calls": SPIN_WAITS, "spins": SPIN_ROUNDS, "waits": OS_WAITS, "os_waits": OS_WAITS}
"""Maps the counters in SHOW ENGINE INNODB MUTEX to those in the table `status`. `calls` are only the calls that found
the mutex taken."""
_TABLE_OR_PART = re.compile(r"(?P<table>\w+)\.(.*\.)?memory")
_FORBIDDEN = {code for name, code in vars(ER).items() if name.endswith("ACCESS_DENIED_ERROR")}


def read_variables(connection: Connection, pattern: str = "%") -> dict[str, str]:
    """Maps the lower-case names of global variables to their values."""
    return _pairs(connection, f"SHOW GLOBAL VARIABLES LIKE '{pattern}'")


def read_status(connection: Connection, pattern: str = "%") -> dict[str, str]:
    """Maps the lower-case names of global status counters to their values."""
    return _pairs(connection, f"SHOW GLOBAL STATUS LIKE '{pattern}'")


def _pairs(connection: Connection, statement: str) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in query(connection, statement)}


def is_55(connection: Connection) -> bool:
    """True for MySQL 5.5. Its EXPLAIN supports only SELECT, it reports some numbers in hexadecimal, and its purge may
    leave rows unpurged until the next transaction commits."""
    return str(query(connection, "SELECT VERSION()")[0][0]).startswith("5.5.")


def check_connections(connection: Connection, asked: Connections) -> None:
    """Fails if the load needs more connections than the server accepts: otherwise a step would fail in its middle."""
    most = int(query(connection, "SELECT @@max_connections")[0][0])
    asked.refuse_beyond(most)


def explain(connection: Connection, statement: str) -> Plan:
    """The first row of a statement's plan."""
    return next(iter(explain_all(connection, statement)), {})


def explain_all(connection: Connection, statement: str) -> list[Plan]:
    """The rows of a statement's plan. Each row maps the names of EXPLAIN's columns to their values.

    Since 9.0, EXPLAIN returns a tree unless FORMAT=TRADITIONAL is given. 5.5 does not know that clause and explains
    only SELECT, so a SELECT with the same condition stands in for an UPDATE or DELETE.
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
"""Maps each setup table to the kind, the name and the value of its rows in the table `settings`. No version has all
of them: 5.5 has only instruments, consumers and timers; 9.7 has no timers."""


def read_settings(connection: Connection) -> list[Row]:
    """Rows of the table `settings`: every variable, and the rows of the performance schema's setup tables."""
    rows: list[Row] = [
        {"kind": "variable", "name": name, "value": value} for name, value in read_variables(connection).items()
    ]
    for timer in schema_rows(connection, "performance_timers"):
        name = timer.pop("timer_name")  # the other columns are the timer's frequency, resolution and overhead
        facts = {fact.removeprefix("timer_"): str(value) for fact, value in timer.items() if value is not None}
        rows += [{"kind": "timer", "name": f"{name} {fact}", "value": value} for fact, value in facts.items()]
    for table, (kind, name, column) in SETUP_TABLES.items():
        for row in schema_rows(connection, table):
            value = row.get(column, "YES")  # before 5.7, rows of actors have no switch: all listed actors are watched
            rows.append({"kind": kind, "name": name.format(**row), "value": value, "timed": row.get("timed")})
    return rows


@dataclass(frozen=True)
class Found:
    """The settings of a performance schema. A field is empty if the server's version lacks the setup table for it."""

    instruments: Mapping[str, State] = field(default_factory=dict)
    consumers: Mapping[str, bool] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Rows of setup_actors, setup_objects and setup_timers, as texts."""
    thread_classes: Mapping[str, bool] = field(default_factory=dict)
    """Maps each class of threads in setup_threads, which exists since 8.0, to True if it is enabled."""
    threads_unwatched: tuple[str, ...] = ()
    """Names of running threads whose events are not recorded, except the thread of the connection that reads them."""


@dataclass(frozen=True)
class Known(Found):
    """The default settings of a build: all of its variables and, if its performance schema is on, the settings of the
    performance schema."""

    variables: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """Maps each table of the performance schema to its memory at the sizes given by `variables`."""


@contextmanager
def explained(connection: Connection) -> Iterator[None]:
    """Turns the error of a user without privileges on the performance schema into one that names the GRANTs
    needed."""
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
    """Rows of a table of the performance schema, each as a mapping from lower-case column names to values. Empty if
    there is no such table."""
    with explained(connection), connection.cursor(DictCursor) as cursor:
        try:
            cursor.execute(f"SELECT {columns} FROM performance_schema.{table} {which}")
        except pymysql.err.MySQLError as error:
            # BAD_DB_ERROR means that the performance schema was compiled out.
            if error.args[0] in (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR):
                return []
            raise
        return [{str(name).lower(): value for name, value in row.items()} for row in cursor.fetchall()]


def read_setup(connection: Connection) -> Found:
    """The current settings of the performance schema."""
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
    """The switches of a row of a setup table, as text. Before 5.7, rows of actors have none: all listed actors are
    watched."""
    return ", ".join(f"{name} {row[name]}" for name in ("enabled", "timed", "history") if name in row) or "watched"


def read_further_status(connection: Connection) -> dict[str | CountOf, str]:
    """The counters that SHOW GLOBAL STATUS lacks: the redo log's sequence number, the waits for InnoDB's latches and,
    if the performance schema instruments files, the bytes written to each kind of files."""
    report = str(query(connection, "SHOW ENGINE INNODB STATUS")[0][2])
    match = _REDO.search(report)
    columns = "event_name, sum_number_of_bytes_write AS written"
    rows = schema_rows(connection, "file_summary_by_event_name", "WHERE sum_number_of_bytes_write > 0", columns)
    status: dict[str | CountOf, str] = {
        CountOf(FILE_BYTES, str(row["event_name"]).removeprefix(_FILE)): str(row["written"]) for row in rows
    }
    status |= waits_for_latches(report, query(connection, "SHOW ENGINE INNODB MUTEX")).items()
    if match:
        status[REDO_LSN] = match[1]
    return status


def waits_for_latches(report: str, mutexes: Iterable[tuple[Any, ...]]) -> dict[CountOf, str]:
    """The waits for all latches and for each kind, from SHOW ENGINE INNODB STATUS, and for single latches, from the
    rows of SHOW ENGINE INNODB MUTEX. Latches of one name are added up."""
    counts = Counter({CountOf(OS_WAITS, "all"): int(number) for number in _RESERVED.findall(report)})
    for kind, *numbers in _SPINS.findall(report):
        for quantity, number in zip((SPIN_WAITS, SPIN_ROUNDS, OS_WAITS), numbers, strict=True):
            counts[CountOf(quantity, f"all {kind.lower()}")] += int(number)
    for _, name, text in mutexes:
        for counter, number in re.findall(r"(\w+)=(\d+)", text):
            counts[CountOf(_OF_LATCH[counter], name.lower())] += int(number)
    return {of_latch: str(count) for of_latch, count in counts.items()}


def memory_status(connection: Connection) -> dict[str, int]:
    """Maps the names in SHOW ENGINE PERFORMANCE_SCHEMA STATUS to their values; names that end in `memory` have
    bytes."""
    rows = query(connection, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
    return {str(name): int(value) for _, name, value in rows}


def read_known(connection: Connection) -> Known:
    """The variables, performance schema settings and memory sizes of a server that runs with default settings."""
    variables = read_variables(connection)
    if "performance_schema" not in variables:  # the server was compiled without it
        return Known(variables=variables)
    memory = Counter[str]()  # a table can have several parts, such as its rows and the texts of its statements
    for name, value in memory_status(connection).items():
        if part := _TABLE_OR_PART.fullmatch(name):
            memory[part["table"]] += value
    return Known(**vars(read_setup(connection)), variables=variables, memory_bytes=memory)
