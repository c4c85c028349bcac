"""Links from the numbers of a comparison to a profile, which shows in which functions the time is spent: a profile of
this study, or of another study of the same steps and binaries."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rqps.show import by_host
from rqps.stats import changed_state
from rqps.store.manifest import StudyCard, read_study_card, studies, study_folder
from rqps.store.read import Study, load

PROFILES = FIRST, _ = ("stacks", "instructions")
"""The modes of runs with profiles; pages show the mode `FIRST` first."""
LENGTHS = {"steps", "seconds", "warmup_seconds", "counted_operations"}
"""Parameters that select steps or set their length. If two studies differ only in these parameters, a step executes
the same operations in both."""

_CELL = ["host", "step", "dbms"]


class Links(NamedTuple):
    """The links of a study's pages to profiles."""

    page: str = ""
    by: Mapping[tuple[str, str], str] = {}
    """Maps step and dbms to the mode of their profile; empty for stacks, which pages show by default."""
    note: str = ""


def asked_by(notebook: Path) -> dict[str, Any]:
    """The metadata of a notebook for reports, such as the conditions under which a report includes the notebook."""
    return dict(_metadata(notebook, notebook.stat().st_mtime_ns))


@cache
def _metadata(notebook: Path, _changed_ns: int) -> dict[str, Any]:
    # The metadata are cached: a report asks for them a dozen times, and a notebook with its outputs has a megabyte.
    metadata: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))["metadata"].get("rqps", {})
    return metadata


def links_to_profiles(study: str, data: Path, page: str | None, pages: Path) -> Links:
    """Links to the profiles of the study, or else to the profiles of another study of the same steps, tables and
    binaries.

    `page` is the name of the page that shows profiles. `pages` is the folder with the reports of all studies; there
    are no links to pages that do not exist in it.
    """
    every = load(study, data, mode=None)
    own = profiled(every.runs, every.steps, every.card.base)
    if not own.is_empty():
        return Links(f"{page}.html", _by_cell(own)) if page else Links()
    other, cells = next(_others(every, data), (None, pl.DataFrame()))
    if other is None or not page:
        ask = "give it stacks_rounds: 4 in runs.yaml and run it again; only what is missing is measured."
        return Links(note=f"This study has no profiles. To see where the time goes, {ask}")
    name, state = other.card.study, changed_state(every, other)
    if (pages / name / f"{page}.html").is_file():
        note = (
            f"This study has no profiles. The rounds of its numbers link to profiles of the study {name}: the same "
            f"steps, tables, binaries and machine, in other rounds. {state}"
        ).rstrip()
        return Links(f"../{name}/{page}.html", _by_cell(cells), note)
    note = (
        f"The study {name}, of the same steps, tables, binaries and machine, shows where the time goes. Render it "
        f"first (rqps report {name}), then this one again; the rounds of the numbers here will then link to it."
    )
    return Links(note=note)


def profiled(runs: pl.DataFrame, steps: pl.DataFrame, base: str) -> pl.DataFrame:
    """One row per host, step and dbms that was profiled in the same round as the base.

    `by` is the mode of the profile, empty for stacks. `runs` and `steps` have all modes, as in `rqps.load(study,
    mode=None)`.
    """
    of_profiles = runs.filter(pl.col("mode").is_in(PROFILES)).select("run", "mode")
    cells = steps.join(of_profiles, on="run").select("mode", "round", *_CELL).unique()
    of_base = cells.filter(dbms=base).drop("dbms")
    both = cells.filter(pl.col("dbms") != base).join(of_base, on=["mode", "round", "host", "step"], how="semi")
    by = pl.when((pl.col("mode") == FIRST).any()).then(pl.lit("")).otherwise(pl.col("mode").first())
    return both.group_by(_CELL).agg(by.alias("by")).sort(_CELL)


def _others(study: Study, data: Path) -> Iterator[tuple[Study, pl.DataFrame]]:
    """Yields other studies with profiles of the same steps and binaries on the same machine, each with the steps and
    dbms that both studies have."""
    mine = _built(study)
    for name in studies(data):
        card = read_study_card(study_folder(name, data))
        if name != study.card.study and _work(card) == _work(study.card):
            other = load(name, data, mode=None)
            cells = profiled(other.runs, other.steps, other.card.base).join(_built(other), on=_CELL).drop("host")
            cells = cells.join(mine, on=["step", "dbms", "build_digest", "machine"]).unique(
                _CELL, maintain_order=True
            )
            if not cells.is_empty():
                yield other, cells


def _work(card: StudyCard) -> tuple[str, str, Mapping[str, Any]]:
    parameters = {name: value for name, value in card.parameters.items() if name not in LENGTHS}
    return card.workload, card.base, parameters


def _built(study: Study) -> pl.DataFrame:
    """The binary and the machine of each step and dbms. Studies are matched by the machine, not by the host's
    name."""
    built = study.runs.select("run", "build_digest", "machine")
    return study.steps.select("run", *_CELL).join(built, on="run").drop("run").unique()


def _by_cell(cells: pl.DataFrame) -> dict[tuple[str, str], str]:
    return {(step, dbms): by for step, dbms, by in by_host(cells).select("step", "dbms", "by").rows()}
