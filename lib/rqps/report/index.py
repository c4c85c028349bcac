"""What the first page of a study says: findings, conditions, and its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
from markupsafe import Markup

from rqps import view
from rqps.amounts import duration
from rqps.errors import RqpsError
from rqps.pages import relative_throughput
from rqps.pages.relative_throughput.groups import MANY
from rqps.store.read import Study

MACHINE = {
    "cpu_model": "CPU",
    "cpus": "CPUs",
    "hypervisor": "virtual machine",
    "memory_kb": "memory",
    "file_system": "file system",
    "kernel": "kernel",
    "distribution": "distribution",
}
MOST_NAMED = 12
"""Steps; of more, the first and the last."""

_NO_TABLE = Markup("")


@dataclass(frozen=True)
class Page:
    """A link to a page."""

    file: str
    title: str
    about: str


@dataclass(frozen=True)
class Findings:
    """What a study says in short, or why it says nothing."""

    sentences: Sequence[str] = ()
    table: Markup = _NO_TABLE
    """All ratios, or of many steps the worst, below the groups."""
    groups: Markup = _NO_TABLE
    nothing: str = ""


def findings_of(study: Study) -> Findings:
    """Findings as sentences, with the table of all ratios; of many steps, with those of the groups and the worst."""
    if study.runs.is_empty():
        return Findings(nothing="No run of this study has finished yet.")
    try:
        rounds, compared = relative_throughput.relate(study)
    except RqpsError as error:
        return Findings(nothing=str(error))
    sentences = relative_throughput.findings(compared, *relative_throughput.configs(study, rounds)).sentences
    if compared["step"].n_unique() <= MANY:
        return Findings(sentences, Markup(view.ratio_table(compared).as_raw_html()))
    by_group, worst = relative_throughput.group_table(compared), relative_throughput.worst_table(compared)
    return Findings(sentences, Markup(worst.as_raw_html()), Markup(by_group.as_raw_html()))


def facts_of(study: Study) -> list[tuple[str, str]]:
    """The first is when and where; then what was compared and on what machine."""
    card, runs = study.card, study.runs
    facts = [("compared", f"{', '.join(card.dbms)}; base is {card.base}")]
    facts.append(("load", f"{card.workload}: {_parameters(card.parameters)}"))
    finished = f"{runs.height} of {len(card.dbms) * card.rounds} runs finished"
    failed = f", {study.failed.height} tries failed" if study.failed.height else ""
    facts.append(("runs", f"{card.rounds} rounds planned; {finished}{failed}"))
    for (host,), _ in runs.group_by("host", maintain_order=True):
        facts.append((f"machine {host}", _machine(study.conditions.filter(host=host))))
        placed = study.conditions.filter(pl.col("host") == host, pl.col("kind") == "placement")
        facts.append(("placement", _placement(placed)))
    return [("when", _when(runs)), *facts]


def run_rows(study: Study, runs: pl.DataFrame, files: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Runs for a table, with the number of their warnings and their page."""
    warned = dict(study.warnings.group_by("run").len().rows())
    return [
        {
            "name": row["run"],
            "dbms": row["dbms"],
            "round": row["round"],
            "host": row["host"],
            "started": _moment(row["started_at"]),
            "took": duration(row["elapsed_s"]),
            "warnings": warned.get(row["run"], 0),
            "error": row["error"] or "",
            "file": files[row["folder"]],
        }
        for row in runs.sort("started_at", "run").iter_rows(named=True)
    ]


def _when(runs: pl.DataFrame) -> str:
    if runs.is_empty():
        return "Nothing measured yet."
    first, last = runs.select(pl.col("started_at").min(), pl.col("ended_at").max()).row(0)
    hosts = ", ".join(runs["host"].unique().sort())
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"Measured on {hosts} from {first:%Y-%m-%d %H:%M} to {until} UTC, {runs.height} runs."


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _parameters(parameters: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} {_told(value)}" for name, value in parameters.items())


def _told(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    if len(value) > MOST_NAMED:
        return f"{value[0]} to {value[-1]}, {len(value)} in all"
    return ", ".join(map(str, value))


def _machine(conditions: pl.DataFrame) -> str:
    known: dict[str, str] = dict(conditions.filter(kind="machine").select("name", "value").unique("name").rows())
    if "memory_kb" in known:
        known["memory_kb"] = f"{int(known['memory_kb']) / 1024**2:.0f} GB"
    return "; ".join(f"{title} {known[name]}" for name, title in MACHINE.items() if name in known) or "not described"


def _placement(conditions: pl.DataFrame) -> str:
    """Where things ran; for each number of clients where that made a difference."""
    known: dict[str, str] = dict(conditions.select("name", "value").unique("name").rows())
    before = sorted({name.rpartition(".")[0] for name in known if "." in name}, key=lambda name: int(name.split()[1]))
    return "; ".join(f"{each} {_placed(known, f'{each}.')}" for each in before) or _placed(known, "")


def _placed(known: Mapping[str, str], before: str) -> str:
    who = [f"{name} on CPU {known[f'{before}{name}_cpus']}" for name in ("server", "client", "observer")]
    return f"{known[f'{before}kind']}: {', '.join(who)}"
