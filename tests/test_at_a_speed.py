"""The slope of a ratio on the speed of the other servers in the same cycle, of benchmarks/at_a_speed.py."""

import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps import Study
from synthetic import Shape
from synthetic_duet import write_duets

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
from at_a_speed import slopes

STEP = "point-query"
BASE, ME, OTHER = Shape().dbms


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", write_duets(tmp_path_factory.mktemp("data"), Shape(), health=0))


def slope_of(study: Study, slices: pl.Expr, rows: pl.Expr | bool = True) -> list[tuple[float, float]]:
    """Slope and slope over its error of me against the base, from slices of these operations."""
    changed = study.slices.filter(rows).with_columns(operations=slices)
    runs = study.runs.filter(pl.col("run").is_in(changed.select("run").unique().collect()["run"].implode()))
    steps = study.steps.filter(step=STEP)
    result = slopes("synthetic", replace(study, slices=changed.filter(step=STEP), runs=runs, steps=steps))
    return [(slope, t) for _, _, slope, t, *_ in result]


def at_speed(of_me: float) -> pl.Expr:
    """Operations in a slice: the machine's speed changes with the cycle; me changes by a power more of it, and each
    slice has some luck of its own."""
    speed = 1 + (pl.col("cycle") % 7) / 10
    luck = 1 + (pl.struct("run", "slice").hash(1) % 101).cast(pl.Float64) / 1e4
    power = pl.when(pl.col("dbms") == ME).then(1.0 + of_me).otherwise(1.0)
    return (1e6 * luck * speed**power).round().cast(pl.Int64)


@pytest.mark.parametrize("of_me", [0.0, 0.2])
def test_a_known_slope_is_recovered(study: Study, of_me: float) -> None:
    (slope, t), _ = slope_of(study, at_speed(of_me))
    assert slope == pytest.approx(of_me, abs=0.01)
    assert (abs(t) > 3) == (of_me > 0)


def test_a_speed_that_does_not_change_has_no_slope(study: Study) -> None:
    constant = pl.when(pl.col("dbms") == ME).then(at_speed(0.2)).when(pl.col("dbms") == BASE).then(at_speed(0))
    assert len(slope_of(study, constant.otherwise(1_000_000))) == 1, "only the other one has a speed to go by"


def test_a_ratio_that_is_the_speed_itself_has_a_slope_of_one(study: Study) -> None:
    alike = 1_000_000 * (1 + pl.col("cycle") % 7)
    collinear = pl.when(pl.col("dbms") == BASE).then(1_000_000).otherwise(alike)
    assert [slope for slope, _ in slope_of(study, collinear)] == pytest.approx([1.0, 1.0])


def test_two_servers_have_no_others_to_go_by(study: Study) -> None:
    assert slope_of(study, at_speed(0.2), pl.col("dbms") != OTHER) == []
