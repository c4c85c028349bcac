"""What a run comes to is what its own manifest says; what fails is kept, told, and tried again."""

import json
from dataclasses import dataclass
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
    first, second = (house.name(each.run) for each in house.states())
    house.script({first: "raise"})
    assert house.run()[0] == 1
    assert house.told() == [
        "setup 2",
        *(f"{what} {first}" for what in ("prepare", "run", "stopped", "cleanup")),
        *(f"{what} {second}" for what in ("prepare", "run", "stopped", "cleanup")),
    ]
    house.script({})
    house.log.unlink()
    assert [(each.state, each.attempts) for each in house.states()] == [("failed", 1), ("done", 0)]
    assert house.run()[0] == 0
    assert [(each.state, each.attempts) for each in house.states()] == [("done", 1), ("done", 0)]
    assert house.told() == ["setup 1", *(f"{what} {first}" for what in ("prepare", "run", "stopped", "cleanup"))]


FAULTS = {
    "r1 my1.base": "kill",
    "r1 my2.base": "raise",
    "r1 my3.base": "refuse",
    "r1 my4.base": "dies at once",
    "r1 my5.base": "nothing",
    "r1 my6.base": "garbage",
    "r1 my7.base": "says failed",
    "r1 my8.base": "other",
    "r1 my9.base": "stumble",
    "r1 my10.base": "kill late",
}
SAID = {
    "kill": "the notebook's kernel was killed by SIGKILL",
    "raise": "ValueError: the third wheel came off",
    "refuse": "my.cnf: no such option",
    "dies at once": "the notebook's kernel ended with exit code 3",
    "nothing": "the notebook ended without having written a manifest",
    "garbage": "manifest.json: can't be read",
    "says failed": "my1 did not start",
    "other": "with identity another",
}
WHOLE = ("r1 my9.base", "r1 my10.base")


@dataclass
class Story:
    house: House
    code: int
    words: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A study in which every run goes wrong in another way."""
    house = House(tmp_path_factory.mktemp("house"))
    house.ask(builds=len(FAULTS))
    house.script(FAULTS)
    return Story(house, *house.run())


def test_the_study_goes_on_after_failures_and_its_exit_code_tells(story: Story) -> None:
    assert story.code == 1
    assert len([line for line in story.house.told() if line.startswith("prepare")]) == len(FAULTS)
    assert story.words.splitlines()[-1].startswith("demo: 2 runs measured in ")
    assert story.words.splitlines()[-1].endswith(", 8 failed; next: rqps run demo")
    assert story.house.partials() == []
    assert "Traceback" not in story.words


@pytest.mark.parametrize(("fault", "said"), SAID.items())
def test_a_failure_is_told_at_once_and_at_the_end_and_kept(story: Story, fault: str, said: str) -> None:
    failed = next(each for each in story.house.states() if FAULTS[story.house.name(each.run)] == fault)
    assert (failed.state, failed.attempts) == ("failed", 1)
    assert failed.last_error is not None
    assert said in failed.last_error
    at_once, at_the_end = story.words.split("demo: ")[0].split("failed: ", 1)
    assert said in at_once
    assert said in at_the_end

    folder = story.house.study / f"failed/run={failed.run.run}.1"
    assert at_once.count(f"{folder}/logs\n") == at_the_end.count(f"{folder}/logs\n") == 1
    assert (folder / "logs").is_dir()
    assert (folder / "notebook.ipynb").is_file()
    record = json.loads((folder / "failure.json").read_text())
    assert (record["run"], said in record["error"]) == (failed.run.run, True)
    assert (folder / "manifest.json").exists() == (fault == "says failed")


def test_our_own_errors_are_told_as_they_are(story: Story) -> None:
    assert "failed at point-query 1/1: my.cnf: no such option\n  what to do: leave it out" in story.words


def test_a_killed_kernels_keeper_is_waited_for_before_the_next_run(story: Story) -> None:
    told = story.house.told()
    killed = told.index("run r1 my1.base")
    assert told[killed + 1] == "stopped r1 my1.base"


@pytest.mark.parametrize("run", WHOLE)
def test_a_run_with_a_whole_manifest_is_measured_whatever_papermill_says(story: Story, run: str) -> None:
    name = run.replace("r1 ", "r01@") + "@here"
    assert f"{name} is measured; its notebook failed afterwards" in story.words
    assert (story.house.study / f"run={name}/manifest.json").is_file()


def test_a_folder_without_a_manifest_did_not_happen_and_is_not_lost(house: House) -> None:
    half = house.study / "run=r01@my1.base@here"
    half.mkdir(parents=True)
    (half / "steps.parquet").write_bytes(b"half")
    assert house.run()[0] == 0
    assert (half / "manifest.json").is_file()
    assert (house.study / "failed/run=r01@my1.base@here.1/steps.parquet").read_bytes() == b"half"
