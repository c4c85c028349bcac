"""Published numbers are whole, read strictly, calculated again rightly, and held against what is ours."""

import csv
import re
import shutil
from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient
from rqps.errors import RqpsError
from rqps.published import read
from rqps.published.checks import checked, contradictions, view
from rqps.published.figures import FOLDER, Published
from rqps.published.quoted import printed_ratios
from rqps.published.versions import short

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "notebooks/analysis/published_results.ipynb"
GOLDEN = Path(__file__).parent / "published_contradictions.txt"


@pytest.fixture(scope="module")
def numbers() -> Published:
    return read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(FOLDER, tmp_path / "published"))


def change(path: Path, line: int, column: str, value: str) -> None:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    rows[line - 1][rows[0].index(column)] = value
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def rewrite(path: Path, old: str, new: str, count: int = -1) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def refusal(folder: Path) -> str:
    with pytest.raises(RqpsError) as refused:
        read(folder)
    return refused.value.message


# How many numbers each table of a source prints.


def test_every_rqps_table_is_there_whole(numbers: Published) -> None:
    tables = numbers.rqps.group_by("source", "section").len()
    count = {(source, section): many for source, section, many in tables.iter_rows()}
    posts = "regressions-8040-2024"
    assert count == {
        ("advanced-mysql-2024", "Results: dell32"): 42 * 2,
        ("advanced-mysql-2024", "Results: ax162-s"): 42 * 2,
        ("busy-wait-2024", "Results"): 17 * 7,
        (posts, "Results (scan)"): 5 * 2,
        (posts, "Results (update-index)"): 5 * 2,
        (posts, "Results: beelink"): 42 * 4,
        (posts, "Results: pn53"): 29 * 4,
        (posts, "Results: socket2"): 29 * 4,
        (posts, "Results: dell32"): 42 * 4,
        (posts, "Results: ax162-s"): 42 * 4,
    }


def test_every_per_operation_table_is_there_whole(numbers: Published) -> None:
    count = numbers.per_operation.group_by("source", "section", "table", "part").len()
    blocks = {source: dict(of.select("part", "len").unique().rows())
              for (source,), of in count.group_by("source")}  # fmt: skip
    assert blocks == {
        "advanced-mysql-2024": {"absolute": 3 * 6, "relative": 2 * 6},
        "regressions-8040-2024": {"absolute": 5 * 6, "relative": 4 * 6},
    }
    assert dict(count.group_by("source").len().rows()) == {
        "advanced-mysql-2024": 2 * 4,
        "regressions-8040-2024": 2 * 10,
    }


def test_the_small_tables_are_there_whole(numbers: Published) -> None:
    assert dict(numbers.busy_wait.group_by("function").len().rows()) == {
        "ut_rnd_interval": 5 * 3,
        "ut::random_from_interval": 5 * 3,
        "ut::random_from_interval_fast": 5 * 3 * 2,  # printed in both tables
    }
    assert dict(numbers.ut_delay.group_by("version").len().rows()) == {"8.0.28": 5 * 6, "8.0.40": 5 * 7}
    assert dict(numbers.timers.group_by("source").len().rows()) == {"perf-schema-oltp-2017": 15, "busy-wait-2024": 5}
    assert set(numbers.prose["source"]) == set(numbers.sources) - {"pgo-lto-2024"}
    assert numbers.prose.height == 110


@pytest.mark.parametrize(
    ("host", "step", "build", "value"),
    [
        ("beelink", "random-points.pre_range=1000", "my8033_rel_o2nofp", "2.20"),
        ("socket2", "scan_range=100", "my8039_rel_o2nofp", "0.80"),
        ("ax162-s", "write-only_range=10000", "my8040_rel_o2nofp", "0.92"),
    ],
)
def test_numbers_are_in_place(numbers: Published, host: str, step: str, build: str, value: str) -> None:
    rows = numbers.rqps.filter(section=f"Results: {host}", source="regressions-8040-2024", step=step, build=build)
    assert rows["printed"].to_list() == [value]


def test_every_source_is_quoted_with_what_is_known_of_it(numbers: Published) -> None:
    for key, source in numbers.sources.items():
        assert source.date or source.dated.startswith(("not printed", "no date")), key
        assert source.url is None, f"{key}: no page prints its address"
        assert source.hosts, key


# What is broken is named by file, line and column.


