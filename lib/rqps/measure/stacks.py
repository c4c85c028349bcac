"""Profiles a step: takes samples while the step is measured, and reads them afterwards."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rqps.engines import Opened
from rqps.errors import RqpsError
from rqps.measure.inlined import inlined
from rqps.measure.recording import Recorded, Recording, Sampling, Span, recording, said_by_perf, start_perf
from rqps.measure.stack_text import UNKNOWN, Folded, Frame, Stack, callers_of, fold
from rqps.measure.threads import LOOKS_PER_S, Roles, ThreadLooks, roles, thread_names, threads_table, used_by_threads
from rqps.numbers import percent, sized
from rqps.store.manifest import Placement, Warning_
from rqps.store.schemas import CALLERS, STACKS

FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
"""The fields that `perf script` prints, without offsets in functions: text with fewer distinct lines folds faster."""
FEW_SAMPLES = 200
"""A step with fewer samples gets a warning: if a function has 10 % of the samples, its true share may differ from
that by a third."""
IDLE_SAMPLES = 20
"""A server counts as idle if its CPU time should give fewer samples than this. An idle server without samples is a
warning, a busy one an error."""
UNSEEN_TIME, UNSEEN_CPU = 0.05, 0.10
UNKNOWN_SHARE, STRIPPED_SHARE = 0.05, 0.5


@dataclass(frozen=True)
class Profile:
    """The raw tables `stacks` and `threads` of one step, and warnings about them."""

    stacks: pl.DataFrame
    threads: pl.DataFrame
    warnings: tuple[Warning_, ...]


class Profiling:
    """Profiles one step: `begin` and `end` enclose its measured part, then `profile` returns its profile."""

    looks_per_s = LOOKS_PER_S
    looks_for_places = False

    def __init__(self, server: Opened, placement: Placement, what: Recorded | None, recording: Span) -> None:
        self.recording = recording
        self.looks = ThreadLooks(lambda: server.pids, self.looks_per_s, self.looks_for_places)
        self._server = server
        self._placement, self._what = placement, what

    @staticmethod
    def cpus(placement: Placement) -> tuple[int, ...]:
        """The CPUs on which perf records."""
        return placement.server_cpus

    def begin(self, origin_ns: int) -> None:
        """Starts sampling. The measured part begins at `origin_ns`, a moment of CLOCK_MONOTONIC."""
        self._origin_ns = origin_ns
        self.recording.begin()
        self._began_with = self._server.pids
        self._first = used_by_threads(self._began_with)
        self.looks.begin()

    def end(self) -> None:
        """Stops sampling and reads the threads' names, which give their roles, while all threads still exist."""
        pids = self._server.pids
        self._last = used_by_threads(pids)
        self.recording.end()
        self._names = thread_names(pids)
        self._reported = self._server.thread_names()
        self.looks.end()
        self._pids = tuple(dict.fromkeys((*self._began_with, *self.looks.processes, *pids)))

    def profile(self, step: str, server_cpu_s: float, known: Roles) -> Profile:
        """Returns the profile of a finished step. `server_cpu_s` is the server's CPU time from the kernel's counters,
        `known` has the engine's patterns of the roles of threads."""
        assert isinstance(self._what, Sampling)
        assert isinstance(self.recording, Recording)
        self.recording.finish()
        cpus, program = self._placement.observer_cpus, self._server.build.program
        with inlined(program, cpus) as functions:
            folded = read(self.recording.data, self._pids, cpus, into=Folded(inlined=functions))
            stacks = list(folded.stacks())
        sampled = [stack for stack in stacks if stack.event != CALLERS]
        elapsed_s, sampled_s = (self.recording.ended_ns - self._origin_ns) / 1e9, self.recording.sampled_s
        expected = Expected(self._pids[0], program.name, elapsed_s, sampled_s, server_cpu_s)
        warnings = [*weaknesses(sampled, folded, self._what, expected), *filter(None, [functions.doubt])]
        return self._by_role(step, stacks, known, warnings)

    def _by_role(self, step: str, stacks: Sequence[Stack], known: Roles, warnings: Iterable[str]) -> Profile:
        """Makes the profile from stacks: replaces threads by their roles, and the stacks that perf copied by the
        paths of `callers_of`."""
        by_thread = roles(stacks, self._reported, self._names, self._pids[0], known)
        measured = [stack for stack in stacks if stack.event != CALLERS]
        used = self._first, self._last, self.looks.seen
        return Profile(
            stacks=table(step, [*measured, *callers_of(stacks, by_thread)], by_thread),
            threads=threads_table(step, by_thread, *used, self.recording.sampled_s),
            warnings=tuple(Warning_(kind="stacks", text=text, step=step) for text in warnings),
        )


