"""Describes the machine by facts, which are stored with every run, and measures the machine's state before and after
each step. A fact that the machine does not report is left out.

Most facts are read from files below a root folder, so that tests can describe machines of every kind; psutil can't
read below another root.

The state is the time of a CPU cycle, and the latency of memory for working sets of several sizes. Other guests on the
same CPU change both within minutes, since they share the CPU's cache with the measured server.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from rqps import keeper
from rqps.engines.sources.programs import compiled
from rqps.errors import RqpsError
from rqps.store.manifest import Warning_

Value: TypeAlias = str | int | float | bool | list[str] | dict[str, str]
FICLONE = 0x40049409  # from <linux/fs.h>: lets one file share the blocks of another
CONTAINER_MARKS = {".dockerenv": "docker", "run/.containerenv": "podman"}
NO_REFLINK = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)
SIZES_KB = (0, 16, *(256 << power for power in range(9)))
"""Sizes, in KB, of the working sets from which reads are timed. For size 0, an add instruction, which takes one CPU
cycle, is timed in place of a read; 16 KB fit into every CPU's first-level cache."""
MS_A_SIZE, STATE_MS = "10", "RQPS_STATE_MS"
"""The milliseconds for each size, and the environment variable with other milliseconds for tests of rqps, which
measure hundreds of states and compare none."""
PATIENCE_S = 60


