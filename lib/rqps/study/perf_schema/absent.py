"""What a version can't have, known by its number before any server is there."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rqps.study.perf_schema.scenario import Scenario, Switch

Version = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class InstrumentClass(_Strict):
    """A kind of instruments, known by how their names begin."""

    since: Version
    compiled: str
    """The option of CMake that leaves it out."""
    built_in: bool = False
    """Whether it is listed also by a build from which the code that it is for was left out."""
    loads: bool = False
    """Whether every load makes such events on its own connections."""
    consumers: list[str] = Field(default_factory=list)
    """What keeps single events of that kind."""


class ConsumerClass(_Strict):
    since: Version
    parent: str | None = None


class Classes(_Strict):
    of_kind: dict[str, list[str]]
    """Consumers, to be named by `instruments`."""
    instruments: dict[str, InstrumentClass]
    consumers: dict[str, ConsumerClass]
    always: list[str]
    """Patterns of instruments that can't be disabled."""
    compile_time: dict[str, str]
    """Instruments that no usual build has, and why."""


@cache
def classes() -> Classes:
    """What classes.yaml says."""
    return Classes.model_validate(yaml.safe_load((files(__package__) / "classes.yaml").read_text()))


def absent(version: str, scenario: Scenario) -> str | None:
    """Why a version does not have a scenario; None if it does, or as far as can be told by its number.

    >>> from rqps.study.perf_schema.spec import named
    >>> absent("5.6.14", named("memory-only"))
    'MySQL 5.6.14 has no instruments memory/%; they came with 5.7'
    >>> absent("8.0.33", named("memory-only"))
    """
    for kind, switches in (("instruments", scenario.instruments), ("consumers", scenario.consumers)):
        missing = _missing(version, switches, kind)
        if needed := [(switch, came) for switch, came in missing if not switch.optional]:
            return _reason(version, kind, needed)
        if kind == "instruments" and missing and len(missing) == sum(switch.on for switch in switches):
            return f"MySQL {version} has none of its instruments"
    return None


def later_than(version: str, switch: Switch, kind: str) -> str | None:
    """The release that first had something that a pattern for `instruments` or `consumers` fits, if that is later."""
    known = classes().instruments if kind == "instruments" else classes().consumers
    came = _came_with(switch.pattern, {name: each.since for name, each in known.items()})
    asked = _numbers(version)  # of 9.7 nobody knows which 9.7 it is
    return came if came and _numbers(came)[: len(asked)] > asked else None


def _missing(version: str, switches: Iterable[Switch], kind: str) -> list[tuple[Switch, str]]:
    """What is asked for and came later than this version, with the version that it came with."""
    asked = [(switch, later_than(version, switch, kind)) for switch in switches if switch.on]
    return [(switch, came) for switch, came in asked if came]


def _reason(version: str, kind: str, missing: list[tuple[Switch, str]]) -> str:
    came = max((came for _, came in missing), key=_numbers)
    patterns = " and ".join(switch.pattern for switch, _ in missing)
    return f"MySQL {version} has no {kind} {patterns}; they came with {came}"


def class_of(name: str) -> str | None:
    """The kind of instruments that one belongs to, or that a pattern asks for; None where that is several or none.

    >>> class_of("wait/synch/mutex/sql/LOCK_open"), class_of("stage/%"), class_of("wait/%")
    ('wait/synch/mutex', 'stage', None)
    """
    start = name.split("%")[0]
    found = [each for each in classes().instruments if f"{start}/".startswith(f"{each}/")]
    return max(found, key=len, default=None)


def _came_with(pattern: str, since: dict[str, str]) -> str | None:
    """The first release with something that can fit; None where nobody knows anything that does."""
    start = pattern.split("%")[0]
    fitting = [came for name, came in since.items() if name.startswith(start) or f"{start}/".startswith(f"{name}/")]
    return min(fitting, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    """
    >>> _numbers("8.0.28") > _numbers("8.0"), _numbers("9.7.4") >= _numbers("8.0.28")
    (True, True)
    """
    return tuple(map(int, version.split(".")))
