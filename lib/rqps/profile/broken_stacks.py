"""Repairs broken (truncated) call stacks: puts them back under the root of their thread.

Unwinding by frame pointers ends in a function that sets no frame pointer. Most C libraries are compiled without frame
pointers, so a sample in `send` has no caller at all. A few stacks are also sampled by copying the stack and unwinding
the copy later (rows with the event `callers`, which have no weight). They show the paths to `send`, and broken stacks
are divided among these paths in proportion to their samples.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from typing import Any

import polars as pl

from rqps.engines import facts_of
from rqps.store.schemas import CALLERS

CALLERS_UNKNOWN = "[callers unknown]"
"""Placeholder in a stack for the unknown frames between the root of its thread and its first known frame."""
ROOTS = (
    *("start_thread", "clone", "__clone", "clone3", "__clone3", "thread_start", "_start", "__libc_start_main"),
    *("__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34", "__libc_start_call_main"),
    "execute_native_thread_routine",
)
"""Functions of the C library with which a thread begins."""
_NAMELESS, _UNKNOWN_ROLE = "[unknown]", "unknown"
_LIBRARIES = r"^(libc|libpthread|libstdc\+\+|ld-linux)[-.]"
_KERNEL = r"^\[kernel"
_NO_PROGRAM = ("[data]", "[unknown]")
_STEP, _ROLE = ("host", "dbms", "step"), ("host", "dbms", "role")

_Row = dict[str, Any]


_Frame = tuple[str, str]
"""A function's name and its module."""
_Path = tuple[_Frame, ...]
_Scope = tuple[str, ...]


def repaired(stacks: pl.DataFrame) -> pl.DataFrame:
    """The sampled stacks with their `ending`: `root`, `repaired`, or `broken` if they can't be repaired.

    Samples and weight of a broken stack are divided among the paths that are known to lead to its first function, in
    the same step or else in any step of the same dbms. If no path is known, the stack is put under the outermost
    frames that all complete stacks of threads with the same role have in common.
    """
    # A thread without a name is a connection if its stack has a function that serves clients.
    is_connection = (pl.col("role") == _UNKNOWN_ROLE) & _serves(stacks)
    role = pl.when(is_connection).then(pl.lit("connection")).otherwise("role")
    stacks = stacks.with_columns(role.alias("role"), _ending().alias("ending"))
    sampled = stacks.filter(pl.col("event") != CALLERS)
    is_broken = (pl.col("ending") == "broken") & (pl.col("role") != _UNKNOWN_ROLE)
    broken = sampled.filter(is_broken)
    if broken.is_empty():
        return sampled
    known = _Known(stacks.filter(pl.col("event") == CALLERS, ending="root"), sampled.filter(ending="root"))
    # A dict keeps the order of the rows, so that the result is the same in each call.
    alike: dict[tuple[_Scope, _Path], list[_Row]] = defaultdict(list)
    for row in broken.iter_rows(named=True):
        alike[_scopes(row)[0], _in_programs(row)[:1]].append(row)
    rows = [row for group in alike.values() for row in _repair(group, known)]
    return pl.concat([sampled.filter(~is_broken), pl.DataFrame(rows, schema=sampled.schema)])


def _serves(stacks: pl.DataFrame) -> pl.Expr:
    """True for stacks that contain a function with which their engine serves clients."""
    known = ((engine, facts_of(engine).serves) for engine in stacks["engine"].unique().drop_nulls().sort())
    of_engines = [
        (pl.col("engine") == engine) & pl.col("frames").list.eval(pl.element().str.contains(pattern)).list.any()
        for engine, pattern in known
        if pattern
    ]
    return pl.any_horizontal(pl.lit(False), *of_engines)


def completeness(stacks: pl.DataFrame) -> pl.DataFrame:
    """For each step, the shares of samples whose stack reaches the root of its thread as it was sampled (`root`),
    after repair (`repaired`), or not at all (`broken`).

    `unnamed` is the share of samples in functions without a name, whatever their callers.
    """
    samples = pl.col("samples")
    shares = {ending: pl.col("ending") == ending for ending in ("root", "repaired", "broken")}
    shares["unnamed"] = pl.col("frames").list.last().fill_null(_NAMELESS) == _NAMELESS
    return (
        repaired(stacks)
        .group_by(_STEP, maintain_order=True)
        .agg(samples.sum(), *((samples.filter(of).sum() / samples.sum()).alias(name) for name, of in shares.items()))
        .sort(_STEP)
    )


