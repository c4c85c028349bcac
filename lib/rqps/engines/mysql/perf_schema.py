"""Scenarios of the performance schema: patterns, valid for every version, of the instruments and consumers that are
on.

scenarios.yaml lists the named scenarios; instruments.yaml lists the kinds of instruments, each with its first
version.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema, model_validator

from rqps.engines import Option, Strict, Version, option_name, table
from rqps.errors import RqpsError, instead

KEY = "perf_schema"
SWITCH = "performance_schema"
"""The server option whose value follows from the scenario."""
ABOUT = "The scenario of the performance schema: a name, or your own set of instruments and consumers."
EVENTS = "events"
STATEMENTS = "questions"
MEMORY = "perf_schema/memory_bytes"
OFF, DISABLED, DEFAULT, ENABLED = "off", "all-disabled", "default", "all-enabled"
BASES: tuple[str, ...] = (OFF, DISABLED, DEFAULT)
ALWAYS_ON = ("global_instrumentation", "thread_instrumentation")
"""Consumers on which all others depend. If only these are on, the server counts events but stores none."""
_SUBJECTS = {
    DISABLED: "the performance schema with nothing enabled",
    DEFAULT: "the default instruments",
    ENABLED: "everything enabled",
    "mdl-only": "recording metadata locks",
    "memory-only": "recording memory",
    "stages-only": "recording stages",
    "statements-only": "recording statements",
    "transactions-only": "recording transactions",
    "waits-only": "recording waits",
    "stages-and-statements": "recording stages and statements",
    "statements-without-digests": "recording statements without digests",
}
BY_OPTION: Mapping[str, str] = {"OFF": OFF, "0": OFF, "ON": DEFAULT, "1": DEFAULT}
_WRITE_BELOW = {
    "performance_schema_instrument": 'instruments: {"wait/io/%": timed}',
    "performance_schema_consumer_": "consumers: {events_waits_current: on}",
}
_COUNTED = ("memory", "error")
"""Kinds of instruments that can count events, but not time them."""
Place = tuple[Any, ...]

Kind = Literal["on", "off", "compiled-out"]
State = Literal["timed", "counted", "off"]
"""The state of an instrument: enabled and timed, enabled but not timed, or disabled."""


@dataclass(frozen=True)
class Switch:
    """A pattern, in which % stands for anything, and the state of the instruments or consumers that fit it."""

    pattern: str
    state: State | bool
    optional: bool = False

    @property
    def on(self) -> bool:
        return self.state not in (False, "off")

    @property
    def words(self) -> str:
        state = {True: "on", False: "off"}[self.state] if isinstance(self.state, bool) else self.state
        return f"{self.pattern} {state}"


@dataclass(frozen=True)
class Scenario:
    """Switches that turn instruments and consumers on or off. Where no switch fits, the release's default applies."""

    name: str
    """The name in runs.yaml, such as `waits-only`; for a custom scenario, a short description."""
    kind: Kind
    release: bool
    """True if the scenario starts from the instruments that the release enables by default; False if from none."""
    instruments: tuple[Switch, ...] = ()
    consumers: tuple[Switch, ...] = ()

    def asked(self) -> dict[str, Any]:
        """The scenario as plain values, without its name: scenarios with equal values are the same."""
        asked: dict[str, Any] = {"kind": self.kind, "release": self.release}
        for kind, switches in (("instruments", self.instruments), ("consumers", self.consumers)):
            asked[kind] = {f"{switch.pattern}{'?' if switch.optional else ''}": switch.state for switch in switches}
        return asked


