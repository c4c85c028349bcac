"""The call tree of base and me, with vanished and new paths, and all stacks for flame graph tools and speedscope.

Each function name is encoded as one letter, so that a stack is a word. The words are sorted, so all stacks below a
frame are adjacent: bisection finds the first and last stack of each callee, and the cost of a frame is the sum over
the stacks between.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, islice
from typing import NamedTuple

import polars as pl

from rqps.profile.breakdown import INSTRUCTIONS, MICROSECONDS
from rqps.profile.components import component_of
from rqps.profile.pair import BASE, ME, Pair, one_pair, pairs
from rqps.stats.estimate import STUDENT

ROOT = "all"
FOLD_BELOW = 0.001

# The root has no parent. Costs are means of the rounds, per operation; `error` is half the width of the interval of
# the difference between `base_total` and `me_total`.
_COSTS = ("base_self", "me_self", "base_total", "me_total", "error")
TREE = pl.Schema(
    {
        **dict.fromkeys(("node", "parent"), pl.Int32),
        **dict.fromkeys(("name", "component"), pl.String),
        **dict.fromkeys(_COSTS, pl.Float64),
    }
)
FOLDED_PER_UNIT = 1_000_000
"""Folded costs are whole numbers, in millionths of a µs or of an instruction, so that rounding loses nothing."""


def flame_trees(costs: pl.DataFrame, base: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The flame trees of every host, step and dbms that has a round in common with the base, in one data frame."""
    trees = [
        _tree(pair, fold_below).select(*TREE, host=pl.lit(host), step=pl.lit(step), dbms=pl.lit(dbms))
        for host, step, dbms, pair in pairs(costs, base)
    ]
    keys = dict.fromkeys(("host", "step", "dbms"), pl.String)
    return pl.concat(trees) if trees else pl.DataFrame(schema={**TREE, **keys})


