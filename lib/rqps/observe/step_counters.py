"""The two ends of a step: every counter read in one go, and what was used in between."""

import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import polars as pl

from rqps.observe.host_counters import HostCounters, HostReader, HostState, read_host
from rqps.observe.process_counters import UNKNOWN, ProcessReader, ProcessReading, read_process, threads_ended
from rqps.store.manifest import Warning_
from rqps.store.schemas import COUNTERS


@dataclass(frozen=True)
class End:
    """All counters at one moment of CLOCK_MONOTONIC."""

    at_ns: int
    server: ProcessReading
    client: ProcessReading
    host: HostCounters


def read_counters(server_pid: int, client_pid: int, device: str | None) -> End:
    """Read everything now. `device` is the one that holds the data directory, see `device_of`."""
    return End(time.monotonic_ns(), read_process(server_pid), read_process(client_pid), read_host(device))


def used_between(earlier: End, later: End) -> dict[str, float | int | None]:
    """What was used between two ends, under the names of the counter columns of the table `steps`."""
    parts = {
        "server": asdict(later.server - earlier.server),
        "client": asdict(later.client - earlier.client),
        "host": asdict(later.host - earlier.host),
    }
    return {f"{part}_{name}": value for part, counters in parts.items() for name, value in counters.items()}


def elapsed_s(earlier: End, later: End) -> float:
    return (later.at_ns - earlier.at_ns) / 1e9


def warnings_between(earlier: End, later: End, step: str) -> tuple[Warning_, ...]:
    """Why counters of this step are missing, where some are."""
    found = []
    for part, first, last in (
        ("server", earlier.server, later.server),
        ("client", earlier.client, later.client),
    ):
        if not last.io_permitted:
            text = f"reads and writes of the {part} are unknown: this user may not read its /proc/PID/io"
            found.append(Warning_(kind="counters", text=text, step=step))
        ended = threads_ended(first.switches_by_thread or {}, last.switches_by_thread or {})
        if ended:
            text = f"context switches of the {part} are unknown: {ended} of its threads ended during the step"
            found.append(Warning_(kind="counters", text=text, step=step))
    return tuple(found)


MOST_THREADS = 64
"""Above this, context switches a second are left out (a file read each). A step's ends have them."""


@dataclass(frozen=True)
class _Sample:
    at_ns: int
    server: ProcessReading | None
    client: ProcessReading | None
    host: HostCounters
    state: HostState


class Sampler:
    """Samples in a thread of its own from `with` to its end, at whole intervals since `origin_ns`.

    `origin_ns` is the moment of CLOCK_MONOTONIC at which the measured part begins; it may lie ahead (what is
    sampled before it gets negative seconds) or behind. A late sample shifts no later one. A process that ends
    has nulls from then on.
    """

    def __init__(
        self, server_pid: int, client_pid: int, device: str | None, origin_ns: int, interval_s: float = 1.0
    ) -> None:
        self._pids = (server_pid, client_pid)
        self._device = device
        self._origin_ns = origin_ns
        self._interval_ns = round(interval_s * 1e9)
        self._rows: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="rqps-sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def frame(self, step: str) -> pl.DataFrame:
        """The rows so far as a table of the schema `counters`."""
        return pl.DataFrame([{"step": step, **row} for row in list(self._rows)], schema=COUNTERS)

    def _run(self) -> None:
        try:
            with ExitStack() as stack:
                self._sample_until_stopped(stack)
        except OSError as failure:  # shown by the one who waits for us, not lost with this thread
            self._failure = failure

    def _sample_until_stopped(self, stack: ExitStack) -> None:
        host = stack.enter_context(HostReader(self._device))
        readers = [_reader(pid, stack) for pid in self._pids]
        last = _take(readers, host)
        while not self._stopped.wait(self._until_next_s()):
            sample = _take(readers, host)
            self._rows.append(self._row(last, sample))
            last = sample
        rest_ns = time.monotonic_ns() - last.at_ns
        if rest_ns > self._interval_ns / 2:  # stopped a moment before the last whole interval
            self._rows.append(self._row(last, _take(readers, host)))

    def _until_next_s(self) -> float:
        return (self._interval_ns - (time.monotonic_ns() - self._origin_ns) % self._interval_ns) / 1e9

    def _row(self, earlier: _Sample, later: _Sample) -> dict[str, Any]:
        server = later.server - earlier.server if later.server and earlier.server else UNKNOWN
        client = later.client - earlier.client if later.client and earlier.client else UNKNOWN
        return {
            "second": (later.at_ns - self._origin_ns) / 1e9,
            "interval_s": (later.at_ns - earlier.at_ns) / 1e9,
            **{f"server_{name}": value for name, value in asdict(server).items()},
            **{f"client_{name}": value for name, value in asdict(client).items()},
            **{f"host_{name}": value for name, value in asdict(later.host - earlier.host).items()},
            **{f"host_{name}": value for name, value in asdict(later.state).items()},
            "server_rss_kb": later.server.rss_kb if later.server else None,
            "client_rss_kb": later.client.rss_kb if later.client else None,
        }


def _reader(pid: int, stack: ExitStack) -> ProcessReader | None:
    try:
        return stack.enter_context(ProcessReader(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _take(readers: list[ProcessReader | None], host: HostReader) -> _Sample:
    at_ns = time.monotonic_ns()
    server, client = (_read(reader) for reader in readers)
    return _Sample(at_ns, server, client, host.counters(), host.state())


def _read(reader: ProcessReader | None) -> ProcessReading | None:
    try:
        return reader.read(MOST_THREADS) if reader else None
    except (FileNotFoundError, ProcessLookupError):
        return None
