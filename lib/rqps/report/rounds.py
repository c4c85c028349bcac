"""The page of rounds: the rounds of every comparison, each with its values, runs and warnings."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from markupsafe import Markup

from rqps import stats
from rqps.numbers import formatted, sized
from rqps.report.profiles import Links
from rqps.report.render import json_in_html, render
from rqps.show import Row, by_host, in_order, number_of, verdict_words
from rqps.show.flame import address
from rqps.stats import SIDES, relate_configs, short_names
from rqps.store.read import Study, load

PAGE = "rounds.html"
SECTIONS = {"slower": "Slower", "faster": "Faster", "unsure": "Inconclusive", "same": "Unchanged"}
"""Maps verdicts to headings. The verdict is on throughput or, if the comparison of throughput is inconclusive, on a
cost per operation."""


def links_to_rounds(own: str, compared: pl.DataFrame, names: Mapping[str, str] = MappingProxyType({})) -> Markup:
    """Links from the cells of tables and charts to their rounds, as JSON. `own` is the study's base, which is the
    base of every cell that names no base. `names` maps dbms to the names that tables and charts show."""
    shown = compared.with_columns(pl.col("base").replace(names))
    same = by_host(compared).select("step", "dbms", "base")
    rows = pl.concat([same, by_host(shown, names).select(dbms_shown="dbms", base_shown="base")], how="horizontal")
    cells = [
        {"step": step, "dbms": in_order((dbms, dbms_shown)), "base": in_order((base, base_shown))}
        for step, dbms, base, dbms_shown, base_shown in rows.unique(maintain_order=True).rows()
    ]
    return json_in_html({"page": PAGE, "base": own, "cells": cells})


def rounds_page(
    study: Study,
    rounds: pl.DataFrame,
    compared: pl.DataFrame,
    files: Mapping[str, str | None],
    profiles: Links,
    **words: str,
) -> tuple[str, Markup]:
    """The HTML of the page, which includes comparisons of configs within a build; and, as JSON, the links to this
    page from numbers on other pages."""
    base = study.card.base
    of_builds = [frame.filter(pl.col("base") != base) for frame in relate_configs(study, compared)]
    rounds, compared = (pl.concat(both, how="diagonal") for both in zip((rounds, compared), of_builds, strict=True))
    words |= {"title": f"Rounds · {study.card.study}", "heading": "The rounds of every number"}
    shown: dict[str, Any] = {"to_rounds": Markup(""), "logs": any(files.values())}
    by_verdict: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in SECTIONS}
    for number in numbers(study, rounds, compared, files, profiles):
        by_verdict[number["verdict"]].append(number)
    shown["sections"] = by_verdict
    shown["contents"] = {verdict: SECTIONS[verdict] for verdict, of in by_verdict.items() if of}
    page = render("rounds.html.j2", **words, **shown, study=study.card.study)
    return page, links_to_rounds(base, compared, short_names(study))


def folder_of_unit(folder: str, side: str | None) -> Path:
    """The folder that contains the notebook of a run; the runs of a duet, which have a `side`, share the duet's
    folder."""
    return Path(folder) if side is None else Path(folder).parent


def numbers(
    study: Study, rounds: pl.DataFrame, compared: pl.DataFrame, files: Mapping[str, str | None], profiles: Links
) -> Iterator[dict[str, Any]]:
    """Each comparison as a dict for the template, in the order of `compared`: its numbers, its rounds, and the runs
    and files of each round.

    `files` maps the folders of runs to their pages.
    """
    every = load(study.place, mode=None)  # instructions are counted in runs of their own, which `study` lacks
    folders = every.runs.select("run", "folder", "side").iter_rows()
    places = {
        run: (files.get(at), Path(at).relative_to(folder_of_unit(at, side).parent)) for run, at, side in folders
    }
    counting = set(every.runs.filter(mode="instructions")["run"])
    warned = every.warnings.group_by("run", "step").agg(pl.format("{}: {}", "kind", "text"))
    warnings = {(run, step): texts for run, step, texts in warned.rows()}
    keys = ["step", "dbms", "base"]
    of_cell = by_host(rounds).sort("round").partition_by(keys, as_dict=True)
    several = compared["host"].n_unique() > 1
    named = by_host(compared.with_columns(me="dbms"))
    decided = stats.deciding(compared).select("host", "step", "dbms", "base", "verdict").rows()
    verdicts = {tuple(cell): verdict for *cell, verdict in decided}
    metrics = [metric for metric in SIDES if metric in set(compared["metric"])]
    for (step, dbms, base), rows in named.group_by(keys, maintain_order=True):
        me, host = rows.select("me", "host").row(0)
        by_metric = {row["metric"]: row for row in rows.to_dicts()}
        compared_by = [metric for metric in metrics if metric in by_metric]
        by_runs: dict[tuple[str, str], dict[str, Row]] = {}
        for row in of_cell[step, dbms, base].iter_rows(named=True):
            by_runs.setdefault((row["base_run"], row["run"]), {})[row["metric"]] = row
        own = base == study.card.base
        by = profiles.by.get((step, dbms)) if own else None
        yield {
            "id": f"step={step}&dbms={dbms}{'' if own else f'&base={base}'}",
            "address": address(step, me, base=base, host=host if several else ""),
            "verdict": verdicts[host, step, me, base],
            "title": f"{step}: {dbms} against {base}",
            "numbers": [_number(by_metric[metric]) for metric in compared_by],
            "metrics": [SIDES[metric] for metric in compared_by],
            "profile": "" if by is None else f"{profiles.page}{address(step, dbms, by)}",
            "rounds": [_round(rows, compared_by, places, counting, warnings) for rows in by_runs.values()],
        }


def _number(row: Row) -> str:
    takes = f", a verdict takes {row['needs']}" if row["needs"] else ""
    verdict = verdict_words(row["metric"])[row["verdict"]]
    return f"{SIDES[row['metric']]} {number_of(row)}: {verdict}{takes}"


def _round(
    by_metric: Mapping[str, Row],
    metrics: list[str],
    places: Mapping[str, tuple[str | None, Path]],
    counting: Collection[str],
    warnings: Mapping[tuple[str, str | None], list[str]],
) -> dict[str, Any]:
    first = next(iter(by_metric.values()))
    runs = (first["base_run"], first["run"])
    table = "slices.parquet" if first["duet"] and first["cycles"] else "steps.parquet"
    table = "instructions.parquet" if first["run"] in counting else table
    return {
        "round": first["round"],
        "cells": [
            [sized(row["base_value"]), sized(row["me_value"]), formatted(row["ratio"], ".4f")]
            if (row := by_metric.get(metric))
            else ["–"] * 3
            for metric in metrics
        ],
        "runs": [{"file": file, "raw": f"{place}/{table}"} for file, place in map(places.__getitem__, runs)],
        "warnings": [text for run in runs for of in (first["step"], None) for text in warnings.get((run, of), [])],
    }
