"""What one process has used so far, told by the kernel: CPU, context switches, reads and writes."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rqps.errors import RqpsError

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True)
class ProcessCounters:
    """The process columns of the tables `steps` and `counters`; None where the kernel does not tell."""

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
            used[name] = _minus(getattr(self, name), getattr(earlier, name))
        used["context_switches"] = switches_between(earlier.switches_by_thread, self.switches_by_thread)
        return ProcessCounters(**used)


def _minus(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def switches_between(earlier: Mapping[int, int] | None, later: Mapping[int, int] | None) -> int | None:
    """Context switches between two readings, exact or None.

    The kernel keeps them for each living thread only. What a thread did between the earlier reading and its
    end is lost, so a sum would be too small without showing it.

    >>> switches_between({10: 5, 11: 7}, {10: 6, 11: 9, 12: 4})
    7
    >>> switches_between({10: 5, 11: 7}, {10: 6}) is None
    True
    """
    if earlier is None or later is None or threads_ended(earlier, later):
        return None
    return sum(count - earlier.get(thread, 0) for thread, count in later.items())


def threads_ended(earlier: Mapping[int, int], later: Mapping[int, int]) -> int:
    """How many threads ended; one whose count fell is another thread that got the same id."""
    return sum(1 for thread, count in earlier.items() if later.get(thread, -1) < count)


def parse_stat(text: bytes) -> tuple[int, int, int, int]:
    """User and system ticks, number of threads and resident pages from /proc/PID/stat.

    >>> parse_stat(b"7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 11 22 0 0 20 0 3 0 99 4096 55 0")
    (11, 22, 3, 55)
    """
    after_name = text[text.rindex(b")") + 2 :].split()  # the name may hold spaces and brackets
    return int(after_name[11]), int(after_name[12]), int(after_name[17]), int(after_name[21])


def parse_io(text: bytes) -> dict[str, int]:
    r"""The counters of /proc/PID/io by name.

    >>> parse_io(b"rchar: 10\nsyscr: 2\n")
    {'rchar': 10, 'syscr': 2}
    """
    pairs = (line.split(b":") for line in text.splitlines())
    return {name.decode(): int(value) for name, value in pairs}


def parse_switches(text: bytes) -> int:
    r"""Voluntary and involuntary context switches from a thread's status.

    >>> parse_switches(b"Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n")
    695
    """
    tail = text[text.rindex(b"\nvoluntary_ctxt_switches:") :].split()
    return int(tail[1]) + int(tail[3])


class ProcessReader:
    """Reads one process again and again through files that stay open, so that a reading costs little.

    Every method raises ProcessLookupError or FileNotFoundError once the process has ended and been reaped.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._cpu_clock = (~pid << 3) | 2  # the kernel's name for the scheduler's clock of a whole process
        self._files: dict[str, int] = {}
        self._thread_files: dict[int, int] = {}
        self._files["stat"] = os.open(f"/proc/{pid}/stat", os.O_RDONLY)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (*self._files.values(), *self._thread_files.values()):
            os.close(descriptor)
        self._files.clear()
        self._thread_files.clear()

    def read(self, most_threads: int | None = None) -> ProcessReading:
        """All counters now; of context switches none where there are more threads than `most_threads`."""
        cpu_s = self._cpu_s()
        user, system, threads, resident = parse_stat(os.pread(self._files["stat"], 4096, 0))
        io = self._io()
        few = most_threads is None or threads <= most_threads
        switches = self._switches_by_thread() if few else None
        return ProcessReading(
            cpu_s=cpu_s,
            cpu_user_s=user / TICKS_PER_S,
            cpu_system_s=system / TICKS_PER_S,
            context_switches=None if switches is None else sum(switches.values()),
            reads=io["syscr"] if io else None,
            writes=io["syscw"] if io else None,
            read_kb=io["read_bytes"] / 1024 if io else None,
            write_kb=io["write_bytes"] / 1024 if io else None,
            rss_kb=resident * PAGE_KB,
            threads=threads,
            io_permitted=io is not None,
            switches_by_thread=switches,
        )

    def _cpu_s(self) -> float:
        try:
            return time.clock_gettime_ns(self._cpu_clock) / 1e9
        except OSError as error:
            raise ProcessLookupError(f"process {self.pid} has no CPU clock") from error

    def _io(self) -> dict[str, int] | None:
        """None where this user may not look: the kernel shows it to those who may trace the process."""
        try:
            if "io" not in self._files:
                self._files["io"] = os.open(f"/proc/{self.pid}/io", os.O_RDONLY)
            return parse_io(os.pread(self._files["io"], 4096, 0))
        except PermissionError:
            return None

    def _switches_by_thread(self) -> dict[int, int]:
        switches: dict[int, int] = {}
        for thread in (int(entry.name) for entry in Path(f"/proc/{self.pid}/task").iterdir()):
            try:
                if thread not in self._thread_files:
                    path = f"/proc/{self.pid}/task/{thread}/status"
                    self._thread_files[thread] = os.open(path, os.O_RDONLY)
                switches[thread] = parse_switches(os.pread(self._thread_files[thread], 8192, 0))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended since the list was made
        for thread in self._thread_files.keys() - switches.keys():
            os.close(self._thread_files.pop(thread))
        return switches


def read_process(pid: int) -> ProcessReading:
    """What the process has used since it began; also of one that ended but was not reaped yet."""
    try:
        with ProcessReader(pid) as reader:
            return reader.read()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise RqpsError(
            f"process {pid} has ended, its counters can't be read",
            fix="look into the logs of the server and the load generator for why it ended",
        ) from error
