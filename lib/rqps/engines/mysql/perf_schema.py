"""Scenarios of the performance schema: the instruments and consumers that are on, in patterns for every version.

Those with a name are in scenarios.yaml; the kinds of instruments, each with its first version, in instruments.yaml.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema, model_validator

from rqps.engines import Option, Strict, Version, option_name, table
from rqps.errors import RqpsError, instead

KEY = "perf_schema"
SWITCH = "performance_schema"
"""The option that a scenario decides."""
ABOUT = "The scenario of the performance schema: one by its name, or a set of one's own."
STATUS = "perf_schema/"
STATEMENTS = "questions"
MEMORY = "perf_schema/memory_bytes"
OFF, DISABLED, DEFAULT, ENABLED = "off", "all-disabled", "default", "all-enabled"
BASES: tuple[str, ...] = (OFF, DISABLED, DEFAULT)
BY_OPTION: Mapping[str, str] = {"OFF": OFF, "0": OFF, "ON": DEFAULT, "1": DEFAULT}
_WRITE_BELOW = {
    "performance_schema_instrument": 'instruments: {"wait/io/%": timed}',
    "performance_schema_consumer_": "consumers: {events_waits_current: on}",
}
_COUNTED = ("memory", "error")
"""Kinds of instruments that count, and have no times."""
Place = tuple[Any, ...]

Kind = Literal["on", "off", "compiled-out"]
State = Literal["timed", "counted", "off"]
"""An instrument's: enabled and timed, enabled, or neither."""


@dataclass(frozen=True)
class Switch:
    """A pattern, in which % stands for anything, and the state of those that fit it."""

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
    """The instruments and consumers that are on: those of the release where no switch says otherwise, or none."""

    name: str
    """As runs.yaml has it: `waits-only`; a set of one's own is described in short."""
    kind: Kind
    release: bool
    """True if it starts from the instruments that the release enables by default; False if it starts from none."""
    instruments: tuple[Switch, ...] = ()
    consumers: tuple[Switch, ...] = ()

    def asked(self) -> dict[str, Any]:
        """All of it but its name: two scenarios that ask for the same are the same."""
        asked: dict[str, Any] = {"kind": self.kind, "release": self.release}
        for kind, switches in (("instruments", self.instruments), ("consumers", self.consumers)):
            asked[kind] = {f"{switch.pattern}{'?' if switch.optional else ''}": switch.state for switch in switches}
        return asked


def fits(pattern: str, name: str) -> bool:
    """True if a name fits a pattern, in which only % stands for anything else than itself.

    >>> fits("wait/io/%", "wait/io/file/sql/binlog"), fits("stage/sql/_", "stage/sql/x")
    (True, False)
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("%"))), name, re.IGNORECASE) is not None


def decides(switches: Iterable[Switch], name: str) -> Switch | None:
    """The switch that decides on a name: of those that fit, the one with the longest pattern, else the last.

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
    """Switches with further ones: a new one of the same pattern takes the place of the old one."""
    new = {key.removesuffix("?"): Switch(key.removesuffix("?"), to, key.endswith("?")) for key, to in above.items()}
    return (*(switch for switch in below if switch.pattern not in new), *new.values())


_NOTHING = Scenario(
    name="",
    kind="on",
    release=False,
    instruments=(Switch("%", "off"),),
    consumers=(
        Switch("%", False),
        # All others hang on these two. They record nothing by themselves.
        Switch("global_instrumentation", True, optional=True),
        Switch("thread_instrumentation", True, optional=True),
    ),
)
_STARTS = {
    "nothing": _NOTHING,
    "release": Scenario("", "on", release=True),
    "off": Scenario("", "off", release=False),
    "compiled-out": Scenario("", "compiled-out", release=False),
}


def _off_is_a_word(value: Any) -> Any:
    """YAML reads off as false."""
    return "off" if value is False else value


