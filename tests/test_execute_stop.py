"""Ctrl-C and its kin at any moment: nothing is left running, nothing half-done stays, nothing earlier is lost."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from house import House, end

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def house(tmp_path: Path) -> House:
    """The second run never ends by itself."""
    house = House(tmp_path)
    house.script({house.name(house.states()[1].run): "sleep"})
    return house


def second_is_measuring(house: House) -> bool:
    return len([line for line in house.told() if line.startswith("run ")]) == 2


def nothing_is_left(house: House, done: int = 1) -> None:
    assert house.kernels() == []
    assert house.partials() == []
    assert len(house.folders()) == done
    assert house.failures() == []


@pytest.mark.parametrize("number", SIGNALS)
def test_in_a_cell(house: House, number: signal.Signals) -> None:
    process = house.start()
    house.until(lambda: second_is_measuring(house))
    code, words = end(process, number)
    assert code == 128 + number
    nothing_is_left(house)
    assert house.told()[-1].startswith("cleanup")  # the cell had its chance
    assert f"stopped by {number.name} with 1 missing; next: rqps run demo" in words
    house.script({})
    assert house.run()[0] == 0
    assert len(house.folders()) == 2


def test_while_the_kernel_starts(house: House) -> None:
    process = house.start()
    house.until(lambda: len(house.kernels()) > 1)
    code, _ = end(process, signal.SIGINT)
    assert code == 130
    nothing_is_left(house, done=0)
    assert [line for line in house.told() if line.startswith("run")] == []


def test_between_runs(house: House) -> None:
    process = house.start()
    house.until(lambda: [line for line in house.told() if line.startswith("cleanup")])
    code, _ = end(process, signal.SIGTERM)
    assert code == 143
    assert house.kernels() == []
    assert house.partials() == []
    assert len(house.folders()) in (0, 1)


def test_again_and_again_and_a_notebook_that_does_not_listen(house: House) -> None:
    house.script({house.name(house.states()[1].run): "hold on"})
    process = house.start()
    house.until(lambda: second_is_measuring(house))
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    code, _ = end(process, signal.SIGTERM)
    assert code == 130  # the first one counts
    nothing_is_left(house)


def test_by_ctrl_c_in_a_terminal(house: House) -> None:
    ours, theirs = pty.openpty()
    process = house.start(
        stdin=theirs,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    house.until(lambda: second_is_measuring(house))
    os.write(ours, b"\x03")
    process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    nothing_is_left(house)


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
    told = house.told()
    last = max(index for index, line in enumerate(told) if line.startswith("setup"))
    assert told[last - 1].startswith("stopped")  # its keeper had ended before anything began
    assert house.kernels() == []


def test_a_second_rqps_run_is_refused_while_one_is_measuring(house: House) -> None:
    process = house.start()
    house.until(lambda: second_is_measuring(house))
    code, words = house.run()
    assert code == 1
    assert f"another rqps run (pid {process.pid}, study demo, since 20" in words
    assert len(house.partials()) == 1
    assert end(process, signal.SIGINT)[0] == 130
    nothing_is_left(house)
