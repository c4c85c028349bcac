"""What the description of the machine tells about its memory."""

from collections.abc import Mapping
from typing import Any

from rqps.observe.checks.finding import Finding

Machine = Mapping[str, Any]
KB_PER_GB = 1 << 20
LEAST_GB = 2
ENOUGH_GB = 4


def memory_findings(machine: Machine) -> list[Finding]:
    """Room for a server with its buffer pool, swap, huge pages."""
    checks = (_room, _swap, _huge_pages)
    return [found for check in checks if (found := check(machine)) is not None]


def _room(machine: Machine) -> Finding | None:
    if "memory_available_kb" not in machine:
        return None
    available_gb = machine["memory_available_kb"] / KB_PER_GB
    found = f"{available_gb:.1f} of {machine['memory_kb'] / KB_PER_GB:.1f} GB are free"
    effect = (
        "a server takes its buffer pool and 0.4 GB for the performance schema; short of memory it reads from disk"
    )
    fix = "end what takes memory, or give innodb_buffer_pool_size less in runs.yaml"
    if available_gb < LEAST_GB:
        return Finding("memory", "bad", found, effect, fix)
    if available_gb < ENOUGH_GB:
        return Finding("memory", "warn", found, effect, fix)
    return Finding("memory", "ok", found)


def _swap(machine: Machine) -> Finding | None:
    used_gb = machine.get("swap_used_kb", 0) / KB_PER_GB
    if used_gb > 0.1:
        effect = "pages of the server may be written out and read back in the middle of a step"
        fix = "as root, with enough free memory: swapoff -a; or sysctl vm.swappiness=1"
        return Finding("swap", "warn", f"{used_gb:.1f} GB in use", effect, fix)
    return Finding("swap", "ok", "not in use" if machine.get("swap_kb") else "none")


def _huge_pages(machine: Machine) -> Finding | None:
    mode = machine.get("transparent_huge_pages")
    if mode != "always":
        return Finding("huge pages", "ok", mode) if mode else None
    return Finding(
        "huge pages",
        "note",
        "always: the kernel gathers memory into huge pages when it finds the time",
        "two starts of one server get different pages, which moves throughput by some percent",
        "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )
