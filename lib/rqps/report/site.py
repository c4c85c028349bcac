"""A study as a folder of pages: an index, the analysis notebooks, and the notebook of every run."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

import rqps
from rqps.errors import RqpsError
from rqps.notebook import LOGS, Execution, check_parameters
from rqps.report.index import Page, facts_of, findings_of, run_rows
from rqps.report.leads import PROFILES, Leads, leads, looks_closer
from rqps.report.pages import index_page, notebook_page
from rqps.report.progress import NOTEBOOK_S, RUN_PAGE_S, Progress
from rqps.store.find import data_folder
from rqps.store.read import Study, load, load_levels
from rqps.study import in_words

NOTEBOOKS = Path(__file__).parents[3] / "notebooks" / "analysis"
TICK_S = 0.5


@dataclass(frozen=True)
class _Report:
    study: Study
    runs: pl.DataFrame
    """Of every mode."""
    leads: Leads
    """What numbers can lead on to."""
    data: Path
    folder: Path
    made: str
    progress: Progress


def build(
    study: str, data: Path | str | None = None, out: Path | str | None = None, notebooks: Path = NOTEBOOKS
) -> Path:
    """Render a study to `out/STUDY/` and return its index. `out` is `report` in the data folder if not given."""
    root = data_folder(data).resolve()
    read, every = load(study, root), load(study, root, mode=None).runs
    analyses = [path for path in analysis_notebooks(notebooks) if _applies(path, every, read)]
    target = (Path(out) if out else root / "report").resolve() / study
    target.parent.mkdir(parents=True, exist_ok=True)
    runs = every.height + read.failed.height
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{study}.") as unfinished:
        folder = Path(unfinished) / study
        (folder / "runs").mkdir(parents=True)
        progress = Progress(len(analyses) * NOTEBOOK_S + runs * RUN_PAGE_S)
        lead = leads(study, root, analyses, target.parent)
        report = _Report(read, every, lead, root, folder, _made(), progress)
        _write_index(report, analyses)
        progress.end()
        _put(folder, target)
    return target / "index.html"


def analysis_notebooks(folder: Path) -> Sequence[Path]:
    """All analysis notebooks."""
    found = sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))
    if not found:
        raise RqpsError(
            f"{folder}: no analysis notebooks", fix="install rqps from a whole checkout: pip install -e ."
        )
    return found


def _applies(notebook: Path, runs: pl.DataFrame, study: Study) -> bool:
    """Whether a notebook has something to say of a study: its metadata may name workloads and modes of runs, and
    options of configs, any of which is enough, of a workload also those of which the study has several values, or ask
    for a study that was taken apart. One that says nothing is for all."""
    only = json.loads(notebook.read_text(encoding="utf-8"))["metadata"].get("rqps", {})
    if "taken_apart" in only and only["taken_apart"] != (
        len(load_levels(study.card.study, study.folder.parents[1])) > 1
    ):
        return False
    asked = study.conditions.filter(pl.col("kind") == "option", pl.col("name").is_in(only.get("options", [])))
    varied = [name for load in runs["workload"].unique() for name in only.get("varied", {}).get(load, [])]
    if "options" in only and asked.is_empty() and not _varies(study, varied):
        return False
    return all(
        runs.is_empty() or not runs.filter(pl.col(column).is_in(only[key])).is_empty()
        for key, column in (("workloads", "workload"), ("modes", "mode"))
        if key in only
    )


def _varies(study: Study, options: Sequence[str]) -> bool:
    """Whether one of the options has several values in a study."""
    values = study.conditions.filter(pl.col("kind") == "option", pl.col("name").is_in(list(options)))
    return any(of_name["value"].n_unique() > 1 for _, of_name in values.group_by("name"))


def _write_index(report: _Report, notebooks: Sequence[Path]) -> None:
    card = report.study.card
    files = {row["folder"]: _run_page(report, row) for row in _all_runs(report)}
    findings = findings_of(report.study)
    shown = [notebook for notebook in notebooks if not findings.nothing or looks_closer(notebook)]
    pages = [_analysis_page(report, notebook) for notebook in shown]
    page = index_page(
        title=f"{card.study} · rqps",
        heading=card.question,
        when=facts_of(report.study)[0][1],
        card=card,
        findings=findings,
        pages=pages,
        facts=facts_of(report.study)[1:],
        runs=run_rows(report.study, report.runs, files),
        failed=run_rows(report.study, report.study.failed, files),
        made=report.made,
        profiled=report.leads.cells,
        leads=report.leads.told,
    )
    (report.folder / "index.html").write_text(page, encoding="utf-8")


def _analysis_page(report: _Report, notebook: Path) -> Page:
    """Execute a notebook for this study, and render what came of it."""
    parameters = {"study": report.study.card.study, "data": str(report.data)}
    check_parameters(notebook, parameters)
    with tempfile.TemporaryDirectory(prefix="rqps-report-") as place:
        _execute(notebook, Path(place), parameters, report.progress)
        title, html = notebook_page(
            Path(place) / "notebook.ipynb",
            study=report.study.card.study,
            lead=report.study.card.question,
            home="index.html",
            made=report.made,
            profiled=report.leads.cells if notebook.stem != PROFILES else Markup(""),
        )
    report.progress.done(NOTEBOOK_S)
    (report.folder / f"{notebook.stem}.html").write_text(html, encoding="utf-8")
    return Page(f"{notebook.stem}.html", title, "with every chart, table, condition and warning")


def _execute(notebook: Path, place: Path, parameters: dict[str, str], progress: Progress) -> None:
    (place / LOGS).mkdir()
    execution = Execution(notebook, place, parameters)
    try:
        while not execution.wait(TICK_S):
            progress.tick(f"executing {notebook.name}")
    finally:
        execution.stop()
    if error := execution.error():
        raise RqpsError(
            f"{notebook.name} did not come to its end for study {parameters['study']}: {error}",
            fix=f"open {notebook.name} in JupyterLab, set `study` and run it to see where it stops",
        )


def _all_runs(report: _Report) -> list[dict[str, Any]]:
    return [*report.runs.iter_rows(named=True), *report.study.failed.iter_rows(named=True)]


def _run_page(report: _Report, run: dict[str, Any]) -> str | None:
    """The page of a run's own notebook; a run that failed early may have none."""
    folder = Path(run["folder"])
    report.progress.tick(f"rendering {run['run']}")
    file = None
    if (folder / "notebook.ipynb").is_file():
        name = ("" if run["outcome"] == "ok" else "failed-") + folder.name.removeprefix("run=")
        lead = f"{run['dbms']} ({run['version']}), {in_words(run['mode'], run['round'])} on {run['host']}"
        lead += f" failed: {run['error']}" if run["outcome"] != "ok" else ""
        _, html = notebook_page(
            folder / "notebook.ipynb",
            study=report.study.card.study,
            lead=lead,
            home="../index.html",
            made=report.made,
        )
        file = f"runs/{name}.html"
        (report.folder / file).write_text(html, encoding="utf-8")
    report.progress.done(RUN_PAGE_S)
    return file


def _put(made: Path, target: Path) -> None:
    """Replace the pages that were there by the new ones."""
    if target.exists():
        old = made.with_name("old")
        target.rename(old)
        shutil.rmtree(old)
    made.rename(target)


def _made() -> str:
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"Rendered by rqps {rqps.__version__} on {now}, from the raw tables in the study's folder."
