"""The table: made and filled as published, and checked with its plans before anything is measured."""

from collections.abc import Iterator

import pymysql

from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.reports import Plan, explain, plan_row
from rqps.errors import RqpsError
from rqps.store.manifest import Warning_
from rqps.workloads.point_lookups.steps import FIRST_ROWS, ROW, TABLE, Step, database
from rqps.workloads.protocol import Checked
from rqps.workloads.table_check import LOAD_AGAIN, Table, check_table, must_be

ROWS_AT_ONCE = 10
COLUMNS = {"i": "int", "j": "int", "k": "int", "l": "int"}
INDEXES = {"PRIMARY": ["i"], "xj": ["j"], "xjk": ["j", "k"]}
TABLE_IS_FULL = 1114
WHOLE_TABLE = ("ALL", "index")
"""Kinds of access that read every row, or every entry of an index."""


def statements(engine: str, rows: int) -> Iterator[str]:
    """The statements that make the table, in their order."""
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
    found = query(connection, "SELECT LOWER(engine), support FROM information_schema.engines ORDER BY engine")
    usable = [str(name) for name, support in found if support in ("YES", "DEFAULT")]
    forbidden = _variable(connection, "disabled_storage_engines").lower().split(",")
    if engine not in usable or engine in forbidden:
        why = "its config disables it" if engine in forbidden else dict(found).get(engine, "it has no such engine")
        usable = [name for name in usable if name not in forbidden]
        raise RqpsError(
            f"engines: {build} can't make a table with engine {engine!r}: "
            + {"NO": "it was built without it", "DISABLED": "its options disable it"}.get(why, why),
            fix=f"take it out of engines in the study's parameters; this server has {', '.join(usable)}",
        )


def check_rows(server: Server, engine: str, rows: int) -> None:
    """The table is there and is what was asked for; every row is read for it."""
    connection = server.connect()
    check_engine(connection, engine, server.build.name)
    schema = database(engine)
    check_table(connection, schema, TABLE, Table(engine, COLUMNS, INDEXES), fix=LOAD_AGAIN)
    count = query(connection, f"SELECT COUNT(*), SUM(j = i AND k = i) FROM {schema}.{TABLE}")[0]
    must_be(f"{schema}.{TABLE}", "rows", rows, int(count[0]))
    must_be(f"{schema}.{TABLE}", "rows with j = i and k = i", rows, int(count[1]))
    found = query(connection, f"SELECT j, k FROM {schema}.{TABLE} WHERE i = {ROW}")
    must_be(f"{schema}.{TABLE}", f"row {ROW}", [(ROW, ROW)], found)
    connection.close()


def check_plan(server: Server, step: Step) -> Checked:
    """The plan of a step. One that differs from what the kind is named for is a finding: a warning, no error."""
    plan = _plan(server, step)
    differs = difference(step, plan)
    warnings = (Warning_(kind="plan", text=differs, step=step.name),) if differs else ()
    return Checked(plans=(plan_row(step.name, step.kind.query, plan),), warnings=warnings)


def reads_whole_table(server: Server, step: Step) -> bool:
    """True if each query of a step reads the whole table."""
    return _plan(server, step)["type"] in WHOLE_TABLE


def difference(step: Step, plan: Plan) -> str:
    """The difference of a plan from what the kind is named for, in words; empty where there is none."""
    kind, key = step.kind, plan["key"]
    if key != kind.index:
        by = f"by index {key}" if key else f"all of about {plan['rows']} rows by no index"
        return f"{step.engine} reads {by}, not by {kind.index}: {kind.query}"
    if plan["type"] in WHOLE_TABLE:
        return f"{step.engine} reads all of index {key}: {kind.query}"
    covered = "Using index" in str(plan["Extra"]).split("; ")
    if covered != kind.covers:
        how = "alone" if covered else "and the row with it"
        return f"{step.engine} reads index {key} {how}, which is not what the kind is named for: {kind.query}"
    return ""


def _plan(server: Server, step: Step) -> Plan:
    connection = server.connect(step.database)
    plan = explain(connection, step.kind.query)
    connection.close()
    return plan


def _variable(connection: Connection, name: str) -> str:
    found = query(connection, f"SHOW GLOBAL VARIABLES LIKE '{name}'")
    return str(found[0][1]) if found else ""
