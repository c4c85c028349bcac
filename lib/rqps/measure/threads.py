"""Threads of a server: their roles, and their time running, ready without a CPU, or waiting for something else.

The kernel counts to the nanosecond how long each thread ran and was ready without a CPU (schedstat, which psutil does
not read). For the rest we look some times a second in which system call the thread is. A thread has its role by the
name that the server or the operating system has for it, or else by the first function of its own.
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
WAITS: dict[str, tuple[int, ...]] = {
    "network": (7, 23, 43, 44, 45, 46, 47, 232, 270, 271, 281, 288, 441),
    "lock": (202, 220, 449),
    "disk": (0, 1, 17, 18, 19, 20, 26, 74, 75, 208, 277, 285, 295, 296, 306, 333, 426),
    "timer": (34, 35, 128, 230),
}
"""Numbers of system calls on x86-64, by what a thread waits for in them: poll and recv, futex, fsync, sleep."""
_KIND = {str(number).encode(): kind for kind, numbers in WAITS.items() for number in numbers}
RUNNING, OTHER = "running", "other"
KINDS = (RUNNING, *WAITS, OTHER)


class Used(NamedTuple):
    """Nanoseconds of a thread since it began."""

    running_ns: int
    waiting_ns: int
    """Ready, but without a CPU."""


def used_by_threads(pids: Iterable[int]) -> dict[int, Used]:
    """Time of each thread of some processes so far; empty where the kernel does not count it."""
    return {thread: Used(*map(int, times.split()[:2])) for thread, times in _of_all(pids, "schedstat")}


def thread_names(pids: Iterable[int]) -> dict[int, str]:
    """Names of the threads of some processes in the operating system, by thread id."""
    return {thread: name.decode(errors="replace").rstrip("\n") for thread, name in _of_all(pids, "comm")}


def _of_all(pids: Iterable[int], file: str) -> Iterator[tuple[int, bytes]]:
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            yield from of_threads(pid, file)


class ThreadLooks:
    """Looks from time to time at what each thread is doing, from `begin` to `end`."""

    def __init__(self, pids: Callable[[], Sequence[int]]) -> None:
        """`pids` gives the processes at the moment of its call."""
        self._pids = pids
        self.processes: dict[int, None] = {}
        """Every process that was seen, in the order of its coming."""
        self.seen: dict[int, Counter[str]] = defaultdict(Counter)
        """Number of times that each thread was seen at each activity."""
        self._files: dict[int, int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rqps-looks", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stops looking, if it was begun; may be called again."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(1 / LOOKS_PER_S):
            if number % LOOKS_PER_S == 0:  # new threads once a second
                self._open()
            number += 1
            for thread, file in list(self._files.items()):
                try:
                    call = os.pread(file, 256, 0).split(None, 1)[:1]  # "running", or the number and its arguments
                except OSError:  # it has ended
                    os.close(self._files.pop(thread))
                    continue
                kind = RUNNING if call == [b"running"] else _KIND.get(b"".join(call), OTHER)
                self.seen[thread][kind] += 1
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _open(self) -> None:
        for pid in self._pids():
            self.processes[pid] = None
            with suppress(OSError):  # the process has ended, or we may not look
                for thread in thread_ids(pid):
                    if thread not in self._files:
                        self._files[thread] = os.open(f"/proc/{pid}/task/{thread}/syscall", os.O_RDONLY)


def threads_table(
    step: str,
    roles: Mapping[int, str],
    first: Mapping[int, Used],
    last: Mapping[int, Used],
    looks: Mapping[int, Mapping[str, int]],
    elapsed_s: float,
) -> pl.DataFrame:
    """The table `threads` of one step: those of one role added up, of those that ran at all.

    A server saves threads of connections that have ended for the next ones; their waits are no part of a step.
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
"""A thread's first function of its own lies below what the system and the engine put there."""


Roles = Mapping[str, str]
"""Patterns of an engine, by role: of a thread's own name, the last part of the engine's name for it, or of its first
function's name."""


def role_of_name(name: str, known: Roles) -> str | None:
    """Role by a name of the operating system or the engine.

    >>> role_of_name("thread/x/page_flush_thread-2", {"page cleaner": r"page_flush\\w*"})
    'page cleaner'
    """
    last = _NUMBER.sub("", name.rpartition("/")[2])
    return next((role for role, pattern in known.items() if re.fullmatch(pattern, last)), None)


def role_of_frames(names: Iterable[str], known: Roles) -> str | None:
    """Role by the outermost functions of a stack, root first.

    >>> role_of_frames(["start_thread", "serve(Client*)", "do_command(Client*)"], {"connection": "do_command"})
    'connection'
    """
    plain = (name.partition("(")[0].rpartition("::")[2] for name in itertools.islice(names, _DEEPEST))
    return next((role for name in plain if (role := role_of_name(name, known))), None)


def roles(
    stacks: Iterable[Stack], reported: Mapping[int, str], named: Mapping[int, str], main: int, known: Roles
) -> dict[int, str]:
    """The role of each thread that was sampled or has a name, by its id.

    `reported` are the server's own names of its threads, `named` the operating system's, `main` is the id of the
    process.
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
        if by_name and by_name != "main":  # a thread that was given no name has that of the process
            by_thread[thread] = by_name
        elif voted:
            by_thread[thread] = voted.most_common(1)[0][0]
        else:
            by_thread[thread] = UNKNOWN if by_name else named.get(thread) or UNKNOWN
    return {**by_thread, main: "main"}
