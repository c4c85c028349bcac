"""Exports are the measured costs in the forms that other tools read; speedscope's own app and schema accept them."""

import base64
import json
import re
import tarfile
from pathlib import Path

import polars as pl
import pytest
from browser import Browser, opened
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from rqps.engines.cache import cache_dir, made_once
from rqps.engines.sources.fetching import run_client
from rqps.profile import folded, folded_difference, speedscope
from rqps.profile.call_tree import FOLDED_PER_UNIT
from synthetic_stacks import POINT, costs_of

Costs = dict[tuple[str, ...], float]

names = st.text(alphabet='ab ;"<>\n\t&\\é', min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=5).map(tuple)
sides = st.dictionaries(paths, st.floats(0.001, 1e3), min_size=1, max_size=9)
HOSTILE = {('a;b"', "<script>alert(1)</script>", "two words", "line\nend"): 2.5, ("plain",): 1.0}
EVIL = {('a;b"', "<script>alert(1)</script>", "line\nend"): 2.5, ("do_command",): 1.0}
PACKAGE = "speedscope@1.25.0"


def speedscope_app() -> Path:
    """The folder with index.html and file-format-schema.json; fetched once."""
    folder = made_once(cache_dir() / "npm" / PACKAGE.replace("@", "-"), _fetch)
    return folder / "package/dist/release"


def _fetch(folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    run_client(
        ["npm", "pack", PACKAGE, "--cache", str(work / "cache"), "--fetch-retries=1", "--ignore-scripts"], work
    )
    (archive,) = work.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def opening(profile: Path, folder: Path) -> str:
    """The end of the address at which the app opens the profile, in the way of speedscope's own command."""
    text = base64.b64encode(profile.read_bytes()).decode()
    loader = folder / "profile.js"
    loader.write_text(f'speedscope.loadFileFromBase64("{profile.name}", "{text}")')
    return f"#localProfilePath={loader.resolve()}"


@pytest.mark.page
def test_the_file_is_as_the_schema_says() -> None:
    schema = json.loads((speedscope_app() / "file-format-schema.json").read_text())
    document = json.loads(speedscope(costs_of({"base": POINT, "me": EVIL}), "base", "me", "point-query"))
    Draft7Validator.check_schema(schema)
    assert [error.message for error in Draft7Validator(schema).iter_errors(document)] == []
    del document["shared"]
    assert list(Draft7Validator(schema).iter_errors(document))


@pytest.mark.page
def test_the_app_shows_both_sides_with_their_costs(browser: Browser, tmp_path: Path) -> None:
    profile = tmp_path / "point-query.speedscope.json"
    profile.write_text(speedscope(costs_of({"base": POINT, "me": EVIL}), "base", "me", "point-query"))
    with opened(browser, speedscope_app() / "index.html", 1280, fragment=opening(profile, tmp_path)) as tab:
        tab.wait_for("document.title.includes('base and me')")
        for kind in ("keydown", "keypress", "keyup"):
            tab.run(f"window.dispatchEvent(new KeyboardEvent('{kind}', {{key: '3', bubbles: true}})); 1")
        tab.wait_for("document.body.innerText.includes('(71%)')")  # the table's rows come after its head
        shown = tab.run("document.body.innerText")
        assert "me, point-query, µs/operation (2/2)" in shown
        assert shown.count("2.50µs (71%)") == 4  # three frames' totals, and what the last one costs itself
        assert shown.count("1.00µs (29%)") == 2
        assert 'a;b"' in shown
        assert "<script>alert(1)</script>" in shown
        assert tab.complaints() == []


def read_folded(text: str) -> list[tuple[list[str], list[int]]]:
    """As the tools read it: numbers behind the last space, frames between semicolons."""
    results = []
    for line in text.splitlines():
        match = re.fullmatch(r"(.*?)((?: \d+)+)", line)
        assert match, line
        results.append((match[1].split(";"), [int(number) for number in match[2].split()]))
    return results


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


@given(sides, sides)
def test_speedscope_gets_both_sides_whole(base: Costs, me: Costs) -> None:
    document = json.loads(speedscope(costs_of({"base": base, "me": me}), "base", "me", "point-query"))
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    for profile, costs in zip(document["profiles"], (base, me), strict=True):
        results = {
            tuple(frames[number] for number in sample): weight
            for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
        }
        assert results == pytest.approx(costs)
        assert profile["unit"] == "microseconds"
        assert profile["endValue"] == pytest.approx(sum(costs.values()))


def test_instructions_have_no_unit_in_speedscope() -> None:
    costs = costs_of({"base": HOSTILE}).with_columns(samples=pl.lit(None, pl.Float64))
    document = json.loads(speedscope(costs, "base", "base", "point-query"))
    assert {profile["unit"] for profile in document["profiles"]} == {"none"}
