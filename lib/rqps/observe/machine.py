"""The machine as a dictionary of facts, stored with every run; a fact that a machine does not give has no entry.

Facts of the system are read below a root folder, which psutil can't: so tests describe machines of every kind.
"""

import errno
import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import psutil

from rqps.observe.host_counters import device_of, mount_of
from rqps.observe.placement import parse_cpu_list

Value: TypeAlias = str | int | float | bool | list[str] | dict[str, str]
Reader: TypeAlias = Callable[[Path], Value | None]
CPU = "sys/devices/system/cpu"
KERNEL = "proc/sys/kernel"
CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
FICLONE = 0x40049409  # of <linux/fs.h>: let one file share the blocks of another
NO_REFLINK = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def text(path: Path) -> str | None:
    """A file's text, without the white space around it; None where there is no file or it is empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:  # missing, not permitted, or a device that can't answer
        return None


def number(path: Path) -> int | None:
    found = text(path)
    return int(found) if found is not None and found.lstrip("-").isdigit() else None


def flag(path: Path) -> bool | None:
    found = number(path)
    return None if found is None else found == 1


def choice(path: Path) -> str | None:
    """The word in brackets of a file that lists what could be chosen: `always [madvise] never`."""
    found = text(path)
    return found and (found.partition("[")[2].partition("]")[0] or found)


def field(path: Path, name: str) -> str | None:
    """The first `name: value` or `name=value` of a file."""
    found = re.search(rf"^{re.escape(name)}\s*[:=](.*)$", text(path) or "", re.MULTILINE)
    return found[1].strip().strip('"') if found else None


def common(paths: Iterable[Path]) -> str | None:
    """One word if the files of several CPUs agree, else all their words."""
    return ", ".join(sorted({found for path in paths if (found := text(path))})) or None


def first_number(path: Path) -> float | None:
    found = text(path)
    return float(found.split()[0]) if found else None


def at(name: str, read: Callable[[Path], Value | None] = text) -> Reader:
    """A fact that is one file's, below a root folder."""
    return lambda root: read(root / name)


def _list_length(path: Path) -> int | None:
    found = text(path)
    return len(parse_cpu_list(found)) if found else None


def _distinct(name: str) -> Reader:
    """Number of different texts that the CPUs have in this file of their topology."""
    return lambda root: len({text(path) for path in root.glob(f"{CPU}/cpu[0-9]*/topology/{name}")}) or None


def _cache_kb(root: Path) -> int | None:
    sizes = [text(path) for path in sorted(root.glob(f"{CPU}/cpu0/cache/index*/size"))]
    return int(sizes[-1].rstrip("K")) if sizes and sizes[-1] else None


def _mean_mhz(cpuinfo: Path) -> float | None:
    speeds = re.findall(r"^cpu MHz\s*: ([\d.]+)$", text(cpuinfo) or "", re.MULTILINE)
    return round(sum(map(float, speeds)) / len(speeds), 1) if speeds else None


def _policies(name: str) -> Reader:
    return lambda root: common(root.glob(f"{CPU}/cpufreq/policy*/{name}"))


def _limit_mhz(root: Path, name: str, limit: Callable[[list[int]], int]) -> float | None:
    found = [khz for path in root.glob(f"{CPU}/cpufreq/policy*/{name}") if (khz := number(path)) is not None]
    return limit(found) / 1000 if found else None


def _turbo(root: Path) -> bool | None:
    """Intel's driver has a switch that turns it off, the others one that turns it on."""
    off = flag(root / CPU / "intel_pstate/no_turbo")
    return flag(root / CPU / "cpufreq/boost") if off is None else not off


def _mitigations(root: Path) -> dict[str, str] | None:
    files = sorted(root.glob(f"{CPU}/vulnerabilities/*"))
    return {path.name: said for path in files if (said := text(path)) and said != "Not affected"} or None


def _quota_cpus(root: Path) -> float | None:
    """The limit of our control group or one above it; None where there is none."""
    base = root / "sys/fs/cgroup"
    limits = []
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):  # version 2 has one tree, version 1 one per controller
            own = base / controllers / path.lstrip("/")
            limits += [_quota_of(folder) for folder in (own, *own.parents) if folder.is_relative_to(base)]
    return min((limit for limit in limits if limit is not None), default=None)


