"""The tree of parts: the cost of each part of a scenario that was divided, level by level."""

from collections.abc import Iterator, Sequence

import polars as pl
from great_tables import GT

from rqps.profile.instructions import COUNTED, instructions_per_operation
from rqps.stats.scenarios import (
    events_per_statement,
    scenario_costs,
    scenario_rounds,
    scenarios,
    with_added,
    with_events,
)
from rqps.store.read import Study
from rqps.study.perf_schema import fits
from rqps.view import table


def instrument_costs(levels: Sequence[Study], counted: Sequence[Study] = ()) -> pl.DataFrame:
    """The tidy frame of server CPU, one row per part and step, with events and instructions, in the order of a tree.

    `level` 0 is the whole, `part` its patterns, `parent` the part that it was taken from. Each level is compared with
    its own base. Below a part come its own parts, the most expensive first: by instructions where the same levels
    have them `counted`, else by time. A study that was not divided has no rows.
    """
    by_name = {study.card.study: study for study in counted}
    rows = pl.concat(_of_level(number, each, by_name.get(each.card.study)) for number, each in enumerate(levels))
    if len(levels) < 2 or rows.is_empty():
        return rows.clear().with_columns(parent=pl.lit(None, pl.String))
    return _as_tree(rows.with_columns(_parents(rows)))


def sums_table(costs: pl.DataFrame) -> GT:
    """A table of the cost of each part that was divided, beside the sum and the number of its own parts."""
    counted = pl.col("added_instructions")
    together = (
        costs.drop_nulls("parent")
        .group_by("step", parts_of="parent", maintain_order=True)
        .agg(
            sum_us=pl.col("added").sum(),
            sum_instructions=pl.when(counted.null_count() == 0).then(counted.sum()),
            parts=pl.len().cast(pl.Int32),
        )
    )
    reach = {f"{name}_us": name for name in ("added", "added_low", "added_high")}
    wholes = costs.select("step", "level", **reach, added_instructions="added_instructions", parts_of="part")
    joined = wholes.join(together, on=["step", "parts_of"], maintain_order="left")
    return table(joined.sort("step", "level", maintain_order=True), name="sums")


def _of_level(number: int, study: Study, counted: Study | None) -> pl.DataFrame:
    against = next(iter(scenarios(study).filter(dbms=study.card.base)["scenario"]), "")
    costs = instructions = scenario_costs(study, against)
    if counted:
        values = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
        instructions = with_added(scenario_rounds(counted, values.filter(metric=COUNTED), against))
    keys = ["host", "step", "build", "scenario"]
    beside = instructions.select(*keys, instructions="median", added_instructions="added")
    return (
        with_events(costs, events_per_statement(study))
        .join(beside if counted else beside.clear(), on=keys, how="left", maintain_order="left")
        .with_columns(level=pl.lit(number, pl.Int32), part=pl.col("scenario").map_elements(_label, pl.String))
    )


def _label(scenario: str) -> str:
    """The instruments of a scenario of one's own, without how they are switched; a name stays.

    >>> _label("wait/io/% timed, idle counted, events_waits_current on"), _label("all-enabled")
    ('wait/io/%, idle', 'all-enabled')
    """
    words = [word.rsplit(" ", 1) for word in scenario.split(", ")]
    instruments = [word[0] for word in words if word[-1] in ("timed", "counted")]
    return ", ".join(instruments) or scenario


def _parents(rows: pl.DataFrame) -> pl.Series:
    """The part of the level above that each row's first pattern fits; the whole for rows of level 1."""
    above = dict(rows.group_by("level").agg(pl.col("part").unique(maintain_order=True)).rows())
    parents = []
    for level, part in rows.select("level", "part").rows():
        candidates, first = above.get(level - 1, []), part.split(", ")[0]
        fitting = (each for each in candidates if any(fits(pattern, first) for pattern in each.split(", ")))
        parents.append(next(fitting, candidates[0] if candidates else None))
    return pl.Series("parent", parents, pl.String)


def _as_tree(rows: pl.DataFrame) -> pl.DataFrame:
    """Sorted so that below a part come its own parts, the most expensive first."""
    by = "added_instructions" if rows["added_instructions"].null_count() == 0 else "added"
    ordered = rows.sort("step", by, descending=[False, True])
    siblings = ordered.partition_by("step", "level", "parent", as_dict=True)

    def below(step: str, level: int, parent: str | None) -> Iterator[pl.DataFrame]:
        for row in siblings.get((step, level, parent), rows.clear()).iter_slices(1):
            yield row
            yield from below(step, level + 1, row["part"].item())

    return pl.concat(row for step in ordered["step"].unique(maintain_order=True) for row in below(step, 0, None))
