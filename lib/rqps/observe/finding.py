"""A finding of the doctor: one thing that was looked at, its effect on the numbers, and its fix."""

import shutil
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warn", "bad"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warn", "bad")
"""From nothing to do, over numbers that are worse than they need be, to none that mean anything."""

HEADINGS: dict[Level, str] = {
    "bad": "Fix this first: without it there are no numbers, or none that mean anything.",
    "warn": "This makes numbers worse:",
    "note": "Good to know:",
    "ok": "Fine:",
}
NARROWEST, WIDEST = 60, 110


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; effect and fix are empty where there is nothing to do."""

    name: str
    level: Level
    found: str
    effect: str = ""
    fix: str = ""


def finding(name: str, level: Level, found: str, effect: str, fix: str) -> Finding:
    """A finding whose effect and fix are left out where all is well."""
    return Finding(name, level, found) if level == "ok" else Finding(name, level, found, effect, fix)


def worst(findings: Iterable[Finding]) -> Level:
    return max((each.level for each in findings), key=LEVELS.index, default="ok")


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
        if these := [each for each in every if each.level == level]:
            parts.append("\n".join([HEADINGS[level], *(_lines(each, columns) for each in these)]))
    return "\n\n".join(parts)


def _lines(found: Finding, columns: int) -> str:
    lines = [("    ", f"  {found.name}: {found.found}")]
    lines += [(" " * 12, f"    effect: {found.effect}")] if found.effect else []
    lines += [(" " * 12, f"    fix:    {found.fix}")] if found.fix else []
    wrapped = [
        textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for indent, line in lines
    ]
    return "\n".join(wrapped)
