"""A study of many steps is summed up by groups."""

from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.pages.relative_throughput import by_group
from rqps.show.words import first_of_many
from rqps.stats import relate
from rqps.store import Study
from synthetic import Shape, write_study

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
    throughput = summary.filter(metric="operations_per_s")
    writes = by_group(throughput).filter(group="Writes", dbms="my2.base").row(0, named=True)
    ratios = throughput.filter(group="Writes", dbms="my2.base")["estimate"]
    assert writes["steps"] == 2
    assert writes["middle"] == ratios.median() == pytest.approx((0.35 + 1.0) / 2, rel=0.01)
    assert (writes["low"], writes["high"]) == (ratios.min(), ratios.max())
    assert (writes["slower"], writes["faster"], writes["same"], writes["unsure"]) == (1, 0, 1, 0)


def test_each_step_counts_in_one_group(summary: pl.DataFrame) -> None:
    groups = by_group(summary.filter(metric="operations_per_s", dbms="my2.ps0"))
    ranges = {"Range queries without aggregation": 1, "Range queries with aggregation": 11}
    assert dict(groups.select("group", "steps").rows()) == {"Point queries": 1, **ranges, "Writes": 2}


def test_a_study_of_unknown_steps_is_one_group(tmp_path: Path) -> None:
    data = write_study(tmp_path, Shape(steps=tuple(f"step-{number}" for number in range(13)), rounds=1))
    _, compared = relate(rqps.load("synthetic", data=data))
    assert compared["step"].unique(maintain_order=True).to_list() == [f"step-{number}" for number in range(13)]
    assert by_group(compared)["group"].n_unique() == 1


def test_of_a_thousand_steps_a_page_shows_those_that_changed_most() -> None:
    steps = [f"step-{number}" for number in range(1000)]
    rows = pl.DataFrame({"step": steps, "estimate": [1 + number / 1000 for number in range(1000)]})
    shown, left_out = first_of_many(rows, rows)
    assert shown["step"].to_list() == steps[-100:]
    assert "100 of 1,000 steps" in left_out
    assert first_of_many(shown, shown)[1] == ""