def _quota_of(folder: Path) -> float | None:
    quota, _, period = (text(folder / "cpu.max") or "max").partition(" ")
    if quota == "max":
        old = number(folder / "cpu.cfs_quota_us")
        if old is None or old <= 0:
            return None
        quota, period = str(old), text(folder / "cpu.cfs_period_us") or ""
    return int(quota) / int(period or 100_000)


def _virtualised(root: Path) -> bool | None:
    cpuinfo = text(root / "proc/cpuinfo")
    return None if cpuinfo is None else _hypervisor(root) is not None or " hypervisor" in cpuinfo


def _hypervisor(root: Path) -> str | None:
    """The kernel's own word, then systemd's (it knows many), then the maker of the board."""
    if kind := text(root / "sys/hypervisor/type"):
        return kind
    if root == Path("/") and (program := shutil.which("systemd-detect-virt")):
        said = subprocess.run([program, "--vm"], capture_output=True, text=True).stdout.strip()
        if said and said != "none":
            return said
    if " hypervisor" not in (text(root / "proc/cpuinfo") or ""):
        return None
    return common(root / "sys/class/dmi/id" / name for name in ("sys_vendor", "product_name"))


def _container(root: Path) -> str | None:
    """Read from the marks that systemd and the container programs leave for those inside."""
    marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
    found = [kind for mark, kind in marks.items() if (root / mark).exists()]
    return text(root / "run/systemd/container") or (found[0] if found else None)


def _memory_kb(root: Path, name: str) -> int | None:
    found = field(root / "proc/meminfo", name)
    return int(found.split()[0]) if found else None


def _swap_used_kb(root: Path) -> int | None:
    total, free = _memory_kb(root, "SwapTotal"), _memory_kb(root, "SwapFree")
    return None if total is None or free is None else total - free


def nearest_existing(path: Path) -> Path:
    """The path itself or the nearest folder above it that is there."""
    whole = path.absolute()
    return next(place for place in (whole, *whole.parents) if place.exists())


def file_system(directory: Path) -> str | None:
    mount = mount_of(directory)
    return mount.fstype if mount else None


def _mount_options(directory: Path) -> list[str] | None:
    """Without those that hold paths, which belong to nobody but the machine's owner."""
    mount = mount_of(directory)
    return sorted({each for each in mount.opts.split(",") if "/" not in each}) if mount else None


def _disk(name: str, read: Callable[[Path], Value | None] = text) -> Reader:
    """A fact of the whole disk; a partition has its own folder inside the disk's."""

    def of_directory(directory: Path) -> Value | None:
        device = device_of(directory)
        if device is None:
            return None
        here = Path("/sys/class/block", device.replace("/", "!")).resolve()
        return next((read(place / name) for place in (here, here.parent) if (place / name).exists()), None)

    return of_directory


def can_reflink(directory: Path) -> bool | None:
    """Tried with two files that have no name; None where nothing may be written."""
    try:
        with tempfile.TemporaryFile(dir=directory) as source, tempfile.TemporaryFile(dir=directory) as copy:
            source.write(bytes(4096))
            source.flush()
            fcntl.ioctl(copy.fileno(), FICLONE, source.fileno())
    except OSError as error:
        return False if error.errno in NO_REFLINK else None
    return True


def free_kb(directory: Path) -> int:
    return psutil.disk_usage(str(directory)).free // 1024


@dataclass(frozen=True)
class Fact:
    """One fact: its name, its type, its meaning, and a function that finds it.

    The function gets a root folder (`/`) for facts of the system, the data directory for facts of the disk.
    """

    name: str
    kind: type
    meaning: str
    read: Reader


