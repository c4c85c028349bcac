"""The machine as a dictionary of facts, stored with every run; what a machine does not tell has no entry."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rqps.observe import machine_cpu as cpu
from rqps.observe import machine_disk as disk
from rqps.observe import machine_kernel as kernel

Value: TypeAlias = str | int | float | bool | list[str] | dict[str, str]


@dataclass(frozen=True)
class Fact:
    """One fact: what it is, what type its value has, and how to find it out.

    Facts of the system are looked up below a root folder (`/`), facts of the disk for the data directory.
    """

    name: str
    kind: type
    meaning: str
    collect: Callable[[Path], Value | None]


SYSTEM_FACTS = (
    Fact("cpu_model", str, "the CPU's name", cpu.model),
    Fact("cpus", int, "logical CPUs that are on", cpu.online),
    Fact("cpus_allowed", int, "logical CPUs that we may use", cpu.allowed),
    Fact("cpu_quota_cpus", float, "CPUs that a container may use up, where it is limited", cpu.quota_cpus),
    Fact("sockets", int, "CPU packages", cpu.sockets),
    Fact("cores", int, "physical cores", cpu.cores),
    Fact("smt", bool, "whether a core runs two threads", cpu.smt),
    Fact("numa_nodes", int, "memory nodes", cpu.numa_nodes),
    Fact("cache_kb", int, "the last cache of the first CPU", cpu.cache_kb),
    Fact("frequency_mhz", float, "as /proc/cpuinfo had it, mean over the CPUs", cpu.frequency_mhz),
    Fact("frequency_min_mhz", float, "the lowest that can be set", cpu.frequency_min_mhz),
    Fact("frequency_max_mhz", float, "the highest, with turbo", cpu.frequency_max_mhz),
    Fact("frequency_driver", str, "who sets the frequency", cpu.frequency_driver),
    Fact("governor", str, "by what rule the frequency is set", cpu.governor),
    Fact("turbo", bool, "whether the frequency may rise beyond the nominal one", cpu.turbo),
    Fact("mitigations", dict, "what the kernel does against CPU vulnerabilities", cpu.mitigations),
    Fact("virtualised", bool, "whether this is a virtual machine", cpu.virtualised),
    Fact("hypervisor", str, "what it runs under", cpu.hypervisor),
    Fact("container", str, "what kind of container this is", kernel.container),
    Fact("kernel", str, "release of the kernel", kernel.release),
    Fact("distribution", str, "name and version of the distribution", kernel.distribution),
    Fact("libc", str, "the C library of this Python", kernel.libc),
    Fact("clock_source", str, "what the kernel tells time by", kernel.clock_source),
    Fact("memory_kb", int, "memory", kernel.memory_kb),
    Fact("memory_available_kb", int, "memory that was free or could be freed", kernel.memory_available_kb),
    Fact("swap_kb", int, "swap space", kernel.swap_kb),
    Fact("swap_used_kb", int, "swap space in use", kernel.swap_used_kb),
    Fact("swappiness", int, "how readily the kernel swaps", kernel.swappiness),
    Fact("transparent_huge_pages", str, "always, madvise or never", kernel.transparent_huge_pages),
    Fact("address_randomisation", int, "0 off, 1 without the heap, 2 all", kernel.address_randomisation),
    Fact("perf_event_paranoid", int, "who may profile: below 1 everybody everything", kernel.perf_event_paranoid),
    Fact("uptime_s", float, "seconds since the kernel started", kernel.uptime_s),
    Fact("load_1min", float, "load average before the start", kernel.load_1min),
)

DISK_FACTS = (
    Fact("file_system", str, "file system of the data directory", disk.file_system),
    Fact("mount_options", list, "how it is mounted", disk.mount_options),
    Fact("device", str, "the device or partition below it", disk.device),
    Fact("device_model", str, "the make of the disk", disk.model),
    Fact("rotational", bool, "whether the disk turns", disk.rotational),
    Fact("io_scheduler", str, "who orders its requests", disk.io_scheduler),
    Fact("write_cache", str, "write back or write through", disk.write_cache),
    Fact("can_reflink", bool, "whether a file can be copied without copying its blocks", disk.can_reflink),
    Fact("disk_free_kb", int, "free for ordinary users", disk.free_kb),
)


def describe_machine(data_directory: Path, root: Path = Path("/")) -> dict[str, Value]:
    """Everything known, ready for JSON. No names of users or hosts, no addresses, no serial numbers."""
    existing = disk.nearest_existing(data_directory)
    found = [(fact.name, fact.collect(root)) for fact in SYSTEM_FACTS]
    found += [(fact.name, fact.collect(existing)) for fact in DISK_FACTS]
    return {name: value for name, value in found if value is not None}
