"""What else runs on this machine, and which servers of ours are still there."""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rqps.observe.host_counters import read_host

OUR_SOCKET = re.compile(r"--socket=\S*/rqps-[^/]+/mysqld\.sock")
KEEPER = "keeper.py"


@dataclass(frozen=True)
class Busy:
    """A process and how much of one CPU it used."""

    pid: int
    name: str
    share: float


@dataclass(frozen=True)
class OurServer:
    """A server in one of our private directories; `kept` while the process that stops it is there."""

    pid: int
    kept: bool


@dataclass(frozen=True)
class Activity:
    """What used CPU while we watched, in shares of one CPU."""

    share: float
    """Of everything, also of processes that came or went meanwhile."""
    busy: tuple[Busy, ...]
    """Processes that were there all the time, the busiest first."""


def watch(seconds: float, least_share: float = 0.01) -> Activity:
    """Look on for that many seconds, from now."""
    host, before, start_ns = read_host(None), _cpu_by_process(), time.monotonic_ns()
    time.sleep(seconds)
    used, after, elapsed_ns = read_host(None) - host, _cpu_by_process(), time.monotonic_ns() - start_ns
    busy = [
        Busy(pid, name, share)
        for pid in before.keys() & after.keys() - {os.getpid()}
        if (share := (after[pid] - before[pid]) / elapsed_ns) >= least_share and (name := _name(pid))
    ]
    all_share = (used.cpu_user_s + used.cpu_system_s) * 1e9 / elapsed_ns
    return Activity(all_share, tuple(sorted(busy, key=lambda one: -one.share)))


def our_servers() -> list[OurServer]:
    """Every mysqld on a private socket of ours, whoever started it."""
    servers = [pid for pid in _processes() if OUR_SOCKET.search(line := _command_line(pid)) and KEEPER not in line]
    return [OurServer(pid, KEEPER in _command_line(_parent(pid))) for pid in sorted(servers)]


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _cpu_by_process() -> dict[int, int]:
    """Nanoseconds of CPU by process, from the scheduler's clock of each."""
    found = {}
    for pid in _processes():
        try:
            found[pid] = time.clock_gettime_ns((~pid << 3) | 2)
        except OSError:  # it has ended
            continue
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
