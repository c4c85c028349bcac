"""Is this machine fit to measure on, what makes numbers worse here, and how to mend it."""

import shutil
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from rqps.observe.checks.cpu import cpu_findings
from rqps.observe.checks.finding import LEVELS, Finding, Level
from rqps.observe.checks.memory import memory_findings
from rqps.observe.checks.now import now_findings
from rqps.observe.checks.profiling import profiling_findings
from rqps.observe.checks.room import room_findings
from rqps.observe.checks.tools import tool_findings
from rqps.observe.machine import describe_machine

__all__ = ["LEVELS", "Finding", "examine", "render", "worst"]

HEADINGS: dict[Level, str] = {
    "bad": "Mend this first: without it there are no numbers, or none that mean anything.",
    "warn": "This makes numbers worse:",
    "note": "Good to know:",
    "ok": "Fine:",
}
NARROWEST, WIDEST = 60, 110


def examine(directory: Path, say: Callable[[str], None] = lambda _: None) -> list[Finding]:
    """Look at everything; `directory` is where data will be written. `say` hears what takes seconds."""
    machine = describe_machine(directory)
    return [
        *now_findings(say),
        *cpu_findings(machine),
        *memory_findings(machine),
        *room_findings(directory),
        *profiling_findings(machine),
        *tool_findings(),
    ]


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
    every = list(findings)
    parts = []
    for level in reversed(LEVELS):
        if these := [finding for finding in every if finding.level == level]:
            parts.append("\n".join([HEADINGS[level], *(_told(finding, columns) for finding in these)]))
    return "\n\n".join(parts)


def _told(finding: Finding, columns: int) -> str:
    lines = [("    ", f"  {finding.name}: {finding.found}")]
    lines += [(" " * 12, f"    effect: {finding.effect}")] if finding.effect else []
    lines += [(" " * 12, f"    fix:    {finding.fix}")] if finding.fix else []
    wrapped = [
        textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for indent, line in lines
    ]
    return "\n".join(wrapped)
