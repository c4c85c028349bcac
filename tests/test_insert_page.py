"""The report of the insert benchmark as a reader gets it: in a browser, wide and narrow, of few clients and of 20."""

from pathlib import Path

import pytest
import synthetic_inserts as made_up
from browser import DESKTOP, Browser, Tab, each_width, opened
from rqps.report import build

pytestmark = [pytest.mark.page, pytest.mark.usefixtures("one_kernel")]

NOTEBOOK = Path(__file__).parent.parent / "notebooks/analysis/insert_benchmark_report.ipynb"
PAGE = f"{NOTEBOOK.stem}.html"
MANY = made_up.Shape(
    dbms={"my1.base": 1.0, "my2.base": 0.7},
    steps=("l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"),
    rounds=2,
    clients=20,
    stalls={("my2.base", "qp500"): range(3, 6)},
)


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebooks") / "analysis"
    folder.mkdir()
    (folder / NOTEBOOK.name).write_bytes(NOTEBOOK.read_bytes())
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, notebooks: Path) -> Path:
    data = made_up.write(tmp_path_factory.mktemp("few"))
    return build("inserts", data, data / "report", notebooks).parent / PAGE


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, notebooks: Path) -> Path:
    data = made_up.write(tmp_path_factory.mktemp("many"), MANY)
    return build("inserts", data, data / "report", notebooks).parent / PAGE


@each_width
def test_it_is_drawn_without_a_network_and_within_its_width(browser: Browser, few: Path, width: int) -> None:
    with opened(browser, few, width) as tab:
        tab.wait_for_charts()
        tab.must_fit(width)
        assert tab.complaints() == []
        assert tab.requests() == [few.resolve().as_uri()]


@each_width
def test_it_begins_with_its_table_and_what_was_found(browser: Browser, few: Path, width: int) -> None:
    with opened(browser, few, width) as tab:
        output = tab.run("[...document.querySelectorAll('.findings li')].map(e => e.textContent)")
        assert any("performance schema off against MySQL 1.0.0, throughput: +1" in one for one in output)
        tops = "e => e.getBoundingClientRect().top + scrollY"
        table, finding = tab.run(
            f"[...document.querySelectorAll('main .table table, .findings li')].slice(1, 3).map({tops})"
        )
        assert 0 < table < 1688, "within two screens of a phone"
        assert finding > table


def unfold(tab: Tab) -> None:
    tab.wait_for_charts()
    tab.run("document.querySelectorAll('details.section').forEach(each => { each.open = true; })")


def test_what_few_need_is_folded_away_until_it_is_asked_for(browser: Browser, few: Path) -> None:
    names = "[...document.querySelectorAll('details.section[open] h2')].map(each => each.innerText)"
    with opened(browser, few, DESKTOP) as tab:
        tab.wait_for_charts()
        assert tab.run(names) == []
        tab.run("document.querySelector('nav a[href=\"#over-time\"]').click()")
        assert tab.wait_for(f"{names}.length === 1 && {names}[0]") == "Over time"
    with opened(browser, few, DESKTOP, fragment="#response-times") as tab:
        tab.wait_for_charts()
        assert tab.run(names) == ["Response times"]
        assert tab.wait_for("Math.abs(document.getElementById('response-times').getBoundingClientRect().top) < 60")


@each_width
def test_columns_of_a_step_open_by_a_click(browser: Browser, few: Path, width: int) -> None:
    with opened(browser, few, width) as tab:
        unfold(tab)
        step = "[...document.querySelectorAll('details.long')].find(d => d.textContent.startsWith('qr100'))"
        assert not tab.run(f"{step}.querySelector('pre').checkVisibility()")
        tab.run(f"{step}.querySelector('summary').click()")
        tab.wait_for(f"{step}.querySelector('pre').checkVisibility()")
        assert "cpupq" in tab.run(f"{step}.querySelector('pre').textContent")
        tab.must_fit(width)


def test_a_column_below_a_shared_heading_is_sorted_by_its_own_head(browser: Browser, few: Path) -> None:
    """In the table's last row of heads it is the first cell, and in the body it is not."""
    with opened(browser, few, DESKTOP) as tab:
        table = "document.querySelector('#rqps-insert-corrected-rates table')"
        heads = f"[...{table}.querySelectorAll('button.sort')]"
        tab.run(f"{heads}.find(b => b.textContent === 'p50').click()")
        rows = f"[...{table}.tBodies[0].rows].filter(r => r.cells.length > 1).slice(0, 3)"
        p50 = [float(cell.split("±")[0].replace(",", "")) for cell in cells(tab, rows, 1)]
        assert cells(tab, rows, 0) == ["my2.base", "my1.base", "my1.ps0"]
        assert len(p50) == 3


def cells(tab: Tab, rows: str, at: int) -> list[str]:
    result: list[str] = tab.run(f"{rows}.map(r => r.cells[{at}].firstChild.textContent.trim())")
    return result


def test_twenty_clients_are_twenty_strips_that_can_be_distinguished(browser: Browser, many: Path) -> None:
    with opened(browser, many, DESKTOP) as tab:
        unfold(tab)
        chart = (
            "[...document.querySelectorAll('figure')].find(f => /2\\.0\\.0: work of each client/.test(f.textContent))"
        )
        rects = "function rects(of) { return of.marktype === 'rect' ? of.items : (of.items ?? []).flatMap(rects); }"
        of_chart = f"{chart}.view.scenegraph().root"
        strips = tab.run(f"({rects})({of_chart}).map(({{ bounds }}) => [bounds.y1, bounds.y2])")
        assert max(bottom - top for top, bottom in strips) >= 7, "a strip is high enough to be seen"
        assert len({round(top) for top, _ in strips}) >= 20


def test_long_tables_are_folded(browser: Browser, many: Path) -> None:
    with opened(browser, many, DESKTOP) as tab:
        unfold(tab)
        high = "[...document.querySelectorAll('.table')].filter(t => t.getBoundingClientRect().height > 2600).length"
        assert tab.run(high) == 0
