"""The insert benchmark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any, Unpack

from rqps.engines.sources.programs import sysbench
from rqps.errors import RqpsError
from rqps.numbers import sized
from rqps.store.manifest import Warning_
from rqps.workloads import Answer, Checked, How, Workload
from rqps.workloads.answers import (
    Second,
    by_second,
    interval_rows,
    latency_rows,
    read_seconds,
    retries_warning,
    step_columns,
    total,
)
from rqps.workloads.insert_benchmark import generator, settling
from rqps.workloads.insert_benchmark.generator import client_rows, done, must_be_whole
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.settling import DURING
from rqps.workloads.insert_benchmark.steps import (
    BY_INDEX,
    COLUMNS,
    INDEX,
    INDEXES,
    LOAD,
    Step,
    find,
    in_sql,
    statement,
)
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.table_check import LOAD_AGAIN, check_table, must_be

ENOUGH_OF_RATE = 0.95
"""Minimum share of its rate that a step's inserts have to reach, as published."""
FEWEST_FOUND = 0.9
"""Minimum share of the requested rows that queries have to find; a smaller share gives a warning."""
AN_ID = {"product": "5000", "register": "500", "price": "250"}
"""Maps each marker of a query, such as {product}, to the value that replaces it when the query is explained."""
LEFT_OVER = "see the rows of the earlier steps: one was incomplete, or somebody else changed the tables meanwhile"


class InsertBenchmark(Workload):
    stoppable = True

    def data_name(self, parameters: InsertBenchmarkParameters) -> str:  # noqa: ARG002 the step l.i0 loads the tables
        return "insert-benchmark-empty"

    def load(self, server: Any, parameters: InsertBenchmarkParameters) -> None:  # noqa: ARG002
        with closing(server.connect()) as connection:
            connection.dialect.query(connection, f"CREATE SCHEMA {DATABASE}")

    def prepare(self, server: Any, parameters: InsertBenchmarkParameters) -> None:
        with closing(server.connect()) as connection:
            connection.dialect.check_connections(connection, parameters.connections)
            check_empty(connection)

    def steps(self, parameters: InsertBenchmarkParameters) -> Sequence[str]:
        return parameters.measured

    def uncountable(self, parameters: InsertBenchmarkParameters) -> Sequence[str]:
        """The steps with queries. They can't run a fixed number of operations: while rows come at a fixed rate,
        clients send as many queries as the server answers."""
        return [step.name for step in parameters.described if step.rate is not None]

    def clients(self, step: str, parameters: InsertBenchmarkParameters) -> int:  # noqa: ARG002 the same in all steps
        return parameters.clients

    def check(self, server: Any, step: str, parameters: InsertBenchmarkParameters) -> Checked:
        asked = find(step, parameters.form)
        with closing(server.connect(DATABASE)) as connection:
            if asked.kind == LOAD:
                check_empty(connection)
            else:
                check_tables(connection, asked, parameters)
            return Checked(plans=tuple(explained(connection, asked, parameters)))

    @contextmanager
    def generating(
        self, servers: Sequence[Any], step: str, parameters: InsertBenchmarkParameters, **how: Unpack[How]
    ) -> Iterator[generator.Generator]:
        (server,) = servers
        asked = find(step, parameters.form)
        with_queries = [described.name for described in parameters.described if described.queries]
        with closing(server.connect(DATABASE)) as connection:
            sql = connection.dialect
            for table in parameters.tables if asked.kind == LOAD else ():
                sql.query(connection, statement("table", sql).format(table=table))
            if step in with_queries[:1]:
                rows, warnings = settling.settle(server, parameters, step)
            else:
                rows, warnings = [settling.debt_row(server, connection, step, "before")], []
            deleted = sql.rows_deleted(connection) if asked.deletes else 0
        with generator.generating(server, sql, asked, parameters, **how) as load:
            load.engine, load.rows_deleted, load.warnings = rows, deleted, warnings
            every_s = None if load.counted else parameters.debt_every_seconds
            with settling.reading_debt(server, load, every_s, rows) if every_s else nullcontext():
                yield load

    def answers(
        self, step: str, parameters: InsertBenchmarkParameters, load: generator.Generator
    ) -> Sequence[Answer]:
        asked = find(step, parameters.form)
        seconds = read_seconds(load.lines)
        must_be_whole(seconds, asked, parameters.transactions(asked), parameters.clients)
        with closing(load.servers[0].connect()) as connection:
            after = settling.debt_row(load.servers[0], connection, step, "after")
            deleted = connection.dialect.rows_deleted(connection) - load.rows_deleted if asked.deletes else 0
        engine = [row for row in load.engine if row["moment"] != DURING or row["second"] <= load.elapsed_s]
        columns = _columns(asked, parameters, seconds, load.elapsed_s)
        together = list(by_second(seconds))
        answer = Answer(
            columns=columns,
            intervals=interval_rows(step, done(together)),
            latencies=latency_rows(step, together),
            warnings=(*load.warnings, *warnings_of(asked, parameters, seconds, columns, deleted)),
            more={"clients": client_rows(step, seconds), "engine": [*engine, after]},
        )
        return (answer,)

    def tools(self, parameters: InsertBenchmarkParameters, servers: int) -> dict[str, str]:  # noqa: ARG002 always sysbench
        return {"sysbench": sysbench().version}


