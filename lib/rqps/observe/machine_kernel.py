"""Facts about kernel, memory and distribution, each None where the machine does not tell."""

import platform
from pathlib import Path

from rqps.observe.system_files import chosen, field, number, text


def container(root: Path) -> str | None:
    """What systemd and the container programs leave behind for those inside."""
    if kind := text(root / "run/systemd/container"):
        return kind
    marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
    return next((kind for mark, kind in marks.items() if (root / mark).exists()), None)


def release(root: Path) -> str | None:
    return text(root / "proc/sys/kernel/osrelease")


def distribution(root: Path) -> str | None:
    return field(root / "etc/os-release", "PRETTY_NAME")


def libc(_root: Path) -> str | None:
    return " ".join(platform.libc_ver()).strip() or None


def clock_source(root: Path) -> str | None:
    return text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def _memory(root: Path, name: str) -> int | None:
    found = field(root / "proc/meminfo", name)
    return int(found.split()[0]) if found else None


def memory_kb(root: Path) -> int | None:
    return _memory(root, "MemTotal")


def memory_available_kb(root: Path) -> int | None:
    return _memory(root, "MemAvailable")


def swap_kb(root: Path) -> int | None:
    return _memory(root, "SwapTotal")


def swap_used_kb(root: Path) -> int | None:
    total, free = _memory(root, "SwapTotal"), _memory(root, "SwapFree")
    return None if total is None or free is None else total - free


def swappiness(root: Path) -> int | None:
    return number(root / "proc/sys/vm/swappiness")


def transparent_huge_pages(root: Path) -> str | None:
    return chosen(root / "sys/kernel/mm/transparent_hugepage/enabled")


def address_randomisation(root: Path) -> int | None:
    return number(root / "proc/sys/kernel/randomize_va_space")


def perf_event_paranoid(root: Path) -> int | None:
    return number(root / "proc/sys/kernel/perf_event_paranoid")


def uptime_s(root: Path) -> float | None:
    found = text(root / "proc/uptime")
    return float(found.split()[0]) if found else None


def load_1min(root: Path) -> float | None:
    found = text(root / "proc/loadavg")
    return float(found.split()[0]) if found else None
