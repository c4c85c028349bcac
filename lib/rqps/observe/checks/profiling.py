"""Whether this user can count instructions and sample stacks: tried with the kernel itself, not guessed."""

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from typing import Any

from rqps.observe.checks.finding import Finding

PERF_EVENT_OPEN = 298  # the system call's number on x86-64
HARDWARE, SOFTWARE = 0, 1
CPU_CYCLES, INSTRUCTIONS, CPU_CLOCK = 0, 1, 0
ATTRIBUTES_BYTES = 64  # the first version of the kernel's structure, which every kernel takes
DISABLED, EXCLUDE_KERNEL = 1 << 0, 1 << 5
ALLOW = "as root: sysctl kernel.perf_event_paranoid=-1 kernel.kptr_restrict=0"


def profiling_findings(machine: Mapping[str, Any]) -> list[Finding]:
    return [instructions(), sampling(machine.get("perf_event_paranoid"))]


def try_event(kind: int, config: int, *, whole_cpu: bool) -> int:
    """Open a counter as perf would and close it; the error number, 0 if it worked."""
    flags = DISABLED if whole_cpu else DISABLED | EXCLUDE_KERNEL
    attributes = struct.pack("=IIQQQQQ", kind, ATTRIBUTES_BYTES, config, 0, 0, 0, flags).ljust(
        ATTRIBUTES_BYTES, b"\0"
    )
    libc = ctypes.CDLL(None, use_errno=True)
    process, cpu = (-1, min(os.sched_getaffinity(0))) if whole_cpu else (0, -1)
    descriptor = libc.syscall(PERF_EVENT_OPEN, attributes, process, cpu, -1, 0)
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0


def instructions() -> Finding:
    error = try_event(HARDWARE, INSTRUCTIONS, whole_cpu=False)
    if error == 0:
        return Finding("hardware counters", "ok", "instructions can be counted")
    if error in (errno.EACCES, errno.EPERM):
        found = "no permission to count instructions"
        return Finding("hardware counters", "note", found, "instructions an operation stay unknown", ALLOW)
    return Finding(
        "hardware counters",
        "note",
        f"none here ({os.strerror(error)})",
        "instructions an operation can't be counted; CPU time still is",
        "virtual machines seldom have them: use a real machine, or valgrind's callgrind",
    )


def sampling(paranoid: int | None) -> Finding:
    """Stacks are sampled on whole CPUs, since sampling one process slows it by a fifth and more."""
    error = try_event(SOFTWARE, CPU_CLOCK, whole_cpu=True)
    if error == 0:
        return Finding("stack sampling", "ok", "whole CPUs can be sampled")
    if error in (errno.EACCES, errno.EPERM):
        found = "no permission to profile"
        if paranoid is not None:
            found += f" (kernel.perf_event_paranoid is {paranoid})"
        return Finding(
            "stack sampling", "warn", found, "throughput is measured, but not explained by function", ALLOW
        )
    found = f"the kernel refuses ({os.strerror(error)})"
    return Finding("stack sampling", "warn", found, "no stacks", "use a kernel with CONFIG_PERF_EVENTS")
