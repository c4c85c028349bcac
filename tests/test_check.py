"""A report can be checked against its data: a digit that was changed, on a page or in a table, is found."""

import base64
import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from rqps.cli import main
from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.report import build, check, one_file
from rqps.report.check import Checked
from rqps.store import read_manifest, write_manifest, write_table
from rqps.store.packing import pack
from synthetic import Shape
from synthetic_report import small_analysis, write_report

PAGE, ROUNDS, DATA = "relative_throughput.html", "rounds.html", "synthetic.rqps"
RUN = "run=r02@my2.base@here"
OF_A_RUN = "runs/r01@my1.base@here.html"

pytestmark = pytest.mark.usefixtures("one_kernel")


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_analysis(tmp_path_factory.mktemp("notebooks") / "analysis")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, notebooks: Path) -> Path:
    data = write_report(tmp_path_factory.mktemp("made") / "data", Shape(rounds=4))
    return build("synthetic", data, data / "report", notebooks, with_data=True).parent


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made.parents[1], tmp_path / "data")


@pytest.fixture
def report(data: Path) -> Path:
    return data / "report/synthetic"


def change_a_digit(table: Path) -> None:
    """The throughput of one step becomes another one, by 0.1 %, in the last of four digits."""
    rows = pl.read_parquet(table)
    first = pl.int_range(pl.len()) == 0
    value = pl.col("operations_per_s")
    write_table(table.parent, "steps", rows.with_columns(pl.when(first).then(value * 1.001).otherwise(value)))


def with_a_digit_changed(data: Path) -> None:
    """The study measured with another digit: its manifest knows of nothing else."""
    folder = data / "raw/study=synthetic" / RUN
    change_a_digit(folder / "steps.parquet")
    write_manifest(folder, read_manifest(folder))


def test_a_report_agrees_with_the_data_inside_it(report: Path, notebooks: Path) -> None:
    for path, unchecked in ((report, [OF_A_RUN]), (one_file(report), [])):
        assert check(path, data=report, notebooks=notebooks) == Checked(3, [], unchecked)


def test_a_link_to_another_report_is_no_number_of_this_one(report: Path, notebooks: Path) -> None:
    page = report / "index.html"
    link = '<p><a href="../other/releases-8040.html">Beside the study releases-8033</a></p></main>'
    page.write_text(page.read_text().replace("</main>", link))
    assert check(report, data=report, notebooks=notebooks) == Checked(3, [], [OF_A_RUN])


def test_a_digit_that_was_changed_on_a_page_is_named(report: Path, notebooks: Path) -> None:
    page = report / PAGE
    text = page.read_text()
    assert "▼ 0.70" in text
    page.write_text(text.replace("▼ 0.70", "▼ 0.71", 1))
    for path in (report / "index.html", one_file(report)):
        (result,) = check(path, data=report, notebooks=notebooks).differences
        assert result.startswith(f"{PAGE}, ")
        assert result.endswith(", point-query: the report has ▼ 0.71, its data give ▼ 0.70")


def test_a_sentence_that_the_data_contradict_is_named(report: Path, notebooks: Path) -> None:
    index = report / "index.html"
    text = index.read_text()
    (number, *_) = re.findall(r"&quot;number&quot;: (0\.\d+)", text)
    index.write_text(text.replace(number, "0.5"))
    differences = check(index, data=report, notebooks=notebooks).differences
    first, *_ = differences
    assert first.startswith("index.html: 'Over 2 single-client steps ")
    assert f" is {float(number):.6g}, not 0.5" in first
    assert all(line.startswith("index.html: ") for line in differences)


def test_a_digit_that_was_changed_in_the_data_inside_is_found(data: Path, report: Path, notebooks: Path) -> None:
    before = sha256(report / DATA)
    with_a_digit_changed(data)
    pack("synthetic", report / DATA, data)
    with pytest.raises(RqpsError, match=r"synthetic.rqps is not the file that was put into this report"):
        check(report, data=report, notebooks=notebooks)
    index = report / "index.html"
    index.write_text(index.read_text().replace(before, sha256(report / DATA)))
    assert any(ROUNDS in line for line in check(report, data=report, notebooks=notebooks).differences)


def test_a_digit_that_was_changed_in_the_study_is_found(data: Path, report: Path, notebooks: Path) -> None:
    (report / DATA).unlink()
    assert check(report, None, data, notebooks) == Checked(4, [], [])
    change_a_digit(data / "raw/study=synthetic" / RUN / "steps.parquet")
    with pytest.raises(RqpsError, match=rf"{RUN}/steps.parquet: can't be read: "):
        check(report, None, data, notebooks)
    with_a_digit_changed(data)
    assert any(ROUNDS in line for line in check(report, None, data, notebooks).differences)


def test_a_page_that_was_left_out_or_cut_is_named(report: Path, notebooks: Path) -> None:
    (report / PAGE).unlink()
    rounds = report / ROUNDS
    rounds.write_text(rounds.read_text()[:5000])
    cut, left_out = check(report, data=report, notebooks=notebooks).differences
    assert cut.startswith(f"{ROUNDS}: ")
    assert left_out == f"{PAGE}: is not there"


def garbled(folder: Path) -> Iterator[Path]:
    yield folder
    for name, content in (("a.html", b"<p>no report"), ("b.html", b"\xff\xfe"), ("c.html", b"")):
        (folder / name).write_bytes(content)
        yield folder / name
    damaged = '<script type="text/plain" data-file="index.html">H4sIAAAA</script>\n'
    (folder / "d.html").write_text(damaged)
    yield folder / "d.html"


def test_what_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in garbled(tmp_path):
        with pytest.raises(RqpsError, match=r"not a report|can't be read as a report"):
            check(path)
    packed = base64.b64encode(gzip.compress(bytes(10_000_000))).decode()
    (tmp_path / "e.html").write_text(f'<script type="text/plain" data-file="index.html">{packed}</script>\n')
    with pytest.raises(RqpsError, match=r"e\.html: can't be read as a report: .*unpacks to far more"):
        check(tmp_path / "e.html")
    assert main(["report", "--check", str(tmp_path / "nowhere")]) == 2
    assert "or make one: rqps report nowhere" in capsys.readouterr().err
