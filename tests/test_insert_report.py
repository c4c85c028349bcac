"""The performance report of the insert benchmark, on made-up studies in which every rate and stall is known."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic
import synthetic_inserts as made_up
from executed import Notebook
from hypothesis import given
from hypothesis import strategies as st
from rqps import show, stats
from rqps.pages import insert_benchmark_report as page
from rqps.published import insert_columns as published_columns
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.stats.response_times import BUCKETS, buckets, buckets_of, percentiles
from rqps.store import Study

COLOURS = {"#FF9A9A": "red", "#81FFA6": "green", "#D7D7D7": "grey", "#FFDD81": "yellow", "#81FFF9": "blue"}


def cells_of(html: str) -> list[list[str]]:
    """Each row of a table as its cells: their text, with a slash between lines, and their colour."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html.split("<tbody", 1)[1], re.DOTALL)
    return [[_cell(style, text) for style, text in re.findall(r"<t[dh]([^>]*)>(.*?)</t[dh]>", row)] for row in rows]


def _cell(style: str, text: str) -> str:
    colour = re.search(r"background-color: (#\w+)", style)
    words = unescape(re.sub(r"<[^>]*>", "", re.sub("<br>|<span ", r" / \g<0>", text)))
    return f"{words} {COLOURS.get(colour[1], colour[1])}" if colour else words


STALLED = made_up.Shape(stalls={("my2.base", "qr100"): range(3, 6)}, slow={("my2.base", "qp100"): 0.8})
BASE, PS0, OTHER = made_up.DBMS


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("inserts", data=made_up.write(tmp_path_factory.mktemp("data"), STALLED))


@pytest.fixture(scope="module")
def columns(study: Study) -> pl.DataFrame:
    return published_columns.columns_over_rounds(study)


def median(result: pl.DataFrame, step: str, dbms: str, metric: str) -> float:
    return float(result.filter(step=step, dbms=dbms, metric=metric)["estimate"].item())


def test_findings_say_how_much_faster_without_the_performance_schema(study: Study) -> None:
    without, other = page.findings(study, stats.relate(study)[1])
    assert without.startswith("MySQL 1.0.0, performance schema off against MySQL 1.0.0, throughput: +10.")
    assert without.endswith("; 6 rounds.")
    assert other.startswith("MySQL 2.0.0 against MySQL 1.0.0, throughput: −40.")
    assert "−30.0 % (" in other.partition(" for l.i0")[0]


def test_a_finding_claims_no_more_than_few_rounds_support(tmp_path: Path) -> None:
    few = rqps.load("inserts", data=made_up.write(tmp_path, made_up.Shape(rounds=2)))
    without, other = page.findings(few, stats.relate(few)[1])
    for sentence in (without, other):
        assert ", throughput: inconclusive for " in sentence
        assert sentence.endswith("; 2 rounds.")


def test_the_rate_of_inserts_is_judged_by_the_second_too(study: Study) -> None:
    seconds = published_columns.seconds_on_target(study)
    assert median(seconds, "qr100", OTHER, "share") == pytest.approx(0.7)
    assert median(seconds, "qr100", OTHER, "stall_s") == 3
    assert median(seconds, "qr100", BASE, "share") == 1


@pytest.fixture(scope="module")
def notebook(study: Study) -> Notebook:
    return Notebook("insert_benchmark_report", study)


def test_missed_rates_are_named(notebook: Notebook) -> None:
    missed = notebook["rates"].filter(~pl.col("on_target")).select("step", "dbms", "missed").rows()
    assert missed == [("qr100", OTHER, 6), ("qp100", OTHER, 6)]
    sentences = page.rate_findings(notebook["rates"], notebook["seconds"])
    assert sentences[0].startswith(
        "my2.base missed the rate of inserts: qr100 166 of 200 rows/s (166–166), qp100 156 of 200"
    )
    assert "the longest stall is 10 s (10–10, my2.base in qp100), 6 rounds" in sentences[-1]


def test_debt_is_that_of_the_moment_before_a_step(notebook: Notebook) -> None:
    debt = stats.absolute(notebook["debt"])
    assert median(debt, "qr100", BASE, "waited_s") == 5
    assert median(debt, "qr100", BASE, "history_length") == 0
    assert median(debt, "qp100", BASE, "history_length") == 1000
    assert median(debt, "qp100", BASE, "checkpoint_age_mb") == 16
    assert debt.filter(step="qp100", metric="waited_s").is_empty(), "nothing was to settle there"


