"""Stacks that break off are put back under the root of their thread, by what the same runs show of the way there.

A stack by frame pointers ends where a function keeps none, as those of the C library do in most distributions: a
sample in `send` has no caller at all. Beside such stacks a few were sampled in another way, by copying the stack and
unwinding it. They tell the paths that lead to `send` (rows with the event `callers`, of no weight), and broken stacks
are divided among these paths in their proportion.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from rqps.store.schemas import CALLERS

MENDED = "[mended]"
"""Stands in a stack for what is not known between the root of its thread and where it begins."""
ROOTS = (
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "thread_start",
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_main@@GLIBC_2.34",
    "__libc_start_call_main",
    "execute_native_thread_routine",
)
"""Functions of the C library with which a thread begins."""
_NAMELESS, _UNKNOWN_ROLE = "[unknown]", "unknown"
_SERVES = r"^(do_command|dispatch_command)(\(|$)"
_CONNECTION = "connection"
_LIBRARIES = r"^(libc|libpthread|libstdc\+\+|ld-linux)[-.]"
_KERNEL = r"^\[kernel"
_NO_PROGRAM = ("[data]", "[unknown]")
_WHERE = ("host", "dbms", "step", "role")


class _Frame(NamedTuple):
    name: str
    module: str


_Path = tuple[_Frame, ...]
_Key = tuple[Any, ...]


def mended(stacks: pl.DataFrame) -> pl.DataFrame:
    """The sampled stacks with their `ending`: `root`, `mended`, or `broken` where nothing is known of the way.

    Samples and weight of a broken stack are divided among the paths known to lead to it in the same step, else in
    another step of the same dbms. Where none is known, it comes under what all stacks of its role begin with.
    """
    where = [column for column in _WHERE if column in stacks.columns]
    stacks = stacks.with_columns(_role().alias("role"))
    sampled = stacks.filter(pl.col("event") != CALLERS).with_columns(_ending().alias("ending"))
    is_broken = (pl.col("ending") == "broken") & (pl.col("role") != _UNKNOWN_ROLE)
    broken = sampled.filter(is_broken)
    if broken.is_empty():
        return sampled
    ways = _Ways(stacks, sampled.filter(ending="root"), where)
    rows = [row for group in _by_begin(broken, where) for row in _mend(group, ways)]
    return pl.concat([sampled.filter(~is_broken), pl.DataFrame(rows, schema=sampled.schema)])


def completeness(stacks: pl.DataFrame) -> pl.DataFrame:
    """Of each step's samples, the shares that reach their thread's root by themselves, mended, or not at all.

    `unnamed` is the share in functions without a name, whatever their way.
    """
    whole = stacks if "ending" in stacks.columns else mended(stacks)
    where = [column for column in ("host", "dbms", "step") if column in whole.columns]
    samples = pl.col("samples")
    in_no_name = pl.col("frames").list.last().fill_null(_NAMELESS) == _NAMELESS
    shares = {ending: samples.filter(pl.col("ending") == ending) for ending in ("root", "mended", "broken")}
    return (
        whole.group_by(where, maintain_order=True)
        .agg(
            samples.sum(),
            *((share.sum() / samples.sum()).alias(name) for name, share in shares.items()),
            (samples.filter(in_no_name).sum() / samples.sum()).alias("unnamed"),
        )
        .sort(where)
    )


def _role() -> pl.Expr:
    """Of threads without a name, those that serve a client are known by what they call, whatever was stored."""
    serves = pl.col("frames").list.eval(pl.element().str.contains(_SERVES)).list.any()
    is_connection = (pl.col("role") == _UNKNOWN_ROLE) & serves
    return pl.when(is_connection).then(pl.lit(_CONNECTION)).otherwise("role")


def _ending() -> pl.Expr:
    first, second = (pl.col("modules").list.get(at, null_on_oob=True) for at in (0, 1))
    name = pl.col("frames").list.first()
    # Where libraries have no symbols: a function of theirs that calls one which is not theirs has begun a thread.
    called = second.str.contains(_LIBRARIES) | second.str.contains(_KERNEL)
    begins = (name == _NAMELESS) & first.str.contains(_LIBRARIES) & ~called
    whole = name.is_in(ROOTS) | begins
    return pl.when(whole.fill_null(False)).then(pl.lit("root")).otherwise(pl.lit("broken"))


def _frames(row: Mapping[str, Any]) -> _Path:
    return tuple(map(_Frame, row["frames"], row["modules"]))


def _begin(path: _Path) -> int:
    """The index of the first frame that is one: before it there may be what was taken for addresses."""
    return next((at for at, frame in enumerate(path) if frame.module not in _NO_PROGRAM), len(path))


class _Ways:
    """What is known of the ways from the roots of threads to functions."""

    def __init__(self, stacks: pl.DataFrame, whole: pl.DataFrame, where: list[str]) -> None:
        self._paths: dict[_Key, Counter[_Path]] = defaultdict(Counter)
        self._whole, self._where = whole, where
        self._trunks: dict[_Key, _Path] = {}
        known = (
            stacks.filter(pl.col("event") == CALLERS).with_columns(_ending().alias("ending")).filter(ending="root")
        )
        for row in known.iter_rows(named=True):
            path = _frames(row)
            for scope in self._scopes(row):
                self._paths[*scope, path[-1]][path] += row["samples"]

    def to(self, row: Mapping[str, Any], frame: _Frame) -> list[tuple[_Path, int]]:
        """The paths to a function, and how often each was seen, from the nearest scope that has any."""
        for scope in self._scopes(row) if frame.name != _NAMELESS else ():
            if found := self._paths.get((*scope, frame)):
                return sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return []

    def trunk(self, row: Mapping[str, Any]) -> _Path:
        """What all complete stacks of a role begin with."""
        scope = self._scopes(row)[-1]
        if scope not in self._trunks:
            rows = self._whole.filter(
                pl.col(column) == value for column, value in zip(self._wide(), scope, strict=True)
            )
            paths = [_frames(each) for each in rows.iter_rows(named=True)]
            self._trunks[scope] = _common(min(paths), max(paths)) if paths else ()
        return self._trunks[scope]

    def _wide(self) -> list[str]:
        return [column for column in self._where if column != "step"]

    def _scopes(self, row: Mapping[str, Any]) -> list[_Key]:
        return [tuple(row[column] for column in columns) for columns in (self._where, self._wide())]


def _common(path: _Path, other: _Path) -> _Path:
    """What both begin with; so does all that is sorted between them."""
    differ = next((at for at, (one, two) in enumerate(zip(path, other, strict=False)) if one != two), None)
    return path[:differ] if differ is not None else min(path, other, key=len)


def _by_begin(broken: pl.DataFrame, where: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Broken stacks that are to be divided alike, in an order that does not depend on chance."""
    groups: dict[_Key, list[dict[str, Any]]] = defaultdict(list)
    for row in broken.iter_rows(named=True):
        path = _frames(row)
        groups[*(row[column] for column in where), *path[_begin(path) : _begin(path) + 1]].append(row)
    return iter(groups.values())


