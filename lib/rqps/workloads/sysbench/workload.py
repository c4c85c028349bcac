"""The sysbench microbenchmarks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from rqps.engines.mysql.instance import Server
from rqps.engines.mysql.reports import check_connections
from rqps.engines.sources.programs import sysbench
from rqps.workloads import Answer, Checked, How
from rqps.workloads.answers import interval_rows, latency_rows, retries_warning, summary
from rqps.workloads.sysbench import check, generator
from rqps.workloads.sysbench.generator import Counting, Generating, Generator, measured_part, read_seconds
from rqps.workloads.sysbench.parameters import CLIENTS, SysbenchParameters
from rqps.workloads.sysbench.steps import FLUSH, before, find

LOAD_SEED = 20_240_229
"""The seed of the rows: the same for every build and study, so that all work on the same table."""


class Sysbench:
    def data_name(self, parameters: SysbenchParameters) -> str:
        index_first = "-index-first" if parameters.index_first else ""
        return f"sysbench-{parameters.tables}x{parameters.table_rows}{index_first}-{LOAD_SEED}"

    def load(self, server: Server, parameters: SysbenchParameters) -> None:
        generator.load(server, parameters, LOAD_SEED)

    def prepare(self, server: Server, parameters: SysbenchParameters) -> None:
        connection = server.connect()
        check_connections(connection, parameters.connections)
        check.check_tables(connection, parameters)
        check.warm(connection, parameters)
        connection.close()

    def steps(self, parameters: SysbenchParameters) -> Sequence[str]:
        return parameters.sweep

    def clients(self, step: str, parameters: SysbenchParameters) -> int:
        return parameters.alone(step)[1].clients

    def check(self, server: Server, step: str, parameters: SysbenchParameters) -> Checked:  # noqa: ARG002
        connection = server.connect()
        plans = check.check_plan(connection, find(step.partition(CLIENTS)[0]))
        connection.close()
        return Checked(plans=tuple(plans))

    @contextmanager
    def generating(
        self, server: Server, step: str, parameters: SysbenchParameters, **how: Unpack[How]
    ) -> Iterator[Generating]:
        described, asked = parameters.alone(step)
        self._precede(server, described.name, asked, how)
        with Generating(server, described, asked, **how) as load:
            yield load

    @contextmanager
    def counting(
        self, server: Server, step: str, parameters: SysbenchParameters, **how: Unpack[How]
    ) -> Iterator[Counting]:
        described, asked = parameters.alone(step)
        self._precede(server, described.name, asked, how)
        with Counting(server, described, asked, **how) as load:
            yield load

    def _precede(self, server: Server, step: str, parameters: SysbenchParameters, how: How) -> None:
        """Do the flushes and warm-ups that stand before a step."""
        preceding = before(parameters.steps, step)
        for number, earlier in enumerate(preceding):
            if earlier == FLUSH:
                check.flush(server, parameters)
            else:
                self._warm(
                    server, earlier, parameters, {**how, "log": how["log"].with_suffix(f".before{number}.log")}
                )
        if FLUSH in preceding:
            self.check(server, step, parameters)  # by the new statistics

    def _warm(self, server: Server, step: str, parameters: SysbenchParameters, how: How) -> None:
        """Do a step to fill the buffer pool, from one thread per table as in the published tests."""
        everywhere = parameters.model_copy(update={"threads": parameters.tables, "warmup_seconds": 0})
        with Generating(server, find(step), everywhere, **how) as load:
            load.wait_for_begin()
            load.wait_for_end()
            load.wait_until_gone()

    def answer(self, step: str, parameters: SysbenchParameters, load: Generator) -> Answer:
        described, asked = parameters.alone(step)
        per_transaction = parameters.table_rows if described.unit == "row" else described.queries
        seconds = read_seconds(load.lines, asked.clients, step, per_transaction, load.whole_within_s)
        whole = measured_part(step, seconds)
        columns: dict[str, Any] = {
            "kind": described.kind,
            "range": described.range_size,
            "clients": asked.clients,
            "group": described.group,
            "table_position": parameters.in_tables.index(step),
            "writes": described.writes,
            "unit": described.unit,
            "warmup_s": load.warmup_s,
            "elapsed_s": load.elapsed_s,
            "operations": whole.operations,
            "transactions": whole.transactions,
            "operations_per_s": whole.operations / load.elapsed_s if whole.operations else None,
            **summary(whole),
            "errors": 0,  # any other than those that are done again ends sysbench, and the run
            "retries": whole.retries,
        }
        return Answer(
            columns=columns,
            intervals=interval_rows(step, seconds),
            latencies=latency_rows(step, seconds),
            warnings=tuple(retries_warning(step, "transactions", whole.retries, whole.transactions)),
        )

    def tools(self, parameters: SysbenchParameters) -> dict[str, str]:  # noqa: ARG002 there is one for all
        return {"sysbench": sysbench().version}
