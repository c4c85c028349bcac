"""A tree of stack frames in pre-order, and its compressed form for the script of a page."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import polars as pl

COLUMNS = ("name", "component", "base_self", "me_self", "base_total", "me_total", "error")
# Number of quanta in the cost of the whole operation: a quantum is about a millionth, less than any shown digit.
QUANTA = 1 << 20


@dataclass(frozen=True)
class Tree:
    """Columns of equal length, one entry per frame: a frame is followed by the frames that it calls, and these by the
    frames that they call. Only the first frame has no caller."""

    name: Sequence[str]
    component: Sequence[str]
    depth: Sequence[int]
    end: Sequence[int]  # index after the last frame that this frame calls, directly or indirectly
    base_self: Sequence[float]
    me_self: Sequence[float]
    base_total: Sequence[float]
    me_total: Sequence[float]
    error: Sequence[float]

    def __len__(self) -> int:
        return len(self.name)

    def difference(self, i: int) -> float:
        """The difference in the total cost of a frame, including all that it calls: me minus base."""
        return self.me_total[i] - self.base_total[i]

    def sign(self, i: int) -> int:
        """The sign of a frame's difference: 1 if me costs more, -1 if me costs less, 0 if the difference is within
        its error."""
        by = self.difference(i)
        return 0 if abs(by) <= self.error[i] else 1 if by > 0 else -1

    @property
    def operation_cost(self) -> float:
        """The cost of the whole operation for the base; if the base has no cost, for me."""
        return self.base_total[0] or self.me_total[0]


def tree_of(rows: pl.DataFrame, error: float | None = None) -> Tree:
    """The tree of a table with the columns `node` and `parent`; a caller's most expensive frame comes first. `error`
    is the measured error of the whole operation's difference, if known."""
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
        waiting += [(child, deep + 1) for child in sorted(below[i], key=cost.__getitem__)]
    columns = {name: rows[name].gather(order).to_list() for name in COLUMNS}
    if error is not None:
        columns["error"][0] = error
    return Tree(**columns, depth=depth, end=_ends_of_subtrees(depth))


def _ends_of_subtrees(depth: Sequence[int]) -> list[int]:
    end = [len(depth)] * len(depth)
    callers: list[int] = []
    for i, deep in enumerate(depth):
        while len(callers) > deep:
            end[callers.pop()] = i
        callers.append(i)
    return end


def packed(tree: Tree, names: Sequence[str] | None = None, **head: Any) -> str:
    """The tree as compressed JSON in base64: each name is stored once, each cost as a whole multiple
    of a small cost, the quantum.

    If many trees share their `names`, these are packed once (`shared_names`), and each tree has indexes into them.
    """
    quantum = max(tree.base_total[0], tree.me_total[0]) / QUANTA or 1.0
    components, component = _numbered(tree.component)
    if names is None:
        names, name = _numbered(tree.name)
        head["names"] = names
    else:
        number = {text: i for i, text in enumerate(names)}
        name = [number[text] for text in tree.name]
    columns = {"depth": tree.depth, "name": name, "component": component}
    columns |= {side: _in_quanta(costs, quantum) for side, costs in (("base", tree.base_self), ("me", tree.me_self))}
    columns["error"] = [round(error / quantum) for error in tree.error]
    return packed_json(head | {"frames": len(tree), "quantum": quantum, "components": components, "columns": columns})


def packed_json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def names_of(trees: Iterable[Tree]) -> list[str]:
    """The distinct names of all frames of some trees, the most frequent first."""
    return [name for name, _ in Counter(chain.from_iterable(tree.name for tree in trees)).most_common()]


def _in_quanta(costs: Sequence[float], quantum: float) -> list[int]:
    """Costs as whole multiples of a tiny cost, the `quantum`. The running sum is rounded instead of each cost: then
    the sum over any range of frames is off by at most one quantum."""
    sums = [0, *(round(total / quantum) for total in accumulate(costs))]
    return [after - before for before, after in pairwise(sums)]


def _numbered(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """The distinct values, the most frequent first, and the index of each value. Most indexes are then small, and
    compress well."""
    names = [name for name, _ in Counter(values).most_common()]
    number = {name: i for i, name in enumerate(names)}
    return names, [number[value] for value in values]
