"""The sysbench microbenchmarks."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Unpack

from rqps.engines.sources.programs import sysbench
from rqps.errors import RqpsError
from rqps.numbers import sized
from rqps.workloads import Answer, Checked, How, Workload
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.sysbench import generator
from rqps.workloads.sysbench.generator import Generator
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import FLUSH, Step, before, find
from rqps.workloads.table_check import check_table, must_be

COLUMNS = {"id": "int", "k": "int", "c": "char(120)", "pad": "char(60)"}
WHOLE_TABLE_PATIENCE_S = 3600.0
"""Maximum time, in seconds, of a statement that reads whole tables."""
SECONDS_BETWEEN_LOOKS = 0.2
LOAD_SEED = 20_240_229
"""The random seed for the rows, the same for every build and study, so that all have the same tables."""


class Sysbench(Workload):
    def data_name(self, parameters: SysbenchParameters) -> str:
        index_first = "-index-first" if parameters.index_first else ""
        return f"sysbench-{parameters.tables}x{parameters.table_rows}{index_first}-{LOAD_SEED}"

    def load(self, server: Any, parameters: SysbenchParameters) -> None:
        generator.load(server, parameters, LOAD_SEED)

    def prepare(self, server: Any, parameters: SysbenchParameters) -> None:
        with closing(server.connect(patience_s=WHOLE_TABLE_PATIENCE_S)) as connection:
            connection.dialect.check_connections(connection, parameters.connections)
            check_tables(connection, parameters)
            warm(connection, parameters)

    def steps(self, parameters: SysbenchParameters) -> Sequence[str]:
        return parameters.sweep

    def clients(self, step: str, parameters: SysbenchParameters) -> int:
        return parameters.alone(step)[1].clients

    def places_connections(self, servers: int) -> bool:  # noqa: ARG002
        return True

    def check(self, server: Any, step: str, parameters: SysbenchParameters) -> Checked:
        with closing(server.connect()) as connection:
            return Checked(plans=tuple(check_plan(connection, parameters.alone(step)[0])))

    @contextmanager
    def generating(
        self, servers: Sequence[Any], step: str, parameters: SysbenchParameters, **how: Unpack[How]
    ) -> Iterator[Generator]:
        """The load of a step, after the flushes and warm-ups that precede it."""
        described, asked = parameters.alone(step)
        preceding = before(asked.steps, described.name)
        for number, earlier in enumerate(preceding):
            if earlier == FLUSH:
                for server in servers:
                    flush(server, asked)
                continue
            # As in the published tests, one thread per table fills the buffer pool.
            everywhere = asked.model_copy(update={"threads": asked.tables, "warmup_seconds": 0})
            own_log = how["log"].with_suffix(f".before{number}.log")
            with Generator(
                servers, find(earlier), everywhere, seed=how["seed"], cpus=how["cpus"], log=own_log
            ) as warming:
                warming.wait_for_all()
        if FLUSH in preceding:
            for server in servers:
                # Checks the plans again: flush() also runs ANALYZE, and a plan may change with the new statistics.
                self.check(server, step, parameters)
        with Generator(servers, described, asked, **how) as load:
            yield load

    def answers(self, step: str, parameters: SysbenchParameters, load: Generator) -> Sequence[Answer]:
        described = parameters.alone(step)[0]
        columns = {
            "kind": described.kind,
            "kind_after_writes": described.kind_after_writes,
            "range": described.range_size,
            "group": described.group,
            "table_position": parameters.in_tables.index(step),
            "writes": described.writes,
            "unit": described.unit,
        }
        return load.answers(step, columns)

    def tools(self, parameters: SysbenchParameters, servers: int) -> dict[str, str]:  # noqa: ARG002 always sysbench
        return {"sysbench": sysbench().version}


def check_tables(connection: Any, parameters: SysbenchParameters) -> None:
    """Checks that each table exists, with the expected storage, columns, indexes and rows."""
    sql = connection.dialect
    must_be(DATABASE, "tables", parameters.tables, len(sql.tables_of(connection, DATABASE)))
    for number in range(1, parameters.tables + 1):
        name, rows = f"sbtest{number}", parameters.table_rows
        check_table(connection, DATABASE, name, sql.STORED_BY, COLUMNS, {"PRIMARY": ["id"], f"k_{number}": ["k"]})
        counts = sql.query(connection, f"SELECT COUNT(*), MIN(id), MAX(id) FROM {DATABASE}.{name}")[0]
        must_be(f"{DATABASE}.{name}", "rows", rows, int(counts[0]))
        must_be(f"{DATABASE}.{name}", "ids", f"1 to {rows}", f"{counts[1]} to {counts[2]}")


def warm(connection: Any, parameters: SysbenchParameters) -> None:
    """Reads every page of each table and index into the buffer pool."""
    for number in range(1, parameters.tables + 1):
        leads_to = {"PRIMARY": "pad", f"k_{number}": "k"}
        connection.dialect.read_whole(connection, f"{DATABASE}.sbtest{number}", leads_to)


def flush(server: Any, parameters: SysbenchParameters) -> None:
    """Recomputes the tables' statistics and waits until the server has worked off its debt, between steps that
    write and steps that read.

    The published tests wait a time that depends on the size of the tables. Here that time is the maximum: the
    server reports when it is done, and if it is not done in time, the run fails.
    """
    tables = [f"{DATABASE}.sbtest{number}" for number in range(1, parameters.tables + 1)]
    limit_s, begun = parameters.flush_limit_s, time.monotonic()
    with closing(server.connect()) as connection:
        settling = connection.dialect.settling(server, tables, change=("k", "id"), limit_s=limit_s)
        with closing(settling) as debts:
            for _, left in debts:
                if not left:
                    return
                if time.monotonic() - begun > limit_s:
                    raise RqpsError(
                        f"flush of {server.name}: not done within {sized(limit_s)} s: {left}",
                        fix="set flush_seconds in the study's parameters to a higher number",
                    )
                time.sleep(SECONDS_BETWEEN_LOOKS)


def check_plan(connection: Any, step: Step) -> list[dict[str, Any]]:
    """Checks with EXPLAIN that each statement, on each table, uses the index that the step is named for; returns
    the plans."""
    sql = connection.dialect
    plans: dict[str, dict[str, Any]] = {}
    for name in sql.tables_of(connection, DATABASE):
        index, table = (
            {"k": name.replace("sbtest", "k_"), "none": None}.get(step.index, step.index),
            f"{DATABASE}.{name}",
        )
        rows = int(sql.query(connection, f"SELECT MAX(id) FROM {table}")[0][0] or 1)
        # A row that exists even after deletes: for a missing row EXPLAIN shows no plan.
        row = int(sql.query(connection, f"SELECT MAX(id) FROM {table} WHERE id <= {1 + rows // 2}")[0][0] or 1)
        for statement in step.each_statement:
            if "WHERE" in statement:
                text = with_values(statement, table, rows, row)
                access = sql.access(connection, step.name, text)
                if access.key != index or step.covered not in (None, access.covers):
                    alone = {True: " alone", False: " and the row", None: ""}[step.covered]
                    raise RqpsError(
                        f"{step.name}: the server's plan uses {access.key or 'no index'}, "
                        f"not {index or 'no index'}{alone}: {text[:200]}: {access.words}",
                        fix="check that the table has the index and current statistics: with this plan, the step "
                        "would not measure what its name says",
                    )
                plans[text] = access.row
    return list(plans.values())


def with_values(statement: str, table: str, rows: int, row: int) -> str:
    """A statement on a table, with a value for each marker. Ranges are from the middle of the table; lists of ids
    are from the whole table, lists of hot ids from its middle; `row` is the value of a single id.

    >>> with_values("SELECT k FROM {table} WHERE k BETWEEN {x} AND {x+100}", "t", 1000, 501)
    'SELECT k FROM t WHERE k BETWEEN 450 AND 550'
    >>> with_values("UPDATE {table} SET c = {c} WHERE id IN ({3 ids})", "t", 1000, 501)
    "UPDATE t SET c = 'text' WHERE id IN (167, 501, 834)"
    """
    distance = max([0, *map(int, re.findall(r"\{x\+(\d+)\}", statement))])
    x = max(1, (rows - distance) // 2)

    def value(marker: re.Match[str]) -> str:
        match marker[1].split():
            case ["table"] | ["own", "table"]:
                return table
            case ["c"] | ["pad"]:
                return "'text'"
            case [count, "hot", "ids"]:
                return ", ".join(str(rows // 2 + i) for i in range(1, int(count) + 1))
            case [count, "ids"]:
                return ", ".join(str(1 + rows * (2 * i + 1) // (2 * int(count))) for i in range(int(count)))
            case ["x"]:
                return str(x)
        return str(x + distance) if marker[1].startswith("x+") else str(row)

    return re.sub(r"\{([^}]*)\}", value, statement)


WORKLOAD = Sysbench
