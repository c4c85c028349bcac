"""A study of days: at some hours only, watched from another terminal, after a reboot, with logs that stay short."""

import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from datetime import time as clock
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from child import next_of
from house import House, end
from hypothesis import assume, given
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.measure.notes import UNDER_WAY, UnderWay
from rqps.schedule.hours import Hours
from rqps.schedule.run_folder import clear_stale
from rqps.schedule.state import StudyFolder
from rqps.study import unfold
from rqps.terminal import Terminal
from test_unfold import study

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")
"""The clock jumps by an hour, by half an hour, and in Apia by a whole day, on the 30th of December 2011."""
FROM_S, TO_S = 1_293_840_000, 1_798_761_600  # 2011 to 2026
CLOCKS = st.times().map(lambda at: at.replace(microsecond=0))
DAY_S = 86_400


@pytest.fixture(autouse=True)
def own_zone() -> Iterator[None]:
    before = os.environ.get("TZ")
    yield
    live_in(before)


def live_in(zone: str | None) -> None:
    os.environ.pop("TZ", None)
    if zone:
        os.environ["TZ"] = zone
    time.tzset()


def one_after_the_other(hours: Hours, now_s: float, count: int = 4) -> list[tuple[float, float]]:
    return list(islice(hours.following(now_s), count))


def is_open(hours: Hours, at_s: float) -> bool:
    return next(hours.following(at_s))[0] == at_s


@given(st.sampled_from(ZONES), CLOCKS, CLOCKS, st.integers(FROM_S, TO_S))
def test_hours_follow_each_other_and_begin_and_end_by_the_clock(
    zone: str, begin: clock, ending: clock, now_s: int
) -> None:
    assume(begin != ending)
    live_in(zone)
    result = one_after_the_other(Hours(begin, ending), now_s)
    ends = [now_s, *(one for pair in result for one in pair)]
    assert ends == sorted(ends)
    assert all(opens < closes <= opens + DAY_S + 7200 for opens, closes in result)
    assert result[0][0] < now_s + 3 * DAY_S
    if zone in ("UTC", "Asia/Kathmandu"):
        assert all(datetime.fromtimestamp(opens).time() == begin for opens, _ in result[1:])
        assert all(datetime.fromtimestamp(closes).time() == ending for _, closes in result)


@given(st.sampled_from(ZONES), CLOCKS, CLOCKS, st.integers(FROM_S, TO_S))
def test_at_every_moment_it_is_either_these_hours_or_the_others(
    zone: str, begin: clock, ending: clock, now_s: int
) -> None:
    assume(begin != ending)
    live_in(zone)
    assert is_open(Hours(begin, ending), now_s) != is_open(Hours(ending, begin), now_s)


@given(st.sampled_from(ZONES), CLOCKS, CLOCKS, st.integers(FROM_S, TO_S), st.floats(0, 1))
def test_what_begins_ends_within_the_same_hours(
    zone: str, begin: clock, ending: clock, now_s: int, share: float
) -> None:
    assume(begin != ending)
    live_in(zone)
    hours = Hours(begin, ending)
    length_s = (datetime.combine(datetime.min, ending) - datetime.combine(datetime.min, begin)).seconds
    begins = hours.room(share * length_s, "it", now_s)
    assert begins >= now_s
    assert begins + share * length_s <= next(hours.following(begins))[1]
    with pytest.raises(RqpsError, match="it takes about"):
        hours.room(length_s + 1, "it", now_s)


@pytest.mark.parametrize(
    ("now", "text", "opens", "closes"),
    [
        ("2026-06-10 12:00", "22:00-06:00", "10 22:00", "11 06:00"),
        ("2026-06-10 23:00", "22:00-06:00", "10 23:00", "11 06:00"),
        ("2026-06-11 05:59", "22:00-06:00", "11 05:59", "11 06:00"),
        ("2026-06-11 06:00", "22:00-06:00", "11 22:00", "12 06:00"),
        ("2026-06-10 12:00", "09:00-17:30", "10 12:00", "10 17:30"),
        ("2026-06-10 18:00", "09:00-17:30", "11 09:00", "11 17:30"),
        ("2026-03-29 00:30", "00:00-03:30", "29 00:30", "29 03:30"),  # two hours later
        ("2026-03-29 01:00", "02:30-04:00", "29 03:30", "29 04:00"),  # there is no half past two
        ("2026-10-25 00:30", "00:00-03:30", "25 00:30", "25 03:30"),  # four hours later
    ],
)
def test_hours_in_berlin(now: str, text: str, opens: str, closes: str) -> None:
    live_in("Europe/Berlin")
    result = next(Hours.read(text).following(datetime.fromisoformat(now).timestamp()))
    assert [datetime.fromtimestamp(one).strftime("%d %H:%M") for one in result] == [opens, closes]


