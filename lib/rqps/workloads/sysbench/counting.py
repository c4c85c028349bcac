"""sysbench doing a number of transactions instead of seconds: the same work on every server, however slow it is."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rqps.engines.instance import Server
from rqps.errors import RqpsError
from rqps.workloads.sysbench.generator import Generator, started
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step

PATIENCE_S = 3600
"""For the warm-up and for what is counted, each: a server that counts its instructions takes its time."""
LOOK_S = 0.02


class Counting(Generator):
    """A running sysbench that waits to be told, and again before it ends, so that counters can be read between."""

    def __init__(
        self, process: "subprocess.Popen[str]", server: Server, step: Step, parameters: SysbenchParameters, log: Path
    ) -> None:
        super().__init__(process, server, step, parameters, log)
        self.warmup_s, self.whole_within_s = 0.0, None
        self._started_ns = time.monotonic_ns()

    def wait_for_begin(self) -> int:
        """Waits until all threads have connected and warmed up; they are held there."""
        self._wait_for_threads('{"ready_ns"')
        now_ns = time.monotonic_ns()
        self.warmup_s = (now_ns - self._started_ns) / 1e9
        return now_ns

    def wait_for_end(self) -> None:
        """Lets all threads begin, and waits until each has done its share; they are held there, too."""
        assert self.process.stdin is not None
        self._origin_ns = time.monotonic_ns()
        self.process.stdin.write("\n" * self.threads)
        self.process.stdin.flush()
        self._wait_for_threads('{"ended_ns"')

    @property
    def elapsed_s(self) -> float:
        assert self._origin_ns is not None
        return (max(self._ends_ns) - self._origin_ns) / 1e9

    def _wait_for_threads(self, word: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while sum(line.startswith(word) for line in list(self.lines)) < self.threads:
            if self.process.poll() is not None or self.server.ended():
                raise self._failure()
            if time.monotonic() > deadline:
                raise RqpsError(
                    f"{self.step.name}: sysbench did not do its transactions within {PATIENCE_S} s",
                    fix="ask for fewer counted_operations in the study's parameters",
                )
            time.sleep(LOOK_S)


@contextmanager
def counting(
    server: Server, step: Step, parameters: SysbenchParameters, *, seed: int, cpus: tuple[int, ...], log: Path
) -> Iterator[Counting]:
    """sysbench with a number of transactions of one step, from its first connection to its end."""
    by_number = {
        "counted-transactions": parameters.transactions_of(step),
        "counted-warmup": parameters.warmup_transactions_of(step),
    }
    process = started(server, step, parameters, by_number, seed=seed, cpus=cpus)
    generator = Counting(process, server, step, parameters, log)
    try:
        yield generator
    finally:
        generator.end()
