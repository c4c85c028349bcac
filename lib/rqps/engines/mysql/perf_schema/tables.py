"""The setup tables of a running server, read as they are in its version."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from rqps.engines.mysql.instance import Connection, query
from rqps.errors import RqpsError
from rqps.study.perf_schema import State

_FORBIDDEN = (
    ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
)


@dataclass(frozen=True)
class Found:
    """What a server says of its performance schema. A table that its version does not have is empty here."""

    instruments: Mapping[str, State]
    consumers: Mapping[str, bool]
    others: tuple[str, ...]
    """Rows of setup_actors, setup_objects and setup_timers, in words."""
    thread_classes: Mapping[str, bool]
    threads_unwatched: tuple[str, ...]
    """Threads that are there and whose events are not recorded; the one that reads this is none of them."""


@contextmanager
def told(connection: Connection) -> Iterator[None]:
    """Says what a user lacks who may not read or set the performance schema, and what a version has no table for."""
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
                f"the performance schema of this version can't tell that: {error.args[1]}",
                fix="ask for a scenario that this version has, or take a later one",
            ) from error
        raise


def read_setup(connection: Connection) -> Found:
    """What is set now."""
    with told(connection):
        there = {str(name).lower() for (name,) in query(connection, "SHOW TABLES FROM performance_schema")}
        read = _Reader(connection, there)
        others = [
            *(f"actor {row['user']}@{row['host']}: {_switched(row)}" for row in read("setup_actors")),
            *(
                f"object {row['object_type']} {row['object_schema']}.{row['object_name']}: {_switched(row)}"
                for row in read("setup_objects")
            ),
            *(f"timer {row['name']}: {row['timer_name']}" for row in read("setup_timers")),
        ]
        threads = read("threads", "WHERE processlist_id IS NULL OR processlist_id <> CONNECTION_ID()")
        return Found(
            instruments={str(row["name"]): _state(row) for row in read("setup_instruments")},
            consumers={str(row["name"]): row["enabled"] == "YES" for row in read("setup_consumers")},
            others=tuple(sorted(others)),
            thread_classes={str(row["name"]): row["enabled"] == "YES" for row in read("setup_threads")},
            threads_unwatched=tuple(
                sorted(str(row["name"]) for row in threads if row.get("instrumented", "YES") != "YES")
            ),
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


def _switched(row: Mapping[str, Any]) -> str:
    """The switches of a row; before 5.7 an actor has none, and is watched by being there."""
    return ", ".join(f"{name} {row[name]}" for name in ("enabled", "timed", "history") if name in row) or "watched"
