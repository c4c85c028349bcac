"""A drawing says what its tree says, in few bytes, and no name gets out of its place."""

import base64
import gzip
import json
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from itertools import accumulate
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rqps.show.flame import Drawing, explorer, flame_graph, flame_svg, script_element, without_program
from rqps.show.flame.explorer import address
from rqps.show.flame.frames import packed
from rqps.show.flame.frames import tree_of as read
from rqps.show.words import Sentences
from synthetic_tree import Stack, large_stacks, tree_of

BASE, ME = "my1.base", "my2.base"
EVIL = ("a;b'\"&", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u2028\x00\x1b]]>", "-->")
STACKS: dict[Stack, tuple[float, float]] = {
    ("run", "small"): (1.0, 1.0),
    ("run", "large", "leaf"): (6.0, 9.0),
    ("run", "large"): (2.0, 2.0),
    ("idle",): (0.0, 0.5),
}
SVG = "{http://www.w3.org/2000/svg}"

costs = st.floats(0, 1e6).map(lambda value: round(value, 6))
stacks = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "c::d", "e<f>"]), min_size=1, max_size=6).map(tuple),
    st.tuples(costs, costs),
    min_size=1,
    max_size=30,
)


def drawn(tree: pl.DataFrame, **more: Any) -> Drawing:
    made = flame_graph(tree, base=BASE, me=ME, **more)
    assert isinstance(made, Drawing)
    return made


def unpacked(text: str) -> dict[str, Any]:
    """As the drawing's script does it."""
    tree: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return tree


