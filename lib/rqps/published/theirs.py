"""The rQPS tables of published sysbench studies as columns to set ours beside."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from rqps.published.checks import view
from rqps.published.figures import Published
from rqps.published.pairs import Pair, nearest, server

NOT_SAID = "not said"


@dataclass(frozen=True)
class Column:
    """The numbers of one comparison, theirs or ours, with what they were measured on."""

    whose: str
    pair: Pair
    conditions: dict[str, str]
    numbers: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return self.conditions["column"]


@dataclass(frozen=True)
class Table:
    """One printed table: who did better or worse than one base on one host."""

    source: str
    section: str
    host: str
    threads: str
    pairs: dict[str, Pair]
    """By the name of me's build."""


def tables_of(published: Published) -> list[Table]:
    """Every rQPS table, without summaries and without what only repeats another host's table."""
    copied = set(view(published, "copies").select("source", "section").rows())
    whole = published.rqps.filter(~pl.col("section").str.contains(r"\("))
    found = []
    for (source, section, host), rows in whole.group_by("source", "section", "host", maintain_order=True):
        base = server(str(rows["base"][0]).removeprefix("x.").split(".")[0])
        pairs = {build: Pair(base, server(build)) for build in rows["build"].unique(maintain_order=True)}
        if (source, section) not in copied:
            found.append(Table(str(source), str(section), str(host), _threads(rows), pairs))
    return found


def theirs(published: Published, ours: list[Pair]) -> Iterator[Column]:
    """A column a table: the comparison in it that is nearest to one of ours."""
    for table in tables_of(published):
        if pair := nearest(table.pairs.values(), ours):
            yield _column(published, table, pair)


def _column(published: Published, table: Table, pair: Pair) -> Column:
    source = published.sources[table.source]
    host = source.hosts[table.host]
    name = f"{table.host}: {pair.me.version} / {pair.base.version}, {table.source}"
    seconds = f"{source.seconds.read}, writes {source.seconds.write}" if source.seconds else NOT_SAID
    rows = published.rqps.filter(source=table.source, section=table.section, build=pair.me.name)
    return Column(
        whose="theirs",
        pair=pair,
        conditions={
            "column": name,
            "where from": table.source,
            "me": pair.me.name,
            "base": pair.base.name,
            "host": host.hardware,
            "threads": table.threads,
            "size": f"{_number(host.tables)} x {_number(host.rows_per_table)} rows",
            "seconds": seconds,
            "rounds": NOT_SAID,
            "builds": "compiled from source, the same flags for all",
        },
        numbers=[
            {"step": row["step"], "column": name, "whose": "theirs", "value": row["value"], "printed": row["printed"]}
            for row in rows.iter_rows(named=True)
        ],
    )


def _threads(rows: pl.DataFrame) -> str:
    """Threads of a table; of steps that have others, these too: `24 (scan 8)`."""
    most, *others = rows.group_by("threads").agg("step").sort(pl.col("step").list.len(), descending=True).rows()
    said = [f"{', '.join(sorted({step.split('_')[0] for step in steps}))} {threads}" for threads, steps in others]
    return f"{most[0]} ({', '.join(said)})" if said else str(most[0])


def _number(value: int | None) -> str:
    return NOT_SAID if value is None else f"{value:,}"