@contextmanager
def profiling(
    server: Opened, placement: Placement, what: Recorded | None, by: type[Profiling] = Profiling
) -> Iterator[Profiling]:
    """Prepares perf for a step, unless `what` is None: then nothing is recorded. Perf is stopped and its file removed
    at the end of the block."""
    where = {"server_cpus": by.cpus(placement), "cpus": placement.observer_cpus}
    scratch = server.directory.parent  # the server's keeper removes this folder, even if this process is killed
    perf: AbstractContextManager[Span] = recording(what, scratch=scratch, **where) if what else nullcontext(Span())
    with perf as span:
        step = by(server, placement, what, span)
        try:
            yield step
        finally:
            step.looks.end()


def table(step: str, stacks: Iterable[Stack], roles: Mapping[int, str]) -> pl.DataFrame:
    """Returns stacks as rows of the raw table; equal stacks of threads with the same role are added up in one row."""
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


def read(
    data: Path,
    pids: Sequence[int],
    cpus: tuple[int, ...],
    *,
    fields: Sequence[str] = (f"--fields={FIELDS}",),
    into: Folded | None = None,
) -> Folded:
    """Reads perf's samples of these processes, or of all processes if `pids` is empty. Perf does not look up
    inlined functions here, since that takes minutes."""
    what = ("--no-inline", "--show-lost-events", *fields, *(f"--pid={','.join(map(str, pids))}" for _ in pids[:1]))
    errors = data.with_name("script.err")
    with errors.open("wb") as stderr:
        process = start_perf(("script", f"--input={data}", *what), cpus, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    try:
        with process.stdout as text:
            folded = fold(text.read, into)
        code = process.wait()
    finally:
        process.kill()
        process.wait()
    if code != 0 or folded.cut_off:
        raise RqpsError(
            f"perf's file can't be read (exit status {code}): {said_by_perf(errors)}",
            fix="see that the disk is not full, then repeat rqps run, which measures this run again",
        )
    return folded


@dataclass(frozen=True)
class Expected:
    """The server's CPU time and the durations of a step, against which its samples are checked."""

    pid: int
    program: str
    """The file name of the server's program, as perf reports it."""
    elapsed_s: float
    sampled_s: float
    """For how many seconds of the step sampling was on."""
    server_cpu_s: float


def weaknesses(stacks: Sequence[Stack], folded: Folded, sampling: Sampling, expected: Expected) -> Iterator[str]:
    """Yields warnings about a step's profile; raises an error if a busy server has no samples."""
    samples = sum(stack.samples for stack in stacks)
    sampled_share = min(1.0, expected.sampled_s / expected.elapsed_s)
    # CPU time while samples were taken, on the assumption that the server used CPU evenly over the step.
    used_s = expected.server_cpu_s * sampled_share
    wanted = used_s * sampling.samples_per_s
    if samples == 0:
        used = f"the server used {sized(expected.server_cpu_s)} s of CPU"
        if wanted >= IDLE_SAMPLES:
            raise RqpsError(
                f"no sample is of the server (process {expected.pid}), though {used} meanwhile",
                fix="see that the server runs on the sampled CPUs (rqps plan shows the placement), and try again",
            )
        yield f"no samples: {used} in {sized(expected.elapsed_s)} s, so it was idle or the step too short"
        return
    if samples < FEW_SAMPLES:
        yield f"only {samples} samples: a longer step or more rounds would show more"
    if wanted >= FEW_SAMPLES and abs(samples / wanted - 1) > UNSEEN_CPU:
        seen_s = samples / sampling.samples_per_s
        yield f"the samples stand for {sized(seen_s)} s of CPU, but the server used {sized(used_s)} s meanwhile"
    if sampled_share < 1 - UNSEEN_TIME:
        yield f"only {percent(sampled_share)} of the measured time was sampled, since perf was not ready before"
    yield from losses(folded)
    yield from nameless(stacks, samples, expected.program)


def losses(folded: Folded) -> Iterator[str]:
    """Yields warnings if perf lost records, or if records can't be read."""
    if folded.lost:
        yield f"perf lost {folded.lost} records, since it could not write as fast as they came"
    if folded.unreadable:
        yield f"{folded.unreadable} pieces of perf script's text are no samples, and are left out"


def nameless(stacks: Sequence[Stack], samples: int, program: str) -> Iterator[str]:
    own = nameless_own = nameless = 0
    for stack in stacks:
        named = [frame.name != UNKNOWN for frame in stack.frames if frame.module == program]
        own += stack.samples * len(named)
        nameless_own += stack.samples * named.count(False)
        if not stack.frames or stack.frames[-1].name == UNKNOWN:
            nameless += stack.samples
    if own and nameless_own > STRIPPED_SHARE * own:
        yield (
            f"{program} has no symbols: {percent(nameless_own / own)} of its frames have no name; "
            "install its debug symbols or use a build that was not stripped"
        )
    elif nameless > UNKNOWN_SHARE * samples:
        yield f"{percent(nameless / samples)} of the samples are in functions without a name"
