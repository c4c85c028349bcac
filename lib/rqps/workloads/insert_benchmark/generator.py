"""The load of a step of the insert benchmark: sysbench with our own Lua, from its first connection to its end."""

import os
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from rqps.engines.instance import Server
from rqps.store.manifest import Warning_
from rqps.workloads.insert_benchmark.engine import Row
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import INDEX, Step, find, statement
from rqps.workloads.sysbench import process as sysbench
from rqps.workloads.sysbench.generator import DONE_AGAIN, READY_S
from rqps.workloads.sysbench.process import Process, switch

SCRIPT = Path(str(files(__package__) / "lua/clients.lua"))
LOOK_S = 0.02
CLOCK_BEGINS = 1_704_067_200
"""2024-01-01: the rows' own clock, since rows with the time of day in them would never be the same again."""
CLOCK_ROWS = 10_000
"""Rows of a client in one second of that clock; in a step with a rate, so many as that."""
WORDS_OF_CLIENT = 8
"""In the shared file, of doubles: as shared.lua has it."""
LOW, LAST = 2, 3


class Generator(Process):
    """A running sysbench that ends by itself when all rows are done."""

    warmup_s = 0.0
    engine: Sequence[Row] = ()
    """What was seen of the engine before."""
    rows_deleted = 0
    warnings: Sequence[Warning_] = ()

    def wait_for_end(self) -> None:
        """Waits until every thread has done its part; they are held there, so that their counters can be read."""
        while len(self._ends_ns) < self.threads:
            if self.process.poll() is not None or self.server.ended() or self.failed:
                raise self._failure()
            time.sleep(LOOK_S)

    @property
    def elapsed_s(self) -> float:
        """How long the measured part was."""
        assert self._origin_ns is not None
        return (max(self._ends_ns) - self._origin_ns) / 1e9


@contextmanager
def generating(
    server: Server,
    step: Step,
    parameters: InsertBenchmarkParameters,
    *,
    lows: Sequence[int],
    seed: int,
    cpus: tuple[int, ...],
    log: Path,
) -> Iterator[Generator]:
    """sysbench putting the load of one step. `lows` are the lowest ids of the clients' tables."""
    with _shared(parameters, step, lows) as path:
        process = sysbench.started(SCRIPT, server, _options(step, parameters, seed, path), cpus=cpus)
        generator = Generator(process, server, step.name, parameters.clients * step.connections, log)
        try:
            yield generator
        finally:
            generator.end()


def clock_begins(step: Step, parameters: InsertBenchmarkParameters) -> int:
    """Where the rows' own clock stands at the beginning of a step: after those of all steps before it.

    >>> asked = InsertBenchmarkParameters(load_rows=25_000)
    >>> [clock_begins(find(name, "current"), asked) - CLOCK_BEGINS for name in ("l.i0", "l.x", "l.i1")]
    [0, 3, 4]
    """
    before = [find(name, parameters.form) for name in parameters.measured[: parameters.measured.index(step.name)]]
    return CLOCK_BEGINS + sum(-(-parameters.rows(each) // (each.rate or CLOCK_ROWS)) for each in before)


def _options(step: Step, parameters: InsertBenchmarkParameters, seed: int, shared: Path) -> sysbench.Options:
    of_a_table = parameters.clients if parameters.shared_table else 1
    loaded = parameters.load_rows + parameters.rows(find(INDEX, parameters.form))
    return {
        "threads": parameters.clients * step.connections,
        "clients": parameters.clients,
        "shared-file": str(shared),
        "shared-table": switch(parameters.shared_table),
        "insert": statement("insert"),
        "delete": statement("delete") if step.deletes else "",
        "queries": ";".join(step.queries),
        "indexes": statement("indexes") if step.kind == INDEX else "",
        "rows": parameters.rows(step),
        "rows-per-transaction": parameters.rows_per_transaction(step),
        "query-rows": parameters.query_rows,
        "rows-per-second": step.rate or 0,
        "catching-up": switch(parameters.limiter == "catching-up"),
        "most-seconds": int(parameters.limit_s),
        "indexed-rows": loaded * of_a_table,
        "clock-begin": clock_begins(step, parameters),
        "clock-rows": step.rate or CLOCK_ROWS,
        "row-seed": seed,
        "ready-seconds": READY_S,
        "rand-seed": seed,
        "mysql-ignore-errors": DONE_AGAIN,
        "time": 0,  # it ends when the rows are done
    }


@contextmanager
def _shared(parameters: InsertBenchmarkParameters, step: Step, lows: Sequence[int]) -> Iterator[Path]:
    """The file in which threads tell each other how far they are; in memory where the machine has such a place."""
    words = [0.0] * WORDS_OF_CLIENT * (parameters.clients + 1)
    for client in range(parameters.clients):
        at = WORDS_OF_CLIENT * (client + 1)
        words[at + LOW] = lows[client % len(lows)] if lows else 0
        words[at + LAST] = parameters.transactions(step)
    memory = Path("/dev/shm")
    folder = memory if os.access(memory, os.W_OK) else None
    with tempfile.NamedTemporaryFile(prefix="rqps-", dir=folder) as file:
        file.write(struct.pack(f"={len(words)}d", *words))
        file.truncate(-(-file.tell() // 4096) * 4096)
        file.flush()
        yield Path(file.name)