def _mend(rows: Sequence[dict[str, Any]], ways: _Ways) -> Iterator[dict[str, Any]]:
    path = _frames(rows[0])
    at = _begin(path)
    known = ways.to(rows[0], path[at]) if at < len(path) else []
    if not known:
        trunk = ways.trunk(rows[0])
        if not trunk:
            yield from rows
            return
        known = [((*trunk, _Frame(MENDED, MENDED), *path[at : at + 1]), 1)]
    divided = divide([row["samples"] for row in rows], [count for _, count in known])
    for row, parts in zip(rows, divided, strict=True):
        frames = _frames(row)
        rest = frames[_begin(frames) + 1 :]
        given = weight_given = 0
        for (way, _), samples in zip(known, parts, strict=True):
            if samples:
                given += samples
                weight = row["weight"] * given // row["samples"] - weight_given
                weight_given += weight
                yield _put(row, (*way, *rest), samples, weight)


def _put(row: dict[str, Any], path: _Path, samples: int, weight: int) -> dict[str, Any]:
    names, modules = [frame.name for frame in path], [frame.module for frame in path]
    return {**row, "frames": names, "modules": modules, "samples": samples, "weight": weight, "ending": "mended"}


def divide(amounts: Sequence[int], shares: Sequence[int]) -> list[list[int]]:
    """Whole amounts divided in proportion to `shares`, so that the parts of all of them keep the proportion too.

    >>> divide([1, 1, 1, 1], [3, 1])
    [[1, 0], [1, 0], [0, 1], [1, 0]]
    >>> divide([10, 1], [1, 1])
    [[5, 5], [1, 0]]
    """
    total = sum(shares)
    owed = [0] * len(shares)  # in parts of `total`
    divided = []
    for amount in amounts:
        owed = [before + amount * share for before, share in zip(owed, shares, strict=True)]
        parts = [amount * share // total for share in shares]
        owed = [each - part * total for each, part in zip(owed, parts, strict=True)]
        for _ in range(amount - sum(parts)):
            most = max(range(len(owed)), key=owed.__getitem__)
            parts[most] += 1
            owed[most] -= total
        divided.append(parts)
    return divided
