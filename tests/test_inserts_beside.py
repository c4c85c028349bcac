"""Our insert benchmark beside the published ones: the same step, the same two releases, each with its own spread."""

from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic_inserts as made_up
from rqps.published import read
from rqps.published.releases import inserts_beside, inserts_differ
from rqps.store import Study

VERSIONS = {"my5614": "5.6.14", "my5624": "5.6.24-log", "my8033": "8.0.33", "my97": "9.7.0"}
SPEED = {
    "my8033.base": 1.0,
    "my8033.ps0": 1.1,
    "my5614.base": 1.3,
    "my5624.base": 1.25,
    "my5624.ps0": 1.3,
    "my97.base": 0.9,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    shape = made_up.Shape(dbms=SPEED, versions=VERSIONS, noise=0.0)
    return rqps.load("inserts", data=made_up.write(tmp_path_factory.mktemp("data"), shape))


@pytest.fixture(scope="module")
def beside(study: Study) -> pl.DataFrame:
    return inserts_beside(read(), study)


def test_releases_stand_beside_those_with_the_same_first_two_numbers(beside: pl.DataFrame) -> None:
    rows = (
        beside.filter(compared="8.0 to 5.6").select("step", "theirs", "ours", "of", "rounds").unique().sort("theirs")
    )
    of = "my8033.base / my5624.base"
    assert rows.rows() == [
        ("l.i0", "0.63", "0.80 (0.80–0.80)", f"l.i0: {of}", 6),
        ("l.i1", "0.73", "0.80 (0.80–0.80)", f"l.i1: {of}", 6),
        ("q100.1", "0.81", "0.80 (0.80–0.80)", f"qr100: {of}", 6),
        ("q100.1", "0.94", "0.80 (0.80–0.80)", f"qr100: {of}", 6),
    ]


def test_the_performance_schema_stands_beside_the_same_release_without_it(beside: pl.DataFrame) -> None:
    rows = beside.filter(compared="8.0 without the performance schema").select("step", "theirs", "ours", "of").rows()
    assert rows == [
        ("l.i0", "about 1.07", "1.10 (1.10–1.10)", "l.i0: my8033.ps0 / my8033.base"),
        ("l.i1", "about 1.07", "1.10 (1.10–1.10)", "l.i1: my8033.ps0 / my8033.base"),
        ("l.x", "about 1.5", "1.10 (1.10–1.10)", "l.x: my8033.ps0 / my8033.base"),
        ("q100", "1.11–1.15", "1.10 (1.10–1.10)", "qr100: my8033.ps0 / my8033.base"),
    ]
    assert set(beside["compared"]) == {"8.0 to 5.6", "8.0 without the performance schema"}, "there is no 5.7 here"


def test_a_study_may_have_nothing_in_common(tmp_path: Path) -> None:
    alone = rqps.load("inserts", data=made_up.write(tmp_path, made_up.Shape(rounds=1)))
    assert inserts_beside(read(), alone).is_empty()


def test_differences_between_the_studies_are_named(study: Study) -> None:
    text = " ".join(inserts_differ(read(), study))
    for word in ("20 million rows", "100,000 rows a client", "4 cores, Ubuntu 20.04", "leave it out when compiling"):
        assert word in text
