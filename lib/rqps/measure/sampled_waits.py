"""Samples where a server's threads wait, for users who may not record switches of threads.

The kernel counts how long a thread ran, and how long it was ready without a CPU. The rest of its time is divided
among the system calls in which the thread was seen. A stack consists of the system call and the kernel's function
that waits; it has no functions of the server.
"""

import os
from collections.abc import Iterator

from rqps.measure.perf_events import switches_refused
from rqps.measure.recording import refuse_switches
from rqps.measure.stack_text import KERNEL, Frame, Stack, Thread
from rqps.measure.stacks import Profile, Profiling
from rqps.measure.threads import CALLS, RUNNING_NOW, Roles, Used, used_by_threads
from rqps.numbers import percent
from rqps.store.schemas import READY, RUNNING, SYSTEM_CALL, UNSEEN, WAITING

UNKNOWN_SHARE = 0.05
_NO_CALL = b"-1"
"""The number that the kernel gives for a thread that waits outside a system call."""
_NO_PLACE = (b"", b"0")


def waits_are_sampled() -> bool:
    """True if this user may not record switches, so that waits are sampled. Raises an error if the kernel does not
    count the time of threads either."""
    if switches_refused() is None:
        return False
    if not used_by_threads([os.getpid()]):
        refuse_switches()
    return True


class SampledWaits(Profiling):
    """Samples the waits of one step. The weight of a stack is the time that threads spent in it, in nanoseconds."""

    looks_per_s = 99
    looks_for_places = True

    def profile(self, step: str, _server_cpu_s: float, known: Roles) -> Profile:
        stacks = list(self._stacks())
        unseen_ns = sum(stack.weight for stack in stacks if stack.event == UNSEEN)
        all_ns = unseen_ns + sum(stack.weight for stack in stacks if stack.event == WAITING)
        warnings = []
        if unseen_ns > UNKNOWN_SHARE * all_ns:
            warnings = [f"{percent(unseen_ns / all_ns)} of the waits are unknown: system calls could not be read"]
        return self._by_role(step, stacks, known, warnings)

    def _stacks(self) -> Iterator[Stack]:
        """The time of each thread that ran during the step."""
        length_ns = self.recording.ended_ns - self.recording.began_ns
        for tid, used in self._last.items():
            before = self._first.get(tid, Used(0, 0))
            running_ns, ready_ns = used.running_ns - before.running_ns, used.waiting_ns - before.waiting_ns
            if running_ns <= 0:
                continue
            thread, seen = Thread(self._names.get(tid, ""), self._pids[0], tid), self.looks.calls[tid]
            # A thread that began during the step existed only in a part of the looks.
            existed_ns = length_ns if tid in self._first else length_ns * seen.total() // max(1, self.looks.number)
            waiting_ns = max(0, existed_ns - running_ns - ready_ns)
            waits = {call: times for call, times in seen.items() if call[0] != RUNNING_NOW}
            yield Stack(thread, RUNNING, (), 1, running_ns)
            yield Stack(thread, READY, (), 1, ready_ns)
            if not waits:
                yield Stack(thread, UNSEEN, (), 1, waiting_ns)
            for call, times in waits.items():
                yield Stack(thread, WAITING, _frames(*call), times, waiting_ns * times // sum(waits.values()))


def _frames(call: bytes, place: bytes) -> tuple[Frame, ...]:
    """The stack of a thread in a system call, given by its number, and in a function of the kernel.

    >>> [frame.name for frame in _frames(b"202", b"futex_do_wait")]
    ['[system call]', 'futex', 'futex_do_wait']
    >>> [frame.name for frame in _frames(b"-1", b"0")]
    ['[system call]', 'none']
    """
    name = "none" if call == _NO_CALL else CALLS.get(call) or f"number {call.decode()}"
    frames = Frame(SYSTEM_CALL, SYSTEM_CALL), Frame(name, SYSTEM_CALL)
    return frames if place in _NO_PLACE else (*frames, Frame(place.decode(), KERNEL))
