"""Profiles for other tools: folded stacks for flame graph makers, JSON for speedscope."""

import json

import polars as pl

from rqps.profile.breakdown import INSTRUCTIONS, MICROSECONDS
from rqps.profile.pair import BASE, ME, Pair, one_pair

FOLDED_PER_UNIT = 1_000_000
"""Folded stacks are whole numbers: millionths of a µs or of an instruction, so that rounding loses nothing."""

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def folded(costs: pl.DataFrame, dbms: str, step: str) -> str:
    """One line per stack, `frame;frame;frame cost`, as flamegraph.pl and inferno-flamegraph read it.

    Costs are in millionths of a µs (or of an instruction) per operation, the mean of the rounds.
    """
    return _lines(_means(one_pair(costs, dbms, dbms, step)), [BASE])


def folded_difference(costs: pl.DataFrame, base: str, me: str, step: str) -> str:
    """The same with the costs of base and me in each line, for a differential flame graph."""
    return _lines(_means(one_pair(costs, base, me, step)), [BASE, ME])


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
        profiles.append(
            {
                "type": "sampled",
                "name": f"{dbms}, {step}, {unit}",
                "unit": its_unit,
                "startValue": 0,
                "endValue": there[side].sum(),
                "samples": [[number_of[name] for name in stack] for stack in there["stack"]],
                "weights": there[side].to_list(),
            }
        )
    document = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "name": f"{step}: {base} and {me}",
        "exporter": "rqps",
        "activeProfileIndex": 1,
        "shared": {"frames": [{"name": name} for name in names]},
        "profiles": profiles,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _means(pair: Pair) -> pl.DataFrame:
    """One row per stack, with the mean cost of each side."""
    sums = pair.rows.group_by("stack").agg(pl.col(pair.columns).sum())
    return sums.select("stack", pair.mean(BASE).alias(BASE), pair.mean(ME).alias(ME)).sort("stack")


def _lines(rows: pl.DataFrame, columns: list[str]) -> str:
    # A ; would be a frame's end, and a line's end a stack's.
    frame = pl.element().str.replace_all(";", ":", literal=True).str.replace_all(r"[\r\n\t]", " ")
    whole = rows.select(
        pl.col("stack").list.eval(frame).list.join(";").alias("stack"),
        *((pl.col(column) * FOLDED_PER_UNIT).round().cast(pl.Int64).alias(column) for column in columns),
    )
    line = pl.concat_str("stack", *(pl.col(column).cast(pl.String) for column in columns), separator=" ")
    return "\n".join([*whole.filter(pl.max_horizontal(columns) > 0).select(line).to_series(), ""])
