"""Finding Valgrind and perf: the machine's own if whole, else one of ours, else an error that says what to do."""

import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from child import until
from releases import everything_but
from rqps.engines.mysql import engine
from rqps.engines.sources import debian, programs
from rqps.errors import RqpsError
from rqps.measure.callgrind import Callgrind

HIDDEN = ("valgrind", "valgrind.bin", "vgdb")


@pytest.mark.live
def test_a_fetched_valgrind_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", everything_but(HIDDEN, tmp_path))
    assert shutil.which("valgrind") is None
    tool = programs.valgrind()
    assert tool.argv[0].startswith(str(debian.place("valgrind", None, alone=True)))
    (tmp_path / "counted").mkdir()
    callgrind = Callgrind(tool, tmp_path / "counted", tmp_path / "valgrind.log", engine.counted)
    environment = {"PATH": "/usr/bin:/bin", **tool.environment}
    options = ("--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={tmp_path}/counted/callgrind.out")
    prefix = f"--vgdb-prefix={tmp_path}/counted/vgdb"
    sleeper = subprocess.Popen(
        [*tool.argv, *options, prefix, "/bin/sleep", "600"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: list((tmp_path / "counted").glob("vgdb*")) or sleeper.poll() is not None)
        assert sleeper.poll() is None
        callgrind.begin(sleeper.pid)
        callgrind.end(sleeper.pid)  # an error where the counts do not add up
    finally:
        sleeper.kill()
        sleeper.wait()


def test_no_valgrind_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", everything_but((*HIDDEN, "apt-get"), tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RqpsError, match="valgrind is missing here, and fetching it failed: apt-get is not ins") as e:
        programs.valgrind()
    assert "install Valgrind (apt install valgrind)" in e.value.fix


def test_a_valgrind_without_callgrind_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", everything_but((*HIDDEN, "apt-get"), tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    for name in ("valgrind", "vgdb"):
        (tmp_path / name).write_text("#!/bin/sh\necho valgrind-3.19.0\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(RqpsError, match="valgrind is missing here"):
        programs.valgrind()


def test_only_the_function_that_receives_a_command_switches_counting_on() -> None:
    """Not the parts that a compiler split off: they would switch counting off again in the middle."""
    pattern = engine.counted.function
    for taken in ("THD*, COM_DATA const*, enum_server_command", "enum_server_command, THD*"):
        named = f"dispatch_command({taken})"
        assert fnmatchcase(named, pattern)
        assert not fnmatchcase(f"{named} [clone .cold]", pattern)
    assert not fnmatchcase("do_command(THD*)", pattern)


def test_no_perf_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RqpsError, match="linux-perf is missing here, and fetching it failed") as caught:
        programs.perf()
    assert "install perf and try again: linux-perf on Debian" in caught.value.fix


def test_a_perf_that_only_says_what_to_install_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ubuntu's, where there is none for the running kernel."""
    (tmp_path / "perf").write_text("#!/bin/sh\necho WARNING: perf not found for kernel 6.8.0-31 >&2; exit 2\n")
    (tmp_path / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RqpsError, match="linux-perf is missing here"):
        programs.perf()
