"""The page on waiting: sentences on the time of an operation: running, ready without a CPU, and waiting, by kind."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from rqps import stats
from rqps.numbers import formatted
from rqps.pages import FirstPage
from rqps.profile.pair import ASSUMED
from rqps.profile.waits import LEFT_OVER, NO_CPU, NOT_SEEN, idle_waits, left_out, sampling_note, time_of_clients
from rqps.show import Claim, Clause, Nothing, Row, Sentences, few_rounds, finding, joined, listed, phrase, rounds_of
from rqps.store import Study
from rqps.store.schemas import RUNNING

FRAME = "time_of_clients"
LEAST_SHARE = 0.01
"""The minimum share of an operation's time that a kind of wait needs to be named."""
_CELL = ("host", "step", "dbms")
_UNEXPLAINED = [NOT_SEEN, LEFT_OVER]


def findings(study: Study, of: pl.DataFrame) -> Sentences:
    """A sentence for each step in `of`, which has rows of `time_of_clients`. It gives the time of an operation in the
    dbms that waits longest, by kind of wait, and the sum of the base's waits. The last sentences are on the clients'
    time that no kind of wait explains, and on the rounds that are left out."""
    names, out = stats.short_names(study), left_out(study)
    if of.is_empty():
        advice = "Give it waits_rounds: 4 in runs.yaml and run it again: only what is missing is measured."
        return Nothing([*_left_out(out, names)] or [f"No waits were recorded in this study. {advice}"])
    steps = [phrase("{}: {}", step, clause) for step, clause in _steps(of, study.card.base, names)]
    few = _left_out(out.join(of, on=["host", "step"], how="semi"), names)
    return Sentences([*steps, _left(of, names), *few, *sampling_note(study), *[ASSUMED] * (of["n"].min() == 1)])


def on_first_page(page: FirstPage) -> FirstPage:
    """Sets the headline of a study that asks where clients wait: a sentence per step. For other studies, adds the
    sentence on the headline's step to the explanation of the headline."""
    of = time_of_clients(page.study)
    if of.is_empty():
        return page
    names = stats.short_names(page.study)
    asked, row = page.study.card.asks == "waits", page.row
    if not asked and row:
        of = of.filter(host=row["host"], step=row["step"])
    texts = [
        phrase("{}{}{}", f"{step}: " * asked, text, few_rounds(of.filter(step=step)["n"]))
        for step, text in _steps(of, page.study.card.base, names)
    ]
    if not asked:
        explanation = joined(" ", [*filter(None, [page.explanation]), *texts])
        return replace(page, explanation=explanation) if row else page
    if not row or not page.explanation:
        return replace(page, headline=joined(" ", texts), row=None)
    explanation = phrase("{} on {}: {}", row["step"], names[row["dbms"]], page.explanation)
    return replace(page, headline=joined(" ", texts), explanation=explanation)


def waits_of(of: pl.DataFrame) -> pl.DataFrame:
    """The rows of waits that delay an operation. Left out are the time on a CPU, the time ready without a CPU, the
    unexplained time, and the waits for the client or for work."""
    return of.filter(~pl.col("kind").is_in([RUNNING, NO_CPU, NOT_SEEN, LEFT_OVER, *idle_waits()]))


def _steps(of: pl.DataFrame, base: str, names: Mapping[str, str]) -> Iterator[tuple[str, Clause]]:
    """Each step with a sentence on its waits."""
    several = of["host"].n_unique() > 1
    waited = waits_of(of).group_by(_CELL, maintain_order=True).agg(pl.col("us").sum())
    for (host, step), rows in of.group_by("host", "step", maintain_order=True):
        sums = waited.filter(host=host, step=step).sort("us", descending=True, maintain_order=True)
        if sums.is_empty():
            yield str(step), finding("no thread that serves a client waits", place=str(host) * several)
            continue
        me = str(sums["dbms"][0])
        clauses = [_time(rows.filter(dbms=me), names[me])]
        if me != base and (of_base := waits_of(rows).filter(dbms=base)).height:
            rounds = f" ({rounds_of([of_base['n'][0]])})" * (of_base["n"][0] != rows.filter(dbms=me)["n"][0])
            clauses.append(phrase("{} waits {}{}", names[base], _sum(of_base), rounds))
        yield str(step), finding(*clauses, place=str(host) * several)