def describe_machine(data_directory: Path, root: Path = Path("/")) -> dict[str, Value]:
    """The facts about this machine by name, as plain values for JSON. They contain no names of users or hosts, no
    addresses and no serial numbers."""
    kernel, cpu, cpuinfo = root / "proc/sys/kernel", root / "sys/devices/system/cpu", root / "proc/cpuinfo"
    lowest_khz = [int(khz) for khz in _each(cpu, "cpufreq/policy*/cpuinfo_min_freq")]
    highest_khz = [int(khz) for khz in _each(cpu, "cpufreq/policy*/cpuinfo_max_freq")]  # includes turbo
    now_mhz = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([\d.]+)$", text(cpuinfo) or "", re.MULTILINE)]
    caches = _each(cpu, "cpu0/cache/index*/size")
    # Intel's driver has a switch that turns turbo off, other drivers have a switch that turns it on.
    no_turbo = flag(cpu / "intel_pstate/no_turbo")
    flaws = {path.name: text(path) for path in sorted((cpu / "vulnerabilities").glob("*"))}
    flags = field(cpuinfo, "flags") or field(cpuinfo, "Features")
    is_guest = " hypervisor" in (text(cpuinfo) or "")
    hypervisor = _hypervisor(root, is_guest)
    marks = [kind for mark, kind in CONTAINER_MARKS.items() if (root / mark).exists()]
    memory = {name: int(kb) for name, kb in re.findall(r"(?m)^(\w+):\s+(\d+) kB$", text(root / "proc/meminfo") or "")}
    facts: dict[str, Value | None] = {
        "cpu_model": field(cpuinfo, "model name"),
        "cpu_family": field(cpuinfo, "cpu family"),
        "cpu_model_number": field(cpuinfo, "model"),
        "cpu_stepping": field(cpuinfo, "stepping"),
        "microcode": field(cpuinfo, "microcode"),
        "cpu_flags_sha256": flags and hashlib.sha256(flags.encode()).hexdigest()[:12],
        "cpus": len(parse_cpu_list(text(cpu / "online") or "")) or None,
        "cpus_allowed": len(os.sched_getaffinity(0)),
        "cpu_quota_cpus": _quota_cpus(root),
        "sockets": len(set(_each(cpu, "cpu[0-9]*/topology/physical_package_id"))) or None,
        "cores": len(set(_each(cpu, "cpu[0-9]*/topology/thread_siblings_list"))) or None,
        "smt": flag(cpu / "smt/active"),
        "numa_nodes": len(parse_cpu_list(text(root / "sys/devices/system/node/online") or "")) or None,
        "cache_kb": int(caches[-1].rstrip("K")) if caches else None,  # the last-level cache of the first CPU
        "frequency_mhz": round(sum(now_mhz) / len(now_mhz), 1) if now_mhz else None,
        "frequency_min_mhz": min(lowest_khz) / 1000 if lowest_khz else None,
        "frequency_max_mhz": max(highest_khz) / 1000 if highest_khz else None,
        "frequency_driver": common(_each(cpu, "cpufreq/policy*/scaling_driver")),
        "governor": common(_each(cpu, "cpufreq/policy*/scaling_governor")),
        "turbo": flag(cpu / "cpufreq/boost") if no_turbo is None else not no_turbo,
        "mitigations": {name: state for name, state in flaws.items() if state and state != "Not affected"} or None,
        "virtualised": None if not cpuinfo.exists() else hypervisor is not None or is_guest,
        "hypervisor": hypervisor,
        "container": text(root / "run/systemd/container") or next(iter(marks), None),
        "kernel": text(kernel / "osrelease"),
        "distribution": field(root / "etc/os-release", "PRETTY_NAME"),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "clock_source": text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "address_randomisation": number(kernel / "randomize_va_space"),
        "perf_event_paranoid": number(kernel / "perf_event_paranoid"),
        "uptime_s": first_number(root / "proc/uptime"),
        "load_1min": first_number(root / "proc/loadavg"),
        "memory_kb": memory.get("MemTotal"),
        "memory_available_kb": memory.get("MemAvailable"),
        "memory_limit_kb": _memory_limit_kb(root, memory.get("MemTotal")),
        "swap_kb": memory.get("SwapTotal"),
        "swap_used_kb": memory["SwapTotal"] - memory["SwapFree"] if "SwapFree" in memory else None,
        "swappiness": number(root / "proc/sys/vm/swappiness"),
        "transparent_huge_pages": choice(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        "pages_out_cold_memory": _pages_out(root / "sys/kernel/mm/damon/admin/kdamonds"),
        **disk_facts(nearest_existing(data_directory)),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _pages_out(kdamonds: Path) -> bool | None:
    """True if the kernel (DAMON) reclaims memory that it finds cold; None if DAMON watches no memory."""
    watching = [path for path in kdamonds.glob("[0-9]*") if text(path / "state") == "on"]
    actions = {text(path) for folder in watching for path in folder.glob("contexts/*/schemes/*/action")}
    return "pageout" in actions if watching else None


def disk_facts(directory: Path) -> dict[str, Value | None]:
    mount, device = mount_of(directory), device_of(directory)
    # Options with paths are left out, since paths can contain private names.
    options = sorted({option for option in mount.opts.split(",") if "/" not in option}) if mount else None
    disk = Path("/sys/class/block", (device or "none").replace("/", "!")).resolve()
    if not (disk / "queue").exists():  # a partition, whose folder in sysfs is inside the disk's folder
        disk = disk.parent
    return {
        "file_system": mount.fstype if mount else None,
        "mount_options": options,
        "device": device,
        "device_model": text(disk / "device/model"),
        "rotational": flag(disk / "queue/rotational"),
        "io_scheduler": choice(disk / "queue/scheduler"),
        "write_cache": text(disk / "queue/write_cache"),
        "max_sectors_kb": number(disk / "queue/max_sectors_kb"),
        "read_ahead_kb": number(disk / "queue/read_ahead_kb"),
        "can_reflink": can_reflink(directory),
        "disk_free_kb": psutil.disk_usage(str(directory)).free // 1024,  # without blocks reserved for root
    }


def mount_of(path: Path) -> Any:
    """The mount that contains a path: the one with the longest mount point above the path; if several mounts have
    this mount point, the last of them."""
    real = path.resolve()
    mounts = [mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)]
    return max(reversed(mounts), key=lambda mount: len(mount.mountpoint), default=None)


def device_of(path: Path) -> str | None:
    """The device or partition that contains a path, as named in the kernel's disk counters; None if there is none.
    btrfs and some other file systems give their files a virtual device, so the device that was mounted is used.
    """
    device = path.stat().st_dev
    if os.major(device) == 0:
        mount = mount_of(path)
        source = Path(mount.device) if mount else None
        if source is None or not source.is_absolute() or not source.is_block_device():
            return None
        device = source.stat().st_rdev
    known = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    return known.resolve().name.replace("!", "/") if known.exists() else None


def nearest_existing(path: Path) -> Path:
    """The path itself, or the nearest existing folder above it."""
    absolute = path.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.exists())


def can_reflink(directory: Path) -> bool | None:
    """True if the file system can clone files, tested with two unnamed files; None if no file can be written."""
    try:
        with tempfile.TemporaryFile(dir=directory) as source, tempfile.TemporaryFile(dir=directory) as copy:
            source.write(bytes(4096))
            source.flush()
            fcntl.ioctl(copy.fileno(), FICLONE, source.fileno())
    except OSError as error:
        return False if error.errno in NO_REFLINK else None
    return True


