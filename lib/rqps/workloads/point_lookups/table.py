"""The table: made and filled as published, and looked at before anything is measured."""

import re
from collections.abc import Iterator
from typing import Any

import pymysql

from rqps.engines.instance import Connection, Server, query
from rqps.errors import RqpsError
from rqps.workloads.point_lookups.steps import FIRST_ROWS, ROW, TABLE, database

ROWS_AT_ONCE = 10
COLUMNS = {"i": "int", "j": "int", "k": "int", "l": "int"}
INDEXES = {"PRIMARY": ["i"], "xj": ["j"], "xjk": ["j", "k"]}
TABLE_IS_FULL = 1114
LOAD_AGAIN = "remove the loaded data of this build from the cache; they are made again"


def statements(engine: str, rows: int) -> Iterator[str]:
    """What makes the table, one after the other."""
    yield f"create table {TABLE} (i int primary key auto_increment, j int, k int, l int) engine={engine}"
    for _ in range(FIRST_ROWS // ROWS_AT_ONCE):
        yield f"insert into {TABLE} values {','.join(['(null,0,0,0)'] * ROWS_AT_ONCE)}"
    while rows > FIRST_ROWS:
        yield f"insert into {TABLE} select null,0,0,0 from {TABLE}"
        rows //= 2
    yield f"update {TABLE} set j=i, k=i"
    yield f"create index xj on {TABLE}(j)"
    yield f"create index xjk on {TABLE}(j,k)"


def make(server: Server, engine: str, rows: int) -> None:
    """Makes and fills the table of an engine, in a database of its own."""
    control = server.connect()
    check_engine(control, engine, server.build.name)
    query(control, f"CREATE DATABASE {database(engine)}")
    control.close()
    connection = server.connect(database(engine))
    try:
        for statement in statements(engine, rows):
            query(connection, statement)
    except pymysql.err.MySQLError as error:
        raise _not_made(server, engine, rows, error) from error
    connection.close()


def _not_made(server: Server, engine: str, rows: int, error: pymysql.err.MySQLError) -> RqpsError:
    fix = f"see what the server says of engine {engine}, or take it out of engines"
    if error.args[0] == TABLE_IS_FULL:
        fix = "set max_heap_table_size in the config to more, or ask for fewer rows"
    return RqpsError(
        f"{server.build.name}: a table of {rows} rows could not be made with engine {engine}: {error.args[-1]}",
        fix=fix,
    )


def check_engine(connection: Connection, engine: str, build: str) -> None:
    """The server has the engine, and nothing forbids it."""
    told = query(connection, "SELECT LOWER(engine), support FROM information_schema.engines ORDER BY engine")
    usable = [str(name) for name, support in told if support in ("YES", "DEFAULT")]
    forbidden = _variable(connection, "disabled_storage_engines").lower().split(",")
    if engine not in usable or engine in forbidden:
        why = "its config disables it" if engine in forbidden else dict(told).get(engine, "it has no such engine")
        usable = [name for name in usable if name not in forbidden]
        raise RqpsError(
            f"engines: {build} can't make a table with engine {engine!r}: "
            + {"NO": "it was built without it", "DISABLED": "its options disable it"}.get(why, why),
            fix=f"take it out of engines in the study's parameters; this server has {', '.join(usable)}",
        )


def check_table(server: Server, engine: str, rows: int) -> None:
    """The table is there and is what was asked for; every row is read for it."""
    connection = server.connect()
    check_engine(connection, engine, server.build.name)
    schema = database(engine)
    which = f"WHERE table_schema = '{schema}' AND table_name = '{TABLE}'"
    found = query(connection, f"SELECT LOWER(engine) FROM information_schema.tables {which}")
    _must_be(schema, "engine", engine, found[0][0] if found else "no such table")
    told = query(connection, f"SELECT column_name, column_type FROM information_schema.columns {which}")
    columns = {str(name): re.sub(r"int\(\d+\)", "int", _text(kind)) for name, kind in told}
    _must_be(schema, "columns", COLUMNS, columns)
    told = query(
        connection,
        f"SELECT index_name, column_name FROM information_schema.statistics {which} ORDER BY 1, seq_in_index",
    )
    indexes: dict[str, list[str]] = {}
    for index, column in told:
        indexes.setdefault(str(index), []).append(str(column))
    _must_be(schema, "indexes", INDEXES, indexes)
    count = query(connection, f"SELECT COUNT(*), SUM(j = i AND k = i) FROM {schema}.{TABLE}")[0]
    _must_be(schema, "rows", rows, int(count[0]))
    _must_be(schema, "rows with j = i and k = i", rows, int(count[1]))
    found = query(connection, f"SELECT j, k FROM {schema}.{TABLE} WHERE i = {ROW}")
    _must_be(schema, f"row {ROW}", [(ROW, ROW)], found)
    connection.close()


def _variable(connection: Connection, name: str) -> str:
    found = query(connection, f"SHOW GLOBAL VARIABLES LIKE '{name}'")
    return str(found[0][1]) if found else ""


def _text(value: Any) -> str:
    """A word of information_schema, which some versions give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _must_be(schema: str, what: str, asked: Any, found: Any) -> None:
    if asked != found:
        raise RqpsError(f"{schema}.{TABLE}: {what}: asked for {_words(asked)}, found {_words(found)}", fix=LOAD_AGAIN)


def _words(value: Any) -> str:
    match value:
        case dict():
            told = [
                f"{name} {of if isinstance(of, str) else '(' + ', '.join(of) + ')'}" for name, of in value.items()
            ]
            return ", ".join(told) or "none"
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value)
