"""Finds the roles of a server's threads, and how long they ran, were ready but had no CPU, or waited.

The kernel counts to the nanosecond how long each thread ran and was ready without a CPU (schedstat, which psutil does
not read). For the rest of the time, rqps samples the system call of each thread LOOKS_PER_S times a second. The role
of a thread follows from its name in the server or in the operating system, or else from the outermost function in its
stacks that matches a role.
"""

import itertools
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import polars as pl

from rqps.measure.counters import of_threads, thread_ids
from rqps.measure.stack_text import Stack
from rqps.store.schemas import THREADS

LOOKS_PER_S = 49
WAITS: dict[str, dict[int, str]] = {
    "network": {
        **{7: "poll", 23: "select", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg"},
        **{232: "epoll_wait", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4", 441: "epoll_pwait2"},
    },
    "lock": {202: "futex", 220: "semtimedop", 449: "futex_waitv"},
    "disk": {
        **{0: "read", 1: "write", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 26: "msync", 74: "fsync"},
        **{75: "fdatasync", 208: "io_getevents", 277: "sync_file_range", 285: "fallocate", 295: "preadv"},
        **{296: "pwritev", 306: "syncfs", 333: "io_pgetevents", 426: "io_uring_enter"},
    },
    "timer": {34: "pause", 35: "nanosleep", 128: "rt_sigtimedwait", 230: "clock_nanosleep"},
}
"""Maps each kind of wait to the system calls that wait in this way, by their numbers on x86-64."""
CALLS = {str(number).encode(): name for calls in WAITS.values() for number, name in calls.items()}
_KIND = {str(number).encode(): kind for kind, calls in WAITS.items() for number in calls}
RUNNING, OTHER = "running", "other"
RUNNING_NOW = b"running"
"""The kernel's word in place of a system call for a thread that runs, or is ready to run."""
KINDS = (RUNNING, *WAITS, OTHER)


class Used(NamedTuple):
    """The CPU time of a thread since it began, and its time ready without a CPU, in nanoseconds."""

    running_ns: int
    waiting_ns: int
    """Time ready to run, but without a CPU."""


def used_by_threads(pids: Iterable[int]) -> dict[int, Used]:
    """Maps each thread of some processes to its `Used` time so far; empty if the kernel does not count this time."""
    return {thread: Used(*map(int, times.split()[:2])) for thread, times in _of_all(pids, "schedstat")}


def thread_names(pids: Iterable[int]) -> dict[int, str]:
    """Maps the id of each thread of some processes to its name in the operating system."""
    return {thread: name.decode(errors="replace").rstrip("\n") for thread, name in _of_all(pids, "comm")}


def _of_all(pids: Iterable[int], file: str) -> Iterator[tuple[int, bytes]]:
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
            yield from of_threads(pid, file)


class ThreadLooks:
    """Samples the activity of each thread `per_s` times a second, from `begin` to `end`."""

    def __init__(self, pids: Callable[[], Sequence[int]], per_s: int = LOOKS_PER_S, places: bool = False) -> None:
        """`pids` is a function that returns the processes that exist at the time of the call. With `places`, each
        look also reads the function of the kernel in which a thread waits."""
        self._pids, self._per_s = pids, per_s
        self._read = ("syscall", "wchan") if places else ("syscall",)
        self.processes: dict[int, None] = {}
        """All processes that were seen, in the order in which they appeared."""
        self.calls: dict[int, Counter[tuple[bytes, ...]]] = defaultdict(Counter)
        """Maps each thread to the number of times that it was seen in each system call, or in each system call and
        function of the kernel."""
        self.number = 0
        """The number of looks so far."""
        self._files: dict[int, list[int]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rqps-looks", daemon=True)

    @property
    def seen(self) -> dict[int, Counter[str]]:
        """Maps each thread to the number of times that it was seen in each kind of activity."""
        seen: dict[int, Counter[str]] = defaultdict(Counter)
        for thread, calls in list(self.calls.items()):
            for (call, *_), times in list(calls.items()):
                seen[thread][RUNNING if call == RUNNING_NOW else _KIND.get(call, OTHER)] += times
        return seen

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stops sampling, if it was begun; may be called more than once."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(1 / self._per_s):
            if self.number % self._per_s == 0:  # look for new threads once a second
                self._open()
            self.number += 1
            for thread, files in list(self._files.items()):
                try:  # the first word of `syscall` is "running" or the call's number
                    call = tuple(b"".join(os.pread(file, 256, 0).split(None, 1)[:1]) for file in files)
                except OSError:
                    self._close(thread)  # it has ended
                    continue
                self.calls[thread][call] += 1
        for thread in list(self._files):
            self._close(thread)

    def _open(self) -> None:
        for pid in self._pids():
            self.processes[pid] = None
            with suppress(OSError):  # the process has ended, or we may not read its files
                for thread in thread_ids(pid):
                    if thread not in self._files:
                        paths = [f"/proc/{pid}/task/{thread}/{name}" for name in self._read]
                        self._files[thread] = [os.open(path, os.O_RDONLY) for path in paths]

    def _close(self, thread: int) -> None:
        for file in self._files.pop(thread):
            os.close(file)


def threads_table(
    step: str,
    roles: Mapping[int, str],
    first: Mapping[int, Used],
    last: Mapping[int, Used],
    looks: Mapping[int, Mapping[str, int]],
    elapsed_s: float,
) -> pl.DataFrame:
    """The table `threads` of one step: one row per role, summed over its threads that ran during the step.

    Threads that did not run in the step are left out: a server keeps the threads of closed connections, which only
    wait for new connections.
    """
    by_role: dict[str, dict[int, Used]] = {}
    for thread, (running_ns, waiting_ns) in last.items():
        ran_ns, waited_ns = first.get(thread, (0, 0))
        if running_ns > ran_ns:
            role = roles.get(thread, UNKNOWN)
            by_role.setdefault(role, {})[thread] = Used(running_ns - ran_ns, waiting_ns - waited_ns)
    rows: list[dict[str, Any]] = []
    for role, used in sorted(by_role.items()):
        seen = sum((Counter(looks.get(thread, {})) for thread in used), Counter[str]())
        row = {
            "step": step,
            "role": role,
            "threads": len(used),
            "elapsed_s": elapsed_s,
            "running_s": sum(thread.running_ns for thread in used.values()) / 1e9,
            "waiting_s": sum(thread.waiting_ns for thread in used.values()) / 1e9,
        }
        rows.append({**row, **{f"seen_{kind}": seen[kind] if seen else None for kind in KINDS}})
    return pl.DataFrame(rows, schema=THREADS)


UNKNOWN = "unknown"
_NUMBER = re.compile(r"-\d+$")
_DEEPEST = 10
"""Number of outermost frames that are searched for a function that shows the thread's role. The first few, such as
`start_thread`, are the same in all threads."""


Roles = Mapping[str, str]
"""Maps each role to an engine's pattern for it. The pattern matches a thread's name in the operating system, the
last part of the engine's name for the thread, or the name of an outermost function in the thread's stacks."""


def role_of_name(name: str, known: Roles) -> str | None:
    """The role of a thread by its name in the operating system or the engine.

    >>> role_of_name("thread/x/page_flush_thread-2", {"page cleaner": r"page_flush\\w*"})
    'page cleaner'
    """
    last = _NUMBER.sub("", name.rpartition("/")[2])
    return next((role for role, pattern in known.items() if re.fullmatch(pattern, last)), None)


def role_of_frames(names: Iterable[str], known: Roles) -> str | None:
    """The role of a thread by the outermost functions of its stack, root first.

    >>> role_of_frames(["start_thread", "serve(Client*)", "do_command(Client*)"], {"connection": "do_command"})
    'connection'
    """
    plain = (name.partition("(")[0].rpartition("::")[2] for name in itertools.islice(names, _DEEPEST))
    return next((role for name in plain if (role := role_of_name(name, known))), None)


def roles(
    stacks: Iterable[Stack], reported: Mapping[int, str], named: Mapping[int, str], main: int, known: Roles
) -> dict[int, str]:
    """Maps the id of each thread that was sampled or has a name to the thread's role.

    `reported` has the server's own names of its threads, `named` those of the operating system; `main` is the id of
    the process.
    """
    votes: dict[int, Counter[str]] = {thread: Counter() for thread in (*reported, *named)}
    for stack in stacks:
        voted = votes.setdefault(stack.thread.tid, Counter())
        if role := role_of_frames((frame.name for frame in stack.frames), known):
            voted[role] += stack.samples
    by_thread = {}
    for thread, voted in votes.items():
        by_name = role_of_name(reported.get(thread, ""), known) or role_of_name(named.get(thread, ""), known)
        voted.pop("main", None)
        if by_name and by_name != "main":  # threads without a name of their own have the process's name
            by_thread[thread] = by_name
        elif voted:
            by_thread[thread] = voted.most_common(1)[0][0]
        else:
            by_thread[thread] = UNKNOWN if by_name else named.get(thread) or UNKNOWN
    return {**by_thread, main: "main"}
