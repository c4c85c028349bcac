"""The CPU's own counters of one process: instructions and cycles, where the machine has them and lets us count.

They are opened once, for every thread there is; threads that these start later count with them. Nothing is sampled
and nothing interrupts the server: the kernel keeps the counters when it switches threads, and they are read at a
step's two ends. What is counted is the server's own code, without the kernel's: that much every user may count, and
it is what callgrind counts.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

PERF_EVENT_OPEN = 298  # the system call's number on x86-64
ATTRIBUTES_BYTES = 64  # the first version of the kernel's structure, which every kernel takes
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
TIME_ENABLED, TIME_RUNNING = 1 << 0, 1 << 1
CLOSE_ON_EXEC = 1 << 3


@dataclass(frozen=True)
class Event:
    """Something that the kernel can count, by its own numbers for it."""

    kind: int
    config: int


HARDWARE = {"instructions": Event(0, 1), "cycles": Event(0, 0)}
TASK_CLOCK = Event(1, 1)
"""Nanoseconds on a CPU, which the kernel counts on every machine."""

_NOT_HERE = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class Reading:
    """What was counted so far, by event; None where it can't be told."""

    counts: Mapping[str, int | None]
    shared: frozenset[str] = frozenset()
    """Events that did not have a counter of the CPU all the time, since there are more who want one."""

    def __sub__(self, earlier: "Reading") -> dict[str, int | None]:
        return {name: _minus(count, earlier.counts.get(name)) for name, count in self.counts.items()}


def _minus(later: int | None, earlier: int | None) -> int | None:
    return None if later is None or earlier is None else later - earlier


class EventCounters:
    """Counts events of all threads of a process, from now on; one that can't be counted here reads as None."""

    def __init__(self, pid: int, events: Mapping[str, Event] = HARDWARE) -> None:
        self._descriptors: dict[str, list[int]] = {}
        for name, event in events.items():
            opened = _open_all(pid, event)
            if opened:
                self._descriptors[name] = opened
        self._names = tuple(events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for descriptors in self._descriptors.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._descriptors.clear()

    def read(self) -> Reading:
        """The sums over all threads, also of those that have ended."""
        counts: dict[str, int | None] = dict.fromkeys(self._names)
        shared = set()
        for name, descriptors in self._descriptors.items():
            total = 0
            for descriptor in descriptors:
                count, enabled_ns, running_ns = struct.unpack("=QQQ", os.read(descriptor, 24))
                total += count
                if running_ns < enabled_ns:
                    shared.add(name)
            counts[name] = None if name in shared else total
        return Reading(counts, frozenset(shared))


def _open_all(pid: int, event: Event) -> list[int]:
    """A counter for each thread, or none at all: a sum without some of them would be a wrong number."""
    descriptors: list[int] = []
    for thread in sorted(int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()):
        try:
            descriptors.append(open_counter(thread, event))
        except ProcessLookupError:
            continue  # it ended since the list was made
        except OSError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            if error.errno in (*_NOT_HERE, errno.EMFILE, errno.ENFILE):
                return []
            raise
    return descriptors


def open_counter(thread: int, event: Event) -> int:
    """A counter of one thread and of all that it starts from now on, as a file descriptor."""
    attributes = struct.pack(
        "=IIQQQQQ",
        event.kind,
        ATTRIBUTES_BYTES,
        event.config,
        0,
        0,
        TIME_ENABLED | TIME_RUNNING,
        INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
    ).ljust(ATTRIBUTES_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(PERF_EVENT_OPEN, attributes, thread, -1, -1, CLOSE_ON_EXEC))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor
