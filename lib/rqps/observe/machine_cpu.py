"""Facts about the CPUs, each None where the machine does not tell."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from rqps.observe.placement import parse_cpu_list
from rqps.observe.system_files import common, field, number, text

SYSTEM = "sys/devices/system"


def model(root: Path) -> str | None:
    return field(root / "proc/cpuinfo", "model name")


def online(root: Path) -> int | None:
    found = text(root / SYSTEM / "cpu/online")
    return len(parse_cpu_list(found)) if found else None


def allowed(_root: Path) -> int | None:
    return len(os.sched_getaffinity(0))


def quota_cpus(root: Path) -> float | None:
    """The limit of our control group or one above it; None where there is none."""
    limits = [limit for folder in _control_groups(root) if (limit := _quota_of(folder)) is not None]
    return min(limits, default=None)


def _control_groups(root: Path) -> list[Path]:
    """Our groups that can limit CPU, and those above them: one tree in version 2, one a controller in version 1."""
    base = root / "sys/fs/cgroup"
    folders: list[Path] = []
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            own = base / controllers / path.lstrip("/")
            folders += [own, *(folder for folder in own.parents if folder.is_relative_to(base))]
    return folders


def _quota_of(folder: Path) -> float | None:
    quota, _, period = (text(folder / "cpu.max") or "max").partition(" ")
    if quota == "max":
        old = number(folder / "cpu.cfs_quota_us")
        if old is None or old <= 0:
            return None
        quota, period = str(old), text(folder / "cpu.cfs_period_us") or ""
    return int(quota) / int(period or 100_000)


def _topology(root: Path, name: str) -> list[Path]:
    return sorted((root / SYSTEM / "cpu").glob(f"cpu[0-9]*/topology/{name}"))


def sockets(root: Path) -> int | None:
    return len({text(path) for path in _topology(root, "physical_package_id")}) or None


def cores(root: Path) -> int | None:
    return len({text(path) for path in _topology(root, "thread_siblings_list")}) or None


def smt(root: Path) -> bool | None:
    active = number(root / SYSTEM / "cpu/smt/active")
    return None if active is None else active == 1


def numa_nodes(root: Path) -> int | None:
    found = text(root / SYSTEM / "node/online")
    return len(parse_cpu_list(found)) if found else None


def cache_kb(root: Path) -> int | None:
    sizes = [text(path) for path in sorted((root / SYSTEM / "cpu/cpu0/cache").glob("index*/size"))]
    return int(sizes[-1].rstrip("K")) if sizes and sizes[-1] else None


def frequency_mhz(root: Path) -> float | None:
    speeds = re.findall(r"^cpu MHz\s*: ([\d.]+)$", text(root / "proc/cpuinfo") or "", re.MULTILINE)
    return round(sum(map(float, speeds)) / len(speeds), 1) if speeds else None


def _policies(root: Path, name: str) -> list[Path]:
    return sorted((root / SYSTEM / "cpu/cpufreq").glob(f"policy*/{name}"))


def _frequencies_mhz(root: Path, name: str) -> list[float]:
    return [khz / 1000 for path in _policies(root, name) if (khz := number(path)) is not None]


def frequency_min_mhz(root: Path) -> float | None:
    return min(_frequencies_mhz(root, "cpuinfo_min_freq"), default=None)


def frequency_max_mhz(root: Path) -> float | None:
    return max(_frequencies_mhz(root, "cpuinfo_max_freq"), default=None)


def frequency_driver(root: Path) -> str | None:
    return common(_policies(root, "scaling_driver"))


def governor(root: Path) -> str | None:
    return common(_policies(root, "scaling_governor"))


def turbo(root: Path) -> bool | None:
    """Intel's driver has a switch that turns it off, the others one that turns it on."""
    off = number(root / SYSTEM / "cpu/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    on = number(root / SYSTEM / "cpu/cpufreq/boost")
    return None if on is None else on == 1


def mitigations(root: Path) -> dict[str, str] | None:
    files = sorted((root / SYSTEM / "cpu/vulnerabilities").glob("*"))
    found = {path.name: said for path in files if (said := text(path)) and said != "Not affected"}
    return found or None


def virtualised(root: Path) -> bool | None:
    cpuinfo = text(root / "proc/cpuinfo")
    if cpuinfo is None:
        return None
    return hypervisor(root) is not None or " hypervisor" in cpuinfo


def hypervisor(root: Path) -> str | None:
    """The kernel's own word, then systemd's (it knows many), then the maker of the board."""
    if kind := text(root / "sys/hypervisor/type"):
        return kind
    if root == Path("/") and (program := shutil.which("systemd-detect-virt")):
        said = subprocess.run([program, "--vm"], capture_output=True, text=True).stdout.strip()
        if said and said != "none":
            return said
    if " hypervisor" not in (text(root / "proc/cpuinfo") or ""):
        return None
    return common([root / "sys/class/dmi/id/sys_vendor", root / "sys/class/dmi/id/product_name"])
