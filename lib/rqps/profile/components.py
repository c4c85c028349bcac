"""Components of an engine: tables that are kept by hand, and the component that a function's cost belongs to.

Each engine has its own tables, `components` and `renames`; all engines share the components of kernel and libraries.

A stack's cost belongs to the component of the innermost frame that has one: memcpy has none, so its cost counts for
the function that called it. The cost of kernel functions belongs to components of the kernel, whoever called them.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import polars as pl

from rqps.engines import ENGINES, facts_of, table

KERNEL_MARK = "_[k]"
"""Suffix of the names of kernel functions: the kernel's mutex_lock is not the server's."""
INLINED_MARK = "_[i]"
"""Suffix of the names of inlined functions, as other programs for flame graphs write it."""
OTHER = "other"
_LAYERS: dict[str, Any] = dict.fromkeys(("engine", "component", "layer"), pl.String)


class Renames(NamedTuple):
    """Maps older function names to the current ones, and lists the functions that are left out, so that profiles of
    two releases can be compared function by function."""

    new_name: dict[str, str]
    new_class: dict[str, str]
    starts: list[str]
    layers: list[str]
    passed: list[str]


class Component(NamedTuple):
    """A part of the server, as readers know it, and patterns of its functions' names: `*` matches anything."""

    name: str
    colour: str
    """The colour in all reports: blue for the first layer, green for storage, yellow and brown for the kernel."""
    server: Sequence[str] = ()
    library: Sequence[str] = ()
    kernel: Sequence[str] = ()
    layer: str = "SQL layer"
    """The larger part of the server to which the component belongs."""
    last_resort: bool = False
    """True if the component gets only stacks in which no other component claims any frame."""


@cache
def renames(engine: str) -> Renames:
    """The table `renames` of an engine. If the table has one entry for many functions that were renamed in the same
    way, such as `log_*` to `redo_*`, the result has one entry per function."""
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
    """Costs with each component replaced by its layer."""
    rows = [
        (engine, component.name, component.layer)
        for engine in costs["engine"].unique().sort()
        for component in components(engine)
    ]
    # A component may have several entries in the table, so repetitions are dropped.
    known = pl.DataFrame(rows, schema=_LAYERS, orient="row").unique()
    beside = costs.join(known, on=["engine", "component"], how="left", maintain_order="left")
    return beside.with_columns(component=pl.coalesce("layer", "component")).drop("layer")


@cache
def components(engine: str) -> tuple[Component, ...]:
    """The components of an engine, then those of kernel and libraries, from the upper layers to the lower ones."""
    rows = (*(facts_of(engine).table("components") or ()), *table(__package__, "components"))
    return tuple(Component(**row) for row in rows)


@cache
def component_colours() -> dict[str, str]:
    return {component.name: component.colour for engine in ENGINES for component in components(engine)}


class Patterns:
    """Looks up the component, or the kind of wait, of a function by patterns of names: `*` matches anything. If
    several patterns match, the pattern with most letters decides."""

    def __init__(self, meanings: Iterable[tuple[str, str]]) -> None:
        known = dict(meanings)

        # Of patterns with equally many letters, a whole name comes first, then a prefix, then any other pattern.
        def rank(pattern: str) -> tuple[int, int]:
            star = pattern.find("*")
            return -len(pattern.replace("*", "")), 0 if star < 0 else 1 if star == len(pattern) - 1 else 2

        ordered = sorted(known, key=rank)
        self._meanings = [known[pattern] for pattern in ordered]
        groups = (f"({'.*'.join(map(re.escape, pattern.split('*')))})" for pattern in ordered)
        self._pattern = re.compile("|".join(groups), re.DOTALL)

    def find(self, name: str) -> str | None:
        """The component, or the kind of wait, of the function `name`; None if no pattern matches."""
        match = self._pattern.fullmatch(name)
        return self._meanings[match.lastindex - 1] if match and match.lastindex else None


@cache
def claim(engine: str, name: str, last_resort: bool = False) -> str | None:
    """The component that a readable name belongs to, if any. `last_resort` tries only components of last resort.

    >>> one = ENGINES[0]
    >>> claim(one, "memcpy"), claim(one, "tcp_sendmsg_[k]"), claim(one, "memcpy", True)
    (None, 'kernel: network', 'libraries')
    """
    server, kernel = _patterns(engine, last_resort)
    if name.endswith(KERNEL_MARK):
        return kernel.find(name.removesuffix(KERNEL_MARK))
    return server.find(name.removesuffix(INLINED_MARK))


def component_of(engine: str, stack: Sequence[str]) -> str:
    """The component of a stack of readable names, root first.

    >>> component_of(ENGINES[0], ["connection", "write", "do_syscall_64_[k]"])
    'kernel: system calls'
    """
    if not stack:
        return OTHER
    in_kernel = stack[-1].endswith(KERNEL_MARK)
    claims = (
        claim(engine, name, last_resort)
        for last_resort in (False, True)
        for name in reversed(stack)
        if name.endswith(KERNEL_MARK) == in_kernel
    )
    return next(filter(None, claims), OTHER)


@cache
def _patterns(engine: str, last_resort: bool) -> tuple[Patterns, Patterns]:
    rows = [row for row in components(engine) if row.last_resort == last_resort]
    return (
        Patterns((pattern, row.name) for row in rows for pattern in (*row.server, *row.library)),
        Patterns((pattern, row.name) for row in rows for pattern in row.kernel),
    )