def test_a_night_in_which_the_clock_is_changed_is_as_long_as_it_is() -> None:
    live_in("Europe/Berlin")
    lengths = [
        closes - opens
        for day in ("2026-03-28", "2026-06-10", "2026-10-24")
        for opens, closes in one_after_the_other(
            Hours.read("22:00-06:00"), datetime.fromisoformat(f"{day} 12:00").timestamp(), 1
        )
    ]
    assert [length / 3600 for length in lengths] == [7, 8, 9]


def test_runs_are_put_into_as_many_nights_as_they_need() -> None:
    live_in("UTC")
    noon_s = datetime(2026, 6, 10, 12).timestamp()
    runs = unfold(study(rounds=4), "demo", "h")
    seconds = runs[0].estimated_seconds + 10
    two_and_a_half = (datetime(2026, 6, 10, 22) + timedelta(seconds=2.5 * seconds)).strftime("%H:%M:%S")
    text = Hours.read(f"22:00-{two_and_a_half}").plan(runs, noon_s)
    assert text.startswith(f"{-(-len(runs) // 2)} days from 22:00-")
    assert Hours.read("22:00-06:00").plan(runs[:1], noon_s).startswith("1 night from 22:00-06:00, the last until")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("22:00", "not two times of the day"),
        ("22-6", "not two times of the day"),
        ("22:00-06:00-07:00", "not two times of the day"),
        ("25:00-06:00", "hour must be in"),
        ("22:00-06:60", "minute must be in"),
        ("22:00-22:00", "the two times are equal"),
    ],
)
def test_what_is_no_hours_is_refused(text: str, message: str) -> None:
    with pytest.raises(RqpsError, match=message) as caught:
        Hours.read(text)
    assert "22:00-06:00" in caught.value.fix


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.ask(builds=1)
    return house


def around_now(begin_s: float, end_s: float) -> str:
    now = datetime.now()
    return "-".join((now + timedelta(seconds=value)).strftime("%H:%M:%S") for value in (begin_s, end_s))


def seen(house: House) -> str:
    return "".join(one.text(house.study) for one in UnderWay.of(house.study))


def test_a_study_waits_for_its_hours_and_then_goes_on(house: House) -> None:
    began_s = time.time()
    code, words = house.run(around_now(20, 3600))  # it has come to wait by then, however busy the machine
    assert code == 0
    waited, *others = (line for line in words.splitlines() if "demo: 1 day" not in line and "1 night" not in line)
    assert waited.startswith("waiting until ")
    assert any("going on with the study" in line for line in others)
    assert (house.path / "order.log").stat().st_mtime > began_s + 18
    assert len(house.folders()) == 1
    assert not (house.study / UNDER_WAY).exists()


def test_ctrl_c_while_it_waits(house: House) -> None:
    process = house.start(around_now(3600, 7200))
    house.until(lambda: "waiting until" in seen(house))
    code, words = end(process, signal.SIGINT)
    assert code == 130
    assert "stopped by SIGINT with 1 missing; next: rqps run demo" in words
    assert house.noted() == house.folders() == house.partials() == []
    assert not (house.study / UNDER_WAY).exists()


def test_a_run_that_would_not_end_within_the_hours_is_not_started(house: House) -> None:
    """It takes about ten minutes, of which the hours have two left, and a day more."""
    house.ask(builds=1, seconds=600)
    process = house.start(around_now(-3600, 120))
    house.until(lambda: "waiting until" in seen(house))
    assert "which takes about 10 min 10 s" in seen(house)
    assert house.noted() == ["setup 1"]
    assert end(process, signal.SIGTERM)[0] == 143


