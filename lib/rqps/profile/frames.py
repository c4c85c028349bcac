"""From frames as a tool names them to stacks that a reader can compare, and to the component of each.

A stack's cost belongs to the component of the frame nearest to its end that has one: memcpy has none, so it counts
for the function that called it, and what runs in the kernel is the kernel's, whoever called it.
"""

from collections.abc import Sequence
from functools import cache

import polars as pl

from rqps.pages.flamegraph_breakdown.stack_tables import KERNEL_MARK, OTHER, Patterns, components, renames
from rqps.profile.names import of_the_c_library, readable

NAMELESS = "[unknown]"
_KERNEL = "[kernel"
_ROWS_AT_A_TIME = 200_000
"""What a million stacks need in memory depends on it."""


def stacks_of(frame: pl.DataFrame) -> pl.DataFrame:
    """One row a row of `frame` (`role, frames, modules`): its readable `stack`, root first, and its `component`.

    A stack begins with what its thread does. So that releases meet, some are left out: functions that only start a
    thread, layers that only some releases have, callers without a name, and those that not all releases pass through.
    """
    parts = [_stacks_of(part) for part in frame.select("role", "frames", "modules").iter_slices(_ROWS_AT_A_TIME)]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"stack": pl.List(pl.String), "component": pl.String})


@cache
def frame_name(raw: str, in_kernel: bool) -> str:
    """The readable name, today's where it was another before.

    >>> frame_name("mysql_parse(THD*, char*, unsigned int, Parser_state*)", False)
    'dispatch_sql_command'
    >>> frame_name("mutex_lock", True)
    'mutex_lock_[k]'
    """
    name = readable(raw)
    if in_kernel:
        return name + KERNEL_MARK
    name = of_the_c_library(name)
    new_name, new_class = _today()
    if name in new_name:
        return new_name[name]
    owner, colons, rest = name.partition("::")
    return f"{new_class[owner]}{colons}{rest}" if colons and owner in new_class else name


@cache
def _today() -> tuple[dict[str, str], dict[str, str]]:
    return renames().new_name(), renames().new_class()


def component_of(stack: Sequence[str]) -> str:
    """The component of a stack of readable names, root first.

    >>> component_of(["connection", "row_search_mvcc", "row_sel_store_mysql_rec", "memcpy"])
    'InnoDB rows and versions'
    >>> component_of(["connection", "net_write_packet", "do_syscall_64_[k]"])
    'kernel: rest'
    """
    if not stack:
        return OTHER
    in_kernel = stack[-1].endswith(KERNEL_MARK)
    for claimed in (claim, last_resort):
        for name in reversed(stack):
            if name.endswith(KERNEL_MARK) == in_kernel and (found := claimed(name)):
                return found
    return OTHER


@cache
def claim(name: str) -> str | None:
    """The component that a readable name belongs to, if it has one.

    >>> claim("btr_cur_search_to_nth_level"), claim("memcpy"), claim("tcp_sendmsg_[k]")
    ('InnoDB B-tree', None, 'kernel: network')
    """
    return _claimed(name, False)


@cache
def last_resort(name: str) -> str | None:
    """The component that a name belongs to where no other is known."""
    return _claimed(name, True)


def _claimed(name: str, at_last: bool) -> str | None:
    server, kernel = _patterns(at_last)
    return kernel.find(name.removesuffix(KERNEL_MARK)) if name.endswith(KERNEL_MARK) else server.find(name)


@cache
def _patterns(at_last: bool) -> tuple[Patterns, Patterns]:
    rows = [row for row in components() if row.last_resort == at_last]
    return (
        Patterns((pattern, row.name) for row in rows for pattern in (*row.server, *row.library)),
        Patterns((pattern, row.name) for row in rows for pattern in row.kernel),
    )


def _stacks_of(frame: pl.DataFrame) -> pl.DataFrame:
    numbered = frame.with_row_index("row")
    long = numbered.select("row", "frames", "modules").explode("frames", "modules").drop_nulls("frames")
    # A name is looked up once for each side of the kernel's border; from then on it is a number.
    raw = long["frames"].unique()
    in_kernel = pl.col("modules").str.starts_with(_KERNEL).fill_null(False).cast(pl.UInt32)
    number = pl.col("frames").cast(pl.Enum(raw)).to_physical().cast(pl.UInt32) * 2 + in_kernel
    known = _known([(name, kernel) for name in raw for kernel in (False, True)])
    long = long.select("row", number.alias("number"))
    long = pl.concat([long, known[long["number"]]], how="horizontal").filter(~pl.col("left_out"))
    # Such a caller keeps the stacks of two builds apart; one without a name, of a stripped binary, tells nothing.
    is_caller = pl.col("row") == pl.col("row").shift(-1)
    long = long.filter(~(pl.col("passed") & is_caller.fill_null(False)))
    # Two names that became one by folding, one calling the other, are one function's two names; equal ones recurse.
    again = (
        (pl.col("row") == pl.col("row").shift(1))
        & (pl.col("same") == pl.col("same").shift(1))
        & (pl.col("number") != pl.col("number").shift(1))
    )
    same_side = pl.col("kernel") == pl.col("kernel").last()
    stacks = (
        long.filter(~again.fill_null(False))
        .group_by("row", maintain_order=True)
        .agg("name", *(pl.col(each).filter(same_side).drop_nulls().last() for each in ("component", "last")))
    )
    whole = numbered.select("row", "role").join(stacks, on="row", how="left", maintain_order="left")
    below = pl.col("name").fill_null(pl.lit([], pl.List(pl.String)))
    return whole.select(
        pl.concat_list("role", below).alias("stack"),
        pl.coalesce("component", "last", pl.lit(OTHER)).alias("component"),
    )


def _known(raw: list[tuple[str, bool]]) -> pl.DataFrame:
    """What is known of each name in or outside the kernel; `same` is one number for what became one name."""
    left_out, passed = {*renames().starts, *renames().layers}, {NAMELESS, *renames().passed}
    names = [frame_name(name, kernel) for name, kernel in raw]
    return pl.DataFrame(
        {
            "name": pl.Series(names, dtype=pl.String),
            "kernel": pl.Series([kernel for _, kernel in raw], dtype=pl.Boolean),
            "left_out": pl.Series([name in left_out for name in names], dtype=pl.Boolean),
            "passed": pl.Series([name in passed for name in names], dtype=pl.Boolean),
            "component": pl.Series([claim(name) for name in names], dtype=pl.String),
            "last": pl.Series([last_resort(name) for name in names], dtype=pl.String),
        }
    ).with_columns(pl.col("name").rank("dense").alias("same"))
