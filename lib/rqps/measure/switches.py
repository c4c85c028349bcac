"""Folds the switches of threads into time: how long each thread ran, was ready without a CPU, or waited, by stack.

The input is the text that `perf script` prints. A switch (sched:sched_switch) takes one thread off a CPU, with its
stack and state. A record of perf itself (PERF_RECORD_SWITCH) puts a thread on a CPU. A wakeup (sched:sched_wakeup)
ends a wait, and from then on the thread is ready. Wakeups and perf's records have no stack: each is one line before
the next block of lines. A thread that is about to wait for a futex (syscalls:sys_enter_futex) has a complete stack,
which the switch that follows may lack.

The event sched:sched_switch also names the thread that is put on the CPU. But on Linux 6.18 some threads have no
events, such as the idle thread of one CPU: their switches to other threads are missing. Perf writes its own record in
the thread that is put on the CPU, so that record is always present.

The first event of a thread tells what the thread did before: if it was switched off a CPU, it ran until then,
otherwise it was off the CPU, with an unknown stack. A thread without any event has no time.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from rqps.measure.stack_text import Folded, Stack, Thread, thread_of
from rqps.store.schemas import LOST, READY, RUNNING, UNSEEN, WAITING

_TIME = rb"(?P<who>.+?)\s+(?P<s>\d+)\.(?P<ns>\d{9}):\s+(?:\d+\s+)?"
# Matches two formats of an event: the kernel's own, and the format of libtraceevent's plugin, which some
# distributions install.
_SWITCH = re.compile(
    _TIME + rb"sched:sched_switch: .*(?:prev_pid=|:)(?P<off>-?\d+) (?:prev_prio=|\[)-?\d+\]? "
    rb"(?:prev_state=)?(?P<state>\S+) ==> .*"
)
_PERFS_OWN = b"PERF_RECORD_SWITCH"
_PUT_ON = re.compile(_TIME + _PERFS_OWN + rb"\w* IN\b.*")
_WAKEUP = re.compile(_TIME + rb"sched:sched_wakeup: .*(?: pid=|:)(?P<woken>-?\d+) (?:prio=|\[)-?\d+\]?.*")
_FUTEX = re.compile(_TIME + rb"syscalls:sys_enter_futex: .*")
_NO_STACK = 0
_IDLE = 0
"""The kernel's id of the thread that runs when no other thread does."""
_Activity = tuple[str, int, int]
"""A thread's activity, its beginning, and the hash of its stack."""


