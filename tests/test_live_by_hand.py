"""A run's notebook by hand: papermill with parameters measures one run on a real server and stores it."""

import subprocess
import sys
from pathlib import Path

import nbformat
import polars as pl
import pytest
import rqps
from rqps.errors import RqpsError
from rqps.schedule import one_run
from rqps.store import read_study_card

pytestmark = pytest.mark.live
ROOT = Path(__file__).parent.parent
STEPS = '["point-query"]'


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("RQPS_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def by_hand(out: Path, *parameters: str) -> "subprocess.CompletedProcess[str]":
    """Executes the notebook as a person does, from the checkout."""
    words = [
        word for name, value in zip(parameters[::2], parameters[1::2], strict=True) for word in ("-p", name, value)
    ]
    papermill = [sys.executable, "-m", "papermill", "notebooks/run/sysbench.ipynb", str(out), *words]
    return subprocess.run(papermill, cwd=ROOT, capture_output=True, text=True, timeout=600)


def test_papermill_measures_one_dbms_with_parameters_of_its_own(data: Path, tmp_path: Path) -> None:
    asked = ("study", "demo", "dbms", "my8033.ps0", "steps", STEPS, "seconds", "1")
    done = by_hand(tmp_path / "out.ipynb", *asked)
    assert done.returncode == 0, done.stderr[-2000:]
    [folder] = (data / "raw").iterdir()
    study = rqps.load(folder.name.removeprefix("study="), data)
    assert study.runs.select("dbms", "mode", "round", "side").rows() == [("my8033.ps0", "throughput", 1, None)]
    assert study.steps["step"].to_list() == ["point-query"]
    assert study.steps.select((pl.col("elapsed_s") < 10).all()).item()
    assert study.conditions.filter(kind="option", name="performance_schema")["value"].to_list() == ["OFF"]
    shown = nbformat.read(tmp_path / "out.ipynb", as_version=nbformat.NO_CONVERT).cells
    assert any("server_cpu_us_per_operation" in str(cell.get("outputs")) for cell in shown)
    again = by_hand(tmp_path / "again.ipynb", *asked)
    assert "this run is measured already" in again.stderr
    assert "-p round 2" in again.stderr


def test_what_can_not_be_asked_for_is_refused_before_anything_starts(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for message, asked in {
        "has the workload sysbench": ("db-bench", "demo"),
        "is no build and config of runs.yaml": ("sysbench", "demo", "my8033.nothing"),
        "is not measured by hand": ("sysbench", "demo", "my8033.ps0", 1, "health"),
        "has no such run": ("sysbench", "demo", ["my5624.common", "my8033.ps0"], 1, "stacks"),
        "not JSON": ("sysbench", "demo", '["my5624'),
    }.items():
        with pytest.raises(RqpsError, match=message):
            one_run.job_of(*asked)  # type: ignore[arg-type]
    with pytest.raises(RqpsError, match="seconds"):
        one_run.job_of("sysbench", "demo", seconds="long")
    assert not (data / "raw").exists()


def test_a_run_of_the_study_leaves_its_card_and_a_cell_may_run_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    everyone = ["my5624.common", "my8033.common", "my8033.ps0"]
    first = one_run.job_of("sysbench", "demo", everyone)
    again = one_run.job_of("sysbench", "demo", everyone)
    assert first.folder == again.folder
    assert {job.run.dbms for job in again.members} == set(everyone)
    card = read_study_card(data / "raw/study=demo")
    assert (card.rounds, card.dbms) == (6, tuple(everyone))
