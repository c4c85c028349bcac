"""Cycles in which others had the CPUs leave for all sides; what a server itself does in a few cycles stays."""

from dataclasses import replace

import polars as pl
import pytest
import rqps
from rqps import Study
from rqps.pages import measurement_health as page
from rqps.show.claims import wrong
from rqps.stats import health, measured
from synthetic import DBMS, Shape
from synthetic_duet import CYCLES, write_duets

SLOWED = pl.col("cycle") < 6
"""The cycles in which one side is slowed down to a half."""
ME, STEP = DBMS[1], "point-query"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", write_duets(tmp_path_factory.mktemp("data"), Shape(), health=0))


def with_cycles(study: Study, outside: pl.Expr, slices: pl.LazyFrame | None = None) -> Study:
    """The study with a table of cycles, of which others had the share `outside`."""
    cpu_us = 1e5
    cycles = (
        study.slices.select("run", "step", "cycle").unique().with_columns(cpu_us=cpu_us, outside_us=outside * cpu_us)
    )
    return replace(study, cycles=cycles, slices=study.slices if slices is None else slices)


def slowed(study: Study) -> pl.LazyFrame:
    """Slices of which one side did half in the first cycles."""
    some = SLOWED & (pl.col("dbms") == ME)
    return study.slices.with_columns(pl.when(some).then(pl.col("operations") // 2).otherwise("operations"))


def values(study: Study) -> pl.DataFrame:
    return measured(study).filter(step=STEP).select("run", "metric", "value", "blocks")


def test_a_disturbed_cycle_leaves_for_all_sides_and_nothing_else_does(study: Study) -> None:
    disturbed = with_cycles(study, pl.when(SLOWED).then(0.3).otherwise(0.02), slowed(study))
    without = replace(study, slices=study.slices.filter(~SLOWED))
    runs = values(disturbed).join(values(without), on=["run", "metric"])
    of_slices = runs.filter(pl.col("blocks").is_not_null(), metric="server_cpu_us_per_operation")
    assert of_slices.height == 3 * 6
    assert of_slices["value"].to_list() == pytest.approx(of_slices["value_right"].to_list())


def test_throughput_has_the_time_of_the_cycles_that_count(study: Study) -> None:
    disturbed = with_cycles(study, pl.when(SLOWED).then(0.3).otherwise(0.02), slowed(study))
    complete = study.slices.filter(step=STEP).group_by("run").agg(pl.col("operations", "busy_us").sum()).collect()
    counting = study.slices.filter(~SLOWED, step=STEP).group_by("run").agg(pl.col("operations", "busy_us").sum())
    both = counting.collect().join(complete, on="run", suffix="_whole").join(study.steps.filter(step=STEP), on="run")
    share = pl.col("busy_us") / pl.col("busy_us_whole")
    expected = both.select("run", expected=pl.col("operations") / (pl.col("elapsed_s") * share))
    of_runs = values(disturbed).filter(metric="operations_per_s").join(expected, on="run")
    assert of_runs["value"].to_list() == pytest.approx(of_runs["expected"].to_list())


def test_what_a_server_does_in_a_few_cycles_stays(study: Study) -> None:
    flushing = replace(study, slices=slowed(study))
    assert values(with_cycles(study, pl.lit(0.02), slowed(study))).equals(values(flushing))
    assert not values(flushing).equals(values(study))


def test_without_a_disturbance_or_its_counters_nothing_changes(study: Study) -> None:
    assert values(with_cycles(study, pl.lit(0.09))).equals(values(study))
    assert health(study).cycles.is_empty()
    assert "of the CPUs" not in page.in_a_sentence(health(study))


def test_where_all_cycles_are_disturbed_all_count_and_the_page_says_so(study: Study) -> None:
    always = with_cycles(study, pl.lit(0.4))
    assert values(always).equals(values(study))
    text = page.in_a_sentence(health(always))
    cycles = CYCLES * 2 * 6
    assert (
        f"more than 10 % of the CPUs in {cycles} of {cycles} cycles, of which 0 were left out for all sides; "
        "where most cycles of a step were like that, they count"
    ) in text


def test_the_page_says_how_many_left_and_its_numbers_are_recomputed(study: Study) -> None:
    some = with_cycles(study, pl.when(SLOWED).then(0.3).otherwise(0.0))
    text = page.in_a_sentence(health(some))
    assert "in 72 of 720 cycles, of which 72 were left out for all sides" in text
    assert "where most" not in text
    assert wrong(text, lambda _: health(some).facts) == []
