"""What this machine and a build allow: which event, how often, and how stacks are followed."""

import errno
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from rqps.errors import RqpsError
from rqps.observe.checks.profiling import ALLOW, CPU_CLOCK, CPU_CYCLES, HARDWARE, SOFTWARE, try_event
from rqps.observe.system_files import number
from rqps.store.schemas import CALLERS

Unwinding = Literal["frame pointers", "DWARF"]
SAMPLES_PER_S = 999
"""On each CPU; not a whole thousand, so as not to keep step with the kernel's own clock."""
COPIES_PER_S = 199
"""The same where each sample needs a copy of the stack."""
CALLERS_PER_S = 97
"""Of samples with a copy beside the others, on all CPUs together: they tell who calls what has no frame pointers."""
STACK_BYTES = 32768
BUFFER = "8M"
"""Of each CPU: for some seconds in which perf has to wait."""
_SETTINGS = Path("/proc/sys/kernel")


@dataclass(frozen=True)
class Sampling:
    """How stacks are sampled."""

    event: str
    samples_per_s: int
    callers_per_s: int
    unwinding: Unwinding
    large_buffer: bool

    @property
    def words(self) -> str:
        how = f"{self.event} {self.samples_per_s} times a second, stacks by {self.unwinding}"
        if self.unwinding == "DWARF":
            return how
        return f"{how}, the ways to libraries by DWARF {self.callers_per_s} times a second"

    def arguments(self) -> list[str]:
        """Of `perf record`."""
        copy = f"call-graph=dwarf,stack-size={STACK_BYTES}"
        clock = f"{self.event}/freq={self.samples_per_s},name={self.event}"
        events = ["-e", f"{clock},{copy}/"]
        if self.unwinding == "frame pointers":
            # The copies come first: perf 6.1 unwinds them as the first event wants it.
            seldom = f"{self.event}/freq={self.callers_per_s},name={CALLERS},{copy}/"
            events = ["-e", seldom, "-e", f"{clock},call-graph=fp/"]
        # Where data are mapped has to be known, since there programs have the tables that they are unwound by.
        return ["--data", *(("--mmap-pages", BUFFER) if self.large_buffer else ()), *events]


def choose(mysqld: Path, cpus: int) -> Sampling:
    """How to sample this server on so many CPUs of this machine; an error where this user may not."""
    highest = number(_SETTINGS / "perf_event_max_sample_rate") or SAMPLES_PER_S
    unwinding: Unwinding = "frame pointers" if keeps_frame_pointers(mysqld) else "DWARF"
    return Sampling(
        event=event(),
        samples_per_s=min(SAMPLES_PER_S if unwinding == "frame pointers" else COPIES_PER_S, highest),
        callers_per_s=max(1, CALLERS_PER_S // cpus),
        unwinding=unwinding,
        large_buffer=os.geteuid() == 0 or number(_SETTINGS / "perf_event_paranoid") == -1,
    )


def event() -> str:
    """What is sampled: cycles where there are hardware counters, else the CPU's clock."""
    if try_event(HARDWARE, CPU_CYCLES, whole_cpu=True) == 0:
        return "cycles"
    error = try_event(SOFTWARE, CPU_CLOCK, whole_cpu=True)
    if error == 0:
        return "cpu-clock"
    raise _refused(error)


def _refused(error: int) -> RqpsError:
    if error in (errno.EACCES, errno.EPERM):
        paranoid = number(_SETTINGS / "perf_event_paranoid")
        return RqpsError(
            f"stacks: this user may not profile whole CPUs (kernel.perf_event_paranoid is {paranoid})",
            fix=f"{ALLOW}; or leave stacks_rounds out of the study",
        )
    return RqpsError(
        f"stacks: the kernel refuses to sample CPUs, {os.strerror(error)}",
        fix="use a kernel with CONFIG_PERF_EVENTS, or leave stacks_rounds out of the study",
    )


PROLOGUE = bytes.fromhex("554889e5")  # push %rbp; mov %rsp,%rbp
KB_BETWEEN = 8
"""Of code, at most, from one such beginning to the next: with frame pointers there is one a KB, else next to none."""


@cache
def keeps_frame_pointers(program: Path) -> bool:
    """Whether the functions of a program begin as they do where frame pointers are kept."""
    found = code_bytes = 0
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        for start, end in _code(content):
            code_bytes += end - start
            at = content.find(PROLOGUE, start, end)
            while at >= 0:
                found, at = found + 1, content.find(PROLOGUE, at + len(PROLOGUE), end)
    return found * KB_BETWEEN * 1024 >= code_bytes > 0


def _code(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where in an ELF file of 64 bits the segments are that can be executed."""
    first, size, count = (*struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54))
    for at in range(first, first + count * size, size):
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        if kind == LOADED and flags & EXECUTABLE:
            yield offset, offset + length


LOADED, EXECUTABLE = 1, 1
