"""Lets servers take turns by pausing their processes (SIGSTOP, then SIGCONT): each server has a load generator
of its own, and one server runs at a time.

So a server does its deferred work, such as flushing and purging, in its own turns. Anything that slows the machine
for longer than a cycle affects all servers alike. The clock of a load generator stands still while it is paused.

Sysbench takes turns in another way (`workloads/sysbench/lua/rqps.lua`): one load generator has a connection to each
server, a slice ends with a transaction, and no server is paused, because an old release used more CPU when it was
paused between its slices (benchmarks/verdicts/README.md).
"""

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from rqps.measure.counters import HostCounters, cpu_ns, cpu_of_all_ns, read_host, read_idle_ns
from rqps.measure.step_counters import Counters, interval_row, read_counters
from rqps.numbers import sized
from rqps.store.schemas import COUNTERS, CYCLES
from rqps.workloads import StoppableLoad

LOOK_S = 5e-5
NAP_S = 0.1
"""Wait before the first turn, in seconds. A load generator that waits for its start sleeps no longer than this at a
time, so all load generators are ready after the wait."""


class Side:
    """A server with its load generator. The counters and seconds of a side cover its own turns only."""

    def __init__(
        self, server_pids: Callable[[], Sequence[int]], load: StoppableLoad, device: str | None, step: str
    ) -> None:
        self.load = load
        self.ended = False
        self.slices: list[dict[str, Any]] = []
        """Rows of the table `slices`."""
        self._server_pids, self._device, self._step = server_pids, device, step
        self._in_load = load.pid in server_pids()
        """True if the engine runs in the load generator's process."""
        self._stopped: set[int] = set()
        """Processes of the server that are paused now and continue in its next turn."""
        self._stopped_ns = self._own_ns = 0
        self._rows: list[dict[str, Any]] = []

    def stop(self) -> None:
        """Pauses server and load generator (SIGSTOP) once the load generator is ready, whose clock then stands
        still until the first turn."""
        self._stopped_at_ns = self.load.wait_for_origin()
        self._stand_still()
        self.first = self.last = self._sampled = read_counters(self._server_pids(), self.load.pid, self._device)
        self._host = self.first.host

    def turn(self, number: int, cycle: int) -> None:
        """Lets server and load generator run for a slice, or until the load ends."""
        host, cpu, client_cpu = self._reading()
        done = self.load.operations()
        at_ns = time.monotonic_ns()
        self._stopped_ns += at_ns - self._stopped_at_ns
        self.load.set_stopped(self._stopped_ns)
        self.go_on()
        self.ended = self.load.ended_within(self.load.slice_s)
        self._stand_still()
        self._stopped_at_ns = time.monotonic_ns()
        self._own_ns += self._stopped_at_ns - at_ns
        later, cpu_later, client_cpu_later = self._reading()
        self._host = later - (host - self._host)  # `_host` counts what the host used in this side's turns only
        self.slices.append(
            {
                "step": self._step,
                "slice": number,
                "cycle": cycle,
                "operations": None if done is None else (self.load.operations() or 0) - done,
                "busy_us": (self._stopped_at_ns - at_ns) / 1e3,
                "client_cpu_us": None if self._in_load else (client_cpu_later - client_cpu) / 1e3,
                "server_cpu_us": (cpu_later - cpu) / 1e3,
            }
        )
        if self.ended or self._own_ns - self._sampled.at_ns >= 1e9:
            self._sample()
        if not self.ended and self._own_ns / 1e9 > self.load.patience_s:
            raise self.load.failure(f"did not end within {sized(self.load.patience_s)} s of its own")

    def go_on(self) -> None:
        """Lets the paused server and its load generator continue (SIGCONT)."""
        for pid in (*sorted(self._stopped), self.load.pid):
            _signal(pid, signal.SIGCONT)
        self._stopped.clear()

    def counters(self) -> pl.DataFrame:
        """The raw table `counters`. Its column `second` is time in the side's own turns."""
        return pl.DataFrame(self._rows, schema=COUNTERS)

    def _stand_still(self) -> None:
        """Pauses the load generator first and the server's first process last, and waits until all processes stand
        still: a process that is not on a CPU when SIGSTOP arrives pauses when it next gets a CPU, and until then
        the turn is not over. Processes that the server starts meanwhile are paused, too."""
        _signal(self.load.pid, signal.SIGSTOP)
        while new := [pid for pid in self._server_pids() if pid not in self._stopped]:
            for pid in reversed(new):
                _signal(pid, signal.SIGSTOP)
            self._stopped.update(new)
            while not all(map(stands_still, (*self._stopped, self.load.pid))):
                time.sleep(LOOK_S)

    def _reading(self) -> tuple[HostCounters, int, int]:
        """The host's counters, and the CPU time of server and load generator in ns."""
        try:
            return read_host(self._device), cpu_of_all_ns(self._server_pids()), cpu_ns(self.load.pid)
        except ProcessLookupError:
            raise self.load.failure() from None

    def _sample(self) -> None:
        """Adds a row of `counters`; the host's counters cover the side's own turns only."""
        read = read_counters(self._server_pids(), self.load.pid, self._device)
        self.last = Counters(self._own_ns, read.server, read.client, self._host)
        earlier = self._sampled
        interval_ns = self._own_ns - (0 if earlier is self.first else earlier.at_ns)
        row = interval_row(earlier, self.last, self._own_ns / 1e9, interval_ns / 1e9)
        self._rows.append({"step": self._step, **row})
        self._sampled = self.last


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the process has ended, which the load generator will report
        os.kill(pid, number)


