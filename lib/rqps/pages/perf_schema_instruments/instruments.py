"""Instrument by instrument: what each part of a scenario that was taken apart costs, level by level."""

from collections.abc import Sequence

import polars as pl

from rqps.pages.perf_schema_overhead.counted import scenario_instructions
from rqps.stats.perf_schema import (
    event_costs,
    events_per_statement,
    scenario_costs,
    scenario_ratios,
    scenarios,
)
from rqps.store.read import Study
from rqps.study.perf_schema import fits

_SCHEMA: dict[str, type[pl.DataType]] = {
    "level": pl.Int32,
    "part": pl.String,
    "parent": pl.String,
    "host": pl.String,
    "build": pl.String,
    "step": pl.String,
    "against": pl.String,
    "n": pl.Int32,
    "added_us": pl.Float64,
    "added_low_us": pl.Float64,
    "added_high_us": pl.Float64,
    "base_us": pl.Float64,
    "cpu_ratio": pl.Float64,
    "cpu_low": pl.Float64,
    "cpu_high": pl.Float64,
    "coverage": pl.Float64,
    "verdict": pl.String,
    "needs": pl.String,
    "per_statement": pl.Float64,
    "each_ns": pl.Float64,
    "added_instructions": pl.Float64,
    "instructions": pl.Float64,
}


def instrument_costs(levels: Sequence[Study], counted: Sequence[Study] = ()) -> pl.DataFrame:
    """One row a part and step: `level` 0 is the whole, `part` its patterns, `parent` the part that it was taken from.

    Each level is held against its own base. Rows are in the order of a tree: below a part come its own parts, the
    dearest first: by instructions where the same levels have them `counted`, else by time. A study that was not taken
    apart has none.
    """
    if len(levels) < 2:
        return pl.DataFrame(schema=_SCHEMA)
    by_name = {study.card.study: study for study in counted}
    found = [_of_level(number, study, by_name.get(study.card.study)) for number, study in enumerate(levels)]
    rows = pl.concat([pl.DataFrame(schema=_SCHEMA), *found])
    if rows.is_empty():
        return rows
    return _as_tree(rows.with_columns(_parents(rows)))


def sums_of_parts(costs: pl.DataFrame) -> pl.DataFrame:
    """Of every part that was taken apart: what it adds, what its own parts add together, and how many those are."""
    parts = costs.drop_nulls("parent").group_by("step", parts_of="parent", maintain_order=True)
    counted = pl.col("added_instructions")
    together = parts.agg(
        pl.col("added_us").sum().alias("sum_us"),
        pl.when(counted.null_count() == 0).then(counted.sum()).alias("sum_instructions"),
        pl.len().cast(pl.Int32).alias("parts"),
    )
    wholes = costs.select(
        "step", "level", "added_us", "added_low_us", "added_high_us", "added_instructions", parts_of="part"
    )
    return wholes.join(together, on=["step", "parts_of"], maintain_order="left").sort(
        "step", "level", maintain_order=True
    )


def _of_level(number: int, study: Study, counted: Study | None) -> pl.DataFrame:
    named = scenarios(study.runs, study.conditions)
    base = named.filter(dbms=study.card.base)["scenario"]
    if base.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    costs = scenario_costs(scenario_ratios(study.steps, study.runs, named, base.item()))
    keys = ["host", "step", "build", "scenario"]
    each = event_costs(events_per_statement(study.status, named), costs).select(*keys, "per_statement", "each_ns")
    return (
        costs.join(each, on=keys, how="left", maintain_order="left")
        .join(_instructions(counted, base.item(), keys), on=keys, how="left", maintain_order="left")
        .with_columns(
            level=pl.lit(number, pl.Int32),
            part=pl.col("scenario").map_elements(_label, pl.String),
            parent=pl.lit(None, pl.String),
        )
        .select(*_SCHEMA)
    )


def _instructions(counted: Study | None, against: str, keys: list[str]) -> pl.DataFrame:
    if counted is None:
        none = [pl.lit(None, pl.Float64).alias(name) for name in ("added_instructions", "instructions")]
        return pl.DataFrame(schema=dict.fromkeys(keys, pl.String)).with_columns(none)
    named = scenarios(counted.runs, counted.conditions)
    found = scenario_instructions(counted.instructions, counted.steps, counted.runs, named, against)
    return found.select(*keys, "added_instructions", "instructions")


def _label(scenario: str) -> str:
    """The instruments of a scenario of one's own, without how they are switched; a name stays.

    >>> _label("wait/io/% timed, idle counted, events_waits_current on"), _label("all-enabled")
    ('wait/io/%, idle', 'all-enabled')
    """
    words = [word.rsplit(" ", 1) for word in scenario.split(", ")]
    instruments = [word[0] for word in words if word[-1] in ("timed", "counted")]
    return ", ".join(instruments) or scenario


def _parents(rows: pl.DataFrame) -> pl.Series:
    """For each row the part of the level above that its first pattern fits; the whole for those of level 1."""
    above: dict[int, list[str]] = {}
    for level, part in rows.select("level", "part").unique(maintain_order=True).rows():
        above.setdefault(level, []).append(part)
    parents = [_parent(part, above.get(level - 1, [])) for level, part in rows.select("level", "part").rows()]
    return pl.Series("parent", parents, pl.String)


def _parent(part: str, candidates: Sequence[str]) -> str | None:
    first = part.split(", ")[0]
    for candidate in candidates:
        if any(fits(pattern, first) for pattern in candidate.split(", ")):
            return candidate
    return candidates[0] if candidates else None


def _as_tree(rows: pl.DataFrame) -> pl.DataFrame:
    """Sorted so that below a part come its own parts, the dearest first."""
    known = rows["added_instructions"].null_count() == 0
    ordered = rows.sort("step", "added_instructions" if known else "added_us", descending=[False, True])
    places: list[int] = []
    by_parent: dict[tuple[str, int, str | None], list[int]] = {}
    for place, (step, level, parent) in enumerate(ordered.select("step", "level", "parent").rows()):
        by_parent.setdefault((step, level, parent), []).append(place)
    parts = ordered["part"].to_list()

    def below(step: str, level: int, parent: str | None) -> None:
        for place in by_parent.get((step, level, parent), []):
            places.append(place)
            below(step, level + 1, parts[place])

    for step in ordered["step"].unique(maintain_order=True):
        below(step, 0, None)
    return ordered[places]
