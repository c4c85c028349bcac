"""How the server is set, as it reports it: every variable, and what its performance schema records."""

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pymysql
from pymysql.cursors import DictCursor

from rqps.store.schemas import SETTINGS

Row = dict[str, Any]


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


def read_settings(connection: "pymysql.Connection[Any]") -> pl.DataFrame:
    """The table `settings`. A setup table that this version does not have gives no rows."""
    with connection.cursor(DictCursor) as cursor:
        return pl.DataFrame([*_variables(cursor), *_setup(cursor)], schema=SETTINGS)


def _variables(cursor: "DictCursor") -> Iterator[Row]:
    cursor.execute("SHOW GLOBAL VARIABLES")
    for row in cursor.fetchall():
        name, value = row.values()
        yield {"kind": "variable", "name": str(name).lower(), "value": str(value)}


def _timers(cursor: "DictCursor") -> Iterator[Row]:
    """Of each clock that can be had its frequency, its resolution and its overhead: the cycles to read it."""
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
