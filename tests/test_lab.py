"""Notebooks in a real JupyterLab: charts answer the pointer, maps can be read, text keeps its columns."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
import rqps
from browser import DESKTOP, Browser, Tab, visited
from child import PATIENCE_S, until
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from rqps import show
from rqps.show.renderer import MIME
from test_charts import all_charts
from test_flame_page import explorer_of

pytestmark = pytest.mark.page

WIDE = ("a step with a long name", *(f"col-{number}  0.70 (0.70–0.70) ▼ n=6" for number in range(12)))
CONTRAST = """(() => {
  const part = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((v) => part(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll('.rqps-map td a')].map((link) => {
    const ink = light(getComputedStyle(link).color);
    const paper = light(getComputedStyle(link.parentElement).backgroundColor);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  });
})()"""


def output_of(shown: Any) -> nbformat.NotebookNode:
    """An output as the kernel makes it."""
    if hasattr(shown, "_repr_mimebundle_"):
        result = shown._repr_mimebundle_()
        data, metadata = result if isinstance(result, tuple) else (result, {})
    else:
        data, metadata = {"text/html": shown._repr_html_(), "text/plain": repr(shown)}, {}
    data = {kind: base64.encodebytes(of).decode() if isinstance(of, bytes) else of for kind, of in data.items()}
    made: nbformat.NotebookNode = new_output("execute_result", data, metadata=metadata, execution_count=1)
    return made


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory, study: rqps.Study) -> Path:
    """A folder with one notebook, twice: as it comes, and trusted."""
    folder = tmp_path_factory.mktemp("lab")
    shown = {
        **all_charts(study),
        "map": explorer_of("µs/operation", ""),
        "text": show.Text("\n".join(["  ".join(WIDE)] * 3)),
    }
    cells = [new_markdown_cell("# A notebook")]
    cells += [new_code_cell(name, execution_count=1, outputs=[output_of(item)]) for name, item in shown.items()]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for name in ("as-it-comes", "trusted"):
        nbformat.write(notebook, folder / f"{name}.ipynb")
        notebook.metadata["name"] = name  # another one, so that the signature is not of both
    answers = pl.DataFrame([{"host": "vm", "step": step, "base": "a", "dbms": "b"} for step in ("scan", "insert")])
    answers = answers.with_columns(answer=pl.format("{} is slower", "step"))
    tries = {"What to try": answers.drop("answer").with_columns(call=pl.lit("rqps.what_if('none', step='scan')"))}
    frames = "import rqps\nfrom rqps import show\nquestion = show.Question('vm', 'scan', 'a', 'b')"
    screen = show.questions(answers, tries, first=show.Question("vm", "scan", "a", "b"))
    cells = [new_code_cell(frames), new_code_cell("'the screen'", outputs=[output_of(screen)])]
    before = [output_of(show.Text("not run yet"))]
    cells += [new_code_cell("print('asked about', question.step)", outputs=before) for _ in range(3)]
    nbformat.write(new_notebook(cells=cells, metadata=notebook.metadata), folder / "follows.ipynb")
    return folder


@pytest.fixture(scope="module")
def lab(notebooks: Path) -> Iterator[str]:
    """The address of a JupyterLab of this folder alone, with nothing of the user's."""
    own = {name: str(notebooks / "own" / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    environment = os.environ | own | {"JUPYTER_RUNTIME_DIR": str(notebooks / "own/runtime")}
    sign = "import nbformat, sys; from nbformat.sign import NotebookNotary as N; "
    sign += "N().sign(nbformat.read(sys.argv[1], as_version=4))"
    for name in ("trusted", "follows"):
        signed = [sys.executable, "-c", sign, str(notebooks / f"{name}.ipynb")]
        subprocess.run(signed, env=environment, check=True)
    words = ["--no-browser", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=", f"--notebook-dir={notebooks}"]
    words += [
        "--allow-root",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with (notebooks / "lab.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *words], env=environment, stderr=log, stdout=log
        )
    try:
        address: list[str] = []

        def listening() -> bool:
            address[:] = re.findall(r"http://127\.0\.0\.1:\d+", (notebooks / "lab.log").read_text())
            return bool(address)

        until(listening, patience_s=120, why=lambda: (notebooks / "lab.log").read_text())
        yield address[0]
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


@contextmanager
def shown(browser: Browser, lab: str, name: str) -> Iterator[Tab]:
    """A notebook in JupyterLab, all of it drawn."""
    with visited(browser, f"{lab}/lab/workspaces/{name}/tree/{name}.ipynb?reset", DESKTOP) as tab:
        tab.call(
            "Emulation.setDeviceMetricsOverride", width=DESKTOP, height=12_000, deviceScaleFactor=1, mobile=False
        )
        tab.wait_for("document.querySelectorAll('.jp-Notebook .jp-CodeCell').length > 3")
        tab.wait_for("document.querySelectorAll('.jp-OutputArea-output').length > 3")
        yield tab


CHARTS = "document.querySelectorAll('.jp-OutputArea-output .vega-embed svg').length"


@pytest.mark.parametrize("name", ["as-it-comes", "trusted"])
def test_charts_are_drawings_that_answer_the_pointer(
    name: str, browser: Browser, lab: str, notebooks: Path, study: rqps.Study
) -> None:
    content = json.loads((notebooks / f"{name}.ipynb").read_text())
    charts = sum(MIME in output.get("data", {}) for c in content["cells"] for output in c.get("outputs", ()))
    assert charts == len(all_charts(study))
    with shown(browser, lab, name) as tab:
        tab.wait_for(f"{CHARTS} === {charts}")
        assert not [complaint for complaint in tab.complaints() if "Vega" in complaint or "vega" in complaint]
        mark = "document.querySelector('.vega-embed .mark-rect path')"
        box = tab.box(mark)
        assert box["width"] > 20
        tab.mouse(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, "mouseMoved")
        tab.wait_for("document.querySelector('#vg-tooltip-element.visible')?.textContent.includes('verdict')")
        assert tab.requests() == [
            request for request in tab.requests() if request.startswith((lab, lab.replace("http", "ws")))
        ]


def test_no_chart_is_wider_than_its_column(browser: Browser, lab: str, study: rqps.Study) -> None:
    wider = """[...document.querySelectorAll('.jp-OutputArea-output:has(.vega-embed)')]
    .filter((output) => output.scrollWidth > output.clientWidth + 1).map((output) => output.innerText)"""
    with shown(browser, lab, "trusted") as tab:
        tab.wait_for(f"{CHARTS} === {len(all_charts(study))}")
        assert tab.run(wider) == []


@pytest.mark.parametrize("name", ["as-it-comes", "trusted"])
def test_text_keeps_its_columns(name: str, browser: Browser, lab: str) -> None:
    with shown(browser, lab, name) as tab:
        pre = "document.querySelector('pre.text')"
        tab.wait_for(f"!!{pre}")
        assert (
            tab.run(f"getComputedStyle({pre}).whiteSpaceCollapse + getComputedStyle({pre}).textWrapMode")
            == "preservenowrap"
        )
        assert tab.run(f"{pre}.scrollWidth > {pre}.clientWidth"), "it scrolls"
        lines = tab.run(f"{pre}.getBoundingClientRect().height / parseFloat(getComputedStyle({pre}).lineHeight)")
        assert lines < 5


@pytest.mark.parametrize("name", ["as-it-comes", "trusted"])
def test_the_map_of_flame_graphs_can_be_read(name: str, browser: Browser, lab: str) -> None:
    with shown(browser, lab, name) as tab:
        tab.wait_for("!!document.querySelector('.rqps-map td a')")
        assert min(tab.run(CONTRAST)) >= 4.5


def test_the_lists_reach_the_cells_below_and_what_is_tried_answers_there(browser: Browser, lab: str) -> None:
    """In a kernel that knows nothing yet, whose cells above are then run."""
    with shown(browser, lab, "follows") as tab:
        tab.wait_for("!!document.querySelector('.rqps-choose select')")
        choose = "(list => { list.value = 'insert'; list.dispatchEvent(new Event('change', {bubbles: true})); })"
        tab.run(f"{choose}(document.querySelector('.rqps-choose select[name=step]'))")
        below = "[...document.querySelectorAll('.jp-OutputArea-output')].map(output => output.innerText.trim())"
        tab.wait_for(f"{below}.filter(text => text === 'asked about insert').length === 3")
        assert tab.run("document.querySelector('.rqps-line').hidden")
        tab.run("document.querySelector('.rqps-chosen td button').click()")
        answer = tab.wait_for("document.querySelector('.rqps-chosen td pre')?.textContent")
        assert "what to do: " in answer, "the reason why it can't be measured"
