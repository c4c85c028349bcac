"""The memory of the processes that put a load: what they have to themselves, and their share of what they share."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS_BETWEEN_LOOKS = 0.5


class ClientMemory:
    """Of all processes that come to be below this one while the block lasts, the most at once, in MB."""

    def __init__(self) -> None:
        self.most_mb = 0.0
        self._others = _below(os.getpid())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            now_kb = sum(_share_kb(pid) for pid in _below(os.getpid()) - self._others)
            self.most_mb = max(self.most_mb, now_kb / 1024)


def _below(pid: int) -> set[int]:
    """The processes that a process started, and those that they started."""
    started: dict[int, set[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        started.setdefault(int(fields[1]), set()).add(int(stat.parent.name))
    below: set[int] = set()
    new = started.get(pid, set())
    while new:
        below |= new
        new = {child for parent in new for child in started.get(parent, set())} - below
    return below


def _share_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
