"""Ratios are paired by round, never pooled across what differs, and say no more than the rounds support."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import rqps
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from rqps.errors import RqpsError
from rqps.stats import (
    COMPARED,
    MEDIAN,
    STUDENT,
    absolute,
    all_warnings,
    builds,
    compare,
    config_changes,
    config_gains,
    hidden_differences,
    measured,
    relate,
    relate_configs,
    rounds,
    rounds_within_build,
    same_for_all,
    strongest,
    verdict,
    where_from,
    with_warnings,
)
from rqps.stats.estimate import coverage
from rqps.stats.metrics import COUNTED, METRICS
from rqps.stats.summary import means_of
from rqps.store import Study
from synthetic import DBMS, Shape, manifest, write_run, write_study

BASE = "my1.base"
values = st.floats(0.2, 5.0)


def estimate(ratios: list[float]) -> SimpleNamespace:
    one = MEDIAN.estimate(pl.DataFrame({"step": "scan", "ratio": ratios}), ["step"], "ratio")
    return SimpleNamespace(**one.row(0, named=True))


def relative(study: Study, base: str = BASE, steps: pl.DataFrame | None = None) -> pl.DataFrame:
    given = study if steps is None else replace(study, steps=steps)
    return rounds(measured(given, COMPARED), given.runs, base)


def compared(ratios: list[float]) -> SimpleNamespace:
    """The row of the tidy frame of some rounds."""
    who = {"host": "here", "step": "scan", "metric": "operations_per_s", "base": BASE, "dbms": "my2.base"}
    paired = [{**who, "base_value": 1.0, "me_value": ratio, "ratio": ratio} for ratio in ratios]
    row = compare(pl.DataFrame(paired)).row(0, named=True)
    assert (row["n"], row["base_estimate"]) == (len(ratios), 1.0)
    return SimpleNamespace(**row)


@given(st.lists(values, min_size=1, max_size=40), st.randoms())
def test_an_interval_is_ordered_around_its_median_and_blind_to_order(result: list[float], chance: Random) -> None:
    got = estimate(result)
    assert got.n == len(result)
    if got.low is not None and got.high is not None:
        assert min(result) <= got.low <= got.estimate <= got.high <= max(result)
    chance.shuffle(result)
    assert estimate(result) == got


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in range(2, 13) for k in range(1, n // 2 + 1)])
def test_the_stated_coverage_is_the_true_one(n: int, k: int) -> None:
    # Each value is below the true median or above it, like a coin; the interval misses when fewer than k fall on
    # one side. All 2^n ways are counted here.
    held = sum(k <= sum(sides) <= n - k for sides in itertools.product((0, 1), repeat=n))
    assert coverage(n, k) == pytest.approx(held / 2**n, abs=1e-15)


@given(st.integers(2, 200))
def test_the_interval_is_the_narrowest_of_at_least_95_percent_or_the_widest(n: int) -> None:
    got = estimate([float(value) for value in range(n)])
    assert got.low is not None
    k = round(got.low) + 1
    if n < 6:
        assert (k, got.coverage) == (1, 1 - 2.0 ** (1 - n))
        assert got.coverage < 0.95
    else:
        assert got.coverage >= 0.95
        assert k == n // 2 or coverage(n, k + 1) < 0.95


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ([0.60, 0.62, 0.61, 0.65, 0.63, 0.62], "slower"),
        ([1.05, 1.10, 1.06, 1.07, 1.12, 1.08], "faster"),
        ([0.995, 1.01, 1.00, 1.00, 0.99, 1.005], "same"),
        ([0.97, 1.01, 1.00, 1.00, 0.99, 1.02], "unsure"),
        ([0.985, 0.99, 0.99, 0.99, 0.985, 0.99], "same"),
    ],
)
def test_the_verdict_follows_the_interval(result: list[float], expected: str) -> None:
    row = compared(result)
    assert row.verdict == expected
    assert bool(row.needs) == (expected == "unsure")


@settings(max_examples=50)
@given(st.lists(values, min_size=6, max_size=30))
def test_swapping_the_sides_swaps_the_verdict(result: list[float]) -> None:
    interval = compared(result)
    existing, back = interval.verdict, compared([1 / value for value in result]).verdict
    opposite = {"slower": "faster", "faster": "slower", "same": "same", "unsure": "unsure"}
    # 2 % below is not exactly 2 % above: right at that edge a verdict may become `same` or cease to be.
    near = abs(max(interval.sure_low, 2 - interval.sure_high) - 0.98) < 0.001 or "same" in (existing, back)
    assert near or back == opposite[existing]


def test_an_unsure_number_says_how_many_rounds_it_would_take() -> None:
    assert compared([0.97, 1.01, 1.00, 1.00, 0.99, 1.02]).needs == "about 16 rounds at this spread"
    assert "more than 60 rounds" in compared([0.5, 1.5, 0.99, 1.01, 0.7, 1.4]).needs


def test_four_rounds_are_enough_for_a_great_difference() -> None:
    assert (compared([0.60, 0.62, 0.61, 0.65]).verdict, compared([0.60, 0.62, 0.61, 0.65]).needs) == ("slower", "")
    assert STUDENT.quantile(4) == pytest.approx(2.776, abs=5e-4)


@pytest.mark.parametrize("metric", [*METRICS, COUNTED.name])
@pytest.mark.parametrize("of", ["ratio", "difference"])
@given(rounds=st.lists(st.floats(0.1, 10), min_size=1, max_size=3))
@settings(max_examples=10, deadline=None)
def test_fewer_than_four_rounds_decide_nothing(metric: str, of: Any, rounds: list[float]) -> None:
    named = {"host": "h", "step": "scan", "metric": metric, "base": "a.x", "dbms": "b.x", "base_value": 1.0}
    rows = [named | {"me_value": ratio, "ratio": ratio, "difference": ratio - 1} for ratio in rounds]
    compared = compare(pl.DataFrame(rows), of)
    assert compared["verdict"].to_list() == ["unsure"]
    assert compared["needs"].to_list() == [f"4 rounds: there are {len(rounds)}"]


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 9), st.integers(1, 9))
def test_more_comparisons_or_looks_never_make_a_verdict_easier(few: int, more: int, looks: int, again: int) -> None:
    narrow = verdict.coverage_of_each(few, looks)
    assert verdict.coverage_of_each(few + more, looks) >= narrow
    assert verdict.coverage_of_each(few, looks + again) >= narrow


def test_comparisons_of_too_few_rounds_take_no_part_in_the_correction() -> None:
    chance = Random(3)
    named = {"host": "h", "metric": COUNTED.name, "base": "a.x", "dbms": "b.x", "base_value": 1.0, "me_value": 1.0}
    decidable = [named | {"step": f"{n}", "ratio": 1 + chance.gauss(0, 0.001)} for n in range(5) for _ in range(4)]
    once = [named | {"step": f"once {n}", "ratio": 1.5} for n in range(50)]
    alone, beside = (compare(pl.DataFrame(rows)).head(5) for rows in (decidable, decidable + once))
    assert_frame_equal(alone, beside)


@pytest.mark.parametrize("rounds", [1, 2, 4, 8])
def test_the_interval_of_counts_holds_the_true_ratio_as_often_as_it_says(rounds: int) -> None:
    chance = Random(rounds)
    named = {"host": "h", "metric": COUNTED.name, "base": "a.x", "dbms": "b.x", "base_value": 1.0, "me_value": 1.0}
    rows = [
        named | {"step": str(step), "ratio": math.exp(chance.gauss(0, 0.001) - chance.gauss(0, 0.001))}
        for step in range(400)
        for _ in range(rounds)
    ]
    covered = compare(pl.DataFrame(rows)).select((pl.col("low") <= 1) & (pl.col("high") >= 1)).to_series().mean()
    assert covered >= 0.93  # type: ignore[operator]


def of_occasions(occasions: int, rounds: int, between: float) -> pl.DataFrame:
    """Rounds of equal servers on several occasions, each of which moves a ratio."""
    chance = Random(31)
    named = {"host": "h", "metric": "operations_per_s", "base": "a.x", "dbms": "b.x", "base_value": 1.0}
    rows = []
    for step, occasion in itertools.product(range(200), range(1, occasions + 1)):
        moved = chance.gauss(0, between)
        for _ in range(rounds):
            ratio = math.exp(moved + chance.gauss(0, 0.005))
            rows.append(
                named | {"step": str(step), "occasion": occasion, "me_value": ratio, "ratio": ratio, "error": 0.003}
            )
    return pl.DataFrame(rows)


def test_the_interval_of_three_occasions_holds_what_a_fourth_finds_and_that_of_one_does_not() -> None:
    rounds = of_occasions(4, 6, between=0.03)
    of_three, of_one = compare(rounds.filter(pl.col("occasion") < 4)), compare(rounds.filter(occasion=1))
    fourth = compare(rounds.filter(occasion=4)).select("step", fourth="estimate")
    holds = pl.col("fourth").is_between("low", "high").mean()
    assert of_three.select("n", "occasions").unique().rows() == [(18, 3)]
    assert 0.92 <= of_three.join(fourth, on="step").select(holds).item() <= 0.98
    assert of_one.join(fourth, on="step").select(holds).item() < 0.4
    assert set(of_three["verdict"]) <= {"same", "unsure"}


@pytest.mark.parametrize("with_error", [True, False])
def test_an_occasion_of_one_round_is_a_value_like_the_others(with_error: bool) -> None:
    rounds = of_occasions(4, 6, between=0.03)
    rounds = rounds if with_error else rounds.drop("error")
    first = rounds.filter(pl.int_range(pl.len()).over("step", "occasion") == 0)
    for some in (first, pl.concat([rounds.filter(pl.col("occasion") < 4), first.filter(occasion=4)])):
        compared, means = compare(some), some.group_by("step", "occasion").agg(pl.col("ratio").log().mean())
        means = means.group_by("step").agg(mean=pl.col("ratio").mean().exp())
        both = compared.join(means, on="step")
        assert both.select((pl.col("estimate") - pl.col("mean")).abs().max()).item() < 0.005
        assert (compared["low"] < compared["estimate"]).all()
        assert compared.filter(pl.col("verdict").is_in(["slower", "faster"])).height < 0.05 * compared.height


def test_a_mean_over_occasions_has_an_estimate_though_some_of_its_keys_are_null() -> None:
    rounds = of_occasions(3, 4, between=0.01).with_columns(round=pl.int_range(pl.len()).over("step"))
    rounds = rounds.with_columns(looks=pl.lit(1), smallest_effect=pl.lit(0.02))
    means = means_of(rounds.filter(pl.col("step").is_in(["0", "1"])), "base")
    assert means.select("n", pl.col("estimate").is_null()).rows() == [(12, False)]


def test_occasions_that_agree_make_intervals_as_wide_as_one_more_occasion_is_uncertain() -> None:
    width = (pl.col("high") - pl.col("low")).median()
    rounds = of_occasions(3, 6, between=0.0)
    together, by_occasion = (compare(frame).select(width).item() for frame in (rounds.drop("occasion"), rounds))
    assert by_occasion == pytest.approx(2 * together, rel=0.6)


def test_over_occasions_no_number_of_rounds_settles_what_differs_from_hour_to_hour() -> None:
    moved = of_occasions(3, 6, between=0.03).with_columns(pl.col("ratio") * 0.97)
    unsure = compare(moved).filter(verdict="unsure")
    assert unsure["rounds_needed"].null_count() == unsure.height > 0
    assert unsure["needs"].unique().to_list() == ["further occasions: it differs from hour to hour"]


def test_an_occasion_half_done_counts_as_one_of_three() -> None:
    rounds = of_occasions(3, 6, between=0.03).with_row_index()
    half = rounds.filter((pl.col("occasion") < 3) | (pl.col("index") % 6 == 0)).drop("index")
    rows, complete = compare(half), compare(rounds.drop("index"))
    assert rows.select("n", "occasions").unique().rows() == [(13, 3)]
    width = (pl.col("high") - pl.col("low")).median()
    assert 1 < rows.select(width).item() / complete.select(width).item() < 1.5, "less is known, never more"


@pytest.mark.parametrize("column", ["build_digest", "identity", "parameters", "placement"])
def test_occasions_that_differ_are_not_pooled(tmp_path: Path, column: str) -> None:
    study = rqps.load("synthetic", write_study(tmp_path, rounds=6))
    later = pl.col("round") > 3
    runs = study.runs.with_columns(pl.when(later).then(pl.lit("another")).otherwise(column).alias(column))
    runs = runs.with_columns(occasion=pl.when(later).then(2).otherwise(1).cast(pl.Int32))
    with pytest.raises(RqpsError, match=f"runs with different {column} can't be in one comparison: .* another in r"):
        measured(replace(study, runs=runs))


def test_occasions_on_two_hosts_stand_apart(tmp_path: Path) -> None:
    study = rqps.load("synthetic", write_study(tmp_path, rounds=8))
    existing = pl.when(pl.col("round") > 4).then(pl.lit("there")).otherwise("host").alias("host")
    apart = replace(study, runs=study.runs.with_columns(existing), steps=study.steps.with_columns(existing))
    assert set(compare(relative(apart)).select("host", "n").iter_rows()) == {("here", 4), ("there", 4)}


def test_steps_that_are_noisier_leave_the_others_as_sure() -> None:
    chance = Random(12)
    rows = [
        {"step": f"{noise} {step}", "ratio": 1 + chance.gauss(0, noise), "error": noise / 2}
        for noise in (0.005, 0.05)
        for step in range(12)
        for _ in range(6)
    ]
    quiet, both = (
        STUDENT.estimates(pl.DataFrame(some), ["step"], "ratio")(0.9995)[:12] for some in (rows[:72], rows)
    )
    assert both["high"].log().to_list() == pytest.approx(quiet["high"].log().to_list(), rel=0.3, abs=0.002)


def test_what_surely_differs_leaves_the_others_more_sure() -> None:
    chance = Random(12)
    rows = [{"step": str(step), "ratio": 1 + chance.gauss(0, 0.01)} for step in range(20) for _ in range(6)]
    named = {
        "host": "h",
        "metric": "operations_per_s",
        "base": "a.x",
        "dbms": "b.x",
        "base_value": 1.0,
        "me_value": 1.0,
    }
    equal = pl.DataFrame([named | row for row in rows])
    others_differ = equal.with_columns(pl.col("ratio") / pl.when(step="0").then(1).otherwise(2))
    pages = [compare(rounds) for rounds in (equal, others_differ)]
    wide, narrow = (page.filter(step="0").select(pl.col("sure_high") / pl.col("sure_low")).item() for page in pages)
    assert narrow < wide
    assert set(pages[1].filter(pl.col("step") != "0")["verdict"]) == {"slower"}
    lines = [verdict.method(*verdict.deciding(page)) for page in pages]
    assert "99.75 % of each of 20 comparisons" in lines[0]
    assert "99 % of each of 20 comparisons" in lines[1]
    assert "the 19 that surely differ are no risk" in lines[1]


@settings(max_examples=25)
@given(st.randoms())
def test_pairs_are_of_one_round_whatever_the_order_of_rows(study: Study, chance: Random) -> None:
    rows = list(range(study.steps.height))
    chance.shuffle(rows)
    shuffled = relative(study, steps=study.steps[rows])
    assert shuffled.equals(relative(study))
    assert (shuffled["run"].str.slice(0, 3) == shuffled["base_run"].str.slice(0, 3)).all()
    assert (shuffled["ratio"] - shuffled["me_value"] / shuffled["base_value"]).abs().max() == 0


def test_the_ratio_is_of_the_numbers_in_the_raw_table(study: Study) -> None:
    row = relative(study).row(0, named=True)
    raw = {name: study.steps.filter(run=row[name], step=row["step"]).to_dicts()[0] for name in ("run", "base_run")}
    assert row["metric"] == "operations_per_s"
    rate = {name: step["operations"] / step["elapsed_s"] for name, step in raw.items()}
    assert row["ratio"] == pytest.approx(rate["run"] / rate["base_run"], rel=1e-12)


def test_a_round_without_its_base_gives_no_ratio(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=3)
    (data / "raw/study=synthetic/run=r02@my1.base@here/manifest.json").unlink()
    study = rqps.load("synthetic", data=data)
    assert set(relative(study)["round"]) == {1, 3}


@pytest.mark.parametrize("wrong", [{"operations": 0}, {"errors": 3}, {"operations_per_s": None}])
def test_a_failed_step_is_a_warning_and_no_number(study: Study, wrong: dict[str, int | None]) -> None:
    bad = (pl.col("run") == "r01@my2.base@here") & (pl.col("step") == "point-query")
    steps = study.steps.with_columns(
        pl.when(bad).then(pl.lit(value)).otherwise(pl.col(name)).cast(study.steps.schema[name]).alias(name)
        for name, value in wrong.items()
    )
    summary = compare(relative(study, steps=steps))
    key = {"dbms": "my2.base", "step": "point-query", "metric": "operations_per_s"}
    assert summary.filter(**key)["n"].to_list() == [5]
    assert summary.select(pl.col("estimate", "low", "high").is_finite().all()).row(0) == (True, True, True)
    warned = all_warnings(replace(study, steps=steps))
    assert warned.filter(kind="errors")["run"].to_list() == ["r01@my2.base@here"]
    assert "errors" in with_warnings(summary, warned).filter(**key)["warnings"].to_list()[0]


def test_transactions_done_again_are_part_of_the_work(study: Study) -> None:
    """A deadlock is no error: the transaction came to its end."""
    bad = (pl.col("run") == "r01@my2.base@here") & (pl.col("step") == "point-query")
    retried = pl.when(bad).then(30).otherwise("retries").cast(pl.Int64)
    steps = study.steps.with_columns(retried.alias("retries"))
    assert relative(study, steps=steps).equals(relative(study))
    assert all_warnings(replace(study, steps=steps)).filter(kind="errors").is_empty()


def test_nothing_is_divided_by_nothing(study: Study) -> None:
    idle = study.steps.with_columns(
        server_cpu_s=pl.when(pl.col("dbms") == BASE).then(0.0).otherwise(pl.col("server_cpu_s"))
    )
    assert set(relative(study, steps=idle)["metric"]) == {"operations_per_s"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"build_digest": "other"}, "build_digest"),
        ({"identity": "other options"}, "identity"),
        ({"parameters": {"table_rows": 9}}, "parameters"),
        ({"workload": "point-lookups"}, "workload"),
    ],
)
def test_what_differs_is_never_pooled(tmp_path: Path, change: dict[str, object], named: str) -> None:
    data = write_study(tmp_path, rounds=2)
    shape = Shape(rounds=3)
    for dbms in DBMS:
        write_run(data / "raw/study=synthetic", manifest(dbms, 3, shape, **change), shape)
    study = rqps.load("synthetic", data=data)
    with pytest.raises(RqpsError, match=named) as caught:
        relative(study)
    assert "r03@" in str(caught.value)
    with pytest.raises(RqpsError, match=named):
        absolute(measured(study))


def test_an_unknown_metric_is_named(tmp_path: Path) -> None:
    study = rqps.load("synthetic", data=write_study(tmp_path, rounds=2))
    with pytest.raises(RqpsError, match="no metric 'operations_per_sec'") as caught:
        measured(study, ["operations_per_sec"])
    assert caught.value.fix == "did you mean 'operations_per_s'?"


def test_hosts_are_never_mixed(tmp_path: Path) -> None:
    data, shape = write_study(tmp_path, rounds=2), Shape(rounds=2)
    for round_, dbms in itertools.product((1, 2), DBMS):
        facts = manifest(dbms, round_, shape, host="there", run=f"r{round_:02}@{dbms}@there", build_digest="x")
        write_run(data / "raw/study=synthetic", facts, shape)
    study = rqps.load("synthetic", data=data)
    ratios = relative(study)
    assert set(compare(ratios)["host"]) == {"here", "there"}
    assert set(compare(ratios)["n"]) == {2}
    assert (ratios["run"].str.split("@").list.last() == ratios["base_run"].str.split("@").list.last()).all()


def test_an_unknown_base_lists_those_that_ran(study: Study) -> None:
    with pytest.raises(RqpsError, match=r"base 'my9\.base'") as caught:
        relative(study, "my9.base")
    assert "my1.base, my2.base, my2.ps0" in caught.value.fix


def test_a_config_is_weighed_within_its_build(study: Study) -> None:
    effects = rounds_within_build(measured(study), study.runs, BASE)
    assert set(zip(effects["base"], effects["dbms"], strict=True)) == {("my2.base", "my2.ps0")}
    ratio = compare(effects).filter(metric="operations_per_s", step="point-query")["estimate"].item()
    assert ratio == pytest.approx(0.8 / 0.7, rel=0.02)
    rounds_, compared_ = relate(study)
    gains = config_gains(rounds_, relate_configs(study, compared_)[0])
    back = gains.filter(metric="operations_per_s")
    assert back["instead_of"].to_list() == ["my2.base"] * 2
    assert back["estimate"].to_list() == pytest.approx([0.1, 0.1], abs=0.02)


def test_what_a_config_changes_is_read_from_its_options(study: Study) -> None:
    changes = config_changes(study.conditions)
    assert changes.filter(dbms="my2.ps0")["change"].to_list() == ["performance_schema=OFF"]


def test_rounds_that_are_missing_are_a_warning(tmp_path: Path) -> None:
    data = write_study(tmp_path, rounds=2)
    (data / "raw/study=synthetic/run=r02@my2.ps0@here/manifest.json").unlink()
    warned = all_warnings(rqps.load("synthetic", data=data)).filter(kind="rounds")
    assert warned.select("dbms", "text").rows() == [("my2.ps0", "1 of 2 rounds have finished")]


def moved(study: Study, frame: str, value: str, **cell: str) -> Study:
    """The study with another value in the rows of a frame that belong to this cell."""
    of_cell = pl.all_horizontal(pl.col(column) == wanted for column, wanted in cell.items())
    now = pl.when(of_cell).then(pl.lit(value)).otherwise("value").alias("value")
    return replace(study, **{frame: getattr(study, frame).with_columns(now)})


def test_settings_that_differ_unasked_are_a_warning(study: Study) -> None:
    differing = moved(study, "settings", "ON", dbms="my2.base", name="query_cache_type")
    result = hidden_differences(differing, BASE)
    assert result.select("dbms", "name", "base_value", "value").rows() == [
        ("my2.base", "query_cache_type", "OFF", "ON")
    ]
    assert hidden_differences(study, BASE).is_empty()
    warned = all_warnings(differing)
    assert warned.filter(kind="defaults")["text"].to_list() == [
        "settings that differ from my1.base though no config asks for it: 1"
    ]
    # Such as ssl_ca: they stand under the conditions, and mark no number.
    assert set(with_warnings(compare(relative(study)), warned)["warnings"].explode()) == {"steal"}


def test_the_same_value_written_otherwise_is_no_difference(study: Study) -> None:
    of = {name: (pl.col("dbms") == name) & (pl.col("name") == "query_cache_type") for name in DBMS}
    value = pl.when(of[BASE]).then(pl.lit("90")).when(of["my2.base"]).then(pl.lit("90.000000")).otherwise("value")
    other = replace(study, settings=study.settings.with_columns(value.alias("value")))
    result = hidden_differences(other, BASE)
    assert result["dbms"].to_list() == ["my2.ps0"]


def test_settings_that_changed_between_rounds_are_a_warning(study: Study) -> None:
    warned = all_warnings(moved(study, "settings", "ON", run="r02@my2.base@here", name="query_cache_type"))
    assert "query_cache_type differs between rounds: OFF or ON" in warned["text"].to_list()


def test_a_machine_that_changed_between_runs_is_a_warning(study: Study) -> None:
    warned = all_warnings(moved(study, "conditions", "Other CPU", run="r02@my2.base@here", name="cpu.model"))
    assert "machine cpu.model differs between runs: Synthetic CPU or Other CPU" in warned["text"].to_list()
    summary = with_warnings(compare(relative(study)), warned)
    assert summary["warnings"].list.contains("conditions").all()


def test_facts_of_a_moment_are_given_from_lowest_to_highest(study: Study) -> None:
    load = study.conditions.filter(name="cpu.model").with_columns(
        pl.lit("load_1min").alias("name"), pl.col("round").cast(pl.String).alias("value")
    )
    common = same_for_all(pl.concat([study.conditions, load]))
    assert common.filter(name="load_1min")["value"].to_list() == ["1.0 to 6.0"]
    assert common.filter(name="cpu.model")["value"].to_list() == ["Synthetic CPU"]
    assert common.filter(kind="option")["name"].to_list() == ["max_connections"]
    without = study.conditions.filter(~((pl.col("name") == "max_connections") & (pl.col("dbms") == BASE)))
    assert same_for_all(without).filter(kind="option").is_empty()
    assert all_warnings(replace(study, conditions=pl.concat([study.conditions, load]))).height == 1


def test_a_build_is_listed_with_the_options_that_not_all_have_alike(study: Study) -> None:
    listed = builds(study.runs, study.conditions)
    assert listed["dbms"].to_list() == list(DBMS)
    assert listed["options"].to_list() == [f"performance_schema={value}" for value in ("ON", "ON", "OFF")]
    assert listed["runs"].to_list() == [6, 6, 6]


def test_dbms_of_one_version_stand_in_the_order_of_the_study(tmp_path: Path) -> None:
    listed = Shape(dbms=("my1.base", "my2.ps0", "my2.base"))
    study = rqps.load("synthetic", data=write_study(tmp_path, listed))
    assert builds(study.runs, study.conditions)["dbms"].to_list() == list(listed.dbms)
    assert list(dict.fromkeys(relate(study)[1]["dbms"])) == ["my2.ps0", "my2.base"]


def test_a_number_is_traced_to_the_rows_that_it_is_from(study: Study) -> None:
    ratios = relative(study)
    traced = where_from(ratios, "update-index", "my2.ps0")
    assert traced["round"].to_list() == [1, 2, 3, 4, 5, 6]
    for row in traced.iter_rows(named=True):
        raw = pl.read_parquet(Path(study.place, f"run={row['me_run']}/steps.parquet")).filter(pl.sql_expr(row["row"]))
        assert (raw["operations"] / raw["elapsed_s"]).to_list() == pytest.approx([row["me_value"]])
    assert strongest(compare(ratios))[2] == "my2.base"


def test_the_summed_up_table_is_as_it_was(study: Study) -> None:
    summary = compare(relative(study)).filter(metric="operations_per_s")
    got = [
        "{step} {dbms} {estimate:.3f} [{low:.3f}, {high:.3f}] {n} {verdict}".format(**row)
        for row in summary.iter_rows(named=True)
    ]
    assert got == [
        "point-query my2.base 0.700 [0.695, 0.704] 6 slower",
        "point-query my2.ps0 0.799 [0.795, 0.804] 6 slower",
        "update-index my2.base 0.702 [0.700, 0.704] 6 slower",
        "update-index my2.ps0 0.800 [0.797, 0.803] 6 slower",
    ]


def test_the_absolute_table_is_of_medians(study: Study) -> None:
    table = absolute(measured(study))
    row = table.filter(metric="operations_per_s", step="point-query", dbms=BASE).to_dicts()[0]
    raw = study.steps.filter(step="point-query", dbms=BASE)["operations_per_s"]
    assert row["estimate"] == raw.median()
    assert (row["low"], row["high"]) == (raw.min(), raw.max())
