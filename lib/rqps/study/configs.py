"""A config: a named set of server options, which may extend another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rqps.study.perf_schema import PerfSchema, Scenario, scenario

NAME_PATTERN = r"^[A-Za-z0-9_-]+$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""Of a build, a config or a study. It becomes part of a folder's name, and `.` parts build from config."""


def _one_line(value: Any) -> Any:
    if value is None:
        raise ValueError("has no value; write one, '' for an empty text")
    if isinstance(value, list | dict):
        raise ValueError("an option has one value, not a list or a mapping")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError("an option's value is one line without control characters")
    return value


OptionValue = Annotated[bool | int | float | str, BeforeValidator(_one_line)]


class ConfigSpec(BaseModel):
    """Server options by the names of today; `extends` takes over those of another config."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, OptionValue] = Field(init=False)

    extends: Name | None = None
    """The config whose options this one takes over, where it says nothing else."""
    perf_schema: PerfSchema | None = None
    """What the performance schema records: a scenario by its name, or a set of one's own."""

    @property
    def options(self) -> Mapping[str, str | int | float | bool]:
        """As written: a key that ends in `?` is optional."""
        return self.model_extra or {}


@dataclass(frozen=True)
class Option:
    """One value that a config asks for; an optional one is left out where a version does not have it."""

    value: str | int | float | bool
    optional: bool = False


def option_name(key: str) -> str:
    """The server's variable that a key means.

    >>> option_name("innodb-flush-neighbors?")
    'innodb_flush_neighbors'
    """
    return key.removesuffix("?").replace("-", "_")


SWITCH = "performance_schema"
"""The option that a scenario decides."""


def resolve(configs: Mapping[str, ConfigSpec], name: str) -> dict[str, Option]:
    """All options of a config, those it takes over first."""
    options = _options(configs, name)
    asked = resolve_scenario(configs, name)
    if asked is None:
        return options
    without = {key: option for key, option in options.items() if key != SWITCH}
    return without if asked.kind == "compiled-out" else without | {SWITCH: Option(asked.kind == "on")}


def resolve_scenario(configs: Mapping[str, ConfigSpec], name: str) -> Scenario | None:
    """The scenario of the performance schema that a config asks for, or that the nearest one it extends does."""
    config = configs[name]
    if config.perf_schema is not None:
        return scenario(config.perf_schema)
    return resolve_scenario(configs, config.extends) if config.extends else None


def _options(configs: Mapping[str, ConfigSpec], name: str) -> dict[str, Option]:
    config = configs[name]
    inherited = _options(configs, config.extends) if config.extends else {}
    own = {option_name(key): Option(value, key.endswith("?")) for key, value in config.options.items()}
    return inherited | own
