"""Counters of the whole host, its state at a moment, and the block device that holds a directory."""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import psutil


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
    """The host at one moment."""

    load_1min: float
    memory_available_kb: int
    frequency_mhz: float | None


def read_host(device: str | None) -> HostCounters:
    """Counters of the host since it was started; `device` is a name as `device_of` gives it."""
    cpu, switches = psutil.cpu_times(), psutil.cpu_stats()
    disks = psutil.disk_io_counters(perdisk=True, nowrap=False) if device else {}
    disk = disks.get(device or "")
    return HostCounters(
        cpu_user_s=cpu.user + cpu.nice,  # guests are in user already
        cpu_system_s=cpu.system + cpu.irq + cpu.softirq,
        cpu_idle_s=cpu.idle,
        cpu_iowait_s=cpu.iowait,
        cpu_steal_s=cpu.steal,
        context_switches=switches.ctx_switches,
        interrupts=switches.interrupts,
        reads=disk.read_count if disk else None,
        writes=disk.write_count if disk else None,
        read_kb=disk.read_bytes / 1024 if disk else None,
        write_kb=disk.write_bytes / 1024 if disk else None,
    )


def read_host_state() -> HostState:
    """Load, free memory and the CPUs' frequency now."""
    return HostState(
        load_1min=os.getloadavg()[0],
        memory_available_kb=psutil.virtual_memory().available // 1024,
        frequency_mhz=psutil.cpu_freq().current if _frequency_is_measured() else None,
    )


@cache
def _frequency_is_measured() -> bool:
    """False where psutil gives a constant from boot: no driver sets the frequency, nor does the CPU count cycles."""
    return (
        any(Path("/sys/devices/system/cpu/cpufreq").glob("policy*"))
        or " aperfmperf" in Path("/proc/cpuinfo").read_text()
    )


def read_busy_s(cpus: Collection[int]) -> float:
    """Seconds that these CPUs have worked so far, for whomever.

    Read here, since psutil lists the CPUs that are on without their numbers.
    """
    names = {f"cpu{cpu}" for cpu in cpus}
    busy_ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split(None, 8)
        if name in names:
            user, nice, system, _idle, _iowait, irq, softirq = map(int, ticks[:7])
            busy_ticks += user + nice + system + irq + softirq
    return busy_ticks / os.sysconf("SC_CLK_TCK")


def mount_of(path: Path) -> Any:
    """The mount that holds a path, as psutil describes it: the last one over the longest matching directory."""
    real = path.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if real.is_relative_to(each.mountpoint)]
    return max(reversed(mounts), key=lambda mount: len(mount.mountpoint), default=None)


def device_of(path: Path) -> str | None:
    """Name of the device or partition that holds a path, as its counters have it; None where there is none.

    btrfs and the like give their files a made-up device, so the one they were mounted from is taken.
    """
    number = path.stat().st_dev
    if os.major(number) == 0:
        mount = mount_of(path)
        source = Path(mount.device) if mount else None
        if source is None or not source.is_absolute() or not source.exists():
            return None
        about = source.stat()
        if not stat.S_ISBLK(about.st_mode):
            return None
        number = about.st_rdev
    known = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return known.resolve().name.replace("!", "/") if known.exists() else None
