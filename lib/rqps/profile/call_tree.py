"""The call tree of base and me, with vanished and new paths, and all stacks for flame graph makers and speedscope.

Each name is one letter here, and so a stack is a word. Words are sorted, so that those below a frame stand together:
bisection finds where its callees begin and end, and every sum is over rows as they were measured.
"""

import json
from bisect import bisect_right
from collections import Counter
from itertools import chain, islice
from typing import NamedTuple

import polars as pl

from rqps.profile.breakdown import INSTRUCTIONS, MICROSECONDS
from rqps.profile.components import components_of_frames
from rqps.profile.pair import BASE, ME, Pair, one_pair, pairs

ROOT = "all"
FOLD_BELOW = 0.001

# The root has no parent. Costs are means of the rounds, per operation; `error` is that of the difference of totals.
_COSTS = ("base_self", "me_self", "base_total", "me_total", "error")
TREE = pl.Schema(
    {
        **dict.fromkeys(("node", "parent"), pl.Int32),
        **dict.fromkeys(("name", "component"), pl.String),
        **dict.fromkeys(_COSTS, pl.Float64),
    }
)
FOLDED_PER_UNIT = 1_000_000
"""Folded stacks are whole numbers: millionths of a µs or of an instruction, so that rounding loses nothing."""

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
KEYS = dict.fromkeys(("host", "step", "dbms"), pl.String)

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


def folded(costs: pl.DataFrame, dbms: str, step: str) -> str:
    """One line per stack, `frame;frame;frame cost`, as flamegraph.pl and inferno-flamegraph read it.

    Costs are in millionths of a µs (or of an instruction) per operation, the mean of the rounds.
    """
    return _folded(one_pair(costs, dbms, dbms, step), [BASE])


def folded_difference(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """The same with the costs of base and me in each line, for a differential flame graph."""
    return _folded(one_pair(costs, base, me, step), [BASE, ME])


def speedscope(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """Both sides as two profiles of one file, in speedscope's own format."""
    pair = one_pair(costs, base, me, step)
    rows = _means(pair)
    names = rows["stack"].explode(empty_as_null=False).unique(maintain_order=True).to_list()
    number_of = {name: number for number, name in enumerate(names)}
    unit, its_unit = (INSTRUCTIONS, "none") if pair.counted else (MICROSECONDS, "microseconds")
    profiles = []
    for dbms, side in ((base, BASE), (me, ME)):
        there = rows.filter(pl.col(side) > 0)
        head = {"type": "sampled", "name": f"{dbms}, {step}, {unit}", "unit": its_unit, "startValue": 0}
        samples = [[number_of[name] for name in stack] for stack in there["stack"]]
        profiles.append(head | {"endValue": there[side].sum(), "samples": samples, "weights": there[side].to_list()})
    document = {
        "$schema": SPEEDSCOPE_SCHEMA,
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
    rows: list[_Rows]
    own: int | None  # the row of the stack whose last frame this is
    folded: bool


def _tree(pair: Pair, fold_below: float) -> pl.DataFrame:
    rows, letters = _as_words(pair)
    limit = fold_below * max(pair.measured(BASE), pair.measured(ME))
    frames = _frames(rows["word"].to_list(), rows[BASE].to_list(), rows[ME].to_list(), letters, limit)
    return _table(frames, rows, pair)


def _as_words(pair: Pair) -> tuple[pl.DataFrame, dict[str, str]]:
    """One row per stack, as a word; sorted, callers before what they call. And the name that a letter stands for."""
    names = pair.rows["stack"].explode(empty_as_null=False).unique().sort()
    codes = chain(range(0x100, 0xD800), range(0xE000, 0x110000))  # without those that are no letters by themselves
    letters = [chr(code) for code in islice(codes, len(names))]
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


def _frames(
    words: list[str], base: list[float], me: list[float], letters: dict[str, str], limit: float
) -> list[_Frame]:
    """All frames in pre-order, callees by name and behind them the one that stands for the minor ones."""
    frames: list[_Frame] = []
    todo: list[tuple[int | None, str, list[_Rows], int]] = [(None, ROOT, [(0, len(words))], 0)]
    while todo:
        parent, name, rows, depth = todo.pop()
        if depth < 0:
            frames.append(_Frame(parent, name, rows, None, True))
            continue
        ((at, end),) = rows
        ends_here = len(words[at]) == depth
        node = len(frames)
        frames.append(_Frame(parent, name, rows, at if ends_here else None, False))
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


def _table(frames: list[_Frame], rows: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    columns = {}
    for column in (BASE, ME, *pair.columns):
        values = rows[column].to_list()
        columns[column] = [sum(sum(values[at:end]) for at, end in frame.rows) for frame in frames]
        if column in (BASE, ME):
            columns[f"{column}_self"] = [
                total if frame.folded else 0.0 if frame.own is None else values[frame.own]
                for frame, total in zip(frames, columns[column], strict=True)
            ]
    parents, names = [frame.parent for frame in frames], [frame.name for frame in frames]
    component = components_of_frames(parents, names)
    costs = (rows["component"].to_list(), rows[BASE].to_list(), rows[ME].to_list())
    for node, frame in enumerate(frames):
        if frame.folded:
            component[node] = _most(frame.rows, *costs)
    tree = pl.DataFrame({**columns, "parent": parents, "name": names, "component": component})
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


def _means(pair: Pair) -> pl.DataFrame:
    """One row per stack, with the mean cost of each side."""
    sums = pair.rows.group_by("stack").agg(pl.col(pair.columns).sum())
    return sums.select("stack", pair.mean(BASE).alias(BASE), pair.mean(ME).alias(ME)).sort("stack")


def _folded(pair: Pair, columns: list[str]) -> str:
    # A ; would be a frame's end, and a line's end a stack's.
    frame = pl.element().str.replace_all(";", ":", literal=True).str.replace_all(r"[\r\n\t]", " ")
    whole = _means(pair).select(
        pl.col("stack").list.eval(frame).list.join(";").alias("stack"),
        *((pl.col(column) * FOLDED_PER_UNIT).round().cast(pl.Int64).alias(column) for column in columns),
    )
    line = pl.concat_str("stack", *(pl.col(column).cast(pl.String) for column in columns), separator=" ")
    return "\n".join([*whole.filter(pl.max_horizontal(columns) > 0).select(line).to_series(), ""])
