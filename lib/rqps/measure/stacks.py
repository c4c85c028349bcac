"""Profiles a step: samples while the step is measured, and reads the samples afterwards."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rqps.engines import Opened
from rqps.errors import RqpsError
from rqps.measure.recording import Recording, Sampling, recording, said_by_perf, start_perf
from rqps.measure.stack_text import UNKNOWN, Folded, Frame, Stack, callers_of, fold
from rqps.measure.threads import Roles, ThreadLooks, roles, thread_names, threads_table, used_by_threads
from rqps.store.manifest import Placement, Warning_
from rqps.store.schemas import CALLERS, STACKS

FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
"""No offsets in functions: fewer distinct texts fold faster."""
FEW_SAMPLES = 200
"""With fewer samples, a tenth of the cost is known only to within a third."""
IDLE_SAMPLES = 20
"""A server that used less CPU time than gives this many samples counts as idle: few stacks are no fault then."""
UNSEEN_TIME, UNSEEN_CPU = 0.05, 0.10
UNKNOWN_SHARE, STRIPPED_SHARE = 0.05, 0.5


@dataclass(frozen=True)
class Profile:
    """The tables `stacks` and `threads` of one step, and their warnings."""

    stacks: pl.DataFrame
    threads: pl.DataFrame
    warnings: tuple[Warning_, ...]


class Profiling:
    """A step under a profiler: `begin` and `end` of its measured part, then `profile`."""

    def __init__(self, server: Opened, placement: Placement, sampling: Sampling, recording: Recording) -> None:
        self.recording = recording
        self.looks = ThreadLooks(lambda: server.pids)
        self._server = server
        self._placement, self._sampling = placement, sampling

    def begin(self, origin_ns: int) -> None:
        """Starts sampling at the beginning of the measured part, a moment of CLOCK_MONOTONIC."""
        self._origin_ns = origin_ns
        self.recording.begin()
        self._began_with = self._server.pids
        self._first = used_by_threads(self._began_with)
        self.looks.begin()

    def end(self) -> None:
        """Stops sampling and reads the threads' roles while all threads still exist."""
        pids = self._server.pids
        self._last = used_by_threads(pids)
        self.recording.end()
        self._names = thread_names(pids)
        self._reported = self._server.thread_names()
        self.looks.end()
        self._pids = tuple(dict.fromkeys((*self._began_with, *self.looks.processes, *pids)))

    def profile(self, step: str, server_cpu_s: float, known: Roles) -> Profile:
        """The profile of a finished step. `server_cpu_s` is the server's CPU from the kernel's counters, `known`
        are the roles of its threads."""
        self.recording.finish()
        sampled_s = self.recording.sampled_s
        folded = read(self.recording.data, self._pids, self._placement.observer_cpus)
        stacks = list(folded.stacks())
        by_thread = roles(stacks, self._reported, self._names, self._pids[0], known)
        sampled = [stack for stack in stacks if stack.event != CALLERS]
        elapsed_s = (self.recording.ended_ns - self._origin_ns) / 1e9
        expected = Expected(self._pids[0], self._server.build.program.name, elapsed_s, sampled_s, server_cpu_s)
        texts = weaknesses(sampled, folded, self._sampling, expected)
        return Profile(
            stacks=table(step, [*sampled, *callers_of(stacks, by_thread)], by_thread),
            threads=threads_table(step, by_thread, self._first, self._last, self.looks.seen, sampled_s),
            warnings=tuple(Warning_(kind="stacks", text=text, step=step) for text in texts),
        )


@contextmanager
def profiling(server: Opened, placement: Placement, sampling: Sampling) -> Iterator[Profiling]:
    """Prepares perf for a step. Perf and its file are gone after the block."""
    with recording(
        sampling,
        server_cpus=placement.server_cpus,
        cpus=placement.observer_cpus,
        scratch=server.directory.parent,  # which the server's keeper removes, whatever happens to us
    ) as running:
        step = Profiling(server, placement, sampling, running)
        try:
            yield step
        finally:
            step.looks.end()


