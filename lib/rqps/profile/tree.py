"""The call tree of base and me: the cost of each path on both sides, so that vanished and new paths are seen as well.

Each name is one letter here, and so a stack is a word. Words are sorted, so that those below a frame stand together:
bisection finds where its callees begin and end, and every sum is over rows as they were measured.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from rqps.profile.components import components_of_frames
from rqps.profile.pair import BASE, ME, Pair, one_pair, pairs

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
KEYS = {"host": pl.String, "step": pl.String, "dbms": pl.String}

_FIRST_LETTER = 0x100
_SURROGATES = range(0xD800, 0xE000)
"""Numbers that are no letters by themselves."""

_Rows = tuple[int, int]
"""The rows of a frame: the first, and the one behind the last."""


def flame_trees(costs: pl.DataFrame, base: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The tree of every host, step and dbms that has a round in common with the base, one after the other."""
    trees = [
        _tree(pair, fold_below).select(
            pl.lit(host).alias("host"), pl.lit(step).alias("step"), pl.lit(dbms).alias("dbms"), pl.all()
        )
        for host, step, dbms, pair in pairs(costs, base)
    ]
    return pl.concat(trees) if trees else pl.DataFrame(schema={**KEYS, **TREE})


def flame_tree(costs: pl.DataFrame, base: str, me: str, step: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The frames of both sides in pre-order: for each its own cost on both sides, and that of all that it called.

    Frames that take less than `fold_below` of the operation on both sides are one frame below their caller, as
    `(12 minor)`, so that a total is always the sum of what is in it. Nothing is rounded.
    """
    return _tree(one_pair(costs, base, me, step), fold_below)


@dataclass
class _Frames:
    """The frames in pre-order, one list per column."""

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


def _tree(pair: Pair, fold_below: float) -> pl.DataFrame:
    rows, letters = _as_words(pair)
    limit = fold_below * max(pair.measured(BASE), pair.measured(ME))
    frames = _frames(rows["word"].to_list(), rows[BASE].to_list(), rows[ME].to_list(), letters, limit)
    return _table(frames, rows, pair)


def _as_words(pair: Pair) -> tuple[pl.DataFrame, dict[str, str]]:
    """One row per stack, as a word; sorted, callers before what they call. And the name that a letter stands for."""
    names = pair.rows["stack"].explode(empty_as_null=False).unique().sort()
    letters = [chr(code) for code in _letters(len(names))]
    spelt = pl.element().replace_strict(names, letters, return_dtype=pl.String)
    word = pl.col("stack").list.eval(spelt).list.join("")
    rows = (
        pair.rows.select(word.alias("word"), "component", *pair.columns)
        .group_by("word")
        .agg(pl.col("component").first(), pl.col(pair.columns).sum())
        .sort("word")
        .with_columns(pair.mean(BASE).alias(BASE), pair.mean(ME).alias(ME))
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


def _table(frames: _Frames, rows: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    columns = {}
    for column in (BASE, ME, *pair.columns):
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
        pair.error().alias("error"), pl.col(BASE).alias("base_total"), pl.col(ME).alias("me_total")
    )
    return tree.select(pl.col(each).cast(kind) for each, kind in TREE.items())


def _most(rows: list[_Rows], component: list[str], base: list[float], me: list[float]) -> str:
    """The component that most of the cost of these rows belongs to."""
    costs: Counter[str] = Counter()
    for at, end in rows:
        for row in range(at, end):
            costs[component[row]] += base[row] + me[row]  # type: ignore[assignment] # it counts floats as well
    return min(costs, key=lambda each: (-costs[each], each))
