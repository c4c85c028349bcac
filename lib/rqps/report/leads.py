"""What pages lead on to: of a number that has a profile, to the page that tells where the time goes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from rqps.report.outputs import json_in_html
from rqps.report.profiled import profiled
from rqps.store.find import studies, study_folder
from rqps.store.manifest import StudyCard
from rqps.store.read import Study, load, read_study_card
from rqps.view.theme import by_host

PROFILES = "flamegraph_breakdown"
"""The notebook that others lead on to."""
HOW_LONG = {"steps", "seconds", "warmup_seconds", "counted_operations"}
"""Parameters that do not change what one operation of a step is."""


@dataclass(frozen=True)
class Leads:
    """What the pages of a study can lead on to."""

    cells: Markup
    """As JSON: of which steps and dbms there is a profile, and on which page; nothing if of none."""
    told: str
    """What a reader has to know of it."""


def looks_closer(notebook: Path) -> bool:
    """Whether a notebook is about runs that looked closer: it says something of a study that has no others, too."""
    return "modes" in json.loads(notebook.read_text(encoding="utf-8"))["metadata"].get("rqps", {})


def leads(study: str, data: Path, notebooks: Sequence[Path], pages: Path) -> Leads:
    """Where cells of this study lead to: to its own profiles, else to those of another study of the same work.

    The pages of studies lie side by side in `pages`. A page that is not there is not led to.
    """
    every = load(study, data, mode=None)
    own = _profiled(every)
    if own.is_empty():
        return _to_another(every, data, pages)
    if PROFILES not in (notebook.stem for notebook in notebooks):
        return Leads(Markup(""), "")
    return Leads(_json(f"{PROFILES}.html", own), "")


def _to_another(study: Study, data: Path, pages: Path) -> Leads:
    for name, cells in _others(study, data):
        if (pages / name / f"{PROFILES}.html").is_file():
            told = (
                f"This study has no profiles. Its numbers lead to those of the study {name}: the same steps, tables "
                "and binaries, in other rounds."
            )
            return Leads(_json(f"../{name}/{PROFILES}.html", cells, name), told)
        told = (
            f"Where the time goes is told by the study {name}, of the same steps, tables and binaries. Render it "
            f"first (rqps report {name}), then this one again, and the numbers here lead there."
        )
        return Leads(Markup(""), told)
    ask = "give it stacks_rounds: 4 in runs.yaml and run it again; only what is missing is measured."
    return Leads(Markup(""), f"This study has no profiles. To see where the time goes, {ask}")


def _others(study: Study, data: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """Studies that profiled what this one measured, and of which steps and dbms."""
    on = ["host", "step", "dbms", "build_digest"]
    mine = _built(study, study.steps)
    for name in studies(data):
        card = read_study_card(study_folder(name, data))
        if name != study.card.study and _same_work(card, study.card):
            other = load(name, data, mode=None)
            cells = _profiled(other).join(_built(other, other.steps), on=["host", "step", "dbms"])
            cells = cells.join(mine, on=on, how="semi").unique(["host", "step", "dbms"], maintain_order=True)
            if not cells.is_empty():
                yield name, cells


def _same_work(card: StudyCard, other: StudyCard) -> bool:
    def work(parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name not in HOW_LONG}

    same = (card.workload, card.base) == (other.workload, other.base)
    return same and work(card.parameters) == work(other.parameters)


def _profiled(study: Study) -> pl.DataFrame:
    return profiled(study.runs, study.steps, study.card.base)


def _built(study: Study, steps: pl.DataFrame) -> pl.DataFrame:
    digests = study.runs.select("run", "build_digest")
    return steps.select("run", "host", "step", "dbms").join(digests, on="run").drop("run").unique()


def _json(page: str, cells: pl.DataFrame, study: str = "") -> Markup:
    rows = by_host(cells).select("step", "dbms", "by").rows()
    return json_in_html({"page": page, "cells": rows, "study": study})
