"""What the doctor found about one thing."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warn", "bad"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warn", "bad")
"""From nothing to do, over numbers that are worse than they need be, to none that mean anything."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found, what it does to the numbers, how to fix it."""

    name: str
    level: Level
    found: str
    effect: str = ""
    fix: str = ""