@pytest.mark.parametrize(
    ("file", "line", "column", "value", "text"),
    [
        ("rqps", 7, "value", "fast", "'fast' is not a number"),
        ("rqps", 7, "value", "-0.95", "'-0.95' is not a number"),
        ("rqps", 7, "value", "nan", "'nan' is not a number"),
        ("rqps", 7, "value", "", "is empty"),
        ("rqps", 900, "threads", "4.0", "'4.0' is not a whole number"),
        ("rqps", 2, "source", "advanced-mysql-2042", "did you mean 'advanced-mysql-2024'?"),
        ("rqps", 2, "host", "dell23", "did you mean 'dell32'?"),
        ("per_operation", 660, "unit", "", "is empty; the units are percent of host/operation"),
        ("ut_delay", 3, "unit", "ms", "'ms' is no unit here; the units are us"),
        ("busy_wait", 61, "function", "", "is empty"),
        ("prose", 40, "metric", "", "is empty"),
        ("prose", 2, "host", "40-cores", "did you mean '40-core'?"),
    ],
)
def test_a_broken_row_is_named(folder: Path, file: str, line: int, column: str, value: str, text: str) -> None:
    change(folder / f"{file}.csv", line, column, value)
    message = refusal(folder)
    assert message.startswith(f"{folder / file}.csv:{line}: {column}: ")
    assert text in message
    assert len(message.splitlines()) == 1


def test_a_number_that_stands_twice_is_refused_also_with_another_value(folder: Path) -> None:
    path = folder / "rqps.csv"
    first = path.read_text().splitlines()[4]
    with path.open("a") as file:
        file.write(re.sub(r"[\d.]+,ratio$", "0.01,ratio", first) + "\n")
    assert refusal(folder) == f"{path}:1045: value: the same number as on line 5; keep one"


def test_a_row_of_other_length_and_other_columns_are_refused(folder: Path) -> None:
    path = folder / "timers.csv"
    rewrite(path, ",ticks/s\n", "\n", 1)
    assert refusal(folder) == f"{path}:2: unit: is empty; the units are ticks/s, ticks, cycles"
    rewrite(path, "CYCLE,frequency,", "CYCLE,frequency,1,2,", 1)
    assert refusal(folder) == f"{path}:2: has more values than there are columns"
    rewrite(path, "source,table,host", "source,host,table", 1)
    assert refusal(folder).startswith(f"{path}:1: the columns are source, host, table")


def test_all_that_is_broken_in_a_file_is_reported_at_once(folder: Path) -> None:
    change(folder / "rqps.csv", 3, "value", "x")
    change(folder / "rqps.csv", 9, "unit", "%")
    assert [line.split(": ")[1] for line in refusal(folder).splitlines()] == ["value", "unit"]


def test_a_broken_source_or_reading_is_named(folder: Path) -> None:
    rewrite(folder / "readings.yaml", "kind: slip", "kind: slipped", 1)
    assert re.match(rf"{folder}/readings.yaml:\d+: \[\d+\].kind: 'slipped' is none of", refusal(folder))
    rewrite(folder / "checks.yaml", "kind: repeat", "kind: again", 1)
    assert re.match(rf"{folder}/checks.yaml:\d+: \[\d+\].kind: 'again' is none of", refusal(folder))
    rewrite(folder / "sources.yaml", "  author_printed: false\n", "  author_printed: perhaps\n", 1)
    assert re.match(rf"{folder}/sources.yaml:\d+: point-lookups-2014.author_printed: ", refusal(folder))


def test_a_missing_file_is_reported_with_what_to_do(folder: Path) -> None:
    (folder / "prose.csv").unlink()
    with pytest.raises(RqpsError, match=r"there is no prose\.csv") as refused:
        read(folder)
    assert refused.value.fix


# Calculated again.


def test_ratios_that_do_not_follow_from_their_inputs(numbers: Published) -> None:
    ratios = view(numbers, "ratios")
    tally = ratios.group_by("agrees").len().sort("agrees").rows()
    assert tally == [("exactly", 261), ("no", 5), ("zeros", 92)]
    wrong = ratios.filter(agrees="no").select("source", "host", "metric", "printed", pl.col("found").round(3))
    assert wrong.rows() == [
        ("advanced-mysql-2024", "dell32", "rQPS", "0.56", 0.901),
        ("advanced-mysql-2024", "dell32", "rQPS", "0.84", 1.181),
        ("advanced-mysql-2024", "dell32", "rQPS", "0.95", 0.956),
        ("advanced-mysql-2024", "dell32", "rQPS", "0.97", 1.054),
        ("busy-wait-2024", "dell32", "cs/o", "1.5", 1.414),
    ]


def test_a_ratio_that_is_printed_wrongly_is_found(folder: Path) -> None:
    before = view(read(folder), "ratios").filter(agrees="no").height
    path = folder / "per_operation.csv"
    rows = path.read_text().splitlines()
    line = next(number for number, row in enumerate(rows, 1) if ",relative,beelink," in row and ",cpu/o," in row)
    change(path, line, "value", "1.15")
    wrong = view(read(folder), "ratios").filter(agrees="no")
    assert wrong.height == before + 1
    assert wrong.filter(host="beelink")["printed"].to_list() == ["1.15"]