InstrumentState = Annotated[State, BeforeValidator(_off_is_a_word)]
Pattern = Annotated[str, Field(min_length=1)]


class ScenarioSpec(Strict):
    """A set of one's own. A named scenario is one that extends it and says nothing else."""

    extends: Annotated[str, Field(examples=["default"])] | None = None
    """The named scenario whose instruments and consumers this one takes over; if not given, all are off, but the two
    consumers that all others hang on."""
    instruments: dict[Pattern, InstrumentState] = Field(default_factory=dict)
    """Patterns, in which % stands for anything, with timed, counted (enabled, not timed) or off. The longest that
    fits decides; one that ends in ? is left out where a version has nothing that fits."""
    consumers: dict[Pattern, bool] = Field(default_factory=dict)
    """Patterns with on or off."""

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
    """A scenario by its name.

    >>> named("waits-only").instruments[-1].words, named("off").kind
    ('wait/% timed', 'off')
    """
    if name not in _named():
        raise RqpsError(f"unknown scenario {name!r}; {instead(name, names(), 'scenarios')}")
    return _named()[name]


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
    """A name on its own is a scenario that extends it; `off` is one of them."""
    if value is True:
        raise ValueError("on says too little; name a scenario, such as default or all-enabled")
    value = _off_is_a_word(value)
    return {"extends": value} if isinstance(value, str) else value


_Word = Annotated[str, WithJsonSchema({"enum": list(names())})]
PerfSchema = Annotated[
    ScenarioSpec,
    BeforeValidator(spelt_out, json_schema_input_type=_Word | Literal[False] | ScenarioSpec),
]
"""A scenario as a config in runs.yaml writes it: by its name, `waits-only`, or as a mapping."""
MODEL, SPEC = PerfSchema, ScenarioSpec


def read(value: Any) -> Scenario:
    """A scenario out of its plain fields."""
    return TypeAdapter(Scenario).validate_python(value)


def decide(options: Mapping[str, Option], asked: Scenario) -> dict[str, Option]:
    """The options of a config with this scenario: the switch is the scenario's."""
    others = {name: option for name, option in options.items() if name != SWITCH}
    return others if asked.kind == "compiled-out" else others | {SWITCH: Option(asked.kind == "on")}


def part(patterns: tuple[str, ...]) -> dict[str, Any]:
    """A set of these instruments, with the consumers of their kinds."""
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := class_of(pattern)))
    instruments = {pattern: "counted" if pattern.split("/")[0] in _COUNTED else "timed" for pattern in patterns}
    return {
        "instruments": instruments,
        "consumers": {name: True for kind in kinds for name in classes().instruments[kind].consumers},
    }


def problems(name: str, configs: Mapping[str, Any], chain: list[str]) -> Iterator[tuple[Place, str]]:
    """Mistakes in a config's scenario, and options that a scenario decides."""
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
    """A kind of instruments, known by the beginning of their names; instruments.yaml says what each field means."""

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
    always: list[str]
    compile_time: dict[str, str]


@cache
def classes() -> Classes:
    """All that instruments.yaml lists."""
    return Classes.model_validate(table(__package__, "instruments"))


def absent(version: str, scenario: Scenario) -> str | None:
    """The reason why a version does not have a scenario; None if it has, as far as its number shows.

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
    asked = _numbers(version)  # of 9.7 nobody knows which 9.7 it is
    return came if came and _numbers(came)[: len(asked)] > asked else None


def class_of(name: str) -> str | None:
    """The kind of instruments that one belongs to, or that a pattern asks for; None where that is several or none.

    >>> class_of("wait/synch/mutex/sql/LOCK_open"), class_of("stage/%"), class_of("wait/%")
    ('wait/synch/mutex', 'stage', None)
    """
    start = name.split("%")[0]
    kinds = [kind for kind in classes().instruments if f"{start}/".startswith(f"{kind}/")]
    return max(kinds, key=len, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
