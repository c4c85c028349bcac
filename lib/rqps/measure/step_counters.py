"""Reads counters of server, load generator and host before and after a step, and once a second in between."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import polars as pl

from rqps.errors import RqpsError
from rqps.measure.counters import (
    UNKNOWN,
    HostCounters,
    ProcessReading,
    read_host,
    read_host_state,
    read_process,
    read_processes,
    threads_ended,
)
from rqps.store.manifest import Warning_
from rqps.store.schemas import COUNTERS

MOST_THREADS = 64
"""Maximum number of threads of a process whose context switches are read every second, from one file per thread. For
a process with more threads, context switches are read only before and after the step."""


@dataclass(frozen=True)
class Counters:
    """All counters at one moment of CLOCK_MONOTONIC."""

    at_ns: int
    server: ProcessReading | None
    """None if the engine has no process of its own or, in the samples of every second, if the process has ended."""
    client: ProcessReading | None
    host: HostCounters


def read_counters(server_pids: Sequence[int], client_pid: int, device: str | None) -> Counters:
    """Reads all counters now. `device` is the disk of the data directory, by its name from `device_of`."""
    return Counters(time.monotonic_ns(), read_processes(server_pids), read_process(client_pid), read_host(device))


def used_between(first: Counters, last: Counters) -> dict[str, float | int | None]:
    """CPU time, context switches, reads and writes between two moments, named like the columns of `steps`."""
    used = {
        "server": last.server - first.server if last.server and first.server else UNKNOWN,
        "client": last.client - first.client if last.client and first.client else UNKNOWN,
        "host": last.host - first.host,
    }
    return {f"{part}_{name}": value for part, counters in used.items() for name, value in vars(counters).items()}


def warnings_between(first: Counters, last: Counters, step: str) -> tuple[Warning_, ...]:
    texts = []
    for part, earlier, later in (("server", first.server, last.server), ("client", first.client, last.client)):
        if earlier is None or later is None:
            continue
        if later.reads is None:
            texts.append(f"reads and writes of the {part} are unknown: this user may not read its /proc/PID/io")
        if ended := threads_ended(earlier.switches_by_thread or {}, later.switches_by_thread or {}):
            texts.append(f"context switches of the {part} are unknown: {ended} of its threads ended during the step")
    return tuple(Warning_(kind="counters", text=text, step=step) for text in texts)


def interval_row(earlier: Counters, later: Counters, second: float, interval_s: float) -> dict[str, Any]:
    """The row of the table `counters` for the time between two moments, without the column `step`."""
    return {
        "second": second,
        "interval_s": interval_s,
        **used_between(earlier, later),
        **read_host_state(),
        "server_rss_kb": later.server.rss_kb if later.server else None,
        "client_rss_kb": later.client.rss_kb if later.client else None,
    }


class Sampler:
    """Reads counters in a thread of its own during its `with` block, at multiples of `interval_s` since `origin_ns`.

    `origin_ns` is the moment of CLOCK_MONOTONIC at which the measured part begins. This moment may lie in the
    future (earlier samples get negative seconds) or in the past. A late sample does not delay the next sample. The
    columns of a process are null after the process has ended.
    """

    def __init__(
        self,
        server_pids: Callable[[], Sequence[int]],
        client_pid: int,
        device: str | None,
        origin_ns: int,
        interval_s: float = 1.0,
    ) -> None:
        """`server_pids` returns the server's current processes, which may come and go."""
        self._server_pids, self._client_pid = server_pids, client_pid
        self._device = device
        self._origin_ns = origin_ns
        self._interval_ns = round(interval_s * 1e9)
        self._rows: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._executor = ThreadPoolExecutor(1, "rqps-sampler")

    def __enter__(self) -> Self:
        self._running = self._executor.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._executor.shutdown()
        self._running.result()  # raises the error with which the thread ended, if any

    def frame(self, step: str) -> pl.DataFrame:
        """The rows so far as a table of the schema `counters`."""
        return pl.DataFrame([{"step": step, **row} for row in list(self._rows)], schema=COUNTERS)

    def _run(self) -> None:
        last = self._sample()
        while not self._stopped.wait(self._until_next_s()):
            last = self._add_row(last)
        rest_ns = time.monotonic_ns() - last.at_ns
        if rest_ns > self._interval_ns / 2:  # a shorter last interval gets no row
            self._add_row(last)

    def _until_next_s(self) -> float:
        return (self._interval_ns - (time.monotonic_ns() - self._origin_ns) % self._interval_ns) / 1e9

    def _sample(self) -> Counters:
        at_ns = time.monotonic_ns()
        server, client = (_read_if_alive(pids) for pids in (self._server_pids(), (self._client_pid,)))
        return Counters(at_ns, server, client, read_host(self._device))

    def _add_row(self, earlier: Counters) -> Counters:
        later = self._sample()
        second, interval_s = (later.at_ns - self._origin_ns) / 1e9, (later.at_ns - earlier.at_ns) / 1e9
        self._rows.append(interval_row(earlier, later, second, interval_s))
        return later


def _read_if_alive(pids: Sequence[int]) -> ProcessReading | None:
    try:
        return read_processes(pids, MOST_THREADS)
    except RqpsError:  # the process has ended
        return None
