"""The page on the cost of the performance schema: its sentences, and its table and headline for the first page."""

from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from rqps import show, stats
from rqps.engines.mysql.perf_schema import DEFAULT, DISABLED, ENABLED, OFF
from rqps.pages import FirstPage
from rqps.show import Clause, amount, change_of, changes, finding, in_order, joined, listed, phrase
from rqps.show.sentences import CELL, CHANGED
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT
from rqps.stats.scenarios import ranked, scenario_costs, scenario_rounds
from rqps.store.read import Study
from rqps.terminal import counted

ALWAYS_ON = ("global_instrumentation", "thread_instrumentation")  # consumers that all others depend on
FRAME, MEANS = "scenarios", "scenario means"
"""The names of the frames from which the numbers in this page's sentences are recomputed."""
MOST_STEPS = 6
"""Maximum number of steps that the headline names; for more steps, it has their geometric mean."""
COUNTED_BY = " The answer counts comparisons as decided by throughput, or else by CPU per operation."
_SUBJECTS = {
    DISABLED: "the performance schema with nothing enabled",
    DEFAULT: "the default instruments",
    ENABLED: "everything enabled",
}


def findings(costs: pl.DataFrame) -> list[Clause]:
    """A sentence per build and scenario on the change in CPU per operation in each step, the most expensive first;
    scenarios that are unsure in every step share the last sentence. Instructions have one sentence, on one step."""
    if INSTRUCTIONS in set(costs["metric"]):
        return [_counted(costs)]
    several, sentences, unsure = costs["build"].n_unique() > 1, [], []
    rows = _named(costs)
    order = ranked(rows, descending=True).select("release", "scenario").unique(maintain_order=True)
    for release, scenario in order.rows():
        of_steps = rows.filter(release=release, scenario=scenario).sort("position")
        subject = f"{subject_of(scenario)} on {release}" if several else subject_of(scenario)
        if (of_steps["verdict"] == "unsure").all():
            unsure.append(subject)
        else:
            subject = f"{subject[0].upper()}{subject[1:]}"
            sentences.append(finding(phrase("{}, CPU per operation: {}", subject, _by_place(of_steps))))
    return [*sentences, finding(f"Inconclusive in every step: {listed(unsure)}")] if unsure else sentences


def subject_of(scenario: str) -> str:
    """A scenario as the subject of a sentence.

    >>> subject_of("mdl-only"), subject_of("all-enabled")
    ('recording metadata locks', 'everything enabled')
    """
    recorded = scenario.removesuffix("-only").replace("-", " ").replace("mdl", "metadata locks")
    return _SUBJECTS.get(scenario, f"recording {recorded}")


def on_first_page(page: FirstPage) -> FirstPage:
    """Adds a table of the costs of all scenarios, in instructions if CPU was not measured. If every build has such
    costs and the study does not ask where the time goes, the headline becomes the cost of the defaults and of the
    most expensive scenario."""
    costs = scenario_costs(page.study).filter(against=OFF)
    cpu = ranked(costs.filter(metric=CPU), descending=True)
    shown = cpu if cpu.height else ranked(costs.filter(metric=INSTRUCTIONS), descending=True)
    if shown.is_empty():
        return page
    table = cost_matrix(shown, COUNTED_BY if cpu.height else "")
    page = replace(page, tables=(("What the performance schema costs", table), *page.tables))
    if stats.asks(page.study) == "breakdown" or set(shown["build"]) != set(page.study.runs["build"]):
        return page
    if cpu.is_empty():
        return replace(page, headline=_counted(shown), explanation="", row=None)
    sure = _named(cpu).filter(pl.col("verdict").is_in(list(CHANGED))).sort("estimate", descending=True)
    return replace(
        page,
        headline=_headline(page.study, _named(cpu)),
        explanation=_others(cpu) or (_most(sure, costs) if sure.height else ""),
        row=next(sure.iter_rows(named=True), None),
        measure=CPU,
        conclusive=_inconclusive(_named(cpu)),
    )


def cost_matrix(cpu: pl.DataFrame, more: str = "") -> Any:
    """A table of scenarios by step, or by build if there are several: the change of each in CPU, or instructions, per
    operation."""
    across, group = ("release", "step") if cpu["build"].n_unique() > 1 else ("step", "")
    what = "CPU" if CPU in set(cpu["metric"]) else "Instructions"
    note = f"{what} per operation against {OFF}, {show.rounds_of(cpu['n'])}. {show.legend_of(cpu)}{more}"
    rows, name = _named(cpu), "scenario-matrix"
    return show.pivoted(rows, across, "scenario", show.change_cell, name=name, group=group, note=note)


def scenario_means(study: Study) -> pl.DataFrame:
    """The geometric mean of each scenario's CPU ratio over the steps that means are taken over (see
    `stats.left_out`). A scenario that was not measured in all these steps is left out."""
    rounds = scenario_rounds(study).filter(pl.col("step").is_in(_steps_of_means(study)), metric=CPU, against=OFF)
    means = stats.over_steps(rounds, {})
    return means.filter(pl.col("steps") == pl.col("steps").max())