def check_empty(connection: Any) -> None:
    """Raises an error if the server already has tables, since l.i0 creates them."""
    sql = connection.dialect
    if tables := sql.tables_of(connection, DATABASE):
        counts = [sql.query(connection, f"SELECT COUNT(*) FROM {DATABASE}.{name}")[0][0] for name in tables]
        listed = ", ".join(f"{name} with {rows} rows" for name, rows in zip(tables, counts, strict=True))
        raise RqpsError(f"{DATABASE}: l.i0 creates the tables, but the server already has {listed}", fix=LOAD_AGAIN)


def check_tables(connection: Any, step: Step, parameters: InsertBenchmarkParameters) -> None:
    """Checks the columns, indexes and approximate number of rows that the earlier steps should leave in each
    table."""
    sql = connection.dialect
    tables = sql.tables_of(connection, DATABASE)
    must_be(f"{step.name}: {DATABASE}", "tables", sorted(parameters.tables), tables, fix=LEFT_OVER)
    added = {} if step.kind in (LOAD, INDEX) else INDEXES
    rows = loaded_rows(step, parameters)
    gaps = parameters.clients * (sql.IDS_AT_ONCE - 1)
    for name in parameters.tables:
        indexes = {"PRIMARY": ["transactionid"]} | {f"{name}_{index}": columns for index, columns in added.items()}
        check_table(connection, DATABASE, name, sql.STORED_BY, COLUMNS, indexes, step=f"{step.name}: ", fix=LEFT_OVER)
        low, high = settling.ids(connection, [name])
        row_count = 0 if low is None or high is None else high - low + 1
        # `row_count` is the range of ids, gaps included. Too many ids are an error only before l.x, where `gaps`
        # allows for ids that connections reserved and did not use. In later steps, retried INSERTs leave more gaps.
        if row_count < rows or (step.kind == INDEX and row_count > rows + gaps):
            must_be(f"{step.name}: {DATABASE}.{name}", "rows", f"{rows:,}", f"ids for {row_count:,}", fix=LEFT_OVER)


def loaded_rows(step: Step, parameters: InsertBenchmarkParameters) -> int:
    """Minimum number of rows of a table before a step: the rows that were inserted by those earlier steps that
    neither delete rows nor insert at a fixed rate.

    >>> asked = InsertBenchmarkParameters(form="2021", load_rows=3000, write_rows=500)
    >>> [loaded_rows(find(name, "2021"), asked) for name in ("l.x", "l.i1", "q100.1", "q100.2")]
    [3000, 3100, 3600, 3600]
    """
    clients = parameters.clients if parameters.shared_table else 1
    before = parameters.before(step)
    return clients * sum(
        parameters.rows(earlier) for earlier in before if not earlier.deletes and earlier.rate is None
    )


