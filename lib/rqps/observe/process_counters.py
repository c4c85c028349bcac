"""Counters of one process as the kernel keeps them: CPU, context switches, reads and writes.

psutil reads all but two of them: CPU time in nanoseconds (psutil has ticks of 10 ms), and the context switches of all
threads (psutil has those of the first one).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil

from rqps.errors import RqpsError


@dataclass(frozen=True)
class ProcessCounters:
    """The process columns of the tables `steps` and `counters`; None where the kernel does not say."""

    cpu_s: float | None
    cpu_user_s: float | None
    cpu_system_s: float | None
    context_switches: int | None
    reads: int | None
    writes: int | None
    read_kb: float | None
    write_kb: float | None


UNKNOWN = ProcessCounters(None, None, None, None, None, None, None, None)


@dataclass(frozen=True)
class ProcessReading(ProcessCounters):
    """The counters since the process began. `later - earlier` is what it used in between."""

    rss_kb: int
    threads: int
    io_permitted: bool
    switches_by_thread: Mapping[int, int] | None = field(repr=False)

    def __sub__(self, earlier: "ProcessReading") -> ProcessCounters:
        used: dict[str, Any] = {}
        for name in (each.name for each in fields(ProcessCounters)):
            last, first = getattr(self, name), getattr(earlier, name)
            used[name] = None if last is None or first is None else last - first
        used["context_switches"] = switches_between(earlier.switches_by_thread, self.switches_by_thread)
        return ProcessCounters(**used)


_NUMBERS = (*(each.name for each in fields(ProcessCounters)), "rss_kb", "threads")


def switches_between(earlier: Mapping[int, int] | None, later: Mapping[int, int] | None) -> int | None:
    """Context switches between two readings, exact or None.

    The kernel keeps them for each living thread only. It forgets what a thread did between the earlier reading and
    its end, so a sum would be too small without showing it.

    >>> switches_between({10: 5, 11: 7}, {10: 6, 11: 9, 12: 4})
    7
    >>> switches_between({10: 5, 11: 7}, {10: 6}) is None
    True
    """
    if earlier is None or later is None or threads_ended(earlier, later):
        return None
    return sum(count - earlier.get(thread, 0) for thread, count in later.items())


def threads_ended(earlier: Mapping[int, int], later: Mapping[int, int]) -> int:
    """Number of threads that ended; one whose count fell is another thread that got the same id."""
    return sum(1 for thread, count in earlier.items() if later.get(thread, -1) < count)


def read_process(pid: int, most_threads: int | None = None) -> ProcessReading:
    """Counters of a process since it began, also of one that ended but was not reaped yet.

    Context switches are left out where there are more threads than `most_threads`: they take a file of each.
    """
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return _read(process, most_threads)
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError) as error:
        raise RqpsError(
            f"process {pid} has ended, its counters can't be read",
            fix="look into the logs of the server and the load generator for why it ended",
        ) from error


def read_processes(pids: Sequence[int], most_threads: int | None = None) -> ProcessReading | None:
    """Sum of the counters of an engine's processes; None for an engine that has none of its own."""
    readings = [read_process(pid, most_threads) for pid in pids]
    if len(readings) < 2:
        return readings[0] if readings else None
    switches: dict[int, int] = {}
    for each in readings:
        switches.update(each.switches_by_thread or {})
    summed = {name: _sum(getattr(each, name) for each in readings) for name in _NUMBERS}
    permitted = all(each.io_permitted for each in readings)
    known = summed["context_switches"] is not None
    return ProcessReading(**summed, io_permitted=permitted, switches_by_thread=switches if known else None)


def _sum(values: Iterable[Any]) -> Any:
    found = list(values)
    return None if None in found else sum(found)


def _read(process: psutil.Process, most_threads: int | None) -> ProcessReading:
    cpu_s = cpu_ns(process.pid) / 1e9
    times, threads = process.cpu_times(), process.num_threads()
    try:
        io = process.io_counters()
    except psutil.AccessDenied:  # the kernel shows it to those who may trace the process
        io = None
    few = most_threads is None or threads <= most_threads
    switches = _switches_by_thread(process.pid) if few else None
    return ProcessReading(
        cpu_s=cpu_s,
        cpu_user_s=times.user,
        cpu_system_s=times.system,
        context_switches=None if switches is None else sum(switches.values()),
        reads=io.read_count if io else None,
        writes=io.write_count if io else None,
        read_kb=io.read_bytes / 1024 if io else None,
        write_kb=io.write_bytes / 1024 if io else None,
        rss_kb=process.memory_info().rss // 1024,
        threads=threads,
        io_permitted=io is not None,
        switches_by_thread=switches,
    )


def cpu_ns(pid: int) -> int:
    """CPU time of a process, with all its threads, also those that ended, by the scheduler's own clock."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)  # the kernel's name for that clock
    except OSError as error:
        raise ProcessLookupError(f"process {pid} has no CPU clock") from error


def thread_ids(pid: int) -> list[int]:
    """Ids of all threads of a process; psutil would read a file of each to list them."""
    return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]


def parse_switches(text: bytes) -> int:
    r"""Voluntary and involuntary context switches from a thread's status.

    >>> parse_switches(b"Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n")
    695
    """
    tail = text[text.rindex(b"\nvoluntary_ctxt_switches:") :].split()
    return int(tail[1]) + int(tail[3])


def _switches_by_thread(pid: int) -> dict[int, int]:
    switches = {}
    for thread in thread_ids(pid):
        try:
            switches[thread] = parse_switches(Path(f"/proc/{pid}/task/{thread}/status").read_bytes())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended since the list was made
    return switches
