"""Runs `perf record` during a step, with the event, rate and unwinding that suit the machine and the user."""

import mmap
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from rqps import keeper
from rqps.engines.sources.programs import perf
from rqps.errors import RqpsError
from rqps.measure.machine import number
from rqps.measure.perf_events import CYCLES, SETTINGS, SWITCHES, refusal, sampling_refused, switches_refused

Unwinding = Literal["frame pointers", "DWARF"]
SAMPLES_PER_S = 999
"""Samples per second on each CPU. A round number would be synchronous with the kernel's own timer."""
COPIES_PER_S = 199  # samples per second on each CPU if each sample copies the stack: copies are expensive
CALLERS_PER_S = 97
"""Samples per second that copy the stack, on all CPUs together: the copies show the callers of functions without
frame pointers."""
STACK_BYTES = 32768
SWITCH_STACK_BYTES, FUTEX_STACK_BYTES = 8192, 16384
"""Number of bytes of a stack that are copied at every switch, or at every wait for a futex, from the innermost
function on. The outermost functions of a larger stack are missing."""
FUTEX_WAITS = (0, 9, 128, 137, 256, 265, 384, 393)
"""The operations of the system call futex that wait, with all their flags."""
BUFFER = "8M"  # for each CPU: enough for the samples of some seconds in which perf does not run
LARGE_BUFFER = "32M"  # for each CPU: larger, since switches copy stacks
PROLOGUE = bytes.fromhex("554889e5")  # push %rbp; mov %rsp,%rbp
KB_PER_PROLOGUE = 8
"""A program has frame pointers if there is at least one PROLOGUE, on average, in this many KB of its code. Code with
frame pointers has about one in each KB, other code has almost none."""
LOADED, EXECUTABLE = 1, 1  # type and flag of a segment in ELF program headers
READY_PATIENCE_S = 60
_BEGIN = re.compile(r"[^-_ 0-9\"]*")
"""Matches the first word of a thread's name, which similar threads of a server share: `ib` of `ib_io_rd-1`."""
WRITE_PATIENCE_S = 120


class Recorded(Protocol):
    """A choice of events for perf to record, in words and as arguments."""

    @property
    def words(self) -> str: ...
    def arguments(self) -> list[str]:
        """The part of perf's command line that describes the events."""


@dataclass(frozen=True)
class Sampling:
    """The settings of a sampled profile: its event, rates and unwinding."""

    event: str
    samples_per_s: int
    callers_per_s: int
    unwinding: Unwinding
    large_buffer: bool

    @property
    def words(self) -> str:
        seldom = f", the ways to libraries by DWARF {self.callers_per_s} times a second"
        rest = seldom if self.unwinding == "frame pointers" else ""
        return f"{self.event} {self.samples_per_s} times a second, stacks by {self.unwinding}{rest}"

    def arguments(self) -> list[str]:
        copy = f"call-graph=dwarf,stack-size={STACK_BYTES}"
        clock = f"{self.event}/freq={self.samples_per_s},name={self.event}"
        events = ["-e", f"{clock},{copy}/"]
        if self.unwinding == "frame pointers":
            # The event that copies stacks must be first: perf 6.1 unwinds the samples of all events in the way of the
            # first event.
            from rqps.store.schemas import CALLERS  # imports polars, which takes long and `rqps plan` does not need

            seldom = f"{self.event}/freq={self.callers_per_s},name={CALLERS},{copy}/"
            events = ["-e", seldom, "-e", f"{clock},call-graph=fp/"]
        # `--data` records data mappings as well as code: programs keep their unwind tables in data.
        return ["--data", *(("--mmap-pages", BUFFER) if self.large_buffer else ()), *events]


