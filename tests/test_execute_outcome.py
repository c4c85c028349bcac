"""What a run comes to is what its own manifest says; what fails is kept, told, and tried again."""

import json
from pathlib import Path

import pytest
from house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_study_is_measured_once_and_nothing_twice(house: House) -> None:
    code, words = house.run()
    assert code == 0
    assert "demo: 2 runs measured in " in words
    assert words.splitlines()[-1].endswith("next: rqps report demo")
    assert house.folders() == ["run=r01@my1.base", "run=r01@my2.base"]
    assert [each.state for each in house.states()] == ["done", "done"]
    folder = house.study / "run=r01@my1.base@here"
    assert sorted(path.name for path in folder.iterdir()) == ["asked.json", "logs", "manifest.json", "notebook.ipynb"]
    assert json.loads((folder / "notebook.ipynb").read_text())["cells"][-1]["execution_count"] == 7
    assert json.loads((house.study / "study.json").read_text())["question"] == "Does it hold?"

    told = house.told()
    code, words = house.run()
    assert (code, house.told()) == (0, told)
    assert "0 runs measured" in words
    assert "2 there already" in words

    house.ask(rounds=2)
    assert [each.state for each in house.states()] == ["done", "done", "missing", "missing"]


def test_the_order_of_steps_across_runs_with_a_failed_one(house: House) -> None:
    first, second = (f"r{each.run.round} {each.run.dbms}" for each in house.states())
    house.script({first: "raise"})
    assert house.run()[0] == 1
    assert house.told() == [
        "setup 2",
        *(f"{what} {first}" for what in ("prepare", "run", "stopped", "cleanup")),
        *(f"{what} {second}" for what in ("prepare", "run", "stopped", "cleanup")),
    ]
    house.script({})
    house.log.unlink()
    assert house.run()[0] == 0
    assert house.told() == ["setup 1", *(f"{what} {first}" for what in ("prepare", "run", "stopped", "cleanup"))]


def test_a_run_whose_kernel_is_killed_leaves_its_keeper_time_before_the_next_begins(house: House) -> None:
    first, second = (f"r{each.run.round} {each.run.dbms}" for each in house.states())
    house.script({first: "kill"})
    code, words = house.run()
    assert code == 1
    assert "the notebook's kernel was killed by SIGKILL" in words
    told = house.told()
    assert told.index(f"stopped {first}") < told.index(f"prepare {second}")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", "ValueError: the third wheel came off"),
        ("refuse", "failed at point-query 1/1: my.cnf: no such option\n  what to do: leave it out"),
        ("dies at once", "the notebook's kernel ended with exit code 3"),
        ("nothing", "the notebook ended without having written a manifest"),
        ("garbage", "manifest.json: can't be read"),
        ("says failed", "my1 did not start"),
        ("other", "with identity another"),
    ],
)
def test_a_failure_is_told_kept_and_tried_again(house: House, fault: str, said: str) -> None:
    first = house.first()
    house.script({first: fault})
    code, words = house.run()
    assert code == 1
    assert words.count(said) >= 1
    assert words.count(said.splitlines()[0]) >= 2 or fault == "refuse"  # at once, and again at the end
    assert "Traceback" not in words
    assert words.splitlines()[-1].endswith("1 failed; next: rqps run demo")

    failed = next(each for each in house.states() if each.state == "failed")
    assert (failed.attempts, failed.run.position) == (1, 0)
    assert failed.last_error is not None
    folder = next((house.study / "failed").iterdir())
    assert str(folder / "logs") in words
    assert (folder / "logs").is_dir()
    assert (folder / "notebook.ipynb").is_file()
    assert json.loads((folder / "failure.json").read_text())["run"] == failed.run.run
    assert (folder / "manifest.json").exists() == (fault == "says failed")
    assert house.partials() == []

    house.script({})
    assert house.run()[0] == 0
    assert [(each.state, each.attempts) for each in house.states()] == [("done", 1), ("done", 0)]


@pytest.mark.parametrize("fault", ["stumble", "kill late"])
def test_a_run_with_a_whole_manifest_is_measured_whatever_papermill_says(house: House, fault: str) -> None:
    house.script({house.first(): fault})
    code, words = house.run()
    assert code == 0
    assert "is measured; its notebook failed afterwards" in words
    assert [each.state for each in house.states()] == ["done", "done"]


def test_a_folder_without_a_manifest_did_not_happen_and_is_not_lost(house: House) -> None:
    half = house.study / "run=r01@my1.base@here"
    half.mkdir(parents=True)
    (half / "steps.parquet").write_bytes(b"half")
    assert house.run()[0] == 0
    assert (half / "manifest.json").is_file()
    assert (house.study / "failed/run=r01@my1.base@here.1/steps.parquet").read_bytes() == b"half"
