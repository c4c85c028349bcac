"""Events that the kernel counts for us (perf_event_open): instructions and cycles of one process, and permissions.

Counters are opened once, for every thread there is; threads that these start later count with them. Nothing is
sampled and nothing interrupts the server: the kernel switches counters with threads, and we read them at a step's two
ends. They count the server's own code without the kernel's: every user may count that much, and it is what callgrind
counts. psutil has none of this.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rqps.observe.process_counters import thread_ids

PERF_EVENT_OPEN = 298  # the system call's number on x86-64
ATTRIBUTES_BYTES = 64  # the first version of the kernel's structure, which every kernel takes
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
TIME_ENABLED, TIME_RUNNING = 1 << 0, 1 << 1
CLOSE_ON_EXEC = 1 << 3
NO_PERMISSION = (errno.EACCES, errno.EPERM)
ALLOW = "as root: sysctl kernel.perf_event_paranoid=-1 kernel.kptr_restrict=0"

_NOT_HERE = (*NO_PERMISSION, errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_NO_FILES = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True)
class Event:
    """Something that the kernel can count, by its own numbers for it."""

    kind: int
    config: int


CYCLES, INSTRUCTIONS = Event(0, 0), Event(0, 1)
CPU_CLOCK, TASK_CLOCK = Event(1, 0), Event(1, 1)
"""Nanoseconds on a CPU, which the kernel counts on every machine."""
HARDWARE = {"instructions": INSTRUCTIONS, "cycles": CYCLES}


def open_event(event: Event, flags: int, *, thread: int = -1, cpu: int = -1, read_format: int = 0) -> int:
    """A counter of one thread, or of one CPU, as a file descriptor."""
    fields = (event.kind, ATTRIBUTES_BYTES, event.config, 0, 0, read_format, flags)
    attributes = struct.pack("=IIQQQQQ", *fields).ljust(ATTRIBUTES_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(PERF_EVENT_OPEN, attributes, thread, cpu, -1, CLOSE_ON_EXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def refusal(event: Event, *, whole_cpu: bool) -> int:
    """Error number with which the kernel refuses to count this event for us; 0 where it counts."""
    try:
        if whole_cpu:
            os.close(open_event(event, DISABLED, cpu=min(os.sched_getaffinity(0))))
        else:
            os.close(open_event(event, DISABLED | EXCLUDE_KERNEL, thread=0))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


@dataclass(frozen=True)
class Reading:
    """Counts so far by event; None where the machine can't count one."""

    counts: Mapping[str, int | None]
    shared: frozenset[str] = frozenset()
    """Events that had a counter of the CPU for a part of the time only, since others wanted one too."""

    def __sub__(self, earlier: "Reading") -> dict[str, int | None]:
        before = earlier.counts
        return {
            name: None if count is None or (first := before.get(name)) is None else count - first
            for name, count in self.counts.items()
        }


class EventCounters:
    """Counts events of all threads of processes, from now on; an event that can't be counted here reads as None."""

    def __init__(self, pids: Sequence[int], events: Mapping[str, Event] = HARDWARE) -> None:
        self._names = tuple(events)
        self._descriptors = {name: opened for name, event in events.items() if (opened := _open_all(pids, event))}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
            read = [struct.unpack("=QQQ", os.read(descriptor, 24)) for descriptor in descriptors]
            if any(running_ns < enabled_ns for _, enabled_ns, running_ns in read):
                shared.add(name)
            else:
                counts[name] = sum(count for count, _, _ in read)
        return Reading(counts, frozenset(shared))


def _open_all(pids: Sequence[int], event: Event) -> list[int]:
    """A counter for each thread, or none at all: a sum without some threads would be a wrong number."""
    flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    descriptors: list[int] = []
    for thread in sorted(thread for pid in pids for thread in thread_ids(pid)):
        try:
            descriptors.append(open_event(event, flags, thread=thread, read_format=TIME_ENABLED | TIME_RUNNING))
        except ProcessLookupError:
            continue  # it ended since the list was made
        except OSError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            if error.errno in (*_NOT_HERE, *_NO_FILES):
                return []
            raise
    return descriptors
