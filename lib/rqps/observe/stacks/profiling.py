"""The profile of a step: sampled while it is measured, read when it is over."""

import itertools
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rqps.engines import Opened, keeper
from rqps.engines.sources.programs import perf
from rqps.errors import RqpsError
from rqps.observe.stacks.fold import UNKNOWN, Folded, Stack, callers_of, fold
from rqps.observe.stacks.recording import Recording, Sampling, perf_environment, recording, said_by_perf
from rqps.observe.stacks.threads import Looks, Used, roles, thread_names, threads_table, used_by_threads
from rqps.store.manifest import Placement, Warning_
from rqps.store.schemas import CALLERS, STACKS

ROWS_AT_A_TIME = 1000
"""Of a table that is built: many at once need much memory in between."""


@dataclass(frozen=True)
class Profile:
    """The tables `stacks` and `threads` of one step, and what a reader of them has to know."""

    stacks: pl.DataFrame
    threads: pl.DataFrame
    warnings: tuple[Warning_, ...]


class Profiling:
    """A step that is being profiled: `begin` and `end` of its measured part, then `profile`."""

    def __init__(self, server: Opened, placement: Placement, sampling: Sampling, recording: Recording) -> None:
        self._server = server
        self._placement = placement
        self._sampling = sampling
        self._recording = recording
        self._looks = Looks(server.pids[0])
        self._origin_ns = 0
        self._first: dict[int, Used] = {}
        self._last: dict[int, Used] = {}
        self._named: dict[int, str] = {}
        self._told: dict[int, str] = {}

    def begin(self, origin_ns: int) -> None:
        """The measured part has begun, at that moment of CLOCK_MONOTONIC: from now on samples are taken."""
        self._origin_ns = origin_ns
        self._recording.begin()
        self._first = used_by_threads(self._server.pids[0])
        self._looks.begin()

    def end(self) -> None:
        """It has ended: no more samples. Asks for the threads' names, as long as all of them are there."""
        self._last = used_by_threads(self._server.pids[0])
        self._recording.end()
        self._looks.end()
        self._named = thread_names(self._server.pids[0])
        self._told = dict(self._server.thread_names())

    def close(self) -> None:
        """Leaves nothing running, however far it came."""
        self._looks.end()

    def profile(self, step: str, server_cpu_s: float) -> Profile:
        """What was sampled, when the step is over. `server_cpu_s` is what the server used by the kernel's count."""
        self._recording.finish()
        pid, sampled_s = self._server.pids[0], self._recording.sampled_s
        folded = read(self._recording.data, pid, self._placement.observer_cpus)
        stacks = list(folded.stacks())
        by_thread = roles(stacks, self._told, self._named, pid)
        sampled = [stack for stack in stacks if stack.event != CALLERS]
        elapsed_s = (self._recording.ended_ns - self._origin_ns) / 1e9
        expected = Expected(pid, self._server.build.program.name, elapsed_s, sampled_s, server_cpu_s)
        found = doubts(sampled, folded, self._sampling, expected)
        return Profile(
            stacks=table(step, [*sampled, *callers_of(stacks, by_thread)], by_thread),
            threads=threads_table(step, by_thread, self._first, self._last, self._looks.found, sampled_s),
            warnings=tuple(each.model_copy(update={"step": step}) for each in found),
        )


@contextmanager
def profiling(server: Opened, placement: Placement, sampling: Sampling) -> Iterator[Profiling]:
    """A perf that is ready for a step; it is gone, and so is its file, when the block ends."""
    with recording(
        sampling,
        server_cpus=placement.server_cpus,
        cpus=placement.observer_cpus,
        scratch=server.directory.parent,  # which goes with the server, whatever happens to us
    ) as running:
        step = Profiling(server, placement, sampling, running)
        try:
            yield step
        finally:
            step.close()


def table(step: str, stacks: Iterable[Stack], roles: Mapping[int, str]) -> pl.DataFrame:
    """Stacks as the raw table: those of threads that do the same are one."""
    counts: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[int]] = {}
    for stack in stacks:
        count = counts.setdefault((roles[stack.thread.tid], stack.event, stack.frames), [0, 0])
        count[0] += stack.samples
        count[1] += stack.weight
    keys = iter(sorted(counts.items(), key=lambda item: item[0][:2]))
    parts = [STACKS.to_frame()]
    while some := list(itertools.islice(keys, ROWS_AT_A_TIME)):
        columns: dict[str, Any] = {
            "role": [role for (role, _, _), _ in some],
            "frames": [[name for name, _ in frames] for (_, _, frames), _ in some],
            "modules": [[module for _, module in frames] for (_, _, frames), _ in some],
            "event": [event for (_, event, _), _ in some],
            "samples": [samples for _, (samples, _) in some],
            "weight": [weight for _, (_, weight) in some],
        }
        part = pl.DataFrame(columns, schema={name: STACKS[name] for name in columns})
        parts.append(part.select(pl.lit(step).alias("step"), pl.all()))
    return pl.concat(parts)


FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
"""No offsets in functions: the fewer different texts, the sooner they are folded."""


def read(data: Path, pid: int, cpus: tuple[int, ...]) -> Folded:
    """All samples of one process in a file of perf. Inlined functions are not looked up: that takes minutes."""
    argv = [
        *perf().argv,
        "script",
        "--input",
        str(data),
        "--no-inline",
        "--show-lost-events",
        f"--pid={pid}",
        f"--fields={FIELDS}",
    ]
    errors = data.with_name("script.err")
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            keeper.command("exec", argv, cpus=cpus),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=perf_environment(),
            start_new_session=True,
        )
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


KIND = "stacks"
FEW_SAMPLES = 200
"""Below that, a tenth of the cost is known to a third of itself only."""
IDLE_SAMPLES = 20
"""A server that used less CPU than this many samples stand for has nothing to be sampled."""
UNSEEN_TIME = 0.05
UNSEEN_CPU = 0.10
UNKNOWN_SHARE = 0.05
STRIPPED_SHARE = 0.5


@dataclass(frozen=True)
class Expected:
    """What the kernel's own counters say of the part of a step that was to be sampled."""

    pid: int
    program: str
    """The name of the server's file."""
    elapsed_s: float
    sampled_s: float
    """For how long samples were taken."""
    server_cpu_s: float

    @property
    def seen_cpu_s(self) -> float:
        """What of it was used while samples were taken, if it used it evenly."""
        return self.server_cpu_s * min(1.0, self.sampled_s / self.elapsed_s)


def doubts(stacks: Sequence[Stack], folded: Folded, sampling: Sampling, expected: Expected) -> Iterator[Warning_]:
    """Warnings about a step's profile; an error where it is none of the server's."""
    samples = sum(stack.samples for stack in stacks)
    to_be_seen = expected.seen_cpu_s * sampling.samples_per_s
    if samples == 0:
        yield _nothing(to_be_seen, expected)
        return
    if samples < FEW_SAMPLES:
        yield _doubt(f"only {samples} samples: a longer step or more rounds would tell more")
    if to_be_seen >= FEW_SAMPLES and abs(samples / to_be_seen - 1) > UNSEEN_CPU:
        seen_s = samples / sampling.samples_per_s
        used_s = expected.seen_cpu_s
        yield _doubt(f"the samples stand for {seen_s:.2f} s of CPU, but the server used {used_s:.2f} s meanwhile")
    if expected.sampled_s < (1 - UNSEEN_TIME) * expected.elapsed_s:
        share = expected.sampled_s / expected.elapsed_s
        yield _doubt(f"only {share:.0%} of the measured time was sampled, since perf was not ready before")
    if folded.lost:
        yield _doubt(f"perf lost {folded.lost} records, since it could not write as fast as they came")
    if folded.unreadable:
        yield _doubt(f"{folded.unreadable} pieces of what perf script wrote are no samples, and are left out")
    yield from _unknown(stacks, samples, expected.program)


def _nothing(to_be_seen: float, expected: Expected) -> Warning_:
    used = f"the server used {expected.server_cpu_s:.3f} s of CPU"
    if to_be_seen >= IDLE_SAMPLES:
        raise RqpsError(
            f"no sample is of the server (process {expected.pid}), though {used} meanwhile",
            fix="see that it runs on the CPUs that were sampled (rqps plan shows the placement), and try again",
        )
    return _doubt(f"no samples: {used} in {expected.elapsed_s:.1f} s, so it was idle or the step too short")


def _unknown(stacks: Sequence[Stack], samples: int, program: str) -> Iterator[Warning_]:
    own = nameless_own = nameless = 0
    for stack in stacks:
        if not stack.frames:
            nameless += stack.samples
            continue
        if stack.frames[-1].name == UNKNOWN:
            nameless += stack.samples
        for frame in stack.frames:
            if frame.module == program:
                own += stack.samples
                nameless_own += stack.samples if frame.name == UNKNOWN else 0
    if own and nameless_own > STRIPPED_SHARE * own:
        yield _doubt(
            f"{program} has no symbols: {nameless_own / own:.0%} of its frames have no name; "
            "install its debug symbols or use a build that was not stripped"
        )
    elif nameless > UNKNOWN_SHARE * samples:
        yield _doubt(f"{nameless / samples:.0%} of the samples are in functions without a name")


def _doubt(text: str) -> Warning_:
    return Warning_(kind=KIND, text=text)
