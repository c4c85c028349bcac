"""A study of duets as it is run: its rounds are units, only what is missing of them is measured, mixtures refused."""

import re
import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest
import rqps
from house import House, end
from rqps.errors import RqpsError
from rqps.measure import job
from rqps.overview import plan_text, status_text, under_way_text
from rqps.schedule.state import StudyFolder, refuse_mixture
from rqps.schedule.watch import Watcher
from rqps.store import read_manifest, write_manifest


@pytest.fixture
def house(tmp_path: Path) -> House:
    return asked(tmp_path)


def asked(path: Path) -> House:
    house = House(path)
    house.ask(rounds=2, method="duet")
    return house


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[House, str]:
    """A study that was measured, and what was said meanwhile."""
    house = asked(tmp_path_factory.mktemp("house"))
    code, words = house.run()
    assert code == 0
    return house, words


@pytest.fixture
def measured(story: tuple[House, str], house: House) -> House:
    """The same again, to change."""
    shutil.copytree(story[0].study, house.study)
    return house


def units(house: House) -> list[str]:
    """The units in their order, each with those that take part, and its state."""
    return [
        f"{state.run.unit.removesuffix('@here')} {' '.join(sorted(member.build for member in state.run.members))}: "
        f"{state.state}"
        for state in house.states()
    ]


def test_a_round_is_one_unit_with_a_folder_for_each_dbms(story: tuple[House, str]) -> None:
    house, words = story
    assert "demo: 2 runs measured in " in words
    assert "round 1 of 2: 2 dbms in turns  measured in" in words
    assert house.folders() == ["run=r01", "run=r02"]
    assert {path.parent.name for path in house.study.glob("run=*/*/manifest.json")} == {"my1.base", "my2.base"}
    code, words = house.run()
    assert (code, "0 runs measured" in words, "2 done already" in words) == (0, True, True)


def test_a_further_dbms_and_further_rounds_are_all_that_is_measured_later(measured: House) -> None:
    house = measured
    house.ask(rounds=2, builds=3, method="duet")
    existing = ["r01 my1 my2: done", "r02 my1 my2: done"]
    assert units(house) == [*existing, "r03 my1 my3: missing", "r04 my1 my3: missing"]
    house.run()
    house.ask(rounds=3, builds=3, method="duet")
    existing += ["r03 my1 my3: done", "r04 my1 my3: done"]
    assert units(house) == [*existing, "r05 my1 my2 my3: missing"]
    house.ask(rounds=4, builds=2, method="duet")
    further = ["r05 my1 my1 my2: missing", "r06 my1 my1 my2: missing"]
    assert units(house) == [*existing[:2], *further]


def test_a_unit_is_done_when_its_folder_is_whole(measured: House) -> None:
    house = measured
    (house.study / "run=r01@here/my2.base/manifest.json").unlink()
    assert units(house) == ["r01 my1 my2: missing", "r02 my1 my2: done"]
    assert house.run()[0] == 0
    assert units(house) == ["r01 my1 my2: done", "r02 my1 my2: done"]
    assert house.failures() == ["run=r01.1"]


def test_what_is_said_of_units_is_plain(house: House) -> None:
    house.ask(rounds=4, builds=3, method="duet", seconds=30)
    states = house.states()
    plan = plan_text(states, {"my1": "there", "my2": "there", "my3": "there"})
    assert "3 dbms in turns × 4 rounds = 4 runs on here; base is my1.base" in plan
    assert "\n  round 1   my" in plan
    assert "my1.base.again" in plan
    # Each dbms and the twin are under load for their own 30 seconds, and each round takes its time: 4 rounds of 4.
    assert "about 8 min 40 s for the runs that are not done, 8 min 0 s of it under load" in plan
    assert "r01@here  missing: 3 dbms and a twin in turns\n" in status_text(states)
    house.ask(rounds=2, method="duet")
    house.script({"r01": "raise"})
    code, words = house.run()
    assert code == 1
    assert "round 1 with 2 dbms in turns failed at point-query 1/1: ValueError: the third wheel came off" in words
    assert "failed once: ValueError" in status_text(house.states())


def test_rounds_one_after_the_other_and_in_turns_are_not_mixed(measured: House) -> None:
    house = measured
    house.ask(rounds=2)
    code, words = house.run()
    assert code == 1
    assert "4 runs were measured under other conditions" in words
    assert "my1.base: method: was measured in turns, is now one after the other" in words


