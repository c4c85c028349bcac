"""47 steps of 10 builds as a reader gets them: the whole at a glance, and tables that can be sorted."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, Browser, Tab, opened
from rqps.report import build
from rqps.report.one_file import one_file
from rqps.report.render import asset
from synthetic import shape_of_many
from synthetic_report import only_relative_throughput, write_report

pytestmark = [pytest.mark.page, pytest.mark.usefixtures("one_kernel")]

PAGE = "relative_throughput.html"
HEATMAP, MULTIPLES = "all-steps-at-a-glance-chart", "over-the-releases-chart"
DRAWING = ":is(svg, canvas)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    notebooks = only_relative_throughput(tmp_path_factory.mktemp("notebooks") / "analysis")
    data = write_report(tmp_path_factory.mktemp("big"), shape_of_many())
    return build("synthetic", data, data / "report", notebooks).parent


def column(tab: Tab, table: str, at: int) -> list[str]:
    rows = f"[...document.querySelectorAll('#{table} tbody tr')].filter(r => r.cells.length > 1)"
    cells: list[str] = tab.run(f"{rows}.map(r => r.cells[{at}].textContent.trim())")
    return cells


def marks(chart: str, name: str = "") -> str:
    """JavaScript's list of a chart's marks, of one name or of all texts, as Vega keeps them whatever it draws on."""
    wanted = f"of.name === '{name}'" if name else "of.marktype === 'text'"
    search = f"function marks(of) {{ return {wanted} ? of.items : (of.items ?? []).flatMap(marks); }}"
    return f"({search})(document.querySelector('#{chart} figure, figure#{chart}').view.scenegraph().root)"


def unfold(tab: Tab) -> None:
    tab.wait_for_charts()
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")


def click(tab: Tab, table: str, at: int) -> None:
    tab.run(f"document.querySelector('#{table} thead tr:last-child').cells[{at}].querySelector('button').click()")


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def wide(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[tuple[Tab, int]]:
    """The page with all its charts, and its width."""
    with opened(browser, report / PAGE, request.param) as tab:
        tab.wait_for_charts()
        yield tab, request.param


def test_the_whole_is_on_one_screen_and_nothing_is_wider(wide: tuple[Tab, int]) -> None:
    tab, width = wide
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.complaints() == []
    drawing = f"document.querySelector('#{HEATMAP} {DRAWING}')"
    assert tab.run(f"{drawing}.getBoundingClientRect().height") < 1250
    scroll = f"document.querySelector('#{HEATMAP} .scroll')"
    assert tab.run(f"{scroll}.scrollWidth <= {scroll}.clientWidth"), "it is seen without scrolling"
    shown = f"{marks(HEATMAP, 'layer_1_marks')}.map(({{ text }}) => text)"
    assert tab.run(f"{shown}.filter(t => /\\d\\.\\d\\d|~1/.test(t)).length") == 47 * 9
    signs = tab.run(f"{shown}.filter(t => /^[▼▲=?]/.test(t)).length")
    assert signs == (47 * 9 if width == DESKTOP else 0), "the sign stands where there is room for it"


def test_numbers_of_the_heatmap_stay_within_their_cells(wide: tuple[Tab, int]) -> None:
    tab, _ = wide
    cell = f"{marks(HEATMAP, 'layer_0_marks')}[0].width"
    text = f"{marks(HEATMAP, 'layer_1_marks')}.map(({{ bounds }}) => bounds.x2 - bounds.x1)"
    assert tab.run(f"Math.max(...{text})") <= tab.run(cell) + 0.5


def test_small_charts_stand_in_as_many_columns_as_fit(wide: tuple[Tab, int]) -> None:
    tab, _ = wide
    tab.run(f"document.querySelector('#{MULTIPLES}').closest('details').open = true")
    place = f"document.querySelector('#{MULTIPLES} .chart')"
    drawing = f"document.querySelector('#{MULTIPLES} {DRAWING}')"
    assert tab.run(f"{drawing}.getBoundingClientRect().width") <= tab.run(f"{place}.clientWidth") + 2
    titles = tab.run(f"{marks(MULTIPLES)}.map(({{ text }}) => text)")
    assert {"update-index_range=100", "scan_range=100", "read-only.pre_range=10000"} <= set(titles)


def test_small_charts_are_set_anew_when_the_phone_is_turned(browser: Browser, report: Path) -> None:
    with opened(browser, report / PAGE, PHONE) as tab:
        tab.wait_for_charts()
        tab.run(f"document.querySelector('#{MULTIPLES}').closest('details').open = true")
        wide = f"document.querySelector('#{MULTIPLES} {DRAWING}').getBoundingClientRect().width > 500"
        assert not tab.run(wide)
        tab.call("Emulation.setDeviceMetricsOverride", width=844, height=390, deviceScaleFactor=1, mobile=True)
        tab.wait_for(wide)


def test_a_click_on_a_head_sorts_within_the_groups_and_a_third_one_undoes_it(browser: Browser, report: Path) -> None:
    with opened(browser, report / PAGE, DESKTOP) as tab:
        table = "rqps-relative-operations_per_s"
        rows = f"document.querySelectorAll('#{table} tbody tr').length"
        was, many = column(tab, table, 1), tab.run(rows)
        click(tab, table, 1)
        up = column(tab, table, 1)
        assert up != was
        assert sorted(up) == sorted(was)
        numbers = [float(cell.split()[1].split("no")[0][:4]) for cell in up[:-1]]  # the last is the mean
        assert numbers[:17] == sorted(numbers[:17]), "the point queries"
        assert numbers[-10:] == sorted(numbers[-10:]), "the writes"
        assert tab.run(f"document.querySelector('#{table} [aria-sort]').getAttribute('aria-sort')") == "ascending"
        click(tab, table, 1)
        down = column(tab, table, 1)
        assert [float(cell.split()[1][:4]) for cell in down[:17]] == numbers[:17][::-1]
        click(tab, table, 1)
        assert column(tab, table, 1) == was
        assert tab.run(rows) == many


def test_a_row_has_an_address_that_leads_to_it(browser: Browser, report: Path) -> None:
    with opened(browser, report / PAGE, DESKTOP) as tab:
        link = "[...document.querySelectorAll('#rqps-relative-operations_per_s a.here')].at(-1).hash"
        fragment = tab.run(link)
        assert tab.run("new Set([...document.querySelectorAll('tr[id]')].map(r => r.id)).size") > 47
    with opened(browser, report / PAGE, DESKTOP, fragment=fragment) as tab:
        row = f"document.getElementById(decodeURIComponent('{fragment[1:]}'))"
        tab.wait_for(f"(({{top, bottom}}) => top > 0 && bottom < innerHeight)({row}.getBoundingClientRect())")


def test_rounds_stand_below_their_verdict_and_are_chosen_by_name(browser: Browser, report: Path) -> None:
    with opened(browser, report / "rounds.html", DESKTOP) as tab:
        headings = "[...document.querySelectorAll('main h2')].filter(heading => heading.checkVisibility())"
        assert tab.run(f"{headings}.map(heading => heading.textContent)") == ["Inconclusive"], (
            "two rounds decide nothing"
        )
        shown = "[...document.querySelectorAll('details.rounds')].filter(list => list.checkVisibility())"
        every = tab.run(f"{shown}.length")
        tab.run("document.querySelector('.filter [type=search]').value = 'Update-'")
        tab.run("document.querySelector('.filter').dispatchEvent(new Event('input'))")
        titles = tab.run(f"{shown}.map(list => list.firstElementChild.textContent)")
        assert 2 < len(titles) < every
        assert all("update-" in title for title in titles)
        assert tab.run("document.querySelector('.filter').textContent").endswith(f"{len(titles)} of {every} rows")


def test_rounds_are_made_when_they_are_unfolded_and_each_has_its_address(browser: Browser, report: Path) -> None:
    rounds = report / "rounds.html"
    with opened(browser, rounds, DESKTOP) as tab:
        first, tables = (
            "document.querySelector('details.rounds')",
            "document.querySelectorAll('details.rounds table')",
        )
        assert tab.run(f"{tables}.length") == 0
        tab.run(f"{first}.querySelector('summary').click()")
        assert tab.wait_for(f"{tables}.length") == 1
        assert tab.run(f"{first}.querySelectorAll('li').length") > 1
        fragment = tab.run(f"[...{first}.querySelectorAll('a.here')].at(-1).hash")
    with opened(browser, rounds, DESKTOP, fragment=fragment) as tab:
        row = f"document.getElementById(decodeURIComponent('{fragment[1:]}'))"
        tab.wait_for(f"{row}?.checkVisibility()")
        assert tab.run(f"{tables}.length") == 1
        assert tab.complaints() == []
    with opened(browser, rounds, DESKTOP, scripts=False) as tab:
        tab.call("DOM.enable")
        document = tab.call("DOM.getFlattenedDocument", depth=-1)["nodes"]
        names = [node["nodeName"] for node in document]
        assert names.count("TABLE") == rounds.read_text().count('<details class="rounds"')


def test_rows_are_chosen_by_name_and_by_what_is_sure(browser: Browser, report: Path, tmp_path: Path) -> None:
    """Of two rounds nothing is sure, so some cells are made so."""
    page = tmp_path / PAGE
    page.write_text((report / PAGE).read_text().replace('nowrap">? 0', 'nowrap">▼ 0', 200))
    with opened(browser, page, DESKTOP) as tab:
        table = "document.querySelector('#rqps-relative-operations_per_s table')"
        bar = f"{table}.closest('.table').previousElementSibling"
        shown = f"[...{table}.tBodies[0].rows].filter(r => r.checkVisibility())"
        unfold(tab)
        every = tab.run(f"{shown}.length")
        tab.run(f"{bar}.querySelector('[type=search]').value = 'Update-'")
        tab.run(f"{bar}.dispatchEvent(new Event('input'))")
        rows = tab.run(f"{shown}.map(r => r.cells[0].textContent)")
        assert len(rows) > 2
        assert [row for row in rows if row.startswith("update-")] == rows[1:], "below the heading of their group"
        assert tab.run(f"{bar}.textContent").endswith(f"{len(rows) - 1} of 48 rows")
        tab.run(f"{bar}.querySelector('[type=search]').value = ''")
        for signs, rows in (("▲▼", True), ("▼", True), ("▲", False)):
            tab.run(f"{bar}.querySelector('select').value = '{signs}'")
            tab.run(f"{bar}.dispatchEvent(new Event('input'))")
            sure = tab.run(f"{shown}.filter(r => r.cells.length > 1).map(r => /[{signs}]/.test(r.textContent))")
            assert bool(sure) == rows
            assert all(sure)
        tab.run(f"{bar}.querySelector('select').value = ''")
        tab.run(f"{bar}.dispatchEvent(new Event('input'))")
        assert tab.run(f"{shown}.length") == every


def test_a_table_is_copied_as_markdown_as_it_stands(browser: Browser, report: Path) -> None:
    with opened(browser, report / "index.html", DESKTOP) as tab:
        tab.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        click(tab, "rqps-groups", 0)
        tab.run("document.querySelector('#rqps-groups').closest('.table').nextElementSibling.click()")
        head, ruler, first, *others = tab.wait_for("window.copied").splitlines()
        assert (head.split(" | ")[0], ruler[:5], len(others)) == ("| dbms", "| ---", 8)
        assert first.startswith("| 2.0.0 | ")
        assert {len(re.split(r"(?<!\\)\|", line)) for line in (head, ruler, first, *others)} == {head.count("|") + 1}


def test_names_are_sorted_as_names_and_by_their_numbers(browser: Browser, report: Path) -> None:
    with opened(browser, report / "index.html", DESKTOP) as tab:
        table = "rqps-groups"
        click(tab, table, 0)
        names = column(tab, table, 0)
        assert names == [f"{number}.0.0" for number in range(2, 11)]


def test_the_summary_begins_with_the_groups_and_what_changed_most(browser: Browser, report: Path) -> None:
    with opened(browser, report / "index.html", DESKTOP) as tab:
        assert column(tab, "rqps-groups", 0)
        assert len(column(tab, "rqps-relative-operations_per_s", 0)) == 12 + 1, "and the geometric mean"
        assert tab.complaints() == []


def test_on_a_phone_the_name_of_a_row_stays_in_sight(browser: Browser, report: Path) -> None:
    with opened(browser, report / PAGE, PHONE) as tab:
        unfold(tab)
        box = "document.querySelector('#rqps-relative-operations_per_s').closest('.table')"
        left = "document.querySelector('#rqps-relative-operations_per_s tbody tr:nth-child(3)').cells[0]"
        before = tab.run(f"{left}.getBoundingClientRect().left")
        tab.run(f"{box}.scrollLeft = 200")
        assert tab.run(f"{box}.scrollLeft") > 100
        assert tab.run(f"{left}.getBoundingClientRect().left") == before
        assert 90 < tab.run(f"{left}.getBoundingClientRect().width") < 180, "and leaves room for numbers"
        assert tab.run(f"{left}.getBoundingClientRect().height") < 80


def test_without_scripts_tables_are_as_they_were_made(browser: Browser, report: Path) -> None:
    with opened(browser, report / PAGE, DESKTOP, scripts=False) as tab:
        assert tab.run("document.querySelectorAll('button').length") == 0
        assert column(tab, "rqps-relative-operations_per_s", 0)[0] == "point-query.pre_range=100"


def test_as_one_file_it_is_small_enough_to_be_sent(report: Path) -> None:
    assert one_file(report).stat().st_size < 5_000_000


def test_ratios_changes_times_and_dates_are_sorted_by_what_they_mean(browser: Browser, tmp_path: Path) -> None:
    columns = {
        "ratio": ["▼ 0.88", "= 1.00", "▲ 1.0400", "▲ 1.060"],
        "change": ["−83 ± 26", "−36.0 %", "−4.5 %", "+3.1 %"],
        "took": ["900 µs", "58 s", "1 min 5 s", "1 h 0 min"],
        "started": ["2026-01-05 12:00:00", "2026-01-05 12:40:00", "2026-01-06 09:00:00", "2026-11-01 08:00:00"],
    }
    shuffled = (
        [columns["ratio"][at] for at in (2, 0, 3, 1)],
        *([columns[name][at] for at in (1, 3, 0, 2)] for name in ("change", "took", "started")),
    )
    cells = (
        "".join(
            f"<td><b>{one}</b><span>0.86–0.90 · n=6</span>" if at == 0 else f"<td>{one}" for at, one in enumerate(row)
        )
        for row in zip(*shuffled, strict=True)
    )
    rows = "".join(f"<tr><td>a{row}" for row in cells)
    script = asset("tables.js")
    (page := tmp_path / "page.html").write_text(
        f"<!doctype html><meta charset=utf-8><div class=table><table id=it><thead><tr><th>step<th>"
        f"{'<th>'.join(columns)}<tbody>{rows}</table></div><script>{script}</script>"
    )
    with opened(browser, page, DESKTOP) as tab:
        for at, (name, ordered) in enumerate(columns.items(), start=1):
            click(tab, "it", at)
            assert [cell.removesuffix("0.86–0.90 · n=6") for cell in column(tab, "it", at)] == ordered, name
