"""What was measured under other conditions is never added to."""

from pathlib import Path

from house import House


def test_changed_parameters_are_named_and_the_old_data_set_aside_on_request(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.ask(builds=1)
    assert house.run()[0] == 0
    before = {path: path.read_bytes() for path in house.study.rglob("*") if path.is_file()}
    house.ask(builds=1, rounds=2, seconds=2)
    assert [each.state for each in house.states()] == ["other", "missing"]

    code, words = house.run()
    assert code == 1
    assert "1 run was measured under other conditions than runs.yaml asks for now" in words
    assert "my1.base: parameters.seconds was 1, is now 2" in words
    assert "--archive" in words
    assert {path: path.read_bytes() for path in house.study.rglob("*") if path.is_file()} == before

    code, words = house.run("--archive")
    assert code == 0
    assert [each.state for each in house.states()] == ["done", "done"]
    old = next(house.study.parent.glob("study=demo.until-*"))
    assert {old / path.relative_to(house.study): text for path, text in before.items()} == {
        path: path.read_bytes() for path in old.rglob("*") if path.is_file()
    }

    code, words = house.run("--archive")  # of the same conditions, to measure them again
    assert code == 0
    assert "2 runs measured" in words
    assert len(list(house.study.parent.iterdir())) == 3
