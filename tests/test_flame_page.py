"""Flame graphs in a browser: what a reader can do with them, by mouse and keys, and where scripts are blocked."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import DESKTOP, PHONE, Browser, Tab, each_width, opened
from rqps.report.render import asset
from rqps.show.flame import Drawing, explorer, flame_graph
from rqps.show.flame.picture import LOOK
from rqps.show.theme import lighter
from synthetic_report import page_of
from synthetic_tree import Stack, tree_of

pytestmark = pytest.mark.page

EVIL = ("a;b 'c' \"d\" `e` &amp;", "<script>window.hacked = 1</script>", "</script><img src=x onerror=hacked()>")
LINES = ("line\u2028separator\u2029\x07", "template<int, std::less<>>::operator<")

BASE, ME = "my1.base", "my2.base"
STACKS: dict[Stack, tuple[float, float]] = {
    ("do_command", "parse", "lex"): (4.0, 4.0),
    ("do_command", "parse", "yacc"): (2.0, 4.0),
    ("do_command", "execute", "read_row", "search"): (6.0, 9.0),
    ("do_command", "execute", "read_row", "copy"): (3.0, 1.0),
    ("do_command", "execute", "old_lock"): (2.0, 0.0),
    ("do_command", "execute", "new_hook"): (0.0, 1.0),
    ("do_command", "copy"): (1.0, 1.0),
}
HOSTILE: dict[Stack, tuple[float, float]] = {(EVIL[0], EVIL[1], LINES[0]): (1.0, 2.0), (EVIL[0], EVIL[2]): (3.0, 1.0)}


def drawing(stacks: dict[Stack, tuple[float, float]] = STACKS, error: float = 0.0) -> Drawing:
    made = flame_graph(tree_of(stacks, error), base=BASE, me=ME)
    assert isinstance(made, Drawing)
    return made


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("two"), drawing(), drawing())


class Graph:
    """One drawing on a page."""

    def __init__(self, tab: Tab, number: int = 0) -> None:
        self.tab = tab
        self.figure = f"document.querySelectorAll('.rqps-flame')[{number}]"
        self.root = f"{self.figure}.querySelector('div').shadowRoot"
        tab.run(f"{self.figure}.scrollIntoView({{behavior: 'instant'}})")
        tab.wait_for(f"{self.figure}.dataset.drawn === 'yes'")

    def part(self, name: str, what: str = "textContent") -> Any:
        return self.tab.run(f"{self.root}.querySelector('.{name}').{what}")

    def shown(self) -> dict[str, tuple[float, int]]:
        """Width and row of every box, by the drawing's own SVG file."""
        boxes = {}
        for group in ET.fromstring(self.svg()).iter("{http://www.w3.org/2000/svg}g"):
            title, rect = group[0].text or "", group[1]
            boxes[title.split(" (")[0]] = (float(rect.get("width", "")), int(rect.get("y", "")) // 18)
        return boxes

    def svg(self) -> str:
        return self.saved("SVG picture")

    def saved(self, kind: str) -> str:
        """The file that a reader gets."""
        keep = "const create = URL.createObjectURL; let kept; URL.createObjectURL = (blob) => { kept = blob;"
        keep += "return create(blob); };"
        press = f"const save = {self.root}.querySelector('.save'); save.value = {kind!r};"
        press += "save.dispatchEvent(new Event('change')); URL.createObjectURL = create;"
        text: str = self.tab.run(f"(async () => {{ {keep} {press} return await kept.text(); }})()")
        return text

    def click(self, name: str) -> None:
        self.tab.mouse(*self.place_of(name), "mousePressed", "mouseReleased", button="left", clickCount=1)

    def place_of(self, name: str) -> tuple[float, float]:
        """A point in the box of a frame."""
        at = f"(({{x, y}}) => [x, y])({self.root}.querySelector('canvas').getBoundingClientRect())"
        x, y = self.tab.run(at)
        for group in ET.fromstring(self.svg()).iter("{http://www.w3.org/2000/svg}g"):
            if (group[0].text or "").startswith(f"{name} ("):
                return x + float(group[1].get("x", "")) + 3, y + float(group[1].get("y", "")) + 5
        raise AssertionError(name)

    def press(self, *keys: str) -> None:
        self.tab.run(f"{self.root}.querySelector('.graph').focus()")
        for key in keys:
            self.key(key)

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def search(self, text: str) -> None:
        words = f"{self.root}.querySelector('.words')"
        self.tab.run(f"{words}.focus(); {words}.value = ''; {words}.dispatchEvent(new Event('input'))")
        self.tab.call("Input.insertText", text=text)

    def width(self, mode: str) -> None:
        modes = f"{self.root}.querySelector('.modes')"
        self.tab.run(f"{modes}.value = {mode!r}; {modes}.dispatchEvent(new Event('change'))")

    def zoomed(self) -> str:
        """The last of the path that it is zoomed into, or nothing."""
        path: str = self.part("path")
        return path.split(" › ")[-1]


@pytest.fixture(scope="module")
def open_two(browser: Browser, two: Path) -> Iterator[Tab]:
    with opened(browser, two, DESKTOP) as tab:
        yield tab


@pytest.fixture
def graph(open_two: Tab) -> Graph:
    """The first drawing, as it is before anything was done with it."""
    result = Graph(open_two)
    open_two.run(f"{result.root}.querySelector('.all').click()")
    result.width("both")
    result.search("")
    return result


def test_boxes_are_as_wide_as_their_cost(graph: Graph) -> None:
    boxes = graph.shown()
    complete = boxes["all"][0] + 1
    assert boxes["parse"][0] == pytest.approx(complete * 14 / 38 - 1, abs=0.1)
    assert boxes["parse"][1] == 2
    assert boxes["old_lock"][0] == pytest.approx(complete * 2 / 38 - 1, abs=0.1)
    assert set(boxes) == {"all", *(name for stack in STACKS for name in stack)}
    of_modes = [("base", "new_hook", 6, 18), ("me", "old_lock", 8, 20), ("change", "lex", 2, 10)]
    for mode, missing, parse, whole_cost in of_modes:
        graph.width(mode)
        boxes = graph.shown()
        assert missing not in boxes
        assert boxes["parse"][0] == pytest.approx((boxes["all"][0] + 1) * parse / whole_cost - 1, abs=0.1)


def test_frames_that_only_one_side_has_can_be_shown_alone(graph: Graph) -> None:
    for mode, name, us, share, value in (
        ("gone", "old_lock", "2.00", "11 %", BASE),
        ("added", "new_hook", "1.00", "5.0 %", ME),
    ):
        graph.width(mode)
        boxes = graph.shown()
        assert set(boxes) == {"all", "do_command", "execute", name}
        assert boxes[name][0] == boxes["all"][0]
        assert graph.part("path") == f"{us} µs/operation ({share}) of {value} is in frames that only it has. "


def test_a_click_zooms_in_and_the_path_and_the_button_lead_out_again(graph: Graph) -> None:
    complete = graph.shown()["all"]
    graph.click("read_row")
    boxes = graph.shown()
    assert graph.zoomed() == "read_row"
    assert boxes["read_row"][0] == boxes["execute"][0] == complete[0]
    assert "parse" not in boxes
    assert "read_row" in graph.part("card")
    graph.click("all")
    assert graph.shown()["all"] == complete
    assert graph.zoomed() == ""
    graph.click("search")
    assert graph.part("path") == "all › do_command › execute › read_row › search"
    graph.tab.run(f"{graph.root}.querySelectorAll('.path button')[2].click()")
    assert graph.zoomed() == "execute"
    assert graph.part("all", "disabled") is False
    graph.tab.run(f"{graph.root}.querySelector('.all').click()")
    assert graph.zoomed() == ""
    assert graph.part("all", "disabled") is True


def test_a_search_for_a_component_adds_up_the_own_cost_of_its_frames(graph: Graph) -> None:
    graph.click("read_row")
    graph.tab.run(f"{graph.root}.querySelector('.card button').click()")
    assert graph.part("words", "value") == "component:read"
    assert graph.part("count") == "1 frame: 0 (0.0 %) → 0 (0.0 %) µs/operation, 0"


def test_two_graphs_on_a_page_know_nothing_of_each_other(graph: Graph) -> None:
    second = Graph(graph.tab, 1)
    graph.click("execute")
    second.search("lex")
    assert (graph.zoomed(), second.zoomed()) == ("execute", "")
    assert (graph.part("count"), second.part("count")[:7]) == ("", "1 frame")
    ids = "[...document.querySelectorAll('[id]')]"
    assert graph.tab.run(f"{ids}.length") == graph.tab.run(f"new Set({ids}.map(e => e.id)).size")


def test_keys_move_zoom_and_search(graph: Graph) -> None:
    graph.press("Home", "ArrowDown", "ArrowDown")
    assert graph.part("said").startswith("execute, execute, row 3: 11.0 in my1.base, 11.0 in my2.base")
    graph.press("ArrowRight")
    assert graph.part("said").startswith("parse,")
    graph.press("ArrowLeft", "ArrowDown", "Enter")
    assert graph.zoomed() == "read_row"
    graph.press("ArrowDown", "Enter")
    assert graph.zoomed() == "search"
    graph.press("Escape")
    assert graph.zoomed() == "read_row"
    graph.press("Escape")
    assert graph.zoomed() == ""
    graph.press("/")
    graph.tab.call("Input.insertText", text="copy")
    graph.key("Enter")
    assert graph.part("said").startswith("copy, copy, row 5")
    graph.key("Enter")
    assert graph.part("said").startswith("copy, copy, row 3")
    graph.key("Escape")
    assert graph.part("count") == ""
    assert graph.tab.complaints() == []


def test_all_calls_of_a_function_from_everywhere_make_a_tree_of_their_own(graph: Graph) -> None:
    def follow(text: str) -> None:
        buttons = f"[...{graph.root}.querySelectorAll('.card button')]"
        graph.tab.run(f"{buttons}.find(b => b.textContent === {text!r}).click()")

    graph.click("read_row")
    follow("what it calls")
    assert graph.part("path") == "What read_row calls, from everywhere. "
    assert graph.shown().keys() == {"read_row", "search", "copy"}
    assert "9.00 (50 %)" in graph.part("card"), "of the whole operation"
    graph.click("copy")
    follow("what calls it")
    callers = graph.shown()
    assert {name: row for name, (_, row) in callers.items()} == {
        "copy": 0,
        "read_row": 1,
        "execute": 2,
        "do_command": 1,
    }
    complete = callers["copy"][0] + 1
    assert callers["read_row"][0] == pytest.approx(complete * 4 / 6 - 1, abs=0.1)
    assert "4.00 (22 %)" in graph.part("card"), "two places together"
    assert len(graph.saved("folded stacks").splitlines()) == len(STACKS), "all of them, whatever is shown"
    graph.press("Escape", "Escape")
    assert graph.part("path") == "What read_row calls, from everywhere. "
    graph.tab.run(f"{graph.root}.querySelector('.all').click()")
    assert len(graph.shown()) == 11
    assert graph.tab.complaints() == []


def test_frames_are_saved_for_other_tools(graph: Graph) -> None:
    lines = [line.rsplit(" ", 2) for line in graph.saved("folded stacks").splitlines()]
    assert {stack: [round(int(cost) / 1e6, 3) for cost in costs] for stack, *costs in lines} == {
        ";".join(stack): list(costs) for stack, costs in STACKS.items()
    }
    saved = json.loads(graph.saved("speedscope"))
    assert [round(profile["endValue"], 3) for profile in saved["profiles"]] == [18.0, 20.0]
    names = [frame["name"] for frame in saved["shared"]["frames"]]
    of_me = saved["profiles"][1]
    paths = {
        tuple(names[i] for i in path): round(weight, 3)
        for path, weight in zip(of_me["samples"], of_me["weights"], strict=True)
    }
    assert paths == {stack: me for stack, (_, me) in STACKS.items() if me}


def test_only_a_difference_beyond_its_error_has_a_sign(browser: Browser, tmp_path: Path) -> None:
    changed: dict[Stack, tuple[float, float]] = {("gone",): (4.0, 0.0), ("new",): (0.0, 5.0), ("same",): (4.0, 5.0)}
    recursive: dict[Stack, tuple[float, float]] = {("walk", "walk", "walk"): (3.0, 6.0), ("walk", "rest"): (1.0, 1.0)}
    recursive[("other",)] = (6.0, 3.0)
    page = page_of(tmp_path, drawing(error=0.1), drawing(changed, error=0.5), drawing(recursive))
    with opened(browser, page, DESKTOP) as tab:
        graph = Graph(tab)
        graph.click("execute")
        card = graph.part("card", "innerText")
        for text in ("µs/operation", BASE, ME, "11.0 (61 %)", "11.0 (55 %)", "0.0 ± 1.1, within its error"):
            assert text in card
        graph.click("old_lock")
        assert "▼ −2.00 ± 0.10 (gone)" in graph.part("card", "innerText")
        tab.mouse(*graph.place_of("old_lock"), "mouseMoved")
        assert "old_lock" in graph.part("tip", "innerText")
        assert graph.part("tip", "hidden") is False
        texts = [one.text for one in ET.fromstring(Graph(tab, 1).svg()).iter("{http://www.w3.org/2000/svg}text")]
        assert texts[2:] == ["all", "same", "▲ new: new +5.00", "▼ gone: gone −4.00"]
        graph.search("copy")
        assert graph.part("count") == "2 frames: 4.00 (22 %) → 2.00 (10 %) µs/operation, −2.00"
        walk = Graph(tab, 2)  # counts nothing more than once
        walk.search("WALK")
        assert walk.part("count") == "3 frames: 4.00 (40 %) → 7.00 (70 %) µs/operation, +3.00"


@each_width
def test_the_page_fits_asks_for_nothing_and_complains_of_nothing(browser: Browser, two: Path, width: int) -> None:
    with opened(browser, two, width) as tab:
        Graph(tab, 1)
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.requests() == [two.resolve().as_uri()]
        assert tab.complaints() == []
        assert tab.run("document.querySelectorAll('.rqps-flame img').length") == 0


def test_where_scripts_are_blocked_the_greatest_difference_has_a_picture(browser: Browser, two: Path) -> None:
    with opened(browser, two, PHONE, scripts=False) as tab:
        pictures = "[...document.querySelectorAll('.rqps-flame img')]"
        assert tab.run(f"{pictures}.every(i => i.complete && i.naturalWidth === 760 && i.naturalHeight > 100)")
        assert tab.run(f"{pictures}.length") == 2  # one of each explorer
        assert tab.run("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize(("scheme", "as_drawn"), [("light", {}), ("dark", LOOK.in_dark)])
def test_text_on_every_box_can_be_read(
    scheme: str, as_drawn: dict[str, str], browser: Browser, tmp_path: Path
) -> None:
    """Also on the boxes that a search did not find."""
    strong = (LOOK.more[-1], LOOK.less[-1])
    boxes = [(colour, "#ffffff" if colour in strong else LOOK.ink) for colour in (*LOOK.more, *LOOK.less, LOOK.grey)]
    faint_ink = f"{LOOK.ink}{round(255 * LOOK.faded_text):02x}"
    boxes = [(as_drawn.get(colour, colour), ink) for colour, ink in boxes]
    boxes += [(lighter(colour, 1 - LOOK.faded), faint_ink) for colour, _ in boxes]
    texts = (f'<p style="background:{box};color:{ink}">text</p>' for box, ink in boxes)
    page = tmp_path / "boxes.html"
    page.write_text(f"<!doctype html><style>{asset('page.css')}</style><body>{''.join(texts)}")
    with opened(browser, page, DESKTOP) as tab:
        assert tab.faint(scheme) == []


def test_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    page = page_of(tmp_path, drawing(HOSTILE), drawing({(LINES[1],): (1.0, 2.0)}))
    with opened(browser, page, DESKTOP) as tab:
        graph = Graph(tab)
        assert set(graph.shown()) >= {EVIL[0], EVIL[1], LINES[0].replace("\x07", "\ufffd")}
        graph.press("ArrowDown", "ArrowDown", "Enter")
        assert EVIL[2] in graph.part("path")
        assert EVIL[2] in graph.part("card")
        graph.search("</SCRIPT>")
        assert graph.part("count").startswith("2 frames")
        assert LINES[1] in Graph(tab, 1).shown()
        assert tab.run("window.hacked === undefined && document.querySelectorAll('img[src=x]').length === 0")
        assert tab.complaints() == []


CELLS = (("point-query", ME), ("range=10", "my2.ps0"), ("range=10", ME))
"""The second differs most, and of one there is nothing."""


def explorer_of(unit: str, by: str) -> Drawing:
    """Two steps by two dbms."""
    parts = [("read", 6.0, 9.0, 3.0, "slower"), ("parse", 6.0, 6.0, 0.0, "unsure")]
    operations, components, trees = [], [], []
    for step, dbms in CELLS:
        cell = {"host": "here", "step": step, "dbms": dbms, "base": BASE, "unit": unit, "n": 6}
        grown = 2 if dbms == "my2.ps0" else 1
        me = 20.0 * grown
        complete = {"base_estimate": 18.0, "me_estimate": me, "estimate": me - 18.0, "verdict": "slower"}
        complete |= {"low": me - 18.3, "high": me - 17.7, "finding": "It costs more."}
        measured = {"base_measured": 18.0, "me_measured": me, "measured_error": 0.3}
        operations.append({**cell, **complete, "smallest_effect": 0.02})
        for part, before, after, difference, verdict in parts:
            row = {"part": part, "component": part, "base_estimate": before, "me_estimate": after, "verdict": verdict}
            interval = {"estimate": difference, "low": difference - 0.5, "high": difference + 0.5}
            components.append({**cell, **measured, **row, **interval})
        scaled = {stack: (before, after * grown) for stack, (before, after) in STACKS.items()}
        named = {"host": "here", "step": step, "dbms": dbms}
        trees.append(tree_of(scaled, 0.01).with_columns(pl.lit(value).alias(name) for name, value in named.items()))
    made = explorer(
        pl.DataFrame(operations), pl.DataFrame(components), pl.DataFrame(components), pl.concat(trees), by=by
    )
    assert isinstance(made, Drawing)
    return made


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored")
    return page_of(folder, explorer_of("µs/operation", ""), explorer_of("instructions/operation", "exact"))


SHOWN = "[...document.querySelectorAll('.rqps-explorer')[{}].querySelectorAll('.rqps-cell')].filter(c => !c.hidden)"


def shown_of(tab: Tab, number: int = 0) -> list[str]:
    keys: list[str] = tab.run(f"{SHOWN.format(number)}.map(c => c.querySelector('summary').innerText)")
    return keys


def test_an_explorer_shows_the_cell_that_was_chosen(browser: Browser, explored: Path) -> None:
    with opened(browser, explored, DESKTOP) as tab:
        # It begins with the greatest difference.
        assert shown_of(tab) == ["range=10: my2.ps0 against my1.base"]
        assert tab.run("document.querySelectorAll('.rqps-map')[0].rows.length") == 3
        assert tab.run("document.querySelector('.rqps-map td:last-child').innerText") == "–"
        tab.wait_for("document.querySelectorAll('.rqps-flame[data-drawn=yes]').length === 1")
        assert tab.complaints() == []
        # A component of the breakdown is looked for in the graph.
        tab.run(f"{SHOWN.format(0)}[0].querySelector('.rqps-component td button').click()")
        graph = f"{SHOWN.format(0)}[0].querySelector('.rqps-flame div')?.shadowRoot"
        assert tab.wait_for(f"{graph}?.querySelector('.words').value") == "component:read"
        # The address remembers the choice.
        tab.run("document.querySelector('.rqps-map a').click()")
        tab.wait_for("location.hash === '#step=point-query&dbms=my2.base'")
        tab.wait_for(f"{SHOWN.format(0)}[0].querySelector('summary').innerText.startsWith('point-query')")
        assert shown_of(tab) == ["point-query: my2.base against my1.base"]
        assert tab.run("document.querySelector('.rqps-map a[aria-current=true]').hash") == tab.run("location.hash")
        tab.run("document.querySelector('.rqps-map a').focus()")
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowDown")
        assert tab.run("document.activeElement.hash") == "#step=range%3D10&dbms=my2.base"


@each_width
def test_an_address_leads_to_its_cell(browser: Browser, explored: Path, width: int) -> None:
    empty = explored.parent / "empty.html"
    empty.write_text("<title>before</title>")
    with opened(browser, empty, width) as tab:
        tab.call("Page.navigate", url=f"{explored.as_uri()}#step=range%3D10&dbms=my2.base&search=search")
        tab.wait_for("document.querySelectorAll('.rqps-flame[data-drawn=yes]').length")
        assert shown_of(tab) == ["range=10: my2.base against my1.base"]
        cell = f"{SHOWN.format(0)}[0]"
        tab.wait_for(f"{cell}.getBoundingClientRect().top < 60")
        assert tab.run(f"{cell}.querySelector('summary').getBoundingClientRect().top") >= 0
        count = f"{cell}.querySelector('.rqps-flame div').shadowRoot.querySelector('.count').textContent"
        assert tab.wait_for(count).startswith("1 frame: 6.00")
        assert tab.run("document.documentElement.scrollWidth") <= width


def test_a_link_from_another_page_leads_to_the_heading_of_its_cell(browser: Browser, explored: Path) -> None:
    """The browser itself goes to what has that id, which is below the heading."""
    linking = explored.parent / "linking.html"
    linking.write_text(f"<a href='{explored.name}#step=point-query&amp;dbms=my2.base'>there</a>")
    with opened(browser, linking, DESKTOP) as tab:
        tab.run("document.querySelector('a').click()")
        tab.wait_for("document.querySelectorAll('.rqps-flame[data-drawn=yes]').length")
        heading = f"{SHOWN.format(0)}[0].querySelector('summary').getBoundingClientRect().top"
        assert 0 <= tab.wait_for(f"{heading} < 60 && {heading}") < 60


def test_an_address_can_name_one_of_two_explorers(browser: Browser, explored: Path) -> None:
    with opened(browser, explored, DESKTOP) as tab:
        tab.run("location.hash = '#step=point-query&dbms=my2.base&by=exact'")
        tab.wait_for(f"{SHOWN.format(1)}[0].querySelector('summary').innerText.startsWith('point-query')")
        assert shown_of(tab, 0) == ["range=10: my2.ps0 against my1.base"]
        tab.run("location.hash = '#step=point-query&dbms=my9.base'")
        tab.wait_for("document.querySelector('.rqps-note').textContent")
        assert shown_of(tab) == []
        assert "point-query, my9.base" in tab.run("document.querySelector('.rqps-note').textContent")


def test_without_scripts_every_cell_can_be_opened(browser: Browser, explored: Path) -> None:
    with opened(browser, explored, DESKTOP, scripts=False) as tab:
        assert len(shown_of(tab)) == 3
        tab.run("document.querySelector('.rqps-map a').click()")
        assert tab.wait_for("document.querySelector('.rqps-cell').open")
        inside = tab.run("document.querySelector('.rqps-cell').innerText")
        assert "read" in inside
        assert "3.0\u00a0±\u00a00.5" in inside