def test_published_colours_mark_the_least_and_the_most_of_a_column(notebook: Notebook) -> None:
    cells = cells_of(notebook.shown("insert-throughput"))
    names = stats.short_names(notebook["measured"])
    colours = {cell.rpartition(" ")[2] for row in cells for cell in row[1:]}
    assert {"red", "green"} <= colours
    assert [row[0] for row in cells] == [names[dbms] for dbms in (BASE, PS0, OTHER)]
    assert all(row[-1].rpartition(" ")[2] in ("grey", "red") for row in cells if row[0] == names[OTHER]), (
        "missed its rate"
    )
    assert "blue" in str(cells_of(notebook.shown("insert-relative")))


def test_a_study_of_another_engine_with_the_same_load_stands_beside_each_against_its_own_base(tmp_path: Path) -> None:
    shape = made_up.Shape(rounds=4)
    other = made_up.Shape(dbms={"pg1.base": 1.0, "pg2.base": 0.9}, rounds=4, engine="postgres")
    made_up.write(tmp_path, shape)
    made_up.write(tmp_path, other, study="beside")
    made_up.write(tmp_path, replace(other, seconds=11), study="of-another-load")
    made_up.write(tmp_path, shape, study="of-the-same-engine")
    notebook = Notebook("insert_benchmark_report", rqps.load("inserts", data=tmp_path))
    histories = notebook["histories"]
    assert histories["study"].unique(maintain_order=True).to_list() == ["inserts", "beside"]
    bases = histories.select("study", "base").unique(maintain_order=True).rows()
    assert bases == [("inserts", "my1.base"), ("beside", "pg1.base")]
    assert set(histories.filter(study="beside")["dbms"]) == {"pg2.base"}
    own = stats.relate(rqps.load("beside", data=tmp_path))[1].filter(metric="server_cpu_us_per_operation")
    assert histories.filter(study="beside")["estimate"].to_list() == own["estimate"].round(3).to_list()


def test_what_a_study_has_not_is_left_out(tmp_path: Path) -> None:
    loads = made_up.Shape(rounds=1, steps=("l.i0", "l.x"))
    notebook = Notebook("insert_benchmark_report", rqps.load("inserts", data=made_up.write(tmp_path, loads)))
    for name in ("insert-rate", "insert-debt", "insert-seconds-on-target", "insert-percentiles-query"):
        assert name not in notebook.html
    assert "No step of this study had a rate of inserts to reach." in notebook.html


def test_a_rate_that_all_reached_always_is_short(tmp_path: Path) -> None:
    quiet = rqps.load("inserts", data=made_up.write(tmp_path, made_up.Shape(rounds=1, misses=0.05)))
    notebook = Notebook("insert_benchmark_report", quiet)
    assert "Every dbms reached the rate of inserts in every step, by the published rule." in notebook.html
    assert "Every second of every step was on target, 1 round." in notebook.html
    sources = notebook["wide"].with_columns(source=notebook["source"])["source"]
    assert set(sources) == {"mostly memory"}


seconds_of_inserts = st.lists(st.integers(0, 400), min_size=1, max_size=60)


def marked(rows: list[int], rate: float = 100.0) -> pl.DataFrame:
    frame = pl.DataFrame({"operations": rows}).with_columns(
        second=pl.int_range(pl.len()), run=pl.lit("r"), step=pl.lit("q"), client=pl.lit(0), rate=pl.lit(rate)
    )
    return published_columns.marked(frame, pl.col("rate"))


@given(seconds_of_inserts)
def test_a_second_that_did_its_rows_is_on_target_and_one_without_any_near_is_not(rows: list[int]) -> None:
    reached = marked(rows)["on_target"].to_list()
    for at, count in enumerate(rows):
        around = rows[max(0, at - 1) : at] + rows[at + 1 : at + 2]
        if count >= 95:
            assert reached[at]
        elif all(one <= 100 for one in around):
            assert not reached[at]


@given(seconds_of_inserts)
def test_the_longest_stall_is_the_longest_row_of_seconds_below_target(rows: list[int]) -> None:
    seconds = marked(rows)
    words = "".join("x" if reached else "." for reached in seconds["on_target"])
    (result,) = published_columns.stalls(seconds).to_dicts()
    assert result["stall_s"] == max(map(len, words.split("x")))
    assert result["share"] == pytest.approx(words.count("x") / len(words))