def text(path: Path) -> str | None:
    """A file's text without surrounding white space; None if the file can't be read or is empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:  # missing, not permitted, or a device that does not answer
        return None


def number(path: Path) -> int | None:
    content = text(path)
    return int(content) if content is not None and content.lstrip("-").isdigit() else None


def flag(path: Path) -> bool | None:
    value = number(path)
    return None if value is None else value == 1


def choice(path: Path) -> str | None:
    """The chosen word in a file that lists the choices, as in `always [madvise] never`; the whole text if no word is
    marked."""
    content = text(path)
    return content and (content.partition("[")[2].partition("]")[0] or content)


def field(path: Path, name: str) -> str | None:
    """The first value of `name` in a file of lines `name: value` or `name=value`."""
    match = re.search(rf"^{re.escape(name)}\s*[:=](.*)$", text(path) or "", re.MULTILINE)
    return match[1].strip().strip('"') if match else None


def first_number(path: Path) -> float | None:
    content = text(path)
    return float(content.split()[0]) if content else None


def common(words: Iterable[str]) -> str | None:
    """The different words, sorted and joined: one word if all CPUs report the same; None without words."""
    return ", ".join(sorted(set(words))) or None


def parse_cpu_list(text: str) -> set[int]:
    r"""Parses a set of CPUs in the kernel's notation.

    >>> sorted(parse_cpu_list("0-2,8\n"))
    [0, 1, 2, 8]
    """
    cpus: set[int] = set()
    for piece in filter(None, text.strip().split(",")):
        first, _, last = piece.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def _each(folder: Path, pattern: str) -> list[str]:
    """The texts of all files that match a pattern; empty files are left out."""
    return [content for path in sorted(folder.glob(pattern)) if (content := text(path))]


def _quota_cpus(root: Path) -> float | None:
    """The lowest CPU limit of this process's control group and the groups above it; None if there is no limit."""
    limits = []
    for folder in _control_groups(root, "cpu"):
        version_2 = (text(folder / "cpu.max") or "").split()
        quota, period = version_2 or (text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota and quota != "max" and int(quota) > 0:
            limits.append(int(quota) / int(period or 100_000))
    return min(limits, default=None)


def _memory_limit_kb(root: Path, memory_kb: int | None) -> int | None:
    """The lowest memory limit of this process's control group and the groups above it; the page cache counts towards
    the limit. None if all memory may be used."""
    names = ("memory.max", "memory.limit_in_bytes")
    groups = _control_groups(root, "memory")
    limits_kb = (limit // 1024 for folder in groups for name in names if (limit := number(folder / name)))
    return min((limit_kb for limit_kb in limits_kb if limit_kb < (memory_kb or 0)), default=None)


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control group and of the groups above it, for a controller such as `memory`."""
    base = root / "sys/fs/cgroup"
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        # cgroup version 2 has one tree, without names of controllers; version 1 has one tree per controller
        if not controllers or controller in controllers.split(","):
            own = base / controllers / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(base))


def _hypervisor(root: Path, is_guest: bool) -> str | None:
    """The hypervisor as named by the kernel, by systemd (which knows many) or by the maker of the board."""
    if kind := text(root / "sys/hypervisor/type"):
        return kind
    if root == Path("/") and (program := shutil.which("systemd-detect-virt")):
        answer = subprocess.run([program, "--vm"], capture_output=True, text=True).stdout.strip()
        if answer and answer != "none":
            return answer
    if not is_guest:
        return None
    makers = (text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name"))
    return common(maker for maker in makers if maker)


def read_state(cpus: Sequence[int]) -> list[dict[str, Any]]:
    """Measures the latency of a read from memory on one of these CPUs, for each working set in SIZES_KB. Returns rows
    of `kb` and `load_ns`; takes a fifth of a second."""
    program = compiled(Path(__file__).with_name("chase.c"))
    words = [str(program), os.environ.get(STATE_MS, MS_A_SIZE), *map(str, SIZES_KB)]
    command = keeper.command("exec", words, cpus=tuple(cpus))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RqpsError(f"{program.name} did not end: {error}") from error
    if done.returncode != 0:
        raise RqpsError(f"{program.name} ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    return [{"kb": int(kb), "load_ns": float(ns)} for kb, ns in map(str.split, done.stdout.splitlines())]


class MachineStates:
    """The states before and after each step of a run. The state after a step is also the state before the next."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        self._before = self._read()

    def around(self, step: str) -> tuple[list[dict[str, Any]], tuple[Warning_, ...]]:
        """The rows of the step that has just ended, and a warning for each state that could not be measured."""
        before, self._before = self._before, self._read()
        rows: list[dict[str, Any]] = []
        problems = []
        for moment, state in (("before", before), ("after", self._before)):
            if isinstance(state, RqpsError):
                problems.append(f"the state of the machine {moment} the step is unknown: {state.message}")
            else:
                rows += [{"step": step, "moment": moment, **row} for row in state]
        return rows, tuple(Warning_(kind="machine state", text=text, step=step) for text in problems)

    def _read(self) -> "list[dict[str, Any]] | RqpsError":
        try:
            return read_state(self._cpus)
        except RqpsError as error:
            return error
