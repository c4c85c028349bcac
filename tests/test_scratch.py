"""Folders for a while: private, gone with their block, and swept by the next one when nobody uses them any more."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from child import Child, small_disk
from rqps import keeper, scratch
from rqps.engines.cache import copy_folder, made_once
from rqps.errors import RqpsError
from rqps.scratch import IN_USE, PREFIX, Scratch, replacing, sweep

ROOM_BYTES = 1_000_000


def owner(base: Path) -> str:
    return f"""
    from pathlib import Path
    from rqps.scratch import Scratch
    with Scratch(Path({str(base)!r})) as folder:
        turn(folder)
    turn()
    """


def test_it_is_private_and_goes_with_its_block(tmp_path: Path) -> None:
    with Scratch(tmp_path) as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "mysqld.sock").touch()
    assert list(tmp_path.iterdir()) == []


def test_what_the_living_use_stays_and_what_the_dead_left_goes(tmp_path: Path) -> None:
    with Child(owner(tmp_path)) as living, Child(owner(tmp_path)) as killed:
        killed.kill()
        assert Path(killed.said).is_dir()
        with Scratch(tmp_path):
            assert Path(living.said).is_dir()
            assert not Path(killed.said).exists()


def test_a_keeper_uses_the_folders_that_it_will_remove(tmp_path: Path) -> None:
    """When its owner was killed, its server still needs them to stop in order."""
    folder = Scratch(tmp_path)
    command = keeper.command("guard", ["/bin/sleep", "600"], cpus=(), scratch=(str(folder.path),))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    os.close(folder._lock)
    sweep(tmp_path)
    assert folder.path.is_dir()
    process.communicate()
    assert not folder.path.exists()
    assert keeper.IN_USE == IN_USE


def test_a_folder_without_a_lock_is_left_to_its_maker_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made := tmp_path / f"{PREFIX}just-now").mkdir()
    (other := tmp_path / "somebody-elses").mkdir()
    sweep(tmp_path)
    assert made.is_dir()
    monkeypatch.setattr(scratch, "YOUNG_S", 0)
    sweep(tmp_path)
    assert (made.exists(), other.exists()) == (False, True)


def test_a_folder_whose_sockets_would_have_too_long_a_path_says_what_to_set(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    with pytest.raises(RqpsError, match="a socket's path may have 107 characters") as caught:
        Scratch(long).socket("mysqld.sock")
    assert "TMPDIR" in caught.value.fix
    assert list(long.iterdir()) == []


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_takes_the_place_of_another(
    can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:  # as where a folder is on NFS
        monkeypatch.setattr(scratch, "_exchanged", lambda *_: False)
    for text in ("one", "two", "three"):
        with replacing(tmp_path / "old") as new:
            new.mkdir()
            (new / text).touch()
        assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["old", f"old/{text}"]


def test_what_a_killed_command_was_making_is_swept_and_nobody_else_works_in_it(tmp_path: Path) -> None:
    """Its server may still write there."""
    made = tmp_path / "made"
    script = f"""
    from pathlib import Path
    from rqps.engines.cache import made_once
    made_once(Path({str(made)!r}), turn)
    """
    with Child(script) as killed:
        killed.kill()
    before = Path(killed.said)
    used: list[Path] = []
    made_once(made, used.append)  # in a folder of its own
    assert used != [before]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".made.lock", "made"]


def test_a_copy_that_finds_no_room_says_so_once_and_names_its_own_disk(tmp_path: Path) -> None:
    source, disk = tmp_path / "data", tmp_path / "scratch"
    source.mkdir()
    for number in range(20):
        (source / f"{number}.ibd").write_bytes(os.urandom(ROOM_BYTES // 10))
    with small_disk(disk, ROOM_BYTES) as is_small, pytest.raises(RqpsError) as caught:
        copy_folder(source, disk / "copy" if is_small else disk / "no/such/copy", "RQPS_SCRATCH")
    assert len(caught.value.message.splitlines()) == 1
    assert "No space left on device" in caught.value.message or not is_small
    assert f"the disk of {disk}" in caught.value.fix
    assert "RQPS_SCRATCH" in caught.value.fix


def test_a_folder_is_copied_whatever_path_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "one").mkdir()
    (tmp_path / "one/file").write_text("content")
    copy_folder(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "other/file").read_text() == "content"
