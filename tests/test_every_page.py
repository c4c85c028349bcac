"""Every page of every sample opens, draws its charts, shows all columns, and claims what its frames have, without a
complaint."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, Browser, empty, opened
from rqps.report import build, one_file, site
from rqps.report.check import wrong_claims
from rqps.report.claimed import frames_of
from rqps.report.site import NOTEBOOKS, analysis_notebooks, reading
from rqps.show import drawing
from rqps.store import load

WIDER = """[...document.querySelectorAll("main .table")].filter((each) => each.checkVisibility())
.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.innerText.slice(0, 80))"""
"""Tables that hide a column."""
TWICE = """[...document.querySelectorAll("[id]")].map(({ id }) => id).filter((id, at, ids) => ids.indexOf(id) < at)"""
SCREENS = """(() => {
  const shown = [...document.querySelectorAll("main :is(.findings li, table, pre, .chart, summary)")]
    .filter((each) => each.checkVisibility() && /[0-9]/.test(each.textContent) && !each.textContent.endsWith("?"));
  return Math.min(...shown.map((each) => each.getBoundingClientRect().top)) / innerHeight;
})()"""
"""The number of screens above the first table, chart, sentence or row of a list with a number; no question counts."""
NODES_AT_REST = """new Promise((done) => {
  const look = (before) => {
    const now = document.querySelectorAll("*").length;
    if (now === before) done(now); else setTimeout(look, 100, now);
  };
  look(-1);
})"""
"""The number of nodes once it stays the same: charts are drawn again for another width."""
MOST_NODES = 30_000
SERVERS = """[...document.querySelectorAll("header, main")].flatMap((part) => {
  const copy = part.cloneNode(true);
  for (const each of copy.querySelectorAll("code, pre, script, style")) each.remove();
  return copy.textContent.match(/.*\\bservers?\\b.*/gi) ?? [];
})"""
"""Lines on servers, except in code."""
SAMPLE = Path(__file__).parent.parent / "data/sample"
STUDIES = sorted(path.name.removeprefix("study=") for path in SAMPLE.iterdir())

pytestmark = pytest.mark.page


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of reports, in which the page that is the same for all of them is made once. One kernel executes the
    notebooks of all, since it takes 2 s of CPU to start. Nobody looks at the pictures in place of the charts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "__file__", str(Path(__file__).with_name("small_pictures.py")))
        with reading(tmp_path_factory.mktemp("kernel") / "executed") as reader:
            patch.setattr(site, "reading", lambda _folder: nullcontext(reader))
            yield tmp_path_factory.mktemp("reports")


@pytest.mark.parametrize("study", [name for name in STUDIES if not (name[-2] == "-" and name[-1].isdigit())])
def test_every_page_of_a_sample_opens(study: str, browser: Browser, samples: Path, reports: Path) -> None:
    before = {*reports.glob("*.html")}
    report = build(study, samples, reports).parent
    assert one_file(report).stat().st_size < 5_000_000
    frame_of = frames_of(load(study, samples), analysis_notebooks(NOTEBOOKS))
    assert "data-claims=" in (report / "index.html").read_text(), "a first page says something of a frame"
    with empty(browser) as tab:
        for page in sorted({*report.glob("*.html"), *reports.glob("*.html")} - before):
            assert wrong_claims(page.name, page.read_bytes(), frame_of) == []
            charts = page.read_text().count("data-chart=")
            tab.go_to(page.as_uri(), PHONE)
            assert tab.run(SCREENS) < 1, f"{page.name} begins with its answer on a phone"
            if charts:
                assert tab.wait_for("document.documentElement.dataset.charts") == f"{charts} of {charts}", page.name
            tab.resize(DESKTOP)  # to load it again would take as much CPU as all that follows
            assert tab.run(NODES_AT_REST) < MOST_NODES, page.name
            assert tab.run(WIDER) == [], page.name
            assert tab.run(TWICE) == [], page.name
            if study.startswith("rocksdb") and page.parent == report:
                assert tab.run(SERVERS) == [], f"{page.name}: RocksDB is a library"
            assert (tab.faint("dark"), tab.faint("light")) == ([], []), page.name
            assert tab.complaints() == [], page.name


def test_faint_text_is_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    dark = "@media (prefers-color-scheme: dark) { html { filter: invert(.92) hue-rotate(180deg); } }"
    lines = '<p style="color:#999">faint</p><p style="background:#e08244;color:#1c2630">on orange</p><p>black</p>'
    cells = (
        f'<path fill="{cell}" opacity="{opacity}" d="M{left},0h90v40h-90Z"/><text x="{left + 9}" y="25">{cell}</text>'
        for left, cell, opacity in ((0, "#333", 1), (100, "#333", 0.2), (200, "#fff", 1))
    )
    page.write_text(f"<!doctype html><style>{dark}</style><body>{lines}<svg width=300>{''.join(cells)}</svg>")
    with opened(browser, page, DESKTOP) as tab:
        assert tab.faint("light") == ["P 153,153,153 on 255,255,255: 2.85", "text 0,0,0,1 on 51,51,51: 1.66"]
        of_page, of_drawing = ["255,255,255: 3.40", "224,130,68: 2.76"], ["51,51,51: 1.52"]
        assert [text.partition(" on ")[2] for text in tab.faint("dark")] == of_page + of_drawing
