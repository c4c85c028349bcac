"""A run's result is what its own manifest says: failures are kept, shown and tried again, mixtures refused."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from child import small_disk as small_disk_at
from house import House
from live_study import ended

ROOM_BYTES = 2_000_000
LIMITED = ["prlimit", f"--fsize={ROOM_BYTES}"]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_study_is_measured_once_and_nothing_twice(house: House) -> None:
    code, words = house.run()
    assert code == 0
    assert "demo: 2 runs measured in " in words
    assert words.splitlines()[-1].endswith("next: rqps report demo")
    assert house.folders() == ["run=r01@my1.base", "run=r01@my2.base"]
    assert [state.state for state in house.states()] == ["done", "done"]
    folder = house.study / "run=r01@my1.base@here"
    assert sorted(path.name for path in folder.iterdir()) == ["asked.json", "logs", "manifest.json", "notebook.ipynb"]
    assert json.loads((folder / "notebook.ipynb").read_text())["cells"][-1]["execution_count"] == 7
    assert json.loads((house.study / "study.json").read_text())["question"] == "Does it hold?"

    noted = house.noted()
    code, words = house.run()
    assert (code, house.noted()) == (0, noted)
    assert "0 runs measured" in words
    assert "2 done already" in words

    house.ask(rounds=2)
    assert [state.state for state in house.states()] == ["done", "done", "missing", "missing"]


def test_a_further_occasion_of_rounds_one_after_the_other(house: House) -> None:
    assert house.run()[0] == 0
    code, words = house.run("--occasion")
    assert (code, "2 runs measured" in words) == (0, True)
    assert house.folders() == [f"run=r0{number}@my{build}.base" for number in (1, 2) for build in (1, 2)]


def test_a_study_is_set_aside_with_its_levels(house: House) -> None:
    assert house.run()[0] == 0
    (house.study / "levels.yaml").write_text("studies: {}\n")
    (level := house.study.with_name("study=demo-1")).mkdir()
    assert house.run("--archive")[0] == 0
    assert not level.exists()
    assert not (house.study / "levels.yaml").exists()


def test_a_run_of_another_program_than_before_ends_the_study_and_is_not_kept(house: House) -> None:
    """As a build that was rebuilt on another host, which no digest of this one tells."""
    assert house.run()[0] == 0
    before = house.folders()
    house.ask(rounds=2)
    house.script({"r2 my1.base": "rebuilt", "r2 my2.base": "rebuilt"})
    code, words = house.run()
    assert code == 1
    assert re.search(
        r"my[12] was rebuilt on here: its binary has sha256 b{12}, and had \w{12} in earlier runs", words
    )
    assert "demo --archive" in words
    assert house.folders() == before
    assert house.partials() == house.failures() == []


def test_the_order_of_steps_across_runs_with_a_failed_one(house: House) -> None:
    first, second = (house.name(state.run) for state in house.states())
    house.script({first: "raise"})
    assert house.run()[0] == 1
    assert house.noted() == [
        "setup 2",
        *(f"{what} {first}" for what in ("prepare", "run", "stopped", "cleanup")),
        *(f"{what} {second}" for what in ("prepare", "run", "stopped", "cleanup")),
    ]
    house.script({})
    house.log.unlink()
    assert [(state.state, state.attempts) for state in house.states()] == [("failed", 1), ("done", 0)]
    assert house.run()[0] == 0
    assert [(state.state, state.attempts) for state in house.states()] == [("done", 1), ("done", 0)]
    assert house.noted() == ["setup 1", *(f"{what} {first}" for what in ("prepare", "run", "stopped", "cleanup"))]


SAID = {
    "kill": "the notebook's kernel was killed by SIGKILL",
    "crash": "the notebook's kernel was killed by SIGSEGV",
    "raise": "ValueError: the third wheel came off",
    "refuse": "my.cnf: no such option",
    "dies at once": "the notebook's kernel ended with exit code 3",
    "nothing": "the notebook ended without a manifest",
    "garbage": "manifest.json: can't be read",
    "says failed": "my1 did not start",
    "other": "with identity another",
}
WHOLE = ("stumble", "kill late")
FAULTS = {f"r1 my{number}.base": fault for number, fault in enumerate((*SAID, *WHOLE), 1)}


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


def test_the_study_goes_on_after_failures_and_its_exit_code_says_so(story: Story) -> None:
    assert story.code == 1
    assert len([line for line in story.house.noted() if line.startswith("prepare")]) == len(FAULTS)
    assert story.words.splitlines()[-1].startswith("demo: 2 runs measured in ")
    assert story.words.splitlines()[-1].endswith(f", {len(SAID)} failed; next: rqps run demo")
    assert story.house.partials() == []
    assert "Traceback" not in story.words


@pytest.mark.parametrize(("fault", "text"), SAID.items())
def test_a_failure_is_reported_at_once_and_at_the_end_and_kept(story: Story, fault: str, text: str) -> None:
    failed = next(state for state in story.house.states() if FAULTS[story.house.name(state.run)] == fault)
    assert (failed.state, failed.attempts) == ("failed", 1)
    assert text in (failed.last_error or "")
    at_once, at_the_end = story.words.split("demo: ")[0].split("failed: ", 1)
    assert text in at_once
    assert text in at_the_end

    folder = story.house.study / f"failed/run={failed.run.run}.1"
    assert at_once.count(f"{folder}/logs\n") == at_the_end.count(f"{folder}/logs\n") == 1
    assert (folder / "logs").is_dir()
    assert (folder / "notebook.ipynb").is_file()
    record = json.loads((folder / "failure.json").read_text())
    assert (record["run"], text in record["error"]) == (failed.run.run, True)
    assert (folder / "manifest.json").exists() == (fault == "says failed")


def test_what_a_kernel_says_when_it_dies_is_shown(story: Story) -> None:
    assert "was killed by SIGSEGV before the notebook's end; its last words:\n" in story.words


def test_our_own_errors_are_shown_as_they_are(story: Story) -> None:
    assert "failed at point-query 1/1: my.cnf: no such option\n  what to do: leave it out" in story.words


def test_a_killed_kernels_keeper_is_waited_for_before_the_next_run(story: Story) -> None:
    noted = story.house.noted()
    killed = noted.index("run r1 my1.base")
    assert noted[killed + 1] == "stopped r1 my1.base"


@pytest.mark.parametrize("fault", WHOLE)
def test_a_run_with_a_whole_manifest_is_measured_whatever_papermill_says(story: Story, fault: str) -> None:
    name = next(run for run, of_run in FAULTS.items() if of_run == fault).replace("r1 ", "r01@") + "@here"
    assert f"{name} is measured; its notebook failed afterwards" in story.words
    assert (story.house.study / f"run={name}/manifest.json").is_file()


def test_a_folder_without_a_manifest_did_not_happen_and_is_not_lost(house: House) -> None:
    half = house.study / "run=r01@my1.base@here"
    half.mkdir(parents=True)
    (half / "steps.parquet").write_bytes(b"half")
    assert house.run()[0] == 0
    assert (half / "manifest.json").is_file()
    assert (house.study / "failed/run=r01@my1.base@here.1/steps.parquet").read_bytes() == b"half"


def test_changed_parameters_are_named_and_the_old_data_set_aside_on_request(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.ask(builds=1)
    assert house.run()[0] == 0
    before = {path: path.read_bytes() for path in house.study.rglob("*") if path.is_file()}
    house.ask(builds=1, rounds=2, seconds=2)
    assert [state.state for state in house.states()] == ["other", "missing"]

    code, words = house.run()
    assert code == 1
    assert "1 run was measured under other conditions than runs.yaml asks for now" in words
    assert "my1.base: parameters.seconds was 1, is now 2" in words
    assert "--archive" in words
    assert {path: path.read_bytes() for path in house.study.rglob("*") if path.is_file()} == before

    code, words = house.run("--archive")
    assert code == 0
    assert [state.state for state in house.states()] == ["done", "done"]
    old = next(house.study.parent.glob("study=demo.until-*"))
    assert {old / path.relative_to(house.study): text for path, text in before.items()} == {
        path: path.read_bytes() for path in old.rglob("*") if path.is_file()
    }


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A small file system for the data where we may mount one, else a limit on the size of a file."""
    with small_disk_at(tmp_path / "data", ROOM_BYTES) as is_small:
        yield {} if is_small else {"under": LIMITED}


