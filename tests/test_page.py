"""The pages as a reader gets them: in a browser without a network, on a desktop and on a phone."""

from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, Browser, Tab, each_width, opened
from rqps.report import build
from synthetic import Shape, write_study
from synthetic_report import HOSTILE, only_relative_throughput, write_report

pytestmark = [pytest.mark.page, pytest.mark.usefixtures("one_kernel")]

PAGES = ("index.html", "relative_throughput.html", "runs/r01@my1.base@here.html")

each_page = pytest.mark.parametrize("page", PAGES)


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return only_relative_throughput(tmp_path_factory.mktemp("notebooks") / "analysis")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, notebooks: Path) -> Path:
    data = write_report(tmp_path_factory.mktemp("data"))
    return build("synthetic", data, data / "report", notebooks).parent


STRANGE = Shape(
    dbms=("my1.base", "my2.<b>*x*|`y`_&\"'", f"my3.{'long' * 18}"),
    steps=(HOSTILE, '"quoted" & [a](javascript:hacked()) | *b* _c_ `d`', "a-step-without-end-" * 9),
    rounds=4,
)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory, notebooks: Path) -> Path:
    data = write_study(tmp_path_factory.mktemp("strange"), STRANGE)
    return build("synthetic", data, data / "report", notebooks).parent


def charts_of(page: Path) -> int:
    return page.read_text().count('<script type="application/json" data-chart=')


def drawn(tab: Tab, page: Path) -> None:
    """Every chart is a drawing, and no picture stands in for one."""
    assert tab.wait_for_charts() == charts_of(page) == tab.run("document.querySelectorAll('.chart svg').length")
    small = "[...document.querySelectorAll('.chart svg')].filter(s => s.getBoundingClientRect().height < 60).length"
    assert tab.run(small) == 0


@each_page
@each_width
def test_a_page_asks_for_nothing_and_fits(browser: Browser, report: Path, page: str, width: int) -> None:
    file = report / page
    with opened(browser, file, width) as tab:
        if charts_of(file):
            drawn(tab, file)
        tab.must_fit(width)
        assert tab.requests() == [file.resolve().as_uri()]
        assert tab.complaints() == []


@each_width
def test_charts_fit_the_width_they_have(browser: Browser, report: Path, width: int) -> None:
    file = report / "relative_throughput.html"
    with opened(browser, file, width) as tab:
        drawn(tab, file)
        width_of = "c.querySelector('svg').getBoundingClientRect().width"
        wider = f"[...document.querySelectorAll('.chart')].filter(c => {width_of} > c.clientWidth + 2).map(c => c.id)"
        assert tab.run(wider) == []
        assert tab.run("document.querySelectorAll('.chart svg')[1].getBoundingClientRect().width") > 0.8 * min(
            width - 48, 880
        )


@pytest.mark.parametrize("page", PAGES[:2])
def test_a_phone_shows_the_first_table_within_two_screens(browser: Browser, report: Path, page: str) -> None:
    with opened(browser, report / page, PHONE) as tab:
        assert 0 < tab.run("document.querySelector('main .table table').getBoundingClientRect().top + scrollY") < 1688


@each_width
def test_the_steps_are_explained_on_at_most_a_screen(browser: Browser, report: Path, width: int) -> None:
    with opened(browser, report / PAGES[0], width, scripts=False) as tab:
        tab.run("document.querySelector('details.steps summary').click()")
        shown = tab.run("document.querySelector('details.steps dl').innerText")
        assert "point-query" in shown
        assert "One row by its primary key." in shown
        assert tab.run("document.querySelector('details.steps').getBoundingClientRect().height < innerHeight")
        assert tab.run("document.querySelector('.table abbr').title") == "One row by its primary key."
        tab.must_fit(width)


def test_a_chart_follows_when_the_phone_is_turned(browser: Browser, report: Path) -> None:
    file = report / "relative_throughput.html"
    with opened(browser, file, PHONE) as tab:
        drawn(tab, file)
        tab.call("Emulation.setDeviceMetricsOverride", width=844, height=390, deviceScaleFactor=1, mobile=True)
        tab.run("document.querySelectorAll('details.section').forEach((each) => { each.open = true; })")
        assert tab.wait_for("document.querySelector('.chart svg').getBoundingClientRect().width > 600")


@each_page
@each_width
def test_pictures_without_scripts(browser: Browser, report: Path, page: str, width: int) -> None:
    file = report / page
    with opened(browser, file, width, scripts=False) as tab:
        assert tab.run("document.querySelectorAll('.chart svg').length") == 0
        good = "[...document.querySelectorAll('.chart img')].filter(i => i.complete && i.naturalWidth > 300).length"
        assert tab.run(good) == charts_of(file)
        tab.must_fit(width)
        assert tab.requests() == [file.resolve().as_uri()]


def test_hovering_over_a_number_shows_where_it_is_from(browser: Browser, report: Path) -> None:
    file = report / "relative_throughput.html"
    with opened(browser, file, DESKTOP) as tab:
        drawn(tab, file)
        cell = "document.querySelector('#all-steps-at-a-glance-chart svg .layer_0_marks path')"
        box = tab.box(cell)
        for beside in (0, 3):
            tab.mouse(box["x"] + box["width"] / 2 + beside, box["y"] + 4, "mouseMoved")
        tooltip = tab.wait_for("document.querySelector('#vg-tooltip-element.visible')?.innerText")
        for word in ("point-query", "2.0.0", "interval", "rounds", "slower"):
            assert word in tooltip


