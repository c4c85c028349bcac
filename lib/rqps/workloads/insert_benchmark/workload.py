"""The insert benchmark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Unpack

from rqps.engines.mysql.instance import Server, query
from rqps.engines.mysql.reports import check_connections
from rqps.engines.sources.programs import sysbench
from rqps.store.manifest import Warning_
from rqps.workloads import Answer, Checked, How
from rqps.workloads.answers import Second, by_second, interval_rows, latency_rows, retries_warning, summary
from rqps.workloads.insert_benchmark import check, generator, settling
from rqps.workloads.insert_benchmark.generator import client_rows, done, must_be_whole, read_seconds, total
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import INDEX, LOAD, Step, find, statement
from rqps.workloads.load_generator import DATABASE

ENOUGH_OF_RATE = 0.95
"""The share of its rate that a step's inserts have to reach, as published."""
FEWEST_FOUND = 0.9
"""A share of the rows that queries ask for: with fewer, most asked for rows that were deleted."""


class InsertBenchmark:
    def data_name(self, parameters: InsertBenchmarkParameters) -> str:  # noqa: ARG002 loading is a step of its own
        return "insert-benchmark-empty"

    def load(self, server: Server, parameters: InsertBenchmarkParameters) -> None:  # noqa: ARG002
        with closing(server.connect()) as connection:
            query(connection, f"CREATE DATABASE {DATABASE}")

    def prepare(self, server: Server, parameters: InsertBenchmarkParameters) -> None:
        with closing(server.connect()) as connection:
            check_connections(connection, parameters.connections)
            check.check_empty(connection)

    def steps(self, parameters: InsertBenchmarkParameters) -> Sequence[str]:
        return parameters.measured

    def clients(self, step: str, parameters: InsertBenchmarkParameters) -> int:  # noqa: ARG002 all have the same
        return parameters.clients

    def check(self, server: Server, step: str, parameters: InsertBenchmarkParameters) -> Checked:
        asked = find(step, parameters.form)
        with closing(server.connect()) as connection:
            if asked.kind == LOAD:
                check.check_empty(connection)
            else:
                check.check_tables(connection, asked, parameters)
        return Checked(plans=tuple(check.explained(server, asked, parameters)) if asked.queries else ())

    @contextmanager
    def generating(
        self, server: Server, step: str, parameters: InsertBenchmarkParameters, **how: Unpack[How]
    ) -> Iterator[generator.Generator]:
        asked = find(step, parameters.form)
        if asked.kind == LOAD:
            _make_tables(server, parameters)
        rows, warnings = self._before(server, asked, parameters)
        with closing(server.connect()) as connection:
            lows = [settling.ids(connection, [table])[0] or 0 for table in parameters.tables]
            deleted = settling.rows_deleted(connection)
        with generator.generating(server, asked, parameters, lows=lows, **how) as load:
            load.engine, load.rows_deleted, load.warnings = rows, deleted, warnings
            yield load

    def _before(
        self, server: Server, step: Step, parameters: InsertBenchmarkParameters
    ) -> tuple[list[settling.Row], list[Warning_]]:
        """The debt of the engine before a step; before the first step with queries it is settled."""
        with_queries = [name for name in parameters.measured if find(name, parameters.form).queries]
        if step.name in with_queries[:1]:
            return settling.settle(server, parameters, step.name)
        with closing(server.connect()) as connection:
            return [settling.debt_row(server, connection, step.name, "before")], []

    def answer(self, step: str, parameters: InsertBenchmarkParameters, load: generator.Generator) -> Answer:
        asked = find(step, parameters.form)
        seconds = read_seconds(load.lines)
        must_be_whole(seconds, asked, parameters.transactions(asked), parameters.clients)
        with closing(load.server.connect()) as connection:
            after = settling.debt_row(load.server, connection, step, "after")
            deleted = settling.rows_deleted(connection) - load.rows_deleted
        columns = _columns(asked, parameters, seconds, load.elapsed_s)
        together = list(by_second(seconds))
        return Answer(
            columns=columns,
            intervals=interval_rows(step, done(together)),
            latencies=latency_rows(step, together),
            warnings=(*load.warnings, *warnings_of(asked, parameters, seconds, columns, deleted)),
            more={"clients": client_rows(step, seconds), "engine": [*load.engine, after]},
        )

    def tools(self, parameters: InsertBenchmarkParameters) -> dict[str, str]:  # noqa: ARG002 there is one for all
        return {"sysbench": sysbench().version}


def _make_tables(server: Server, parameters: InsertBenchmarkParameters) -> None:
    with closing(server.connect(DATABASE)) as connection:
        for table in parameters.tables:
            query(connection, statement("table").format(table=table))


def _columns(
    step: Step, parameters: InsertBenchmarkParameters, seconds: Sequence[Second], elapsed_s: float
) -> dict[str, Any]:
    """Columns of the row in `steps`."""
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
        "elapsed_s": elapsed_s,
        "operations": counted.operations,
        "transactions": main.transactions,
        "operations_per_s": counted.operations / elapsed_s if counted.operations else None,
        **summary(main),
        "errors": 0,  # any other than those that are done again ends sysbench, and the run
        "retries": sum(each.retries for each in seconds),
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
    """The warnings of a step that came to its end; `deleted` are the rows that the server says it deleted."""
    if columns["target_held"] is False:
        yield Warning_(kind="rate not held", text=_missed_rate(step, parameters, seconds, columns), step=step.name)
    statements = sum(each.transactions for each in done(seconds))
    yield from retries_warning(step.name, "statements", columns["retries"], statements)
    if deleted < (due := total(seconds, "delete").operations):  # more may be: those of the server's own tables
        text = f"deletes found {deleted:,} rows, and {due:,} were to be deleted: the tables have grown"
        yield Warning_(kind="rows", text=text, step=step.name)
    asked = total(seconds, "query")
    if asked.transactions and (each := asked.found / asked.transactions) < FEWEST_FOUND * parameters.query_rows:
        text = f"a query found {each:.1f} rows on average, and asked for {parameters.query_rows}"
        yield Warning_(kind="rows", text=text, step=step.name)


def _missed_rate(
    step: Step, parameters: InsertBenchmarkParameters, seconds: Sequence[Second], columns: Mapping[str, Any]
) -> str:
    inserted, due = total(seconds, "insert").operations, parameters.clients * parameters.rows(step)
    text = (
        f"{inserted / columns['elapsed_s']:,.0f} rows were inserted in a second, and "
        f"{columns['target_per_s']:,.0f} were asked for"
    )
    if inserted < due:
        text += (
            f"; the step was ended after {columns['elapsed_s']:.1f} s, the limit being {parameters.limit_s:.0f} s, "
            f"with {inserted:,} of {due:,} rows"
        )
    return text
