"""Scenarios by instructions, counted one by one, and whether time puts them in the same order."""

from collections.abc import Iterator

import polars as pl

from rqps.profile.instructions import COUNTED, instructions_per_operation
from rqps.stats.relative import paired

_ADDED = "added_instructions"
_SAME = 0.006
"""Of an operation's instructions: two starts of one server lie up to half of this apart."""


def scenario_instructions(
    instructions: pl.LazyFrame, steps: pl.DataFrame, runs: pl.DataFrame, named: pl.DataFrame, against: str
) -> pl.DataFrame:
    """One row a step and scenario: instructions of an operation that it adds to the same build's in `against`.

    `steps` and `runs` are those in which instructions were counted.
    """
    bases = named.filter(scenario=against).select("build", base="dbms")
    pairs = named.join(bases, on="build").filter(pl.col("dbms") != pl.col("base")).select("base", "dbms").rows()
    values = instructions_per_operation(instructions, steps, runs) if not runs.is_empty() else None
    if values is None or values.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    keys = ["host", "step", "position", "base", "dbms", "build"]
    return (
        paired(values.filter(metric=COUNTED), pairs)
        .join(named.select("dbms", "scenario"), on="dbms", maintain_order="left")
        .group_by(*keys, "scenario", maintain_order=True)
        .agg(
            pl.col("base_value").median().alias("base_instructions"),
            (pl.col("me_value") - pl.col("base_value")).median().alias("added_instructions"),
            pl.col("ratio").median().alias("instructions"),
            pl.len().cast(pl.Int32).alias("counted_rounds"),
        )
        .with_columns(against=pl.lit(against))
        .select(*_SCHEMA)
        .sort("host", "position", "build", "instructions", maintain_order=True)
    )


_SCHEMA: dict[str, type[pl.DataType]] = {
    "host": pl.String,
    "step": pl.String,
    "position": pl.Int32,
    "build": pl.String,
    "base": pl.String,
    "dbms": pl.String,
    "scenario": pl.String,
    "against": pl.String,
    "base_instructions": pl.Float64,
    "added_instructions": pl.Float64,
    "instructions": pl.Float64,
    "counted_rounds": pl.Int32,
}


def same_order(costs: pl.DataFrame, counted: pl.DataFrame) -> tuple[str, ...]:
    """Sentences, one a step: of the scenarios that time tells apart, how many instructions put in the same order."""
    if counted.is_empty():
        return ("No run of this study had its instructions counted.",)
    keys = ["host", "build", "step", "scenario"]
    both = costs.join(counted.select(*keys, "instructions"), on=keys)
    sentences = []
    for (build, step), rows in both.group_by("build", "step", maintain_order=True):
        pairs = list(_told_apart(rows))
        against = [f"{a} and {b}" for a, b, ratio_a, ratio_b in pairs if ratio_a < ratio_b - _SAME]
        every = rows.height * (rows.height - 1) // 2
        agree = str(len(pairs) - len(against)) if against else "all"
        other = f"; in the other order are {', '.join(against)}" if against else ""
        sentences.append(
            f"{step} on {build}: of {every} pairs of scenarios, CPU time tells {len(pairs)} apart, and instructions "
            f"put {agree} of these in the same order{other}."
            if pairs
            else f"{step} on {build}: CPU time tells no two of {rows.height} scenarios apart."
        )
    return tuple(sentences)


def parts_by_instructions(counted: pl.DataFrame, parts: pl.DataFrame) -> tuple[str, ...]:
    """Sentences, one a step: what the parts add together by instructions, and what everything at once adds.

    `counted` is against all-disabled, and `parts` says which scenarios are parts.
    """
    keys = ["host", "build", "step", "scenario"]
    kinds = parts.filter(pl.col("kind").is_in(["part", "whole"])).select(*keys, "kind")
    both = counted.join(kinds, on=keys, maintain_order="left")
    sentences = []
    for (build, step), rows in both.group_by("build", "step", maintain_order=True):
        whole = sum(rows.filter(kind="whole")[_ADDED].to_list())
        of_parts = rows.filter(kind="part").sort(_ADDED, descending=True)
        together = sum(of_parts[_ADDED].to_list())
        if whole and of_parts.height:
            each = ", ".join(f"{name} {count:,.0f}" for name, count in of_parts.select("scenario", _ADDED).rows())
            sentences.append(
                f"{step} on {build}: all-enabled adds {whole:,.0f} instructions to an operation; its parts add "
                f"{each}, together {together / whole:.0%} of that."
            )
    return tuple(sentences)


def _told_apart(rows: pl.DataFrame) -> Iterator[tuple[str, str, float, float]]:
    """Pairs, the dearer first, whose intervals of CPU time do not meet; with their instructions."""
    known = [row for row in rows.to_dicts() if row["cpu_low"] is not None]
    for one in known:
        for other in known:
            if one["cpu_low"] > other["cpu_high"]:
                yield one["scenario"], other["scenario"], one["instructions"], other["instructions"]
