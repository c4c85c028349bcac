"""Defines a finding of the doctor, with its effect on the numbers and its fix, and makes findings from the facts
about the machine."""

import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from rqps.engines import facts_of_all
from rqps.numbers import gigabytes

Level = Literal["ok", "note", "warn", "bad"]
HEADINGS: dict[Level, str] = {
    "ok": "Fine:",
    "note": "Good to know:",
    "warn": "This makes numbers worse:",
    "bad": "Fix this first: without it there are no numbers, or none that mean anything.",
}
"""Maps each level of a finding to its heading in the doctor's report; the worst level is last."""
LEVELS = tuple(HEADINGS)
NARROWEST, WIDEST = 60, 110
Machine = Mapping[str, Any]
"""The facts about a machine that `describe_machine` returns, by name."""
KB_PER_GB = 1 << 20
LEAST_GB, ENOUGH_GB = 2, 4
READ_AHEAD_KB = 2048
"""The amount that a compaction in db-bench asks the kernel to read ahead, in releases since 2023."""


class Finding(NamedTuple):
    """The result of one of the doctor's checks. Its effect and its fix are shown unless its level is ok."""

    name: str
    level: Level
    observed: str
    effect: str = ""
    fix: str = ""

    def text(self, columns: int) -> str:
        lines = [("    ", f"  {self.name}: {self.observed}")]
        if self.level != "ok":
            lines += [(" " * 12, f"    effect: {self.effect}"), (" " * 12, f"    fix:    {self.fix}")]
        return "\n".join(
            textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
            for indent, line in lines
        )


def worst(findings: Iterable[Finding]) -> Level:
    return max((finding.level for finding in findings), key=LEVELS.index, default="ok")


def render(findings: Iterable[Finding], width: int | None = None) -> str:
    """The findings as text, the worst first.

    >>> print(render([Finding("swap", "ok", "none"), Finding("load", "warn", "4 on 2 CPUs", "It is noise.", "wait")]))
    This makes numbers worse:
      load: 4 on 2 CPUs
        effect: It is noise.
        fix:    wait
    <BLANKLINE>
    Fine:
      swap: none
    """
    columns = width or min(WIDEST, max(NARROWEST, shutil.get_terminal_size().columns))
    texts = {level: [finding.text(columns) for finding in findings if finding.level == level] for level in LEVELS}
    return "\n\n".join("\n".join([HEADINGS[level], *texts[level]]) for level in reversed(LEVELS) if texts[level])


class Trait(NamedTuple):
    """A fact about the machine that makes measurements less exact if `unlucky` returns True for its value."""

    fact: str
    name: str
    unlucky: Callable[[Any], bool]
    level: Level
    observed: str
    effect: str
    fix: str
    fine: str = "{}"


TRAITS = (
    Trait(
        "cpu_quota_cpus",
        "CPU quota",
        lambda _: True,
        "bad",
        "this container may use up {:g} CPUs and is then stopped until the next tenth of a second",
        "throughput measures the quota, not the dbms",
        "start the container with whole CPUs (--cpuset-cpus) in place of a quota (--cpus)",
    ),
    Trait(
        "governor",
        "governor",
        lambda governor: governor != "performance",
        "warn",
        "{}: the frequency follows the load",
        "a step that waits more runs at a lower frequency, so two dbms are measured at two speeds",
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
        "off",
    ),
    Trait(
        "smt",
        "SMT",
        bool,
        "note",
        "on: two logical CPUs share a core",
        "a program on the sibling of the dbms's CPU slows it; placement gives whole cores where it can",
        "as root: echo off > /sys/devices/system/cpu/smt/control",
        "off, or not visible from here",
    ),
    Trait(
        "clock_source",
        "clock source",
        lambda source: source not in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"),
        "warn",
        "{}: each reading of the clock is a system call",
        "the server reads the clock several times per statement, the performance schema even more often",
        "boot with clocksource=tsc if the kernel trusts it here (see the kernel log for why it does not)",
    ),
    Trait(
        "address_randomisation",
        "address randomisation",
        lambda level: level == 0,
        "note",
        "off",
        "all starts have the same memory layout, whose effect looks like a difference between builds",
        "as root: sysctl kernel.randomize_va_space=2",
        "on: each start has another memory layout, rounds average over it",
    ),
    Trait(
        "transparent_huge_pages",
        "huge pages",
        lambda mode: mode == "always",
        "note",
        "always: the kernel gathers memory into huge pages when it finds the time",
        "two starts of one dbms get different pages, which moves throughput by some percent",
        "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Trait(
        "pages_out_cold_memory",
        "cold memory",
        bool,
        "note",
        "the kernel gives away memory that it finds cold, files in its cache first (DAMON)",
        "what reads files through the kernel's cache, such as iobuf of db-bench, may read them from the disk",
        "as root: echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state; or read past that cache (iodir)",
        "is watched, and stays",
    ),
    Trait(
        "memory_limit_kb",
        "memory limit",
        lambda _: True,
        "note",
        "{:,} KB for this process and all that it starts, with the files that they read",
        "tables larger than that are read from the disk, through the page cache, too",
        "start rqps outside of this control group, unless this is what you want to measure",
    ),
)


