"""Compares a study of the insert benchmark or of point lookups ("ours") with published studies ("theirs"): ratios of
the same two releases.

Releases match if their first two numbers are equal and the performance schema is on in both or off in both.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from rqps.numbers import formatted
from rqps.published.compare_published import machine
from rqps.published.figures import Published
from rqps.published.quoted import SIGNS, response_times
from rqps.show import brackets, ratio
from rqps.stats import compare, config_changes, measured, rounds_of_pairs
from rqps.stats.conditions import asked_options
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

INSERTS, LOOKUPS = ("insert-benchmark-8027", "perf-schema-2023"), "point-lookups-2014"
RESPONSE_TIME = "response_time_us"
_COLUMNS = ("compared", "step", "theirs", "from", "ours", "of")
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+")
_BUILD = re.compile(r"my(?P<major>\d)(?P<minor>\d)\d\d_rel\.cz10a(?P<off>ps0)?_bee")
_RANGE_QUERIES = re.compile(r"q(?P<rate>\d+)(\.1)?")
_ON, _OFF = "with the performance schema", "without it"

Side = tuple[str, bool]
"""The first two numbers of a release, and whether the performance schema is on."""


class _Printed(NamedTuple):
    step: str
    me: Side
    base: Side
    compared: str
    ratio: str
    place: str


def response_time_values(study: Study) -> pl.DataFrame:
    """Response times of a query in µs, calculated from the throughput: each client waits for the answer before it
    sends the next query."""
    times = {name: pl.col("clients") * 1e6 / pl.col(name) for name in ("value", "cycles")}
    return measured(study, [THROUGHPUT]).with_columns(metric=pl.lit(RESPONSE_TIME), **times)


def inserts_beside(published: Published, study: Study) -> pl.DataFrame:
    """One row per published throughput ratio whose two releases the study has measured, too; with the study's
    ratio."""
    return _beside(_inserts(published), study, measured(study, [THROUGHPUT]), _our_step)


def lookups_beside(published: Published, study: Study) -> pl.DataFrame:
    """One row per published comparison of response times that the study has measured, too: of two releases, or of one
    release with and without the performance schema."""
    values = response_time_values(study).join(
        study.steps.filter(storage_engine="innodb", kind="pk", clients=1).select("step").unique(),
        on="step",
        how="semi",
        maintain_order="left",
    )
    compared = _beside(_lookups(published), study, values, lambda _, ours: next(iter(ours), None))
    return compared.drop("step").with_columns(pl.col("of").str.replace(r"^[^:]*: ", ""))


def inserts_differ(published: Published, study: Study) -> list[str]:
    """The differences between the published insert benchmarks and ours that a reader has to know before comparing
    numbers."""
    asked = study.card.parameters
    hosts = "; ".join(host.hardware for name in INSERTS for host in published.sources[name].hosts.values())
    return [
        "The ratios: theirs are of one run each, without a spread; ours are the mean of rounds with its interval.",
        "The sizes: theirs loaded 20 million rows and asked queries for half an hour to two hours in each step; ours "
        f"{asked.get('load_rows', 0):,} rows a client and {asked.get('seconds', '?')} s.",
        f"The host: theirs {hosts}; ours {machine(study.conditions)}.",
        "The clients: theirs are Python processes, whose own CPU is a part of each operation; ours use less, so a "
        "change of the server changes the total more.",
        "The performance schema: the public build files of their 5.6 leave it out when compiling, so their loss from "
        "5.6 to 8.0 includes its cost; ours has it on both sides.",
        "Deletes: in 2021 nothing was deleted, in 2023 as many rows as were inserted. Our steps follow their names.",
    ]


def lookups_differ(published: Published, study: Study) -> list[str]:
    """The differences between the published study of point lookups and ours that a reader has to know."""
    host = "; ".join(host.hardware for host in published.sources[LOOKUPS].hosts.values())
    asked, tools = study.card.parameters, study.conditions.filter(kind="tool").select("name", "value").unique()
    by = {name: ", ".join(tools.filter(name=name)["value"].sort()) for name in ("mysqlslap", "sysbench")}
    ours = f"{asked.get('queries') or 0:,} or fewer, all by mysqlslap {by['mysqlslap']}"
    if by["sysbench"]:
        ours = f"those of {asked.get('seconds') or 1} s, by sysbench {by['sysbench']}, which leaves out connecting"
    releases = study.runs["version"].str.extract(r"^(\d+(?:\.\d+)+)").unique().sort().to_list()
    return [
        "The ratios: theirs are quotients of two printed ones to 5.0.85, and the range is what rounding leaves open. "
        "They have neither a count nor a spread; ours are the mean of rounds with its interval.",
        f"The releases: ours are {', '.join(releases)}. Each is compared with theirs that have the same first two "
        "numbers.",
        f"The host: theirs {host}; ours {machine(study.conditions)}. "
        "With one client, ours has server and load generator on one CPU where the table of conditions says so.",
        f"The load: theirs 100,000 queries by a mysqlslap of unknown version; ours {ours}.",
        "The builds: theirs are compiled by the author; ours are binaries as they are released.",
    ]


def lookups_contradictions(published: Published) -> list[str]:
    """Statements of the published text that can't all be true, or that are ambiguous."""
    mine = [reading for reading in published.readings if reading.source == LOOKUPS]
    return [f"{reading.kind}, {reading.place}: {reading.says} {reading.evidence}" for reading in mine]


