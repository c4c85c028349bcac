"""A run's notebook by hand: papermill with parameters measures one run on a real server and stores it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import polars as pl
import pytest
import rqps
from rqps.errors import RqpsError
from rqps.notebook import is_alive, listed
from rqps.schedule import one_run, run_folder
from rqps.store import read_study_card
from rqps.store.manifest import MANIFEST

pytestmark = pytest.mark.live
ROOT = Path(__file__).parent.parent
STEPS = '["point-query"]'


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("RQPS_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def by_hand(out: Path, *parameters: str, notebook: str = "sysbench") -> "subprocess.CompletedProcess[str]":
    """Executes the notebook as a person does, from the checkout."""
    words = [
        word for name, value in zip(parameters[::2], parameters[1::2], strict=True) for word in ("-p", name, value)
    ]
    papermill = [sys.executable, "-m", "papermill", f"notebooks/run/{notebook}.ipynb", str(out), *words]
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
        "my8033.nothing: runs.yaml has no config 'nothing'": ("sysbench", "demo", "my8033.nothing"),
        "can't be measured by hand": ("sysbench", "demo", "my8033.ps0", 1, "health"),
        "has no run of": ("sysbench", "demo", ["my5624.common", "my8033.ps0"], 1, "stacks"),
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


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("notebook", "dbms", "parameters"),
    [
        ("point-lookups", "my8033.common", {"kinds": '["pk"]', "table_rows": "1000", "clients": "[1]"}),
        ("insert-benchmark", "my8033.common", {"steps": '["l.i0"]', "load_rows": "20000", "seconds": "1"}),
        ("db-bench", "rx993.c8r32-small", {"steps": '["fillseq", "readrandom"]', "keys": "20000", "seconds": "1"}),
    ],
)
def test_each_workload_is_measured_by_hand(
    data: Path, tmp_path: Path, notebook: str, dbms: str, parameters: dict[str, str]
) -> None:
    words = [word for pair in parameters.items() for word in pair]
    done = by_hand(tmp_path / "out.ipynb", "dbms", dbms, *words, notebook=notebook)
    assert done.returncode == 0, done.stderr[-2000:]
    [folder] = (data / "raw").iterdir()
    study = rqps.load(folder.name.removeprefix("study="), data)
    assert study.runs["dbms"].to_list() == [dbms]
    assert study.steps.filter(pl.col("operations") > 0).height >= 1
    assert not list(folder.glob(".*"))


MEASURE = """
from rqps.schedule import one_run
one_run.measure(one_run.job_of("sysbench", "demo", "my8033.ps0", steps=["point-query"], seconds=60))
"""


@contextmanager
def at_work(data: Path) -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """A process that measures a run by hand, and the run's hidden folder, once its step is under load."""
    process = subprocess.Popen([sys.executable, "-c", MEASURE], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        while not [note for note in data.rglob("progress.txt") if "point-query" in note.read_text()]:
            assert process.poll() is None, process.communicate()[1][-2000:]
            time.sleep(0.1)
        [note] = data.rglob("progress.txt")
        yield process, note.parent
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_stops_the_server_and_leaves_nothing_half_done(data: Path) -> None:
    with at_work(data) as (process, partial):
        servers = listed(partial / "pids.txt")
        assert servers
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate()[1]
        assert not partial.exists()
    assert not any(map(is_alive, servers))


def test_a_killed_run_ends_its_server_and_the_next_run_clears_it_away(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_work(data) as (process, partial):
        servers = listed(partial / "pids.txt")
        assert servers
        process.kill()
    monkeypatch.chdir(ROOT)
    asked = {"steps": ["point-query"], "seconds": 1}
    first = one_run.job_of("sysbench", "demo", "my8033.ps0", **asked)  # type: ignore[arg-type]
    run_folder.remove(first.folder)
    for server in servers:
        server.wait(60)
    assert not any(map(is_alive, servers))


def test_a_busy_host_refuses_and_a_run_without_its_manifest_is_not_published(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    asked = {"steps": ["point-query"], "seconds": 1}
    with run_folder.measuring("another"), pytest.raises(RqpsError, match="is measuring on this host"):
        one_run.job_of("sysbench", "demo", "my8033.ps0", **asked)  # type: ignore[arg-type]
    job = one_run.job_of("sysbench", "demo", "my8033.ps0", **asked)  # type: ignore[arg-type]
    with run_folder.measuring("another"), pytest.raises(RqpsError, match="is measuring on this host"):
        one_run.measure(job)
    assert not job.folder.exists()
    job = one_run.job_of("sysbench", "demo", "my8033.ps0", **asked)  # type: ignore[arg-type]
    monkeypatch.setattr(one_run, "measure_into_folder", lambda _: None)
    with pytest.raises(RqpsError, match="ended without a manifest"):
        one_run.measure(job)
    [failure] = (data / "raw").rglob("failure.json")
    assert "manifest" in json.loads(failure.read_text())["error"]
    assert not list((data / "raw").rglob(MANIFEST))