def fits(pattern: str, name: str) -> bool:
    """True if a name fits a pattern. Only % is special in a pattern: it stands for anything.

    >>> fits("wait/io/%", "wait/io/file/sql/binlog"), fits("stage/sql/_", "stage/sql/x")
    (True, False)
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("%"))), name, re.IGNORECASE) is not None


def decides(switches: Iterable[Switch], name: str) -> Switch | None:
    """The switch that decides on a name: the one with the longest pattern that fits; of equal lengths, the last one.

    >>> on, off = Switch("wait/%", "timed"), Switch("%", "off")
    >>> decides([on, off], "wait/io/file/sql/binlog") == on, decides([on, off], "idle") == off
    (True, True)
    """
    fitting = [switch for switch in switches if fits(switch.pattern, name)]
    return max(reversed(fitting), key=lambda switch: len(switch.pattern), default=None)


def unmatched(switches: Iterable[Switch], names: Iterable[str]) -> list[Switch]:
    known = list(names)
    return [switch for switch in switches if not any(fits(switch.pattern, name) for name in known)]


def merged(below: Iterable[Switch], above: Mapping[str, State | bool]) -> tuple[Switch, ...]:
    """Adds switches to `below`; a new switch replaces an old one with the same pattern."""
    new = {key.removesuffix("?"): Switch(key.removesuffix("?"), to, key.endswith("?")) for key, to in above.items()}
    return (*(switch for switch in below if switch.pattern not in new), *new.values())


_NOTHING = Scenario(
    name="",
    kind="on",
    release=False,
    instruments=(Switch("%", "off"),),
    consumers=(Switch("%", False), *(Switch(name, True, optional=True) for name in ALWAYS_ON)),
)
_STARTS = {
    "nothing": _NOTHING,
    "release": Scenario("", "on", release=True),
    "off": Scenario("", "off", release=False),
    "compiled-out": Scenario("", "compiled-out", release=False),
}


def _off_is_a_word(value: Any) -> Any:
    """Turns False back into the word off, which YAML reads as false."""
    return "off" if value is False else value


InstrumentState = Annotated[State, BeforeValidator(_off_is_a_word)]
Pattern = Annotated[str, Field(min_length=1)]


class ScenarioSpec(Strict):
    """A custom scenario. In its place, a config may give only the name of a scenario, which means the named scenario
    without changes."""

    extends: Annotated[str, Field(examples=["default"])] | None = None
    """The named scenario whose instruments and consumers are the starting point. If not given, all are off except the
    two consumers on which all others depend."""
    instruments: dict[Pattern, InstrumentState] = Field(default_factory=dict)
    """Maps patterns, in which % stands for anything, to timed, counted (enabled, not timed) or off. The longest
    pattern that fits decides; a pattern that ends in ? is left out for versions that have nothing that fits."""
    consumers: dict[Pattern, bool] = Field(default_factory=dict)
    """Maps patterns of consumers to on or off."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.extends is None and not self.instruments:
            raise ValueError("names no instruments; give some, or extend a scenario such as default")
        return self


@cache
def _named() -> dict[str, Scenario]:
    described = table(__package__, "scenarios").items()
    return {name: _extended(_STARTS[added.get("starts", "nothing")], name, added) for name, added in described}


def _extended(start: Scenario, name: str, added: Mapping[str, Mapping[str, State | bool]]) -> Scenario:
    instruments, consumers = (
        merged(below, added.get(kind, {}))
        for kind, below in (("instruments", start.instruments), ("consumers", start.consumers))
    )
    return replace(start, name=name, instruments=instruments, consumers=consumers)


def names() -> tuple[str, ...]:
    return tuple(_named())


def named(name: str) -> Scenario:
    """The scenario that scenarios.yaml describes under `name`.

    >>> named("waits-only").instruments[-1].words, named("off").kind
    ('wait/% timed', 'off')
    """
    if name not in _named():
        raise RqpsError(f"unknown scenario {name!r}; {instead(name, names(), 'scenarios')}")
    return _named()[name]


def subject_of(name: str) -> str:
    """The name of a scenario as the subject of a sentence.

    >>> subject_of("mdl-only"), subject_of("all-enabled")
    ('recording metadata locks', 'everything enabled')
    """
    return _SUBJECTS.get(name, f"recording {name}")


def scenario(spec: ScenarioSpec) -> Scenario:
    """The scenario that a config describes.

    >>> scenario(ScenarioSpec(extends="default", instruments={"wait/synch/%": "timed"})).name
    'default, wait/synch/% timed'
    """
    start = named(spec.extends) if spec.extends else _NOTHING
    own = (*merged((), spec.instruments), *merged((), spec.consumers))
    name = ", ".join([*([spec.extends] if spec.extends else []), *(switch.words for switch in own)])
    return _extended(start, name, {"instruments": spec.instruments, "consumers": spec.consumers})


