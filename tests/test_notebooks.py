"""Notebooks are prose first, short, clean as committed, and show what they promise."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from rqps.show.renderer import PICTURES

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(path for path in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
READ = [path for path in NOTEBOOKS if path.parent.name in ("analysis", "investigate")]
LINES = 15

STARTUP = '__import__("rqps").save_cpu()'
"""What `rqps` does in its own kernels, for those of nbval: else they make a grammar that takes 1.5 s of CPU."""

every_notebook = pytest.mark.parametrize(
    "notebook", NOTEBOOKS, ids=[str(path.relative_to(ROOT / "notebooks")) for path in NOTEBOOKS]
)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)  # type: ignore[no-any-return]


def code(path: Path) -> list[NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def is_set_up(cell: NotebookNode) -> bool:
    """Parameters or imports, which need no prose of their own."""
    statements = ast.parse(cell.source).body
    return "parameters" in tags(cell) or all(
        isinstance(statement, ast.Import | ast.ImportFrom) for statement in statements
    )


def test_there_are_notebooks_to_run_and_to_read() -> None:
    assert {path.parent.name for path in NOTEBOOKS} >= {"run", "analysis"}


@every_notebook
def test_the_logic_is_in_the_library(notebook: Path) -> None:
    for cell in code(notebook):
        defined = [
            node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        assert not defined, cell.source


@every_notebook
def test_code_cells_have_few_lines(notebook: Path) -> None:
    for cell in code(notebook):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert 1 <= len(lines) <= (LINES + 2 if "parameters" in tags(cell) else LINES), cell.source


@pytest.mark.parametrize("notebook", READ, ids=[path.stem for path in READ])
def test_it_computes_in_plain_sight(notebook: Path) -> None:
    """A reader who knows polars and altair finds lines of them to change."""
    sources = [cell.source for cell in code(notebook)]
    assert len([source for source in sources if "pl." in source]) >= 1
    assert len([source for source in sources if "alt." in source]) >= 1


@every_notebook
def test_prose_comes_before_code(notebook: Path) -> None:
    cells = read(notebook).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    for before, cell, after in zip(cells, cells[1:], cells[2:], strict=False):
        in_a_row = [value for value in (before, cell, after) if value.cell_type == "code" and not is_set_up(value)]
        assert len(in_a_row) < 3, "\n\n".join(one.source for one in in_a_row)


@every_notebook
def test_one_cell_holds_the_parameters(notebook: Path) -> None:
    """Without the tag papermill puts its values first, and the notebook's own overwrite them."""
    assert len([cell for cell in code(notebook) if "parameters" in tags(cell)]) == 1


@every_notebook
def test_nothing_of_the_machine_it_was_written_on_stays(notebook: Path) -> None:
    for cell in code(notebook):
        strings = [node.value for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Constant)]
        assert not [text for text in strings if isinstance(text, str) and text.startswith(("/", "~"))], cell.source
    assert not re.search(rf"{re.escape(str(ROOT))}|{re.escape(str(Path.home()))}\b", notebook.read_text())


@every_notebook
def test_metadata_is_the_same_whoever_saved_it(notebook: Path) -> None:
    content = read(notebook)
    nbformat.validate(content)
    assert content.nbformat == 4
    assert content.metadata.kernelspec.name == "python3"
    assert content.metadata.keys() <= {"kernelspec", "language_info", "rqps"}
    known = {"workloads", "modes", "options", "varied", "levels", "studies", "comparisons"}
    known |= {"first_page", "reliability", "frames", "releases", "imported", "function", "counts"}
    assert content.metadata.get("rqps", {}).keys() <= known
    assert content.metadata.get("language_info", {}).keys() <= {"name"}
    assert {key for cell in content.cells for key in cell.metadata} <= {"tags", "jupyter"}


@every_notebook
def test_what_is_to_be_read_ships_with_what_it_shows(notebook: Path) -> None:
    """nbval compares what a cell shows, or that it shows nothing, unless the cell has no count, or a tag or comment
    that exempts it."""
    cells = code(notebook)
    if notebook.parent.name == "run":  # which measures, and is kept in its run's folder as it came out
        assert not [cell.source for cell in cells if cell.outputs]
        return
    for cell in cells:
        assert cell.execution_count, f"python tests/keep_outputs.py runs it: {cell.source}"
        assert set(tags(cell)) <= {"parameters"}, cell.source
        assert "NBVAL_" not in cell.source, cell.source
        assert not [output for output in cell.outputs if output.output_type == "error"], cell.source
    headings = [cell.source for cell in read(notebook).cells if cell.source.startswith("## ")]
    assert len([cell for cell in cells if cell.outputs]) >= len(headings) / 2, "python tests/keep_outputs.py does it"


def shows(notebooks: list[Path], data: Path) -> "subprocess.CompletedProcess[str]":
    """Executed by nbval, which compares all cells and names each, as passed or failed. A chart is compared by its
    specification, and its picture is not drawn."""
    # rqps is imported before nbval, which would have the grammar made here, too.
    pytest_without_grammar = [sys.executable, "-m", "pytest", "-qrpfE", "--override-ini=addopts=", "-p", "rqps"]
    nbval = ["-p", "packed_outputs", "-p", "no:cacheprovider"]
    nbval += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    kernel = {"RQPS_DATA": str(data), "PYTHONSTARTUP": str(data / "startup.py"), PICTURES: str(data), "TZ": "UTC"}
    return subprocess.run(
        [*pytest_without_grammar, *nbval, *map(str, notebooks)],
        cwd=ROOT / "tests",  # where `packed_outputs` is
        env={**os.environ, **kernel},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def shown(
    request: pytest.FixtureRequest, samples: Path
) -> Iterator[dict[Path, "Future[subprocess.CompletedProcess[str]]"]]:
    """Those that were asked for, by as many processes as there are CPUs."""
    (samples / "startup.py").write_text(STARTUP)
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = [test.callspec.params["notebook"] for test in tests if "shown" in test.fixturenames]
    asked = [notebook for notebook in READ if notebook in wanted]
    with ThreadPoolExecutor(cpus := len(os.sched_getaffinity(0))) as at_once:
        shares = [asked[first::cpus] for first in range(min(cpus, len(asked)))]
        done = [at_once.submit(shows, share, samples) for share in shares]
        yield {notebook: done[at % cpus] for at, notebook in enumerate(asked)}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("notebook", READ, ids=[path.stem for path in READ])
def test_a_notebook_shows_what_was_committed(
    notebook: Path, shown: dict[Path, "Future[subprocess.CompletedProcess[str]]"]
) -> None:
    done = shown[notebook].result()
    cells = [line for line in done.stdout.splitlines() if f"{notebook.name}::" in line]
    assert cells, done.stdout + done.stderr
    assert all(line.startswith("PASSED ") for line in cells), done.stdout + done.stderr
