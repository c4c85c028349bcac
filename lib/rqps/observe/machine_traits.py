"""Traits of a machine that make numbers worse: its CPUs, its memory, its kernel's settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rqps.observe.finding import Finding, Level, finding

Machine = Mapping[str, Any]
"""Facts as `describe_machine` gives them."""
KB_PER_GB = 1 << 20
LEAST_GB, ENOUGH_GB = 2, 4


@dataclass(frozen=True)
class Trait:
    """One fact of the machine that makes numbers worse where it has an unlucky value."""

    fact: str
    name: str
    unlucky: Callable[[Any], bool]
    level: Level
    found: str
    effect: str
    fix: str
    fine: str = "{}"

    def finding(self, machine: Machine) -> Finding | None:
        if (value := machine.get(self.fact)) is None:
            return None
        if self.unlucky(value):
            return Finding(self.name, self.level, self.found.format(value), self.effect, self.fix)
        return Finding(self.name, "ok", self.fine.format(value))


TRAITS = (
    Trait(
        "cpu_quota_cpus",
        "CPU quota",
        lambda _: True,
        "bad",
        "this container may use up {:g} CPUs and is then stopped until the next tenth of a second",
        "throughput measures the quota, not the server",
        "start the container with whole CPUs (--cpuset-cpus) in place of a quota (--cpus)",
    ),
    Trait(
        "governor",
        "governor",
        lambda governor: governor != "performance",
        "warn",
        "{}: the frequency follows the load",
        "a step that waits more runs at a lower frequency, so two servers are measured at two speeds",
        "as root: echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    ),
    Trait(
        "turbo",
        "turbo",
        bool,
        "note",
        "on",
        "the frequency depends on temperature and on what other cores do; interleaved rounds even out most of it",
        "as root: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > …/cpufreq/boost",
        fine="off",
    ),
    Trait(
        "smt",
        "SMT",
        bool,
        "note",
        "on: two logical CPUs share a core",
        "a program on the sibling of the server's CPU slows it; placement gives whole cores where it can",
        "as root: echo off > /sys/devices/system/cpu/smt/control",
        fine="off, or not visible from here",
    ),
    Trait(
        "clock_source",
        "clock source",
        lambda source: source not in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"),
        "warn",
        "{}: every look at the clock is a system call",
        "the server looks at the clock several times per statement, the performance schema even more often",
        "boot with clocksource=tsc if the kernel trusts it here (see the kernel log for why it does not)",
    ),
    Trait(
        "address_randomisation",
        "address randomisation",
        lambda level: level == 0,
        "note",
        "off",
        "one memory layout is measured again and again: its luck looks like a difference between builds",
        "as root: sysctl kernel.randomize_va_space=2",
        fine="on: each start has another memory layout, rounds average over it",
    ),
    Trait(
        "transparent_huge_pages",
        "huge pages",
        lambda mode: mode == "always",
        "note",
        "always: the kernel gathers memory into huge pages when it finds the time",
        "two starts of one server get different pages, which moves throughput by some percent",
        "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
)


def machine_findings(machine: Machine) -> list[Finding]:
    """Findings about CPUs and memory; a fact that the machine does not give has none."""
    traits = [trait.finding(machine) for trait in TRAITS]
    found = [_cpus(machine["cpus_allowed"]), _virtual(machine), *traits, _memory(machine), _swap(machine)]
    return [each for each in found if each is not None]


def _cpus(cpus: int) -> Finding:
    if cpus == 1:
        effect = "server, load generator, observer and everything else take turns on it"
        return Finding("CPUs", "warn", "1 CPU", effect, "use a machine with two CPUs or more")
    effect = "enough for one client beside the server on one CPU; with several clients they disturb each other"
    fix = "for studies with several clients, use 4 CPUs or more"
    return finding("CPUs", "note" if cpus < 4 else "ok", f"{cpus} CPUs", effect, fix)


def _virtual(machine: Machine) -> Finding:
    if not machine.get("virtualised"):
        return Finding("virtualisation", "ok", "a real machine")
    return Finding(
        "virtualisation",
        "note",
        f"a virtual machine ({machine.get('hypervisor', 'of an unknown kind')})",
        "others on the same hardware take CPU, cache and disk unseen; wake-ups between CPUs cost much, "
        "so one client is measured on the server's own CPU",
        "use a real machine for small differences; here, take more rounds",
    )


def _memory(machine: Machine) -> Finding | None:
    if "memory_available_kb" not in machine:
        return None
    free_gb = machine["memory_available_kb"] / KB_PER_GB
    return finding(
        "memory",
        "bad" if free_gb < LEAST_GB else "warn" if free_gb < ENOUGH_GB else "ok",
        f"{free_gb:.1f} of {machine['memory_kb'] / KB_PER_GB:.1f} GB are free",
        "a server takes its buffer pool and 0.4 GB for the performance schema; short of memory it reads from disk",
        "end what takes memory, or give innodb_buffer_pool_size less in runs.yaml",
    )


def _swap(machine: Machine) -> Finding:
    used_gb = machine.get("swap_used_kb", 0) / KB_PER_GB
    if used_gb <= 0.1:
        return Finding("swap", "ok", "not in use" if machine.get("swap_kb") else "none")
    effect = "pages of the server may be written out and read back in the middle of a step"
    fix = "as root, with enough free memory: swapoff -a; or sysctl vm.swappiness=1"
    return Finding("swap", "warn", f"{used_gb:.1f} GB in use", effect, fix)
