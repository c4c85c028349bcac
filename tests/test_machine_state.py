"""The state of the machine beside each step: measured by a real program, or known to be unknown."""

import re
from pathlib import Path

import pytest
from rqps.measure import machine
from rqps.measure.machine import SIZES_KB, STATE_MS, MachineStates, read_state
from rqps.store.manifest import Warning_


def test_memory_is_farther_away_the_more_of_it_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATE_MS)
    state = {row["kb"]: row["load_ns"] for row in read_state((0,))}
    assert tuple(state) == SIZES_KB
    assert 0 < state[0] < state[16] < state[65536]


def test_the_state_after_a_step_is_that_before_the_next() -> None:
    states = MachineStates((0,))
    (first, no_warnings), (second, _) = states.around("point-query"), states.around("insert")
    assert {(row["step"], row["moment"]) for row in first} == {("point-query", "before"), ("point-query", "after")}
    after, before = (
        [row["load_ns"] for row in rows if row["moment"] == moment]
        for rows, moment in ((first, "after"), (second, "before"))
    )
    assert after == before
    assert no_warnings == ()


def test_without_a_compiler_the_step_says_that_the_state_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rows, warnings = MachineStates((0,)).around("point-query")
    assert rows == []
    assert [(warning.kind, warning.step) for warning in warnings] == [("machine state", "point-query")] * 2
    assert "the state of the machine before the step is unknown: chase.c is a program in C" in warnings[0].text


def test_on_a_cpu_that_is_not_allowed_the_state_is_unknown() -> None:
    rows, (warning, _) = MachineStates((4095,)).around("point-query")
    assert rows == []
    assert isinstance(warning, Warning_)
    assert "chase ended with code" in warning.text


def test_without_memory_for_the_largest_size_the_state_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    petabyte_kb = 1 << 40
    monkeypatch.setattr(machine, "SIZES_KB", (0, 16, petabyte_kb))
    rows, warnings = MachineStates((0,)).around("point-query")
    assert rows == []
    assert [re.sub("before|after", "…", warning.text) for warning in warnings] == [
        "the state of the machine … the step is unknown: "
        f"chase ended with code 1: chase: no memory of {petabyte_kb} KB, or not a power of two"
    ] * 2
