"""The point lookups: a table is created and filled as published, and each query is repeated.

mysqlslap runs the load on a single server, as published. mysqlslap can't switch servers and works only with MySQL, so
sysbench runs the load on the servers of a duet and on PostgreSQL.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Unpack

from rqps.engines import Access
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
WHOLE_TABLE_PATIENCE_S = 3600.0
"""Maximum time, in seconds, of a statement that creates, fills or reads the whole table."""


class PointLookups(Workload):
    def data_name(self, parameters: PointLookupsParameters) -> str:
        return f"point-lookups-{'-'.join(sorted(_lasting(parameters))) or 'none'}-{parameters.table_rows}"

    def load(self, server: Any, parameters: PointLookupsParameters) -> None:
        for engine in _lasting(parameters):
            make_table(server, engine, parameters.table_rows)

    def prepare(self, server: Any, parameters: PointLookupsParameters) -> None:
        with closing(server.connect()) as connection:
            connection.dialect.check_connections(connection, parameters.connections)
        for engine in parameters.engines:
            if engine in VOLATILE:
                make_table(server, engine, parameters.table_rows)
            check_rows(server, engine, parameters.table_rows)

    def steps(self, parameters: PointLookupsParameters) -> Sequence[str]:
        return parameters.steps

    def clients(self, step: str, parameters: PointLookupsParameters) -> int:  # noqa: ARG002 the step's name states it
        return find(step).clients

    def places_connections(self, servers: int) -> bool:
        return servers > 1

    def check(self, server: Any, step: str, parameters: PointLookupsParameters) -> Checked:  # noqa: ARG002
        """The plan of a step. A plan other than the one that the kind is named for gives a warning, not an error."""
        described = find(step)
        access = _access(server, described)
        differs = difference(described, access)
        warnings = (Warning_(kind="plan", text=differs, step=step),) if differs else ()
        return Checked(plans=(access.row,), warnings=warnings)

    @contextmanager
    def generating(
        self, servers: Sequence[Any], step: str, parameters: PointLookupsParameters, **how: Unpack[How]
    ) -> Iterator[Generator | Sysbench]:
        """The load of a step after its warm-up: by mysqlslap on a single MySQL server, otherwise by sysbench.

        mysqlslap may run fewer queries if each query reads all rows.
        """
        asked, server = find(step), servers[0]
        scans = _access(server, asked).scans
        if len(servers) > 1 or parameters.by_sysbench:
            with Sysbench(servers, *_for_sysbench(asked, parameters, scans), **how) as load:
                yield load
            return
        slap, warmup_s = mysqlslap(parameters.program), 0.0
        if queries := parameters.warmup_of(scans):
            warmup_s = ask_once(slap, server, asked, queries=queries, cpus=how["cpus"])
        queries_of = parameters.counted_of if how.get("counted") else parameters.queries_of
        with Generator(slap, server, asked, queries_of(asked.clients, scans), **how) as slap_load:
            slap_load.warmup_s = warmup_s
            yield slap_load

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
        if servers > 1 or parameters.by_sysbench:
            return {"sysbench": sysbench().version}
        return {"mysqlslap": mysqlslap(parameters.program).words}


def _for_sysbench(
    step: Step, parameters: PointLookupsParameters, scans: bool
) -> tuple[SysbenchStep, SysbenchParameters]:
    """Describes a step for the generator of the sysbench workload: the same query on the same table, not prepared."""
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
        counted_operations=step.clients * parameters.counted_of(step.clients, scans),
    )
    return described, asked


def _lasting(parameters: PointLookupsParameters) -> list[str]:
    """Engines that store rows on disk, so that a server with a copy of the loaded data has these rows."""
    return [engine for engine in parameters.engines if engine not in VOLATILE]


def statements(engine: str, rows: int, sql: Any) -> Iterator[str]:
    """The statements that create and fill the table, in their order, in the server's SQL."""
    number = sql.NEXT_NUMBER.format(table=TABLE, key="i")
    yield f"create table {TABLE} (i {sql.NUMBERED}, j int, k int, l int){sql.stored_by(engine)}"
    for _ in range(FIRST_ROWS // ROWS_AT_ONCE):
        yield f"insert into {TABLE} values {','.join([f'({number},0,0,0)'] * ROWS_AT_ONCE)}"
    while rows > FIRST_ROWS:
        yield f"insert into {TABLE} select {number},0,0,0 from {TABLE}"
        rows //= 2
    yield f"update {TABLE} set j=i, k=i"
    yield f"create index xj on {TABLE}(j)"
    yield f"create index xjk on {TABLE}(j,k)"
    yield from (statement.format(table=TABLE) for statement in sql.AT_REST)


def make_table(server: Any, engine: str, rows: int) -> None:
    """Make and fill the table of an engine, in a database of its own."""
    with closing(server.connect()) as control:
        check_engine(control, engine, server.build.name)
        control.dialect.query(control, f"CREATE SCHEMA {database(engine)}")
    what = f"a table of {rows} rows with engine {engine}"
    with server.explaining(what), closing(server.connect(database(engine), WHOLE_TABLE_PATIENCE_S)) as connection:
        for statement in statements(engine, rows, connection.dialect):
            connection.dialect.query(connection, statement)


def check_engine(connection: Any, engine: str, build: str) -> None:
    """Raise an error if the server does not have this engine, or if its config forbids it."""
    engines = connection.dialect.storage_engines(connection)
    if reason := engines.get(engine, "it has no such engine"):
        usable = ", ".join(name for name, why_not in engines.items() if not why_not)
        raise RqpsError(
            f"engines: {build} can't make a table with engine {engine!r}: {reason}",
            fix=f"take it out of engines in the study's parameters; this server has {usable}",
        )


def check_rows(server: Any, engine: str, rows: int) -> None:
    """Raise an error if the table has other columns, indexes or rows than requested; this reads every row."""
    schema = database(engine)
    where = f"{schema}.{TABLE}"
    with closing(server.connect(patience_s=WHOLE_TABLE_PATIENCE_S)) as connection:
        query = connection.dialect.query
        check_engine(connection, engine, server.build.name)
        check_table(connection, schema, TABLE, engine, COLUMNS, INDEXES)
        numbered = "COUNT(CASE WHEN j = i AND k = i THEN 1 END)"
        ((count, as_numbered),) = query(connection, f"SELECT COUNT(*), {numbered} FROM {where}")
        must_be(where, "rows", rows, int(count))
        must_be(where, "rows with j = i and k = i", rows, int(as_numbered))
        fetched = query(connection, f"SELECT j, k FROM {where} WHERE i = {ROW}")
        must_be(where, f"row {ROW}", [(ROW, ROW)], [tuple(map(int, row)) for row in fetched])


def difference(step: Step, access: Access) -> str:
    """The difference between a plan and the plan that the kind is named for, in words; empty if there is none."""
    kind, key = step.kind, access.key
    if key not in kind.indexes:
        by = f"by index {key}" if key else f"all of about {access.row['rows']} rows by no index"
        return f"{step.engine} reads {by}, not by {' or '.join(kind.indexes)}: {kind.query}"
    if access.scans:
        return f"{step.engine} reads all of index {key}: {kind.query}"
    if access.covers != kind.covers:
        how = "alone" if access.covers else "and the row with it"
        return f"{step.engine} reads index {key} {how}, which is not what the kind is named for: {kind.query}"
    return ""


def _access(server: Any, step: Step) -> Access:
    with closing(server.connect(step.database)) as connection:
        access: Access = connection.dialect.access(connection, step.name, step.kind.query)
    return access


WORKLOAD = PointLookups
