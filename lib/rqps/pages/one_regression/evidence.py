"""The evidence on every question of a study: each step of one dbms against a base that makes sense for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from rqps import stats
from rqps.errors import RqpsError, instead
from rqps.profile import breakdown, flame_trees, in_layers, instruction_costs, stack_costs
from rqps.profile.breakdown import BREAKDOWN
from rqps.show import Row
from rqps.stats.metrics import instructions_per_operation
from rqps.store.manifest import read_study_card, studies, study_folder
from rqps.store.read import Study, load
from rqps.study import build_and_config

FOLD_BELOW = 0.003
"""The screen has the flame graphs of all questions: to stay small, each has only frames that show without zooming."""


class Question(NamedTuple):
    """One step of one dbms against a base."""

    host: str
    step: str
    base: str
    me: str


@dataclass(frozen=True)
class Evidence:
    """All that is known of a study's questions, as frames with the columns `host, step, base, dbms`."""

    study: Study
    first: Question
    """The question that was asked, or the one with the surest great difference."""
    rounds: pl.DataFrame
    compared: pl.DataFrame
    """The tidy frame with warnings, also of instructions where they were counted."""
    layers: pl.DataFrame
    components: pl.DataFrame
    functions: pl.DataFrame
    trees: pl.DataFrame
    status: pl.DataFrame
    """Status counters per operation, the most unlikely change first."""
    settings: pl.DataFrame
    """Variables in which the two servers differ, asked for or not."""
    warnings: pl.DataFrame
    what_ifs: pl.DataFrame
    """The tidy frame of what was measured by `rqps.what_if`, with its `change`."""

    @property
    def questions(self) -> tuple[Question, ...]:
        ratios = self.compared.filter(pl.col("metric").is_in(stats.THROUGHPUTS))
        found = ratios.select("host", "step", "base", "dbms").unique(maintain_order=True)
        return tuple(Question(*row) for row in found.iter_rows())

    def of(self, question: Question, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame that are about a question."""
        return frame.filter(host=question.host, step=question.step, base=question.base, dbms=question.me)


def gather(
    study: str, data: str | None = None, *, step: str = "", me: str = "", base: str = "", every: bool = True
) -> Evidence:
    """The evidence of a study. The question may be named in part; the rest is chosen by the surest great difference.

    Without `every`, of that question only, which is quicker.
    """
    measured = load(study, data)
    pairs = pairs_of(measured, base, me)
    counted = load(study, data, mode="instructions")
    rounds, compared = _compared(measured, counted, pairs)
    first = _chosen(compared, step, base, me)
    if not every:
        pairs = [(first.base, first.me)]
        rounds, compared = (
            frame.filter(step=first.step, base=first.base, dbms=first.me) for frame in (rounds, compared)
        )
    steps = compared["step"].unique().to_list()
    profiles = _profiles(load(study, data, mode="stacks"), counted, pairs, steps)
    status = measured.status.filter(pl.col("step").is_in(steps))
    return Evidence(
        study=measured,
        first=first,
        rounds=rounds,
        compared=compared,
        **profiles,
        status=stats.status_changes(status, measured.steps, pairs),
        settings=_settings(measured, pairs),
        warnings=stats.all_warnings(measured),
        what_ifs=_what_ifs(measured),
    )


def pairs_of(study: Study, base: str = "", me: str = "") -> list[tuple[str, str]]:
    """Each dbms beside the study's base, the same config of the release before, and the base's config of the same
    build; and the pair that is asked for."""
    runs, own = study.runs, study.card.base
    there = set(runs["dbms"])
    for name in filter(None, (base, me)):
        if name not in there:
            fix = "name one of the study's"
            raise RqpsError(
                f"{study.card.study}: no run of {name!r}; {instead(name, sorted(there), 'dbms')}", fix=fix
            )
    names = [dbms for dbms in stats.version_order(runs)["dbms"] if dbms in there]
    pairs = [(own, name) for name in names if name != own]
    before: dict[str, str] = {}
    for name in names:
        build, config = build_and_config(name)
        pairs += [(before[config], name)] if config in before else []
        before[config] = name
        pairs += [(f"{build}.{first}", name) for _, first in [build_and_config(own)] if f"{build}.{first}" in there]
    pairs += [(base, me)] if base and me else [(base, name) for name in names if base]
    return list(dict.fromkeys((of, name) for of, name in pairs if of != name))


def _compared(study: Study, counted: Study, pairs: list[tuple[str, str]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rounds and tidy frame of all pairs, with counted instructions; those with the study's base exactly as all other
    pages have them."""
    values = stats.measured(study, stats.COMPARED)
    if counted.runs.height:
        instructions = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
        values = pl.concat([values, instructions], how="diagonal")
    found = []
    for some in _one_base_each(pairs):
        paired = stats.rounds_of_pairs(values, some)
        found.append((paired, stats.in_tables(stats.compare(paired))))
    rounds, compared = (pl.concat(frames) for frames in zip(*found, strict=True)) if found else (None, None)
    if rounds is None or compared is None or compared.is_empty():
        raise RqpsError(
            f"{study.card.study}: no round has both its base and another dbms", fix="run the study again first"
        )
    return rounds, stats.with_warnings(compared, stats.all_warnings(study))


def _one_base_each(pairs: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The pairs in lists in which each dbms stands beside one base, the study's own first."""
    while pairs:
        some = {me: base for base, me in reversed(pairs)}
        yield [(base, me) for base, me in pairs if some[me] == base]
        pairs = [(base, me) for base, me in pairs if some[me] != base]


def _chosen(compared: pl.DataFrame, step: str, base: str, me: str) -> Question:
    """The question as far as it is named; of those, the one whose interval is farthest from 1."""
    for column, name in (("step", step), ("dbms", me), ("base", base)):
        if name and (known := compared[column].unique(maintain_order=True).to_list()) and name not in known:
            raise RqpsError(f"no {column} {name!r}; {instead(name, known, column + 's')}", fix="name one of these")
        compared = compared.filter(pl.col(column) == name) if name else compared
    if compared.is_empty():
        raise RqpsError(f"{step}: no round has both {base} and {me}", fix="name another dbms, or run the study again")
    ratios = compared.filter(pl.col("metric").is_in(stats.THROUGHPUTS))
    low, high = pl.col("low").fill_null(1.0).log(), pl.col("high").fill_null(1.0).log()
    sure = pl.max_horizontal(low, -high)
    row = ratios.sort(sure, pl.col("estimate").log().abs(), descending=True, maintain_order=True).row(0, named=True)
    return Question(row["host"], row["step"], row["base"], row["dbms"])


def _profiles(
    sampled: Study, counted: Study, pairs: list[tuple[str, str]], steps: list[str]
) -> dict[str, pl.DataFrame]:
    """Layers, components, functions and call trees of each pair, sampled or else counted."""
    costs = stack_costs(sampled.stacks, sampled.steps).filter(pl.col("step").is_in(steps))
    if costs.is_empty():
        costs = instruction_costs(counted.instructions, counted.steps).filter(pl.col("step").is_in(steps))
    empty = pl.DataFrame(schema=BREAKDOWN)
    parts: dict[str, list[pl.DataFrame]] = {name: [] for name in ("layers", "components", "functions", "trees")}
    least = sampled.card.smallest_effect
    for base in dict.fromkeys(of for of, _ in pairs):
        wanted = [base, *(me for of, me in pairs if of == base)]
        mine = costs.filter(pl.col("dbms").is_in(wanted))
        if base not in set(mine["dbms"]):
            continue
        parts["layers"].append(breakdown(in_layers(mine), base, smallest_effect=least))
        parts["components"].append(breakdown(mine, base, smallest_effect=least))
        parts["functions"].append(breakdown(mine, base, "function", least))
        trees = flame_trees(mine, base, FOLD_BELOW)
        parts["trees"].append(trees.with_columns(base=pl.lit(base)))
    return {name: pl.concat(frames) if frames else empty for name, frames in parts.items()}


def _settings(study: Study, pairs: list[tuple[str, str]]) -> pl.DataFrame:
    """Variables with two values in a pair, with `asked` where the study's configs ask for either."""
    found = []
    for base in dict.fromkeys(of for of, _ in pairs):
        hidden = stats.hidden_differences(study, base)
        found.append(hidden.with_columns(asked=pl.lit(False)))
    options = study.conditions.filter(kind="option").with_columns(pl.col("name").str.replace_all("-", "_"))
    asked = options.select("host", "dbms", "name", "value").unique()
    of_base = asked.rename({"dbms": "base", "value": "base_value"})
    names = pl.DataFrame(pairs, schema={"base": pl.String, "dbms": pl.String}, orient="row")
    both = asked.join(names, on="dbms").join(of_base, on=["host", "base", "name"])
    differ = both.filter(pl.col("value") != pl.col("base_value")).with_columns(asked=pl.lit(True))
    every = pl.concat([differ.select(found[0].columns), *found]) if found else differ
    return every.join(names, on=["base", "dbms"], how="semi").sort("host", "base", "dbms", ~pl.col("asked"), "name")


def _what_ifs(study: Study) -> pl.DataFrame:
    """Follow-up studies of this one: their tidy frames, with a column `change` that says what each of them varied."""
    data = Path(study.place).parents[1]
    found = []
    for name in studies(data):
        what_if = read_study_card(study_folder(name, data)).what_if
        if what_if is None or what_if.study != study.card.study:
            continue
        asked = load(name, data)
        if asked.runs["dbms"].n_unique() < 2:
            continue
        _, compared = stats.relate(asked)
        found.append(compared.with_columns(change=pl.lit(what_if.change), study=pl.lit(name)))
    return pl.concat(found) if found else pl.DataFrame()


def disturbed(evidence: Evidence, question: Question, row: Row) -> str:
    """The warnings of a round of a question, in a sentence each."""
    own = evidence.warnings.filter(
        pl.col("run").is_in([row["run"], row["base_run"]]),
        pl.col("step").is_null() | (pl.col("step") == question.step),
    )
    return "; ".join(own["text"].unique(maintain_order=True))
