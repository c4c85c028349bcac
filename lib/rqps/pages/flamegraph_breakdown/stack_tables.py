"""The tables that people keep: what functions were called before, and which component a function belongs to."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rqps.errors import RqpsError

KERNEL_MARK = "_[k]"
"""Behind the name of a kernel's function: its mutex_lock is not the server's."""
OTHER = "other"

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class Renames(BaseModel):
    """Today's names with the older ones, and the functions that are left out so that releases meet."""

    model_config = _STRICT

    functions: dict[str, list[str]]
    classes: dict[str, list[str]]
    starts: list[str]
    layers: list[str]
    passed: list[str]

    def new_name(self) -> dict[str, str]:
        """Of each older name of a function, today's."""
        return _turned(self.functions, "functions")

    def new_class(self) -> dict[str, str]:
        """Of each older name of a class, today's."""
        return _turned(self.classes, "classes")


class Component(BaseModel):
    """A part of the server, as a reader knows it, and the names of what belongs to it: `*` stands for anything."""

    model_config = _STRICT

    name: str
    what: str
    server: list[str] = Field(default_factory=list)
    library: list[str] = Field(default_factory=list)
    kernel: list[str] = Field(default_factory=list)
    last_resort: bool = False
    """Takes only what no other component claims in all of a stack."""


@cache
def renames() -> Renames:
    """The table in renames.yaml."""
    return Renames.model_validate(_read("renames.yaml"))


@cache
def components() -> tuple[Component, ...]:
    """The table in components.yaml, in the order in which a reader meets them on the way down."""
    return tuple(Component.model_validate(row) for row in _read("components.yaml"))


def _read(name: str) -> Any:
    return yaml.safe_load(files("rqps.profile").joinpath(name).read_text(encoding="utf-8"))


def _turned(names: dict[str, list[str]], key: str) -> dict[str, str]:
    turned: dict[str, str] = {}
    for now, before in names.items():
        for old in before:
            if old in turned or old in names:
                other = turned.get(old, old)
                raise RqpsError(
                    f"renames.yaml: {key}: {old} became both {now} and {other}", fix="keep one of the two"
                )
            turned[old] = now
    return turned


class Patterns:
    """Names with `*` in them, and what each stands for; the one with most letters wins."""

    def __init__(self, meanings: Iterable[tuple[str, str]]) -> None:
        self._whole: dict[str, str] = {}
        self._starts: dict[str, str] = {}
        self._others: list[tuple[list[str], str]] = []
        seen: dict[str, str] = {}
        for pattern, meaning in meanings:
            if pattern in seen:
                both = f"{seen[pattern]!r} and in {meaning!r}"
                raise RqpsError(f"components.yaml: {pattern} is in {both}", fix="keep one of the two")
            seen[pattern] = meaning
            if "*" not in pattern:
                self._whole[pattern] = meaning
            elif pattern.index("*") == len(pattern) - 1:
                self._starts[pattern[:-1]] = meaning
            else:
                self._others.append((pattern.split("*"), meaning))
        self._lengths = sorted({len(start) for start in self._starts}, reverse=True)

    def find(self, name: str) -> str | None:
        """What the name stands for, if any pattern is like it."""
        if name in self._whole:
            return self._whole[name]
        lengths = (each for each in self._lengths if each <= len(name) and name[:each] in self._starts)
        length = next(lengths, None)
        found = None if length is None else self._starts[name[:length]]
        for parts, meaning in self._others:
            letters = sum(map(len, parts))
            if (length is None or letters > length) and _like(name, parts):
                length, found = letters, meaning
        return found


def _like(name: str, parts: list[str]) -> bool:
    first, *middle, last = parts
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