def table(step: str, stacks: Iterable[Stack], roles: Mapping[int, str]) -> pl.DataFrame:
    """Stacks as rows of the raw table; threads with the same role are one row."""
    counts: dict[tuple[str, str, tuple[Frame, ...]], list[int]] = {}
    for stack in stacks:
        count = counts.setdefault((roles[stack.thread.tid], stack.event, stack.frames), [0, 0])
        count[0] += stack.samples
        count[1] += stack.weight
    rows = [
        (step, role, [name for name, _ in frames], [module for _, module in frames], event, samples, weight)
        for (role, event, frames), (samples, weight) in sorted(counts.items(), key=lambda item: item[0][:2])
    ]
    return pl.DataFrame(dict(zip(STACKS, zip(*rows, strict=True), strict=False)), schema=STACKS)


def read(data: Path, pids: Sequence[int], cpus: tuple[int, ...]) -> Folded:
    """All samples of processes in a perf file, without inlined functions, since looking them up takes minutes."""
    what = ("--no-inline", "--show-lost-events", f"--pid={','.join(map(str, pids))}", f"--fields={FIELDS}")
    errors = data.with_name("script.err")
    with errors.open("wb") as stderr:
        process = start_perf(("script", f"--input={data}", *what), cpus, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    try:
        with process.stdout as text:
            folded = fold(text.read)
        code = process.wait()
    finally:
        process.kill()
        process.wait()
    if code != 0 or folded.cut_off:
        raise RqpsError(
            f"perf's file can't be read (exit status {code}): {said_by_perf(errors)}",
            fix="see that its disk is not full, and measure this run again: rqps run does it",
        )
    return folded


@dataclass(frozen=True)
class Expected:
    """The kernel's counters over the sampled part of a step."""

    pid: int
    program: str
    """The file name of the server's program, as perf reports it."""
    elapsed_s: float
    sampled_s: float
    """Seconds in which samples were taken."""
    server_cpu_s: float


def weaknesses(stacks: Sequence[Stack], folded: Folded, sampling: Sampling, expected: Expected) -> Iterator[str]:
    """Warnings about a step's profile; an error if a busy server has no samples."""
    samples = sum(stack.samples for stack in stacks)
    sampled_share = min(1.0, expected.sampled_s / expected.elapsed_s)
    used_s = expected.server_cpu_s * sampled_share  # while samples were taken, if it used its CPU evenly
    wanted = used_s * sampling.samples_per_s
    if samples == 0:
        used = f"the server used {expected.server_cpu_s:.3f} s of CPU"
        if wanted >= IDLE_SAMPLES:
            raise RqpsError(
                f"no sample is of the server (process {expected.pid}), though {used} meanwhile",
                fix="see that it runs on the CPUs that were sampled (rqps plan shows the placement), and try again",
            )
        yield f"no samples: {used} in {expected.elapsed_s:.1f} s, so it was idle or the step too short"
        return
    if samples < FEW_SAMPLES:
        yield f"only {samples} samples: a longer step or more rounds would show more"
    if wanted >= FEW_SAMPLES and abs(samples / wanted - 1) > UNSEEN_CPU:
        seen_s = samples / sampling.samples_per_s
        yield f"the samples stand for {seen_s:.2f} s of CPU, but the server used {used_s:.2f} s meanwhile"
    if sampled_share < 1 - UNSEEN_TIME:
        yield f"only {sampled_share:.0%} of the measured time was sampled, since perf was not ready before"
    if folded.lost:
        yield f"perf lost {folded.lost} records, since it could not write as fast as they came"
    if folded.unreadable:
        yield f"{folded.unreadable} pieces of perf script's text are no samples, and are left out"
    yield from _nameless(stacks, samples, expected.program)


def _nameless(stacks: Sequence[Stack], samples: int, program: str) -> Iterator[str]:
    own = nameless_own = nameless = 0
    for stack in stacks:
        named = [frame.name != UNKNOWN for frame in stack.frames if frame.module == program]
        own += stack.samples * len(named)
        nameless_own += stack.samples * named.count(False)
        if not stack.frames or stack.frames[-1].name == UNKNOWN:
            nameless += stack.samples
    if own and nameless_own > STRIPPED_SHARE * own:
        yield (
            f"{program} has no symbols: {nameless_own / own:.0%} of its frames have no name; "
            "install its debug symbols or use a build that was not stripped"
        )
    elif nameless > UNKNOWN_SHARE * samples:
        yield f"{nameless / samples:.0%} of the samples are in functions without a name"