def the_study_ends_in_order(house: House, fault: str, **popen: Any) -> None:
    house.script({house.name(house.states()[1].run): fault})
    words = ended(house.start(**popen), 1)
    assert "No space left on device" in words or "File too large" in words
    assert f"make room for {house.study}, then run the same command again" in words
    assert "Traceback" not in words
    assert house.partials() == []
    assert house.kernels() == []
    assert house.failures() == []
    assert [state.state for state in house.states()] == ["done", "missing"]


def test_while_tables_are_written_and_on_from_there(tmp_path: Path, small_disk: dict[str, Any]) -> None:
    house = House(tmp_path)
    the_study_ends_in_order(house, "fill", **small_disk)
    house.script({})
    ended(house.start(**small_disk), 0)
    assert [state.state for state in house.states()] == ["done", "done"]


def test_where_files_may_not_grow(tmp_path: Path) -> None:
    the_study_ends_in_order(House(tmp_path), "big", under=LIMITED)


def test_a_data_folder_that_cannot_be_made(tmp_path: Path) -> None:
    house = House(tmp_path)
    (tmp_path / "data").write_text("a file")
    code, words = house.run()
    assert code == 1
    assert "Traceback" not in words
    assert str(tmp_path / "data") in words


def test_a_run_whose_folder_is_removed_meanwhile_fails_for_that_reason_and_the_study_goes_on(house: House) -> None:
    house.script({house.first(): "vanish"})
    code, words = house.run()
    assert code == 1
    assert "failed at " in words
    assert "its folder was removed, or emptied, while it was measured" in words
    assert sorted(state.state for state in house.states()) == ["done", "failed"]
    house.script({})
    assert house.run()[0] == 0


def test_a_study_whose_folder_is_removed_meanwhile_ends_for_that_reason(house: House) -> None:
    house.script({house.first(): "vanish with all"})
    code, words = house.run()
    assert code == 1
    assert f"{house.study}: was removed or renamed while " in words
    assert "room" not in words
    assert house.partials() == []
    house.script({})
    assert house.run()[0] == 0
    assert [state.state for state in house.states()] == ["done", "done"]
