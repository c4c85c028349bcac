"""The first page of a report: the answer, which depends on the kind of question that the study asks, and a line on
the method and the machine."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from statistics import median
from textwrap import shorten
from typing import NamedTuple

import polars as pl
from markupsafe import Markup, escape

from rqps import stats
from rqps.numbers import counted, difference, formatted, memory
from rqps.pages import FirstPage, Reliability
from rqps.profile.pair import ASSUMED
from rqps.report.claimed import KERNEL_CPU, decided_frame, differences
from rqps.report.overall import Overall, names_of, not_measured, steps_left_out
from rqps.report.profiles import asked_by
from rqps.show import Claim, Clause, Row, amount, finding, in_order, inconclusive, phrase, rounds_of
from rqps.show.sentences import CHANGED, claim_of, counted_rows, other_plans, within_layouts
from rqps.show.words import NOT_COMPARED
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT, USER_CPU
from rqps.store.read import Study
from rqps.study import ROUNDS_FOR_A_VERDICT
from rqps.workloads import does

MOST_STEPS = 10
"""Maximum number of steps that are explained on the first page, so that the explanations fit on a screen."""
LONGEST_STATEMENT = 200
"""Maximum number of characters of a step's explanation."""
ROWS = ("table_rows", "load_rows", "keys")
"""Names of the parameter that sets the number of rows; the name differs between workloads."""


class Answer(NamedTuple):
    """The answer of a study: the overall result, the largest changes, their causes, and inconclusive comparisons."""

    sentences: tuple[str, ...]
    measured: str = ""
    """A line on the method, the machine and the number of decided comparisons."""
    tables: tuple[tuple[str, Markup], ...] = ()
    """Tables as HTML, each with its heading."""
    names: Mapping[str, str] = {}
    """Maps dbms to their full names, for the legend of tables."""
    steps: Mapping[str, str] = {}
    """Maps each step in the sentences and the first table to a description of what it does."""


def answer(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame, notebooks: Sequence[Path]) -> Answer:
    """The answer of a study, made from its rounds and from what its notebooks add to the first page."""
    if compared.is_empty():
        return Answer((NOT_COMPARED,))
    decided = decided_frame(compared)
    short, full = names_of(study)
    measure = CPU if stats.asks(study) == "breakdown" else THROUGHPUT
    overall = Overall(study, compared, decided, measure, short, full)
    first, *others = overall.in_all()
    causes = overall.causes()
    means = stats.over_steps(rounds, stats.left_out(study))
    page = FirstPage(study, compared, means, decided, first, overall.worst())
    places = [place for notebook in notebooks if (place := asked_by(notebook).get("first_page"))]
    for place in sorted(places, key=lambda place: int(place["order"])):
        page = resolve_name(place["function"])(page)
    if page.headline is not first:  # a notebook has replaced the headline
        others, causes = [], [first] if study.card.asks in ("writes", "waits") else []
    headline, row = page.headline, page.row
    explanation = page.explanation or (_cpu_split(study, row, short) if row else "")
    if page.explanation and row and headline is first:
        explanation = phrase("{} on {}: {}", row["step"], short[row["dbms"]], page.explanation)
    if row and row["n"] == 1 and ASSUMED not in explanation:
        headline = phrase("{} {}", headline, ASSUMED)
    conclusive = Clause("") if _only_counted(study, decided) else page.conclusive or _conclusiveness(overall)
    layouts = within_layouts(stats.known_layouts(study), decided, measure, short)
    last = (layouts, conclusive, steps_left_out(study), not_measured(study))
    plans = other_plans(stats.plan_changes(study), short)
    sentences = tuple(filter(None, (*plans, headline, *page.notes, *others, explanation, *causes, *last)))
    done = {step: shorten(text, LONGEST_STATEMENT) for step, text in _done(study) if text}
    html = [(heading, table.as_raw_html()) for heading, table in page.tables]
    tables = tuple((heading, _with_tooltips(table, done)) for heading, table in html)
    shown = [" ".join(sentences), *(table for _, table in html[:1])]
    named = in_order(step for text in shown for step in done if _is_named(step, text))[:MOST_STEPS]
    steps = {step: text for step, text in done.items() if step in named}
    return Answer(sentences, _measured_on(study, rounds, decided), tables, full, steps)


