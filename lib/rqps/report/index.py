"""Facts and runs of a study for its first page."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rqps.numbers import counted, duration, memory
from rqps.show import rounds_of
from rqps.store.read import Study, load

MACHINE = {"cpu_model": "CPU", "cpus": "CPUs", "hypervisor": "virtual machine", "memory_kb": "memory"}
MACHINE |= {"file_system": "file system", "kernel": "kernel", "distribution": "distribution"}
MOST_NAMED = 12
"""Maximum length of a list that is shown in full. If a list is longer, only its first and last values are shown."""
FEW = 3
"""Maximum number of dbms that are listed by name; of more dbms, the number is shown."""

OTHER_RUNS = {
    "twin": "of the base's twin",
    "health": "of the base against itself",
    "stacks": "for call stacks",
    "waits": "for waits",
    "instructions": "for counts of instructions",
}
"""Describes runs that are not part of the study's comparisons: the base's twin, and runs of other modes."""
OF_DBMS = {"options": "option", "compiled": "compiled"}
"""Maps the label of a line on the first page to the `kind` of the rows of `study.conditions` that the line lists."""


def facts_of(study: Study, runs: pl.DataFrame) -> list[tuple[str, str]]:
    """The facts of a study as names and values: when and where it was measured, then the dbms, the load, the runs and
    the machine. `runs` has the runs of all modes."""
    card = study.card
    parameters = "; ".join(f"{name} {_listed(value)}" for name, value in card.parameters.items())
    failed = (
        f", {study.failed.height} {'try' if study.failed.height == 1 else 'tries'} failed"
        if study.failed.height
        else ""
    )
    facts = [
        ("when", _when(runs, "Imported; files of" if study.card.imported else "Measured on")),
        ("compared", f"{', '.join(card.dbms)}; base is {card.base}"),
        ("load", f"{card.workload}: {parameters}"),
        ("runs", "; ".join(filter(None, [_rounds(study), *_others(runs)])) + failed),
    ]
    facts += [(name, text) for name, kind in OF_DBMS.items() for text in _by_dbms(study, kind)]
    parameters_of = study.conditions.filter(kind="parameter").select("host", "name", "value").unique().sort("name")
    asked = parameters_of.filter(pl.col("value").n_unique().over("name") > 1)
    for (host,), _ in runs.group_by("host", maintain_order=True):
        if own := asked.filter(host=host).select(pl.format("{} {}", "name", "value")).to_series().to_list():
            facts.append((f"load of {host}", "; ".join(own)))
        facts.append((f"machine {host}", _machine(study.conditions.filter(host=host))))
        facts.append(("placement", _placement(study, host)))
    return facts


def run_rows(study: Study, runs: pl.DataFrame, files: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """The runs as dicts for a table, each with the number of its warnings and its page."""
    every = load(study.place, mode=None)  # `study` has the warnings of one mode only
    warned = dict(every.warnings.group_by("run").len().rows())
    return [
        row
        | {
            "started": f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
            "took": duration(row["elapsed_s"]),
            "warnings": warned.get(row["run"], 0),
            "file": files[row["folder"]],
        }
        for row in runs.sort("started_at", "run").iter_rows(named=True)
    ]


def _when(runs: pl.DataFrame, measured: str) -> str:
    if runs.is_empty():
        return "Nothing measured yet."
    first, last = runs.select(pl.col("started_at").min(), pl.col("ended_at").max()).row(0)
    hosts = ", ".join(runs["host"].unique().sort())
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{measured} {hosts} from {first:%Y-%m-%d %H:%M} to {until} UTC, {counted(runs.height, 'run')}."


def _rounds(study: Study) -> str:
    """The planned rounds or the time budget, and the number of finished runs."""
    card, finished = study.card, study.runs.height
    if card.rounds == 0:
        return ""
    of_occasions = f" on each of {card.occasions} occasions" if card.occasions > 1 else ""
    if card.rounds is not None:
        hosts = max(study.runs["host"].n_unique(), 1)
        planned = (len(card.dbms) - len(card.absent)) * card.rounds * card.occasions * hosts
        of_hosts = f" on each of {hosts} hosts" if hosts > 1 else ""
        plan = f"{rounds_of([card.rounds])}{of_occasions}{of_hosts} planned"
        return f"{plan}; {finished} of {counted(planned, 'run')} finished"
    runs_of = Counter(study.runs.select("host", "dbms").rows()).values()
    rounds = "–".join(map(str, sorted({min(runs_of, default=0), max(runs_of, default=0)})))
    time = f"{duration(card.budget_s)}{of_occasions}, spent" if card.budget_s else "rounds"
    return f"{time} on undecided comparisons: {rounds} rounds of each dbms; {counted(finished, 'run')} finished"


def _by_dbms(study: Study, kind: str) -> list[str]:
    """The conditions of one kind: one line with the conditions that all dbms share, then one line for each set of
    dbms with the conditions that only these dbms share."""
    rows = study.conditions.filter(kind=kind).select("name", "value", "dbms").unique(maintain_order=True)
    everyone = sorted(set(study.conditions["dbms"]))
    alike = rows.group_by("name", "value", maintain_order=True).agg(pl.col("dbms").sort())
    alike = alike.with_columns(words=pl.format("{} {}", "name", pl.col("value").replace("", "(empty)")))
    together = alike.group_by("dbms", maintain_order=True).agg(pl.col("words").str.join("; "))
    of_all = [words for dbms, words in together.rows() if dbms == everyone]
    of_some = [f"on {_most(dbms, everyone)}: {words}" for dbms, words in together.rows() if dbms != everyone]
    return of_all + of_some


def _most(some: Sequence[str], everyone: Sequence[str]) -> str:
    """Describes some of the dbms by their names, as all but a few named dbms, or by their number.

    >>> everyone = [f"my{number}.a" for number in range(20)]
    >>> _most(everyone[:2], everyone), _most(everyone[1:], everyone), _most(everyone[:9], everyone)
    ('my0.a, my1.a', 'all but my0.a', '9 dbms')
    """
    others = [dbms for dbms in everyone if dbms not in some]
    if len(some) <= FEW:
        return ", ".join(some)
    return f"all but {', '.join(others)}" if len(others) <= FEW else f"{len(some)} dbms"


def _others(runs: pl.DataFrame) -> list[str]:
    counts = Counter(
        runs.select(pl.when("twin", mode="throughput").then(pl.lit("twin")).otherwise("mode")).to_series()
    )
    more = "more " * (counts["throughput"] > 0)
    return [f"{counts[mode]} {more}{what}" for mode, what in OTHER_RUNS.items() if counts[mode]]


def _listed(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    if len(value) > MOST_NAMED:
        return f"{value[0]} to {value[-1]}, {len(value)} in all"
    return ", ".join(map(str, value))


def _machine(conditions: pl.DataFrame) -> str:
    known: dict[str, str] = dict(conditions.filter(kind="machine").select("name", "value").unique("name").rows())
    if "memory_kb" in known:
        known["memory_kb"] = memory(int(known["memory_kb"]))
    return "; ".join(f"{title} {known[name]}" for name, title in MACHINE.items() if name in known) or "not described"


def _placement(study: Study, host: str) -> str:
    """The CPUs on which dbms, client and observer ran; listed per number of clients if the CPUs depend on it."""
    folders = study.runs.filter(host=host)["folder"].implode()
    texts = study.manifests.filter(pl.col("folder").is_in(folders)).select("manifest").collect()["manifest"]
    manifests = [json.loads(text) for text in texts]
    by_clients = {int(n): placed for facts in manifests for n, placed in facts.get("placements", {}).items()}
    texts_of = [f"with {counted(n, 'client')} {_placed(placed)}" for n, placed in sorted(by_clients.items())]
    return "; ".join(texts_of) or _placed(manifests[0]["placement"])


def _placed(placement: Mapping[str, Any]) -> str:
    if not placement["server_cpus"]:
        return str(placement["kind"])
    names = {"server": "dbms", "client": "client", "observer": "observer"}
    who = [f"{name} on CPU {', '.join(map(str, placement[f'{key}_cpus']))}" for key, name in names.items()]
    return f"{placement['kind']}: {', '.join(who)}"
