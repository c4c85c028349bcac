"""The cost of single instruments of the performance schema: a scenario is divided into parts (groups of instruments),
and expensive parts are divided again on the next level."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from rqps import show
from rqps.engines.mysql.perf_schema import KEY, fits
from rqps.numbers import formatted
from rqps.pages import FirstPage
from rqps.show import Claim, Clause, Row, finding, phrase
from rqps.show.claims import Reading
from rqps.stats.metrics import CPU, INSTRUCTIONS
from rqps.stats.scenario_parts import as_tree
from rqps.stats.scenarios import events_per_statement, scenario_costs, with_events
from rqps.store.read import Study, load_levels
from rqps.terminal import in_columns

NOT_DIVIDED = "This study has no measured parts: with `measure_parts_of`, `rqps run` measures them after all rounds."
FRAME = "instruments"


def instrument_costs(levels: Sequence[Study]) -> pl.DataFrame:
    """The cost of each part per step, as rows of a tree: `parent` is the part of the level above. The most expensive
    part comes first, by instructions if these were counted on all levels, else by the server's CPU time."""
    rows = pl.concat(_of_level(number, level) for number, level in enumerate(levels))
    if len(levels) < 2 or rows.is_empty():
        nothing = rows.clear().drop("patterns")
        return nothing.with_columns(pl.lit(None, pl.String).alias(name) for name in ("parent", "row"))
    return as_tree(rows.with_columns(_parents(rows)))


def frame(study: Study) -> pl.DataFrame:
    """The tree of a study's instruments; the numbers of the headline are recomputed from this frame."""
    return instrument_costs(load_levels(study.place))


def largest(costs: pl.DataFrame) -> Clause:
    """A sentence on the total cost of the scenario, its most expensive kind of instruments and its most expensive
    single instrument. Costs are counted instructions or, if none were counted, the CPU time of parts whose cost is
    conclusive. Empty if no parts were measured."""
    first = costs if costs.is_empty() else costs.filter(step=costs["step"][0])
    if first["level"].max() in (None, 0):
        return Clause("")
    column, form, unit = (
        ("added_instructions", ",.0f", "instructions") if _counted(first) else ("added", ",.1f", "µs of CPU")
    )

    def amount(row: Row, of: dict[str, Any], reading: Reading = "highest") -> Clause:
        number = formatted(row[column], form)
        return Clause(
            f"{number} {unit}", [Claim(FRAME, {"step": row["step"], **of}, row[column], column, reading, number)]
        )

    all_enabled = first.row(0, named=True)

    def share(row: Row) -> str:
        return f" ({formatted(100 * row[column] / all_enabled[column], '.0f')} %)"

    all_adds = phrase("Of the {} that {part} adds to {step}", amount(all_enabled, {"level": 0}), **all_enabled)
    parts = first.filter(pl.col("level") > 0)
    rows = (parts if _counted(first) else parts.filter(verdict="slower")).sort(column, descending=True).to_dicts()
    if not rows:
        return finding(f"{all_adds}, no part has a conclusive cost")
    kind = next((row for row in rows if row["level"] == 1), rows[0])
    text = "{}, {} costs most: {} per operation{}"
    most = phrase(text, all_adds, kind["part"], amount(kind, {"level": kind["level"]}), share(kind))
    singles = [row for row in rows if row["level"] > 1 and not {"%", ","} & set(row["part"])]
    if not singles:
        return finding(most)
    of_singles = {"part": [row["part"] for row in singles]}
    text = "of single instruments, which are parts of such groups, {} costs most: {}{}"
    return finding(most, phrase(text, singles[0]["part"], amount(singles[0], of_singles), share(singles[0])))


def on_first_page(page: FirstPage) -> FirstPage:
    """Makes the most expensive instruments the headline if the parts of a scenario were measured."""
    return replace(page, headline=largest(frame(page.study)) or page.headline)


def _of_level(number: int, study: Study) -> pl.DataFrame:
    costs = scenario_costs(study).filter(base=study.card.base)
    keys = ["host", "step", "dbms"]
    instructions = costs.filter(metric=INSTRUCTIONS)
    named = costs.select("dbms", patterns=pl.concat_list("scenario")).unique("dbms")
    beside = instructions.select(*keys, instructions="estimate", added_instructions="added")
    return (
        with_events(costs.filter(metric=CPU), events_per_statement(study))
        .join(beside, on=keys, how="left", maintain_order="left")
        .join(_patterns(study) if number else named, on="dbms", how="left", maintain_order="left")
        .with_columns(level=pl.lit(number, pl.Int32), part=pl.col("patterns").list.join(", "))
    )


def _patterns(study: Study) -> pl.DataFrame:
    """The patterns of the instruments that each dbms of a level records, as written in the dbms's config."""
    asked = study.manifests.select("folder", "asked").collect().join(study.runs.select("folder", "dbms"), on="folder")
    rows = []
    for dbms, text in asked.unique("dbms").select("dbms", "asked").rows():
        switches = json.loads(text).get(KEY, {}).get("instruments", {})
        rows.append({"dbms": dbms, "patterns": [pattern for pattern, state in switches.items() if state != "off"]})
    return pl.DataFrame(rows, schema={"dbms": pl.String, "patterns": pl.List(pl.String)})


def _parents(rows: pl.DataFrame) -> pl.Series:
    """The parent of each row: the part of the level above whose pattern fits the row's first instrument, or else the
    first part of that level. Level 0 has one part, the whole scenario."""
    parts: dict[int, dict[str, list[str]]] = {}
    for level, part, patterns in rows.select("level", "part", "patterns").rows():
        parts.setdefault(level, {})[part] = patterns
    parents = []
    for level, patterns in rows.select("level", "patterns").rows():
        above = parts.get(level - 1, {})
        fitting = (part for part, others in above.items() if any(fits(pattern, patterns[0]) for pattern in others))
        parents.append(next(fitting, next(iter(above), None)))
    return pl.Series("parent", parents, pl.String)


def instrument_text(costs: pl.DataFrame) -> str:
    """The tree as text. A line has the µs of CPU per operation that a part adds, with interval and verdict; its
    instructions and events per operation; and the ns and instructions per event."""
    if costs.is_empty():
        return NOT_DIVIDED
    lines = [["part", "added, µs/o", "instructions", "events", "ns each", "i. each"]]
    for (step,), rows in costs.group_by("step", maintain_order=True):
        lines += [[""], [str(step)]]
        lines += map(_line, rows.to_dicts())
    return "\n".join(in_columns(lines))


def _line(row: Row) -> list[str]:
    counted, events = row["added_instructions"], row["per_statement"]
    sign, reach = show.COST_SIGNS[row["verdict"]], show.interval_of(row, "+.2f", "added")
    return [
        f"{'  ' * row['level']}{row['part']}",
        f"{sign} {formatted(row['added'], '+.2f')} ({reach}) n={row['n']}",
        "–" if counted is None else formatted(counted, "+,.0f"),
        "–" if events is None else formatted(events, ",.1f"),
        "?" if row["each_ns"] is None else formatted(row["each_ns"], ",.0f"),
        "–" if counted is None or not events else formatted(counted / events, ",.0f"),
    ]


def _counted(costs: pl.DataFrame) -> bool:
    return costs["added_instructions"].null_count() == 0
