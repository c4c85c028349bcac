"""Ctrl-C and its kin at any moment: nothing is left running, nothing half-done stays, nothing earlier is lost."""

import fcntl
import json
import os
import pty
import pwd
import re
import signal
import socket
import stat
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from child import Child, next_of
from house import House, end
from live_study import ended
from rqps.schedule.run_folder import clear_stale
from rqps.schedule.state import StudyFolder
from rqps.scratch import PREFIX


@pytest.fixture
def house(tmp_path: Path) -> House:
    """The second run never ends by itself."""
    house = House(tmp_path)
    house.script({house.name(house.states()[1].run): "sleep"})
    return house


@pytest.fixture
def small_house(tmp_path: Path) -> House:
    """Its only run never ends by itself."""
    house = House(tmp_path)
    house.ask(builds=1)
    house.script({house.first(): "sleep"})
    return house


def is_measuring(house: House, count: int = 1) -> bool:
    return len([line for line in house.noted() if line.startswith("run ")]) == count


def second_is_measuring(house: House) -> bool:
    return is_measuring(house, 2)


def nothing_is_left(house: House, done: int = 1) -> None:
    assert house.kernels() == []
    assert house.partials() == []
    assert len(house.folders()) == done
    assert house.failures() == []


def test_in_a_cell(small_house: House) -> None:
    process = small_house.start()
    small_house.until(lambda: is_measuring(small_house))
    code, words = end(process, signal.SIGHUP)
    assert code == 128 + signal.SIGHUP
    nothing_is_left(small_house, done=0)
    assert small_house.noted()[-1].startswith("cleanup")  # the cell had its chance
    assert "stopped by SIGHUP with 1 missing; next: rqps run demo" in words


def test_in_the_second_run_and_then_on_from_there(house: House) -> None:
    process = house.start()
    house.until(lambda: second_is_measuring(house))
    assert end(process, signal.SIGINT)[0] == 130
    nothing_is_left(house)
    house.script({})
    assert house.run()[0] == 0
    assert len(house.folders()) == 2


def test_while_the_kernel_starts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = house.path / "kernel-begun"
    startup = house.path / "ipython/profile_default/startup"
    startup.mkdir(parents=True)
    (startup / "00-slow.py").write_text(f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(60)\n")
    monkeypatch.setenv("IPYTHONDIR", str(startup.parents[1]))
    process = house.start()
    house.until(begun.exists)
    code, _ = end(process, signal.SIGINT)
    assert code == 130
    nothing_is_left(house, done=0)
    assert [line for line in house.noted() if line.startswith("run")] == []


def test_between_runs(house: House) -> None:
    process = house.start()
    house.until(lambda: [line for line in house.noted() if line.startswith("cleanup")])
    code, _ = end(process, signal.SIGTERM)
    assert code == 143
    assert house.kernels() == []
    assert house.partials() == []
    assert len(house.folders()) in (0, 1)


def test_again_and_again_and_a_notebook_that_does_not_listen(small_house: House) -> None:
    small_house.script({small_house.first(): "hold on"})
    process = small_house.start()
    small_house.until(lambda: is_measuring(small_house))
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.7)
    code, _ = end(process, signal.SIGTERM)
    assert code == 130  # the first one counts
    nothing_is_left(small_house, done=0)


