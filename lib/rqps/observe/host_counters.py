"""What the whole host has used so far, and the state it is in: CPU, a disk, load, memory, frequency."""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rqps.observe.process_counters import TICKS_PER_S

SECTOR_BYTES = 512  # the unit of /proc/diskstats, whatever the disk's own sectors are


@dataclass(frozen=True)
class HostCounters:
    """The host columns of the tables `steps` and `counters`. `later - earlier` is what was used in between.

    The disk's columns are None where the directory is on no block device (tmpfs, overlay, a network).
    """

    cpu_user_s: float
    cpu_system_s: float
    cpu_idle_s: float
    cpu_iowait_s: float
    cpu_steal_s: float
    context_switches: int
    interrupts: int
    reads: int | None
    writes: int | None
    read_kb: float | None
    write_kb: float | None

    def __sub__(self, earlier: "HostCounters") -> "HostCounters":
        used: dict[str, Any] = {}
        for name in (each.name for each in fields(HostCounters)):
            value = getattr(self, name)
            used[name] = None if value is None else value - getattr(earlier, name)
        return HostCounters(**used)


@dataclass(frozen=True)
class HostState:
    """How the host is at this moment."""

    load_1min: float
    memory_available_kb: int
    frequency_mhz: float | None


def parse_cpu_ticks(line: str) -> tuple[int, int, int, int, int]:
    """User (and nice), system (and interrupts), idle, iowait and stolen ticks of a line of /proc/stat.

    >>> parse_cpu_ticks("cpu  100 5 30 1000 40 1 2 7 50 0")
    (105, 33, 1000, 40, 7)
    """
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, line.split()[1:9])
    return user + nice, system + irq + softirq, idle, iowait, steal  # guests are in user already


def parse_disk(text: str, device: str) -> tuple[int, int, float, float] | None:
    """Completed reads and writes, KB read and written of a device in /proc/diskstats.

    >>> parse_disk(" 254 0 vda 10 1 64 9 20 2 128 9 0 6 2 0 0 0 0 0 0", "vda")
    (10, 20, 32.0, 64.0)
    """
    for line in text.splitlines():
        words = line.split()
        if words[2] == device:
            reads, read_sectors, writes, written_sectors = (int(words[i]) for i in (3, 5, 7, 9))
            return reads, writes, read_sectors * SECTOR_BYTES / 1024, written_sectors * SECTOR_BYTES / 1024
    return None


class HostReader:
    """Reads the host again and again through files that stay open."""

    def __init__(self, device: str | None) -> None:
        self.device = device
        paths = ("/proc/stat", "/proc/diskstats", "/proc/loadavg", "/proc/meminfo", *_frequency_files())
        self._files = {path: os.open(path, os.O_RDONLY) for path in paths}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def counters(self) -> HostCounters:
        lines = self._text("/proc/stat").splitlines()
        ticks = parse_cpu_ticks(lines[0])
        totals = {name: int(line.split(None, 2)[1]) for name in ("ctxt", "intr") for line in _starting(lines, name)}
        disk = parse_disk(self._text("/proc/diskstats"), self.device) if self.device else None
        reads, writes, read_kb, write_kb = disk or (None, None, None, None)
        user, system, idle, iowait, steal = (each / TICKS_PER_S for each in ticks)
        return HostCounters(
            cpu_user_s=user,
            cpu_system_s=system,
            cpu_idle_s=idle,
            cpu_iowait_s=iowait,
            cpu_steal_s=steal,
            context_switches=totals["ctxt"],
            interrupts=totals["intr"],
            reads=reads,
            writes=writes,
            read_kb=read_kb,
            write_kb=write_kb,
        )

    def state(self) -> HostState:
        available = next(_starting(self._text("/proc/meminfo").splitlines(), "MemAvailable:"))
        return HostState(
            load_1min=float(self._text("/proc/loadavg").split()[0]),
            memory_available_kb=int(available.split()[1]),
            frequency_mhz=self._frequency_mhz(),
        )

    def _frequency_mhz(self) -> float | None:
        """The mean over the CPUs."""
        speeds = [int(self._text(path)) / 1000 for path in self._files if path.endswith("scaling_cur_freq")]
        if "/proc/cpuinfo" in self._files:
            lines = self._text("/proc/cpuinfo").splitlines()
            speeds = [float(line.split(":")[1]) for line in _starting(lines, "cpu MHz")]
        return sum(speeds) / len(speeds) if speeds else None

    def _text(self, path: str) -> str:
        pieces: list[bytes] = []
        length = 0
        while piece := os.pread(self._files[path], 1 << 18, length):
            pieces.append(piece)
            length += len(piece)
        return b"".join(pieces).decode()


