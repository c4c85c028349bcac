"""Whether processes are still there, told apart from later ones that got the same number."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
POLL_S = 0.1


@dataclass(frozen=True)
class Process:
    """A process by its number and the tick it started in, which together never come again until the next boot."""

    pid: int
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process that has this number now; one that has ended and only waits to be collected does not count."""
        fields = _stat(pid)
        if fields is None or fields[0] in "ZX":
            return None
        return cls(pid, int(fields[19]))

    @classmethod
    def me(cls) -> "Process":
        found = cls.of(os.getpid())
        assert found is not None
        return found

    @property
    def alive(self) -> bool:
        return Process.of(self.pid) == self

    @property
    def name(self) -> str:
        try:
            return Path(f"/proc/{self.pid}/comm").read_text().strip()
        except OSError:
            return "ended"

    def started_at_s(self) -> float:
        """Seconds since the epoch, to within a second or so."""
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        return int(boot.split()[1]) + self.started_ticks / TICKS_PER_S


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def descendants(pid: int) -> frozenset[Process]:
    """All processes below this one."""
    parents = {
        int(entry.name): int(fields[1])
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and (fields := _stat(int(entry.name)))
    }
    below: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} - below
        below |= level
    return frozenset(process for child in below if (process := Process.of(child)))


def listed(path: Path) -> frozenset[Process]:
    """The living processes whose numbers stand in a file, one a line."""
    try:
        lines = path.read_text().split()
        written_at_s = path.stat().st_mtime
    except OSError:
        return frozenset()
    found = (Process.of(int(line)) for line in lines if line.isdecimal())
    # One that started long after its number was written down is somebody else's.
    return frozenset(each for each in found if each and each.started_at_s() < written_at_s + 5)


def wait_until_gone(
    processes: Iterable[Process], patience_s: float, tell: Callable[[str], None], after_s: float = 2
) -> frozenset[Process]:
    """Wait for processes to end; give back those that did not. `tell` hears of it when it takes a while."""
    start = time.monotonic()
    told = False
    left = frozenset(each for each in processes if each.alive)
    while left and time.monotonic() - start < patience_s:
        if not told and time.monotonic() - start > after_s:
            told = True
            tell(f"waiting for {', '.join(f'{each.name} (pid {each.pid})' for each in left)} to end")
        time.sleep(POLL_S)
        left = frozenset(each for each in left if each.alive)
    return left


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; the name before it may hold spaces and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
