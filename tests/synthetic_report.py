"""A made-up study as a reader might get it at worst: with a failed run, and markup where people write text."""

import base64
from pathlib import Path
from typing import Any

import nbformat
import rqps
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from rqps import show
from rqps.report.render import notebook_page
from rqps.show.flame import Drawing
from rqps.show.renderer import bundle
from rqps.stats import counters_over_time, throughput_over_time
from rqps.store import write_manifest, write_study_card
from synthetic import Shape, card, manifest, write_study

KERNEL = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
HOSTILE = "<img src=x onerror='window.hacked = 1'>"


def write_report(data: Path, shape: Shape | None = None) -> Path:
    """A made-up study with a failed run, the notebook of a run, and markup where people write text."""
    shape = shape or Shape()
    write_study(data, shape)
    folder = data / "raw/study=synthetic"
    write_study_card(folder, card(shape, question=f"What does {HOSTILE} cost?"))
    failed = manifest(shape.dbms[1], 1, shape, outcome="failed", error=f"server killed {HOSTILE} in step insert")
    write_manifest(folder / "failed" / f"run={failed.run}.1", failed)
    first = folder / f"run=r01@{shape.dbms[0]}@here"
    study = rqps.load("synthetic", data=data)
    run = study.runs["run"][0]
    steps = study.steps.filter(run=run)
    shown = [
        show.throughput(throughput_over_time(study.intervals.filter(run=run), study.steps)),
        show.counters(counters_over_time(study.counters.filter(run=run), steps, study.runs)),
    ]
    saved = notebook_of(shown)
    table = "<table onclick='window.hacked = 1'><tr><td>a cell</td></tr></table><script>window.hacked = 1</script>"
    saved.cells.append(
        new_code_cell("table", outputs=[new_output("display_data", {"text/html": f"{table}{HOSTILE}"})])
    )
    nbformat.write(saved, first / "notebook.ipynb")
    return data


def page_of(folder: Path, *shown: Drawing) -> Path:
    """The page of a notebook that shows these drawings."""
    outputs = [[new_output("execute_result", dict(drawing._repr_mimebundle_()))] for drawing in shown]
    cells = [new_markdown_cell("# A page"), *(new_code_cell("it", outputs=output) for output in outputs)]
    nbformat.write(new_notebook(cells=cells), folder / "page.ipynb")
    _, html = notebook_page(folder / "page.ipynb", study="s", lead="", home="index.html", made="today")
    (folder / "page.html").write_text(html, encoding="utf-8")
    return folder / "page.html"


def only_relative_throughput(folder: Path) -> Path:
    """A folder with that one analysis notebook: the others have tests of their own."""
    folder.mkdir(parents=True)
    notebook = Path(__file__).parent.parent / "notebooks/analysis/relative_throughput.ipynb"
    (folder / notebook.name).write_bytes(notebook.read_bytes())
    return folder


def small_analysis(folder: Path) -> Path:
    """A folder with a notebook of that name that shows one table: enough for a test of a report, not of a page."""
    source = "import rqps\nfrom rqps import show, stats\n_, compared = stats.relate(rqps.load(study, data=data))\n"
    cells = [
        new_code_cell('study = "releases"\ndata = None', metadata={"tags": ["parameters"]}),
        new_markdown_cell("# Relative throughput"),
        new_code_cell(f"{source}show.ratio_table(compared)"),
    ]
    folder.mkdir(parents=True)
    nbformat.write(new_notebook(cells=cells, metadata=KERNEL), folder / "relative_throughput.ipynb")
    return folder


def notebook_of(shown: list[Any]) -> nbformat.NotebookNode:
    """A notebook as it is after its run: prose, code, charts, text, and an error in colours."""
    cells = [new_markdown_cell(f"# A run of {HOSTILE}\n\nProse with {HOSTILE} and `code`.\n\n## Charts")]
    for chart in shown:
        data, _ = bundle(chart.to_dict())
        data["image/png"] = base64.encodebytes(data["image/png"]).decode()
        cells.append(new_code_cell("chart", outputs=[new_output("execute_result", data)]))
    text = new_output("stream", name="stdout", text=f"{HOSTILE}\n\x1b[31mred\x1b[0m\n")
    error = new_output("error", ename="RqpsError", evalue="no", traceback=[f"\x1b[31mRqpsError\x1b[0m: {HOSTILE}"])
    cells.append(new_code_cell("print()", outputs=[text, error]))
    notebook: nbformat.NotebookNode = new_notebook(cells=cells)
    return notebook
