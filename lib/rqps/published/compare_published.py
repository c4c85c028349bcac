"""Compares sysbench studies in the data folder ("ours") with published studies ("theirs"): the same steps, the
nearest releases, and all differences between the conditions."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rqps.errors import RqpsError
from rqps.numbers import formatted, memory
from rqps.published.checks import view
from rqps.published.figures import Published
from rqps.published.versions import Pair, nearest, pairs_of, server
from rqps.show import ratio
from rqps.stats import compare, machine_state, measured, relate, rounds_of_pairs
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study, load
from rqps.store.manifest import data_folder, studies

WORKLOAD, ENGINE = "sysbench", "mysql"
"""The workload and the engine of the published tables."""
NOT_SAID = "not said"
_CONDITIONS = ("column", "me", "base", "host", "state", "threads", "size", "seconds", "rounds", "builds")


class Column(NamedTuple):
    """The numbers of one comparison and the conditions of their measurement."""

    pair: Pair
    conditions: dict[str, str]
    numbers: pl.DataFrame
    imported: bool = False


class Beside(NamedTuple):
    """The columns of published studies (theirs) and of our studies, and the reasons why some of our studies are
    missing."""

    theirs: list[Column]
    ours: list[Column]
    refused: list[str]

    @property
    def numbers(self) -> pl.DataFrame:
        """One row per number, for the steps that both published studies and our studies have, in the order of the
        groups of steps."""
        if not self.ours:
            return pl.DataFrame()
        numbers = [
            column.numbers.with_columns(column=pl.lit(column.conditions["column"]))
            for column in (*self.theirs, *self.ours)
        ]
        # Steps are in the order of our study with the most steps.
        longest_first = sorted((column.numbers for column in self.ours), key=len, reverse=True)
        every = pl.concat(column.sort("table_position") for column in longest_first)
        steps = every.filter(pl.col("step").is_in(_steps(self.theirs))).unique("step", maintain_order=True)
        order = steps.select("step", "group").with_row_index("row")
        order = order.with_columns(group_row=pl.col("row").min().over("group"))
        shown = pl.concat(numbers, how="diagonal").drop("group", "table_position")
        return shown.join(order, on="step").sort("group_row", "row", maintain_order=True).drop("group_row", "row")

    @property
    def conditions(self) -> pl.DataFrame:
        """One row per column with the conditions of its measurement."""
        rows = [column.conditions for column in (*self.theirs, *self.ours)]
        return pl.DataFrame(rows, schema=dict.fromkeys(_CONDITIONS, pl.String))


def beside(published: Published, study: str, data: str | Path | None = None) -> Beside:
    """Compares the tables of every source with each of our studies of the same workload, `study` first."""
    tables = list(_tables(published))
    printed = [pair for _, pairs in tables for pair in pairs]
    columns: list[Column] = []
    refused = []
    for mine in _studies(study, data):
        try:
            columns += _ours(mine, printed)
        except RqpsError as error:  # a study without comparisons can't be compared with published ratios
            refused.append(f"The study {mine.card.study} is left out: {error.message}.")
    ours = [column.pair for column in columns]
    near = [(rows, nearest(pairs, ours)) for rows, pairs in tables] if ours else []
    theirs = [_theirs(published, rows, pair) for rows, pair in near if pair]
    return Beside(theirs, columns, refused)


def what_differs(compared: Beside) -> Iterator[str]:
    """The differences that a reader has to know before comparing columns."""
    yield from compared.refused
    here, their_columns = compared.ours, compared.theirs
    if not here:
        yield f"No study of {WORKLOAD} has been measured here: there is nothing to set beside theirs."
        return
    same = [one for one in here if any(one.pair.is_same(other.pair) for other in their_columns)]
    has_imported = any(column.imported for column in here)
    ours_are = "those beside them, imported ones too," if has_imported else "ours"
    versions = f"theirs are {_pairs(their_columns)}, {ours_are} {_pairs(here)}"
    if len(same) == len(here):
        yield f"The releases are the same: {versions}."
    else:
        yield (
            f"The releases: {versions}, the nearest that there are. Ratios of other releases answer another "
            "question: look where each loses and gains, and do not set one number against the other."
        )
    for what in ("host", "state", "threads", "size", "seconds"):
        theirs, ours = (_all(column.conditions[what] for column in columns) for columns in (their_columns, here))
        yield f"{what.capitalize()}: theirs {theirs}; {ours_are} {ours}."
    yield f"The repeats: theirs give neither a count nor a spread; {ours_are} are means of rounds, with an interval."
    yield f"The builds: theirs are from source with the same flags; {ours_are} are what the table below says."
    if alone := set(_steps(here)).difference(_steps(their_columns)):
        yield f"Of our steps these are in none of their tables: {_all(sorted(alone))}."


def _steps(columns: list[Column]) -> list[str]:
    return [step for column in columns for step in column.numbers["step"]]


def _pairs(columns: Iterable[Column]) -> str:
    return _all(str(column.pair) for column in columns)


def _all(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _tables(published: Published) -> Iterator[tuple[pl.DataFrame, list[Pair]]]:
    """The rows of every published rQPS table, with its comparisons."""
    for _, rows in view(published, "whole_tables").group_by("source", "section", "host", maintain_order=True):
        base = server(str(rows["base"][0]).removeprefix("x.").split(".")[0])
        yield rows, [Pair(base, server(build)) for build in rows["build"].unique(maintain_order=True)]


def _theirs(published: Published, table: pl.DataFrame, pair: Pair) -> Column:
    first = table.row(0, named=True)
    source = published.sources[first["source"]]
    host = source.hosts[first["host"]]
    sizes = (NOT_SAID if size is None else f"{size:,}" for size in (host.tables, host.rows_per_table))
    conditions = {
        "column": f"{first['host']}: {pair.me.version} / {pair.base.version}, {first['source']}",
        "me": pair.me.name,
        "base": pair.base.name,
        "host": host.hardware,
        "state": NOT_SAID,
        "threads": _threads(table),
        "size": "{} x {} rows".format(*sizes),
        "seconds": "{read}, writes {write}".format(**source.seconds) if source.seconds else NOT_SAID,
        "rounds": NOT_SAID,
        "builds": "compiled from source, the same flags for all",
    }
    return Column(pair, conditions, table.filter(build=pair.me.name).select("step", "value", "printed"))


def _threads(table: pl.DataFrame) -> str:
    """The number of threads in most steps of a table, then the steps with another number: `24 (scan 8)`."""
    most, *others = table.group_by("threads").agg("step").sort(pl.col("step").list.len(), descending=True).rows()
    measured_steps = [
        f"{', '.join(sorted({step.split('_')[0] for step in steps}))} {threads}" for threads, steps in others
    ]
    return f"{most[0]} ({', '.join(measured_steps)})" if measured_steps else str(most[0])


def _studies(first: str, data: str | Path | None) -> Iterator[Study]:
    try:
        known = studies(data_folder(data))
    except RqpsError:
        if data:
            raise
        return  # there is no data folder: nothing was measured in this checkout yet
    given = (first,) if "/" in first else ()  # `first` may be the path of a study outside of the data folder
    for name in (*given, *sorted(known, key=lambda name: name != first)):
        study = load(name, data)
        if study.card.workload == WORKLOAD and set(study.runs["engine"]) == {ENGINE}:
            yield study


def _ours(study: Study, theirs: list[Pair]) -> Iterator[Column]:
    """One column per host: the study's comparison of two releases that is nearest to any comparison in `theirs`.
    Both releases have the base's config."""
    config = study.configs.get(study.card.base, "")
    for (host,), runs in study.runs.filter(config=config).group_by("host", maintain_order=True):
        servers = {server(build, version) for build, version in runs.select("build", "version").unique().rows()}
        if pair := nearest(pairs_of(sorted(servers, key=lambda server: server.name)), theirs):
            yield _column(study, str(host), config, pair)


