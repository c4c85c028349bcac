"""A report can be sent as one file, in which every page opens, and from which its data are saved."""

import re
import resource
import zipfile
from pathlib import Path

import polars as pl
import pytest
import rqps
from browser import DESKTOP, Browser, each_width, opened
from child import until
from markupsafe import Markup
from rqps.report import build, one_file
from rqps.report.one_file import unpacked
from synthetic import Shape
from synthetic_report import only_relative_throughput, write_report

PAGE, DATA = "relative_throughput.html", "synthetic.rqps"
FRAME = "document.querySelector('iframe')?.contentDocument"

pytestmark = [pytest.mark.page, pytest.mark.usefixtures("one_kernel")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_report(tmp_path_factory.mktemp("data"), Shape(rounds=4))
    notebooks = only_relative_throughput(tmp_path_factory.mktemp("notebooks") / "analysis")
    return build("synthetic", data, data / "report", notebooks, with_data=True).parent


def test_all_pages_and_the_data_are_in_it_and_no_link_leads_out(report: Path) -> None:
    file = one_file(report)
    assert file == report.with_name("synthetic.html").resolve()
    inside = unpacked(file)
    assert inside.keys() == {"index.html", PAGE, "rounds.html", DATA}
    assert inside[DATA] == (report / DATA).read_bytes()
    pages = {name: text.decode() for name, text in inside.items() if name != DATA}
    links = {link for text in pages.values() for link in re.findall(r'<a [^>]*href="([^"#:]+)[#"]', text)}
    assert links == {"index.html", PAGE, "rounds.html", DATA}
    assert "runs/r01%40my1.base" in (report / "index.html").read_text()


def test_one_line_of_polars_reads_the_data(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(report)
    (line,) = re.findall(r"pl\.read_parquet\(.*\)", str(Markup((report / "index.html").read_text()).unescape()))
    steps = eval(line, {"pl": pl, "zipfile": zipfile})
    assert steps.equals(rqps.load(report / DATA).steps.drop("engine"))  # which is in the table of runs


def test_without_room_the_file_of_before_stays(report: Path) -> None:
    before = one_file(report).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            one_file(report)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert report.with_name("synthetic.html").read_bytes() == before
    assert sorted(path.name for path in report.parent.iterdir()) == ["synthetic", "synthetic.html"]


@each_width
def test_a_link_opens_a_page_with_its_charts_and_another_leads_on(browser: Browser, report: Path, width: int) -> None:
    with opened(browser, one_file(report), width) as tab:
        tab.run(f"document.querySelector('main a[href=\"{PAGE}\"]').click()")
        assert tab.wait_for(f"{FRAME}?.documentElement?.dataset.charts") == "5 of 5"
        assert tab.run("location.hash") == f"#/{PAGE}"
        tab.run(f"{FRAME}.querySelector('nav li:last-child a').click()")
        last = f"{FRAME}.getElementById({FRAME}.querySelector('nav li:last-child a').hash.slice(1))"
        tab.wait_for(f"Math.abs({last}.getBoundingClientRect().top) < innerHeight")
        tab.run(f"{FRAME}.querySelector('.table a[href^=\"rounds.html#\"]').click()")
        tab.wait_for(f"{FRAME}?.querySelectorAll('details.rounds[open]').length")
        address = tab.run("location.hash")
        tab.run(f"{FRAME}.querySelector('.study a').click()")
        tab.wait_for("!document.querySelector('iframe')")
        tab.run("history.back()")
        tab.wait_for(f"{FRAME}?.querySelectorAll('details.rounds[open]').length")
        assert tab.run("location.hash") == address
        assert tab.complaints() == []
        assert [url for url in tab.requests() if not url.startswith(("file:", "about:"))] == []


def test_an_address_inside_it_can_be_opened(browser: Browser, report: Path) -> None:
    with opened(browser, one_file(report), DESKTOP, fragment=f"#/{PAGE}") as tab:
        assert tab.wait_for(f"{FRAME}?.documentElement?.dataset.charts") == "5 of 5"


def test_its_data_can_be_saved(browser: Browser, report: Path, tmp_path: Path) -> None:
    with opened(browser, one_file(report), DESKTOP) as tab:
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        tab.run(f"document.querySelector('a[href=\"{DATA}\"]').click()")
        saved = tmp_path / DATA
        until(saved.is_file, why=lambda: str(list(tmp_path.iterdir())))
        assert saved.read_bytes() == (report / DATA).read_bytes()
        assert tab.complaints() == []


def test_without_scripts_its_first_page_still_answers(browser: Browser, report: Path) -> None:
    with opened(browser, one_file(report), DESKTOP, scripts=False) as tab:
        assert "regressed most: " in tab.run("document.querySelector('main').innerText")
        assert "other pages need scripts" in tab.run("document.querySelector('noscript').innerText")
