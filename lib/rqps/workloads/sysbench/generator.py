"""The load of a step: sysbench doing its transactions for some seconds. And the tables that it does them on."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from rqps.engines.instance import Server
from rqps.errors import RqpsError
from rqps.workloads.sysbench import process as sysbench
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.process import DATABASE, Process, switch
from rqps.workloads.sysbench.steps import Step

WHOLE_PATIENCE_S = 3600
"""For a transaction that is waited for before the step ends, such as a scan."""
READY_S = 1
"""Before a step without a warm-up of its own, for whoever observes it."""
DONE_AGAIN = "1213,1205,1020"
"""Errors after which a transaction is done again: a deadlock, a lock wait that took too long, a row that changed
meanwhile. sysbench's own choice, and the published one."""
LUA = Path(str(files(__package__) / "lua"))


class Generator(Process):
    """A running sysbench that does a step's transactions for some seconds."""

    def __init__(
        self, process: "subprocess.Popen[str]", server: Server, step: Step, parameters: SysbenchParameters, log: Path
    ) -> None:
        super().__init__(process, server, step.name, parameters.clients, log)
        self.step = step
        self.seconds = parameters.seconds_of(step)
        self.warmup_s = 0.0 if step.whole else float(parameters.warmup_seconds)
        self.whole_within_s = self.seconds if step.whole else None
        """Where transactions are whole: when the last ones begin at the latest."""

    def wait_for_end(self) -> None:
        """Waits until the measured part has ended: by the clock, or with every thread's last transaction."""
        assert self._origin_ns is not None
        ends_ns = self._origin_ns + self.seconds * 1_000_000_000
        self._wait_until(ends_ns)
        while self.step.whole and len(self._ends_ns) < self.threads:
            if time.monotonic_ns() > ends_ns + WHOLE_PATIENCE_S * 1_000_000_000:
                raise self._hangs(WHOLE_PATIENCE_S)
            self._wait_until(time.monotonic_ns() + 10_000_000)

    @property
    def elapsed_s(self) -> float:
        """How long the measured part was."""
        if not self.step.whole:
            return float(self.seconds)
        assert self._origin_ns is not None
        return (max(self._ends_ns) - self._origin_ns) / 1e9


@contextmanager
def generating(
    server: Server, step: Step, parameters: SysbenchParameters, *, seed: int, cpus: tuple[int, ...], log: Path
) -> Iterator[Generator]:
    """sysbench putting the load of one step, from its first connection to its end."""
    by_the_clock: dict[str, str | int | float] = {
        "warmup-seconds": READY_S if step.whole else parameters.warmup_seconds,
        "measured-seconds": parameters.seconds_of(step),
        "whole": switch(step.whole),
    }
    process = started(server, step, parameters, by_the_clock, seed=seed, cpus=cpus)
    generator = Generator(process, server, step, parameters, log)
    try:
        yield generator
    finally:
        generator.end()


def started(
    server: Server,
    step: Step,
    parameters: SysbenchParameters,
    more: Mapping[str, str | int | float],
    *,
    seed: int,
    cpus: tuple[int, ...],
) -> "subprocess.Popen[str]":
    """sysbench with the statements of a step; `more` says for how long."""
    options: dict[str, str | int | float] = {
        **_on(parameters, seed),
        "threads": parameters.clients,
        "prepared": switch(parameters.prepared and step.prepared),
        "statements": ";".join(step.statements),
        "mysql-ignore-errors": DONE_AGAIN,
        "time": 0,  # our own loop ends by the clock, or by its count
        **more,
        **{name.replace("_", "-"): value for name, value in step.options.items()},
    }
    return sysbench.started(LUA / "statements.lua", server, options, cpus=cpus)


def load(server: Server, parameters: SysbenchParameters, seed: int) -> None:
    """Makes the tables and fills them, by sysbench."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    connection.close()
    options = {**_on(parameters, seed), "index-first": switch(parameters.index_first), "threads": 1}
    done = sysbench.done(LUA / "load.lua", server, options)
    if done.returncode != 0:
        raise RqpsError(
            f"{server.build.name}: the tables could not be loaded:\n{(done.stdout + done.stderr)[-2000:]}",
            fix=f"the server's error log ends with:\n{server.last_words()}",
        )


def _on(parameters: SysbenchParameters, seed: int) -> dict[str, str | int | float]:
    """On which tables, and with which random values."""
    return {
        "rand-type": "uniform",
        "rand-seed": seed,
        "tables": parameters.tables,
        "table-size": parameters.table_rows,
    }
