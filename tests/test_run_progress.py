"""The time left and the progress line of runs, and the check of a notebook's parameters."""

import io
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook
from rqps.errors import RqpsError
from rqps.measure.notes import noted
from rqps.notebook import PIDS, Execution, SharedKernel, check_parameters
from rqps.schedule.state import FIRST_GUESS_S, Estimate
from rqps.terminal import Terminal

GIVEN = {"runs_yaml": "runs.yaml", "study": "demo"}
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def test_the_plan_and_a_guess_come_first_and_measured_overhead_after() -> None:
    estimate = Estimate([40.0, 40.0, 20.0])
    assert estimate.left_s() == 100 + 3 * FIRST_GUESS_S
    assert estimate.left_s(elapsed_s=15) == 85 + 3 * FIRST_GUESS_S
    estimate.finished(44.0, ok=True)
    assert estimate.left_s() == 40 + 20 + 2 * 4
    assert estimate.left_s(elapsed_s=1000) == 24
    assert estimate.share() == 44 / (44 + 68)


def test_a_mode_has_an_overhead_of_its_own_once_it_was_measured() -> None:
    estimate = Estimate([10.0] * 4, ["throughput", "throughput", "instructions", "instructions"])
    estimate.finished(14.0, ok=True)
    assert estimate.left_s() == 3 * 14
    estimate.finished(14.0, ok=True)
    estimate.finished(130.0, ok=True)
    assert estimate.left_s() == 130


def test_a_run_that_failed_early_says_nothing_about_the_others() -> None:
    estimate = Estimate([40.0, 40.0])
    estimate.finished(2.0, ok=False)
    assert estimate.left_s() == 40 + FIRST_GUESS_S


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=6), st.floats(0, 1e5))
def test_the_share_is_1_only_at_the_end(planned: list[float], elapsed_s: float) -> None:
    estimate = Estimate(planned)
    for _ in planned:
        assert 0 <= estimate.share(elapsed_s) <= 0.99
        assert estimate.left_s(elapsed_s) >= 0
        estimate.finished(elapsed_s, ok=True)
    assert estimate.share() == 1
    assert estimate.left_s() == 0


def test_what_a_run_says_is_one_printable_line(tmp_path: Path) -> None:
    assert noted(tmp_path) == "starting"
    (tmp_path / "progress.txt").write_text("")
    assert noted(tmp_path) == "starting"
    (tmp_path / "progress.txt").write_bytes(b"insert\x1b[2J 2/4 \xff\nmore")
    assert noted(tmp_path) == "insert[2J 2/4 \ufffd"


def test_a_stream_that_is_no_terminal_and_knows_few_letters() -> None:
    raw = io.BytesIO()
    terminal = Terminal(io.TextIOWrapper(raw, encoding="ascii"), plain_every_s=100)
    assert not terminal.is_live
    terminal.show("in between")
    terminal.show("at once", at_once=True)
    terminal.say("5 µs – done")
    terminal.close()
    assert raw.getvalue() == b"at once\n5 ?s ? done\n"


def notebook(path: Path, source: str, *, tags: tuple[str, ...] = ("parameters",)) -> Path:
    cell = new_code_cell(source, metadata={"tags": list(tags)})
    nbformat.write(new_notebook(cells=[cell], metadata=PYTHON), path / "one.ipynb")
    return path / "one.ipynb"


def refusal(path: Path) -> str:
    with pytest.raises(RqpsError) as refused:
        check_parameters(path, GIVEN)
    assert str(path) in refused.value.message
    return str(refused.value)


def test_a_notebook_that_fits(tmp_path: Path) -> None:
    check_parameters(notebook(tmp_path, "runs_yaml: str = 'runs.yaml'  # the file\nstudy: str = 'demo'"), GIVEN)
    check_parameters(notebook(tmp_path, "runs_yaml = study = ''\nseconds: int = 3  # of its own"), GIVEN)


@pytest.mark.parametrize(
    ("source", "takes"),
    [
        ("runs_yml: str = ''\nstudy: str = ''", "runs_yml, study"),
        ("study: str = ''", "study"),
        ("study = ''\nseconds: int = 3", "seconds, study"),
    ],
)
def test_one_that_takes_something_else(tmp_path: Path, source: str, takes: str) -> None:
    text = refusal(notebook(tmp_path, source))
    assert f"has 1 cell tagged `parameters`; names set there: {takes}\n" in text
    assert "one line `name = default` for each of: runs_yaml, study" in text


def test_one_without_the_tag(tmp_path: Path) -> None:
    text = refusal(notebook(tmp_path, "runs_yaml: str = ''\nstudy: str = ''", tags=()))
    assert "has 0 cells tagged `parameters`" in text


def test_none_at_all_and_something_else(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.ipynb")
    for number, text in enumerate(("not a notebook", "[]", "{}")):
        (tmp_path / f"{number}.ipynb").write_text(text)
        assert "can't be read as a notebook" in refusal(tmp_path / f"{number}.ipynb")


def test_a_notebook_that_imports_altair_first_has_a_kernel_without_the_grammar_of_addresses(tmp_path: Path) -> None:
    (tmp_path / "out/logs").mkdir(parents=True)
    source = "import altair, sys\nassert 'lark' not in sys.modules\nassert 'rqps' not in globals()"
    nbformat.write(new_notebook(cells=[new_code_cell(source)], metadata=PYTHON), tmp_path / "one.ipynb")
    execution = Execution(tmp_path / "one.ipynb", tmp_path / "out", {}, only_reads=True)
    execution.wait()
    assert execution.error() is None


def test_notebooks_that_share_a_kernel_find_nothing_of_each_other(tmp_path: Path) -> None:
    source = (
        "import polars\nassert 'mine' not in globals()\nassert polars.Config.state()['POLARS_TABLE_WIDTH'] is None"
    )
    cell = new_code_cell(f"{source}\nmine = 1\npolars.Config.set_tbl_width_chars(90)")
    nbformat.write(new_notebook(cells=[cell], metadata=PYTHON), tmp_path / "one.ipynb")
    with SharedKernel(tmp_path / "kernel.log", {}) as kernel:
        for name in "ab":
            (tmp_path / name / "logs").mkdir(parents=True)
            execution = Execution(tmp_path / "one.ipynb", tmp_path / name, {}, only_reads=True, kernel=kernel)
            execution.wait()
            assert execution.error() is None
    assert (tmp_path / "a" / PIDS).read_text() == (tmp_path / "b" / PIDS).read_text()
