"""The page on what the performance schema costs: its sentences, and its place on the first page."""

from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from rqps import show, stats
from rqps.engines.mysql.perf_schema import DEFAULT, DISABLED, ENABLED, OFF
from rqps.pages import FirstPage
from rqps.show import amount, change_of, changes, finding, in_order, listed
from rqps.show.sentences import CHANGED
from rqps.stats.metrics import CPU
from rqps.stats.scenarios import ranked, scenario_costs, scenario_rounds
from rqps.store.read import Study
from rqps.terminal import counted

ALWAYS_ON = ("global_instrumentation", "thread_instrumentation")
"""Consumers that all others hang on."""
MOST_STEPS = 6
"""Steps that the headline names; of more it has the geometric mean."""
_SUBJECTS = {
    DISABLED: "the performance schema with nothing enabled",
    DEFAULT: "what the release enables by itself",
    ENABLED: "everything enabled",
}


def findings(cpu: pl.DataFrame) -> list[str]:
    """A sentence per build and scenario on its CPU per operation in each step, the most expensive first; those of
    which nothing is decided share the last one."""
    several, sentences, unsure = cpu["build"].n_unique() > 1, [], []
    order = ranked(cpu, descending=True).select("build", "scenario").unique(maintain_order=True)
    for build, scenario in order.rows():
        costs = cpu.filter(build=build, scenario=scenario).sort("position")
        subject = f"{subject_of(scenario)} on {build}" if several else subject_of(scenario)
        if (costs["verdict"] == "unsure").all():
            unsure.append(subject)
        else:
            sentences.append(_sentence(f"{subject} changes CPU per operation by {_by_place(costs)}"))
    return [*sentences, f"Inconclusive in every step: {listed(unsure)}."] if unsure else sentences


def subject_of(scenario: str) -> str:
    """A scenario as the subject of a sentence.

    >>> subject_of("mdl-only"), subject_of("all-enabled")
    ('recording metadata locks', 'everything enabled')
    """
    recorded = scenario.removesuffix("-only").replace("-", " ").replace("mdl", "metadata locks")
    return _SUBJECTS.get(scenario, f"recording {recorded}")


def on_first_page(page: FirstPage) -> FirstPage:
    """The CPU of what the release enables by itself and of everything as the headline, and the costs of all. Where
    CPU leaves a comparison unsure, throughput or instructions decide it if they can."""
    cpu = ranked(scenario_costs(page.study).filter(metric=CPU, against=OFF), descending=True)
    if cpu.is_empty():
        return page
    keys = ["host", "step", "base", "dbms"]
    decided = page.decided.filter(pl.col("verdict") != "unsure")
    others = decided.join(cpu.filter(verdict="unsure"), on=keys, how="semi")
    about = pl.concat([cpu.join(others, on=keys, how="anti", maintain_order="left"), others], how="diagonal")
    sure = cpu.filter(pl.col("verdict").is_in(list(CHANGED))).sort("estimate", descending=True)
    return replace(
        page,
        headline=_headline(page.study, cpu),
        explanation=_others(cpu) or _most(sure),
        row=next(sure.iter_rows(named=True), None),
        about=about,
        measure=CPU,
        tables=(("What the performance schema costs", cost_matrix(cpu)), *page.tables),
    )


def cost_matrix(cpu: pl.DataFrame) -> Any:
    """Scenarios by step, or by build where there are several: the CPU that each adds to an operation."""
    across, group = ("build", "step") if cpu["build"].n_unique() > 1 else ("step", "")
    note = f"CPU of the server per operation against {OFF}, {show.rounds_of(cpu['n'])}. {show.legend_of(cpu)}"
    return show.pivoted(cpu, across, "scenario", show.change_cell, name="scenario-matrix", group=group, note=note)


def _headline(study: Study, cpu: pl.DataFrame) -> str:
    """The change in CPU by what the release enables by itself, and by the most expensive scenario: by step, or by
    build the mean over the steps."""
    rows, over, written, steps = cpu, "", _by_place, in_order(cpu["step"])
    clients = f"with {counted(cpu['clients'][0], 'client')}, " if cpu["clients"].n_unique() == 1 else ""
    if cpu["build"].n_unique() > 1 or len(steps) > MOST_STEPS:
        rows, written = cpu.with_columns(place="build"), partial(changes, at="on")
        over = f" over {listed(steps) if len(steps) <= MOST_STEPS else counted(len(steps), 'step')} (geometric mean)"
    if over and len(steps) == 1:
        over = f" of {steps[0]}"
    elif over:
        every_step = study.steps.with_columns(target_per_s=None)  # an operation at a set rate has its cost, too
        means = stats.over_steps(scenario_rounds(study).filter(metric=CPU, against=OFF), every_step)
        of_dbms = rows.select("dbms", "scenario", "place").unique("dbms", maintain_order=True)
        rows = means.filter(pl.col("steps") == len(steps)).join(of_dbms, on="dbms", maintain_order="left")
    most = rows.filter(pl.col("scenario") != DEFAULT).sort("estimate", descending=True)["scenario"]
    chosen = [name for name in (DEFAULT, *most.head(1)) if name in set(rows["scenario"])]
    if not chosen:
        return "No scenario was measured in all steps."
    first, *others = (f"by {written(rows.filter(scenario=name))}" for name in chosen)
    subject = f"Against the performance schema off, {clients}{subject_of(chosen[0])}"
    more = (f"{subject_of(name)} {change}" for name, change in zip(chosen[1:], others, strict=True))
    return finding(f"{subject} changes CPU per operation{over} {first}", *more)


def _others(cpu: pl.DataFrame) -> str:
    """The CPU of the further scenarios in the first step."""
    first = cpu.filter(pl.col("step") == pl.col("step").first(), ~pl.col("scenario").is_in([DEFAULT, ENABLED]))
    if first.is_empty() or first["build"].n_unique() > 1:
        return ""
    places = pl.col("scenario").map_elements(subject_of, pl.String)
    return _sentence(f"in {first['step'][0]}: {changes(first.with_columns(place=places), 'by')}")


def _most(sure: pl.DataFrame) -> str:
    """The largest change in CPU that is decided."""
    for row in sure.head(1).to_dicts():
        where = f"{subject_of(row['scenario'])} on {row['build']} in {row['step']}"
        return f"Most: {where}, {change_of(row)}, {amount(row, '+,.2f', 'µs', 'added')}."
    return ""


def _by_place(costs: pl.DataFrame) -> str:
    """The changes of one scenario by step, or by the number of clients where only that differs."""
    load = pl.col("step").str.strip_suffix(pl.format("@{}", "clients"))
    if costs.select(load.n_unique()).item() > 1 or costs.height == 1:
        return changes(costs.with_columns(place="step"), "for")
    clients = pl.col("clients").map_elements(lambda count: counted(count, "client"), pl.String)
    return changes(costs.sort("clients").with_columns(place=clients), "with")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
