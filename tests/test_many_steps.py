"""A study of all steps by ten builds is summed up by groups, with its worst steps first, and over the releases."""

from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.pages.relative_throughput import configs, findings
from rqps.pages.relative_throughput.tables import by_group, worst
from rqps.show.lines import release_series
from rqps.show.words import first_of_many
from rqps.stats import relate
from rqps.store import Study
from synthetic import Shape, write_study

BASE = "my1.base"
STEPS = (
    "point-query_range=100",
    "scan_range=100",
    *(f"read-only_range={size}" for size in range(10, 21)),
    "update-index_range=100",
    "insert_range=100",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", data=write_study(tmp_path_factory.mktemp("data"), Shape(steps=STEPS)))


@pytest.fixture(scope="module")
def summary(study: Study) -> pl.DataFrame:
    """With `update-index` half as fast as it is, and `insert` no slower, in my2.base."""
    slowed = relate(study)[1]
    halved = pl.when(step="update-index_range=100", dbms="my2.base").then(0.5)
    factor = halved.when(step="insert_range=100", dbms="my2.base").then(1 / 0.7).otherwise(1.0)
    numbers = slowed.with_columns(pl.col(name) * factor for name in ("estimate", "low", "high"))
    verdict = pl.when(step="insert_range=100", dbms="my2.base").then(pl.lit("same")).otherwise("verdict")
    return numbers.with_columns(verdict.alias("verdict"))


def test_a_group_has_the_median_of_its_steps_and_their_reach(summary: pl.DataFrame) -> None:
    writes = by_group(summary).filter(group="Writes", dbms="my2.base").row(0, named=True)
    medians = summary.filter(group="Writes", dbms="my2.base", metric="operations_per_s")["estimate"]
    assert writes["steps"] == 2
    assert writes["middle"] == medians.median() == pytest.approx((0.35 + 1.0) / 2, rel=0.01)
    assert (writes["low_step"], writes["high_step"]) == ("update-index_range=100", "insert_range=100")
    assert (writes["low"], writes["high"]) == (medians.min(), medians.max())
    assert (writes["slower"], writes["faster"], writes["same"], writes["unsure"]) == (1, 0, 1, 0)


def test_each_step_counts_in_one_group(summary: pl.DataFrame) -> None:
    counted = by_group(summary).filter(dbms="my2.ps0")
    ranges = {"Range queries without aggregation": 1, "Range queries with aggregation": 11}
    assert dict(counted.select("group", "steps").rows()) == {"Point queries": 1, **ranges, "Writes": 2}


def test_the_worst_comes_first_and_each_step_once(summary: pl.DataFrame) -> None:
    shown = worst(summary, 5)
    assert shown["estimate"].is_sorted()
    assert shown.row(0, named=True)["step"] == "update-index_range=100"
    assert shown.row(0, named=True)["dbms"] == "my2.base"
    assert shown["step"].n_unique() == shown.height == 5
    assert set(shown["of_steps"]) == {15}
    assert shown["cpu"][1:].is_between(1.3, 1.5).all(), "beside it stands what it costs"


def test_over_releases_the_base_stands_in_its_place(summary: pl.DataFrame, study: Study) -> None:
    course = release_series(summary, study.runs).filter(step="scan_range=100")
    assert course.select("dbms", "build", "config", "verdict").rows() == [
        ("my1.base", "my1", "base", "base"),
        ("my2.base", "my2", "base", "slower"),
        ("my2.ps0", "my2", "ps0", "slower"),
    ]
    assert course.row(0, named=True)["estimate"] == 1


def test_findings_of_many_steps_are_summed_up_by_group(summary: pl.DataFrame, study: Study) -> None:
    within, gains, changes = configs(study, *relate(study))
    sentences = findings(summary, within, gains, changes).sentences
    assert len(sentences) == 1 + 4 + 1, "the other release, four groups, the other config"
    assert sentences[-2] == (
        "Writes (2 steps): in the median step my2.base runs at 0.67x (0.35 to 1.000) of my1.base. Worst: "
        "update-index 0.35x (0.35–0.35) in my2.base; 6 rounds."
    )
    both = findings(summary, within.clear(), gains, changes).sentences
    assert both[-1] == (
        "Writes (2 steps): in the median step my2.base runs at 0.67x (0.35 to 1.000) of my1.base, my2.ps0 0.80x "
        "(0.79 to 0.80). Worst: update-index 0.35x (0.35–0.35) in my2.base, insert 0.79x (0.79–0.80) in "
        "my2.ps0; 6 rounds."
    )


def test_findings_stay_short_whatever_the_number_of_dbms(summary: pl.DataFrame, study: Study) -> None:
    one, median = summary.filter(dbms="my2.base"), pl.col("estimate")
    many = [one.with_columns(pl.lit(f"other{k}.base").alias("dbms"), estimate=median / (1 + k)) for k in range(9)]
    _, gains, changes = configs(study, *relate(study))
    sentences = findings(pl.concat(many), one.clear(), gains.clear(), changes).sentences
    assert len(sentences) == 5 + 1 + 4
    assert max(map(len, sentences)) < 500


def test_a_study_of_unknown_steps_is_one_group(tmp_path: Path) -> None:
    data = write_study(tmp_path, Shape(steps=tuple(f"step-{number}" for number in range(13)), rounds=1))
    other = rqps.load("synthetic", data=data)
    rounds, compared = relate(other)
    _, gains, changes = configs(other, rounds, compared)
    assert compared["step"].unique(maintain_order=True).to_list() == [f"step-{number}" for number in range(13)]
    assert by_group(compared)["group"].n_unique() == 1
    sentences = findings(compared, compared.clear(), gains.clear(), changes).sentences
    assert sentences[2].startswith(
        "Other steps (13 steps): in the median step my2.base runs at 0.70x (0.69 to 0.71) of my1.base, "
    )


def test_of_a_thousand_steps_a_page_shows_those_that_changed_most() -> None:
    steps = [f"step-{number}" for number in range(1000)]
    rows = pl.DataFrame({"step": steps, "estimate": [1 + number / 1000 for number in range(1000)]})
    shown, left_out = first_of_many(rows, rows)
    assert shown["step"].to_list() == steps[-100:]
    assert "100 of 1,000 steps" in left_out
    assert first_of_many(shown, shown)[1] == ""
