"""The page on written bytes: sentences on the bytes that each step writes, by purpose, and on the unexplained
rest."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from rqps import stats
from rqps.numbers import change, formatted
from rqps.pages import FirstPage
from rqps.show import Claim, Clause, Row, Sentences, few_rounds, finding, joined, listed, phrase, rounds_of
from rqps.stats.writes import LEAST_KB, written
from rqps.store import Study

FRAME = "written"
LEAST_SHARE = 0.01
"""The minimum share of a step's bytes that a purpose needs to be named."""
MOST_STEPS = 4
"""Maximum number of steps that the first page names: those in which the base writes most per operation."""
MUCH_MORE = 1.1
"""If the device wrote at least this multiple of the bytes that the server's processes wrote, a sentence says that
other processes used the device, too."""
LEAST_MORE = 0.1
"""The minimum share of a change in written bytes that a purpose needs to be named as a cause of the change."""


def findings(study: Study, of: pl.DataFrame) -> Sentences:
    """A sentence for each step in `of` (rows of `by_purpose`) on the dbms that writes most per operation, the bytes
    of the base, and the bytes by purpose; then sentences on the bytes that no purpose explains, and on a device to
    which other processes write."""
    if of.is_empty():
        return Sentences(["No step writes anything that its engine counts by purpose."])
    names = stats.short_names(study)
    return Sentences([*_steps(of, study.card.base, names), _left(of, names), *_shared(of, names)])


def on_first_page(page: FirstPage) -> FirstPage:
    """Sets the headline of a study that asks where written bytes go: the bytes that the base writes per operation, by
    purpose, and for each other dbms the change from the base and the purposes that cause it."""
    base = page.study.card.base
    if page.study.card.asks != "writes" or (of := frame(page.study)).filter(dbms=base).is_empty():
        return page
    names = stats.short_names(page.study)
    on_host = pl.lit("") if of["host"].n_unique() == 1 else pl.format(" on {}", "host")
    of = of.with_columns(place=pl.concat_str("step", on_host))
    most = of.filter(role="whole", dbms=base).top_k(MOST_STEPS, by="kb").select("host", "step")
    of = of.join(most, on=["host", "step"], how="semi", maintain_order="left")
    by_step = [rows for _, rows in of.group_by("host", "step", maintain_order=True)]
    wholes = of.filter(role="whole")
    widest = float(wholes["spread"].max())  # type: ignore[arg-type]
    cells = {"role": "whole"} | {name: wholes[name].unique().to_list() for name in ("host", "step")}
    claim = Claim(FRAME, cells, widest, "spread", "highest", formatted(widest, ".1f"))
    spread = Clause(rounds := rounds_of(of["rounds"]))
    if widest:
        spread = Clause(f"{rounds}, which differ by up to {claim.written} %", [claim])
    in_steps = joined("; ", (_of_base(rows.filter(dbms=base)) for rows in by_step))
    headline = phrase("Written per operation by {} ({}): {}.", names[base], spread, in_steps)
    changed = joined(" ", (_changed(rows, page.study, names) for rows in by_step))
    return replace(page, headline=phrase("{}{}", headline, few_rounds(of["rounds"])), explanation=changed, row=None)


def _of_base(rows: pl.DataFrame) -> Clause:
    return phrase("{} {}, of which {}", rows["place"][0], _kb(_whole(rows)), _parts(rows))


def _changed(rows: pl.DataFrame, study: Study, names: Mapping[str, str]) -> Clause:
    """A sentence on the bytes that each other dbms writes in one step: the total, its change from the base, and the
    purposes that cause most of the change. A change below the study's smallest effect is given without a number."""
    base, parts = study.card.base, []
    for (dbms,), mine in rows.filter(pl.col("dbms") != base).group_by("dbms", maintain_order=True):
        total = _whole(mine)
        text = change(total["ratio"])
        if abs(total["ratio"] - 1) < study.card.smallest_effect:
            claim = Claim(FRAME, _cell(total), total["ratio"], "ratio")
            parts.append(Clause(f"{names[str(dbms)]} writes about as much", [claim]))
            continue
        least = max(LEAST_MORE * abs(total["more_kb"]), LEAST_KB)
        causes = mine.filter(pl.col("role").is_in(["part", "rest"]), pl.col("more_kb").abs() >= least)
        causes = causes.sort(pl.col("more_kb").abs(), descending=True, maintain_order=True)
        why = listed([phrase("{} {}", row["purpose"], _kb(row, "more_kb")) for row in causes.to_dicts()])
        by = Clause(text, [Claim(FRAME, _cell(total), total["ratio"], "ratio", written=text)])
        parts.append(phrase("{} writes {} ({}){}{}", names[str(dbms)], _kb(total), by, ": " * bool(why), why))
    return finding(phrase("{} against {}: {}", rows["place"][0], names[base], joined("; ", parts)))


