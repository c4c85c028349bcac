"""The setup tables of the performance schema, read as a version has them: of a server, and once of every build."""

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from rqps.engines import Say
from rqps.engines.cache import copy_folder, made_once
from rqps.engines.mysql import data
from rqps.engines.mysql.data import Origin
from rqps.engines.mysql.instance import Connection, query, running
from rqps.engines.mysql.reports import read_variables
from rqps.errors import RqpsError
from rqps.study.perf_schema import State

FILE = "perf_schema.json"
_TABLE_OR_PART = re.compile(r"(?P<table>\w+)\.(.*\.)?memory")
_FORBIDDEN = (
    ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
)


@dataclass(frozen=True)
class Found:
    """The settings of a server's performance schema. A table that its version does not have is empty here."""

    instruments: Mapping[str, State]
    consumers: Mapping[str, bool]
    others: tuple[str, ...]
    """Rows of setup_actors, setup_objects and setup_timers, in words."""
    thread_classes: Mapping[str, bool]
    threads_unwatched: tuple[str, ...]
    """Threads that are there and whose events are not recorded; the one that reads this is none of them."""


@contextmanager
def explained(connection: Connection) -> Iterator[None]:
    """Explains the error of a user without the rights for the performance schema, or of a table that is not there."""
    try:
        yield
    except pymysql.err.MySQLError as error:
        code = error.args[0]
        if code in _FORBIDDEN:
            user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user
            raise RqpsError(
                f"the performance schema can't be verified: {error.args[1]}",
                fix=f"let this user read and set it: GRANT SELECT, UPDATE ON performance_schema.* TO {user}; "
                f"GRANT PROCESS ON *.* TO {user}",
            ) from error
        if code == ER.NO_SUCH_TABLE:
            raise RqpsError(
                f"the performance schema of this version can't report that: {error.args[1]}",
                fix="ask for a scenario that this version has, or take a later one",
            ) from error
        raise


def tables(connection: Connection) -> frozenset[str]:
    """The tables of the performance schema."""
    with explained(connection):
        return frozenset(str(name).lower() for (name,) in query(connection, "SHOW TABLES FROM performance_schema"))


def read_setup(connection: Connection) -> Found:
    """The settings now."""
    with explained(connection):
        read = _Reader(connection, tables(connection))
        others = [
            *(f"actor {row['user']}@{row['host']}: {_switches(row)}" for row in read("setup_actors")),
            *(
                f"object {row['object_type']} {row['object_schema']}.{row['object_name']}: {_switches(row)}"
                for row in read("setup_objects")
            ),
            *(f"timer {row['name']}: {row['timer_name']}" for row in read("setup_timers")),
        ]
        threads = read("threads", "WHERE processlist_id IS NULL OR processlist_id <> CONNECTION_ID()")
        unwatched = (str(row["name"]) for row in threads if row.get("instrumented", "YES") != "YES")
        return Found(
            instruments={str(row["name"]): _state(row) for row in read("setup_instruments")},
            consumers={str(row["name"]): row["enabled"] == "YES" for row in read("setup_consumers")},
            others=tuple(sorted(others)),
            thread_classes={str(row["name"]): row["enabled"] == "YES" for row in read("setup_threads")},
            threads_unwatched=tuple(sorted(unwatched)),
        )


@dataclass(frozen=True)
class _Reader:
    connection: Connection
    there: Collection[str]

    def __call__(self, table: str, which: str = "") -> list[dict[str, Any]]:
        """The rows of a table, by column names in lower case; none where there is no such table."""
        if table not in self.there:
            return []
        with self.connection.cursor(DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM performance_schema.{table} {which}")
            return [{str(name).lower(): value for name, value in row.items()} for row in cursor.fetchall()]


def _state(row: Mapping[str, Any]) -> State:
    if row["enabled"] != "YES":
        return "off"
    return "timed" if row["timed"] == "YES" else "counted"


def _switches(row: Mapping[str, Any]) -> str:
    """The switches of a row; before 5.7 an actor has none, and is watched by being there."""
    return ", ".join(f"{name} {row[name]}" for name in ("enabled", "timed", "history") if name in row) or "watched"


@dataclass(frozen=True)
class Known:
    """The performance schema of a build, with it on and nothing else asked for."""

    instruments: Mapping[str, State] = field(default_factory=dict)
    consumers: Mapping[str, bool] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    watches_threads: bool = False
    """True if thread classes are switched like instruments, as they are since 8.0."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Its variables that are sizes."""
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """The memory of its tables at those sizes, by table."""


def known(source: Origin, say: Say) -> Known:
    """The performance schema of a build, asked once; an empty one where it was compiled without."""
    if "performance_schema" not in data.variables(source, say):
        return Known()

    def make(work: Path) -> None:
        say(f"{source.build.name}: asking what its performance schema has")
        copy_folder(source.folder / "empty" / "data", work / "data")
        arguments = ("--performance-schema=ON",)
        with (
            running(source.build, work / "data", arguments=arguments, log=work / "asked.err") as server,
            closing(server.connect()) as connection,
        ):
            (work / FILE).write_text(json.dumps(asdict(_ask(connection)), indent=1))
        shutil.rmtree(work / "data")

    folder = made_once(source.folder / "perf-schema", make)
    stored = json.loads((folder / FILE).read_text())
    return Known(**{**stored, "others": tuple(stored["others"])})


def _ask(connection: Connection) -> Known:
    found = read_setup(connection)
    variables = read_variables(connection, "performance_schema%")
    memory: dict[str, int] = {}  # a table can have more than one part: its rows, and the texts of its statements
    for name, value in memory_status(connection):
        if part := _TABLE_OR_PART.fullmatch(name):
            memory[part["table"]] = memory.get(part["table"], 0) + value
    return Known(
        instruments=found.instruments,
        consumers=found.consumers,
        others=found.others,
        watches_threads=bool(found.thread_classes),
        sizes={name: int(value) for name, value in variables.items() if value.lstrip("-").isdecimal()},
        memory_bytes=memory,
    )


def memory_status(connection: Connection) -> Iterator[tuple[str, int]]:
    """The sizes that the performance schema reports of its own memory."""
    for _, name, value in query(connection, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS"):
        yield str(name), int(value)
