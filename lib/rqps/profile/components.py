"""Components of an engine: tables that people keep by hand, and the component that a function's cost belongs to.

Each engine has its own tables, `components` and `renames`; the kernel and the libraries below are the same for all.

A stack's cost belongs to the component of the frame nearest to its end that has one: memcpy has none, so it counts
for the function that called it, and the kernel's work is the kernel's, whoever called it.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import polars as pl

from rqps.engines import ENGINES, facts_of, table

KERNEL_MARK = "_[k]"
"""Behind the name of a kernel's function: its mutex_lock is not the server's."""
OTHER = "other"
_LAYERS: dict[str, Any] = dict.fromkeys(("engine", "component", "layer"), pl.String)


class Renames(NamedTuple):
    """Today's names by the older ones, and the functions that are left out so that releases meet."""

    new_name: dict[str, str]
    new_class: dict[str, str]
    starts: list[str]
    layers: list[str]
    passed: list[str]


class Component(NamedTuple):
    """A part of the server, as a reader knows it, and the names of what belongs to it: `*` stands for anything."""

    name: str
    colour: str
    """In all reports: the first layer blue, the storage green, the kernel yellow and brown."""
    server: Sequence[str] = ()
    library: Sequence[str] = ()
    kernel: Sequence[str] = ()
    layer: str = "SQL layer"
    """The part of the server that a reader asks for first."""
    last_resort: bool = False
    """Takes only what no other component claims in all of a stack."""


@cache
def renames(engine: str) -> Renames:
    """The table `renames` of an engine; functions that were renamed alike are among the others, one by one."""
    table = facts_of(engine).table("renames")
    if table is None:
        return Renames({}, {}, [], [], [])
    new_name, new_class = (
        {old: now for now, before in table[kind].items() for old in before} for kind in ("functions", "classes")
    )
    for alike in table["alike"]:
        new_name |= {alike["before"].replace("*", word): alike["now"].replace("*", word) for word in alike["words"]}
    return Renames(new_name, new_class, table["starts"], table["layers"], table["passed"])


def in_layers(costs: pl.DataFrame) -> pl.DataFrame:
    """Costs with the layer of each component in its place."""
    rows = [
        (engine, component.name, component.layer)
        for engine in costs["engine"].unique().sort()
        for component in components(engine)
    ]
    known = pl.DataFrame(rows, schema=_LAYERS, orient="row").unique()  # a component may have several entries
    beside = costs.join(known, on=["engine", "component"], how="left", maintain_order="left")
    return beside.with_columns(component=pl.coalesce("layer", "component")).drop("layer")


@cache
def components(engine: str) -> tuple[Component, ...]:
    """The components of an engine, then those of kernel and libraries, in the order of a reader on the way down."""
    rows = (*(facts_of(engine).table("components") or ()), *table(__package__, "components"))
    return tuple(Component(**row) for row in rows)


@cache
def component_colours() -> dict[str, str]:
    return {component.name: component.colour for engine in ENGINES for component in components(engine)}


class Patterns:
    """Names with `*` for anything, and the meaning of each; the pattern with most letters wins."""

    def __init__(self, meanings: Iterable[tuple[str, str]]) -> None:
        known = dict(meanings)

        def rank(pattern: str) -> tuple[int, int]:  # of as many letters: a whole name, a beginning, any other
            star = pattern.find("*")
            return -len(pattern.replace("*", "")), 0 if star < 0 else 1 if star == len(pattern) - 1 else 2

        ordered = sorted(known, key=rank)
        self._meanings = [known[pattern] for pattern in ordered]
        groups = (f"({'.*'.join(map(re.escape, pattern.split('*')))})" for pattern in ordered)
        self._pattern = re.compile("|".join(groups), re.DOTALL)

    def find(self, name: str) -> str | None:
        """The meaning of a name, if any pattern is like it."""
        match = self._pattern.fullmatch(name)
        return self._meanings[match.lastindex - 1] if match and match.lastindex else None


@cache
def claim(engine: str, name: str, last_resort: bool = False) -> str | None:
    """The component that a readable name belongs to, if it has one; or that of last resort, where no other is known.

    >>> one = ENGINES[0]
    >>> claim(one, "memcpy"), claim(one, "tcp_sendmsg_[k]"), claim(one, "memcpy", True)
    (None, 'kernel: network', 'libraries')
    """
    server, kernel = _patterns(engine, last_resort)
    return kernel.find(name.removesuffix(KERNEL_MARK)) if name.endswith(KERNEL_MARK) else server.find(name)


def component_of(engine: str, stack: Sequence[str]) -> str:
    """The component of a stack of readable names, root first.

    >>> component_of(ENGINES[0], ["connection", "write", "do_syscall_64_[k]"])
    'kernel: rest'
    """
    if not stack:
        return OTHER
    in_kernel = stack[-1].endswith(KERNEL_MARK)
    nearest_first = [name for name in reversed(stack) if name.endswith(KERNEL_MARK) == in_kernel]
    claims = (claim(engine, name, last_resort) for last_resort in (False, True) for name in nearest_first)
    return next(filter(None, claims), OTHER)


@cache
def _patterns(engine: str, last_resort: bool) -> tuple[Patterns, Patterns]:
    rows = [row for row in components(engine) if row.last_resort == last_resort]
    return (
        Patterns((pattern, row.name) for row in rows for pattern in (*row.server, *row.library)),
        Patterns((pattern, row.name) for row in rows for pattern in row.kernel),
    )