@dataclass(frozen=True)
class Switching:
    """The settings for recording thread switches: each switch with its stack, and each wakeup."""

    unwinding: Unwinding
    names: tuple[str, ...] = ()
    """The operating system's names of the threads whose switches are recorded, or patterns that end with `*`; empty
    for all threads of the machine."""

    @property
    def words(self) -> str:
        copies = ", copied where a thread waits for a futex" if self.unwinding == "frame pointers" else ""
        return f"each switch of threads (sched:sched_switch) and wakeup, stacks by {self.unwinding}{copies}"

    def arguments(self) -> list[str]:
        switch, wakeup, futex = SWITCHES
        off = self._among("prev_comm")
        copied = "{}/call-graph=dwarf,stack-size={}/"
        events = ["-e", copied.format(switch, SWITCH_STACK_BYTES), *_filter(off)]
        if self.unwinding == "frame pointers":
            # The C library's functions that wait for a futex have no frame pointers, so perf copies the stack at each
            # of these waits. The event that copies stacks must be first: perf 6.1 unwinds the stacks of all events by
            # the method of the first event.
            waits = " || ".join(f"op == {op}" for op in FUTEX_WAITS)
            events = ["-e", copied.format(futex, FUTEX_STACK_BYTES), *_filter(self._among("comm"), waits)]
            events += ["-e", f"{switch}/call-graph=fp/", *_filter(off)]
        events += ["-e", f"{wakeup}/call-graph=no/", *_filter(self._among("comm"))]
        # `--user-callchains` leaves out the kernel's frames, for which the kernel needs 2 of the 3.5 µs of a stack.
        how = ("--data", "--switch-events", "--user-callchains", "--clockid=CLOCK_MONOTONIC")
        return [*how, "--mmap-pages", LARGE_BUFFER, *events]

    def _among(self, field: str) -> str:
        """The filter for events of the server's threads: this field of the event has one of `names`."""
        return " || ".join(f'{field} {"~" if "*" in name else "=="} "{name}"' for name in self.names)


def _filter(*conditions: str) -> list[str]:
    """The arguments that make perf record only events that meet all conditions."""
    given = [f"({condition})" for condition in conditions if condition]
    return ["--filter", " && ".join(given)] if given else []


def choose_switching(program: Path, names: Iterable[str] = ()) -> Switching:
    """Chooses how to record the switches of a program's threads, whose names in the operating system are `names`;
    raises an error if this user may not record them."""
    refuse_switches()
    alike: dict[str, set[str]] = {}
    for name in names:
        alike.setdefault(_BEGIN.match(name)[0], set()).add(name)  # type: ignore[index]
    patterns = (some.pop() if len(some) == 1 else f"{begin}*" for begin, some in sorted(alike.items()))
    return Switching("frame pointers" if has_frame_pointers(program) else "DWARF", tuple(patterns))


def refuse_switches() -> None:
    """Raises an error if this user may not record the switches of threads."""
    if refused := switches_refused():
        problem, fix = refused
        raise RqpsError(f"waits: {problem}", fix=f"{fix}; or leave waits_rounds out of the study")