SYSTEM_FACTS = (
    Fact("cpu_model", str, "the CPU's name", lambda root: field(root / "proc/cpuinfo", "model name")),
    Fact("cpus", int, "logical CPUs that are on", at(f"{CPU}/online", _list_length)),
    Fact("cpus_allowed", int, "logical CPUs that we may use", lambda _: len(os.sched_getaffinity(0))),
    Fact("cpu_quota_cpus", float, "CPUs that a container may use up, where it is limited", _quota_cpus),
    Fact("sockets", int, "CPU packages", _distinct("physical_package_id")),
    Fact("cores", int, "physical cores", _distinct("thread_siblings_list")),
    Fact("smt", bool, "whether a core runs two threads", at(f"{CPU}/smt/active", flag)),
    Fact("numa_nodes", int, "memory nodes", at("sys/devices/system/node/online", _list_length)),
    Fact("cache_kb", int, "the last cache of the first CPU", _cache_kb),
    Fact("frequency_mhz", float, "mean over the CPUs, from /proc/cpuinfo", at("proc/cpuinfo", _mean_mhz)),
    Fact("frequency_min_mhz", float, "the lowest that can be set", lambda r: _limit_mhz(r, "cpuinfo_min_freq", min)),
    Fact("frequency_max_mhz", float, "the highest, with turbo", lambda r: _limit_mhz(r, "cpuinfo_max_freq", max)),
    Fact("frequency_driver", str, "the driver that sets the frequency", _policies("scaling_driver")),
    Fact("governor", str, "the rule by which the frequency is set", _policies("scaling_governor")),
    Fact("turbo", bool, "whether the frequency may rise beyond the nominal one", _turbo),
    Fact("mitigations", dict, "the kernel's measures against CPU vulnerabilities", _mitigations),
    Fact("virtualised", bool, "whether this is a virtual machine", _virtualised),
    Fact("hypervisor", str, "the hypervisor that it runs under", _hypervisor),
    Fact("container", str, "the kind of container", _container),
    Fact("kernel", str, "release of the kernel", at(f"{KERNEL}/osrelease")),
    Fact("distribution", str, "name and version", lambda root: field(root / "etc/os-release", "PRETTY_NAME")),
    Fact("libc", str, "the C library of this Python", lambda _: " ".join(platform.libc_ver()).strip() or None),
    Fact(
        "clock_source",
        str,
        "the kernel's clock",
        at(CLOCK_SOURCE),
    ),
    Fact("memory_kb", int, "memory", lambda root: _memory_kb(root, "MemTotal")),
    Fact("memory_available_kb", int, "free or can be freed", lambda root: _memory_kb(root, "MemAvailable")),
    Fact("swap_kb", int, "swap space", lambda root: _memory_kb(root, "SwapTotal")),
    Fact("swap_used_kb", int, "swap space in use", _swap_used_kb),
    Fact("swappiness", int, "the kernel's readiness to swap", at("proc/sys/vm/swappiness", number)),
    Fact(
        "transparent_huge_pages",
        str,
        "always, madvise or never",
        at(HUGE_PAGES, choice),
    ),
    Fact(
        "address_randomisation",
        int,
        "0 off, 1 without the heap, 2 all",
        at(f"{KERNEL}/randomize_va_space", number),
    ),
    Fact(
        "perf_event_paranoid",
        int,
        "below 1 everybody may profile all",
        at(f"{KERNEL}/perf_event_paranoid", number),
    ),
    Fact("uptime_s", float, "seconds since the kernel started", at("proc/uptime", first_number)),
    Fact("load_1min", float, "load average before the start", at("proc/loadavg", first_number)),
)

DISK_FACTS = (
    Fact("file_system", str, "file system of the data directory", file_system),
    Fact("mount_options", list, "the options that it is mounted with", _mount_options),
    Fact("device", str, "the device or partition below it", device_of),
    Fact("device_model", str, "the make of the disk", _disk("device/model")),
    Fact("rotational", bool, "whether the disk turns", _disk("queue/rotational", flag)),
    Fact("io_scheduler", str, "the scheduler that orders its requests", _disk("queue/scheduler", choice)),
    Fact("write_cache", str, "write back or write through", _disk("queue/write_cache")),
    Fact("can_reflink", bool, "whether a file can be copied without copying its blocks", can_reflink),
    Fact("disk_free_kb", int, "free for ordinary users", free_kb),
)


def describe_machine(data_directory: Path, root: Path = Path("/")) -> dict[str, Value]:
    """Everything known, ready for JSON. No names of users or hosts, no addresses, no serial numbers."""
    directory = nearest_existing(data_directory)
    found = [(fact.name, fact.read(root)) for fact in SYSTEM_FACTS]
    found += [(fact.name, fact.read(directory)) for fact in DISK_FACTS]
    return {name: value for name, value in found if value is not None}