def explained(connection: Any, step: Step, parameters: InsertBenchmarkParameters) -> Iterator[dict[str, Any]]:
    """The plans of a step's queries on the first table, as rows of `plans`. Raises an error if the plan of a query
    does not use the index that the query is meant for."""
    low = settling.ids(connection, ["pi1"])[0] or 0 if step.queries else 0
    some = ", ".join(str(low + number) for number in range(parameters.query_rows))
    for query_ in step.queries:
        sql, by = connection.dialect, BY_INDEX.search(query_)
        text = in_sql(query_, sql).format(table="pi1", rows=parameters.query_rows, ids=some, **AN_ID)
        access, index = sql.access(connection, step.name, text), f"pi1_{by[1]}" if by else "PRIMARY"
        if access.key != index or (by and not access.covers):
            raise RqpsError(
                f"{step.name}: the server reads by index {access.key} ({access.row['extra']}); the step has to read "
                f"{index} alone: {text}",
                fix="this server can't do what the step is named for; leave the step out of the study",
            )
        yield access.row


def _columns(
    step: Step, parameters: InsertBenchmarkParameters, seconds: Sequence[Second], elapsed_s: float
) -> dict[str, Any]:
    main = total(seconds, "query" if step.queries else "insert")
    counted = total(seconds, "index") if step.kind == INDEX else main
    inserted = total(seconds, "insert").operations
    target = None if step.rate is None else float(step.rate * parameters.clients)
    return {
        "kind": step.kind,
        "clients": parameters.clients,
        "group": step.group,
        "table_position": parameters.measured.index(step.name),
        "writes": True,
        "unit": step.unit,
        "warmup_s": 0.0,
        **step_columns(main, elapsed_s, counted.operations, sum(second.retries for second in seconds)),
        "target_per_s": target,
        "target_held": None if target is None else inserted / elapsed_s >= ENOUGH_OF_RATE * target,
    }


def warnings_of(
    step: Step,
    parameters: InsertBenchmarkParameters,
    seconds: Sequence[Second],
    columns: Mapping[str, Any],
    deleted: int,
) -> Iterator[Warning_]:
    """Warns if a finished step did not hold its rate, repeated many statements, or deleted or found fewer rows than
    it should. `deleted` is the number of rows that the server counted as deleted in the step."""
    if columns["target_held"] is False:
        inserted, due = total(seconds, "insert").operations, parameters.clients * parameters.rows(step)
        rates = (sized(rate) for rate in (inserted / columns["elapsed_s"], columns["target_per_s"]))
        text = "{} rows/s were inserted instead of {}".format(*rates)
        if inserted < due:
            text += (
                f"; the step ended after {sized(columns['elapsed_s'])} s, at its limit of "
                f"{sized(parameters.limit_s)} s, with {inserted:,} of {due:,} rows"
            )
        yield Warning_(kind="rate not held", text=text, step=step.name)
    statements = sum(second.transactions for second in done(seconds))
    yield from retries_warning(step.name, "statements", columns["retries"], statements)
    # More than `due` is no error: `deleted` includes rows of system tables.
    if deleted < (due := total(seconds, "delete").operations):
        text = f"{deleted:,} of {due:,} rows were deleted: the tables have grown"
        yield Warning_(kind="rows", text=text, step=step.name)
    asked = total(seconds, "query")
    if (
        asked.transactions
        and (found_per_query := asked.rows_found / asked.transactions) < FEWEST_FOUND * parameters.query_rows
    ):
        text = f"a query returned {sized(found_per_query)} rows on average instead of {parameters.query_rows}"
        yield Warning_(kind="rows", text=text, step=step.name)


WORKLOAD = InsertBenchmark
