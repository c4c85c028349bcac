"""The answer of a study, for its first page: three sentences, a line on what it was measured on, and the tables."""

from collections import Counter
from collections.abc import Collection, Iterator
from statistics import median
from typing import NamedTuple

import polars as pl
from great_tables import GT
from markupsafe import Markup

from rqps import stats
from rqps.pages import flamegraph_breakdown, perf_schema_instruments, perf_schema_overhead, relative_throughput
from rqps.profile import add_instruction_counts
from rqps.profile.pair import ASSUMED
from rqps.show import Row, interval_of, number_of, rounds_of
from rqps.show.words import NOT_COMPARED, left_unsure
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT, USER_CPU
from rqps.stats.verdict import VERDICTS
from rqps.store.read import Study
from rqps.terminal import counted, percent

ROWS = ("table_rows", "load_rows", "keys")
"""Parameters that say how large the tables are, by workload."""
_WORDS = {"slower": "slower or more expensive", "faster": "faster or cheaper", "same": "the same", "unsure": "unsure"}
_SAYS = {
    THROUGHPUT: "{dbms} does {number} of the throughput of {base}",
    CPU: "an operation costs {dbms} {number} times the CPU of {base}",
    INSTRUCTIONS: "an operation takes {dbms} {number} times the instructions of {base}",
}
_BESIDE = {THROUGHPUT: "by what an operation costs: throughput", CPU: "by throughput or instructions: CPU"}


class Answer(NamedTuple):
    """The answer of a study: what changed most, what it is made of, and what is inconclusive."""

    sentences: tuple[str, ...]
    measured: str = ""
    """A line on what it was measured on, and how much of it is decided."""
    tables: tuple[tuple[str, Markup], ...] = ()
    """Tables as HTML, each with its heading."""


def answer(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame, pages: Collection[str]) -> Answer:
    """The answer of a study by its rounds; of one that has the page of the performance schema, by what that costs."""
    if compared.is_empty():
        return Answer((NOT_COMPARED,))
    decided = stats.deciding(add_instruction_counts(study, compared))
    about, costs = decided, pl.DataFrame()
    if "perf_schema_overhead" in pages:
        costs = perf_schema_overhead.costs(study)
    if not costs.is_empty():
        about, first = _settled(costs, decided), perf_schema_overhead.largest(study, costs)
    else:
        first = _most_changed(decided)
    most, second, row = first
    if "perf_schema_instruments" in pages:
        most = perf_schema_instruments.largest(study) or most
    tables = _tables(study, compared, stats.over_steps(rounds, study.steps), decided, costs)
    second = second or (_where(study, row) if row else "")
    if row and row["n"] == 1 and ASSUMED not in second:
        most = f"{most} {ASSUMED}"
    said = (most, second, _inconclusive(about, THROUGHPUT if costs.is_empty() else CPU))
    return Answer(
        tuple(filter(None, said)),
        _measured_on(study, rounds, about),
        tuple((heading, Markup(made.as_raw_html())) for heading, made in tables),
    )


def _most_changed(decided: pl.DataFrame) -> tuple[str, str, Row | None]:
    """The largest change that is sure, by the measure that decides it."""
    sure = decided.filter(pl.col("verdict").is_in(["slower", "faster"]))
    by_size = sure.sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True).to_dicts()
    counts = Counter(decided["verdict"])
    each = ", ".join(f"{counts[word]} {_WORDS[word]}" for word in VERDICTS if counts[word])
    of = f"of {decided.height} comparisons {each}" if decided.height > 1 else ""
    if not by_size:
        nothing = "No change is sure, neither of throughput nor of what an operation costs"
        return f"{nothing}: {of or f'the one comparison is {each[2:]}'}.", "", None
    row = by_size[0]
    where = f" on {row['host']}" if decided["host"].n_unique() > 1 else ""
    says = _SAYS[row["metric"]].format(dbms=row["dbms"], base=row["base"], number=number_of(row))
    return f"Most changed is {row['step']}{where}: {says}{'; ' if of else ''}{of}.", "", row


def _where(study: Study, row: Row) -> str:
    """The parts of a difference: those of its profile, or else its own code and the kernel."""
    if found := flamegraph_breakdown.parts_of(study, row["step"], row["base"], row["dbms"]):
        return found
    values = stats.measured(study, (CPU, USER_CPU)).filter(host=row["host"], step=row["step"])
    costs = stats.compare(stats.rounds_of_pairs(values, [(row["base"], row["dbms"])]), of="difference")
    by_metric = {each["metric"]: each for each in costs.to_dicts()}
    cpu, user = by_metric.get(CPU), by_metric.get(USER_CPU)
    if not cpu or not user or cpu["low"] is None:
        return "Where that goes was not measured."
    form = f"+,.{0 if abs(cpu['estimate']) >= 100 else 1 if abs(cpu['estimate']) >= 10 else 2}f"
    more = f"{cpu['estimate']:{form}} µs ({interval_of(cpu, form)})"
    if cpu["verdict"] in ("same", "unsure"):
        return f"The server's CPU time does not explain that: {more} for an operation; what it waits for does."
    kernel = cpu["estimate"] - user["estimate"]
    return (
        f"That is {more} of CPU for an operation: {user['estimate']:{form}} in its own code, "
        f"{kernel:{form}} in the kernel."
    )


def _settled(costs: pl.DataFrame, decided: pl.DataFrame) -> pl.DataFrame:
    """The costs; where CPU leaves one unsure, throughput or instructions of that comparison, if they decide it."""
    keys = ["host", "step", "base", "dbms"]
    others = decided.filter(pl.col("verdict") != "unsure").join(costs.filter(verdict="unsure"), on=keys, how="semi")
    return pl.concat([costs.join(others, on=keys, how="anti", maintain_order="left"), others], how="diagonal")


def _inconclusive(about: pl.DataFrame, measure: str) -> str:
    """The inconclusive comparisons, those that another measure decides, and the noise floor."""
    by_others = about.filter(pl.col("metric") != measure, pl.col("verdict") != "unsure").height
    many, how = f"{by_others} of {about.height}", f"{_BESIDE[measure]} is unsure there"
    if unsure := left_unsure(about):
        return f"Inconclusive: {unsure}." + (f" {many} are decided {how}." if by_others else "")
    beside, floor = f", {many} {how}" if by_others else "", stats.noise_floor(about)
    least = f"; the noise floor is {percent(floor)} in nine of ten." if floor else "."
    return f"All is decided{beside}{least}"


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


def _tables(
    study: Study, compared: pl.DataFrame, means: pl.DataFrame, decided: pl.DataFrame, costs: pl.DataFrame
) -> Iterator[tuple[str, GT]]:
    """The tables of the first page: of the performance schema, of functions, and of throughput."""
    if not costs.is_empty():
        yield "What the performance schema costs", perf_schema_overhead.cost_matrix(costs)
    functions = flamegraph_breakdown.changed_functions(study, decided)
    if functions is not None:
        yield "Where the time goes", functions
    if costs.is_empty():
        headings = (f"Throughput relative to {study.card.base}", "The worst steps")
        yield from zip(headings, relative_throughput.short_tables(compared, means), strict=False)