def test_by_ctrl_c_in_a_terminal_whose_live_line_fits(small_house: House) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = small_house.start(under=["setsid", "--ctty"], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    drawn = ""
    while "point-query 1/1" not in drawn:
        drawn += next_of(ours).decode()
    os.write(ours, b"\x03")
    with suppress(OSError):  # the terminal's end
        while more := next_of(ours):
            drawn += more.decode()
    os.close(ours)
    assert process.wait(240) == 130
    nothing_is_left(small_house, done=0)
    lines = [line for line in re.split(r"[\r\n]+|\^C", drawn) if line.startswith("run 1/1")]
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert re.match(r"run 1/1  my1.base round 1  \d+ s left, 0 %  starting", lines[0])


def test_what_a_killed_rqps_left_is_cleared_away_by_the_next(house: House) -> None:
    process = house.start()
    house.until(lambda: second_is_measuring(house))
    end(process, signal.SIGKILL)
    assert len(house.partials()) == 1
    half = house.partials()[0].removeprefix(".")
    house.script({})
    code, words = house.run()
    assert code == 0
    assert f"removing the half-done {half} of an rqps that was killed" in words
    assert len(house.folders()) == 2
    assert house.partials() == []
    noted = house.noted()
    last = max(index for index, line in enumerate(noted) if line.startswith("setup"))
    assert noted[last - 1].startswith("stopped")  # its keeper had ended before anything began
    assert house.kernels() == []


def test_a_second_rqps_run_is_refused_while_one_is_measuring(small_house: House) -> None:
    process = small_house.start()
    small_house.until(lambda: is_measuring(small_house))
    code, words = small_house.run()
    assert code == 1
    assert f"another rqps run (pid {process.pid}, study demo, since 20" in words
    assert len(small_house.partials()) == 1
    assert end(process, signal.SIGINT)[0] == 130
    nothing_is_left(small_house, done=0)


def test_what_another_user_measures_with_another_cache_is_not_measured_beside(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQPS_HOST_LOCK", name := f"rqps-test-{os.getpid()}")
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    holding = f"""
    import os, pwd, socket
    os.setuid(pwd.getpwnam({user!r}).pw_uid)
    lock = socket.socket(socket.AF_UNIX)
    lock.bind("\\0{name}")
    lock.listen()
    turn()
    """
    with Child(holding) as other:
        code, words = small_house.run()
        assert code == 1
        assert f"another rqps run (pid {other.pid}, user {user}, with another cache) is measuring" in words
        assert small_house.noted() == small_house.partials() == []
    small_house.script({})
    assert small_house.run()[0] == 0


def test_half_done_folders_of_the_living_and_of_other_hosts_are_left_alone(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    owners = {
        "living": socket.gethostname(),
        "elsewhere": "elsewhere",
        "ended": socket.gethostname(),
        "unwritten": None,
    }
    for run, host in owners.items():
        folder.partial(run).mkdir()
        if host:
            (folder.partial(run) / f"owner-{host}.txt").write_text(str(os.getpid() if run == "living" else 2**22))
    messages: list[str] = []
    clear_stale(folder, messages.append)
    assert {path.name for path in folder.partials()} == {".run=living.partial", ".run=elsewhere.partial"}
    assert len(messages) == 2


def private_folder(house: House, temporary: Path) -> Path:
    """The folder through which rqps talks to the kernel that measures now."""
    house.until(lambda: is_measuring(house))
    [results] = [path.parent for path in temporary.glob(f"{PREFIX}*/kernel.json")]
    return results


def test_a_kernel_and_rqps_talk_where_nobody_else_may_listen(
    small_house: House, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(short))
    process = small_house.start()
    private = private_folder(small_house, short)
    assert json.loads((private / "kernel.json").read_text())["transport"] == "ipc"
    assert private.stat().st_mode & 0o077 == 0
    kernels = [psutil.Process(pid) for pid in small_house.kernels()]
    ports = [line.laddr for kernel in kernels for line in kernel.net_connections("inet")]
    assert (bool(kernels), ports) == (True, []), "nothing of it listens on a port"
    assert stat.S_IMODE((private / "kernel.json").stat().st_mode) == 0o600
    assert end(process, signal.SIGINT)[0] == 130
    assert not private.exists()


def test_the_next_command_sweeps_what_a_killed_one_left_in_temporary_folders(
    small_house: House, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(short))
    process = small_house.start()
    private = private_folder(small_house, short)
    end(process, signal.SIGKILL)
    small_house.script({})
    ended(small_house.start(), 0)
    assert not private.exists()