def test_code_is_folded_away_and_opens_without_scripts(browser: Browser, report: Path) -> None:
    with opened(browser, report / "relative_throughput.html", DESKTOP, scripts=False) as tab:
        assert tab.run("document.querySelectorAll('details.code[open]').length") == 0
        assert tab.run("document.querySelectorAll('details.code').length") > 10
        tab.run("document.querySelector('details.code summary').click()")
        assert tab.run("document.querySelector('details.code pre').getBoundingClientRect().height") > 20


def test_names_with_markup_in_them_stay_text(browser: Browser, report: Path) -> None:
    """The made-up study's question, error and warning hold an image that would run a script."""
    for page in PAGES:
        with opened(browser, report / page, DESKTOP) as tab:
            assert tab.run("document.querySelectorAll('img[src=x]').length") == 0
            assert tab.run("window.hacked === undefined")


@each_width
def test_names_of_any_kind_stay_names_and_lead_to_their_rounds(browser: Browser, strange: Path, width: int) -> None:
    """HTML, Markdown, quotes and great length in the names of steps and configs, as in a study that somebody sent."""
    for page in ("index.html", "relative_throughput.html"):
        with opened(browser, strange / page, width) as tab:
            tab.must_fit(width)
            assert tab.run("document.querySelectorAll('img[src=x], main td b:empty, main td i').length") == 0
            assert tab.run("window.hacked === undefined")
            cells, links = (
                f"[...document.querySelectorAll('[id^=rqps-relative] {of}')]" for of in ("td", "a.to-rounds")
            )
            assert {*STRANGE.steps} <= set(tab.run(f"{cells}.map(e => e.textContent.trim())"))
            assert tab.run(f"{links}.length") == 2 * len(STRANGE.steps)
            assert tab.complaints() == []
            tab.run(f"{links}[0].click()")
            shown = tab.wait_for("document.querySelector('details.rounds[open]')?.innerText")
            assert shown.startswith(f"{STRANGE.steps[0]}: {STRANGE.dbms[1]} against my1.base")


def test_the_contents_and_the_links_lead_somewhere(browser: Browser, report: Path) -> None:
    with opened(browser, report / "relative_throughput.html", DESKTOP) as tab:
        lost = "[...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.hash)).length"
        assert tab.run("document.querySelectorAll('nav a').length") > 8
        assert tab.run(lost) == 0
    with opened(browser, report / "index.html", DESKTOP) as tab:
        links = tab.run(
            "[...document.querySelectorAll('a:not(.here)')].map(a => decodeURIComponent(new URL(a.href).pathname))"
        )
        names = {Path(link).name for link in links}
        assert names == {"r01@my1.base@here.html", "relative_throughput.html", "rounds.html"}
        assert [link for link in links if not Path(link).is_file()] == []


@pytest.mark.parametrize("page", PAGES[:2])
def test_a_number_leads_to_its_rounds_and_these_to_their_runs(browser: Browser, report: Path, page: str) -> None:
    with opened(browser, report / page, DESKTOP) as tab:
        numbers = "[...document.querySelectorAll('a.to-rounds')]"
        tab.run(
            f"{numbers}.find(a => a.hash === '#step=update-index&dbms=my2.ps0' && /0.80/.test(a.textContent)).click()"
        )
        opened_one = "document.querySelectorAll('details.rounds[open]')"
        shown = tab.wait_for(f"{opened_one}.length === 1 && {opened_one}[0].innerText")
        assert shown.startswith("update-index: my2.ps0 against my1.base")
        assert "throughput 0.80x (0.80–0.80, 6 rounds): slower" in shown
        for number in range(1, 7):
            assert f"run=r{number:02}@my2.ps0@here/steps.parquet" in shown
        runs = tab.run(f"[...{opened_one}[0].querySelectorAll('a:not(.here)')].map(a => decodeURIComponent(a.href))")
        assert [Path(run).name for run in runs] == ["r01@my1.base@here.html"], "the run that has a page"


def test_a_number_within_a_build_leads_to_rounds_of_its_own(browser: Browser, report: Path) -> None:
    with opened(browser, report / "relative_throughput.html", DESKTOP) as tab:
        links = "[...document.querySelectorAll('#rqps-config a.to-rounds')]"
        tab.run(f"{links}.find(a => a.hash === '#step=update-index&dbms=my2.ps0&base=my2.base').click()")
        opened_one = "document.querySelectorAll('details.rounds[open]')"
        shown = tab.wait_for(f"{opened_one}.length === 1 && {opened_one}[0].innerText")
        assert shown.startswith("update-index: my2.ps0 against my2.base")
        assert "run=r06@my2.ps0@here/steps.parquet" in shown


def test_in_print_nothing_is_cut_off_or_folded_away(browser: Browser, report: Path) -> None:
    with opened(browser, report / "relative_throughput.html", DESKTOP) as tab:
        drawn(tab, report / "relative_throughput.html")
        head = "document.querySelector('#rqps-absolute thead tr:last-child')"
        tab.run(f"{head}.append(Object.assign(document.createElement('th'), {{style: 'min-width: 900px'}}))")
        tab.run("dispatchEvent(new Event('beforeprint'))")
        tab.call("Emulation.setEmulatedMedia", media="print")
        tab.call("Emulation.setDeviceMetricsOverride", width=718, height=1000, deviceScaleFactor=1, mobile=False)
        tab.wait_for("innerWidth === 718")
        cut = "[...document.querySelectorAll('.table table, pre')].filter(e => e.getBoundingClientRect().right > 720)"
        assert tab.run(f"{cut}.map(e => e.closest('[id]')?.id)") == []
        assert tab.run("document.querySelectorAll('details.long:not([open])').length") == 0