def _done(study: Study) -> Iterator[tuple[str, str]]:
    """Each step with a sentence on its operations. The sentence has the number of clients if the steps differ in that
    number."""
    rows = study.steps.unique("step", keep="first", maintain_order=True)
    several = rows["clients"].n_unique() > 1
    for row in rows.iter_rows(named=True):
        text = does(study.card.workload, row, study.card.parameters)
        yield row["step"], f"{text} {counted(row['clients'], 'client')}." if text and several else text


def _is_named(step: str, text: str) -> bool:
    return re.search(rf"(?<![\w.@=-]){re.escape(step)}(?![\w@=-]|\.\w)", text) is not None


def _with_tooltips(table: str, done: Mapping[str, str]) -> Markup:
    """A table's HTML with a tooltip on each step's name that describes the step."""
    names = "|".join(map(re.escape, done))
    text = re.compile(rf">({names or '(?!)'})<")
    return Markup(text.sub(lambda name: f'><abbr title="{escape(done[name[1]])}">{name[1]}</abbr><', table))


def reliability(study: Study, notebooks: Sequence[Path]) -> tuple[Reliability, Path] | None:
    """The reliability of a study, and the notebook that judges it and gives the reasons; None if there is no such
    notebook."""
    for notebook in notebooks:
        if function := asked_by(notebook).get("reliability"):
            return resolve_name(function)(study), notebook
    return None


def _cpu_split(study: Study, row: Row, short: Mapping[str, str]) -> Clause:
    """A sentence that splits the difference in the server's CPU per operation into user space and kernel."""
    cell = {name: row[name] for name in ("host", "step", "base", "dbms")}
    costs = differences(study).filter(*(pl.col(name) == value for name, value in cell.items()))
    by_metric = {cost["metric"]: cost for cost in costs.to_dicts()}
    cpu = by_metric.get(CPU)
    if not cpu or KERNEL_CPU not in by_metric or cpu["low"] is None:
        return Clause("")
    form = f"+,.{0 if abs(cpu['estimate']) >= 100 else 1 if abs(cpu['estimate']) >= 10 else 2}f"
    change = amount(cpu, form, "µs", frame="differences")
    where = f"{row['step']} on {short[row['dbms']]}"
    if cpu["verdict"] in ("same", "unsure"):
        same = f"unchanged within {difference(study.card.smallest_effect)}"
        says = same if cpu["verdict"] == "same" else "inconclusive"
        return finding(phrase("{}: CPU per operation is {}: {}", where, says, change))
    before = formatted(cpu["base_estimate"], form.lstrip("+"))
    of_base = Clause(before, [claim_of(cpu, before, "base_estimate", "differences")])
    parts = [(by_metric[metric], formatted(by_metric[metric]["estimate"], form)) for metric in (USER_CPU, KERNEL_CPU)]
    shares = [Clause(written, [claim_of(part, written, frame="differences")]) for part, written in parts]
    text = "{}: {} of CPU per operation ({} uses {} µs), {} in user space and {} in the kernel"
    return finding(phrase(text, where, change, short[row["base"]], of_base, *shares))


def _only_counted(study: Study, decided: pl.DataFrame) -> bool:
    """True if a study has only counted instructions, in too few rounds for verdicts."""
    return study.card.rounds == 0 and bool((decided["n"] < ROUNDS_FOR_A_VERDICT).all())