def _inserts(published: Published) -> Iterator[_Printed]:
    given = published.prose.filter(
        pl.col("source").is_in(INSERTS), pl.col("step") != "", metric="throughput", unit="ratio"
    )
    keys = ["source", "place", "step", "dbms", "base"]
    for (source, place, steps, dbms, base), rows in given.group_by(keys, maintain_order=True):
        me, of = _side(str(dbms)), _side(str(base))
        if not me or not of:
            continue
        alone = f"{me[0]} with{'' if me[1] else 'out'} the performance schema"
        compared = alone if me[0] == of[0] else f"{me[0]} to {of[0]}"
        ratio = "–".join(sorted(rows["printed"]))  # both ends of a range
        ratio = ratio if rows.height > 1 else f"{SIGNS[rows['sign'][0]]}{ratio}"
        for step in str(steps).split(", "):
            yield _Printed(step, me, of, compared, ratio, f"{source}, {place}: {dbms} / {base}")


def _lookups(published: Published) -> Iterator[_Printed]:
    """Quotients of two printed ratios that differ in one condition: the later release to the earlier one, or the
    performance schema on to off. All printed ratios are relative to 5.0.85, which rqps has not measured; in a
    quotient of two ratios, 5.0.85 cancels out.
    """
    times = response_times(published).with_columns(
        minor=pl.col("release").str.extract(r"^(\d+\.\d+)"), on=pl.col("schema") == "performance schema on"
    )
    for one, me in combinations(times.iter_rows(named=True), 2):
        base = one
        if me["release"] == base["release"]:
            me, base = (me, base) if me["on"] else (base, me)
            compared = f"{me['minor']} {_ON} to {_OFF}"
        elif me["on"] == base["on"]:
            compared = f"{me['minor']} to {base['minor']}, both {_ON if me['on'] else _OFF}"
        else:
            continue
        low = (me["value"] - me["half"]) / (base["value"] + base["half"])
        high = (me["value"] + me["half"]) / (base["value"] - base["half"])
        quotient = "{} ({}–{})".format(*(formatted(size, ".2f") for size in (me["value"] / base["value"], low, high)))
        place = f"{me['printed']} / {base['printed']}, {me['release']} / {base['release']}"
        yield _Printed("", (me["minor"], me["on"]), (base["minor"], base["on"]), compared, quotient, place)


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


def _our_step(theirs: str, ours: Sequence[str]) -> str | None:
    """
    >>> _our_step("l.i0", ["l.i0"]), _our_step("q100.1", ["qr100", "qp100"]), _our_step("q500", ["q500", "qr500"])
    ('l.i0', 'qr100', 'q500')
    """
    queries = _RANGE_QUERIES.fullmatch(theirs)
    near = [theirs, *([f"q{queries['rate']}", f"qr{queries['rate']}"] if queries else [])]
    return next((step for step in near if step in ours), None)


def _beside(
    theirs: Iterator[_Printed],
    study: Study,
    values: pl.DataFrame,
    our_step: Callable[[str, Sequence[str]], str | None],
) -> pl.DataFrame:
    ours, steps = _by_release(study), values["step"].unique(maintain_order=True).to_list()
    rows = []
    for printed in theirs:
        me, base, step = ours.get(printed.me), ours.get(printed.base), our_step(printed.step, steps)
        if not me or not base or not step:
            continue
        compared = compare(rounds_of_pairs(values.filter(step=step), [(base, me)]), keys=["step", "metric"])
        for row in compared.iter_rows(named=True):
            ours_is = f"{ratio(row['estimate'])}{brackets(row, rounds=False)}"
            rows.append(
                (
                    printed.compared,
                    printed.step,
                    printed.ratio,
                    printed.place,
                    ours_is,
                    f"{step}: {me} / {base}",
                    row["n"],
                )
            )
    return pl.DataFrame(rows, schema=dict.fromkeys(_COLUMNS, pl.String) | {"rounds": pl.Int32}, orient="row")


def _by_release(study: Study) -> dict[Side, str]:
    """Maps each release, with the performance schema on or off, to the study's dbms. A dbms counts only if it has the
    base's config, or a config that differs from the base's in nothing but the performance schema."""
    config = study.configs.get(study.card.base, "")
    version = dict(study.runs.select("dbms", "version").unique().iter_rows())
    options = asked_options(study.conditions).filter(name="performance_schema").select("dbms", "value")
    on = {dbms: value in ("ON", "1") for dbms, value in options.iter_rows()}
    alone = config_changes(study.conditions).filter(
        pl.col("instead_of").replace(study.configs) == config,
        pl.col("change").str.contains(r"^performance_schema=[^,]*$"),
    )
    chosen = [dbms for dbms in version if study.configs[dbms] == config or dbms in set(alone["dbms"])]
    return {(".".join(version[dbms].split(".")[:2]), on[dbms]): dbms for dbms in sorted(chosen) if dbms in on}