def _time(rows: pl.DataFrame, name: str) -> Clause:
    """A clause on the time of one operation of one dbms, by kind of wait."""
    waits = waits_of(rows).sort("us", descending=True, maintain_order=True)
    parts = [_part("for {} {}", row) for row in waits.filter(pl.col("share") >= LEAST_SHARE).to_dicts()]
    busy = rows.filter(pl.col("kind").is_in([RUNNING, NO_CPU])).to_dicts()
    one = rows.row(0, named=True)
    return phrase(
        "{} waits longest, {} of the {} of an operation ({}){}; {}",
        name,
        _sum(waits),
        _number(one, one["all_us"], "all_us"),
        rounds_of([one["n"]]),
        phrase(": {}", listed(parts)) if parts else "",
        listed([_part("{} {}", row) for row in busy]),
    )


def _left(of: pl.DataFrame, names: Mapping[str, str]) -> Clause:
    """A sentence on the lowest and the highest share of the clients' time that no kind of wait explains."""
    rest = of.filter(pl.col("kind").is_in(_UNEXPLAINED)).group_by(_CELL, maintain_order=True)
    rows = rest.agg(pl.col("share").sum()).sort("share", maintain_order=True).to_dicts()
    ends = [_percent(row) for row in (rows[0], rows[-1])]
    if ends[0] == ends[1]:
        return finding(phrase("{} of the time of clients is unexplained", ends[0]))
    most = max(rows, key=lambda row: abs(row["share"]))
    whose = f"most of {names[most['dbms']]} in {most['step']}"
    return finding(phrase("{} to {} of the time of clients is unexplained, {}", *ends, whose))


def _left_out(rows: pl.DataFrame, names: Mapping[str, str]) -> Iterator[str]:
    for row in rows.to_dicts():
        rounds = f"{row['left_out']} of {rounds_of([row['n']])} of {names[row['dbms']]} in {row['step']}"
        yield f"Left out: {rounds}, since perf recorded less than half of the step."


def _percent(row: Row) -> Clause:
    text = formatted(100 * row["share"], ".1f")
    cell = {name: row[name] for name in _CELL} | {"kind": _UNEXPLAINED}
    return Clause(f"{text} %", [Claim(FRAME, cell, 100 * row["share"], "percent", "sum", written=text)])


def _part(form: str, row: Row) -> Clause:
    return phrase(form, row["kind"], _number(row, row["us"], "us"))


def _number(row: Row, number: float, column: str) -> Clause:
    text = _us(number)
    return Clause(text, [_claim(row, number, column, text)])


def _sum(rows: pl.DataFrame) -> Clause:
    """The time per operation in several kinds of waits together, for one step and dbms."""
    number, text = float(rows["us"].sum()), _us(float(rows["us"].sum()))
    cell = {name: rows[name][0] for name in _CELL} | {"kind": rows["kind"].to_list()}
    return Clause(text, [Claim(FRAME, cell, number, "us", "sum", written=text)])


def _claim(row: Row, number: float, column: str, written: str) -> Claim:
    return Claim(FRAME, {name: row[name] for name in (*_CELL, "kind")}, number, column, written=written)


def _us(number: float) -> str:
    return f"{formatted(number, ',.0f' if number >= 100 else ',.1f')} µs"


def frame(study: Study) -> pl.DataFrame:
    """The frame from which the numbers in the page's sentences are recomputed."""
    return time_of_clients(study).with_columns(percent=100 * pl.col("share"))