def _ending() -> pl.Expr:
    first, second = (pl.col("modules").list.get(at, null_on_oob=True) for at in (0, 1))
    name = pl.col("frames").list.first()
    # If libraries have no symbols, a nameless library function counts as a thread's root, provided that it calls a
    # function of a program.
    called = second.str.contains(_LIBRARIES) | second.str.contains(_KERNEL)
    begins = (name == _NAMELESS) & first.str.contains(_LIBRARIES) & ~called
    complete = name.is_in(ROOTS) | begins
    return pl.when(complete.fill_null(False)).then(pl.lit("root")).otherwise(pl.lit("broken"))


def _path(row: _Row) -> _Path:
    return tuple(zip(row["frames"], row["modules"], strict=True))


def _in_programs(row: _Row) -> _Path:
    """A stack without its outermost frames that are in no program: they are data on the stack that the unwinder
    took for return addresses."""
    return tuple(dropwhile(lambda frame: frame[1] in _NO_PROGRAM, _path(row)))


def _scopes(row: _Row) -> tuple[_Scope, _Scope]:
    """The two scopes in which paths for a stack are searched: stacks of its role in the same step, and in all steps
    of the same dbms."""
    return tuple(row[name] for name in (*_STEP, "role")), tuple(row[name] for name in _ROLE)


class _Known:
    """The observed paths from the roots of threads to functions."""

    def __init__(self, callers: pl.DataFrame, complete: pl.DataFrame) -> None:
        self._paths: dict[tuple[_Scope, _Frame], Counter[_Path]] = defaultdict(Counter)
        for row in callers.iter_rows(named=True):
            path = _path(row)
            for scope in _scopes(row):
                self._paths[scope, path[-1]][path] += row["samples"]
        stacks = complete.select(*_ROLE, "frames", "modules")
        self._whole = stacks.partition_by(_ROLE, as_dict=True, include_key=False)
        self._trunks: dict[_Scope, _Path] = {}

    def paths_to(self, row: _Row, frame: _Frame) -> list[tuple[_Path, int]]:
        """The known paths to a function, each with its number of samples, from the narrowest scope that has such
        paths."""
        for scope in _scopes(row) if frame[0] != _NAMELESS else ():
            if paths := self._paths.get((scope, frame)):
                return sorted(paths.items(), key=lambda item: (-item[1], item[0]))
        return []

    def trunk(self, row: _Row) -> _Path:
        """The outermost frames that all complete stacks of threads with the same role have in common. A role is a
        kind of thread, such as connection or purge."""
        role = _scopes(row)[1]
        if role not in self._trunks:
            stacks = self._whole[role].unique() if role in self._whole else pl.DataFrame()
            paths = [_path(stack) for stack in stacks.iter_rows(named=True)]
            # In sorted order, the frames that the first and the last path have in common at the start are in all
            # paths.
            outer = zip(min(paths), max(paths), strict=False) if paths else ()
            self._trunks[role] = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], outer))
        return self._trunks[role]


def _repair(rows: Sequence[_Row], known: _Known) -> Iterator[_Row]:
    """Divides stacks that begin with the same frame among the paths to that frame."""
    path = _in_programs(rows[0])
    paths = known.paths_to(rows[0], path[0]) if path else []
    if not paths:
        trunk = known.trunk(rows[0])
        if not trunk:
            yield from rows
            return
        paths = [((*trunk, (CALLERS_UNKNOWN, CALLERS_UNKNOWN), *path[:1]), 1)]
    divided = divide([row["samples"] for row in rows], [count for _, count in paths])
    for row, parts in zip(rows, divided, strict=True):
        given = weight_given = 0
        for (above, _), samples in zip(paths, parts, strict=True):
            if samples:
                given += samples
                weight = row["weight"] * given // row["samples"] - weight_given
                weight_given += weight
                frames, modules = map(list, zip(*above, *_in_programs(row)[1:], strict=True))
                new = {"frames": frames, "modules": modules, "samples": samples, "weight": weight}
                yield {**row, **new, "ending": "repaired"}


def divide(amounts: Sequence[int], shares: Sequence[int]) -> list[list[int]]:
    """Divides each integer amount into integer parts in proportion to `shares`. The sums of the parts over all
    amounts are in that proportion, too.

    >>> divide([1, 1, 1, 1], [3, 1])
    [[1, 0], [1, 0], [0, 1], [1, 0]]
    >>> divide([10, 1], [1, 1])
    [[5, 5], [1, 0]]
    """
    total = sum(shares)
    owed = [0] * len(shares)  # the amount that each share has not received yet, in units of 1 / `total`
    divided = []
    for amount in amounts:
        owed = [before + amount * share for before, share in zip(owed, shares, strict=True)]
        parts = [amount * share // total for share in shares]
        owed = [debt - part * total for debt, part in zip(owed, parts, strict=True)]
        for _ in range(amount - sum(parts)):
            most = max(range(len(owed)), key=owed.__getitem__)
            parts[most] += 1
            owed[most] -= total
        divided.append(parts)
    return divided
