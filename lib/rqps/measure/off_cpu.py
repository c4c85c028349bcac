"""Records where a server's threads wait, from the context switches of a step and their stacks."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rqps.measure.recording import Recording
from rqps.measure.stack_text import Stack
from rqps.measure.stacks import UNSEEN_TIME, Profile, Profiling, losses, nameless, read
from rqps.measure.switches import Switches
from rqps.measure.threads import Roles
from rqps.numbers import percent, sized
from rqps.store.manifest import Placement
from rqps.store.schemas import CALLERS, LOST, READY, RUNNING, WAITING

FIELDS = ("comm", "pid", "tid", "time", "period", "event", "trace", "ip", "sym", "dso")
UNSURE_SHARE = 0.05


class WaitRecording(Profiling):
    """Records the waits of one step. The weight of a stack is the time that threads spent in it, in nanoseconds."""

    looks_per_s = 1  # enough to notice new processes: perf itself records the waits

    @staticmethod
    def cpus(placement: Placement) -> tuple[int, ...]:
        """The CPUs on which perf records: those of the server, and those of the clients, since the wakeup of a server
        thread by a client is recorded on the client's CPU."""
        return tuple(sorted({*placement.server_cpus, *placement.client_cpus}))

    def profile(self, step: str, _server_cpu_s: float, known: Roles) -> Profile:
        assert isinstance(self.recording, Recording)
        self.recording.finish()
        began_ns, ended_ns = self.recording.began_ns, self.recording.ended_ns
        switches = Switches(began_ns=began_ns, ended_ns=ended_ns, existed=frozenset(self._first))
        fields = ("--ns", "--show-switch-events", f"--fields={','.join(FIELDS)}")
        read(self.recording.data, (), self._placement.observer_cpus, fields=fields, into=switches)
        stacks = [stack for stack in switches.stacks() if stack.thread.pid in self._pids]
        recorded_share = min(1.0, (ended_ns - began_ns) / (ended_ns - self._origin_ns))
        ran_ns = {thread: used.running_ns for thread, used in self._first.items()}
        running_s = sum(used.running_ns - ran_ns.get(thread, 0) for thread, used in self._last.items()) / 1e9
        counted = Counted(recorded_share, running_s or None, self._server.build.program.name)
        warnings = itertools.chain(doubts(stacks, counted), losses(switches))
        return self._by_role(step, stacks, known, warnings)


class Counted(NamedTuple):
    """The kernel's counters of a step, with which the recorded times of its threads are checked."""

    recorded_share: float
    """The share of the measured time in which waits were recorded."""
    running_s: float | None
    """CPU seconds of the server's threads while waits were recorded; None if the kernel does not count them."""
    program: str
    """The file name of the server's program, as perf reports it."""


def doubts(stacks: Sequence[Stack], counted: Counted) -> Iterator[str]:
    """Yields warnings if the recorded times of a step's threads are incomplete, or differ from the times that the
    kernel counts."""
    running_s, lost_s = (_seconds(stacks, [event]) for event in (RUNNING, LOST))
    all_s = _seconds(stacks, [RUNNING, READY, WAITING, LOST])
    if counted.running_s and abs(running_s - counted.running_s) > UNSURE_SHARE * max(counted.running_s, 1):
        by_switches, by_kernel = sized(running_s), sized(counted.running_s)
        yield f"threads ran {by_switches} s by their switches, but used {by_kernel} s of CPU meanwhile"
    if lost_s > UNSURE_SHARE * all_s:
        yield f"{percent(lost_s / all_s)} of the threads' time is between switches that do not fit together"
    if counted.recorded_share < 1 - UNSEEN_TIME:
        share = percent(counted.recorded_share)
        yield f"only {share} of the measured time was recorded, since perf was not ready before"
    waits = [stack for stack in stacks if stack.event in (WAITING, READY)]
    yield from nameless(waits, sum(stack.samples for stack in waits), counted.program)


def _seconds(stacks: Iterable[Stack], events: Sequence[str]) -> float:
    return sum(stack.weight for stack in stacks if stack.event in events and stack.event != CALLERS) / 1e9
