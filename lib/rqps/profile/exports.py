"""Profiles for other tools: folded stacks for flame graph makers, JSON for speedscope."""

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from rqps.profile.breakdown import INSTRUCTIONS, MICROSECONDS
from rqps.profile.sides import BASE, ME, Sides, one_pair

FOLDED_PER_UNIT = 1_000_000
"""Folded stacks are whole numbers: millionths of a µs or of an instruction, so that rounding loses nothing."""

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def folded(costs: pl.DataFrame, dbms: str, step: str) -> str:
    """One line a stack, `frame;frame;frame cost`, as flamegraph.pl and inferno-flamegraph read it.

    Costs are in millionths of a µs (or of an instruction) per operation, the mean of the rounds.
    """
    rows = _means(one_pair(costs, dbms, dbms, step))
    return _lines(rows, [BASE])


def folded_difference(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """The same with the costs of base and me in each line, for a differential flame graph."""
    return _lines(_means(one_pair(costs, base, me, step)), [BASE, ME])


def speedscope(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """Both sides as two profiles of one file, in speedscope's own format."""
    sides = one_pair(costs, base, me, step)
    rows = _means(sides)
    names = rows["stack"].explode(empty_as_null=False).unique(maintain_order=True).to_list()
    number_of = {name: number for number, name in enumerate(names)}
    paths = [[number_of[name] for name in stack] for stack in rows["stack"]]
    unit = INSTRUCTIONS if sides.counted else MICROSECONDS
    profiles = [
        _sampled(f"{dbms}, {step}, {unit}", "none" if sides.counted else "microseconds", paths, rows[side])
        for dbms, side in ((base, BASE), (me, ME))
    ]
    document = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "name": f"{step}: {base} and {me}",
        "exporter": "rqps",
        "activeProfileIndex": 1,
        "shared": {"frames": [{"name": name} for name in names]},
        "profiles": profiles,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _sampled(name: str, unit: str, paths: Sequence[Sequence[int]], costs: pl.Series) -> dict[str, Any]:
    there = [(path, cost) for path, cost in zip(paths, costs, strict=True) if cost > 0]
    weights = [cost for _, cost in there]
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [path for path, _ in there],
        "weights": weights,
    }


def _means(sides: Sides) -> pl.DataFrame:
    """One row a stack, with the mean cost of each side."""
    sums = sides.rows.group_by("stack").agg(pl.col(sides.columns).sum())
    return sums.select("stack", sides.mean(BASE).alias(BASE), sides.mean(ME).alias(ME)).sort("stack")


def _lines(rows: pl.DataFrame, sides: list[str]) -> str:
    # A ; would be a frame's end, and a line's end a stack's.
    frame = pl.element().str.replace_all(";", ":", literal=True).str.replace_all(r"[\r\n\t]", " ")
    whole = rows.select(
        pl.col("stack").list.eval(frame).list.join(";").alias("stack"),
        *((pl.col(side) * FOLDED_PER_UNIT).round().cast(pl.Int64).alias(side) for side in sides),
    )
    line = pl.concat_str("stack", *(pl.col(side).cast(pl.String) for side in sides), separator=" ")
    return "\n".join([*whole.filter(pl.max_horizontal(sides) > 0).select(line).to_series(), ""])
