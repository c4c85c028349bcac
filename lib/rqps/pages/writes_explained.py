"""The page of written bytes: sentences on what each step writes, for what, and what is not explained."""

from collections.abc import Iterator

import polars as pl

from rqps import stats
from rqps.show import Claim, Clause, Row, Sentences, finding, listed, phrase
from rqps.stats.writes import PROCESS, REST
from rqps.store import Study

FRAME = "written"
LEAST_SHARE = 0.01
"""The share of a step's bytes that a purpose needs to be named."""


def findings(study: Study) -> Sentences:
    """A sentence for each step: the dbms that writes most per operation, for what, and its change from the base."""
    of = stats.by_purpose(study)
    if of.is_empty():
        return Sentences(["No step writes anything that its engine counts by purpose."])
    return Sentences([*_steps(of, study), _left(of)])


def _steps(of: pl.DataFrame, study: Study) -> Iterator[Clause]:
    names = dict(stats.names(study).select("dbms", "short").iter_rows())
    several = of["host"].n_unique() > 1
    for (host, step), rows in of.group_by("host", "step", maintain_order=True):
        most = rows.filter(role="whole").sort("kb", descending=True, maintain_order=True).row(0, named=True)
        mine = rows.filter(dbms=most["dbms"])
        named = mine.filter(pl.col("role") == "part", pl.col("share").abs() >= LEAST_SHARE)
        parts = [phrase("{} {}", row["purpose"], _kb(row)) for row in named.sort("kb", descending=True).to_dicts()]
        clauses = [phrase("{}: {} writes most, {} per operation", step, names[most["dbms"]], _kb(most))]
        if most["dbms"] != study.card.base and most["base_kb"]:
            base = rows.filter(dbms=study.card.base, role="whole").row(0, named=True)
            clauses.append(phrase("{} writes {}", names[study.card.base], _kb(base)))
        yield finding(*clauses, listed(parts), place=str(host) * several)


def _left(of: pl.DataFrame) -> Clause:
    """The range of what is not explained, over all steps and dbms."""
    rest = of.filter(role="rest").sort("share")
    ends = [_percent(rest.row(0, named=True)), _percent(rest.row(-1, named=True))]
    return finding(phrase("the parts leave {} to {} of a process's bytes unexplained", *ends))


def _percent(row: Row) -> Clause:
    number = f"{100 * row['share']:+.1f}"
    claim = Claim(FRAME, _cell(row), row["share"] * 100, "percent", written=number)
    return Clause(f"{number} %", [claim])


def _kb(row: Row) -> Clause:
    number = f"{row['kb']:,.2f} KB"
    return Clause(number, [Claim(FRAME, _cell(row), row["kb"], "kb", written=number)])


def _cell(row: Row) -> dict[str, str]:
    return {name: row[name] for name in ("host", "step", "dbms", "purpose")}


def frame(study: Study) -> pl.DataFrame:
    """The frame of the page's claims."""
    return stats.by_purpose(study).with_columns(percent=100 * pl.col("share"))


__all__ = ["PROCESS", "REST", "findings", "frame"]
