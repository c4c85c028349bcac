"""The page on the cost of the performance schema: its sentences, and its table and headline for the first page."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from rqps import show, stats
from rqps.engines.mysql.perf_schema import DEFAULT, ENABLED, OFF, subject_of
from rqps.numbers import counted
from rqps.pages import FirstPage
from rqps.show import Clause, amount, change_of, changes, finding, in_order, joined, listed, phrase
from rqps.show.sentences import CELL, CHANGED
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT
from rqps.stats.scenarios import ranked, scenario_costs, scenario_means
from rqps.store.read import Study

FRAME, MEANS = "scenarios", "scenario means"
"""The names of the frames from which the numbers in this page's sentences are recomputed."""
MOST_STEPS = 6
"""Maximum number of steps that the headline names; for more steps, it has the geometric mean over the steps."""
COUNTED_BY = " The answer counts comparisons as decided by throughput, or else by CPU per operation."


def findings(costs: pl.DataFrame) -> list[Clause]:
    """A sentence per build and scenario on the change in CPU per operation in each step, the most expensive first;
    scenarios that are unsure in every step share the last sentence. If the costs include instructions, there is only
    one sentence, on instructions in one step."""
    if INSTRUCTIONS in set(costs["metric"]):
        return [_counted(costs)]
    sentences, unsure = [], []
    for (name,), of_steps in ranked(costs, descending=True).group_by(_subjects(costs), maintain_order=True):
        subject = str(name)
        if (of_steps["verdict"] == "unsure").all():
            unsure.append(subject)
        else:
            text = f"{subject[0].upper()}{subject[1:]}, CPU per operation"
            sentences.append(finding(phrase("{}: {}", text, _by_place(of_steps))))
    return [*sentences, finding(f"Inconclusive in every step: {listed(unsure)}")] if unsure else sentences


def on_first_page(page: FirstPage) -> FirstPage:
    """Adds a table of the costs of all scenarios, in instructions if CPU was not measured. If every build has such
    costs and the study does not ask where the time goes, the headline becomes the cost of the defaults and of the
    most expensive scenario."""
    costs = scenario_costs(page.study).filter(against=OFF)
    cpu = ranked(costs.filter(metric=CPU), descending=True)
    shown = cpu if cpu.height else ranked(costs.filter(metric=INSTRUCTIONS), descending=True)
    if shown.is_empty():
        return page
    across, group = ("release", "step") if shown["release"].n_unique() > 1 else ("step", "")
    what, counted_by = ("CPU", COUNTED_BY) if cpu.height else ("Instructions", "")
    note = f"{what} per operation against {OFF}, {show.rounds_of(shown['n'])}. {show.legend_of(shown)}{counted_by}"
    name = "scenario-matrix"
    table: Any = show.pivoted(shown, across, "scenario", show.change_cell, name=name, group=group, note=note)
    page = replace(page, tables=(("What the performance schema costs", table), *page.tables))
    if stats.asks(page.study) == "breakdown" or set(shown["build"]) != set(page.study.runs["build"]):
        return page
    if cpu.is_empty():
        return replace(page, headline=_counted(shown), explanation="", row=None)
    sure = cpu.filter(pl.col("verdict").is_in(list(CHANGED))).sort("estimate", descending=True)
    return replace(
        page,
        headline=_headline(page.study, cpu),
        explanation=_others(cpu) or (_most(sure, costs) if sure.height else ""),
        row=next(sure.iter_rows(named=True), None),
        measure=CPU,
        conclusive=_inconclusive(cpu),
    )


def _headline(study: Study, cpu: pl.DataFrame) -> Clause:
    """A sentence on the change in CPU by the release's defaults and by the most expensive scenario: per step, or for
    several releases or many steps, the mean over the steps."""
    without = [step for steps in stats.left_out(study).values() for step in steps]
    steps = [step for step in in_order(study.steps["step"]) if step not in without]
    clients = f" with {counted(cpu['clients'][0], 'client')}" if cpu["clients"].n_unique() == 1 else ""
    if cpu["release"].n_unique() == 1 and cpu["step"].n_unique() <= MOST_STEPS:
        rows, over, written = cpu, "", _by_place
    elif len(steps) == 1:
        rows, over, written = cpu.filter(step=steps[0]), f" of {steps[0]}", partial(changes, at="on", frame=FRAME)
    else:
        rows, written = scenario_means(study), partial(changes, at="on", frame=MEANS)
        over = f" over {listed(steps) if len(steps) <= MOST_STEPS else counted(len(steps), 'step')} (geometric mean)"
    return _against_off(f"CPU per operation against the performance schema off{clients}{over}", rows, written, 1)


