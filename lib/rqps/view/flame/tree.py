"""A tree of frames, taken from its table: what is below a frame follows it, up to its end."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

COLUMNS = ("node", "parent", "name", "component", "base_self", "me_self", "base_total", "me_total", "error")
ALL = "all"


@dataclass(frozen=True)
class Tree:
    """Columns of one length, in pre-order; the first frame is the only one without a caller."""

    name: Sequence[str]
    component: Sequence[str]
    depth: Sequence[int]
    end: Sequence[int]
    """The first frame that is not below this one."""
    base_self: Sequence[float]
    me_self: Sequence[float]
    base_total: Sequence[float]
    me_total: Sequence[float]
    error: Sequence[float]

    def __len__(self) -> int:
        return len(self.name)

    def difference(self, i: int) -> float:
        """How much more it costs me, with all that it calls."""
        return self.me_total[i] - self.base_total[i]

    def sign(self, i: int) -> int:
        """1 dearer, -1 cheaper, 0 where there is no difference or it is within its error."""
        by = self.difference(i)
        return 0 if abs(by) <= self.error[i] else 1 if by > 0 else -1

    @property
    def whole(self) -> float:
        """What the operation costs the base; or me, where the base has nothing."""
        return self.base_total[0] or self.me_total[0]


def tree_of(frame: pl.DataFrame) -> Tree:
    """Read a table in pre-order. Where several frames have no caller, they get one; dear frames come before cheap."""
    rows = frame.select(COLUMNS)
    if rows["parent"].null_count() > 1:
        rows = pl.concat([_root(rows), rows.with_columns(pl.col("parent").fill_null(-1))])
    order, depth, end = _dear_first(rows)
    columns = {name: [values[i] for i in order] for name in COLUMNS[2:] if (values := rows[name].to_list())}
    return Tree(**columns, depth=depth, end=end)


def _root(rows: pl.DataFrame) -> pl.DataFrame:
    below = rows.filter(pl.col("parent").is_null())
    # Errors of parts that were counted apart from each other add up by their squares.
    error = pl.col("error").pow(2).sum().sqrt()
    return below.select(
        pl.lit(-1, rows.schema["node"]).alias("node"),
        pl.lit(None, rows.schema["parent"]).alias("parent"),
        pl.lit(ALL).alias("name"),
        pl.lit(ALL).alias("component"),
        pl.lit(0.0).alias("base_self"),
        pl.lit(0.0).alias("me_self"),
        pl.col("base_total").sum(),
        pl.col("me_total").sum(),
        error,
    )


def _dear_first(rows: pl.DataFrame) -> tuple[list[int], list[int], list[int]]:
    """Which row comes where, how deep it is, and where what is below it ends."""
    row_of = {node: i for i, node in enumerate(rows["node"])}
    below: list[list[int]] = [[] for _ in row_of]
    for i, parent in enumerate(rows["parent"]):
        if i:
            below[row_of[parent]].append(i)
    cost = (rows["base_total"] + rows["me_total"]).to_list()
    order: list[int] = []
    depth: list[int] = []
    waiting = [(0, 0)]
    while waiting:
        i, deep = waiting.pop()
        order.append(i)
        depth.append(deep)
        waiting += [(each, deep + 1) for each in sorted(below[i], key=cost.__getitem__)]
    return order, depth, _ends(depth)


def _ends(depth: Sequence[int]) -> list[int]:
    end = [len(depth)] * len(depth)
    open_: list[int] = []
    for i, deep in enumerate(depth):
        while len(open_) > deep:
            end[open_.pop()] = i
        open_.append(i)
    return end
