"""Runs the load of a step of the insert benchmark: sysbench with the Lua scripts of rqps, which stops when all rows
are written."""

import os
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from rqps.errors import RqpsError
from rqps.scratch import Scratch
from rqps.store.manifest import Warning_
from rqps.workloads import How
from rqps.workloads.answers import Second
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.settling import Row
from rqps.workloads.insert_benchmark.steps import INDEX, Step, find, in_sql, statement
from rqps.workloads.load_generator import READY_S, LoadGenerator, Options, switch, sysbench_call

SCRIPT = Path(str(files(__package__) / "lua/clients.lua"))
CLOCK_BEGINS = 1_704_067_200
"""The first time stamp in the rows, 2024-01-01: with the real time, the rows would differ from run to run."""
CLOCK_ROWS = 10_000
"""In a step without a rate, the time stamp of a client's rows advances by a second after this number of rows. In a
step with a rate, it advances by a second after the number of rows that the client has to insert per second."""
BYTES_OF_CLIENT = 64
"""Bytes per client in the file through which threads share their progress, as in shared.lua."""
STOPPED = 16
"""Byte offset in the file of the threads' progress, at which rqps writes how long the process was stopped."""
FAR_AHEAD_S = 86_400
"""A load that runs in slices, or whose instructions are counted, plans to begin this many seconds after its start.
When its first slice or the counting begins, rqps sets the load's clock to the planned beginning."""
MEMORY = Path("/dev/shm")
DUE = ("insert due", "delete due")
"""Kinds of operations whose latencies are measured from the time when the rate limiter allowed the statement, not
from the time when it was sent."""


class Generator(LoadGenerator):
    """A running sysbench that stops when all rows are written."""

    engine: Sequence[Row] = ()
    """Rows of the table `engine` that were read before the step."""
    rows_deleted = 0
    warnings: Sequence[Warning_] = ()
    shared: Path
    """The file through which the threads share their progress."""
    counted = False
    _stopped_ns = 0

    @property
    def own_s(self) -> float | None:
        """Seconds since the measured part began, without the time for which the process was stopped; None before
        the measured part."""
        own_ns = time.monotonic_ns() - self.origin_ns - self._stopped_ns
        return own_ns / 1e9 if self.origin_ns and own_ns >= 0 else None

    def wait_for_begin(self) -> int:
        return self.wait_for_origin() if self.counted else super().wait_for_begin()

    def wait_for_end(self) -> None:
        if self.counted:  # counting begins now: set the clock of the load to its planned beginning
            self.set_stopped(time.monotonic_ns() - self.origin_ns)
        super().wait_for_end()

    def wait_for_origin(self) -> int:
        self.wait_for("origin", 1, self.start_patience_s)
        self.origin_ns = self.moments_ns["origin"][0]
        return self.origin_ns

    def set_stopped(self, ns: int) -> None:
        self._stopped_ns = ns
        with self.shared.open("r+b") as file:
            file.seek(STOPPED)
            file.write(struct.pack("d", ns))


@contextmanager
def generating(
    server: Any, sql: ModuleType, step: Step, parameters: InsertBenchmarkParameters, **how: Unpack[How]
) -> Iterator[Generator]:
    """A running sysbench that runs the load of one step."""
    threads = parameters.clients * step.connections
    folder = MEMORY if os.access(MEMORY, os.W_OK) else None
    with Scratch(folder) as scratch:
        (shared := scratch / "clients").write_bytes(bytes(BYTES_OF_CLIENT * (parameters.clients + 1)))
        options = {"threads": threads, "shared-file": str(shared), **_options(step, parameters, how["seed"], sql)}
        waits = how.get("in_turns") or how.get("counted", False)
        options["ready-seconds"] = FAR_AHEAD_S if waits else READY_S
        with Generator(sysbench_call(SCRIPT, (server,), options), (server,), step.name, threads, how) as generator:
            generator.shared, generator.counted = shared, how.get("counted", False)
            yield generator


def clock_begins(step: Step, parameters: InsertBenchmarkParameters) -> int:
    """The time stamp of the first row of a step, which follows the rows of all earlier steps."""
    before = parameters.before(step)
    return CLOCK_BEGINS + sum(-(-parameters.rows(earlier) // (earlier.rate or CLOCK_ROWS)) for earlier in before)


def _options(step: Step, parameters: InsertBenchmarkParameters, seed: int, sql: ModuleType) -> Options:
    of_a_table = parameters.clients if parameters.shared_table else 1
    loaded = parameters.load_rows + parameters.rows(find(INDEX, parameters.form))
    return {
        "clients": parameters.clients,
        "shared-table": switch(parameters.shared_table),
        "insert": statement("insert", sql),
        "delete": statement("delete", sql) if step.deletes else "",
        "queries": ";".join(in_sql(query, sql) for query in step.queries),
        "indexes": statement("indexes", sql) if step.kind == INDEX else "",
        "rows": parameters.rows(step),
        "rows-per-transaction": parameters.rows_per_transaction(step),
        "query-rows": parameters.query_rows,
        "rows-per-second": step.rate or 0,
        "catching-up": switch(parameters.limiter == "catching-up"),
        "most-seconds": int(parameters.limit_s),
        "indexed-rows": loaded * of_a_table,
        "clock-begin": clock_begins(step, parameters),
        "clock-rows": step.rate or CLOCK_ROWS,
        "rand-seed": seed,
        "time": 0,  # sysbench stops when the rows are written
    }


def client_rows(step: str, seconds: Iterable[Second]) -> list[dict[str, Any]]:
    return [
        second.columns(step)
        | {"client": second.client, "latency_max_us": second.max_us if second.transactions else None}
        for second in done(seconds)
    ]


def done(seconds: Iterable[Second]) -> list[Second]:
    """The reports without the kinds `DUE`, which report the statements of `insert` and `delete` a second time."""
    return [second for second in seconds if second.kind not in DUE]


def must_be_whole(seconds: Iterable[Second], step: Step, statements: int, clients: int) -> None:
    """Raises an error unless every client did the expected number of INSERT statements (or fewer, if the step has a
    rate) and, in a step that deletes, as many DELETE statements."""
    done = Counter[tuple[str, int]]()
    for second in seconds:
        done[second.kind, second.client] += second.transactions
    for client in range(1, clients + 1):
        inserts, deletes = done["insert", client], done["delete", client]
        if inserts > statements or (step.rate is None and inserts < statements):
            what = f"{inserts} INSERT statements instead of {statements}"
        elif step.deletes and deletes != inserts:
            what = f"{deletes} DELETE statements, but {inserts} INSERT statements"
        else:
            continue
        raise RqpsError(f"{step.name}: client {client} did {what}", fix="read sysbench's output in the step's log")