def machine_findings(machine: Machine) -> list[Finding]:
    """The findings about CPUs and memory; facts that the machine does not report are left out."""
    findings = [_cpus(machine["cpus_allowed"]), _virtual(machine)]
    for trait in TRAITS:
        value = machine.get(trait.fact)
        if value is not None and trait.unlucky(value):
            findings.append(Finding(trait.name, trait.level, trait.observed.format(value), trait.effect, trait.fix))
        elif value is not None:
            findings.append(Finding(trait.name, "ok", trait.fine.format(value)))
    return [*findings, *_memory(machine), *_requests(machine)]


def _cpus(cpus: int) -> Finding:
    if cpus == 1:
        effect = "dbms, load generator, observer and everything else take turns on it"
        return Finding("CPUs", "warn", "1 CPU", effect, "use a machine with two CPUs or more")
    effect = "enough for one client beside the dbms on one CPU; with several clients they disturb each other"
    fix = "for studies with several clients, use 4 CPUs or more"
    return Finding("CPUs", "note" if cpus < 4 else "ok", f"{cpus} CPUs", effect, fix)


def _virtual(machine: Machine) -> Finding:
    if not machine.get("virtualised"):
        return Finding("virtualisation", "ok", "a real machine")
    return Finding(
        "virtualisation",
        "note",
        f"a virtual machine ({machine.get('hypervisor', 'of an unknown kind')})",
        "others on the same hardware take CPU, cache and disk unseen; wake-ups between CPUs cost much, "
        "so one client is measured on the dbms's own CPU",
        "use a real machine for small differences; here, take more rounds",
    )


def _memory(machine: Machine) -> Iterable[Finding]:
    if "memory_available_kb" in machine:
        free_gb = machine["memory_available_kb"] / KB_PER_GB
        options = (facts.memory for facts in facts_of_all())
        yield Finding(
            "memory",
            "bad" if free_gb < LEAST_GB else "warn" if free_gb < ENOUGH_GB else "ok",
            f"{gigabytes(free_gb)} of {gigabytes(machine['memory_kb'] / KB_PER_GB)} are free",
            "a dbms takes its cache and some 0.4 GB beside it; with less it reads from disk",
            f"end what takes memory, or give a dbms less in runs.yaml ({', '.join(filter(None, options))})",
        )
    used_gb = machine.get("swap_used_kb", 0) / KB_PER_GB
    unused = "not in use" if machine.get("swap_kb") else "none"
    yield Finding(
        "swap",
        "warn" if used_gb > 0.1 else "ok",
        f"{gigabytes(used_gb)} in use" if used_gb > 0.1 else unused,
        "pages of the dbms may be written out and read back in the middle of a step",
        "as root, with enough free memory: swapoff -a; or sysctl vm.swappiness=1",
    )


def _requests(machine: Machine) -> Iterable[Finding]:
    """Checks if the kernel serves a whole request to read `READ_AHEAD_KB` ahead: it reads at most the larger of the
    disk's `max_sectors_kb` and `read_ahead_kb`, and ignores the rest of the request."""
    values = [machine[name] for name in ("max_sectors_kb", "read_ahead_kb") if name in machine]
    if values:
        yield Finding(
            "disk requests",
            "ok" if max(values) >= READ_AHEAD_KB else "note",
            f"max_sectors_kb and read_ahead_kb are {' and '.join(map(str, values))}",
            f"compaction in iobuf of db-bench asks for {READ_AHEAD_KB} KB at once, gets less, and reads the rest "
            "block by block (bug 12038)",
            f"as root: echo {READ_AHEAD_KB} > /sys/block/{machine.get('device', 'DEVICE')}/queue/read_ahead_kb",
        )