def choose_sampling(program: Path, cpus: int) -> Sampling:
    """Chooses how to sample a program on this number of CPUs; raises an error if this user may not sample."""
    highest = number(SETTINGS / "perf_event_max_sample_rate") or SAMPLES_PER_S
    unwinding: Unwinding = "frame pointers" if has_frame_pointers(program) else "DWARF"
    return Sampling(
        event=sampled_event(),
        samples_per_s=min(SAMPLES_PER_S if unwinding == "frame pointers" else COPIES_PER_S, highest),
        callers_per_s=max(1, CALLERS_PER_S // cpus),
        unwinding=unwinding,
        large_buffer=os.geteuid() == 0 or number(SETTINGS / "perf_event_paranoid") == -1,
    )


def sampled_event() -> str:
    """The event to sample: cycles if there are hardware counters, otherwise the CPU's clock."""
    if refusal(CYCLES, whole_cpu=True) == 0:
        return "cycles"
    if refused := sampling_refused():
        problem, fix = refused
        raise RqpsError(f"stacks: {problem}", fix=f"{fix}; or leave stacks_rounds out of the study")
    return "cpu-clock"


@cache
def has_frame_pointers(program: Path) -> bool:
    """True if the functions of a program begin with the prologue that sets a frame pointer."""
    symbols = code_bytes = 0
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        for start, end in _code(content):
            code_bytes += end - start
            symbols += content[start:end].count(PROLOGUE)
    return symbols * KB_PER_PROLOGUE * 1024 >= code_bytes > 0


def _code(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yields start and end of each executable segment in a 64-bit ELF file."""
    first, size, count = (*struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54))
    for at in range(first, first + count * size, size):
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        if kind == LOADED and flags & EXECUTABLE:
            yield offset, offset + length


class Span:
    """The time from `begin` to `end`, by CLOCK_MONOTONIC."""

    began_ns = ended_ns = 0

    @property
    def sampled_s(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9

    def begin(self) -> None:
        self.began_ns = time.monotonic_ns()

    def end(self) -> None:
        self.ended_ns = time.monotonic_ns()


@dataclass
class Recording(Span):
    """A running `perf record`, ready to record the server's CPUs from `begin` to `end`."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    orders: int
    answers: int

    @property
    def data(self) -> Path:
        return self.folder / "perf.data"

    def begin(self) -> None:
        self.order("enable")
        self.wait_until_followed()
        super().begin()
        _set_niceness(self.process.pid, os.getpriority(os.PRIO_PROCESS, 0), 0)

    def end(self) -> None:
        """Stops sampling without waiting for perf: on a busy machine perf's answer may come after the load's
        connections have been closed."""
        super().end()
        self.order("disable")

    def finish(self) -> None:
        """Waits until perf has written its file and ended."""
        self.wait_until_followed()
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(WRITE_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise RqpsError(
                f"perf did not finish its file within {WRITE_PATIENCE_S} s",
                fix=f"see that the disk of {self.folder.parent} is not full or very slow",
            ) from None
        if code not in (0, -signal.SIGINT):
            raise self._failure()

    def _failure(self) -> RqpsError:
        code, message = self.process.poll(), said_by_perf(self.folder / "record.err")
        how = "" if code is None else f" (exit status {code})"
        return RqpsError(
            f"perf record failed{how}: {message}", fix="see perf's message; rqps doctor shows what perf may do here"
        )

    def order(self, word: str) -> None:
        """Sends an order to perf."""
        try:
            os.write(self.orders, f"{word}\n".encode())
        except BrokenPipeError:
            self.process.wait()
            raise self._failure() from None

    def wait_until_followed(self) -> None:
        """Waits until perf has confirmed the last order."""
        readable = select.poll()  # select.select takes no file descriptor from 1,024 on
        readable.register(self.answers, select.POLLIN)
        ready = readable.poll(READY_PATIENCE_S * 1000)
        if b"ack" not in (os.read(self.answers, 64) if ready else b""):
            if ready:  # there was something to read, but no answer: perf has ended and closed its pipe
                self.process.wait()
            raise self._failure()


@contextmanager
def recording(
    what: Recorded, *, server_cpus: tuple[int, ...], cpus: tuple[int, ...], scratch: Path
) -> Iterator[Recording]:
    """Starts perf on `cpus`, ready to record on the server's CPUs; perf's files are removed at the end of the block.

    Perf samples whole CPUs, not one process: sampling a process switches counters at every thread switch, which
    slowed point queries by a fifth and more. The samples of other processes are left out when the file is read.
    """
    folder = Path(tempfile.mkdtemp(prefix="stacks-", dir=scratch))
    from_us, to_perf = os.pipe()
    from_perf, to_us = os.pipe()
    arguments = (
        *("record", "--output", str(folder / "perf.data"), "--no-buildid", "--no-buildid-cache"),
        *("--cpu", ",".join(map(str, server_cpus)), "--delay", "-1", "--control", f"fd:{from_us},{to_us}"),
        *what.arguments(),
    )
    with (folder / "record.err").open("wb") as errors:
        process = start_perf(arguments, cpus, stdout=errors, stderr=errors, pass_fds=(from_us, to_us))
    os.close(from_us)
    os.close(to_us)
    try:
        running = Recording(process, folder, to_perf, from_perf)
        # The load runs already. Beside 16 busy clients on two CPUs, perf took up to 3 s to start and missed the step.
        # So it goes before other processes until it samples.
        _set_niceness(process.pid, -20, -20)
        # The order "disable" would do, too, but perf would then miss the libraries that a program maps until `begin`.
        running.order("ping")
        running.wait_until_followed()  # perf answers once it has opened all its counters
        yield running
    finally:
        process.kill()
        process.wait()
        os.close(to_perf)
        os.close(from_perf)
        shutil.rmtree(folder, ignore_errors=True)


def _set_niceness(pid: int, of_process: int, of_session: int) -> None:
    """Sets how a process shares the CPU with others, and how its session does, as far as this user may: Linux shares
    the CPU by session first, if it has autogroups."""
    with suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, of_process)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(of_session))


def start_perf(arguments: Sequence[str], cpus: tuple[int, ...], **streams: Any) -> "subprocess.Popen[bytes]":
    """Starts perf on these CPUs; perf ends with this process. Perf ignores the user's perf settings and the
    terminal's Ctrl-C."""
    tool = perf()
    return subprocess.Popen(
        keeper.command("exec", [*tool.argv, *arguments], cpus=cpus),
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PERF_CONFIG": "/dev/null", **tool.environment},
        start_new_session=True,
        **streams,
    )


def said_by_perf(file: Path) -> str:
    """The last lines of perf's messages, without the lines that perf always prints."""
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    messages = [line.strip() for line in lines if line.strip() and not line.startswith("[ perf record:")]
    return "\n".join(messages[-6:]) or "it said nothing"
