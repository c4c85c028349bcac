"""What the description of the machine tells about its CPUs."""

from collections.abc import Mapping
from typing import Any

from rqps.observe.checks.finding import Finding

Machine = Mapping[str, Any]


def cpu_findings(machine: Machine) -> list[Finding]:
    """Findings about what the machine tells; what it does not tell gives none."""
    checks = (_count, _quota, _governor, _turbo, _smt, _virtual, _clock, _randomised)
    return [found for check in checks if (found := check(machine)) is not None]


def _count(machine: Machine) -> Finding | None:
    cpus = machine["cpus_allowed"]
    if cpus == 1:
        effect = "server, load generator, observer and everything else take turns on it"
        return Finding("CPUs", "warn", "1 CPU", effect, "use a machine with two CPUs or more")
    if cpus < 4:
        effect = "enough for one client beside the server on one CPU; with several clients they disturb each other"
        return Finding("CPUs", "note", f"{cpus} CPUs", effect, "for studies with several clients, use 4 CPUs or more")
    return Finding("CPUs", "ok", f"{cpus} CPUs")


def _quota(machine: Machine) -> Finding | None:
    quota = machine.get("cpu_quota_cpus")
    if quota is None:
        return None
    return Finding(
        "CPU quota",
        "bad",
        f"this container may use up {quota:g} CPUs and is then stopped until the next tenth of a second",
        "throughput measures the quota, not the server",
        "start the container with whole CPUs (--cpuset-cpus) in place of a quota (--cpus)",
    )


def _governor(machine: Machine) -> Finding | None:
    governor = machine.get("governor")
    if governor is None or governor == "performance":
        return Finding("governor", "ok", governor) if governor else None
    return Finding(
        "governor",
        "warn",
        f"{governor}: the frequency follows the load",
        "a step that waits more runs at a lower frequency, so two servers are measured at two speeds",
        "as root: echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )


def _turbo(machine: Machine) -> Finding | None:
    if "turbo" not in machine:
        return None
    if not machine["turbo"]:
        return Finding("turbo", "ok", "off")
    return Finding(
        "turbo",
        "note",
        "on",
        "the frequency depends on temperature and on what other cores do; interleaved rounds even out most of it",
        "as root: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > …/cpufreq/boost",
    )


def _smt(machine: Machine) -> Finding | None:
    if "smt" not in machine:
        return None
    if not machine["smt"]:
        return Finding("SMT", "ok", "off, or not visible from here")
    return Finding(
        "SMT",
        "note",
        "on: two logical CPUs share a core",
        "what runs on the sibling of the server's CPU slows it; placement keeps whole cores apart where it can",
        "as root: echo off > /sys/devices/system/cpu/smt/control",
    )


def _virtual(machine: Machine) -> Finding | None:
    if not machine.get("virtualised"):
        return Finding("virtualisation", "ok", "a real machine")
    return Finding(
        "virtualisation",
        "note",
        f"a virtual machine ({machine.get('hypervisor', 'of an unknown kind')})",
        "others on the same hardware take CPU, cache and disk unseen; wake-ups between CPUs are dear, "
        "so one client is measured on the server's own CPU",
        "use a real machine for small differences; here, take more rounds",
    )


def _clock(machine: Machine) -> Finding | None:
    source = machine.get("clock_source")
    if source in (None, "tsc", "kvm-clock", "hyperv_clocksource_tsc_page"):
        return Finding("clock source", "ok", source) if source else None
    return Finding(
        "clock source",
        "warn",
        f"{source}: every look at the clock is a system call",
        "the server looks at the clock several times a statement, the performance schema even more often",
        "boot with clocksource=tsc if the kernel trusts it here (see the kernel log for why it does not)",
    )


def _randomised(machine: Machine) -> Finding | None:
    level = machine.get("address_randomisation")
    if level is None:
        return None
    if level == 0:
        return Finding(
            "address randomisation",
            "note",
            "off",
            "one memory layout is measured again and again: its luck looks like a difference between builds",
            "as root: sysctl kernel.randomize_va_space=2",
        )
    return Finding("address randomisation", "ok", "on: each start has another memory layout, rounds average over it")
