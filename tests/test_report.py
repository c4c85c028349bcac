"""A report is one folder of pages that carry everything they need, also where a study went wrong."""

import base64
import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from child import Child, running_from, until
from nbformat.v4 import new_code_cell, new_notebook, new_output
from rqps import show
from rqps.errors import RqpsError
from rqps.report import build
from rqps.report.render import content_of, json_in_html, notebook_page, vega
from rqps.report.site import MOST_OF_A_LOG, NOTEBOOKS, Progress
from rqps.show.renderer import MIME
from rqps.show.words import NOT_COMPARED
from rqps.store import write_manifest, write_study_card
from rqps.terminal import Terminal
from synthetic import Shape, card, manifest, write_study
from synthetic_duet import write_duets
from synthetic_report import KERNEL, notebook_of, only_relative_throughput, small_analysis, write_report

PAGE = "relative_throughput.html"
ROOM_BYTES = 32_768
"""Less than a page takes."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("data"), Shape(rounds=2))


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_analysis(tmp_path_factory.mktemp("notebooks") / "analysis")


@pytest.fixture(scope="module")
def report(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    notebooks = only_relative_throughput(tmp_path_factory.mktemp("notebooks") / "analysis")
    index = build("synthetic", data, data / "report", notebooks)
    assert index == (data / "report/synthetic/index.html").resolve()
    return index.parent


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def pages(report: Path) -> list[Path]:
    return sorted(report.rglob("*.html"))


def test_there_is_a_page_for_the_study_each_notebook_and_each_run_that_has_one(report: Path) -> None:
    names = [str(page.relative_to(report)) for page in pages(report)]
    assert names == ["index.html", PAGE, "rounds.html", "runs/r01@my1.base@here.html"]


def test_a_duet_has_one_page_with_the_logs_of_all_its_servers(notebooks: Path, tmp_path: Path) -> None:
    unit = write_duets(tmp_path) / "raw/study=synthetic/run=r01@here"
    nbformat.write(notebook_of([]), unit / "notebook.ipynb")
    for name in ("my1.base/logs/mysqld.err", "my2.base/logs/mysqld.err", "logs/00-point-query.log"):
        (unit / name).parent.mkdir(exist_ok=True)
        (unit / name).write_text(f"{'.' * 2 * MOST_OF_A_LOG}the end of {name} <b>")
    report = build("synthetic", tmp_path, tmp_path / "report", notebooks).parent
    (page,) = (report / "runs").iterdir()
    output = page.read_text()
    assert page.name == "r01@here.html"
    assert output.count("the end of ") == 3
    assert "the end of my2.base/logs/mysqld.err &lt;b&gt;</pre>" in output
    assert len(output) < 4 * MOST_OF_A_LOG + len((report / "index.html").read_text())
    rounds = Tags((report / "rounds.html").read_text())
    led = [row["href"] for row in rounds.all("a") if "runs/" in (row["href"] or "")]
    assert set(led) == {"runs/r01%40here.html"}
    assert len(led) >= 2 * len(Shape().steps), "base and me of each step"


def test_nothing_in_a_page_points_outside(report: Path) -> None:
    for page in pages(report):
        for _, attributes in Tags(page.read_text()).found:
            for name in ("src", "href", "action", "poster", "data", "srcset"):
                target = attributes.get(name) or ""
                assert not re.match(r"\s*(\w+:)?//", target), target
                assert not target.startswith("/"), target
        assert "@import" not in page.read_text()
        (policy,) = (meta["content"] or "" for meta in Tags(page.read_text()).all("meta") if "http-equiv" in meta)
        assert policy.startswith("default-src 'none'; img-src data:;")


def test_a_kept_notebook_shows_tables_and_nothing_that_a_browser_would_obey(report: Path) -> None:
    page = (report / "runs/r01@my1.base@here.html").read_text()
    assert "<td>a cell</td>" in page
    assert [attributes for tag, attributes in Tags(page).found if {"onclick", "onerror"} & attributes.keys()] == []
    assert "<script>window.hacked" not in page


@pytest.mark.parametrize(
    "hostile",
    [
        {"data": {"url": "https://example.org/rows.json"}},
        {"encoding": {"href": {"value": "javascript:window.hacked = 1"}}},
        {"mark": {"type": "image", "url": "file:///etc/hostname"}},
        {"params": [{"name": "hacked", "expr": "warn('hacked')"}]},
        {"config": {"signals": [{"name": "hacked", "update": "event.view.hacked = 1"}]}},
        {"encoding": {"x": {"axis": {"labelExpr": "vlSelectionTuples('hacked', [])"}}}},
        {"transform": [{"calculate": "datum.a", "as": "hacked"}]},
        {"usermeta": {"embedOptions": {"loader": {"http": {"hacked": 1}}}}},
    ],
)
def test_a_chart_of_a_kept_notebook_that_fetches_leads_or_computes_is_its_picture(
    hostile: dict[str, Any], tmp_path: Path
) -> None:
    plain = {"mark": "bar", "data": {"name": "rows"}, "datasets": {"rows": [{"url": 1, "href": 2}]}}
    pages = {}
    for name, chart in {"plain": plain, "hostile": plain | hostile}.items():
        output = new_output("display_data", {MIME: chart, "image/png": "cGljdHVyZQ=="})
        nbformat.write(new_notebook(cells=[new_code_cell("chart", outputs=[output])]), tmp_path / f"{name}.ipynb")
        _, pages[name] = notebook_page(
            tmp_path / f"{name}.ipynb", study="any", home="..", made="today", trusted=False
        )
        assert 'src="data:image/png;base64,cGljdHVyZQ=="' in pages[name]
    assert [("data-chart=" in pages[name]) for name in ("plain", "hostile")] == [True, False]
    assert "hacked" not in pages["hostile"]
    assert "example.org" not in pages["hostile"]


def test_a_page_has_one_bundle_and_every_chart_its_picture(report: Path) -> None:
    page = (report / PAGE).read_text()
    tags = Tags(page)
    specs = [script for script in tags.all("script") if "data-chart" in script]
    assert len(specs) == len(tags.all("figure")) == 5
    assert len([script for script in tags.all("script") if not script.get("type")]) == 4
    assert page.count("window.vegaEmbed=") == 1
    pictures = [picture["src"] or "" for picture in tags.all("img")]
    assert len(pictures) == 5
    for picture in pictures:
        assert base64.b64decode(picture.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert len(page) < 1_800_000


def test_the_bundle_needs_no_cache_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = vega()
    (tmp_path / "file").touch()
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "file"))
    assert vega.__wrapped__() == stored


def test_a_page_without_charts_carries_no_bundle(report: Path) -> None:
    assert len((report / "index.html").read_text()) < 50_000


def test_the_index_has_question_findings_and_failures(report: Path) -> None:
    index = (report / "index.html").read_text()
    assert "<h1>What does &lt;img" in index
    assert "a verdict takes 4 rounds: there are" in index
    assert "server killed &lt;img" in index
    assert "Measured on here from 2026-01-05 12:00 to 12:05 UTC, 6 runs." in index
    assert "same-cpu: dbms on CPU 0, client on CPU 0, observer on CPU 1" in index
    assert index.count("runs/r01%40my1.base%40here.html") == 1


def test_a_second_report_takes_the_place_of_the_first(
    data: Path, notebooks: Path, tmp_path: Path, never_missing: list[Path]
) -> None:
    stale = tmp_path / "synthetic/runs/gone.html"
    stale.parent.mkdir(parents=True)
    stale.write_text("of a run that is no more")
    (tmp_path / "synthetic/index.html").write_text("an older report")
    never_missing.append(tmp_path / "synthetic/index.html")
    script = f"""
    from pathlib import Path
    from rqps.report import site
    site._write_index = lambda *_: turn()
    site.build("synthetic", Path({str(data)!r}), Path({str(tmp_path)!r}), Path({str(notebooks)!r}))
    """
    with Child(script) as killed:
        killed.kill()
    assert len(list(tmp_path.iterdir())) == 2
    index = build("synthetic", data, tmp_path, notebooks)
    assert index.is_file()
    assert not stale.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["synthetic"]


def test_a_page_that_all_reports_share_is_the_old_one_until_the_new_one_is_whole(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "report/published.html"
    page.parent.mkdir()
    page.write_text("the old page")
    os.utime(page, (0, 0))
    cells = [
        nbformat.v4.new_code_cell('study = "x"\ndata = None', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_markdown_cell("# Published numbers"),
    ]
    (tmp_path / "notebooks").mkdir()
    of_all = nbformat.v4.new_notebook(cells=cells, metadata={"rqps": {"studies": "all"}})
    nbformat.write(of_all, tmp_path / "notebooks/published.ipynb")
    script = f"""
    import shutil
    from pathlib import Path
    from rqps.report import site

    whole = Path.write_text

    def half(path, text, **how):
        if path.name == "published.html":
            turn(path.write_bytes(text[: len(text) // 2].encode()))
        return whole(path, text, **how)

    Path.write_text = half
    site._execute = lambda notebook, place, *_: (place.mkdir(), shutil.copy(notebook, place / site.RESULT))
    site.build("synthetic", {str(data)!r}, {str(page.parent)!r}, Path({str(tmp_path / "notebooks")!r}))
    """
    with Child(script) as killed:
        assert int(killed.said) > 1000
        killed.kill()
    assert page.read_text() == "the old page"


def test_without_room_the_old_pages_stay(data: Path, tmp_path: Path) -> None:
    old = tmp_path / "synthetic/index.html"
    old.parent.mkdir()
    old.write_text("the old page")
    words = ["-m", "rqps.cli", "report", "synthetic", "--data", str(data), "--out", str(tmp_path)]
    command = ["prlimit", f"--fsize={ROOM_BYTES}", sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert old.read_text() == "the old page"
    assert [path.name for path in tmp_path.iterdir()] == ["synthetic"]


def test_a_folder_that_is_no_report_stays(data: Path, notebooks: Path, tmp_path: Path) -> None:
    saved = tmp_path / "synthetic/notes.txt"
    saved.parent.mkdir()
    saved.write_text("somebody's own")
    with pytest.raises(RqpsError, match="synthetic: exists and is not a report"):
        build("synthetic", data, tmp_path, notebooks)
    assert saved.read_text() == "somebody's own"


def test_a_study_without_a_finished_run_has_a_page_that_says_so(notebooks: Path, tmp_path: Path) -> None:
    folder = tmp_path / "raw/study=synthetic"
    write_study_card(folder, card())
    run = folder / "failed/run=r01@my2.base@here.1"
    write_manifest(run, manifest("my2.base", 1, outcome="failed", error="no such option: query_cache"))
    nbformat.write(notebook_of([]), run / "notebook.ipynb")
    index = build("synthetic", tmp_path, tmp_path / "report", notebooks)
    text = index.read_text()
    assert "No run of this study has finished yet." in text
    assert "no such option: query_cache" in text
    assert "runs/failed-r01%40my2.base%40here.1.html" in text
    assert (index.parent / "runs/failed-r01@my2.base@here.1.html").is_file()
    assert not (index.parent / PAGE).exists()


def test_a_study_without_its_base_says_what_is_missing(notebooks: Path, tmp_path: Path) -> None:
    write_report(tmp_path, Shape(rounds=1))
    (tmp_path / "raw/study=synthetic/run=r01@my1.base@here/manifest.json").unlink()
    index = build("synthetic", tmp_path, tmp_path / "report", notebooks)
    assert "no finished run of the base &#39;my1.base&#39;" in index.read_text()


def test_a_study_of_one_dbms_has_its_numbers_and_says_that_nothing_is_compared(tmp_path: Path) -> None:
    data = write_study(tmp_path, Shape(dbms=("my1.base",), rounds=2))
    notebooks = only_relative_throughput(tmp_path / "notebooks")
    for name in ("cost_per_operation", "measurement_health"):
        (notebooks / f"{name}.ipynb").write_bytes((NOTEBOOKS / f"{name}.ipynb").read_bytes())
    index = build("synthetic", data, tmp_path / "report", notebooks)
    assert NOT_COMPARED in index.read_text()
    assert sorted(page.name for page in index.parent.glob("*.html")) == [
        "cost_per_operation.html",
        "index.html",
        "measurement_health.html",
        PAGE,
    ]
    page = (index.parent / PAGE).read_text()
    assert NOT_COMPARED in page
    assert "operations/s</th>" in page, "what was measured, before anything is divided"


def test_ctrl_c_ends_it_with_its_kernel_and_the_old_pages_stay(data: Path, tmp_path: Path) -> None:
    old = tmp_path / "synthetic/index.html"
    old.parent.mkdir()
    old.write_text("the old page")
    words = (sys.executable, "-m", "rqps.cli", "report", "synthetic", "--data", str(data), "--out", str(tmp_path))
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as command:
        assert command.stderr
        assert any("executing" in line for line in command.stderr)
        os.killpg(command.pid, signal.SIGINT)  # as a terminal does it
        lines = command.stderr.read().splitlines()
    assert (command.returncode, lines[-1]) == (130, "stopped")
    assert not any("Traceback" in line for line in lines)
    assert old.read_text() == "the old page"
    assert [path.name for path in tmp_path.iterdir()] == ["synthetic"]
    until(lambda: not running_from(tmp_path), why=lambda: str(running_from(tmp_path)))


def test_an_unknown_study_leaves_nothing_behind(data: Path, tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match="no study 'nothing'"):
        build("nothing", data, tmp_path / "report")
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("1 / 0", r"broken\.ipynb failed for study .* ZeroDivisionError"),
        (
            "from rqps.show.renderer import bundle; bundle({'mark': 'cake', 'description': 'A cake.'})",
            r"broken\.ipynb: a chart could not be drawn: A cake\.: Vega-Lite to PNG conversion failed: TypeError",
        ),
    ],
)
def test_a_notebook_that_fails_is_named_and_the_old_pages_stay(
    cell: str, text: str, data: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "notebooks/broken.ipynb"
    broken.parent.mkdir()
    cells = [nbformat.v4.new_code_cell('study = "releases"\ndata = None', metadata={"tags": ["parameters"]})]
    cells.append(nbformat.v4.new_code_cell(cell))
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), broken)
    old = tmp_path / "report/synthetic/index.html"
    old.parent.mkdir(parents=True)
    old.write_text("the old page")
    with pytest.raises(RqpsError, match=text):
        build("synthetic", data, tmp_path / "report", broken.parent)
    assert old.read_text() == "the old page"
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["synthetic"]


def test_a_notebook_with_other_parameters_is_refused_before_it_runs(data: Path, tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell('studdy = "releases"\ndata = None', metadata={"tags": ["parameters"]})]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)
    nbformat.write(notebook, tmp_path / "misspelt.ipynb")
    with pytest.raises(
        RqpsError, match=r"misspelt.ipynb: has 1 cell tagged `parameters`; names set there: data, studdy"
    ):
        build("synthetic", data, tmp_path / "report", tmp_path)


def test_headings_become_contents_and_the_first_line_the_title() -> None:
    cells = [nbformat.v4.new_markdown_cell("# A *title*\n\n## One & two\n\ntext\n\n## `three`")]
    content = content_of(nbformat.v4.new_notebook(cells=cells))
    assert content.heading == "A *title*"
    assert content.contents == {"one-two": "One & two", "three": "three"}
    assert [f'id="{anchor}"' in content.parts[0].html for anchor in ("one-two", "three", "two")] == [
        True,
        True,
        False,
    ]


def test_what_a_cell_prints_stands_in_one_piece() -> None:
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("a table", "\n")]
    shown = nbformat.v4.new_output("display_data", {"text/plain": "a thing"})
    cell = nbformat.v4.new_code_cell("print(table)", outputs=[*outputs, shown])
    content = content_of(nbformat.v4.new_notebook(cells=[cell]))
    assert [part.text for part in content.parts if part.kind == "text"] == ["a table\n", "a thing"]


def test_a_section_with_nothing_to_show_is_left_out() -> None:
    nothing = nbformat.v4.new_output("display_data", {"text/html": show.Nothing(["No step did."])._repr_html_()})
    shown = nbformat.v4.new_output("display_data", {"text/plain": "a thing"})
    cells = [
        nbformat.v4.new_markdown_cell("# Page\n\n## First"),
        nbformat.v4.new_code_cell("first", outputs=[shown]),
        nbformat.v4.new_markdown_cell("## Second"),
        nbformat.v4.new_code_cell("second", outputs=[nothing]),
        nbformat.v4.new_markdown_cell("## Third"),
        nbformat.v4.new_code_cell("third", outputs=[nothing]),
        nbformat.v4.new_markdown_cell("more of it"),
        nbformat.v4.new_code_cell("more", outputs=[shown]),
    ]
    content = content_of(nbformat.v4.new_notebook(cells=cells))
    assert content.contents == {"first": "First", "third": "Third"}
    assert "Second" not in "".join(part.html for part in content.parts)


def test_json_can_not_leave_its_script() -> None:
    assert "</script" not in json_in_html({"title": "</script><script>alert(1)</script>", "x": "<!--"})
    assert "<!--" not in json_in_html("<!--")


def test_time_left_is_never_negative(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(100.0, Terminal(sys.stderr, plain_every_s=0))
    progress.tick("executing a notebook")
    progress.done(200.0)
    progress.tick("rendering a run")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["executing a notebook, about 1 min 40 s left", "rendering a run, about 1 s left"]


def test_each_page_has_the_names_of_its_dbms_beside_the_short_ones(report: Path) -> None:
    for name in ("index.html", PAGE):
        legend = (report / name).read_text().partition('<dl class="legend">')[2].partition("</dl>")[0]
        assert "<dt>my2.ps0</dt><dd>MySQL 2.0.0, performance schema off</dd>" in legend, name