def flame_tree(costs: pl.DataFrame, base: str, me: str, step: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The frames of base and me in pre-order, each with its own cost and its total cost (callees included) in both.

    Callees with less than `fold_below` of the operation's cost in both are pooled into one frame: `(12 minor)`.
    """
    return _tree(one_pair(costs, base, me, step), fold_below)


def folded(costs: pl.DataFrame, dbms: str, step: str) -> str:
    """One line per stack, `frame;frame;frame cost`, as flamegraph.pl and inferno-flamegraph read it.

    Costs are in millionths of a µs (or of an instruction) per operation, the mean of the rounds.
    """
    return _folded(one_pair(costs, dbms, dbms, step), [BASE])


def folded_difference(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """One line per stack, as in `folded`, with the costs of both base and me, for a differential flame graph."""
    return _folded(one_pair(costs, base, me, step), [BASE, ME])


def speedscope(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """A file in speedscope's own format with two profiles, one of base and one of me."""
    pair = one_pair(costs, base, me, step)
    rows = _means(pair, pl.col("stack"))
    names = rows["stack"].explode(empty_as_null=False).unique(maintain_order=True).to_list()
    number_of = {name: number for number, name in enumerate(names)}
    unit, its_unit = (INSTRUCTIONS, "none") if pair.counted else (MICROSECONDS, "microseconds")
    profiles = []
    for dbms, side in ((base, BASE), (me, ME)):
        of_side = rows.filter(pl.col(side) > 0)
        head = {"type": "sampled", "name": f"{dbms}, {step}, {unit}", "unit": its_unit, "startValue": 0}
        samples = [[number_of[name] for name in stack] for stack in of_side["stack"]]
        profiles.append(
            head | {"endValue": of_side[side].sum(), "samples": samples, "weights": of_side[side].to_list()}
        )
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"{step}: {base} and {me}",
        "exporter": "rqps",
        "activeProfileIndex": 1,
        "shared": {"frames": [{"name": name} for name in names]},
        "profiles": profiles,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


class _Frame(NamedTuple):
    parent: int | None
    name: str
    depth: int
    rows: list[slice]
    is_folded: bool = False


def _tree(pair: Pair, fold_below: float) -> pl.DataFrame:
    rows, names = _as_words(pair)
    words, component, base, me = (rows[column].to_list() for column in ("word", "component", BASE, ME))
    limit = fold_below * max(pair.measured(BASE), pair.measured(ME))
    frames = _frames(words, base, me, names, limit)

    def own(frame: _Frame) -> list[slice]:
        first = frame.rows[0].start
        ends_here = slice(first, first + (len(words[first]) == frame.depth))
        return frame.rows if frame.is_folded else [ends_here]

    def component_of_frame(frame: _Frame) -> str:
        if not frame.is_folded:
            return component_of(pair.engine, [names[letter] for letter in words[frame.rows[0].start][: frame.depth]])
        costs: dict[str, float] = defaultdict(float)
        for part in frame.rows:
            for name, *both in zip(component[part], base[part], me[part], strict=True):
                costs[name] += sum(both)
        return min(costs, key=lambda component: (-costs[component], component))

    parts = [frame.rows for frame in frames]
    tree = pl.DataFrame(
        {
            "parent": [frame.parent for frame in frames],
            "name": [frame.name for frame in frames],
            "component": [component_of_frame(frame) for frame in frames],
            "base_self": _sums(base, map(own, frames)),
            "me_self": _sums(me, map(own, frames)),
            "base_total": _sums(base, parts),
            "me_total": _sums(me, parts),
            **{column: _sums(rows[column].to_list(), parts) for column in pair.columns},
        }
    )
    tree = tree.with_row_index("node")
    intervals = STUDENT.estimate(pair.by_round(tree, ["node"]), ["node"], "difference")
    errors = intervals.select("node", error=(pl.col("high") - pl.col("low")) / 2)
    tree = tree.join(errors, on="node", maintain_order="left")
    return tree.select(pl.col(name).cast(kind) for name, kind in TREE.items())


def _sums(values: list[float], parts: Iterable[list[slice]]) -> list[float]:
    return [sum([sum(values[rows]) for rows in slices], 0.0) for slices in parts]


def _as_words(pair: Pair) -> tuple[pl.DataFrame, dict[str, str]]:
    """One row per stack, written as a string with one letter per function, so that sorting puts callers before their
    callees. The second value maps each letter to its function."""
    names = pair.rows["stack"].explode(empty_as_null=False).unique().sort()
    codes = chain(range(0x100, 0xD800), range(0xE000, 0x110000))  # leaves out surrogates, which are not characters
    letters = [chr(code) for code in islice(codes, len(names))]
    spelt = pl.element().replace_strict(names, letters, return_dtype=pl.String)
    word = pl.col("stack").list.eval(spelt).list.join("")
    return _means(pair, word.alias("word")), dict(zip(letters, names, strict=True))


def _frames(
    words: list[str], base: list[float], me: list[float], names: dict[str, str], limit: float
) -> list[_Frame]:
    """All frames in pre-order: callees by name, then one frame for all minor callees."""
    frames: list[_Frame] = []
    todo = [_Frame(None, ROOT, 0, [slice(0, len(words))])]
    while todo:
        node, frame = len(frames), todo.pop()
        frames.append(frame)
        if frame.is_folded:
            continue
        depth, at, end = frame.depth, frame.rows[0].start, frame.rows[0].stop
        at += len(words[at]) == depth  # skips the stack that ends at this frame
        callees, minor = [], []
        while at < end:
            letter = words[at][depth]
            below = slice(at, bisect_right(words, letter, at, end, key=lambda word: word[depth]))
            if max(sum(base[below]), sum(me[below])) < limit:
                minor.append(below)
            else:
                callees.append(_Frame(node, names[letter], depth + 1, [below]))
            at = below.stop
        if minor:
            todo.append(_Frame(node, f"({len(minor)} minor)", depth + 1, minor, is_folded=True))
        todo.extend(reversed(callees))
    return frames


def _means(pair: Pair, by: pl.Expr) -> pl.DataFrame:
    """The costs of each stack by round, and the means over the rounds of base and of me, sorted by stack."""
    rows = pair.rows.select(by, "component", *pair.columns)
    name = rows.columns[0]
    sums = rows.group_by(name).agg(pl.col("component").first(), pl.col(pair.columns).sum())
    return sums.sort(name).with_columns(pair.mean(BASE).alias(BASE), pair.mean(ME).alias(ME))


def _folded(pair: Pair, columns: list[str]) -> str:
    # A `;` in a name would end the frame, and a line break would end the stack.
    frame = pl.element().str.replace_all(";", ":", literal=True).str.replace_all(r"[\r\n\t]", " ")
    means = _means(pair, pl.col("stack")).select(
        pl.col("stack").list.eval(frame).list.join(";").alias("stack"),
        *((pl.col(column) * FOLDED_PER_UNIT).round().cast(pl.Int64).alias(column) for column in columns),
    )
    line = pl.concat_str("stack", *(pl.col(column).cast(pl.String) for column in columns), separator=" ")
    return "\n".join([*means.filter(pl.max_horizontal(columns) > 0).select(line).to_series(), ""])
