"""Reads counters of processes and of the host from the kernel.

psutil reads all counters but three: CPU time in nanoseconds (psutil has ticks of 10 ms), the context switches of all
threads (psutil has only those of the first thread), and the busy time of a CPU by its number (psutil lists only CPUs
that are online).
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from rqps.errors import RqpsError


@dataclass(frozen=True)
class ProcessCounters:
    """The process columns of the tables `steps` and `counters`; None if the kernel does not report a value."""

    cpu_s: float | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    context_switches: int | None = None
    reads: int | None = None
    writes: int | None = None
    read_kb: float | None = None
    write_kb: float | None = None


UNKNOWN = ProcessCounters()


@dataclass(frozen=True)
class ProcessReading(ProcessCounters):
    """Counters of a process since it began. For two readings, `later - earlier` is the usage between them."""

    rss_kb: int = 0
    shared_kb: int = 0
    """The part of `rss_kb` that may be shared with other processes."""
    switches_by_thread: Mapping[int, int] | None = field(default=None, repr=False)

    def __sub__(self, earlier: "ProcessReading") -> ProcessCounters:
        first = {counter.name: getattr(earlier, counter.name) for counter in fields(ProcessCounters)}
        used = differences(first, vars(self))
        used["context_switches"] = switches_between(earlier.switches_by_thread, self.switches_by_thread)
        return ProcessCounters(**used)


@dataclass(frozen=True)
class HostCounters:
    """The host columns of the tables `steps` and `counters`. For two readings, `later - earlier` is the usage between
    them. The disk's columns are None if the data directory is on no block device (tmpfs, overlay, a network file
    system). The columns `io_some_s` and `io_full_s` are None if the kernel does not count pressure stalls (PSI).
    """

    cpu_user_s: float
    cpu_system_s: float
    cpu_idle_s: float
    cpu_iowait_s: float
    cpu_steal_s: float
    context_switches: int
    interrupts: int
    reads: int | None = None
    writes: int | None = None
    read_kb: float | None = None
    write_kb: float | None = None
    read_s: float | None = None
    write_s: float | None = None
    io_some_s: float | None = None
    io_full_s: float | None = None

    def __sub__(self, earlier: "HostCounters") -> "HostCounters":
        return HostCounters(**differences(vars(earlier), vars(self)))


def differences(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """The increase of each counter from the earlier to the later reading; None if either value is unknown.

    >>> differences({"reads": 5, "writes": None}, {"reads": 7, "writes": 2})
    {'reads': 2, 'writes': None}
    """
    pairs = {name: (value, later[name]) for name, value in earlier.items()}
    return {name: None if None in pair else pair[1] - pair[0] for name, pair in pairs.items()}


def switches_between(earlier: Mapping[int, int] | None, later: Mapping[int, int] | None) -> int | None:
    """Context switches between two readings, or None if the number is not exact.

    The kernel counts context switches per living thread. If a thread ended, its switches after the earlier reading
    are lost, so the sum would be too small.

    >>> switches_between({10: 5, 11: 7}, {10: 6, 11: 9, 12: 4})
    7
    >>> switches_between({10: 5, 11: 7}, {10: 6}) is None
    True
    """
    if earlier is None or later is None or threads_ended(earlier, later):
        return None
    return sum(count - earlier.get(thread, 0) for thread, count in later.items())


def threads_ended(earlier: Mapping[int, int], later: Mapping[int, int]) -> int:
    """The number of threads that ended. If an id has fewer switches than before, another thread has that id now."""
    return sum(1 for thread, count in earlier.items() if later.get(thread, -1) < count)


def read_process(pid: int, most_threads: int | None = None) -> ProcessReading:
    """Counters of a process since it began; of an ended process, too, until it is reaped. Context switches are left
    out if the process has more than `most_threads` threads, since reading them takes one file per thread.
    """
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            cpu_s, times, memory = cpu_ns(pid) / 1e9, process.cpu_times(), process.memory_info()
            few = most_threads is None or process.num_threads() <= most_threads
            switches = _switches_by_thread(pid) if few else None
            try:
                io = process.io_counters()
            except psutil.AccessDenied:  # only users who may trace the process can read its I/O
                io = None
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError) as error:
        raise ended(pid) from error
    return ProcessReading(
        cpu_s=cpu_s,
        cpu_user_s=times.user,
        cpu_system_s=times.system,
        context_switches=None if switches is None else sum(switches.values()),
        **_reads_and_writes(io),
        rss_kb=memory.rss // 1024,
        shared_kb=memory.shared // 1024,
        switches_by_thread=switches,
    )


def ended(pid: int) -> RqpsError:
    return RqpsError(
        f"process {pid} has ended", fix="look into the logs of the server and the load generator for why it ended"
    )


def read_processes(pids: Sequence[int], most_threads: int | None = None) -> ProcessReading | None:
    """The sums over an engine's processes; None for an engine without processes of its own.

    Processes other than the first may come and go. The first process is their parent and keeps the CPU time of
    children that ended, in ticks of 10 ms. Memory that processes share counts once.
    """
    reaped = _reaped(pids[0]) if len(pids) > 1 else UNKNOWN
    readings = []
    for pid in pids:
        with may_have_ended(pid, pids):
            readings.append(read_process(pid, most_threads))
    if len(readings) < 2:
        return readings[0] if readings else None
    values = {name: [vars(reading)[name] for reading in readings] for name in vars(readings[0])}
    by_thread = values.pop("switches_by_thread")
    for name in ("cpu_s", "cpu_user_s", "cpu_system_s"):
        values[name].append(getattr(reaped, name))
    summed: dict[str, Any] = {name: None if None in counts else sum(counts) for name, counts in values.items()}
    summed["shared_kb"] = max(values["shared_kb"])
    summed["rss_kb"] -= sum(values["shared_kb"]) - summed["shared_kb"]
    merged = (
        None if None in by_thread else {thread: count for counts in by_thread for thread, count in counts.items()}
    )
    return ProcessReading(**summed, switches_by_thread=merged)


@contextmanager
def may_have_ended(pid: int, pids: Sequence[int]) -> Iterator[None]:
    """Ignores errors about an engine's process that has ended meanwhile, unless it is the engine's first process."""
    try:
        yield
    except RqpsError:
        if pid == pids[0] or psutil.pid_exists(pid):
            raise


def _reaped(pid: int) -> ProcessCounters:
    """CPU time of a process's children that have ended and were reaped."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess as error:
        raise ended(pid) from error
    user_s, system_s = times.children_user, times.children_system
    return ProcessCounters(cpu_s=user_s + system_s, cpu_user_s=user_s, cpu_system_s=system_s)


