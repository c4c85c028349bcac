"""The answer of a study, for its first page: three sentences, a line on what it was measured on, and the tables."""

from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from statistics import median
from typing import NamedTuple

import polars as pl
from markupsafe import Markup

from rqps import stats
from rqps.pages import FirstPage, Reliability
from rqps.profile.pair import ASSUMED
from rqps.report.profiles import asked_by
from rqps.show import Row, amount, comparison, finding, inconclusive, rounds_of, verdict_counts
from rqps.show.sentences import CHANGED
from rqps.show.words import NOT_COMPARED
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT, USER_CPU
from rqps.store.read import Study
from rqps.terminal import counted, percent

ROWS = ("table_rows", "load_rows", "keys")
"""Parameters that say how large the tables are, by workload."""
_OTHERWISE = {
    THROUGHPUT: "by cost per operation (throughput is inconclusive there)",
    CPU: "by throughput or instructions (CPU is inconclusive there)",
}


class Answer(NamedTuple):
    """The answer of a study: what changed most, what it is made of, and what is inconclusive."""

    sentences: tuple[str, ...]
    measured: str = ""
    """A line on what it was measured on, and how much of it is decided."""
    tables: tuple[tuple[str, Markup], ...] = ()
    """Tables as HTML, each with its heading."""


def answer(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame, notebooks: Sequence[Path]) -> Answer:
    """The answer of a study by its rounds, and by what its notebooks add to the first page."""
    if compared.is_empty():
        return Answer((NOT_COMPARED,))
    decided = stats.deciding(compared)
    means = stats.over_steps(rounds, study.steps)
    page = FirstPage(study, compared, means, decided, decided, *_changed_most(decided))
    places = [place for notebook in notebooks if (place := asked_by(notebook).get("first_page"))]
    for place in sorted(places, key=lambda place: int(place["order"])):
        page = resolve_name(place["function"])(page)
    headline, row = page.headline, page.row
    explanation = page.explanation or (_cpu_split(study, row) if row else "")
    if row and row["n"] == 1 and ASSUMED not in explanation:
        headline = f"{headline} {ASSUMED}"
    sentences = (headline, explanation, _conclusive(page.about, page.measure))
    tables = ((heading, Markup(table.as_raw_html())) for heading, table in page.tables)
    return Answer(tuple(filter(None, sentences)), _measured_on(study, rounds, page.about), tuple(tables))


def reliability(study: Study, notebooks: Sequence[Path]) -> tuple[Reliability, Path] | None:
    """The reliability of a study, with the notebook that gives the reasons; None if no notebook does."""
    for notebook in notebooks:
        if function := asked_by(notebook).get("reliability"):
            return resolve_name(function)(study), notebook
    return None


def _changed_most(decided: pl.DataFrame) -> tuple[str, Row | None]:
    """The largest change that is sure, by the measure that decides it."""
    changes = decided.filter(pl.col("verdict").is_in(list(CHANGED)))
    counts = verdict_counts(decided["verdict"])
    if changes.is_empty():
        return f"No change is shown, neither in throughput nor in cost per operation: {counts}.", None
    row = changes.sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True).row(0, named=True)
    place = row["host"] if decided["host"].n_unique() > 1 else ""
    several = decided.height > 1
    says = f"{row['step']} {CHANGED[row['verdict']]}{' most' * several}: {comparison(row)}"
    return finding(says, counts * several, place=place), row


def _cpu_split(study: Study, row: Row) -> str:
    """The difference in the server's CPU per operation, in user space and in the kernel."""
    values = stats.measured(study, (CPU, USER_CPU)).filter(host=row["host"], step=row["step"])
    costs = stats.compare(stats.rounds_of_pairs(values, [(row["base"], row["dbms"])]), of="difference")
    by_metric = {cost["metric"]: cost for cost in costs.to_dicts()}
    cpu, user = by_metric.get(CPU), by_metric.get(USER_CPU)
    if not cpu or not user or cpu["low"] is None:
        return "Where the time goes was not measured."
    form = f"+,.{0 if abs(cpu['estimate']) >= 100 else 1 if abs(cpu['estimate']) >= 10 else 2}f"
    change = amount(cpu, form, "µs")
    if cpu["verdict"] in ("same", "unsure"):
        return f"CPU does not explain the change: {change} per operation. The time goes to waiting."
    kernel = cpu["estimate"] - user["estimate"]
    parts = f"{user['estimate']:{form}} in user space, {kernel:{form}} in the kernel"
    return f"CPU per operation changes by {change}: {parts}."


def _conclusive(about: pl.DataFrame, measure: str) -> str:
    """The inconclusive comparisons, the number that another measure than `measure` decides, and the noise floor."""
    by_others = about.filter(pl.col("metric") != measure, pl.col("verdict") != "unsure").height
    otherwise = f"{by_others} of {about.height} are decided {_OTHERWISE[measure]}" if by_others else ""
    if unsure := inconclusive(about):
        return finding(f"Inconclusive: {unsure}. {otherwise}".strip())
    floor = stats.noise_floor(about)
    least = f"the noise floor is {percent(floor)} in nine of ten" if floor else ""
    return finding("All comparisons are conclusive", otherwise, least)


def _measured_on(study: Study, rounds: pl.DataFrame, about: pl.DataFrame) -> str:
    """Seconds a step, rows, the kind of machine, the method, and how much is decided, in one line."""
    seconds = study.steps["elapsed_s"].drop_nulls()
    low, high = (float(seconds.quantile(share) or 0) for share in (0.1, 0.9))
    length = f"{low:.2g} to {high:.2g} s a step" if high > 1.2 * low else f"{high:.2g} s a step"
    asked = study.conditions.filter(pl.col("kind") == "parameter", pl.col("name").is_in(ROWS))
    sizes = sorted(map(int, asked["value"].unique()))
    tables = study.card.parameters.get("tables", 1)
    rows = [f"{f'{tables} tables of ' if tables > 1 else ''}{size:,} rows" for size in sizes]
    machines = study.conditions.filter(kind="machine").group_by("host", maintain_order=True).agg("name", "value")
    hosts = [_machine(dict(zip(names, values, strict=True))) for _, names, values in machines.rows()]
    cycles: list[int] = rounds["cycles"].drop_nulls().to_list()
    how = "in random order" if rounds.filter(pl.col("duet") != "").is_empty() else "in turns"
    if cycles:
        how = f"of duets, {median(cycles):.0f} cycles each"
    undecided = about.filter(verdict="unsure").height
    by_time = about.filter(pl.col("metric") != INSTRUCTIONS)
    measured = f"{rounds_of((about if by_time.is_empty() else by_time)['n'])} {how}"
    decided = f"{about.height - undecided} of {counted(about.height, 'comparison')} decided"
    return " · ".join([length, *rows, *dict.fromkeys(hosts), measured, decided])


def _machine(known: dict[str, str]) -> str:
    """The kind of machine: `virtual machine, 2 CPUs (AMD EPYC), 24 GB`."""
    kind = "virtual machine" if known.get("virtualised") == "True" or known.get("hypervisor") else "machine"
    model = f" ({known['cpu_model']})" if known.get("cpu_model") else ""
    memory = f", {int(known['memory_kb']) / 1024**2:.0f} GB" if known.get("memory_kb") else ""
    return f"{kind}, {known.get('cpus', '?')} CPUs{model}{memory}"
