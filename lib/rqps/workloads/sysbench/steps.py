"""The steps as they are described in steps.yaml."""

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class Step:
    """One measured thing: a Lua script, its options, and how its result is to be read."""

    name: str
    does: str
    script: str
    unit: str
    per_transaction: int
    options: dict[str, str | int] = field(default_factory=dict)
    writes: bool = False
    explain: str | None = None
    index: str | None = None


@cache
def all_steps() -> dict[str, Step]:
    """Every step by name, in the order in which a run does them."""
    text = (files(__package__) / "steps.yaml").read_text()
    return {name: Step(name=name, **described) for name, described in yaml.safe_load(text).items()}
