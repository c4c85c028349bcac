"""What is exported is what was measured, in the forms that other tools read."""

import json
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rqps.profile import folded, folded_difference, speedscope
from rqps.profile.tree import FOLDED_PER_UNIT
from synthetic_stacks import Path, costs_of

Costs = dict[Path, float]

names = st.text(alphabet='ab ;"<>\n\t&\\é', min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=5).map(tuple)
sides = st.dictionaries(paths, st.floats(0.001, 1e3), min_size=1, max_size=9)
HOSTILE = {('a;b"', "<script>alert(1)</script>", "two words", "line\nend"): 2.5, ("plain",): 1.0}


def read_folded(text: str) -> list[tuple[list[str], list[int]]]:
    """As the tools read it: numbers behind the last space, frames between semicolons."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"(.*?)((?: \d+)+)", line)
        assert match, line
        found.append((match[1].split(";"), [int(number) for number in match[2].split()]))
    return found


@settings(deadline=None)
@given(sides)
def test_folded_stacks_keep_frames_and_sums(costs: Costs) -> None:
    rows = read_folded(folded(costs_of({"my1.base": costs}), "my1.base", "point-query"))
    assert sorted(len(frames) for frames, _ in rows) == sorted(map(len, costs))
    total = sum(numbers[0] for _, numbers in rows) / FOLDED_PER_UNIT
    assert total == pytest.approx(sum(costs.values()), abs=len(costs) / FOLDED_PER_UNIT)


def test_names_with_semicolons_and_line_ends_stay_one_frame() -> None:
    assert folded(costs_of({"my1.base": HOSTILE}), "my1.base", "point-query") == (
        'a:b";<script>alert(1)</script>;two words;line end 2500000\nplain 1000000\n'
    )


def test_a_difference_has_both_sides_in_a_line() -> None:
    costs = costs_of({"base": {("a", "gone"): 1.0, ("a",): 1.0}, "me": {("a", "new"): 2.0, ("a",): 1.0}})
    assert folded_difference(costs, "base", "me", "point-query") == (
        "a 1000000 1000000\na;gone 1000000 0\na;new 0 2000000\n"
    )


@settings(deadline=None)
@given(sides, sides)
def test_speedscope_gets_both_sides_whole(base: Costs, me: Costs) -> None:
    document = json.loads(speedscope(costs_of({"base": base, "me": me}), "base", "me", "point-query"))
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    for profile, costs in zip(document["profiles"], (base, me), strict=True):
        found = {
            tuple(frames[number] for number in sample): weight
            for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
        }
        assert found == pytest.approx(costs)
        assert profile["unit"] == "microseconds"
        assert profile["endValue"] == pytest.approx(sum(costs.values()))


def test_instructions_have_no_unit_in_speedscope() -> None:
    costs = costs_of({"base": HOSTILE}).with_columns(samples=pl.lit(None, pl.Float64))
    document = json.loads(speedscope(costs, "base", "base", "point-query"))
    assert {profile["unit"] for profile in document["profiles"]} == {"none"}