def _counted(costs: pl.DataFrame) -> Clause:
    """A sentence on the change in instructions by the defaults and by each other scenario, the most expensive first,
    in the step in which the defaults cost most; counts of few rounds have no verdicts."""
    of_steps = costs.group_by("step").agg(pl.col("estimate").filter(scenario=DEFAULT).mean())
    step = of_steps.sort("estimate", descending=True, nulls_last=True)["step"][0]
    text = f"Instructions per operation of {step} against the performance schema off"
    return _against_off(text, costs.filter(step=step).drop("verdict"), partial(changes, at="on", frame=FRAME))


def _against_off(
    text: str, rows: pl.DataFrame, written: Callable[[pl.DataFrame], Clause], others: int | None = None
) -> Clause:
    """The text, followed by the changes of each scenario: first the defaults, then up to `others` other scenarios,
    the most expensive first. `written` puts the changes of one scenario into words."""
    rows = rows.with_columns(place="release")
    most = rows.filter(pl.col("scenario") != DEFAULT).sort("estimate", descending=True)["scenario"]
    by_scenario = {name: rows.filter(scenario=name) for name in (DEFAULT, *in_order(most)[:others])}
    parts = [phrase("{} {}", subject_of(name), written(of)) for name, of in by_scenario.items() if of.height]
    says = phrase("{}: {}", text, joined("; ", parts)) if parts else "No scenario was measured in all steps"
    return phrase("{}{}", finding(says), show.few_rounds(rows["n"]))


def _others(cpu: pl.DataFrame) -> Clause:
    """A sentence on the change in CPU by scenarios except `DEFAULT` and `ENABLED`; empty for several releases."""
    first = cpu.filter(pl.col("step") == pl.col("step").first(), ~pl.col("scenario").is_in([DEFAULT, ENABLED]))
    if first.is_empty() or first["release"].n_unique() > 1:
        return Clause("")
    costs = changes(first.with_columns(place=_subjects(first)), "by", FRAME)
    return finding(phrase("In {}, each against off: {}", first["step"][0], costs))


def _most(sure: pl.DataFrame, costs: pl.DataFrame) -> Clause:
    """A sentence on the first row of `sure`, the most expensive scenario with a verdict, and on its throughput."""
    row = sure.row(0, named=True)
    where = f"{subject_of(row['scenario'])} on {row['release']} in {row['step']}"
    added = amount(row, "+,.2f", "µs", "added", frame=FRAME)
    cell = {name: row[name] for name in CELL} | {"metric": THROUGHPUT}
    beside = [phrase(", throughput {}", change_of(one, FRAME)) for one in costs.filter(**cell).to_dicts()]
    text = "Highest cost: {}, {} of CPU per operation, {}{}"
    return finding(phrase(text, where, change_of(row, FRAME), added, joined("", beside)))


def _inconclusive(costs: pl.DataFrame) -> Clause:
    """A sentence on the scenarios whose cost is inconclusive."""
    names = dict(costs.select("dbms", _subjects(costs)).iter_rows())
    unsure = show.inconclusive(costs, FRAME, names, {"metric": CPU, "against": OFF})
    return finding(phrase("Costs that are inconclusive: {}", unsure)) if unsure else Clause("")


def _by_place(costs: pl.DataFrame) -> Clause:
    """The changes of one scenario per step, or per number of clients if the steps differ in nothing else."""
    if costs.select(pl.struct("kind", "range").n_unique()).item() > 1 or costs.height == 1:
        return changes(costs.with_columns(place="step"), "for", FRAME)
    clients = pl.col("clients").map_elements(lambda count: counted(count, "client"), pl.String)
    return changes(costs.sort("clients").with_columns(place=clients), "with", FRAME)


def _subjects(costs: pl.DataFrame) -> pl.Expr:
    """The scenarios as subjects of a sentence, with the release if there are several."""
    subject = pl.col("scenario").map_elements(subject_of, pl.String)
    return pl.format("{} on {}", subject, "release") if costs["release"].n_unique() > 1 else subject
