"""Counts instructions and cycles of a process with the kernel's perf_event_open, and checks the permission to do so.

Nothing is sampled and nothing interrupts the server: each thread has counters that the kernel stops and starts when
it switches threads; threads that start later get counters, too. Only user-space code is counted: every user may
count it, and callgrind counts the same code. psutil does not read these counters.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rqps.measure.counters import thread_ids
from rqps.measure.machine import number

PERF_EVENT_OPEN = 298  # the system call's number on x86-64
ATTRIBUTES_BYTES = 64  # the first version of the kernel's structure, which every kernel accepts
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
TIME_ENABLED, TIME_RUNNING = 1 << 0, 1 << 1
CLOSE_ON_EXEC = 1 << 3
SETTINGS = Path("/proc/sys/kernel")
ALLOW = "as root: sysctl kernel.perf_event_paranoid=-1 kernel.kptr_restrict=0"
NO_PERMISSION = (errno.EACCES, errno.EPERM)


class Event(NamedTuple):
    """An event that the kernel can count, by the fields `type` and `config` of the kernel's structure
    perf_event_attr."""

    kind: int
    config: int


CYCLES, INSTRUCTIONS = Event(0, 0), Event(0, 1)
CPU_CLOCK, TASK_CLOCK = Event(1, 0), Event(1, 1)
"""Software events that count nanoseconds on a CPU; every machine can count them."""
TRACEPOINT = 2
"""The kernel's type number for tracepoints, which are marked places in the kernel's code. Files below TRACING have
the id of each tracepoint."""
TRACING = Path("/sys/kernel/tracing")
SWITCHES = ("sched:sched_switch", "sched:sched_wakeup", "syscalls:sys_enter_futex")
"""The tracepoints that show where threads wait."""
HARDWARE = {"instructions": INSTRUCTIONS, "cycles": CYCLES}


def _open(event: Event, flags: int, *, thread: int = -1, cpu: int = -1) -> int:
    """Opens a counter of one thread or of one CPU; returns its file descriptor."""
    fields = (event.kind, ATTRIBUTES_BYTES, event.config, 0, 0, TIME_ENABLED | TIME_RUNNING, flags)
    attributes = struct.pack("=IIQQQQQ", *fields).ljust(ATTRIBUTES_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(PERF_EVENT_OPEN, attributes, thread, cpu, -1, CLOSE_ON_EXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def refusal(event: Event, *, whole_cpu: bool) -> int:
    """The error number with which the kernel refuses to count this event for this user; 0 if the kernel counts it."""
    try:
        where = {"cpu": min(os.sched_getaffinity(0))} if whole_cpu else {"thread": 0}
        os.close(_open(event, DISABLED if whole_cpu else DISABLED | EXCLUDE_KERNEL, **where))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def sampling_refused() -> tuple[str, str] | None:
    """The reason and the fix if this user may not sample CPUs; None if the user may."""
    error = refusal(CPU_CLOCK, whole_cpu=True)
    if error in NO_PERMISSION:
        paranoid = number(SETTINGS / "perf_event_paranoid")
        return f"no permission to profile whole CPUs (kernel.perf_event_paranoid is {paranoid})", ALLOW
    if error:
        return f"the kernel refuses to sample CPUs ({os.strerror(error)})", "use a kernel with CONFIG_PERF_EVENTS"
    return None


def switches_refused() -> tuple[str, str] | None:
    """The reason and the fix if this user may not record the switches of threads; None if the user may."""
    try:
        places = [TRACING / "events" / name.replace(":", "/") / "id" for name in SWITCHES]
        errors = [refusal(Event(TRACEPOINT, int(place.read_text())), whole_cpu=True) for place in places]
    except FileNotFoundError:
        fix = f"as root: mount -t tracefs tracefs {TRACING}; in a container, on its host as well"
        return f"the kernel shows no tracepoints in {TRACING}", fix
    except PermissionError:
        return f"no permission to read {TRACING}", f"as root: mount -o remount,mode=755 {TRACING}, and {ALLOW[9:]}"
    if not any(errors):
        return sampling_refused()
    return f"the kernel refuses to record tracepoints ({os.strerror(max(errors))})", ALLOW


class EventCounters:
    """Counts events of all threads of processes from now on. An event that this machine can't count reads as None."""

    def __init__(self, pids: Sequence[int], events: Mapping[str, Event] = HARDWARE) -> None:
        self._descriptors = {name: _open_all(pids, event) for name, event in events.items()}
        self.shared: set[str] = set()
        """Events that had a hardware counter only part of the time, since other programs used the counter, too."""

    def close(self) -> None:
        for descriptors in self._descriptors.values():
            while descriptors:
                os.close(descriptors.pop())

    def read(self) -> dict[str, int | None]:
        """The count of each event so far, summed over all threads, including ended ones. None if the machine can't
        count the event, or counted it only part of the time."""
        counts: dict[str, int | None] = dict.fromkeys(self._descriptors)
        for name, descriptors in self._descriptors.items():
            read = [struct.unpack("=QQQ", os.read(descriptor, 24)) for descriptor in descriptors]
            if any(running_ns < enabled_ns for _, enabled_ns, running_ns in read):
                self.shared.add(name)
            elif read:
                counts[name] = sum(count for count, _, _ in read)
        return counts


def _open_all(pids: Sequence[int], event: Event) -> list[int]:
    """Opens a counter for each thread, or no counter at all: a sum without some threads would be wrong."""
    descriptors: list[int] = []
    threads: list[int] = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # the process ended after it was listed
            threads += thread_ids(pid)
    for thread in sorted(threads):
        try:
            descriptors.append(_open(event, INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR, thread=thread))
        except ProcessLookupError:
            continue  # the thread ended after it was listed
        except OSError:  # the machine has no such event, or the limit of open files is reached
            for descriptor in descriptors:
                os.close(descriptor)
            return []
    return descriptors