def _starting(lines: Iterable[str], prefix: str) -> Iterator[str]:
    return (line for line in lines if line.startswith(prefix))


def _frequency_files() -> list[str]:
    """/proc/cpuinfo only where the CPU counts its cycles: elsewhere its MHz are a constant from boot."""
    policies = Path("/sys/devices/system/cpu/cpufreq").glob("policy*/scaling_cur_freq")
    if files := sorted(str(path) for path in policies):
        return files
    return ["/proc/cpuinfo"] if " aperfmperf" in Path("/proc/cpuinfo").read_text() else []


def read_busy_s(cpus: Collection[int]) -> float:
    """For how long these CPUs have been at work so far, for whomever."""
    names = {f"cpu{cpu}" for cpu in cpus}
    lines = [line for line in Path("/proc/stat").read_text().splitlines() if line.split(None, 1)[0] in names]
    return sum(sum(parse_cpu_ticks(line)[:2]) for line in lines) / TICKS_PER_S


def read_host(device: str | None) -> HostCounters:
    """What the host has used since it was started; `device` is a name as `device_of` gives it."""
    with HostReader(device) as reader:
        return reader.counters()


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    number: str
    """Major and minor number, as in `254:0`; 0 for a file system without a device of its own."""
    path: str
    kind: str
    source: str
    options: str


def parse_mounts(text: str) -> list[Mount]:
    r"""The mounts of a mountinfo text, in order.

    >>> parse_mounts(r"36 35 98:0 / /my\040data rw - ext4 /dev/sda1 rw,discard")
    [Mount(number='98:0', path='/my data', kind='ext4', source='/dev/sda1', options='rw,rw,discard')]
    """
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, kind_source_options = before.split(), after.split(" ")
        kind, source = kind_source_options[0], _unescape(kind_source_options[1])
        options = ",".join([words[5], *kind_source_options[2:]])
        mounts.append(Mount(words[2], _unescape(words[4]), kind, source, options))
    return mounts


def _unescape(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def mount_of(path: Path) -> Mount | None:
    """The mount that holds a path: the last one over the longest matching directory."""
    real = path.resolve()
    holding = [
        mount
        for mount in parse_mounts(Path("/proc/self/mountinfo").read_text())
        if real == Path(mount.path) or Path(mount.path) in real.parents
    ]
    longest = max((len(mount.path) for mount in holding), default=0)
    return next((mount for mount in reversed(holding) if len(mount.path) == longest), None)


def device_of(path: Path) -> str | None:
    """The name in /proc/diskstats of the device or partition that holds a path; None where there is none.

    btrfs and the like give their files a made-up device, so the one they were mounted from is taken.
    """
    number = path.stat().st_dev
    if os.major(number) == 0:
        mount = mount_of(path)
        source = Path(mount.source) if mount else None
        if source is None or not source.is_absolute() or not source.exists():
            return None
        about = source.stat()
        if not stat.S_ISBLK(about.st_mode):
            return None
        number = about.st_rdev
    known = {(words[0], words[1]): words[2] for words in map(str.split, _diskstats_lines())}
    return known.get((str(os.major(number)), str(os.minor(number))))


def _diskstats_lines() -> list[str]:
    return Path("/proc/diskstats").read_text().splitlines()