def _conclusiveness(overall: Overall) -> Clause:
    """A sentence that names the inconclusive comparisons. If all comparisons are conclusive, the sentence has the
    smallest decided change of throughput instead."""
    judged = overall.judged
    of, by_cost = overall.cells(judged), not judged.filter(pl.col("metric") != THROUGHPUT).is_empty()
    if unsure := inconclusive(judged, "decided", overall.short, of):
        how = " by throughput and by cost" * by_cost + f", {overall.without}" * bool(overall.without)
        return finding(phrase("Inconclusive{}: {}", how, unsure))
    none = [counted_rows("decided", 0, **of, verdict="unsure")]
    if judged.height < 2:
        return Clause("", none)
    least = Clause("")
    for size in judged.filter(pl.col("verdict").is_in(list(CHANGED)), metric=THROUGHPUT).sort("size").head(1)["size"]:
        of_changes = {**of, "metric": THROUGHPUT, "verdict": list(CHANGED)}
        claim = Claim("decided", of_changes, size, "size", "lowest", difference(size - 1))
        least = Clause(f"the smallest decided change of throughput is {claim.written}", [claim])
    of_all = f"{overall.without.capitalize()}, all" if overall.without else "All"
    every = Clause(f"{of_all} comparisons are conclusive{' by throughput or by cost' * by_cost}", none)
    return finding(every, least)


def _measured_on(study: Study, rounds: pl.DataFrame, decided: pl.DataFrame) -> str:
    """A line with the seconds per step, table rows, machines, method, and number of decided comparisons."""
    seconds = study.steps["elapsed_s"].drop_nulls()
    low, high = (float(seconds.quantile(share) or 0) for share in (0.1, 0.9))
    low_s, high_s = (formatted(value, ".0f" if value >= 10 else ".2g") for value in (low, high))
    length = f"{low_s} to {high_s} s a step" if high > 1.2 * low else f"{high_s} s a step"
    length = "imported" if seconds.is_empty() else f"imported, {length}" if study.card.imported else length
    asked = study.conditions.filter(pl.col("kind") == "parameter", pl.col("name").is_in(ROWS))
    sizes = sorted(map(int, asked["value"].unique()))
    tables = study.card.parameters.get("tables", 1)
    rows = [f"{f'{tables} tables of ' if tables > 1 else ''}{size:,} rows" for size in sizes]
    machines = study.conditions.filter(kind="machine").group_by("host", maintain_order=True).agg("name", "value")
    hosts = [_machine(dict(zip(names, values, strict=True))) for _, names, values in machines.rows()]
    cycles: list[int] = rounds["cycles"].drop_nulls().to_list()
    how = "in random order" if rounds.filter(pl.col("duet") != "").is_empty() else "in turns"
    if cycles:
        how = f"of duets (all dbms take turns, {round(median(cycles))} times a step)"
    undecided = decided.filter(verdict="unsure").height
    by_time = decided.filter(pl.col("metric") != INSTRUCTIONS)
    measured = rounds_of((decided if by_time.is_empty() else by_time)["n"]) + f" {how}" * (not study.card.imported)
    conclusive = f"{decided.height - undecided} of {counted(decided.height, 'comparison')} decided"
    conclusive += f" for {stats.holds_for(decided)}" * (not study.card.imported)
    conclusive = "" if _only_counted(study, decided) else conclusive
    return " · ".join(filter(None, [length, *rows, *dict.fromkeys(hosts), measured, conclusive]))


def _machine(known: dict[str, str]) -> str:
    """A machine in words, such as `virtual machine, 2 CPUs (AMD EPYC), 24 GB`."""
    kind = "virtual machine" if known.get("virtualised") == "True" or known.get("hypervisor") else "machine"
    model = f" ({known['cpu_model']})" if known.get("cpu_model") else ""
    size = f", {memory(int(known['memory_kb']))}" if known.get("memory_kb") else ""
    return f"{kind}, {known.get('cpus', '?')} CPUs{model}{size}"
