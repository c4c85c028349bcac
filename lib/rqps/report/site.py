"""Renders a study as a folder of pages: an index, the analysis notebooks, and the notebook of every run."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import nbformat
import polars as pl
from markupsafe import Markup

import rqps
from rqps import stats
from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.notebook import KERNEL_LOG, LOGS, RESULT, Execution, SharedKernel, check_parameters
from rqps.numbers import duration, megabytes
from rqps.published.figures import FOLDER as PUBLISHED
from rqps.report.first_page import Answer, answer, reliability
from rqps.report.index import facts_of, run_rows
from rqps.report.overall import names_of
from rqps.report.profiles import FIRST, Links, asked_by, links_to_profiles
from rqps.report.render import content_of, notebook_page, render, write_page
from rqps.report.rounds import PAGE as ROUNDS
from rqps.report.rounds import folder_of_unit, rounds_page
from rqps.report.two_studies import pages_beside
from rqps.scratch import replacing
from rqps.show import renderer
from rqps.store.manifest import data_folder
from rqps.store.packed import SUFFIX
from rqps.store.packing import lacks_statements, pack
from rqps.store.read import Study, load, load_levels
from rqps.study import in_words
from rqps.terminal import Terminal

NOTEBOOKS = Path(__file__).parents[3] / "notebooks" / "analysis"
INVESTIGATE = NOTEBOOKS.parent / "investigate"
_ANY_QUESTION = dict.fromkeys(("step", "me", "base"), "")
WITHOUT_STATEMENTS = "Its SQL, values, explained statements and error messages are left out."
TICK_S = 0.5
MOST_PROFILED = 12
"""A study that only counts instructions gets pages on profiles if it has at most this many dbms."""
NOTEBOOK_S, RUN_PAGE_S = 20.0, 0.3
OF_LOGS, MOST_OF_A_LOG = (".log", ".err", ".out"), 16_384
"""File name endings of logs, and the number of last characters of a log that a page shows."""


@dataclass
class Progress:
    """The progress of making pages. The time left is estimated from times per page that were measured on two slow
    cores."""

    planned_s: float
    terminal: Terminal = field(default_factory=lambda: Terminal(sys.stderr, plain_every_s=4.0))
    done_s: float = 0.0
    since: float = field(default_factory=time.monotonic)

    def tick(self, what: str) -> None:
        """Shows the page that is being made and the estimated time left."""
        spent_s = self.done_s + time.monotonic() - self.since
        left = duration(max(1.0, self.planned_s - spent_s))
        self.terminal.show(f"{what}, about {left} left", min(spent_s / self.planned_s, 1.0))

    def done(self, planned_s: float) -> None:
        self.done_s += planned_s
        self.since = time.monotonic()


class Reader(NamedTuple):
    """The Jupyter kernel that executes the notebooks of a report one after the other, and the process that draws the
    charts."""

    kernel: SharedKernel
    pictures: Path
    until_drawn: Callable[[str], None]


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """Starts a process that draws charts, and prepares a Jupyter kernel, which starts with the first notebook."""
    logs, pictures = folder / LOGS, folder / "pictures"
    for made in (logs, pictures):
        made.mkdir(parents=True)
    variables = {renderer.PICTURES: str(pictures)}
    with (
        renderer.drawn_beside(pictures, logs / "drawing.log") as until_drawn,
        SharedKernel(logs / KERNEL_LOG, variables) as kernel,
    ):
        yield Reader(kernel, pictures, until_drawn)


@dataclass(frozen=True)
class _Report:
    asked: str  # the study's name, or the path of its folder
    study: Study
    runs: pl.DataFrame  # runs of all modes
    links: Links
    data: Path
    folder: Path
    pages: Path  # the folder that contains the folders of all reports
    made: str
    progress: Progress
    enclosed: Path | None
    reader: Reader


def build(
    study: str,
    data: Path | str | None = None,
    out: Path | str | None = None,
    notebooks: Path = NOTEBOOKS,
    *,
    with_data: bool = False,
) -> Path:
    """Render a study, given by name or path, to `out/STUDY/` and return the path of its index page.

    The default of `out` is `report` in the data folder. `with_data` adds the study's packed data to the pages.
    """
    root = data_folder(data).resolve()
    read = load(study, root)
    name, study = read.card.study, study if study == read.card.study else read.place
    runs = load(study, root, mode=None).runs
    candidates = analysis_notebooks(notebooks)
    analyses = [path for path in candidates if applies(path, runs, read)]
    profiles = next((path.stem for path in candidates if FIRST in asked_by(path).get("modes", ())), None)
    target = (Path(out) if out else root / "report").resolve() / name
    if target.exists() and not (target / "index.html").is_file():
        raise RqpsError(f"{target}: exists and is not a report", fix="move it away, or give another --out")
    attempts = runs.height + read.failed.height
    with replacing(target) as folder, reading(folder.with_name("executed")) as reader:
        (folder / "runs").mkdir(parents=True)
        progress = Progress(len(analyses) * NOTEBOOK_S + attempts * RUN_PAGE_S)
        links = links_to_profiles(study, root, profiles, target.parent)
        now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        made = f"Rendered by rqps {rqps.__version__} on {now}, from the raw tables in the study's folder."
        made += f" {WITHOUT_STATEMENTS}" * lacks_statements(read)
        enclosed = pack(study, folder / f"{name}{SUFFIX}", root)[0] if with_data else None
        report = _Report(study, read, runs, links, root, folder, target.parent, made, progress, enclosed, reader)
        _write_index(report, analyses)
        progress.terminal.close()
    return target / "index.html"


def investigate(study: str, data: Path, question: dict[str, str]) -> tuple[Path, Path]:
    """Execute the notebook on one regression for a question. Returns the path of the executed notebook, which is
    signed for JupyterLab to trust it, and the path of its page."""
    from nbformat import read as read_notebook
    from nbformat.sign import NotebookNotary

    folder = data / "investigate" / study
    folder.mkdir(parents=True, exist_ok=True)
    parameters = {"study": study, "data": str(data), **_ANY_QUESTION, **question}
    source = next(notebook for notebook in _notebooks(INVESTIGATE) if _takes_a_question(notebook))
    check_parameters(source, parameters)
    progress = Progress(NOTEBOOK_S)
    _execute(source, folder, parameters, progress)
    progress.terminal.close()
    notebook, page = folder / "notebook.ipynb", folder / f"{source.stem}.html"
    NotebookNotary().sign(read_notebook(notebook, as_version=4))
    _, html = notebook_page(notebook, study=study, home=page.name, made=f"Rendered by rqps {rqps.__version__}.")
    write_page(page, html)
    return notebook, page


def analysis_notebooks(folder: Path) -> Sequence[Path]:
    """The notebooks of a folder, and the notebooks of the folder `investigate` beside it."""
    notebooks = _notebooks(folder)
    if not notebooks:
        raise RqpsError(
            f"{folder}: no analysis notebooks", fix="install rqps from a whole checkout: pip install -e ."
        )
    return [*notebooks, *_notebooks(folder.with_name(INVESTIGATE.name))]


def _notebooks(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*.ipynb"))


def _takes_a_question(notebook: Path) -> bool:
    """True if a notebook shows one comparison at a time, which its parameters choose."""
    return "comparisons" in asked_by(notebook)


def applies(notebook: Path, runs: pl.DataFrame, study: Study) -> bool:
    """True if a notebook belongs to a study's report: the study meets all conditions in the notebook's metadata.

    - `workloads`, `modes`: a run has one of these.
    - `options`: a config sets one of these options; or an option that `varied` lists for a workload has two values.
    - `levels`: true if the study must have measured the parts of a scenario, false if it must not.
    - `releases`: the minimum number of releases.
    - `imported`: true if the results must be imported, false if they must not.
    - `function`: this function returns True for the study.

    A study without rounds of throughput has no measured times. It gets the notebooks that have `releases` or `counts`
    (which says that the notebook can compare counted instructions), and those with `modes` if it has few dbms.
    """
    only = asked_by(notebook)
    if "levels" in only and only["levels"] != (len(load_levels(study.place)) > 1):
        return False
    few = len(study.card.dbms) <= MOST_PROFILED
    if study.card.rounds == 0 and not {"releases", "counts"} & {*only} and not (few and "modes" in only):
        return False  # all other pages need measured times
    if (
        len(stats.releases(study)) < only.get("releases", 0)
        or only.get("imported", own := study.card.imported) != own
    ):
        return False
    options = study.conditions.filter(kind="option")
    if "options" in only and options.filter(pl.col("name").is_in(only["options"])).is_empty():
        varied = [name for load in runs["workload"].unique() for name in only.get("varied", {}).get(load, [])]
        values = options.filter(pl.col("name").is_in(varied)).group_by("name").agg(pl.col("value").n_unique())
        if values.filter(pl.col("value") > 1).is_empty():
            return False
    if "function" in only and not resolve_name(only["function"])(study):
        return False
    return all(
        runs.is_empty() or not runs.filter(pl.col(column).is_in(only[key])).is_empty()
        for key, column in (("workloads", "workload"), ("modes", "mode"))
        if key in only
    )


def _write_index(report: _Report, notebooks: Sequence[Path]) -> None:
    study = report.study
    runs = [*report.runs.iter_rows(named=True), *study.failed.iter_rows(named=True)]
    files = _run_pages(report, runs)
    short, nothing, related = Answer(()), "No run of this study has finished yet.", (pl.DataFrame(), pl.DataFrame())
    if not study.runs.is_empty():
        try:
            related = stats.relate(study)
            short, nothing = answer(study, *related, notebooks), ""
        except RqpsError as error:
            nothing = str(error)
    shown = [notebook for notebook in notebooks if _says_something(notebook, related[1], nothing)]
    numbers = _write_rounds(report, *related, files, screen=next(filter(_takes_a_question, shown), None))
    pages = [_analysis_page(report, notebook, numbers) for notebook in shown]
    pages += pages_beside(study.card.study, report.data, report.pages)
    reliable, reasons = None, ""
    if judged := reliability(study, notebooks):
        reliable, reasons = judged[0], f"{judged[1].stem}.html" if judged[1] in shown else ""
    tables = {"runs": run_rows(study, report.runs, files), "failed": run_rows(study, study.failed, files)}
    words = {"title": f"{study.card.study} · rqps", "heading": study.card.question, "made": report.made}
    links = {"contents": {}, "pages": pages, "to_rounds": numbers, "note": report.links.note}
    about = {"card": study.card, "answer": short, "nothing": nothing, "reliable": reliable, "reasons": reasons}
    about |= {"facts": facts_of(study, report.runs), "enclosed": report.enclosed and _enclosed(report.enclosed)}
    page = render("index.html.j2", **words, **about, **links, **tables)
    (report.folder / "index.html").write_text(page, encoding="utf-8")


def _enclosed(file: Path) -> dict[str, str]:
    return {"file": file.name, "size": megabytes(file.stat().st_size), "sha256": sha256(file)}


def _says_something(notebook: Path, compared: pl.DataFrame, nothing: str) -> bool:
    """False if a page would be empty or too long. A page on profiles is never empty: it has contents even if nothing
    was compared. For a notebook that shows one comparison per screen, `comparisons` in its metadata is the maximum
    number of comparisons."""
    asked = asked_by(notebook)
    if "comparisons" in asked:
        count = 0 if compared.is_empty() else compared.select("host", "step", "dbms").n_unique()
        return 0 < count <= int(asked["comparisons"])
    return not nothing or "modes" in asked


def _write_rounds(
    report: _Report,
    rounds: pl.DataFrame,
    compared: pl.DataFrame,
    files: Mapping[str, str | None],
    *,
    screen: Path | None,
) -> Markup:
    """Write the page of the rounds and return, as JSON, the links to this page; empty if nothing was compared."""
    if compared.is_empty():
        return Markup("")
    words = {"made": report.made, "screen": f"{screen.stem}.html" if screen else ""}
    page, links = rounds_page(report.study, rounds, compared, files, report.links, **words)
    (report.folder / ROUNDS).write_text(page, encoding="utf-8")
    return links


def _analysis_page(report: _Report, notebook: Path, numbers: Markup) -> tuple[str, str]:
    """Execute a notebook for this study and render it; returns the file and the title of the page. A page that
    shows all studies is stored beside their folders. Such a page is made again only if this study, the notebook or
    the published numbers are newer than the page."""
    of_all = "studies" in asked_by(notebook)
    page = (report.pages if of_all else report.folder) / f"{notebook.stem}.html"
    if of_all and page.is_file():
        times = [path.stat().st_mtime for path in (notebook, *PUBLISHED.iterdir())]
        if page.stat().st_mtime > max([*times, *(end.timestamp() for end in report.runs["ended_at"])]):
            return f"../{page.name}", content_of(nbformat.read(notebook, as_version=4)).heading
    parameters = {"study": report.asked, "data": str(report.data)} | (
        _ANY_QUESTION if _takes_a_question(notebook) else {}
    )
    check_parameters(notebook, parameters)
    title, html = executed_page(
        notebook,
        report.folder.with_name(f"executed-{notebook.stem}"),
        parameters,
        report.progress,
        report.reader,
        study=report.study.card.study,
        home=f"{report.study.card.study}/index.html" if of_all else "index.html",
        made=report.made,
        to_rounds=Markup("") if of_all or "modes" in asked_by(notebook) else numbers,
        names={} if of_all or report.study.runs.is_empty() else names_of(report.study)[1],
    )
    report.progress.done(NOTEBOOK_S)
    write_page(page, html)
    return f"../{page.name}" if of_all else page.name, title


def executed_page(
    notebook: Path, place: Path, parameters: dict[str, str], progress: Progress, reader: Reader, **words: Any
) -> tuple[str, str]:
    """Execute a notebook while another process draws its charts; returns the title and the HTML of its page."""
    _execute(notebook, place, parameters, progress, reader.kernel)
    reader.until_drawn(notebook.name)
    return notebook_page(place / RESULT, pictures=reader.pictures, **words)


def _execute(
    notebook: Path, place: Path, parameters: dict[str, str], progress: Progress, kernel: SharedKernel | None = None
) -> None:
    (place / LOGS).mkdir(parents=True, exist_ok=True)
    execution = Execution(notebook, place, parameters, only_reads=True, kernel=kernel)
    try:
        while not execution.wait(TICK_S):
            progress.tick(f"executing {notebook.name}")
    except BaseException:
        execution.stop()
        raise
    if error := execution.error():
        raise RqpsError(
            f"{notebook.name} failed for study {parameters['study']}: {error}",
            fix=f"open {notebook.name} in JupyterLab, set `study` and run it to see the failing cell",
        )


def _run_pages(report: _Report, runs: Sequence[dict[str, Any]]) -> dict[str, str | None]:
    """Render the notebook and the logs of each run; maps the folders of runs to their pages. The runs of a duet share
    one page. A run that failed early may have no page, and the runs of a packed study have no pages."""
    together: dict[Path, list[dict[str, Any]]] = {}
    for run in runs:
        together.setdefault(folder_of_unit(run["folder"], run["side"]), []).append(run)
    pages = {folder: _run_page(report, folder, members) for folder, members in together.items()}
    return {run["folder"]: pages[folder] for folder, members in together.items() for run in members}


def _run_page(report: _Report, folder: Path, runs: Sequence[dict[str, Any]]) -> str | None:
    first, study = runs[0], report.study.card.study
    report.progress.tick(f"rendering {first['run']}")
    file = None
    if (folder / RESULT).is_file():
        failed = first["outcome"] != "ok"
        who = ", ".join(f"{run['dbms']} ({run['version']})" for run in runs)
        lead = f"{who}, {in_words(first['mode'], first['round'])} on {first['host']}"
        lead += f" failed: {first['error']}" if failed else ""
        logs = {str(path.relative_to(folder)): path for path in sorted(folder.rglob(f"{LOGS}/*"))}
        written = {name: _log(path) for name, path in logs.items() if path.suffix in OF_LOGS and path.stat().st_size}
        _, html = notebook_page(
            folder / RESULT,
            study=study,
            lead=lead,
            home="../index.html",
            made=report.made,
            logs=written,
            trusted=False,
        )
        file = f"runs/{'failed-' * failed}{folder.name.removeprefix('run=')}.html"
        (report.folder / file).write_text(html, encoding="utf-8")
    report.progress.done(RUN_PAGE_S)
    return file


def _log(file: Path) -> str:
    text = file.read_text(encoding="utf-8", errors="replace")
    return text if len(text) <= MOST_OF_A_LOG else f"… {len(text) - MOST_OF_A_LOG:,} more\n{text[-MOST_OF_A_LOG:]}"
