"""The page of db_bench on the sample: what it calls decided, what throughput hides, and own defaults of releases."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps import stats
from rqps.pages import db_bench as page
from rqps.pages.db_bench import as_published
from rqps.profile.pair import ASSUMED
from rqps.stats import relate
from rqps.store import Study

ROOT = Path(__file__).parent.parent
READS = ROOT / "data/sample/study=rocksdb-reads"
OLD, NEW = "rx6114.c8r32-small", "rx1181.c8r32-small"


@pytest.fixture(scope="module")
def study() -> Study:
    return rqps.load(str(ROOT / "data/sample/study=rocksdb-releases"))


@pytest.fixture(scope="module")
def reads() -> Study:
    return rqps.load(str(READS))


@pytest.fixture(scope="module")
def compared(study: Study) -> pl.DataFrame:
    return relate(study)[1]


def test_findings_say_what_is_decided_and_nothing_more(study: Study, compared: pl.DataFrame) -> None:
    deciding = stats.deciding(compared)
    said = page.findings(study, compared).sentences
    decided = deciding.filter(pl.col("verdict").is_in(["slower", "faster"]))
    assert {each.partition(":")[0] for each in said[:-1]} == set(decided["kind"].replace(page.AS_PUBLISHED))
    unsure = deciding.filter(verdict="unsure").height
    assert f"leave {unsure} of {deciding.height} comparisons unsure" in said[-1]
    alike = compared.with_columns(verdict=pl.lit("unsure"))
    assert len(page.findings(study, alike).sentences) == 1


def test_findings_of_counted_instructions_say_that_one_round_s_interval_is_assumed(reads: Study) -> None:
    said = page.findings(reads, relate(reads)[1]).sentences
    by_instructions = [each for each in said if "times the instructions of an operation." in each]
    assert by_instructions
    assert all(each.endswith(ASSUMED) == ("1 round" in each) for each in said)


def test_releases_are_named_by_their_versions_in_their_order(study: Study) -> None:
    names = page.releases(study)
    assert list(names.values()) == ["6.11.4", "6.29.5", "7.10.2", "8.6.7", "9.7.3", "11.8.1"]
    variations = replace(study, runs=study.runs.with_columns(version=pl.lit("9.6.1")))
    assert sorted(page.releases(variations).values()) == sorted(name.partition(".")[0] for name in names)


def test_each_set_up_has_its_tables(study: Study, compared: pl.DataFrame) -> None:
    assert page.setups(study) == ["byrx", "iobuf", "iodir"]
    for setup in page.setups(study):
        row = compared.filter(metric="operations_per_s", step=f"{setup}.fillseq", dbms=NEW).row(0, named=True)
        assert f"{row['estimate']:.2f}" in str(page.relative(study, compared, setup).as_raw_html())  # type: ignore[union-attr]
        rows = page.behind(study).filter(step=f"{setup}.overwrite", dbms=OLD)
        assert f"{rows['operations_per_s'].item():,.0f}" in page.hidden(study, setup).as_raw_html()


def test_hosts_have_rows_of_their_own(study: Study, compared: pl.DataFrame) -> None:
    both = pl.concat([compared, compared.with_columns(host=pl.lit("other"))])
    assert "9.7.3 on other" in page.relative(study, both, "byrx").as_raw_html()  # type: ignore[union-attr]


def test_a_release_whose_longest_operation_is_longer_is_seen(study: Study) -> None:
    worse = pl.when(dbms=NEW, step="byrx.overwrite").then(100.0).otherwise(1.0)
    bad = replace(study, steps=study.steps.with_columns(pl.col("latency_max_us") * worse))
    said = [each for each in page.stalls(bad).sentences if each.startswith("byrx.overwrite")]
    assert len(said) == 1
    assert "the longest operation of 11.8.1 is shown to be longer than that of 6.11.4" in said[0]
    assert page.hidden(bad, "byrx").as_raw_html().count("▲") == 2, "in its cell and in the note"


def test_all_that_was_recorded_stands_beside_throughput(study: Study) -> None:
    row = page.behind(study).filter(step="iobuf.overwrite", dbms=NEW).row(0, named=True)
    html = page.tail(study).as_raw_html()
    for text in (
        f"{row['p50_us']:,.1f}",
        f"{row['max_ms']:,.1f}",
        f"{row['written_mb']:,.0f}",
        f"{row['rss_mb']:,.0f}",
    ):
        assert text in html
    assert row["cpu_us"] == pytest.approx(row["client_cpu_us"] + row["background_cpu_us"], rel=0.05)
    assert 0 < row["compaction_cpu_us"] < row["background_cpu_us"]
    assert row["write_amplification"] > 1


def test_trees_are_those_before_and_after_a_step(study: Study) -> None:
    html = page.trees(study).as_raw_html()  # type: ignore[union-attr]
    size = study.status.filter(pl.col("name") == "level7_kb", step="byrx.fillseq", dbms=OLD, moment="after").collect()
    assert f"L7 {size['value'].cast(pl.Float64).median() / 1024:.1f}" in html  # type: ignore[operator]


def test_a_study_of_reads_has_no_published_numbers(study: Study, reads: Study, compared: pl.DataFrame) -> None:
    assert "None of these steps has published numbers" in repr(*as_published.tables(reads, relate(reads)[1]))
    assert len(as_published.tables(study, compared)) == 2


def test_instructions_stand_where_they_were_counted(study: Study, reads: Study) -> None:
    assert "No instructions were counted" in repr(page.instructions(study))
    counted = rqps.load(str(READS), mode="instructions")
    steps = counted.steps.filter(step="byrx.readrandom", dbms=NEW).select("run", "step", "operations")
    sums = counted.instructions.group_by("run", "step").agg(pl.col("instructions").sum()).collect()
    row = steps.join(sums, on=["run", "step"]).row(0, named=True)
    assert f"{row['instructions'] / row['operations']:,.0f} / " in page.instructions(reads).as_raw_html()  # type: ignore[union-attr]


def test_defaults_are_the_options_that_changed(study: Study) -> None:
    html = page.defaults(study).as_raw_html()  # type: ignore[union-attr]
    for option in ("format_version", "force_consistency_checks", "verify_sst_unique_id_in_manifest"):
        assert option in html
    assert "checksum<" not in html, "a config asks for it"
    assert "block_size" not in html, "it is the same in all"
    same = study.settings.with_columns(value=pl.lit("1"))
    assert "No option" in repr(page.defaults(replace(study, settings=same)))


def test_ours_stand_beside_the_published_ranges(study: Study, compared: pl.DataFrame) -> None:
    html = as_published.beside(study, compared).as_raw_html()  # type: ignore[union-attr]
    assert "0.85 to 0.95" in html, "published as 5 to 15 % lost"
    assert "1.15 to 1.20" in html
    assert "9.7.3 / 6.11.4" in html
    older = compared.filter(pl.col("dbms") == "rx6295.c8r32-small")
    assert "near enough" in repr(as_published.beside(study, older))
    assert "500,000" in as_published.what_differs(study).as_raw_html()