def test_a_batch_that_slipped_over_the_edge_of_a_second_is_no_stall() -> None:
    assert marked([100, 50, 150, 100])["on_target"].all()
    assert marked([100, 0, 100])["on_target"].to_list() == [True, False, True], "what was never done is"


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300))
def test_p99_is_reached_in_99_of_100_seconds_and_no_higher_rate_is(rates: list[int]) -> None:
    (result,) = pl.DataFrame({"rate": rates}).select(published_columns.rates_reached("rate")).to_dicts()
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        reached = sum(rate >= result[name] for rate in rates)
        above = sum(rate > result[name] for rate in rates)
        assert reached >= share * len(rates)
        assert above < share * len(rates)
    assert result["p99"] <= result["p50"]


def test_columns_are_as_published_and_beside_them_what_was_counted(columns: pl.DataFrame) -> None:
    elapsed = 10.25
    assert median(columns, "qr100", BASE, "ips") == pytest.approx(2000 / elapsed)
    assert median(columns, "l.i0", BASE, "qps") == 0
    assert median(columns, "l.i0", BASE, "p50") == pytest.approx(60_000, rel=0.02)
    assert median(columns, "l.i0", BASE, "p50_all") == pytest.approx(120_000, rel=0.02)
    assert median(columns, "qr100", OTHER, "p99") == 0, "the first client stood still"
    assert median(columns, "qr100", OTHER, "p99_all") > 5000, "the other did not"
    assert median(columns, "qr100", BASE, "maxop") == pytest.approx(0.0024), "queries only, as published"
    assert median(columns, "qr100", BASE, "max_delete_s") == pytest.approx(0.03)
    split = [median(columns, "l.i1", BASE, name) for name in ("server_us", "client_us", "others_us", "exact_cpupq")]
    assert split[:2] == [pytest.approx(20), pytest.approx(2)]
    assert sum(split[:3]) == pytest.approx(split[3])


def test_headers_of_vmstat_count_as_lines_without_load_as_published(tmp_path: Path) -> None:
    """105 seconds are 21 lines of five: with a 22nd of zeros, the mean is 21/22 of what it was."""
    short = made_up.Shape(dbms={BASE: 1.0}, rounds=1, seconds=100, steps=("l.i0",))
    long = made_up.Shape(dbms={BASE: 1.0}, rounds=1, seconds=105, steps=("l.i0",))
    studies = [
        rqps.load("inserts", data=made_up.write(tmp_path / str(value.seconds), value)) for value in (short, long)
    ]
    results = [published_columns.columns(one_study) for one_study in studies]
    first, second = (float(one.filter(metric="csps")["value"].item()) for one in results)
    assert second == pytest.approx(first * 21 / 22, rel=0.001)


@given(st.lists(st.floats(0.5, 3e7), min_size=1, max_size=40))
def test_every_statement_is_in_the_published_bucket_that_reaches_so_far(times_us: list[float]) -> None:
    names, ends = list(BUCKETS), list(BUCKETS.values())
    for time_us, bucket in zip(times_us, buckets_of(pl.Series(times_us)), strict=True):
        at = names.index(bucket)
        assert ([0.0, *ends])[at] < time_us <= ends[at]


def test_response_times_are_percents_that_add_up(study: Study) -> None:
    result = buckets(study)
    by_bucket = {
        row["bucket"]: row["estimate"] for row in result.filter(step="l.i1", dbms=BASE, statement="insert").to_dicts()
    }
    assert list(by_bucket) == [*BUCKETS, "max"]
    assert sum(value for name, value in by_bucket.items() if name != "max") == pytest.approx(100, abs=0.3)
    assert by_bucket["1ms"] == pytest.approx(90, abs=0.3)
    assert by_bucket["16ms"] == pytest.approx(10, abs=0.3)
    assert by_bucket["max"] == pytest.approx(0.014)


def test_latency_since_it_was_due_has_the_wait_for_the_limiter(study: Study) -> None:
    result = percentiles(study)
    middle = result.filter(step="qr100", dbms=BASE, percentile="p50")
    of = dict(middle.select("statement", "estimate").rows())
    assert of["insert"] == pytest.approx(700, rel=0.1)
    assert of["insert due"] == pytest.approx(3700, rel=0.1)
    assert "query due" not in of, "queries have no limiter"
    assert set(result.filter(step="l.i1")["statement"]) == {"insert", "delete"}
    counts = set()
    for _, rows in result.group_by("step", "statement", "dbms"):
        *names, longest = rows["percentile"]
        assert (longest, names) == ("max", ["p50", "p95", "p99", "p99.9"][: len(names)])
        assert rows["estimate"].is_sorted(), "percentiles rise to the longest"
        counts.add(len(names))
    assert min(counts) < max(counts) == 4, "beyond the p99.9 of a few lies none"