def _whole(rows: pl.DataFrame) -> Row:
    return rows.filter(role="whole").row(0, named=True)


def _parts(rows: pl.DataFrame) -> Clause:
    """The bytes of one step and dbms by purpose, the largest first."""
    named = rows.filter(pl.col("role") == "part", pl.col("share").abs() >= LEAST_SHARE)
    return listed([phrase("{} {}", row["purpose"], _kb(row)) for row in named.sort("kb", descending=True).to_dicts()])


def _steps(of: pl.DataFrame, base: str, names: dict[str, str]) -> Iterator[Clause]:
    several = of["host"].n_unique() > 1
    for (host, step), rows in of.group_by("host", "step", maintain_order=True):
        most = rows.filter(role="whole").sort("kb", descending=True, maintain_order=True).row(0, named=True)
        mine = rows.filter(dbms=most["dbms"])
        clauses = [phrase("{}: {} writes most, {} per operation", step, names[most["dbms"]], _kb(most))]
        of_base = rows.filter(dbms=base, role="whole").to_dicts()
        if most["dbms"] != base and most["base_kb"] and of_base:
            clauses.append(phrase("{} writes {}", names[base], _kb(of_base[0])))
        yield finding(*clauses, _parts(mine), place=str(host) * several)


def _left(of: pl.DataFrame, names: dict[str, str]) -> Clause:
    """A sentence on the share of a process's bytes that no counter assigns to a purpose: the lowest and the highest
    share of all steps and dbms."""
    rest = of.filter(role="rest").sort("share", maintain_order=True).to_dicts()
    ends = [_percent(rest[0]), _percent(rest[-1])]
    most = max(rest, key=lambda row: abs(row["share"]))
    whose = f"most of {names[most['dbms']]} in {most['step']}"
    return finding(phrase("{} to {} of a process's bytes are unexplained, {}", *ends, whose))


def _shared(of: pl.DataFrame, names: dict[str, str]) -> Iterator[Clause]:
    """A sentence on the step and dbms in which the device wrote most beyond the bytes of the server's processes."""
    for row in of.filter(pl.col("role") == "device", pl.col("share") >= MUCH_MORE).top_k(1, by="share").to_dicts():
        text = "The device is shared: it wrote {} of the bytes of {} in {}, including the file system's journal and "
        yield finding(phrase(f"{text}other processes", _percent(row, ".0f"), names[row["dbms"]], row["step"]))


def _percent(row: Row, digits: str = "+.1f") -> Clause:
    number = formatted(100 * row["share"], digits)
    claim = Claim(FRAME, _cell(row), row["share"] * 100, "percent", written=number)
    return Clause(f"{number} %", [claim])


def _kb(row: Row, column: str = "kb") -> Clause:
    number = f"{formatted(row[column], ',.2f' if column == 'kb' else '+,.2f')} KB"
    return Clause(number, [Claim(FRAME, _cell(row), row[column], column, written=number)])


def _cell(row: Row) -> dict[str, str]:
    return {name: row[name] for name in ("host", "step", "dbms", "purpose")}


def frame(study: Study) -> pl.DataFrame:
    """The frame from which the numbers in the page's sentences are recomputed."""
    kb, base_kb, cell = pl.col("kb"), pl.col("base_kb"), ["host", "step", "dbms", "purpose"]
    of_rounds = written(study).group_by(cell).agg(spread=100 * (kb.max() - kb.min()) / kb.mean())
    return (
        stats.by_purpose(study)
        .with_columns(percent=100 * pl.col("share"), more_kb=kb - base_kb.fill_null(0))
        .with_columns(ratio=pl.when(base_kb > 0).then(kb / base_kb))
        .join(of_rounds, on=cell, how="left", maintain_order="left")
    )