def test_runs_longer_than_the_hours_are_refused_before_anything_starts(house: House) -> None:
    code, words = house.run("22:00-22:00:05")
    assert code == 1
    assert "r01@my1.base@here takes about 11 s, but 22:00-22:00:05 has only 5 s" in words
    assert house.noted() == []


class Screen:
    """`rqps status --watch` in a terminal."""

    def __init__(self, house: House) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "rqps.cli", "status", "demo", "--watch"]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self.process = subprocess.Popen(command, cwd=house.path, **pipes)
        os.close(theirs)

    def until(self, *words: str) -> str:
        """What it draws when it has all of these words."""
        drawn = ""
        while not all(word in drawn for word in words):
            drawn = (drawn + next_of(self._ours).decode()).rpartition("\x1b[H\x1b[2J")[2]
        return drawn

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(240)
        os.close(self._ours)
        return code


def test_another_terminal_sees_what_is_measured_and_when_nothing_is(house: House) -> None:
    house.script({house.first(): "sleep"})
    screen = Screen(house)
    assert "demo: 1 run, 1 missing" in screen.until("nothing is measured now")
    process = house.start()
    drawn = screen.until("point-query 1/1", "left to measure")
    assert f"demo, now: run 1/1  my1.base round 1 (pid {process.pid} on {socket.gethostname()})" in drawn
    end(process, signal.SIGTERM)
    assert "now: run" not in screen.until("nothing is measured now")
    assert screen.stop() == 0


def test_a_second_rqps_run_that_is_refused_leaves_the_first_one_s_note(house: House) -> None:
    house.script({house.first(): "sleep"})
    process = house.start()
    house.until(lambda: "point-query" in seen(house))
    assert house.run()[0] == 1
    assert "point-query" in seen(house)
    assert end(process, signal.SIGTERM)[0] == 143


def under_way(folder: Path, **changes: Any) -> list[UnderWay]:
    facts: dict[str, Any] = {
        "pid": os.getpid(),
        "what": "run 1/2",
        "partial": "",
        "ends_s": 0.0,
        "after_s": 60.0,
        "failed": 1,
    }
    UnderWay(**facts | changes).note(folder)
    return UnderWay.of(folder)


def test_what_was_under_way_before_a_kill_or_a_reboot_is_not_any_more(tmp_path: Path) -> None:
    assert under_way(tmp_path)
    assert not under_way(tmp_path, pid=2**22 + 1)
    assert under_way(tmp_path, pid=2**22 + 1, host="elsewhere")
    under_way(tmp_path)
    os.utime(tmp_path / UNDER_WAY, (0, 0))  # as if our id had been another's, before the machine was started again
    assert not UnderWay.of(tmp_path)
    for broken in ("", "{", "[]", json.dumps({"pid": 1})):
        (tmp_path / UNDER_WAY).write_text(broken)
        assert not UnderWay.of(tmp_path)


def test_half_a_run_of_before_a_reboot_is_cleared_away_though_its_id_is_another_s_now(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    partial = folder.partial("r01@my1.base@here")
    partial.mkdir()
    for name in (f"owner-{socket.gethostname()}.txt", "pids.txt"):
        (partial / name).write_text(f"{os.getpid()}\n")
        os.utime(partial / name, (0, 0))
    messages: list[str] = []
    clear_stale(folder, messages.append)
    assert folder.partials() == ()
    assert len(messages) == 1


def test_the_log_of_a_study_of_days_is_short() -> None:
    raw = io.StringIO()
    terminal = Terminal(raw, plain_every_s=0.0)
    for second in range(100_000):
        terminal.show(f"{second}", second / 100_000)
    assert 100 < len(raw.getvalue().splitlines()) <= 200


def test_the_logs_of_a_run_keep_both_their_ends(house: House) -> None:
    house.script({house.first(): "chatty"})
    assert house.run()[0] == 0
    [log] = house.study.glob("run=*/logs/mysqld.err")
    saved = log.read_text()
    assert len(saved) < 66_000
    assert saved.startswith("first\nxx")
    assert saved.endswith("xx\nlast")
    assert "\n... 2934475 bytes are left out ...\n" in saved
