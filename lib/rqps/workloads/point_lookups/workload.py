"""The point lookups: a table made and filled as published, and each query asked again and again.

One server is asked by mysqlslap, as published. It can't change servers, so those of a duet are asked by sysbench.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Unpack

import pymysql

from rqps.engines.mysql.instance import WHOLE_TABLE_PATIENCE_S, Connection, Server, query
from rqps.engines.mysql.reports import Plan, check_connections, explain, plan_row
from rqps.engines.sources.programs import sysbench
from rqps.errors import RqpsError
from rqps.store.manifest import Warning_
from rqps.workloads import Answer, Checked, How, Workload
from rqps.workloads.point_lookups.generator import Generator, ask_once, mysqlslap
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.steps import FIRST_ROWS, ROW, TABLE, VOLATILE, Step, database, find
from rqps.workloads.sysbench.generator import Generator as Sysbench
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step as SysbenchStep
from rqps.workloads.table_check import check_table, must_be

ROWS_AT_ONCE = 10
COLUMNS = {"i": "int", "j": "int", "k": "int", "l": "int"}
INDEXES = {"PRIMARY": ["i"], "xj": ["j"], "xjk": ["j", "k"]}
TABLE_IS_FULL = 1114
USABLE = ("YES", "DEFAULT")
NOT_USABLE = {
    "NO": "it was built without it",
    "DISABLED": "its options disable it",
    "FORBIDDEN": "its config disables it",
}
WHOLE_TABLE = ("ALL", "index")
"""Kinds of access that read every row, or every entry of an index."""


class PointLookups(Workload):
    def data_name(self, parameters: PointLookupsParameters) -> str:
        return f"point-lookups-{'-'.join(sorted(_lasting(parameters))) or 'none'}-{parameters.table_rows}"

    def load(self, server: Server, parameters: PointLookupsParameters) -> None:
        for engine in _lasting(parameters):
            make_table(server, engine, parameters.table_rows)

    def prepare(self, server: Server, parameters: PointLookupsParameters) -> None:
        with closing(server.connect()) as connection:
            check_connections(connection, parameters.connections)
        for engine in parameters.engines:
            if engine in VOLATILE:
                make_table(server, engine, parameters.table_rows)
            check_rows(server, engine, parameters.table_rows)

    def steps(self, parameters: PointLookupsParameters) -> Sequence[str]:
        return parameters.steps

    def clients(self, step: str, parameters: PointLookupsParameters) -> int:  # noqa: ARG002 the name has it
        return find(step).clients

    def places_connections(self, servers: int) -> bool:
        return servers > 1

    def check(self, server: Server, step: str, parameters: PointLookupsParameters) -> Checked:  # noqa: ARG002
        """The plan of a step. One that differs from what the kind is named for is a finding: a warning, no error."""
        described = find(step)
        plan = _plan(server, described)
        differs = difference(described, plan)
        warnings = (Warning_(kind="plan", text=differs, step=step),) if differs else ()
        return Checked(plans=(plan_row(step, described.kind.query, plan),), warnings=warnings)

    @contextmanager
    def generating(
        self, servers: Sequence[Server], step: str, parameters: PointLookupsParameters, **how: Unpack[How]
    ) -> Iterator[Generator | Sysbench]:
        """The load of a step after its warm-up, by mysqlslap on one server, and by sysbench on several in turns.

        The queries of mysqlslap are fewer where each reads all rows.
        """
        asked = find(step)
        if len(servers) > 1:
            with Sysbench(servers, *_sliced(asked, parameters), **how) as slices:
                yield slices
            return
        server, slap, warmup_s = servers[0], mysqlslap(parameters.program), 0.0
        scans = _plan(server, asked)["type"] in WHOLE_TABLE
        if queries := parameters.warmup_of(scans):
            warmup_s = ask_once(slap, server, asked, queries=queries, cpus=how["cpus"])
        queries_of = parameters.counted_of if how.get("counted") else parameters.queries_of
        with Generator(slap, server, asked, queries_of(asked.clients, scans), **how) as load:
            load.warmup_s = warmup_s
            yield load

    def answers(self, step: str, parameters: PointLookupsParameters, load: Generator | Sysbench) -> Sequence[Answer]:
        asked = find(step)
        columns = {
            "kind": asked.kind.name,
            "group": asked.group,
            "table_position": parameters.steps.index(step),
            "writes": False,
            "storage_engine": asked.engine,
            "unit": "query",
        }
        return load.answers(step, columns)

    def tools(self, parameters: PointLookupsParameters, servers: int) -> dict[str, str]:
        if servers > 1:
            return {"sysbench": sysbench().version}
        return {"mysqlslap": mysqlslap(parameters.program).words}


def _sliced(step: Step, parameters: PointLookupsParameters) -> tuple[SysbenchStep, SysbenchParameters]:
    """The same queries as a step of sysbench: as text, not prepared, on the same table."""
    described = SysbenchStep(
        name=step.name,
        kind=step.kind.name,
        group=step.group,
        label=step.name,
        range_size=1,
        statements=(step.kind.query,),
        prepared=False,
        options={"mysql_db": step.database},
    )
    asked = SysbenchParameters(
        threads=step.clients,
        seconds=parameters.duet_seconds,
        warmup_seconds=parameters.warmup_seconds or 0,
        slice_ms=parameters.slice_ms,
    )
    return described, asked


def _lasting(parameters: PointLookupsParameters) -> list[str]:
    """Engines whose rows are there again when a server starts on a copy of the loaded data."""
    return [engine for engine in parameters.engines if engine not in VOLATILE]


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


def make_table(server: Server, engine: str, rows: int) -> None:
    """Make and fill the table of an engine, in a database of its own."""
    with closing(server.connect()) as control:
        check_engine(control, engine, server.build.name)
        query(control, f"CREATE DATABASE {database(engine)}")
    try:
        with closing(server.connect(database(engine), WHOLE_TABLE_PATIENCE_S)) as connection:
            for statement in statements(engine, rows):
                query(connection, statement)
    except pymysql.err.MySQLError as error:
        fix = f"see what the server says of engine {engine}, or take it out of engines"
        if error.args[0] == TABLE_IS_FULL:
            fix = "set max_heap_table_size in the config to more, or ask for fewer rows"
        raise RqpsError(
            f"{server.build.name}: a table of {rows} rows could not be made with engine {engine}: {error.args[-1]}",
            fix=fix,
        ) from error


def check_engine(connection: Connection, engine: str, build: str) -> None:
    """Refuse an engine that the server does not have, or that its config forbids."""
    support = dict(query(connection, "SELECT LOWER(engine), support FROM information_schema.engines ORDER BY engine"))
    for _, disabled in query(connection, "SHOW GLOBAL VARIABLES LIKE 'disabled_storage_engines'"):
        support |= dict.fromkeys(disabled.lower().split(","), "FORBIDDEN")
    if support.get(engine) not in USABLE:
        usable = ", ".join(name for name, word in support.items() if word in USABLE)
        raise RqpsError(
            f"engines: {build} can't make a table with engine {engine!r}: "
            + NOT_USABLE.get(str(support.get(engine)), "it has no such engine"),
            fix=f"take it out of engines in the study's parameters; this server has {usable}",
        )


def check_rows(server: Server, engine: str, rows: int) -> None:
    """Refuse a table that is not what was asked for; every row is read for it."""
    schema = database(engine)
    where = f"{schema}.{TABLE}"
    with closing(server.connect(patience_s=WHOLE_TABLE_PATIENCE_S)) as connection:
        check_engine(connection, engine, server.build.name)
        check_table(connection, schema, TABLE, engine, COLUMNS, INDEXES)
        count = query(connection, f"SELECT COUNT(*), SUM(j = i AND k = i) FROM {where}")[0]
        must_be(where, "rows", rows, int(count[0]))
        must_be(where, "rows with j = i and k = i", rows, int(count[1]))
        fetched = query(connection, f"SELECT j, k FROM {where} WHERE i = {ROW}")
        must_be(where, f"row {ROW}", [(ROW, ROW)], fetched)


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
    with closing(server.connect(step.database)) as connection:
        return explain(connection, step.kind.query)


WORKLOAD = PointLookups