def test_servers_that_have_no_room_at_once_are_refused_before_anything_starts(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_yaml = house.path / "runs.yaml"
    text = runs_yaml.read_text()
    runs_yaml.write_text(text.replace("max_connections: 100", "max_connections: 100, innodb_buffer_pool_size: 1G"))

    class Small:
        available = 2_900_000_000

    monkeypatch.setattr("psutil.virtual_memory", Small)
    with pytest.raises(RqpsError) as refused:
        job.make_ready([state.run for state in house.states()], print)
    assert "demo: 2 servers at once take about 3.0 GB of memory, and 2.9 GB are available here" in str(refused.value)
    assert "write `method: rounds` in runs.yaml" in refused.value.fix
    Small.available = 3_000_000_000
    job.refuse_without_memory([state.run for state in house.states()])
    runs_yaml.write_text(text)
    Small.available = 1_200_000_000  # the usual buffer pool, and what is beside it
    job.refuse_without_memory([state.run for state in house.states()])


def test_a_further_occasion_is_measured_now_beside_those_before(measured: House) -> None:
    house = measured
    code, words = house.run("--occasion")
    assert (code, "demo: occasion 2 of 2" in words, "2 runs measured" in words) == (0, True, True)
    assert house.folders() == ["run=r01", "run=r02", "run=r03", "run=r04"]
    study = rqps.load("demo", data=house.path / "data")
    assert study.runs.group_by("occasion").agg("round").sort("occasion")["round"].list.unique().to_list() == [
        [1, 2],
        [3, 4],
    ]
    assert house.run()[1].count("4 done already") == 1


def test_planned_occasions_are_apart_and_waiting_can_be_stopped(measured: House) -> None:
    house = measured
    house.ask(rounds=2, method="duet", more="\n    occasions: 2\n    apart: 1h")
    process = house.start()
    house.until(lambda: "occasion 2 begins at" in under_way_text(house.path / "data"))
    code, words = end(process, signal.SIGINT)
    assert (code, "occasion 2 begins at" in words) == (128 + signal.SIGINT, True)
    house.ask(rounds=2, method="duet", more="\n    occasions: 2\n    apart: 1s")
    assert house.run()[0] == 0
    assert house.folders() == ["run=r01", "run=r02", "run=r03", "run=r04"]


def test_a_study_with_a_budget_waits_for_its_next_occasion_also_when_it_is_started_again(measured: House) -> None:
    house = measured
    house.ask(rounds=2, method="duet", more="\n    occasions: 2\n    apart: 1h\n    budget: 10m")
    process = house.start()
    house.until(lambda: "occasion 2 begins at" in under_way_text(house.path / "data"))
    assert end(process, signal.SIGINT)[0] == 128 + signal.SIGINT
    assert house.folders() == ["run=r01", "run=r02"]


def test_a_wait_is_no_part_of_the_time_that_measuring_took(measured: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house = measured
    monkeypatch.setattr(Watcher, "waited_s", property(lambda _: 7200.0, lambda *_: None), raising=False)
    _, words = house.run("--occasion")
    assert re.search(r"2 runs measured in \d+ s", words)


def test_a_folder_that_jupyterlab_makes_is_no_server_of_a_duet(measured: House) -> None:
    (measured.study / "run=r01@here/.ipynb_checkpoints").mkdir()
    assert [round_ for _, round_ in StudyFolder(measured.study).measured("here").duets] == [1, 2]


def test_a_run_for_stacks_can_be_added_by_hand_to_duets(measured: House) -> None:
    measured.ask(rounds=2, method="duet", more="\n    stacks_rounds: 1")
    of_stacks = [state.run for state in measured.states() if state.run.mode == "stacks"]
    assert of_stacks
    refuse_mixture(StudyFolder(measured.study), of_stacks)


def test_an_occasion_that_ended_in_the_future_delays_the_next_one_by_no_more_than_planned(measured: House) -> None:
    """The clock was a day ahead while the first occasion was measured, and has been set back since."""
    house = measured
    for folder in {file.parent for file in house.study.rglob("manifest.json")}:
        facts = read_manifest(folder)
        write_manifest(folder, facts.model_copy(update={"ended_at": facts.ended_at + timedelta(days=1)}))
    house.ask(rounds=2, method="duet", more="\n    occasions: 2\n    apart: 1s")
    assert house.run()[0] == 0
    assert house.folders() == ["run=r01", "run=r02", "run=r03", "run=r04"]
