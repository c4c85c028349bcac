"""The cost of switching something on, in sentences for whoever runs a server; and instructions beside time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from rqps.engines.mysql.perf_schema import DEFAULT, DISABLED, ENABLED, OFF
from rqps.pages.perf_schema_overhead.parts import scenario_parts, step_on_build
from rqps.show import Column, Nothing, Row, Sentences, amount, rounds_of, table
from rqps.stats.metrics import INSTRUCTIONS
from rqps.stats.scenarios import ranked, scenario_costs
from rqps.stats.verdict import COVERAGE
from rqps.store.read import Study
from rqps.terminal import percent

_SAME = 0.006  # of an operation's instructions; two starts of one server differ by up to half of it
_KEYS = ["host", "build", "step", "scenario"]
MOST_ALONE = 6
"""Scenarios that a sentence names."""
_SUBJECTS = {
    DISABLED: "Having the performance schema on, with nothing enabled,",
    DEFAULT: "What the release enables by itself",
    ENABLED: "All of it",
}
_VERDICTS = {
    "slower": "costs {}",
    "faster": "saves, against all that is known of it, {}",
    "same": "changes {} by less than {percent}",
    "unsure": "has an unsure cost for {}",
}


def findings(costs: pl.DataFrame, study: Study) -> Sentences:
    """Time, and counted instructions, per build and scenario: the most expensive first; of which nothing is sure, in
    one sentence at the end."""
    several = costs["build"].n_unique() > 1
    instructions = instruction_costs(study, OFF)
    fewest = costs.filter(pl.col("clients") == pl.col("clients").min().over("build"))
    first = ranked(fewest.filter(pl.col("position") == pl.col("position").min()), descending=True)
    sentences, unsure = [], []
    for build, scenario in first.select("build", "scenario").rows():
        rows = fewest.filter(build=build, scenario=scenario).sort("position").to_dicts()
        by_count = instructions.filter(build=build, scenario=scenario).sort("position").to_dicts()
        where = f" on {build}" if several else ""
        each = ", ".join(f"{row['estimate'] - 1:+.1%} of {row['step']}" for row in by_count)
        beside = f" By instructions: {each}." if each else ""
        if beside or any(row["verdict"] != "unsure" for row in rows):
            sentences.append(f"{_subject(scenario)}{where} {_costs(rows)}.{beside}")
        else:
            unsure.append(f"{_lower(_subject(scenario))}{where} for {', '.join(map(_words, rows))}")
    return Sentences([*sentences, *([f"Unsure is what these cost: {'; '.join(unsure)}."] if unsure else [])])


def largest(study: Study, costs: pl.DataFrame) -> tuple[str, str, Row | None]:
    """The scenario that surely costs most and, of the same step and build, what the release enables by itself; what
    each scenario costs by release, or by instructions, or each part of all of it alone; and the row of the first."""
    sure = costs.filter(pl.col("verdict").is_in(["slower", "faster"])).sort("estimate", descending=True)
    if sure.is_empty():
        return f"The rounds show no scenario to cost CPU time in any of {costs.height} comparisons.", "", None
    several = costs["build"].n_unique() > 1
    row = sure.row(0, named=True)
    where = f" on {row['build']}" if several else ""
    alike = costs.filter(host=row["host"], step=row["step"])
    first = f"{_subject(row['scenario'])}{where} costs most: {_words(row).replace(' µs', ' µs of CPU', 1)}"
    if row["scenario"] != DEFAULT:
        others = alike.filter(pl.col("verdict") != "unsure", build=row["build"], scenario=DEFAULT).to_dicts()
        first += "".join(f"; {_lower(_subject(DEFAULT))} {_costs([each])}" for each in others)
    if several:
        return f"{first}.", _by_release(alike), row
    by_count = instruction_costs(study, DISABLED)
    return f"{first}.", _counted(by_count.filter(step=row["step"])) or _alone(study, row), row


def _by_release(costs: pl.DataFrame) -> str:
    """The cost of each scenario in each release, of one step."""

    def written(row: Row) -> str:
        share = "unsure" if row["verdict"] == "unsure" else f"{row['estimate'] - 1:+.0%}"
        return share if row["low"] is None else f"{share} ({row['low'] - 1:+.0%} to {row['high'] - 1:+.0%})"

    parts = []
    for (scenario,), rows in costs.sort("build").group_by("scenario", maintain_order=True):
        each = ", ".join(f"{row['build']} {written(row)}" for row in rows.to_dicts())
        parts.append(f"{_lower(_subject(str(scenario)))}: {each}")
    return f"By release, {costs['step'][0]}: {'; '.join(parts)}."


def _counted(costs: pl.DataFrame) -> str:
    """The instructions that each scenario adds to all-disabled, of one step; nothing where none were counted."""
    parts = costs.filter(pl.col("scenario") != OFF).sort("added", descending=True)
    added = dict(parts.select("scenario", "added").rows())
    enabled = added.pop(ENABLED, None)
    if enabled is None or not added:
        return ""
    counts = [f"{_short(name)} {count:,.0f}" for name, count in added.items()]
    sentence = f"By instructions, of {enabled:,.0f} that all of it adds to nothing enabled, each alone: "
    sentence += ", ".join(counts[:MOST_ALONE])
    with_digests, without = (added.get(name) for name in ("statements-only", "statements-without-digests"))
    if with_digests and without is not None:
        sentence += f"; of those of statements {with_digests - without:,.0f} are digests"
    return f"{sentence}."


def _alone(study: Study, row: Row) -> str:
    """The server CPU of the parts of all of it, each alone, where the rounds show it."""
    parts = scenario_parts(study)
    if not parts.is_empty():
        alone = parts.filter(host=row["host"], step=row["step"], role="part")
        parts = alone.filter(pl.col("low") > 0).sort("estimate", descending=True)
    costs = [f"{_short(part['scenario'])} costs {amount(part, ',.2f', 'µs')}" for part in parts.to_dicts()]
    return f"Of what can be recorded, each alone beside nothing enabled, {', '.join(costs)}." if costs else ""


def _short(scenario: str) -> str:
    what = scenario.removesuffix("-only").replace("-", " ").replace("mdl", "metadata locks")
    return "what the release enables" if scenario == DEFAULT else what


def _subject(scenario: str) -> str:
    return _SUBJECTS.get(scenario, f"Recording {_short(scenario)}")


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def instruction_costs(study: Study, against: str) -> pl.DataFrame:
    """The tidy frame of instructions per operation of each scenario, with those that it adds; the fewest first."""
    found = scenario_costs(study).filter(metric=INSTRUCTIONS, against=against)
    return found.sort("host", "position", "build", "estimate", maintain_order=True)


def by_instructions(costs: pl.DataFrame, study: Study) -> list[Any]:
    """A table of the instructions that each scenario adds; and whether they agree with time, and add up."""
    found = instruction_costs(study, OFF)
    if found.is_empty():
        return [Nothing(["No run of this study had its instructions counted."])]
    shown = table(
        found.with_columns(step_on_build(found), pl.col("estimate") - 1),
        [
            Column("added", "instructions added", ",.0f"),
            Column("estimate", "more", "+.1%"),
            Column("base_estimate", "instructions without it", ",.0f"),
        ],
        name="ps-instructions",
        group="step",
        rows="scenario",
        note=f"Instructions of the server's own code for one operation, against {found['against'][0]}; "
        f"{rounds_of(found['n'])}. The same statements on every server; two starts of one server differ by 0.3 % of "
        "an operation.",
    )
    both = costs.join(found.select(*_KEYS, instructions="estimate"), on=_KEYS)
    roles = scenario_parts(study).filter(pl.col("role").is_in(["part", "whole"])).select(*_KEYS, "role")
    parts = instruction_costs(study, DISABLED).join(roles, on=_KEYS, maintain_order="left")
    return [shown, Sentences([*_each_step(both, _same_order), *_each_step(parts, _adds_up)])]


def _each_step(frame: pl.DataFrame, sentence: Callable[[pl.DataFrame], str]) -> Iterator[str]:
    for (build, step), rows in frame.group_by("build", "step", maintain_order=True):
        if said := sentence(rows):
            yield f"{step} on {build}: {said}"


def _same_order(rows: pl.DataFrame) -> str:
    """Counts the scenarios that time separates and that instructions put in the same order."""
    known = [row for row in rows.to_dicts() if row["low"] is not None]
    pairs = [(one, other) for one in known for other in known if one["low"] > other["high"]]
    if not pairs:
        return f"CPU time separates no two of {rows.height} scenarios."
    against = [
        f"{one['scenario']} and {other['scenario']}"
        for one, other in pairs
        if one["instructions"] < other["instructions"] - _SAME
    ]
    agree = str(len(pairs) - len(against)) if against else "all"
    other = f"; in the other order are {', '.join(against)}" if against else ""
    return (
        f"of {rows.height * (rows.height - 1) // 2} pairs of scenarios, CPU time separates {len(pairs)}, and "
        f"instructions put {agree} of these in the same order{other}."
    )


def _adds_up(rows: pl.DataFrame) -> str:
    """Instructions that the parts add to all-disabled together, and those that everything at once adds."""
    whole = sum(rows.filter(role="whole")["added"])
    parts = rows.filter(role="part").sort("added", descending=True)
    if not whole or parts.is_empty():
        return ""
    each = ", ".join(f"{name} {count:,.0f}" for name, count in parts.select("scenario", "added").rows())
    return (
        f"all-enabled adds {whole:,.0f} instructions to an operation; its parts add {each}, together "
        f"{parts['added'].sum() / whole:.0%} of that."
    )


def _costs(rows: Sequence[Row]) -> str:
    """`costs 21.40 µs of CPU for point-query (+35%, +33% to +37%); it changes scan by less than 2 %`."""
    parts = []
    for verdict, sentence in _VERDICTS.items():
        if each := [_words(row) for row in rows if row["verdict"] == verdict]:
            listed = (" and " if verdict == "same" else ", ").join(each)
            listed = listed.replace(" µs", " µs of CPU", 1)
            parts.append(sentence.format(listed, percent=percent(rows[0]["smallest_effect"])))
    return "; it ".join(parts)


def _words(row: Row) -> str:
    if row["verdict"] == "same":
        return str(row["step"])
    reach = "one round" if row["low"] is None else f"{row['low'] - 1:+.0%} to {row['high'] - 1:+.0%}"
    if row["verdict"] == "unsure":
        return f"{row['step']} ({reach})"
    weak = "" if row["coverage"] >= COVERAGE else f" at {row['coverage']:.0%}"
    return f"{abs(row['added']):,.2f} µs for {row['step']} ({row['estimate'] - 1:+.0%}, {reach}{weak})"
