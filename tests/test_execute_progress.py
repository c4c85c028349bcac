"""Time left, from the plan and from what came on top of it so far."""

import io
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rqps.run.estimate import FIRST_GUESS_S, Estimate
from rqps.run.watch import noted
from rqps.terminal import Terminal


def test_the_plan_and_a_guess_come_first_and_measured_overhead_after() -> None:
    estimate = Estimate([40.0, 40.0, 20.0])
    assert estimate.left_s() == 100 + 3 * FIRST_GUESS_S
    assert estimate.left_s(elapsed_s=15) == 85 + 3 * FIRST_GUESS_S
    estimate.finished(44.0, ok=True)
    assert estimate.left_s() == 40 + 20 + 2 * 4
    assert estimate.left_s(elapsed_s=1000) == 24
    assert estimate.share() == 44 / (44 + 68)


def test_a_run_that_failed_early_says_nothing_about_the_others() -> None:
    estimate = Estimate([40.0, 40.0])
    estimate.finished(2.0, ok=False)
    assert estimate.left_s() == 40 + FIRST_GUESS_S


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=6), st.floats(0, 1e5))
def test_the_share_is_1_only_at_the_end(planned: list[float], elapsed_s: float) -> None:
    estimate = Estimate(planned)
    for _ in planned:
        assert 0 <= estimate.share(elapsed_s) <= 0.99
        assert estimate.left_s(elapsed_s) >= 0
        estimate.finished(elapsed_s, ok=True)
    assert estimate.share() == 1
    assert estimate.left_s() == 0


def test_what_a_run_says_is_one_printable_line(tmp_path: Path) -> None:
    assert noted(tmp_path) == "starting"
    (tmp_path / "progress.txt").write_text("")
    assert noted(tmp_path) == "starting"
    (tmp_path / "progress.txt").write_bytes(b"insert\x1b[2J 2/4 \xff\nmore")
    assert noted(tmp_path) == "insert[2J 2/4 \ufffd"


def test_a_stream_that_is_no_terminal_and_knows_few_letters() -> None:
    raw = io.BytesIO()
    terminal = Terminal(io.TextIOWrapper(raw, encoding="ascii"), plain_every_s=100)
    assert not terminal.is_live
    terminal.show("in between")
    terminal.show("at once", at_once=True)
    terminal.say("5 µs – done")
    terminal.close()
    assert raw.getvalue() == b"at once\n5 ?s ? done\n"
