"""What goes to a host and comes back: whole or refused, and nothing counts twice."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from rqps.errors import RqpsError
from rqps.hosts.worker import RUNS, Result
from rqps.study import read_runs_file, unfold
from rqps.workloads import PARAMETERS
from synthetic import Shape, manifest, write_run

ROOT = Path(__file__).parent.parent
RUNS_FILE = read_runs_file(ROOT / "runs.yaml", PARAMETERS)


@pytest.mark.parametrize("study", RUNS_FILE.studies)
def test_every_run_of_runs_yaml_is_the_same_at_its_host(study: str) -> None:
    """Runs go as text, so that whatever a parameter is, there is nothing that can't be pickled."""
    runs = unfold(RUNS_FILE, study, "far")
    existing = RUNS.validate_json(RUNS.dump_json(tuple(runs)), context=PARAMETERS)
    assert [member.identity for run in existing for member in run.members] == [
        member.identity for run in runs for member in run.members
    ]
    assert existing == tuple(runs)


def test_an_error_of_a_host_keeps_what_to_do() -> None:
    error = pickle.loads(pickle.dumps(RqpsError("no room", fix="make room there")))
    assert (error.message, error.fix) == ("no room", "make room there")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """The folder of a run at its host."""
    return write_run(tmp_path / "there", manifest("my1.base", 1), Shape())


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_result_that_arrives_twice_is_there_once(remote: Path, tmp_path: Path) -> None:
    result = pickle.loads(pickle.dumps(Result.of(remote, None)))
    for _ in range(2):
        result.write(tmp_path / "here")
    assert files(tmp_path / "here") == files(remote)
    assert "manifest.json" in files(remote)


def test_bytes_that_changed_on_their_way_are_refused(remote: Path, tmp_path: Path) -> None:
    result = Result.of(remote, None)
    modified_ns, content = result.files["steps.parquet"]
    changed = {**result.files, "steps.parquet": (modified_ns, content[:-1] + bytes([content[-1] ^ 1]))}
    with pytest.raises(RqpsError, match="differ from those that the worker sent"):
        replace(result, files=changed).write(tmp_path / "here")
    with pytest.raises(RqpsError, match="differ from those that the worker sent"):
        replace(result, files={"steps.parquet": result.files["steps.parquet"]}).write(tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_host_writes_nothing_outside_of_the_folder_of_its_run(tmp_path: Path) -> None:
    evil = {"../outside": (0, b"x")}
    with pytest.raises(RqpsError, match="outside of the run's folder"):
        Result(evil, Result.digest_of(evil), None).write(tmp_path / "here")
    assert not (tmp_path / "outside").exists()