@dataclass
class Switches(Folded):
    """The time of threads in an output of `perf script`, from `began_ns` to `ended_ns` by the events' clock."""

    began_ns: int = 0
    ended_ns: int = 0
    existed: Collection[int] = ()
    """The ids of the threads that existed at the beginning."""
    _now: dict[int, _Activity | None] = field(default_factory=dict)
    """Maps each thread, by the kernel's own id, to its activity; None if the thread has ended."""
    _threads: dict[int, bytes] = field(default_factory=dict)
    """Maps the kernel's own id of a thread to its name and ids as perf writes them: in a container, perf writes the
    container's ids."""
    _spent: dict[tuple[int, str, int], list[int]] = field(default_factory=dict)
    """Maps a thread, its activity and its stack's hash to two sums: the number of times that the thread did this, and
    the nanoseconds."""
    _before: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Maps a thread to its activity before its first event, and the activity's nanoseconds."""
    _numbers: dict[bytes, int] = field(default_factory=dict)
    """Maps the ids that perf writes of a thread to the kernel's own id, which the first switch off a CPU shows."""
    _put_on: dict[bytes, int] = field(default_factory=dict)
    """Maps the ids of a thread that was not yet switched off a CPU to the time at which it was last put on a CPU."""
    _copied: dict[bytes, bytes] = field(default_factory=dict)
    """Maps a thread, as perf writes it, to its stack at its last wait for a futex."""

    def add(self, block: bytes) -> None:
        """Reads a block of lines: any number of events without a stack, then a switch, or a wait for a futex with its
        copied stack."""
        header, _, frames = block[self._read_lines(block) :].partition(b"\n")
        if switch := _SWITCH.fullmatch(header):
            self._switch(switch, frames)
        elif futex := _FUTEX.fullmatch(header):
            self._copied[futex["who"].strip()] = frames
        elif lines := self._without_messages(text := b"\n".join([header, frames])):
            if (rest := b"\n".join(lines)) != text:
                self.add(rest)
            else:
                self.unreadable += 1

    def _read_lines(self, text: bytes) -> int:
        """Reads the events without a stack at the beginning of a text, and returns where the rest begins."""
        start = 0
        while (end := text.find(b"\n", start)) >= 0 and self._has_no_stack(text[start:end]):
            start = end + 1
        return start

    def _has_no_stack(self, line: bytes) -> bool:
        """Reads a line if it is an event without a stack; otherwise returns False."""
        if _PERFS_OWN in line:
            if put_on := _PUT_ON.fullmatch(line):
                self._resume(put_on)
        elif wakeup := _WAKEUP.fullmatch(line):
            self._wake(wakeup)
        else:
            return False
        return True

    def end(self, rest: bytes) -> None:
        """Reads the text after the last blank line, which may be events without a stack, and ends all activities."""
        super().end(rest[self._read_lines(rest) :])
        for number, activity in self._now.items():
            if activity:
                self._count(number, activity, self.ended_ns)
        self._now.clear()

    def stacks(self) -> Iterator[Stack]:
        """Yields stacks whose weight is the time that a thread spent in an activity with this stack."""
        threads = {number: thread_of(who) for number, who in self._threads.items()}
        for number, (activity, ns) in self._before.items():
            thread = threads.get(number)
            if ns and thread and thread.tid in self.existed:
                yield Stack(thread, activity, (), 1, ns)
        for (number, activity, path), (times, ns) in self._spent.items():
            if ns and (thread := threads.get(number)):
                yield Stack(thread, activity, self._paths.get(path, ()), times, ns)

    @property
    def seen(self) -> set[Thread]:
        """The threads that were switched off a CPU at least once."""
        return {thread_of(who) for who in self._threads.values()}

    def _switch(self, switch: "re.Match[bytes]", frames: bytes) -> None:
        who, s, ns, off, state = switch.groups()
        number, ids = int(off), _ids(who)
        if (now := self._time(s, ns)) is None or number == _IDLE:
            return
        copied = self._copied.pop(who.strip(), b"")
        # After a call that returned at once, the next switch is of another wait, with another innermost frame.
        if copied and frames.partition(b"\n")[0] in (b"", copied.partition(b"\n")[0]):
            frames = copied
        path = hash(frames)
        if not who.endswith(b"-1"):  # perf writes the ids of a thread that has ended as -1
            self._threads[number] = who
            self._numbers[ids] = number
        if (put_on_ns := self._put_on.pop(ids, None)) is not None:
            self._turn(number, UNSEEN, put_on_ns, (RUNNING, put_on_ns, _NO_STACK))
        self._read_path(path, frames)
        has_ended = b"X" in state or b"Z" in state
        then = None if has_ended else (READY if state.startswith(b"R") else WAITING, now, path)
        self._turn(number, RUNNING, now, then)

    def _resume(self, record: "re.Match[bytes]") -> None:
        who, s, ns = record.groups()
        if (now := self._time(s, ns)) is None:
            return
        if (number := self._numbers.get(ids := _ids(who))) is None:
            self._put_on[ids] = now
        else:
            self._turn(number, UNSEEN, now, (RUNNING, now, _NO_STACK))

    def _wake(self, wakeup: "re.Match[bytes]") -> None:
        _, s, ns, woken = wakeup.groups()
        number = int(woken)
        if (now := self._time(s, ns)) is None:
            return
        activity = self._now.get(number, (UNSEEN, self.began_ns, _NO_STACK))
        if activity and activity[0] in (WAITING, UNSEEN):
            self._turn(number, UNSEEN, now, (READY, now, activity[2]))

    def _turn(self, number: int, first: str, now: int, then: _Activity | None = None) -> None:
        """Ends a thread's activity and begins the activity `then`. Before a thread's first event, its activity was
        `first`."""
        if number not in self._now:
            self._before[number] = first, now - self.began_ns
        elif activity := self._now[number]:
            # After two switch-outs in a row, or two switch-ins, the activity is not known: records between the two
            # were lost.
            is_known = (activity[0] == RUNNING) == (first == RUNNING)
            self._count(number, activity if is_known else (LOST, activity[1], _NO_STACK), now)
        self._now[number] = then

    def _count(self, number: int, activity: _Activity, now: int) -> None:
        name, since, path = activity
        spent = self._spent.setdefault((number, name, path), [0, 0])
        spent[0] += 1
        spent[1] += now - since

    def _time(self, s: bytes, ns: bytes) -> int | None:
        """The time of an event in ns, at least `began_ns`; None if the event is after `ended_ns`."""
        now = int(s + ns)
        return max(now, self.began_ns) if now <= self.ended_ns else None


def _ids(who: bytes) -> bytes:
    """The ids of a process and its thread in the first words of an event."""
    return who.rsplit(None, 1)[-1]