def test_every_column_can_be_followed_to_its_rows(study: Study) -> None:
    assert set(published_columns.PUBLISHED) <= set(published_columns.SOURCES)
    rows = published_columns.rounds_of_column(study, "qr100", OTHER, "cpupq")
    assert rows.height == 6
    assert rows.select("run", "file").row(0) == ("r01@my2.base@here", "counters.parquet")
    for run, name in rows.select("run", "file").iter_rows():
        assert Path(study.place, f"run={run}", name).is_file()


def test_curves_reach_the_last_whole_second_of_what_a_step_is_named_for(study: Study) -> None:
    late = study.steps.with_columns(pl.col("elapsed_s") - 0.5)
    for rows, seconds in ((study.steps, 10), (late, 9)):
        table = stats.throughput_over_time(study.intervals, rows).filter(step="qr100", dbms=BASE)
        assert table["second"].to_list() == list(range(seconds))
        assert table["estimate"][0] == pytest.approx(16_000, rel=0.02), "queries, without the rows beside them"
    writes = stats.throughput_over_time(study.intervals, study.steps.filter(pl.col("kind") != "l.x"))
    writes = writes.filter(pl.col("step").str.starts_with("l."))
    assert writes["step"].unique(maintain_order=True).to_list() == ["l.i0", "l.i1", "l.i2"]
    assert writes.filter(step="l.i1", dbms=BASE)["estimate"][0] == pytest.approx(18_000, rel=0.02), (
        "inserted, not deleted"
    )


def test_only_a_study_of_the_insert_benchmark_has_its_page(study: Study, tmp_path: Path) -> None:
    (notebook,) = [path for path in analysis_notebooks(NOTEBOOKS) if path.stem == "insert_benchmark_report"]
    assert applies(notebook, study.runs, study)
    other = rqps.load("synthetic", data=synthetic.write_study(tmp_path, rounds=1))
    assert not applies(notebook, other.runs, other)


def test_a_missed_rate_of_rows_is_no_warning_on_queries(study: Study) -> None:
    assert study.steps.filter(target_held=False).height
    assert "target" not in set(stats.all_warnings(study)["kind"])


def test_the_columns_are_those_that_are_published_in_their_order(tmp_path: Path) -> None:
    shape = made_up.Shape(stalls={(OTHER, "qr100"): range(3, 6)}, noise=0.0)
    columns = published_columns.columns_text(rqps.load("inserts", data=made_up.write(tmp_path, shape)))
    assert columns.note.startswith(
        "Medians of 6 rounds; ± how far the 97 % intervals reach. Lines in the order my1.base, "
    )
    head, first, reach, *others = columns.texts["qr100"].splitlines()
    published = (
        "ips qps rps rmbps wps wmbps rpq rkbpq wpi wkbpi csps cpups cspq cpupq dbgb1 dbgb2 rss maxop p50 p99 tag"
    )
    assert head.split() == published.split()
    line = "195 15610 0 0.0 1 0.2 0.000 0.000 0.005 1.024 48000 20.0 3.075 26 0.2 2.0 0.5 0.002 8000 8000 my1.base"
    assert first.split() == line.split()
    assert set(reach.split()) == {"±0"}
    relative = others[others.index("relative to my1.base") + 1].split()
    assert relative[:4] == ["1.00", "1.10", "-", "-"], "nothing is divided by 0"
    assert relative[-1] == "my1.ps0"


def test_names_stay_text_wherever_they_stand(tmp_path: Path) -> None:
    shape = made_up.Shape(rounds=2, dbms={BASE: 1.0, "my2.<img src=x onerror=alert(1)>": 0.7})
    notebook = Notebook("insert_benchmark_report", rqps.load("inserts", data=made_up.write(tmp_path, shape)))
    assert notebook.html.count("&lt;img") > 20
    assert "<img" not in notebook.html
    assert "Medians" in notebook.shown("insert-corrected-cpu") or "±" in notebook.html


def test_percents_are_whole_only_where_nothing_or_all_is_meant() -> None:
    assert [show.in_percent(value) for value in (1.0, 0.9996, 0.0004, 0.0)] == ["100 %", "100.0 %", "0.0 %", "0 %"]
