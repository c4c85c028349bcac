"""What was measured under other conditions is never added to."""

from pathlib import Path

from house import House


def test_changed_parameters_are_named_and_the_old_data_set_aside_on_request(tmp_path: Path) -> None:
    house = House(tmp_path)
    assert house.run()[0] == 0
    before = {path: path.read_bytes() for path in house.study.rglob("*") if path.is_file()}
    house.ask(rounds=2, seconds=2)
    assert [each.state for each in house.states()] == ["other", "other", "missing", "missing"]

    code, words = house.run()
    assert code == 1
    assert "2 runs were measured under other conditions than runs.yaml asks for now" in words
    assert "my2.base: parameters.seconds was 1, is now 2" in words
    assert "--archive" in words
    assert {path: path.read_bytes() for path in house.study.rglob("*") if path.is_file()} == before

    code, words = house.run("--archive")
    assert code == 0
    assert [each.state for each in house.states()] == ["done"] * 4
    old = next(house.study.parent.glob("study=demo.until-*"))
    assert {old / path.relative_to(house.study): text for path, text in before.items()} == {
        path: path.read_bytes() for path in old.rglob("*") if path.is_file()
    }


def test_archive_leaves_data_of_the_same_conditions_where_it_is(tmp_path: Path) -> None:
    house = House(tmp_path)
    assert house.run()[0] == 0
    code, words = house.run("--archive")
    assert code == 0
    assert "2 there already" in words
    assert [path.name for path in house.study.parent.iterdir()] == ["study=demo"]
