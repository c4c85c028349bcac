"""A scenario of the performance schema: what is on, in patterns that hold for every version."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["on", "off", "compiled-out"]
State = Literal["timed", "counted", "off"]
"""Of an instrument: enabled and timed, enabled, or neither."""


@dataclass(frozen=True)
class Switch:
    """A pattern, in which % stands for anything, and what those that fit it are set to."""

    pattern: str
    state: State | bool
    optional: bool = False
    """Left out where a version has nothing that fits."""

    @property
    def on(self) -> bool:
        return self.state not in (False, "off")

    @property
    def words(self) -> str:
        state = {True: "on", False: "off"}[self.state] if isinstance(self.state, bool) else self.state
        return f"{self.pattern} {state}"


@dataclass(frozen=True)
class Scenario:
    """Which instruments and consumers are on: as the release has them where no switch says otherwise, else off."""

    name: str
    """As runs.yaml has it: `waits-only`; a set of one's own is described in short."""
    kind: Kind
    release: bool
    """Whether it begins with what the release enables, and not with nothing."""
    instruments: tuple[Switch, ...] = ()
    consumers: tuple[Switch, ...] = ()

    def asked(self) -> dict[str, Any]:
        """What it stands for, without its name: two scenarios that ask for the same are the same."""
        return {
            "kind": self.kind,
            "release": self.release,
            "instruments": _plain(self.instruments),
            "consumers": _plain(self.consumers),
        }


def _plain(switches: Iterable[Switch]) -> dict[str, str | bool]:
    return {f"{each.pattern}{'?' if each.optional else ''}": each.state for each in switches}


def fits(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern, in which only % stands for anything else than itself.

    >>> fits("wait/io/%", "wait/io/file/sql/binlog"), fits("stage/sql/_", "stage/sql/x")
    (True, False)
    """
    parts = (re.escape(part) for part in pattern.split("%"))
    return re.fullmatch(".*".join(parts), name, re.IGNORECASE) is not None


def decides(switches: Iterable[Switch], name: str) -> Switch | None:
    """The switch that decides on a name: of those that fit, the one with the longest pattern, else the last.

    >>> on, off = Switch("wait/%", "timed"), Switch("%", "off")
    >>> decides([on, off], "wait/io/file/sql/binlog") == on, decides([on, off], "idle") == off
    (True, True)
    """
    found: Switch | None = None
    for each in switches:
        if fits(each.pattern, name) and (found is None or len(each.pattern) >= len(found.pattern)):
            found = each
    return found


def unmatched(switches: Iterable[Switch], names: Iterable[str]) -> list[Switch]:
    """The switches that fit none of the names."""
    there = list(names)
    return [each for each in switches if not any(fits(each.pattern, name) for name in there)]


def merged(below: Iterable[Switch], above: Mapping[str, State | bool]) -> tuple[Switch, ...]:
    """Switches with further ones: what is said anew of the same pattern takes the place of what was said."""
    new = {key.removesuffix("?"): Switch(key.removesuffix("?"), to, key.endswith("?")) for key, to in above.items()}
    return (*(each for each in below if each.pattern not in new), *new.values())