class Tags(HTMLParser):
    """The tags of a page, and the attributes that would run something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.bad: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.bad += [name for name, _ in attrs if name.startswith("on")]


@settings(max_examples=60)
@given(stacks)
def test_what_is_packed_adds_up_to_what_was_measured(made: dict[Stack, tuple[float, float]]) -> None:
    frame = tree_of(made, 0.1)
    tree = read(frame)
    head = unpacked(packed(tree))
    columns = head["columns"]
    complete = max(tree.base_total[0], tree.me_total[0])
    for side, totals in (("base", tree.base_total), ("me", tree.me_total)):
        sums = [0, *accumulate(columns[side])]
        results = [(sums[end] - sums[i]) * head["quantum"] for i, end in enumerate(tree.end)]
        assert results == pytest.approx(list(totals), abs=1e-6 * complete + 1e-12)
    assert [head["names"][number] for number in columns["name"]] == list(tree.name)
    assert columns["depth"] == list(tree.depth)
    assert sorted(zip(tree.name, tree.base_total, tree.me_total, strict=True)) == sorted(
        frame.select("name", "base_total", "me_total").iter_rows()
    )


def test_the_most_expensive_frames_come_first() -> None:
    tree = read(tree_of(STACKS))
    assert list(tree.name) == ["all", "run", "large", "leaf", "small", "idle"]
    assert list(tree.end) == [6, 5, 4, 4, 5, 6]


def test_a_claim_has_both_sides_and_the_error() -> None:
    assert (
        drawn(tree_of(STACKS, 0.1)).claim == "12.5 µs/operation in my2.base, 9.00 in my1.base: 3.5 ± 1.1 more, 39 %."
    )
    alike: dict[Stack, tuple[float, float]] = {("run",): (5.0, 5.1)}
    assert "no difference beyond the error of ± 0.505" in drawn(tree_of(alike, 0.1)).claim
    vanished = drawn(tree_of({("run",): (5.0, 0.0)}), unit="instructions/operation")
    assert vanished.claim == "0 instructions/operation in my2.base, 5.00 in my1.base: 5.00 less, 100 %."


def test_nothing_to_draw_is_said() -> None:
    empty = tree_of(STACKS).clear()
    assert isinstance(flame_graph(empty, base=BASE, me=ME), Sentences)
    assert isinstance(flame_graph(tree_of({("run",): (0.0, 0.0)}), base=BASE, me=ME), Sentences)


def test_a_drawing_shows_itself_as_html_with_its_program_and_as_words() -> None:
    drawing = drawn(tree_of(STACKS))
    data = drawing._repr_mimebundle_()
    assert data.keys() == {"text/html", "text/plain"}
    assert data["text/plain"] == f"{drawing.claim} {drawing.how}"
    assert without_program(data["text/html"]) == drawing.html
    assert without_program("<table></table>") is None


def test_the_program_can_not_end_its_element() -> None:
    program = script_element().removeprefix("<script>").removesuffix("</script>")
    assert "</script" not in program.lower()
    assert "<!--" not in program
    assert "http" not in program.replace("http://www.w3.org/2000/svg", "").replace("https://www.speedscope.app", "")


def test_names_stay_in_their_place() -> None:
    """Evil names give the same tags as good ones."""
    hostile: dict[Stack, tuple[float, float]] = {EVIL[:2]: (5.0, 9.0), EVIL[2:]: (5.0, 1.0)}
    harmless: dict[Stack, tuple[float, float]] = {("a", "b"): (5.0, 9.0), ("c", "d", "e"): (5.0, 1.0)}
    pairs = [(drawn(tree_of(hostile)), drawn(tree_of(harmless))), (explored(hostile, EVIL[1]), explored(harmless))]
    for evil, good in pairs:
        assert Tags(evil.html).tags == Tags(good.html).tags
        assert Tags(evil.html).bad == []


def test_a_picture_is_well_formed_and_has_every_number() -> None:
    hostile: dict[Stack, tuple[float, float]] = {EVIL[:2]: (5.0, 9.0), EVIL[2:]: (5.0, 1.0), ("ok",): (2.0, 2.0)}
    picture = ET.fromstring(flame_svg(tree_of(hostile), base=EVIL[1], me=EVIL[3]))
    titles = [one.text or "" for one in picture.iter(f"{SVG}title")]
    assert len(titles) == 1 + len(tree_of(hostile))
    assert f"{EVIL[1]} ({EVIL[1]}): 5.00 → 9.00 µs/operation, +4.00" in titles
    assert "ok (ok): 2.00 → 2.00 µs/operation, 0" in titles


def test_a_picture_marks_what_costs_more_and_less_without_colour() -> None:
    picture = ET.fromstring(flame_svg(tree_of({("up",): (10.0, 20.0), ("down",): (20.0, 10.0)}), base=BASE, me=ME))
    texts = [one.text for one in picture.iter(f"{SVG}text")]
    assert texts[1:] == ["all", "▼ down −10.0", "▲ up +10.0"]


def test_a_server_s_13000_stacks_are_small() -> None:
    drawing = drawn(tree_of(large_stacks(), 0.05))
    page = (drawing.html + script_element()).encode()
    assert len(gzip.compress(page, 9)) < 400_000


def explored(made: dict[Stack, tuple[float, float]], step: str = "point-query", n: int = 6) -> Drawing:
    keys = {"host": "here", "step": step, "dbms": ME}
    of_all = {"base": BASE, "unit": "µs/operation", "n": n, "smallest_effect": 0.02}
    sides = {"base_estimate": 10.0, "me_estimate": 12.0, "estimate": 2.0, "low": 1.5, "high": 2.5}
    text = {"verdict": "slower", "finding": "It costs more."}
    measured = {"base_measured": 10.0, "me_measured": 12.0, "measured_error": 0.5}
    part = {**keys, **of_all, **sides, **text, **measured, "part": step, "component": step}
    parts = pl.DataFrame([part])
    trees = tree_of(made, 0.01).with_columns(pl.lit(value).alias(name) for name, value in keys.items())
    names = {"my1.base": "MySQL 1.0"}
    shown = explorer(pl.DataFrame([{**keys, **of_all, **sides, **text}]), parts, parts, trees, names=names)
    assert isinstance(shown, Drawing)
    return shown


def test_an_explorer_has_a_cell_with_its_spread_and_count() -> None:
    shown = explored(STACKS, n=4)
    assert shown.claim == "Of 1 comparison with MySQL 1.0, 1 cost more CPU."
    assert "▲ +2.0 ± 0.5</b><small>10.0 → 12.0</small>" in shown.html
    assert "base → me, means of 4 rounds." in shown.html
    assert "Mean of 4 rounds." in shown.html
    assert "<b>all</b>" in shown.html


def test_an_explorer_of_nothing_says_so() -> None:
    nothing = pl.DataFrame()
    assert "nothing to choose from" in repr(explorer(nothing, nothing, nothing, nothing))


def test_an_address_keeps_what_a_step_is_called() -> None:
    assert address("range=10&x", "my 8.base", "exact") == "#step=range%3D10%26x&dbms=my%208.base&by=exact"
