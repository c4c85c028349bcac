"""A full disk ends the study with a clear message; what was measured before is whole."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House

ROOM_BYTES = 2_000_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A small file system for the data where we may mount one, else a limit on the size of a file."""
    data = tmp_path / "data"
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "none", str(data)]
    if os.geteuid() == 0 and subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0:
        yield {}
        subprocess.run(["umount", str(data)], check=True)
    else:
        yield {"preexec_fn": limited_files}


def limited_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))


def the_study_ends_in_order(house: House, fault: str, **popen: Any) -> None:
    house.script({house.name(house.states()[1].run): fault})
    code, words = house.run(**popen)
    assert code == 1
    assert "No space left on device" in words or "File too large" in words
    assert f"make room for {house.study}, then run the same command again" in words
    assert "Traceback" not in words
    assert house.partials() == []
    assert house.kernels() == []
    assert house.failures() == []
    assert [each.state for each in house.states()] == ["done", "missing"]


def test_while_tables_are_written_and_on_from_there(tmp_path: Path, small_disk: dict[str, Any]) -> None:
    house = House(tmp_path)
    the_study_ends_in_order(house, "fill", **small_disk)
    house.script({})
    assert house.run(**small_disk)[0] == 0
    assert [each.state for each in house.states()] == ["done", "done"]


def test_while_the_notebook_is_written(tmp_path: Path, small_disk: dict[str, Any]) -> None:
    the_study_ends_in_order(House(tmp_path), "big", **small_disk)


def test_where_files_may_not_grow(tmp_path: Path) -> None:
    the_study_ends_in_order(House(tmp_path), "big", preexec_fn=limited_files)


def test_a_data_folder_that_cannot_be_made(tmp_path: Path) -> None:
    house = House(tmp_path)
    (tmp_path / "data").write_text("a file")
    code, words = house.run()
    assert code == 1
    assert "Traceback" not in words
    assert str(tmp_path / "data") in words
