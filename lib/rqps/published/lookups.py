"""Our point lookups beside the published ones: what both can be asked, each with its own releases."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import polars as pl

from rqps import analysis
from rqps.published.figures import Published
from rqps.published.views import response_times
from rqps.stats.interval import estimate
from rqps.store.read import Study

THEIRS = "point-lookups-2014"
STEP = "innodb.pk@1"
COLUMNS = {
    "compared": pl.String,
    "theirs": pl.String,
    "from": pl.String,
    "ours": pl.String,
    "of": pl.String,
    "rounds": pl.Int32,
}
_ON, _OFF = "with the performance schema", "without it"


def lookups_beside(published: Published, study: Study) -> pl.DataFrame:
    """One row a comparison that both made: two releases, or one release with and without the performance schema.

    The published ratios are all to 5.0.85, which is not here. Divided by each other they no longer need it.
    """
    ours, times = by_release(study), _by_round(study)
    rows = [
        row
        for one, other in combinations(_theirs(published), 2)
        for compared, me, base in _comparisons(one, other)
        for row in _beside(compared, me, base, ours, times)
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def lookups_differ(published: Published, study: Study) -> list[str]:
    """What a reader has to know before putting a row's two numbers side by side."""
    host = "; ".join(each.hardware for each in published.sources[THEIRS].hosts.values())
    machine = dict(study.conditions.filter(kind="machine").select("name", "value").unique("name").iter_rows())
    asked = study.card.parameters
    slap = study.conditions.filter(kind="tool", name="mysqlslap")["value"].unique().to_list()
    return [
        "The ratios: theirs are quotients of two printed ones to 5.0.85, and the range is what rounding leaves open. "
        "They have neither a count nor a spread; ours are the median of rounds with its interval.",
        f"The releases: ours are {_releases(study)}. They stand beside those whose first two numbers are the same.",
        f"The host: theirs {host}; ours {machine.get('cpu_model', 'not known')}, {machine.get('cpus', '?')} CPUs. "
        "With one client, ours has server and mysqlslap on one CPU where the table of conditions says so.",
        f"The load: theirs 100,000 queries, by which mysqlslap is not said; ours {asked.get('queries'):,} or "
        f"fewer, all by mysqlslap {', '.join(slap)}.",
        "The builds: theirs are compiled by the author; ours are binaries as they are released.",
    ]


def _theirs(published: Published) -> list[dict[str, Any]]:
    """Each printed ratio with its release, whether the performance schema was on, and half of its last digit."""
    return [
        {
            "release": row["release"],
            "minor": ".".join(row["release"].split(".")[:2]),
            "on": row["schema"].endswith("on"),
            "value": row["value"],
            "printed": row["printed"],
            "half": 0.5 * 10 ** -len(row["printed"].partition(".")[2]),
        }
        for row in response_times(published).sort("release", "schema").iter_rows(named=True)
    ]


def _comparisons(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Two ratios that differ in one thing only: the later release to the earlier, or on to off."""
    if one["release"] == other["release"]:
        me, base = (one, other) if one["on"] else (other, one)
        yield f"{one['minor']} {_ON} to {_OFF}", me, base
    elif one["on"] == other["on"]:
        yield f"{other['minor']} to {one['minor']}, both {_ON if one['on'] else _OFF}", other, one


def _beside(
    compared: str,
    me: dict[str, Any],
    base: dict[str, Any],
    ours: dict[tuple[str, bool], str],
    times: pl.DataFrame,
) -> Iterator[dict[str, Any]]:
    mine, its_base = ours.get((me["minor"], me["on"])), ours.get((base["minor"], base["on"]))
    if not mine or not its_base or not {mine, its_base} <= set(times.columns):
        return
    ratios = times.select(pl.col(mine) / pl.col(its_base)).to_series().drop_nulls().to_list()
    if not ratios:
        return
    found = estimate(ratios)
    low, high = (
        (me["value"] - me["half"]) / (base["value"] + base["half"]),
        (me["value"] + me["half"]) / (base["value"] - base["half"]),
    )
    reach = "no interval" if found.low is None else f"{found.low:.2f}–{found.high:.2f}"
    yield {
        "compared": compared,
        "theirs": f"{me['value'] / base['value']:.2f} ({low:.2f}–{high:.2f})",
        "from": f"{me['printed']} / {base['printed']}, {me['release']} / {base['release']}",
        "ours": f"{found.median:.2f} ({reach})",
        "of": f"{mine} / {its_base}",
        "rounds": found.n,
    }


def by_release(study: Study) -> dict[tuple[str, bool], str]:
    """Our dbms by release and performance schema: those with the base's config, and with that alone changed."""
    config = study.card.base.partition(".")[2]
    version = dict(study.runs.select("dbms", "version").unique().iter_rows())
    options = study.conditions.filter(kind="option", name="performance_schema").select("dbms", "value").unique()
    on = {dbms: value in ("ON", "1") for dbms, value in options.iter_rows()}
    alone = analysis.config_changes(study.conditions).filter(
        pl.col("instead_of").str.ends_with(f".{config}"), pl.col("change").str.contains(r"^performance_schema=[^,]*$")
    )
    chosen = [dbms for dbms in version if dbms.partition(".")[2] == config or dbms in set(alone["dbms"])]
    return {(".".join(version[dbms].split(".")[:2]), on[dbms]): dbms for dbms in sorted(chosen) if dbms in on}


def _by_round(study: Study) -> pl.DataFrame:
    """Response times of the step, one row a host and round, one column a dbms."""
    times = analysis.response_times(study.steps, study.runs, study.card.base).filter(step=STEP)
    return times.pivot("dbms", index=["host", "round"], values="me_value")


def _releases(study: Study) -> str:
    versions = study.runs["version"].str.extract(r"^(\d+\.\d+\.\d+)").unique().sort()
    return ", ".join(str(version) for version in versions)


def lookups_contradictions(published: Published) -> list[str]:
    """What the published text says that can't all be true, or can't be told apart."""
    mine = [each for each in published.readings if each.source == THEIRS]
    return [f"{each.kind}, {each.place}: {each.says} {each.evidence}" for each in mine]
