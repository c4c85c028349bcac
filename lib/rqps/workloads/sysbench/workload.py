"""The sysbench workload as a run uses it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rqps.servers.instance import Server
from rqps.tools import sysbench
from rqps.workloads.protocol import Answer
from rqps.workloads.sysbench import answer as reading
from rqps.workloads.sysbench import check, generator
from rqps.workloads.sysbench.latency import summary
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import all_steps

LOAD_SEED = 20_240_229
"""Of the rows: the same for every build and study, so that all work on the same table."""


class Sysbench:
    def data_name(self, parameters: SysbenchParameters) -> str:
        index_first = "-index-first" if parameters.index_first else ""
        return f"sysbench-{parameters.tables}x{parameters.table_rows}{index_first}"

    def load(self, server: Server, parameters: SysbenchParameters) -> None:
        generator.load(server, parameters, LOAD_SEED)

    def prepare(self, server: Server, parameters: SysbenchParameters) -> None:
        connection = server.connect()
        check.check_tables(connection, parameters)
        check.warm(connection, parameters)
        connection.close()

    def steps(self, parameters: SysbenchParameters) -> Sequence[str]:
        return parameters.steps

    def check(self, server: Server, step: str) -> None:
        connection = server.connect()
        check.check_plan(connection, all_steps()[step])
        connection.close()

    def generating(
        self,
        server: Server,
        step: str,
        parameters: SysbenchParameters,
        *,
        seed: int,
        cpus: tuple[int, ...],
        log: Path,
    ) -> AbstractContextManager[generator.Generator]:
        return generator.generating(server, all_steps()[step], parameters, seed=seed, cpus=cpus, log=log)

    def answer(self, step: str, parameters: SysbenchParameters, load: generator.Generator) -> Answer:
        described = all_steps()[step]
        seconds = reading.read_seconds(load.lines, parameters.threads)
        whole = reading.whole(seconds)
        columns: dict[str, Any] = {
            "unit": described.unit,
            "threads": parameters.threads,
            "warmup_s": float(parameters.warmup_seconds),
            "elapsed_s": float(parameters.seconds),
            "operations": whole.transactions * described.per_transaction,
            "transactions": whole.transactions,
            "operations_per_s": whole.transactions * described.per_transaction / parameters.seconds,
            **summary(whole.buckets, whole.sum_us, whole.max_us),
            "errors": whole.errors,
            "target_per_s": None,
            "target_held": None,
        }
        return Answer(
            columns=columns,
            intervals=reading.interval_rows(step, described.per_transaction, seconds),
            latencies=reading.latency_rows(step, seconds),
        )

    def tools(self) -> dict[str, str]:
        return {"sysbench": sysbench().version}
