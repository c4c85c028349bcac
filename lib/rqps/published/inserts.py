"""Our insert benchmark beside the published ones: ratios of throughput that both have of the same step."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rqps.published.figures import Published
from rqps.published.lookups import by_release
from rqps.stats.interval import estimate
from rqps.stats.metrics import measured
from rqps.stats.relative import paired
from rqps.store.read import Study

SOURCES = ("insert-benchmark-8027", "perf-schema-2023")
COLUMNS = {
    "compared": pl.String,
    "step": pl.String,
    "theirs": pl.String,
    "from": pl.String,
    "ours": pl.String,
    "of": pl.String,
    "rounds": pl.Int32,
}
THROUGHPUT = "operations_per_s"

_RELEASE = re.compile(r"(\d+\.\d+)\.\d+")
_BUILD = re.compile(r"my(?P<major>\d)(?P<minor>\d)\d\d_rel\.cz10a(?P<off>ps0)?_bee")
_RANGE_QUERIES = re.compile(r"q(?P<rate>\d+)(\.1)?")
_WORDS = {"~": "about ", "<=": "at most ", ">=": "at least "}

Side = tuple[str, bool]
"""The first two numbers of a release, and whether the performance schema is on."""


@dataclass(frozen=True)
class _Theirs:
    """A printed ratio."""

    step: str
    me: Side
    base: Side
    printed: str
    place: str

    @property
    def compared(self) -> str:
        (me, on), (base, _) = self.me, self.base
        return f"{me} to {base}" if me != base else f"{me} with{'' if on else 'out'} the performance schema"


def inserts_beside(published: Published, study: Study) -> pl.DataFrame:
    """One row a ratio that is printed, and that a study of ours has of releases with the same first two numbers.

    Published are range queries beside inserts at a rate as q100; ours may have them as qr100.
    """
    ours = by_release(study)
    values = measured(study.steps, study.runs, [THROUGHPUT])
    rows = [row for each in _theirs(published) for row in _beside(each, ours, values)]
    return pl.DataFrame(rows, schema=COLUMNS)


def inserts_differ(published: Published, study: Study) -> list[str]:
    """What a reader has to know before putting a row's two numbers side by side."""
    asked = study.card.parameters
    machine = dict(study.conditions.filter(kind="machine").select("name", "value").unique("name").iter_rows())
    hosts = "; ".join(each.hardware for name in SOURCES for each in published.sources[name].hosts.values())
    return [
        "The ratios: theirs are of one run each, without a spread; ours are the median of rounds with its interval.",
        "The sizes: theirs loaded 20 million rows and asked queries for half an hour to two hours in each step; ours "
        f"{asked.get('load_rows', 0):,} rows a client and {asked.get('seconds', '?')} s.",
        f"The host: theirs {hosts}; ours {machine.get('cpu_model', 'not known')}, {machine.get('cpus', '?')} CPUs.",
        "The clients: theirs are Python processes, whose own CPU is a part of each operation; ours take less, so a "
        "change of the server moves more of the whole.",
        "The performance schema: the public build files of their 5.6 leave it out when compiling, so their loss from "
        "5.6 to 8.0 holds what it costs; ours has it on both sides.",
        "The form: in 2021 nothing was deleted, in 2023 as much as is inserted. Ours are what the steps are called.",
    ]


def _theirs(published: Published) -> Iterator[_Theirs]:
    told = published.prose.filter(
        pl.col("source").is_in(SOURCES), pl.col("step") != "", metric="throughput", unit="ratio"
    )
    keys = ["source", "place", "step", "dbms", "base"]
    for (source, place, steps, dbms, base), rows in told.group_by(keys, maintain_order=True):
        me, of = _side(str(dbms)), _side(str(base))
        if me and of:
            for step in str(steps).split(", "):
                yield _Theirs(step, me, of, _printed(rows.to_dicts()), f"{source}, {place}: {dbms} / {base}")


def _printed(rows: Sequence[dict[str, Any]]) -> str:
    if len(rows) > 1:  # both ends of a range
        return "–".join(sorted(row["printed"] for row in rows))
    return f"{_WORDS.get(rows[0]['sign'], '')}{rows[0]['printed']}"


def _side(name: str) -> Side | None:
    """
    >>> _side("8.0.27"), _side("my8035_rel.cz10aps0_bee"), _side("my5744_rel.cz10a_bee"), _side("8.0")
    (('8.0', True), ('8.0', False), ('5.7', True), None)
    """
    if release := _RELEASE.fullmatch(name):
        return release[1], True
    if build := _BUILD.fullmatch(name):
        return f"{build['major']}.{build['minor']}", not build["off"]
    return None


def _beside(each: _Theirs, ours: dict[Side, str], values: pl.DataFrame) -> Iterator[dict[str, Any]]:
    me, base = ours.get(each.me), ours.get(each.base)
    step = _our_step(each.step, values["step"].unique().to_list())
    if not me or not base or not step:
        return
    ratios = paired(values.filter(step=step), [(base, me)])["ratio"].to_list()
    if not ratios:
        return
    found = estimate(ratios)
    reach = "no interval" if found.low is None else f"{found.low:.2f}–{found.high:.2f}"
    yield {
        "compared": each.compared,
        "step": each.step,
        "theirs": each.printed,
        "from": each.place,
        "ours": f"{found.median:.2f} ({reach})",
        "of": f"{step}: {me} / {base}",
        "rounds": found.n,
    }


def _our_step(theirs: str, ours: Sequence[str]) -> str | None:
    """The step of ours that is theirs.

    >>> _our_step("l.i0", ["l.i0"]), _our_step("q100.1", ["qr100", "qp100"]), _our_step("q500", ["q500", "qr500"])
    ('l.i0', 'qr100', 'q500')
    """
    if theirs in ours:
        return theirs
    queries = _RANGE_QUERIES.fullmatch(theirs)
    near = [f"q{queries['rate']}", f"qr{queries['rate']}"] if queries else []
    return next((step for step in near if step in ours), None)
