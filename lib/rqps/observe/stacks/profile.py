"""The profile of a step: sampled while it is measured, read when it is over."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

from rqps.engines.instance import Server
from rqps.observe.stacks.callers import callers_of
from rqps.observe.stacks.doubts import Expected, doubts
from rqps.observe.stacks.fold import Stack
from rqps.observe.stacks.reading import read
from rqps.observe.stacks.recording import Recording, recording
from rqps.observe.stacks.roles import roles, thread_names, told_names
from rqps.observe.stacks.sampling import Sampling
from rqps.observe.stacks.threads import Looks, Used, threads_table, used_by_threads
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

    def __init__(self, server: Server, placement: Placement, sampling: Sampling, recording: Recording) -> None:
        self._server = server
        self._placement = placement
        self._sampling = sampling
        self._recording = recording
        self._looks = Looks(server.pid)
        self._origin_ns = 0
        self._first: dict[int, Used] = {}
        self._last: dict[int, Used] = {}
        self._named: dict[int, str] = {}
        self._told: dict[int, str] = {}

    def begin(self, origin_ns: int) -> None:
        """The measured part has begun, at that moment of CLOCK_MONOTONIC: from now on samples are taken."""
        self._origin_ns = origin_ns
        self._recording.begin()
        self._first = used_by_threads(self._server.pid)
        self._looks.begin()

    def end(self) -> None:
        """It has ended: no more samples. Asks for the threads' names, as long as all of them are there."""
        self._last = used_by_threads(self._server.pid)
        self._recording.end()
        self._looks.end()
        self._named = thread_names(self._server.pid)
        connection = self._server.connect()
        self._told = told_names(connection)
        connection.close()

    def close(self) -> None:
        """Leaves nothing running, however far it came."""
        self._looks.end()

    def profile(self, step: str, server_cpu_s: float) -> Profile:
        """What was sampled, when the step is over. `server_cpu_s` is what the server used by the kernel's count."""
        self._recording.finish()
        pid, sampled_s = self._server.pid, self._recording.sampled_s
        folded = read(self._recording.data, pid, self._placement.observer_cpus)
        stacks = list(folded.stacks())
        by_thread = roles(stacks, self._told, self._named, pid)
        sampled = [stack for stack in stacks if stack.event != CALLERS]
        elapsed_s = (self._recording.ended_ns - self._origin_ns) / 1e9
        expected = Expected(pid, self._server.build.mysqld.name, elapsed_s, sampled_s, server_cpu_s)
        found = doubts(sampled, folded, self._sampling, expected)
        return Profile(
            stacks=table(step, [*sampled, *callers_of(stacks, by_thread)], by_thread),
            threads=threads_table(step, by_thread, self._first, self._last, self._looks.found, sampled_s),
            warnings=tuple(each.model_copy(update={"step": step}) for each in found),
        )


@contextmanager
def profiling(server: Server, placement: Placement, sampling: Sampling) -> Iterator[Profiling]:
    """A perf that is ready for a step; it is gone, and so is its file, when the block ends."""
    with recording(
        sampling,
        server_cpus=placement.server_cpus,
        cpus=placement.observer_cpus,
        scratch=server.data.parent,  # which goes with the server, whatever happens to us
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
