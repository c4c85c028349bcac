"""Components of the server: tables that people keep by hand, and the component that a function's cost belongs to.

A stack's cost belongs to the component of the frame nearest to its end that has one: memcpy has none, so it counts
for the function that called it, and the kernel's work is the kernel's, whoever called it.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rqps.errors import RqpsError

KERNEL_MARK = "_[k]"
"""Behind the name of a kernel's function: its mutex_lock is not the server's."""
OTHER = "other"

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_Claims = tuple[str | None, str | None]
"""The nearest one, and the nearest of last resort."""
_Path = tuple[_Claims, _Claims]
"""The claims of the server's frames, and those of the kernel's."""
_NOBODY: _Path = ((None, None), (None, None))


class Renames(BaseModel):
    """Today's names with the older ones, and the functions that are left out so that releases meet."""

    model_config = _STRICT

    functions: dict[str, list[str]]
    classes: dict[str, list[str]]
    starts: list[str]
    layers: list[str]
    passed: list[str]

    @cached_property
    def new_name(self) -> dict[str, str]:
        """Today's name by each older name of a function."""
        return _turned(self.functions, "functions")

    @cached_property
    def new_class(self) -> dict[str, str]:
        return _turned(self.classes, "classes")


class Component(BaseModel):
    """A part of the server, as a reader knows it, and the names of what belongs to it: `*` stands for anything."""

    model_config = _STRICT

    name: str
    server: list[str] = Field(default_factory=list)
    library: list[str] = Field(default_factory=list)
    kernel: list[str] = Field(default_factory=list)
    last_resort: bool = False
    """Takes only what no other component claims in all of a stack."""


@cache
def renames() -> Renames:
    """The table in renames.yaml; functions that were renamed alike are among the others, one by one."""
    table = _read("renames.yaml")
    for each in table.pop("alike"):
        for word in each["words"]:
            older = table["functions"].setdefault(each["now"].replace("*", word), [])
            older.append(each["before"].replace("*", word))
    return Renames.model_validate(table)


@cache
def components() -> tuple[Component, ...]:
    """The table in components.yaml, in the order in which a reader meets them on the way down."""
    return tuple(Component.model_validate(row) for row in _read("components.yaml"))


class Patterns:
    """Names with `*` for anything, and the meaning of each; the pattern with most letters wins."""

    def __init__(self, meanings: Iterable[tuple[str, str]]) -> None:
        known: dict[str, str] = {}
        for pattern, meaning in meanings:
            if pattern in known:
                both = f"{known[pattern]!r} and in {meaning!r}"
                raise RqpsError(f"components.yaml: {pattern} is in {both}", fix="keep one of the two")
            known[pattern] = meaning

        def rank(pattern: str) -> tuple[int, int]:  # of as many letters: a whole name, a beginning, any other
            star = pattern.find("*")
            return -len(pattern.replace("*", "")), 0 if star < 0 else 1 if star == len(pattern) - 1 else 2

        ordered = sorted(known, key=rank)
        self._meanings = [known[pattern] for pattern in ordered]
        each = (f"({'.*'.join(map(re.escape, pattern.split('*')))})" for pattern in ordered)
        self._pattern = re.compile("|".join(each), re.DOTALL)

    def find(self, name: str) -> str | None:
        """The meaning of a name, if any pattern is like it."""
        found = self._pattern.fullmatch(name)
        return self._meanings[found.lastindex - 1] if found and found.lastindex else None


@cache
def claim(name: str, last_resort: bool = False) -> str | None:
    """The component that a readable name belongs to, if it has one; or that of last resort, where no other is known.

    >>> claim("btr_cur_search_to_nth_level"), claim("memcpy"), claim("tcp_sendmsg_[k]"), claim("memcpy", True)
    ('InnoDB B-tree', None, 'kernel: network', 'libraries')
    """
    server, kernel = _patterns(last_resort)
    return kernel.find(name.removesuffix(KERNEL_MARK)) if name.endswith(KERNEL_MARK) else server.find(name)


def component_of(stack: Sequence[str]) -> str:
    """The component of a stack of readable names, root first.

    >>> component_of(["connection", "row_search_mvcc", "row_sel_store_mysql_rec", "memcpy"])
    'InnoDB rows and versions'
    >>> component_of(["connection", "net_write_packet", "do_syscall_64_[k]"])
    'kernel: rest'
    """
    return components_of_frames([None, *range(len(stack))], ["", *stack])[-1]


def components_of_frames(parents: Sequence[int | None], names: Sequence[str]) -> list[str]:
    """The component of the path to each frame of a tree; callers stand before callees, the root first.

    Each frame inherits from its callers what it does not claim itself.
    """
    paths: list[_Path] = [_NOBODY]
    found = [OTHER]
    known: dict[tuple[_Path, str], tuple[_Path, str]] = {}  # the same steps are taken over and over
    for parent, name in zip(parents[1:], names[1:], strict=True):
        step = (paths[parent or 0], name)
        if step not in known:
            known[step] = _one_further(*step)
        path, component = known[step]
        paths.append(path)
        found.append(component)
    return found


def _one_further(path: _Path, name: str) -> tuple[_Path, str]:
    server, kernel = path
    in_kernel = name.endswith(KERNEL_MARK)
    claimed, at_last = kernel if in_kernel else server
    mine = (claim(name) or claimed, claim(name, True) or at_last)
    return (server, mine) if in_kernel else (mine, kernel), mine[0] or mine[1] or OTHER


@cache
def _patterns(last_resort: bool) -> tuple[Patterns, Patterns]:
    rows = [row for row in components() if row.last_resort == last_resort]
    return (
        Patterns((pattern, row.name) for row in rows for pattern in (*row.server, *row.library)),
        Patterns((pattern, row.name) for row in rows for pattern in row.kernel),
    )


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