def cpu_ns(pid: int) -> int:
    """CPU time of a process and all its threads, ended threads included, by the scheduler's clock."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)  # the id of the process's CPU clock
    except OSError as error:
        raise ProcessLookupError(f"process {pid} has no CPU clock") from error


def cpu_of_all_ns(pids: Sequence[int]) -> int:
    """CPU time of an engine's processes. After the first process has reaped an ended child, the child's
    CPU time is included in ticks of 10 ms."""
    total_ns = 0
    for pid in pids:
        try:
            total_ns += cpu_ns(pid)
        except ProcessLookupError:
            if pid == pids[0]:
                raise
    return total_ns + (round((_reaped(pids[0]).cpu_s or 0) * 1e9) if len(pids) > 1 else 0)


def thread_ids(pid: int) -> list[int]:
    """The ids of all threads of a process. psutil would read one file per thread to list them."""
    return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]


def of_threads(pid: int, file: str) -> Iterator[tuple[int, bytes]]:
    """Yields each thread's id and its `file` in /proc, skipping threads that end meanwhile."""
    for thread in thread_ids(pid):
        try:
            yield thread, Path(f"/proc/{pid}/task/{thread}/{file}").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def _switches_by_thread(pid: int) -> dict[int, int]:
    switches = {}
    for thread, status in of_threads(pid, "status"):
        _, voluntary, _, involuntary = status[status.rindex(b"\nvoluntary_ctxt_switches:") :].split()[:4]
        switches[thread] = int(voluntary) + int(involuntary)
    return switches