def _steps_of_means(study: Study) -> list[str]:
    without = {step for steps in stats.left_out(study).values() for step in steps}
    return [step for step in in_order(study.steps["step"]) if step not in without]


def _headline(study: Study, cpu: pl.DataFrame) -> Clause:
    """A sentence on the change in CPU by the release's defaults and by the most expensive scenario: per step, or for
    several releases or many steps, the mean over the steps."""
    rows, over, written, steps = cpu, "", _by_place, _steps_of_means(study)
    clients = f" with {counted(cpu['clients'][0], 'client')}" if cpu["clients"].n_unique() == 1 else ""
    if cpu["build"].n_unique() > 1 or cpu["step"].n_unique() > MOST_STEPS:
        rows, written = cpu.with_columns(place="release"), partial(changes, at="on", frame=FRAME)
        over = f" over {listed(steps) if len(steps) <= MOST_STEPS else counted(len(steps), 'step')} (geometric mean)"
    if over and len(steps) == 1:
        rows, over = rows.filter(step=steps[0]), f" of {steps[0]}"
    elif over:
        of_dbms = rows.select("dbms", "scenario", "place").unique("dbms", maintain_order=True)
        rows = scenario_means(study).join(of_dbms, on="dbms", maintain_order="left")
        written = partial(changes, at="on", frame=MEANS)
    most = rows.filter(pl.col("scenario") != DEFAULT).sort("estimate", descending=True)["scenario"]
    chosen = [name for name in (DEFAULT, *most.head(1)) if name in set(rows["scenario"])]
    if not chosen:
        return finding("No scenario was measured in all steps")
    first, *others = (phrase("{} {}", subject_of(name), written(rows.filter(scenario=name))) for name in chosen)
    text = phrase("CPU per operation against the performance schema off{}{}: {}", clients, over, first)
    return phrase("{}{}", finding(text, *others), show.few_rounds(rows["n"]))


def _counted(costs: pl.DataFrame) -> Clause:
    """A sentence on the change in instructions by the defaults and by each other scenario, the most expensive first,
    in the step in which the defaults cost most; counts of few rounds have no verdicts."""
    rows = _named(costs).drop("verdict").with_columns(place="release")
    of_steps = rows.group_by("step").agg(pl.col("estimate").filter(scenario=DEFAULT).mean())
    step = of_steps.sort("estimate", descending=True, nulls_last=True)["step"][0]
    rows = rows.filter(step=step)
    most = rows.filter(pl.col("scenario") != DEFAULT).sort("estimate", descending=True)["scenario"]
    chosen = [name for name in (DEFAULT, *in_order(most)) if name in set(rows["scenario"])]
    parts = [phrase("{} {}", subject_of(name), changes(rows.filter(scenario=name), "on", FRAME)) for name in chosen]
    text = f"Instructions per operation of {step} against the performance schema off"
    return phrase("{}{}", finding(phrase("{}: {}", text, joined("; ", parts))), show.few_rounds(rows["n"]))


def _others(cpu: pl.DataFrame) -> Clause:
    """A sentence on the change in CPU by the other scenarios in the first step; empty if there are several builds."""
    first = cpu.filter(pl.col("step") == pl.col("step").first(), ~pl.col("scenario").is_in([DEFAULT, ENABLED]))
    if first.is_empty() or first["build"].n_unique() > 1:
        return Clause("")
    places = pl.col("scenario").map_elements(subject_of, pl.String)
    costs = changes(first.with_columns(place=places), "by", FRAME)
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
    several = costs["build"].n_unique() > 1
    names = {
        dbms: subject_of(scenario) + f" on {release}" * several
        for dbms, scenario, release in costs.select("dbms", "scenario", "release").iter_rows()
    }
    of = {"metric": CPU, "against": OFF, "dbms": in_order(costs["dbms"]), "step": in_order(costs["step"])}
    unsure = show.inconclusive(costs, FRAME, names, of)
    return finding(phrase("Costs that are inconclusive: {}", unsure)) if unsure else Clause("")


def _by_place(costs: pl.DataFrame) -> Clause:
    """The changes of one scenario per step, or per number of clients if the steps differ in nothing else."""
    load = pl.col("step").str.strip_suffix(pl.format("@{}", "clients"))
    if costs.select(load.n_unique()).item() > 1 or costs.height == 1:
        return changes(costs.with_columns(place="step"), "for", FRAME)
    clients = pl.col("clients").map_elements(lambda count: counted(count, "client"), pl.String)
    return changes(costs.sort("clients").with_columns(place=clients), "with", FRAME)


def _named(cpu: pl.DataFrame) -> pl.DataFrame:
    """The rows with the column `release`: the version, or the build if several builds share a version."""
    number = pl.col("version").str.extract(r"^(\d+(?:\.\d+)+)")
    return cpu.with_columns(
        release=pl.when(number.n_unique() == pl.col("build").n_unique()).then(number).otherwise("build")
    )
