"""The call tree of two sides: what a path costs on each, so that vanished and new paths are seen beside the others.

Each name is one letter here, and so a stack is a word. Words are sorted, so that those below a frame stand together:
where its callees begin and end is found by bisecting, and every sum is over rows as they were measured.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from rqps.profile.inherited import components_of_frames
from rqps.profile.sides import BASE, ME, Sides, one_pair

ROOT = "all"
FOLD_BELOW = 0.001

TREE = pl.Schema(
    {
        "node": pl.Int32,
        "parent": pl.Int32,  # null for the root
        "name": pl.String,
        "component": pl.String,
        "base_self": pl.Float64,  # per operation, the mean of the rounds
        "me_self": pl.Float64,
        "base_total": pl.Float64,
        "me_total": pl.Float64,
        "error": pl.Float64,  # half the width of the 95 % interval of me_total - base_total
    }
)

_FIRST_LETTER = 0x100
_SURROGATES = range(0xD800, 0xE000)
"""Numbers that are no letters by themselves."""

_Rows = tuple[int, int]
"""Those of a frame: the first, and the one behind the last."""


@dataclass
class _Frames:
    """The frames in pre-order, a list a column."""

    parents: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    selfs: list[int | None] = field(default_factory=list)
    """The row of the stack that ends in this frame."""
    rows: list[list[_Rows]] = field(default_factory=list)
    folded: list[bool] = field(default_factory=list)

    def add(self, parent: int | None, name: str, rows: list[_Rows], own: int | None, folded: bool = False) -> int:
        self.parents.append(parent)
        self.names.append(name)
        self.rows.append(rows)
        self.selfs.append(own)
        self.folded.append(folded)
        return len(self.parents) - 1


def flame_tree(costs: pl.DataFrame, base: str, me: str, step: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The frames of both sides in pre-order: for each its own cost on both sides, and that of all that it called.

    Frames that take less than `fold_below` of the operation on both sides are one frame below their caller, as
    `(12 minor)`, so that a total is always the sum of what is in it. Nothing is rounded.
    """
    sides = one_pair(costs, base, me, step)
    rows, letters = _as_words(sides)
    limit = fold_below * max(sum(side.totals) / sides.rounds for side in (sides.base, sides.me))
    frames = _frames(rows["word"].to_list(), rows[BASE].to_list(), rows[ME].to_list(), letters, limit)
    return _table(frames, rows, sides)


def _as_words(sides: Sides) -> tuple[pl.DataFrame, dict[str, str]]:
    """One row a stack, as a word; sorted, callers before what they call. And the name that a letter stands for."""
    names = sides.rows["stack"].explode(empty_as_null=False).unique().sort()
    letters = [chr(code) for code in _letters(len(names))]
    spelt = pl.element().replace_strict(names, letters, return_dtype=pl.String)
    word = pl.col("stack").list.eval(spelt).list.join("")
    rows = (
        sides.rows.select(word.alias("word"), "component", *sides.columns)
        .group_by("word")
        .agg(pl.col("component").first(), pl.col(sides.columns).sum())
        .sort("word")
        .with_columns(sides.mean(BASE).alias(BASE), sides.mean(ME).alias(ME))
    )
    return rows, dict(zip(letters, names, strict=True))


def _letters(many: int) -> Sequence[int]:
    below = _SURROGATES.start - _FIRST_LETTER
    above = range(_SURROGATES.stop, _SURROGATES.stop + many - below)
    return [*range(_FIRST_LETTER, _FIRST_LETTER + min(many, below)), *above]


def _frames(words: list[str], base: list[float], me: list[float], letters: dict[str, str], limit: float) -> _Frames:
    """All frames from the root on, callees by name and behind them the one that stands for the minor ones."""
    frames = _Frames()
    todo: list[tuple[int | None, str, list[_Rows], int]] = [(None, ROOT, [(0, len(words))], 0)]
    while todo:
        parent, name, rows, depth = todo.pop()
        if depth < 0:
            frames.add(parent, name, rows, None, folded=True)
            continue
        ((at, end),) = rows
        ends_here = len(words[at]) == depth
        node = frames.add(parent, name, rows, at if ends_here else None)
        at += ends_here
        callees, minor = [], []
        while at < end:
            letter = words[at][depth]
            if words[end - 1][depth] == letter:
                until = end
            else:
                until = bisect_right(words, letter, at, end, key=lambda word: word[depth])
            if max(sum(base[at:until]), sum(me[at:until])) < limit:
                minor.append((at, until))
            else:
                callees.append((node, letters[letter], [(at, until)], depth + 1))
            at = until
        if minor:
            todo.append((node, f"({len(minor)} minor)", minor, -1))
        todo.extend(reversed(callees))
    return frames


def _table(frames: _Frames, rows: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    columns = {}
    for column in (BASE, ME, *sides.columns):
        values = rows[column].to_list()
        columns[column] = [sum(sum(values[at:end]) for at, end in of_frame) for of_frame in frames.rows]
        if column in (BASE, ME):
            selfs = zip(frames.selfs, frames.folded, columns[column], strict=True)
            columns[f"{column}_self"] = [
                total if folded else 0.0 if own is None else values[own] for own, folded, total in selfs
            ]
    component = components_of_frames(frames.parents, frames.names)
    costs = (rows["component"].to_list(), rows[BASE].to_list(), rows[ME].to_list())
    for node, folded in enumerate(frames.folded):
        if folded:
            component[node] = _most(frames.rows[node], *costs)
    tree = pl.DataFrame({**columns, "parent": frames.parents, "name": frames.names, "component": component})
    tree = tree.with_row_index("node").with_columns(
        sides.error().alias("error"), pl.col(BASE).alias("base_total"), pl.col(ME).alias("me_total")
    )
    return tree.select(pl.col(each).cast(kind) for each, kind in TREE.items())


def _most(rows: list[_Rows], component: list[str], base: list[float], me: list[float]) -> str:
    """The component that most of the cost of these rows belongs to."""
    costs: Counter[str] = Counter()
    for at, end in rows:
        for row in range(at, end):
            costs[component[row]] += base[row] + me[row]  # type: ignore[assignment] # it counts floats as well
    return min(costs, key=lambda each: (-costs[each], each))
