"""The page on written bytes: sentences on the bytes that each step writes, by purpose, and on the unexplained
rest."""

from collections.abc import Iterator

import polars as pl

from rqps import stats
from rqps.show import Claim, Clause, Row, Sentences, finding, listed, phrase
from rqps.store import Study
from rqps.terminal import formatted

FRAME = "written"
LEAST_SHARE = 0.01
"""The minimum share of a step's bytes that a purpose needs to be named."""


def findings(study: Study) -> Sentences:
    """A sentence for each step: the dbms that writes most per operation, the bytes of the base, and the bytes by
    purpose; then a sentence on the unexplained rest."""
    of = stats.by_purpose(study)
    if of.is_empty():
        return Sentences(["No step writes anything that its engine counts by purpose."])
    names = dict(stats.names(study).select("dbms", "short").iter_rows())
    return Sentences([*_steps(of, study.card.base, names), _left(of, names)])


def _steps(of: pl.DataFrame, base: str, names: dict[str, str]) -> Iterator[Clause]:
    several = of["host"].n_unique() > 1
    for (host, step), rows in of.group_by("host", "step", maintain_order=True):
        most = rows.filter(role="whole").sort("kb", descending=True, maintain_order=True).row(0, named=True)
        mine = rows.filter(dbms=most["dbms"])
        named = mine.filter(pl.col("role") == "part", pl.col("share").abs() >= LEAST_SHARE)
        parts = [phrase("{} {}", row["purpose"], _kb(row)) for row in named.sort("kb", descending=True).to_dicts()]
        clauses = [phrase("{}: {} writes most, {} per operation", step, names[most["dbms"]], _kb(most))]
        if most["dbms"] != base and most["base_kb"]:
            of_base = rows.filter(dbms=base, role="whole").row(0, named=True)
            clauses.append(phrase("{} writes {}", names[base], _kb(of_base)))
        yield finding(*clauses, listed(parts), place=str(host) * several)


def _left(of: pl.DataFrame, names: dict[str, str]) -> Clause:
    """A sentence on the range, over all steps and dbms, of the share of bytes that no purpose explains."""
    rest = of.filter(role="rest").sort("share", maintain_order=True).to_dicts()
    ends = [_percent(rest[0]), _percent(rest[-1])]
    most = max(rest, key=lambda row: abs(row["share"]))
    whose = f"most of {names[most['dbms']]} in {most['step']}"
    return finding(phrase("The parts leave {} to {} of a process's bytes unexplained, {}", *ends, whose))


def _percent(row: Row) -> Clause:
    number = formatted(100 * row["share"], "+.1f")
    claim = Claim(FRAME, _cell(row), row["share"] * 100, "percent", written=number)
    return Clause(f"{number} %", [claim])


def _kb(row: Row) -> Clause:
    number = f"{row['kb']:,.2f} KB"
    return Clause(number, [Claim(FRAME, _cell(row), row["kb"], "kb", written=number)])


def _cell(row: Row) -> dict[str, str]:
    return {name: row[name] for name in ("host", "step", "dbms", "purpose")}


def frame(study: Study) -> pl.DataFrame:
    """The frame from which the numbers in the page's sentences are recomputed."""
    return stats.by_purpose(study).with_columns(percent=100 * pl.col("share"))