@pytest.mark.parametrize(("ratio", "agrees"), [("0.78", "exactly"), ("0.79", "rounded"), ("0.81", "no")])
def test_rounding_is_taken_into_account(folder: Path, ratio: str, agrees: str) -> None:
    """43 and 55 are printed: whole operations per second, each within half of one."""
    path = folder / "per_operation.csv"
    rows = path.read_text().splitlines()
    row = "Results: beelink,sb.met.scan.range100.pk1.dop1,relative,beelink,1,x.my8040_rel_o2nofp"
    (line,) = (number for number, text in enumerate(rows, 1) if row in text and ",o/s," in text)
    change(path, line, "value", ratio)
    table = view(read(folder), "ratios").filter(me_printed="43", base_printed="55", metric="o/s")
    assert table["agrees"].to_list() == [agrees]


def test_the_contradictions_are_the_ones_that_were_looked_at(numbers: Published) -> None:
    rows = contradictions(numbers).select("source", "kind", "found", "place", "difference", "rounding")
    assert "\n".join(" | ".join(row) for row in rows.iter_rows()) + "\n" == GOLDEN.read_text()


def test_a_contradiction_goes_where_its_cause_goes(folder: Path) -> None:
    """With the two hosts of Advanced MySQL's tables put right, what follows from the mistake is gone."""
    numbers = read(folder)
    assert view(numbers, "under_another_host").height == 4
    path = folder / "per_operation.csv"
    text = path.read_text()
    for dop, wrong, right in (("40", "dell32", "ax162-s"), ("24", "ax162-s", "dell32")):
        was = re.compile(rf"^(advanced-mysql-2024,Results: ){wrong}(,sb\S*dop{dop},\w+,){wrong},", re.MULTILINE)
        assert was.search(text)
        text = was.sub(rf"\g<1>{right}\g<2>{right},", text)
    path.write_text(text)
    mended = read(folder)
    assert view(mended, "under_another_host").is_empty()
    left = view(mended, "ratios").filter(agrees="no", source="advanced-mysql-2024")
    assert set(left["host"]) == {"ax162-s"}, "its rQPS table is still that of dell32"


def test_a_finding_is_calculated_from_the_figures_of_the_day(folder: Path) -> None:
    """With another figure its sentence has another number, and where the statement comes true, it is none."""
    half = pl.col("says").str.contains("update-index drops in half on dell32")
    path = folder / "rqps.csv"
    rows = path.read_text().splitlines()
    cell = "regressions-8040-2024,Results: dell32,dell32,24,x.my8040_rel_o2nofp"
    (line,) = (number for number, row in enumerate(rows, 1) if row.startswith(cell) and ",update-index_" in row)
    for value, kind, evidence in (
        ("0.60", "imprecise", "rQPS is 0.60: 40 % less."),
        ("0.52", "agrees", "rQPS is 0.52: 48 % less."),
    ):
        change(path, line, "value", value)
        table = checked(read(folder)).filter(half)
        assert table.select("kind", "evidence").rows() == [(kind, evidence)]


def test_a_check_that_can_not_be_evaluated_is_named(folder: Path) -> None:
    for right, wrong, value in (
        ("share > 50\n", "part > 50\n", "no such column: part"),
        ("{share:.0f} % of it", "{part:.0f} % of it", "'part'"),
    ):
        rewrite(folder / "checks.yaml", right, wrong, 1)
        with pytest.raises(RqpsError, match=rf"the check of advanced-mysql-2024, tl;dr, bullet 2: .*{value}"):
            checked(read(folder))
        rewrite(folder / "checks.yaml", wrong, right, 1)


def test_only_the_copied_table_is_called_a_copy(numbers: Published) -> None:
    rows = view(numbers, "copies").select("source", "original", "section", "numbers").rows()
    assert rows == [("advanced-mysql-2024", "Results: dell32", "Results: ax162-s", 84)]


# Shown.


@pytest.mark.parametrize("source", ["regressions-8040-2024", "advanced-mysql-2024", "busy-wait-2024"])
def test_a_table_has_one_number_a_cell(numbers: Published, source: str) -> None:
    table = printed_ratios(numbers).filter(source=source)
    assert not table.select("step", "host", "server").is_duplicated().any()
    assert ("advanced-mysql-2024", "Results: ax162-s") not in table.select("source", "section").rows()


def test_builds_have_different_short_names(numbers: Published) -> None:
    builds = set(numbers.rqps["build"])
    assert len({short(build) for build in builds}) == len(builds)


@pytest.mark.usefixtures("data_folder", "undrawn")
def test_the_notebook_runs_where_nothing_was_measured() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(ROOT))
    shown = "".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    assert "No study of sysbench has been measured here" in shown
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("application/vnd.vegalite.v5+json" in output.get("data", {}) for output in outputs) == 8
