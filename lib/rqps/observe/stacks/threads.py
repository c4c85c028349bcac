"""What the threads of a server do with their time: run, wait for a CPU, or wait for something else.

A profile of CPU explains CPU only. How long each thread ran and how long it was ready but had no CPU is counted by
the kernel to the nanosecond. What it waited for otherwise is looked at some times a second: in which system call it
is. Where we may not look, that stays unknown.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rqps.observe.stacks.roles import UNKNOWN
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


@dataclass(frozen=True)
class Used:
    """Nanoseconds of a thread since it began."""

    running_ns: int
    waiting_ns: int
    """Ready, but without a CPU."""


def kind_of_wait(text: bytes) -> str:
    r"""What /proc/PID/task/TID/syscall says that a thread does.

    >>> kind_of_wait(b"running\n"), kind_of_wait(b"202 0x7f1 0x80 0x0\n"), kind_of_wait(b"-1 0x7ffe 0x7f2a\n")
    ('running', 'lock', 'other')
    """
    first = text.split(None, 1)[0] if text.strip() else b""
    return RUNNING if first == b"running" else _KIND.get(first, OTHER)


def used_by_threads(pid: int) -> dict[int, Used]:
    """What each thread of a process has used so far; empty where the kernel does not count it."""
    found = {}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        try:
            running_ns, waiting_ns, _ = map(int, (folder / "schedstat").read_bytes().split())
        except (OSError, ValueError):
            continue  # it has ended meanwhile, or this kernel does not count
        found[int(folder.name)] = Used(running_ns, waiting_ns)
    return found


class Looks:
    """Looks from time to time at what each thread is doing, from `begin` to `end`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._found: dict[int, Counter[str]] = {}
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

    @property
    def found(self) -> Mapping[int, Mapping[str, int]]:
        """How often each thread was seen at what."""
        return self._found

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(1 / LOOKS_PER_S):
            if number % LOOKS_PER_S == 0:  # new threads once a second
                self._open()
            number += 1
            for thread, file in list(self._files.items()):
                try:
                    kind = kind_of_wait(os.pread(file, 256, 0))
                except OSError:  # it has ended
                    os.close(self._files.pop(thread))
                    continue
                self._found.setdefault(thread, Counter())[kind] += 1
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _open(self) -> None:
        try:
            for thread in (int(entry.name) for entry in Path(f"/proc/{self._pid}/task").iterdir()):
                if thread not in self._files:
                    self._files[thread] = os.open(f"/proc/{self._pid}/task/{thread}/syscall", os.O_RDONLY)
        except OSError:  # the process has ended, or we may not look
            return


def threads_table(
    step: str,
    roles: Mapping[int, str],
    first: Mapping[int, Used],
    last: Mapping[int, Used],
    looks: Mapping[int, Mapping[str, int]],
    elapsed_s: float,
) -> pl.DataFrame:
    """The table `threads` of one step: those of one role added up, of those that ran at all.

    A server keeps threads of connections that have ended for the next ones; what these wait for is no part of a step.
    """
    used = {thread: _between(first.get(thread), last[thread]) for thread in last}
    ran = {thread: roles.get(thread, UNKNOWN) for thread, each in used.items() if each.running_ns > 0}
    rows = []
    for role in sorted(set(ran.values())):
        of_role = [thread for thread in ran if ran[thread] == role]
        seen = _sum(looks.get(thread, {}) for thread in of_role)
        row: dict[str, Any] = {
            "step": step,
            "role": role,
            "threads": len(of_role),
            "elapsed_s": elapsed_s,
            "running_s": sum(used[thread].running_ns for thread in of_role) / 1e9,
            "waiting_s": sum(used[thread].waiting_ns for thread in of_role) / 1e9,
            **{f"seen_{kind}": seen[kind] if seen else None for kind in KINDS},
        }
        rows.append(row)
    return pl.DataFrame(rows, schema=THREADS)


def _between(first: Used | None, last: Used) -> Used:
    before = first or Used(0, 0)
    return Used(last.running_ns - before.running_ns, last.waiting_ns - before.waiting_ns)


def _sum(counters: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total