def spelt_out(value: Any) -> Any:
    """Turns the name of a scenario, such as `off`, into the mapping `extends: off`. Returns a mapping unchanged."""
    if value is True:
        raise ValueError("on says too little; name a scenario, such as default or all-enabled")
    value = _off_is_a_word(value)
    return {"extends": value} if isinstance(value, str) else value


_Word = Annotated[str, WithJsonSchema({"enum": list(names())})]
PerfSchema = Annotated[
    ScenarioSpec, BeforeValidator(spelt_out, json_schema_input_type=_Word | Literal[False] | ScenarioSpec)
]
"""A scenario as a config in runs.yaml gives it: a name, such as `waits-only`, or a mapping."""
MODEL, SPEC = PerfSchema, ScenarioSpec


def read(value: Any) -> Scenario:
    """Rebuilds a scenario from its plain fields."""
    return TypeAdapter(Scenario).validate_python(value)


def decide(options: Mapping[str, Option], asked: Scenario) -> dict[str, Option]:
    """The options of a config, with `performance_schema` as the scenario needs it: on, off, or left out for builds
    that were compiled without it."""
    others = {name: option for name, option in options.items() if name != SWITCH}
    return others if asked.kind == "compiled-out" else others | {SWITCH: Option(asked.kind == "on")}


def split(events: Mapping[str, float], most: int) -> list[tuple[str, ...]]:
    """Divides a part for the next level. Each instrument becomes a part; if there are more than `most` instruments,
    each group of instruments whose names begin alike becomes a part. Empty for a single instrument.

    >>> split({"a/b/x": 1.0}, 2)
    []
    >>> split({"a/b/x": 3.0, "a/c/y": 1.0, "a/c/z": 1.0}, 2)
    [('a/b/x',), ('a/c/%',)]
    >>> split({"a/x": 3.0, "a/y": 2.0, "a/z": 1.0}, 2)
    [('a/x',), ('a/y', 'a/z')]
    """
    names = sorted(events, key=lambda name: -events[name])
    if len(names) <= most:
        return [(name,) for name in names] if len(names) > 1 else []
    columns = zip(*(name.split("/") for name in names), strict=False)
    depth = sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, columns))
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups["/".join(name.split("/")[: depth + 1])].append(name)
    order = sorted(groups, key=lambda start: -sum(events[name] for name in groups[start]))
    alone = order if len(order) <= most else order[: most - 1]
    parts = [tuple(groups[start]) if len(groups[start]) == 1 else (f"{start}/%",) for start in alone]
    rest = tuple(name for start in order[len(alone) :] for name in groups[start])
    return [*parts, rest] if rest else parts


def part(patterns: tuple[str, ...]) -> dict[str, Any]:
    """A custom scenario with only these instruments and the consumers for their kinds."""
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := class_of(pattern)))
    instruments = {pattern: "counted" if pattern.split("/")[0] in _COUNTED else "timed" for pattern in patterns}
    return {
        "instruments": instruments,
        "consumers": {name: True for kind in kinds for name in classes().instruments[kind].consumers},
    }


def problems(name: str, configs: Mapping[str, Any], chain: list[str]) -> Iterator[tuple[Place, str]]:
    """Mistakes in a config: in its scenario, or options that must be written as part of the scenario."""
    config = configs[name]
    decided = next((other for other in chain if configs[other].get(KEY) is not None), None)
    for key in config:
        option = option_name(key)
        if option == SWITCH and decided:
            where = "here" if decided == name else f"of {decided!r}, which this config extends,"
            yield (key,), f"the {KEY} {where} decides that; leave it out, or write {KEY}: off"
        for start, below in _WRITE_BELOW.items():
            if option.startswith(start):
                yield (key,), f"write it below {KEY}, as in {below}"
    asked = config.get(KEY)
    if asked is not True and isinstance(asked := spelt_out(asked), dict):
        yield from _of_a_set((KEY,), asked)


