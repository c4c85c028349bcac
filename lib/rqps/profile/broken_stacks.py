"""Repair of call stacks that break off: they are put back under the root of their thread.

A stack by frame pointers breaks off in a function without one, as in most C libraries: a sample in `send` has no
caller at all. A few stacks are sampled by copying and unwinding them, too. They show the paths to `send` (rows with
the event `callers`, of no weight), among which broken stacks are divided in proportion.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import polars as pl

from rqps.store.schemas import CALLERS

CALLERS_UNKNOWN = "[callers unknown]"
"""Stands in a stack for what is not known between the root of its thread and where it begins."""
ROOTS = (
    *("start_thread", "clone", "__clone", "clone3", "__clone3", "thread_start", "_start", "__libc_start_main"),
    *("__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34", "__libc_start_call_main"),
    "execute_native_thread_routine",
)
"""Functions of the C library with which a thread begins."""
_NAMELESS, _UNKNOWN_ROLE = "[unknown]", "unknown"
_SERVES = r"^(do_command|dispatch_command)(\(|$)"
_LIBRARIES = r"^(libc|libpthread|libstdc\+\+|ld-linux)[-.]"
_KERNEL = r"^\[kernel"
_NO_PROGRAM = ("[data]", "[unknown]")
_WHERE = ("host", "dbms", "step", "role")


class _Frame(NamedTuple):
    name: str
    module: str


_Path = tuple[_Frame, ...]
_Key = tuple[Any, ...]


def repaired(stacks: pl.DataFrame) -> pl.DataFrame:
    """The sampled stacks with their `ending`: `root`, `repaired`, or `broken` where no path to them is known.

    Samples and weight of a broken stack are divided among the paths known to lead to it in the same step, else in
    another step of the same dbms. Where none is known, it comes under what all stacks of its role begin with.
    """
    where = [column for column in _WHERE if column in stacks.columns]
    # A thread without a name that calls what serves a client is a connection.
    serves = pl.col("frames").list.eval(pl.element().str.contains(_SERVES)).list.any()
    is_connection = (pl.col("role") == _UNKNOWN_ROLE) & serves
    role = pl.when(is_connection).then(pl.lit("connection")).otherwise("role")
    stacks = stacks.with_columns(role.alias("role"), _ending().alias("ending"))
    sampled = stacks.filter(pl.col("event") != CALLERS)
    is_broken = (pl.col("ending") == "broken") & (pl.col("role") != _UNKNOWN_ROLE)
    broken = sampled.filter(is_broken)
    if broken.is_empty():
        return sampled
    known = _Known(stacks.filter(pl.col("event") == CALLERS, ending="root"), sampled.filter(ending="root"), where)
    alike: dict[_Key, list[dict[str, Any]]] = defaultdict(list)  # in an order that does not depend on chance
    for row in broken.iter_rows(named=True):
        alike[*(row[column] for column in where), *_frames(row)[:1]].append(row)
    rows = [row for group in alike.values() for row in _repair(group, known)]
    return pl.concat([sampled.filter(~is_broken), pl.DataFrame(rows, schema=sampled.schema)])


def completeness(stacks: pl.DataFrame) -> pl.DataFrame:
    """Shares of each step's samples that reach their thread's root by themselves, repaired, or not at all.

    `unnamed` is the share in functions without a name, whatever their callers.
    """
    whole = stacks if "ending" in stacks.columns else repaired(stacks)
    where = [column for column in _WHERE[:-1] if column in whole.columns]
    samples = pl.col("samples")
    shares = {ending: pl.col("ending") == ending for ending in ("root", "repaired", "broken")}
    shares["unnamed"] = pl.col("frames").list.last().fill_null(_NAMELESS) == _NAMELESS
    return (
        whole.group_by(where, maintain_order=True)
        .agg(samples.sum(), *((samples.filter(of).sum() / samples.sum()).alias(name) for name, of in shares.items()))
        .sort(where)
    )


def _ending() -> pl.Expr:
    first, second = (pl.col("modules").list.get(at, null_on_oob=True) for at in (0, 1))
    name = pl.col("frames").list.first()
    # Where libraries have no symbols: a function of theirs that calls one which is not theirs has begun a thread.
    called = second.str.contains(_LIBRARIES) | second.str.contains(_KERNEL)
    begins = (name == _NAMELESS) & first.str.contains(_LIBRARIES) & ~called
    whole = name.is_in(ROOTS) | begins
    return pl.when(whole.fill_null(False)).then(pl.lit("root")).otherwise(pl.lit("broken"))


def _frames(row: Mapping[str, Any], whole: bool = False) -> _Path:
    """The frames of a stack; unless it is `whole`, without what was taken for addresses before the first real one."""
    path = tuple(map(_Frame, row["frames"], row["modules"]))
    first = next((at for at, frame in enumerate(path) if frame.module not in _NO_PROGRAM), len(path))
    return path if whole else path[first:]


class _Known:
    """Paths from the roots of threads to functions, as far as they were seen."""

    def __init__(self, callers: pl.DataFrame, whole: pl.DataFrame, where: list[str]) -> None:
        wide = [column for column in where if column != "step"]
        self._scopes = (where, wide)
        self._paths: dict[_Key, Counter[_Path]] = defaultdict(Counter)
        for row in callers.iter_rows(named=True):
            path = _frames(row, whole=True)
            for scope in self._scopes:
                self._paths[*(row[column] for column in scope), path[-1]][path] += row["samples"]
        self._whole = whole.partition_by(wide, as_dict=True)
        self._trunks: dict[_Key, _Path] = {}

    def paths_to(self, row: Mapping[str, Any], frame: _Frame) -> list[tuple[_Path, int]]:
        """The paths to a function, and how often each was seen, from the nearest scope that has any."""
        for scope in self._scopes if frame.name != _NAMELESS else ():
            if found := self._paths.get((*(row[column] for column in scope), frame)):
                return sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return []

    def trunk(self, row: Mapping[str, Any]) -> _Path:
        """The frames that all complete stacks of a role begin with."""
        scope = tuple(row[column] for column in self._scopes[-1])
        if scope not in self._trunks:
            whole = self._whole.get(scope, pl.DataFrame()).iter_rows(named=True)
            paths = [_frames(each, whole=True) for each in whole]
            outer = zip(min(paths), max(paths), strict=False) if paths else ()  # all others are sorted between these
            self._trunks[scope] = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], outer))
        return self._trunks[scope]


def _repair(rows: Sequence[dict[str, Any]], known: _Known) -> Iterator[dict[str, Any]]:
    """Stacks that begin with the same frame, divided among the paths to it."""
    path = _frames(rows[0])
    paths = known.paths_to(rows[0], path[0]) if path else []
    if not paths:
        trunk = known.trunk(rows[0])
        if not trunk:
            yield from rows
            return
        paths = [((*trunk, _Frame(CALLERS_UNKNOWN, CALLERS_UNKNOWN), *path[:1]), 1)]
    divided = divide([row["samples"] for row in rows], [count for _, count in paths])
    for row, parts in zip(rows, divided, strict=True):
        given = weight_given = 0
        for (above, _), samples in zip(paths, parts, strict=True):
            if samples:
                given += samples
                weight = row["weight"] * given // row["samples"] - weight_given
                weight_given += weight
                frames, modules = map(list, zip(*above, *_frames(row)[1:], strict=True))
                new = {"frames": frames, "modules": modules, "samples": samples, "weight": weight}
                yield {**row, **new, "ending": "repaired"}


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
