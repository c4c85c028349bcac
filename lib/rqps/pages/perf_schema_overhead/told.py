"""What turning something on costs, in sentences for whoever runs a server."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rqps.stats.interval import WANTED_COVERAGE
from rqps.stats.perf_schema import DEFAULT, DISABLED, ENABLED, ranked

Row = dict[str, Any]

_WHAT = {
    DISABLED: "Having the performance schema on, with nothing enabled,",
    DEFAULT: "What the release enables by itself",
    ENABLED: "All of it",
}


def scenario_findings(costs: pl.DataFrame, counted: pl.DataFrame | None = None) -> tuple[str, ...]:
    """A sentence a build and scenario, on every step: those that are shown to cost something first, the dearest of
    them before the others. What the rounds can't tell is not ranked: it comes last, by name. Where instructions were
    `counted`, a second sentence says what those tell."""
    sentences = []
    several = costs["build"].n_unique() > 1
    fewest = costs.filter(pl.col("threads") == pl.col("threads").min().over("build"))
    first = ranked(fewest.filter(pl.col("position") == pl.col("position").min()), dearest_first=True)
    for build, scenario in first.select("build", "scenario").rows():
        rows = fewest.filter(build=build, scenario=scenario).sort("position").to_dicts()
        where = f" on {build}" if several else ""
        told = f"{_name(scenario)}{where} {_costs(rows)}."
        sentences.append(told + _counts(counted, build, scenario) if counted is not None else told)
    return tuple(sentences)


def _name(scenario: str) -> str:
    what = scenario.removesuffix("-only").replace("-", " ").replace("mdl", "metadata locks")
    return _WHAT.get(scenario, f"Recording {what}")


def _costs(rows: list[Row]) -> str:
    """`costs 21.4 µs a point-query (+35 %, 33 to 37), and nothing that 6 rounds show of a scan`."""
    dearer = [row for row in rows if row["verdict"] == "slower"]
    same = [row for row in rows if row["verdict"] == "same"]
    others = [row for row in rows if row["verdict"] == "faster"]
    unsure = [row for row in rows if row["verdict"] == "unsure"]
    said = [*(_dearer(dearer)), *(_cheaper(others))]
    if same:
        said.append(f"changes {_steps(same)} by less than 2 %")
    if unsure:
        said.append(f"may or may not cost {_reach(unsure)} something")
    return "; it ".join(said)


def _counts(counted: pl.DataFrame, build: str, scenario: str) -> str:
    """` By instructions: +2.7% of point-query, +0.3% of scan.`"""
    rows = counted.filter(build=build, scenario=scenario).sort("position").to_dicts()
    each = [f"{row['instructions'] - 1:+.1%} of {row['step']}" for row in rows]
    return f" By instructions: {', '.join(each)}." if each else ""


def _dearer(rows: list[Row]) -> Iterator[str]:
    if rows:
        first, *others = [f"{row['added_us']:,.2f} µs{{}} for {_share(row)}" for row in rows]
        yield "costs " + ", ".join([first.format(" of CPU"), *(each.format("") for each in others)])


def _cheaper(rows: list[Row]) -> Iterator[str]:
    if rows:
        yield "saves, against all that is known of it, " + ", ".join(
            f"{-row['added_us']:,.2f} µs of CPU for {_share(row)}" for row in rows
        )


def _share(row: Row) -> str:
    sure = "" if row["cpu_low"] is None else f", {row['cpu_low'] - 1:+.0%} to {row['cpu_high'] - 1:+.0%}"
    weak = "" if row["coverage"] >= WANTED_COVERAGE else f" at {row['coverage']:.0%}"
    return f"{row['step']} ({row['cpu_ratio'] - 1:+.0%}{sure}{weak})"


def _steps(rows: list[Row]) -> str:
    return " and ".join(row["step"] for row in rows)


def _reach(rows: list[Row]) -> str:
    return ", ".join(f"{row['step']} ({_ends(row)})" for row in rows)


def _ends(row: Row) -> str:
    return "one round" if row["cpu_low"] is None else f"{row['cpu_low'] - 1:+.0%} to {row['cpu_high'] - 1:+.0%}"
