"""What this machine and a build allow: which event, how often, and how stacks are followed."""

import errno
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rqps.errors import RqpsError
from rqps.observe.checks.profiling import ALLOW, CPU_CLOCK, CPU_CYCLES, HARDWARE, SOFTWARE, try_event
from rqps.observe.system_files import number
from rqps.store.schemas import CALLERS

Unwinding = Literal["frame pointers", "DWARF"]
SAMPLES_PER_S = 999
"""On each CPU; not a whole thousand, so as not to keep step with the kernel's own clock."""
CALLERS_PER_S = 49
"""Samples with a copy of the stack: the few that tell who calls what has no frame pointers."""
STACK_BYTES = 32768
_SETTINGS = Path("/proc/sys/kernel")


@dataclass(frozen=True)
class Sampling:
    """How stacks are sampled."""

    event: str
    samples_per_s: int
    unwinding: Unwinding

    @property
    def words(self) -> str:
        return f"{self.event} {self.samples_per_s} times a second, stacks by {self.unwinding}"

    def events(self) -> list[str]:
        """As arguments of `perf record`."""
        clock = f"{self.event}/freq={self.samples_per_s},name={self.event}"
        if self.unwinding == "DWARF":
            return ["-e", f"{clock},call-graph=dwarf,stack-size={STACK_BYTES}/"]
        seldom = f"{self.event}/freq={CALLERS_PER_S},name={CALLERS},call-graph=dwarf,stack-size={STACK_BYTES}/"
        return ["-e", f"{clock},call-graph=fp/", "-e", seldom]


def choose(mysqld: Path) -> Sampling:
    """How to sample this server on this machine; an error where this user may not."""
    event = _event()
    highest = number(_SETTINGS / "perf_event_max_sample_rate") or SAMPLES_PER_S
    unwinding: Unwinding = "frame pointers" if keeps_frame_pointers(mysqld) else "DWARF"
    return Sampling(event, min(SAMPLES_PER_S, highest), unwinding)


def _event() -> str:
    if try_event(HARDWARE, CPU_CYCLES, whole_cpu=True) == 0:
        return "cycles"
    error = try_event(SOFTWARE, CPU_CLOCK, whole_cpu=True)
    if error == 0:
        return "cpu-clock"
    if error in (errno.EACCES, errno.EPERM):
        paranoid = number(_SETTINGS / "perf_event_paranoid")
        raise RqpsError(
            f"stacks: this user may not profile whole CPUs (kernel.perf_event_paranoid is {paranoid})",
            fix=f"{ALLOW}; or leave stacks_rounds out of the study",
        )
    raise RqpsError(
        f"stacks: the kernel refuses to sample CPUs, {os.strerror(error)}",
        fix="use a kernel with CONFIG_PERF_EVENTS, or leave stacks_rounds out of the study",
    )


PROLOGUE = bytes.fromhex("554889e5")  # push %rbp; mov %rsp,%rbp
EVERY_BYTES = 4096


def keeps_frame_pointers(program: Path) -> bool:
    """Whether the functions of a program begin as they do where frame pointers are kept."""
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        found, at = 0, content.find(PROLOGUE)
        while at >= 0:
            found, at = found + 1, content.find(PROLOGUE, at + 4)
    return found * EVERY_BYTES >= len(content)
