"""What was measured here as columns to set beside published ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rqps.analysis import relative, summarise
from rqps.errors import RqpsError
from rqps.published.pairs import Pair, Server, nearest, pairs_of, server
from rqps.published.theirs import NOT_SAID, Column
from rqps.store.find import data_folder, studies
from rqps.store.read import Study, load
from rqps.workloads import step_label


def studies_of(workload: str, first: str, data: str | Path | None = None) -> Iterator[Study]:
    """Every study of a workload that has a finished run, the one that is named first."""
    try:
        there = studies(data_folder(data))
    except RqpsError:
        if data:
            raise
        return  # a checkout in which nothing was measured yet
    for name in sorted(there, key=lambda name: name != first):
        study = load(name, data)
        if study.card.workload == workload and study.runs.height:
            yield study


def ours(study: Study, theirs: list[Pair]) -> Iterator[Column]:
    """A column a host: the comparison of the study that is nearest to one of theirs, both with the base's config."""
    config = study.card.base.partition(".")[2]
    for (host,), runs in study.runs.filter(config=config).group_by("host", maintain_order=True):
        servers = {server(build, version) for build, version in runs.select("build", "version").unique().rows()}
        if pair := nearest(pairs_of(sorted(servers, key=lambda each: each.name)), theirs):
            yield _column(study, str(host), config, pair)


def _column(study: Study, host: str, config: str, pair: Pair) -> Column:
    me, base = f"{pair.me.name}.{config}", f"{pair.base.name}.{config}"
    runs = study.runs.filter(pl.col("dbms").is_in([me, base]), host=host)
    steps = study.steps.filter(pl.col("run").is_in(runs["run"].to_list()))
    summary = summarise(relative(steps, runs, base)).filter(metric="operations_per_s")
    name = f"{host}: {pair.me.version} / {pair.base.version}, {study.card.study}"
    return Column(
        whose="ours",
        pair=pair,
        conditions=_conditions(study, host, pair, config, summary) | {"column": name},
        numbers=[_number(row, study.card.workload, name) for row in summary.iter_rows(named=True)],
    )


def _number(row: dict[str, Any], workload: str, name: str) -> dict[str, Any]:
    return {
        "step": step_label(workload, row["step"]),
        "column": name,
        "whose": "ours",
        "value": row["median"],
        "printed": f"{row['median']:.2f}",
        "low": row["low"],
        "high": row["high"],
        "rounds": row["n"],
    }


def _conditions(study: Study, host: str, pair: Pair, config: str, summary: pl.DataFrame) -> dict[str, str]:
    parameters = study.card.parameters
    seconds = str(parameters.get("seconds", NOT_SAID))
    writing = parameters.get("write_seconds")
    rows = parameters.get("table_rows")
    size = f"{rows:,}" if isinstance(rows, int) else NOT_SAID
    first = ", the secondary index made before them" if parameters.get("index_first") else ""
    sources = study.runs.filter(pl.col("build").is_in([pair.me.name, pair.base.name]))["build_source"]
    return {
        "where from": f"study {study.card.study}",
        "me": f"{_named(pair.me)} {config}",
        "base": f"{_named(pair.base)} {config}",
        "host": _machine(study.conditions.filter(host=host, kind="machine")),
        "threads": str(parameters.get("threads", NOT_SAID)),
        "size": f"{parameters.get('tables', NOT_SAID)} x {size} rows{first}",
        "seconds": seconds if writing is None else f"{seconds}, writes {writing}",
        "rounds": " to ".join(dict.fromkeys(str(n) for n in (summary["n"].min(), summary["n"].max()))),
        "builds": "; ".join(sources.unique().sort()),
    }


def _named(server: Server) -> str:
    return f"{server.name} ({server.version})"


def _machine(conditions: pl.DataFrame) -> str:
    known = dict(conditions.select("name", "value").unique("name").iter_rows())
    memory = f"{int(known['memory_kb']) / 1024**2:.0f}G RAM" if known.get("memory_kb") else ""
    cpus = f"{known['cpus']} CPUs" if known.get("cpus") else ""
    virtual = f"a virtual machine ({known['hypervisor']})" if known.get("hypervisor") else ""
    return ", ".join(part for part in (known.get("cpu_model"), cpus, memory, virtual) if part) or "not described"