def _column(study: Study, host: str, config: str, pair: Pair) -> Column:
    me, base = f"{pair.me.name}.{config}", f"{pair.base.name}.{config}"
    if base == study.card.base:
        compared = relate(study)[1].filter(host=host, dbms=me, metric=THROUGHPUT)
    else:
        values = measured(study, [THROUGHPUT]).filter(host=host)
        compared = compare(rounds_of_pairs(values, [(base, me)]))
    several = pl.col("clients").n_unique().over("kind", "range") > 1
    clients = pl.when(several).then(pl.format("@{}", "clients")).otherwise(pl.lit(""))
    size = pl.coalesce(pl.format("_range={}", "range"), pl.lit(""))
    label = pl.format("{}{}{}", "kind", size, clients)
    numbers = compared.select(
        label.alias("step"),
        "group",
        "table_position",
        pl.col("estimate").alias("value"),
        pl.col("estimate").map_elements(ratio, pl.String).alias("printed"),
        "low",
        "high",
        "verdict",
        pl.col("n").alias("rounds"),
    )
    conditions = _conditions(study, host, pair, config, numbers["rounds"])
    return Column(pair, conditions, numbers, imported=study.card.imported)


def _conditions(study: Study, host: str, pair: Pair, config: str, rounds: pl.Series) -> dict[str, str]:
    parameters = study.card.parameters
    seconds, writing = str(parameters.get("seconds", NOT_SAID)), parameters.get("write_seconds")
    threads = str(parameters.get("threads", NOT_SAID))
    if study.card.imported:  # its parameters were not imported: clients and seconds are read from its steps
        threads = _all(map(str, sorted(study.steps["clients"].unique())))
        lengths = study.steps["elapsed_s"].drop_nulls().sort()
        ends = (formatted(value, ".0f") for value in (*lengths[:1], *lengths[-1:]))
        seconds = " to ".join(dict.fromkeys(ends)) or NOT_SAID
    rows = parameters.get("table_rows")
    size = f"{rows:,}" if isinstance(rows, int) else NOT_SAID
    first = ", the secondary index made before them" if parameters.get("index_first") else ""
    sources = study.runs.filter(pl.col("build").is_in([pair.me.name, pair.base.name]))["build_source"]
    return {
        "column": f"{host}: {pair.me.version} / {pair.base.version}, {study.card.study}"
        + ", imported" * study.card.imported,
        "me": f"{pair.me.name} ({pair.me.version}) {config}",
        "base": f"{pair.base.name} ({pair.base.version}) {config}",
        "host": machine(study.conditions.filter(host=host)),
        "state": str(machine_state(study) or "not recorded"),
        "threads": threads,
        "size": f"{parameters.get('tables', NOT_SAID)} x {size} rows{first}",
        "seconds": seconds if writing is None else f"{seconds}, writes {writing}",
        "rounds": " to ".join(dict.fromkeys(str(n) for n in (rounds.min(), rounds.max()))),
        "builds": "; ".join(sources.unique().sort()),
    }


def machine(conditions: pl.DataFrame) -> str:
    """CPU, memory and hypervisor of the machine that the `conditions` describe."""
    machines = conditions.filter(kind="machine")
    known: dict[str, Any] = dict(machines.select("name", "value").unique("name").iter_rows())
    size = f"{memory(int(known['memory_kb']))} RAM" if known.get("memory_kb") else ""
    cpus = f"{known['cpus']} CPUs" if known.get("cpus") else ""
    virtual = f"a virtual machine ({known['hypervisor']})" if known.get("hypervisor") else ""
    return ", ".join(part for part in (known.get("cpu_model"), cpus, size, virtual) if part) or "not described"