def _of_a_set(place: Place, asked: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    parent = asked.get("extends")
    if isinstance(parent, str):
        if parent not in names():
            yield place, f"unknown scenario {parent!r}; {instead(parent, names(), 'scenarios')}"
        elif named(parent).kind != "on" and len(asked) > 1:
            yield place, f"nothing can be added to {parent!r}, which records nothing; extend another"
    for kind in ("instruments", "consumers"):
        switches = asked.get(kind)
        if isinstance(switches, dict):
            for pattern, state in switches.items():
                yield from _of_a_pattern((*place, kind, pattern), pattern, state, switches)


def _of_a_pattern(place: Place, pattern: str, state: Any, others: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    plain = pattern.removesuffix("?")
    if plain != pattern and plain in others:
        yield place, f"says the same as {plain!r}; keep one"
    if "?" in plain or "*" in plain:
        yield place, "in a pattern only % stands for anything; a ? at its end leaves it out where nothing fits"
    if plain.startswith("thread/"):
        yield place, "threads are no instruments; all of them are watched, in every scenario"
    if state == "timed" and plain.split("/")[0] in _COUNTED:
        yield place, f"{plain.split('/')[0]} is counted, never timed; write counted"


class InstrumentClass(Strict):
    """A kind of instruments, known by the prefix of their names. instruments.yaml explains each field."""

    since: Version
    compiled: str
    built_in: bool = False
    loads: bool = False
    consumers: list[str] = Field(default_factory=list)


class ConsumerClass(Strict):
    since: Version
    parent: str | None = None


class Classes(Strict):
    of_kind: dict[str, list[str]]
    instruments: dict[str, InstrumentClass]
    consumers: dict[str, ConsumerClass]
    in_program: dict[str, list[str]]
    always: list[str]
    compile_time: dict[str, str]


@cache
def classes() -> Classes:
    """The content of instruments.yaml."""
    return Classes.model_validate(table(__package__, "instruments"))


def absent(version: str, scenario: Scenario) -> str | None:
    """The reason why a version can't have a scenario; None if its version number does not rule the scenario out.

    >>> absent("5.6.14", named("memory-only"))
    'MySQL 5.6.14 has no instruments memory/%; they came with 5.7'
    >>> absent("8.0.33", named("memory-only"))
    """
    for kind, switches in (("instruments", scenario.instruments), ("consumers", scenario.consumers)):
        on = [switch for switch in switches if switch.on]
        missing = [(switch, came) for switch in on if (came := later_than(version, switch, kind))]
        if needed := [(switch, came) for switch, came in missing if not switch.optional]:
            patterns = " and ".join(switch.pattern for switch, _ in needed)
            newest = max((came for _, came in needed), key=_numbers)
            return f"MySQL {version} has no {kind} {patterns}; they came with {newest}"
        if kind == "instruments" and missing and len(missing) == len(on):
            return f"MySQL {version} has none of its instruments"
    return None


def later_than(version: str, switch: Switch, kind: str) -> str | None:
    """The first release with an instrument or consumer that matches the pattern, if it is later than `version`."""
    known: Mapping[str, InstrumentClass | ConsumerClass]
    known = classes().instruments if kind == "instruments" else classes().consumers
    start = switch.pattern.split("%")[0]
    fitting = (name for name in known if name.startswith(start) or f"{start}/".startswith(f"{name}/"))
    came = min((known[name].since for name in fitting), key=_numbers, default=None)
    asked = _numbers(version)  # 9.7 may mean any release of the series 9.7, so only two numbers are then compared
    return came if came and _numbers(came)[: len(asked)] > asked else None


def class_of(name: str) -> str | None:
    """The kind to which an instrument belongs, or that a pattern of instruments means; None if a pattern means
    several kinds, or if there is no such kind.

    >>> class_of("wait/synch/mutex/sql/LOCK_open"), class_of("stage/%"), class_of("wait/%")
    ('wait/synch/mutex', 'stage', None)
    """
    start = name.split("%")[0]
    kinds = [kind for kind in classes().instruments if f"{start}/".startswith(f"{kind}/")]
    return max(kinds, key=len, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