def stands_still(pid: int) -> bool:
    """True if a process is paused (SIGSTOP) or has ended."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return after_name.split(maxsplit=1)[0] in b"TZX"


@contextmanager
def stopped(sides: Sequence[Side]) -> Iterator[None]:
    """Keeps all sides paused during the block, except the side whose turn it is. All sides continue after the block,
    also after an error."""
    try:
        for side in sides:
            side.stop()
        time.sleep(NAP_S)
        yield
    finally:
        for side in sides:
            side.go_on()


def take_turns(sides: Sequence[Side], seed: str, cpus: Collection[int] = ()) -> list[tuple[int, Any]]:
    """Gives turns to the sides until all loads have ended. A cycle is two passes over all sides, each in a random
    order of its own, so each side has two turns in a cycle. Returns the time, and the idle time of `cpus`, at the
    beginning of each cycle and at the end."""
    random_order, number, orders, idle = random.Random(seed), 0, 0, []
    while left := [side for side in sides if not side.ended]:
        if orders % 2 == 0:
            idle.append((time.monotonic_ns(), read_idle_ns(cpus)))
        for side in random_order.sample(left, len(left)):
            side.turn(number, orders // 2)
            number += 1
        orders += 1
    return [*idle, (time.monotonic_ns(), read_idle_ns(cpus))]


def cycle_table(sides: Sequence[Side], idle: Sequence[tuple[int, Any]], step: str) -> pl.DataFrame:
    """The table `cycles`, equal for all sides: per cycle, the CPU time of all processes except servers and load
    generators."""
    ours_us = defaultdict[int, float](float)
    for row in (row for side in sides for row in side.slices):
        ours_us[row["cycle"]] += row["server_cpu_us"] + (row["client_cpu_us"] or 0)
    rows = []
    for cycle, ((from_ns, earlier), (to_ns, later)) in enumerate(pairwise(idle)):
        if earlier and later:
            cpu_us = len(later) * (to_ns - from_ns) / 1e3
            idle_us = sum(max(n - m for m, n in zip(earlier[cpu], later[cpu], strict=True)) for cpu in later) / 1e3
            outside_us = max(0.0, cpu_us - ours_us[cycle] - idle_us)
            rows.append({"step": step, "cycle": cycle, "cpu_us": cpu_us, "outside_us": outside_us})
    return pl.DataFrame(rows, schema=CYCLES)
