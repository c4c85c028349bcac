"""How a config says which scenario of the performance schema it wants, and the scenarios that have a name."""

from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from rqps.errors import RqpsError
from rqps.study.perf_schema.scenario import Kind, Scenario, State, Switch, merged
from rqps.study.problems import instead

_NOTHING = (Switch("%", "off"),)
_NO_CONSUMERS = (
    Switch("%", False),
    # All others hang on these two. They record nothing by themselves.
    Switch("global_instrumentation", True, optional=True),
    Switch("thread_instrumentation", True, optional=True),
)


def _off_is_a_word(value: Any) -> Any:
    """YAML reads off as false."""
    return "off" if value is False else value


InstrumentState = Annotated[Literal["timed", "counted", "off"], BeforeValidator(_off_is_a_word)]
Pattern = Annotated[str, Field(min_length=1)]


class ScenarioSpec(BaseModel):
    """A set of one's own. A named scenario is one that extends it and says nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

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


class _Named(BaseModel):
    """One of scenarios.yaml."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    says: str
    starts: Literal["nothing", "release", "off", "compiled-out"] = "nothing"
    instruments: dict[str, State] = Field(default_factory=dict)
    consumers: dict[str, bool] = Field(default_factory=dict)


@cache
def _named() -> dict[str, _Named]:
    described = yaml.safe_load((files(__package__) / "scenarios.yaml").read_text())
    return {name: _Named.model_validate(each) for name, each in described.items()}


def names() -> tuple[str, ...]:
    """The scenarios that have a name."""
    return tuple(_named())


def says(name: str) -> str:
    """A named scenario in a sentence; nothing for a set of one's own."""
    return _named()[name].says if name in _named() else ""


def named(name: str) -> Scenario:
    """A scenario by its name.

    >>> named("waits-only").instruments[-1].words, named("off").kind
    ('wait/% timed', 'off')
    """
    if name not in _named():
        raise RqpsError(f"unknown scenario {name!r}; {instead(name, names(), 'scenarios')}")
    found = _named()[name]
    kind: Kind = "compiled-out" if found.starts == "compiled-out" else "off" if found.starts == "off" else "on"
    from_nothing = found.starts == "nothing"
    return Scenario(
        name=name,
        kind=kind,
        release=found.starts == "release",
        instruments=merged(_NOTHING if from_nothing else (), found.instruments),
        consumers=merged(_NO_CONSUMERS if from_nothing else (), found.consumers),
    )


def scenario(spec: ScenarioSpec) -> Scenario:
    """What a config's own words ask for.

    >>> scenario(ScenarioSpec(extends="default", instruments={"wait/synch/%": "timed"})).name
    'default, wait/synch/% timed'
    """
    start = named(spec.extends) if spec.extends else Scenario("", "on", False, _NOTHING, _NO_CONSUMERS)
    own = (*merged((), spec.instruments), *merged((), spec.consumers))
    return Scenario(
        name=", ".join([*([spec.extends] if spec.extends else []), *(each.words for each in own)]),
        kind=start.kind,
        release=start.release,
        instruments=merged(start.instruments, spec.instruments),
        consumers=merged(start.consumers, spec.consumers),
    )


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
"""As a config has it: `waits-only`, or a mapping."""