def read_host(device: str | None) -> HostCounters:
    """Counters of the host since it booted; `device` is a name from `device_of`."""
    cpu, switches = psutil.cpu_times(), psutil.cpu_stats()
    disk = disk_counters(device)
    times: dict[str, Any] = {} if disk is None else {"read_s": disk.read_time / 1e3, "write_s": disk.write_time / 1e3}
    return HostCounters(
        cpu_user_s=cpu.user + cpu.nice,  # the kernel's `user` includes time in virtual machines
        cpu_system_s=cpu.system + cpu.irq + cpu.softirq,
        cpu_idle_s=cpu.idle,
        cpu_iowait_s=cpu.iowait,
        cpu_steal_s=cpu.steal,
        context_switches=switches.ctx_switches,
        interrupts=switches.interrupts,
        **_reads_and_writes(disk),
        **times,
        **read_io_pressure(),
    )


def disk_counters(device: str | None) -> Any:
    """The kernel's counters of a device; None without a device, or if the kernel does not show the counters."""
    try:
        return psutil.disk_io_counters(perdisk=True, nowrap=False).get(device) if device else None
    except (FileNotFoundError, NotImplementedError, PermissionError):  # a container without /proc/diskstats
        return None


def read_io_pressure(file: Path = Path("/proc/pressure/io")) -> dict[str, Any]:
    """Seconds since boot in which some task waited for the disk (`io_some_s`), and in which no task could run for
    that reason (`io_full_s`); no values if the kernel does not count them."""
    try:
        lines = file.read_text().splitlines()
    except OSError:  # missing, or switched off: reading then fails
        return {}
    totals = (line.rpartition(" total=") for line in lines)
    return {f"io_{before.split()[0]}_s": int(total) / 1e6 for before, _, total in totals}


def _reads_and_writes(io: Any) -> dict[str, Any]:
    """The columns for psutil's counters of a process or a disk; no columns if there are no counters."""
    if io is None:
        return {}
    kb = {"read_kb": io.read_bytes / 1024, "write_kb": io.write_bytes / 1024}
    return {"reads": io.read_count, "writes": io.write_count, **kb}


def read_host_state() -> dict[str, float | None]:
    """The load average, free memory and CPU frequency now, named like the columns of the table `counters`."""
    return {
        "host_load_1min": os.getloadavg()[0],
        "host_memory_available_kb": psutil.virtual_memory().available // 1024,
        "host_frequency_mhz": psutil.cpu_freq().current if _frequency_is_measured() else None,
    }


@cache
def _frequency_is_measured() -> bool:
    """False if there is no frequency driver and the CPU does not count cycles: psutil would then return the
    frequency at boot."""
    drivers = Path("/sys/devices/system/cpu/cpufreq").glob("policy*")
    return any(drivers) or " aperfmperf" in Path("/proc/cpuinfo").read_text()


def read_idle_ns(cpus: Collection[int]) -> dict[int, tuple[int, int]] | None:
    """Maps each CPU to its idle time since boot, from two counters of the kernel. The first is exact to a
    microsecond, but leaves out an idle period that has not ended yet; the second is in ticks of 10 ms. None if the
    kernel lacks the first counter. `measuring.lua` reads the same counters."""
    tick_ns, ticks = 1_000_000_000 // os.sysconf("SC_CLK_TCK"), {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields_ = line.split(None, 6)
        if name.startswith("cpu") and name != "cpu":
            ticks[int(name[3:])] = int(fields_[3]) + int(fields_[4])
    idle = {}
    for cpu in cpus:
        states = list(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpuidle").glob("state*/time"))
        if not states:
            return None
        idle[cpu] = 1000 * sum(int(state.read_text()) for state in states), tick_ns * ticks.get(cpu, 0)
    return idle


def read_busy_s(cpus: Collection[int]) -> float:
    """Seconds since boot in which these CPUs were busy, summed over the CPUs."""
    names = {f"cpu{cpu}" for cpu in cpus}
    busy_ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split(None, 8)
        if name in names:
            user, nice, system, _idle, _iowait, irq, softirq = map(int, ticks[:7])
            busy_ticks += user + nice + system + irq + softirq
    return busy_ticks / os.sysconf("SC_CLK_TCK")
