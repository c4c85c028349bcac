"""The page of db_bench on the sample: what it calls decided, what throughput hides, and own defaults of releases."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.pages import db_bench as page
from rqps.stats import relate
from rqps.store import Study

ROOT = Path(__file__).parent.parent
OLD, NEW = "rx6114.c8r32-small", "rx1181.c8r32-small"


@pytest.fixture(scope="module")
def study() -> Study:
    return rqps.load(str(ROOT / "data/sample/study=rocksdb-releases"))


@pytest.fixture(scope="module")
def compared(study: Study) -> pl.DataFrame:
    return relate(study)[1]


def test_findings_say_what_is_decided_and_nothing_more(study: Study, compared: pl.DataFrame) -> None:
    throughput = compared.filter(metric="operations_per_s")
    said = page.findings(study, compared).sentences
    decided = throughput.filter(pl.col("verdict").is_in(["slower", "faster"]))
    assert {each.partition(":")[0] for each in said[:-1]} == set(decided["kind"].replace(page.AS_PUBLISHED))
    unsure = throughput.filter(verdict="unsure").height
    assert f"leave {unsure} of {throughput.height} comparisons unsure" in said[-1]
    alike = compared.with_columns(verdict=pl.lit("unsure"))
    assert len(page.findings(study, alike).sentences) == 1


def test_releases_are_named_by_their_versions_in_their_order(study: Study) -> None:
    names = page.releases(study)
    assert list(names.values()) == ["6.11.4", "6.29.5", "7.10.2", "8.6.7", "9.7.3", "11.8.1"]
    variations = replace(study, runs=study.runs.with_columns(version=pl.lit("9.6.1")))
    assert sorted(page.releases(variations).values()) == sorted(name.partition(".")[0] for name in names)


def test_each_set_up_has_its_tables(study: Study, compared: pl.DataFrame) -> None:
    assert page.setups(study) == ["byrx", "iobuf", "iodir"]
    for setup in page.setups(study):
        row = compared.filter(metric="operations_per_s", step=f"{setup}.fillseq", dbms=NEW).row(0, named=True)
        assert f"{row['median']:.2f}" in str(page.relative(study, compared, setup).as_raw_html())  # type: ignore[union-attr]
        rows = page.behind(study).filter(step=f"{setup}.overwrite", dbms=OLD)
        assert f"{rows['operations_per_s'].item():,.0f}" in page.hidden(study, setup).as_raw_html()


def test_a_release_whose_longest_operation_is_longer_is_seen(study: Study) -> None:
    worse = pl.when(dbms=NEW, step="byrx.overwrite").then(100.0).otherwise(1.0)
    bad = replace(study, steps=study.steps.with_columns(pl.col("latency_max_us") * worse))
    said = [each for each in page.stalls(bad).sentences if each.startswith("byrx.overwrite")]
    assert len(said) == 1
    assert "the longest operation of 11.8.1 is shown to be longer than that of 6.11.4" in said[0]
    assert page.hidden(bad, "byrx").as_raw_html().count("▲") == 2, "in its cell and in the note"


def test_defaults_are_the_options_that_changed(study: Study) -> None:
    html = page.defaults(study).as_raw_html()  # type: ignore[union-attr]
    for option in ("format_version", "force_consistency_checks", "verify_sst_unique_id_in_manifest"):
        assert option in html
    assert "checksum<" not in html, "a config asks for it"
    assert "block_size" not in html, "it is the same in all"
    same = study.settings.with_columns(value=pl.lit("1"))
    assert "No option" in repr(page.defaults(replace(study, settings=same)))


def test_ours_stand_beside_the_published_ranges(study: Study, compared: pl.DataFrame) -> None:
    html = page.beside(study, compared).as_raw_html()  # type: ignore[union-attr]
    assert "0.85 to 0.95" in html, "published as 5 to 15 % lost"
    assert "1.15 to 1.20" in html
    assert "9.7.3 / 6.11.4" in html
    older = compared.filter(pl.col("dbms") == "rx6295.c8r32-small")
    assert "near enough" in repr(page.beside(study, older))
    assert "500,000" in page.what_differs(study).as_raw_html()
