"""The page of db_bench on the sample: what it calls decided, what throughput hides, and own defaults of releases."""

from dataclasses import replace
from pathlib import Path

import nbformat
import polars as pl
import pytest
import rqps
from rqps import stats
from rqps.pages import db_bench as page
from rqps.stats import relate
from rqps.store import Study

ROOT = Path(__file__).parent.parent
READS = ROOT / "data/sample/study=rocksdb-reads"
OLD, NEW = "rx6114.c8r32-small", "rx1181.c8r32-small"


def shown_by(source: str) -> str:
    """The HTML that the notebook shows below the cell with this source; nbval and the page tests run it."""
    cells = nbformat.read(ROOT / "notebooks/analysis/db_bench.ipynb", as_version=nbformat.NO_CONVERT).cells
    (cell,) = [cell for cell in cells if cell.cell_type == "code" and source in cell.source]
    return "".join(output.data["text/html"] for output in cell.outputs)


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
    sentences = page.findings(study, compared).sentences
    decided = deciding.filter(pl.col("verdict").is_in(["slower", "faster"]))
    assert {text.partition(" ")[0] for text in sentences[:-1]} == set(decided["kind"].replace(page.AS_PUBLISHED))
    unsure = deciding.filter(verdict="unsure").height
    assert sentences[-1].startswith(f"Inconclusive: {unsure} of {deciding.height} comparisons (")
    alike = compared.with_columns(verdict=pl.lit("unsure"))
    assert len(page.findings(study, alike).sentences) == 1


def test_instructions_that_were_counted_once_decide_no_finding(reads: Study) -> None:
    sentences = page.findings(reads, relate(reads)[1]).sentences
    assert not [sentence for sentence in sentences if " the instructions of " in sentence]


def test_releases_are_named_by_their_versions_in_their_order(study: Study) -> None:
    names = page.releases(study)
    assert list(names.values()) == ["6.11.4", "6.29.5", "7.10.2", "8.6.7", "9.7.3", "11.8.1"]
    variations = replace(study, runs=study.runs.with_columns(version=pl.lit("9.6.1")))
    assert sorted(page.releases(variations).values()) == sorted(name.partition(".")[0] for name in names)


def test_the_notebook_shows_each_set_up(compared: pl.DataFrame) -> None:
    ratios = compared.filter(metric="operations_per_s", dbms=NEW, kind="fillseq")
    assert set(ratios["group"]) == {"byrx", "iobuf", "iodir"}
    table = shown_by("show.pivoted(ratios")
    assert all(f"{ratio:.2f}" in table for ratio in ratios["estimate"])


def test_hosts_have_rows_of_their_own(study: Study, compared: pl.DataFrame) -> None:
    both = pl.concat([compared, compared.with_columns(host=pl.lit("other"))])
    assert "9.7.3 on other" in page.named(study, both)["release"]


def test_all_that_was_recorded_stands_in_one_table(study: Study) -> None:
    steps = study.steps.filter(step="iobuf.overwrite", dbms=NEW)
    table = shown_by('name="costs"')
    for name, form, unit in (("latency_max_us", ",.2f", 1e3), ("server_write_kb", ",.0f", 1024)):
        assert format(steps[name].median() / unit, form) in table  # type: ignore[operator]
    for column in ("stalled_pct", "background_cpu_us", "compaction_cpu_us", "write_amplification", "memory_mb"):
        assert column in table


def test_trees_are_those_before_and_after_a_step(study: Study) -> None:
    of_level = {"name": "level_kb", "object": "7", "step": "byrx.fillseq", "dbms": OLD, "moment": "after"}
    size = study.status.filter(**of_level).collect()
    megabytes = size["value"].cast(pl.Float64).median() / 1024  # type: ignore[operator]
    assert f"L7 {megabytes:.1f}" in shown_by('name="trees"')


def test_defaults_are_the_options_that_changed() -> None:
    table = shown_by('name="defaults"')
    for option in ("format_version", "force_consistency_checks", "verify_sst_unique_id_in_manifest"):
        assert option in table
    assert ">checksum<" not in table, "a config asks for it"
    assert "block_size" not in table, "it is the same in all"


def test_a_study_of_reads_has_no_published_numbers(study: Study, reads: Study) -> None:
    assert "None of these steps has published numbers" in repr(page.published_beside(reads, relate(reads)[1]))
    assert page.conditions_beside(reads).is_empty()
    assert page.conditions_beside(study)["here"].str.contains("500,000").any()


def test_ours_stand_beside_the_published_ranges(study: Study, compared: pl.DataFrame) -> None:
    html = page.published_beside(study, compared).as_raw_html()  # type: ignore[union-attr]
    assert "0.85 to 0.95" in html, "published as 5 to 15 % lost"
    assert "1.15 to 1.20" in html
    assert "9.7.3 / 6.11.4" in html
    older = compared.filter(pl.col("dbms") == "rx6295.c8r32-small")
    assert "near enough" in repr(page.published_beside(study, older))
