"""A study is believed where equal servers come out equal, and its page says what it can't tell."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from browser import Browser, each_width, opened
from executed import Notebook
from rqps import stats
from rqps.pages import measurement_health as page
from rqps.report import build
from rqps.stats import Health, compare, health, relate, verdict
from rqps.stats.health import between_occasions, fitted_drift
from synthetic import Shape, write_study
from synthetic_duet import write_duets
from test_relative import of_occasions

SHAPE = Shape(steps=("point-query", "update-index", "range-covered-si", "insert"))
NOTEBOOK = Path(__file__).parent.parent / "notebooks/analysis/measurement_health.ipynb"
SAMPLES = Path(__file__).parent.parent / "data/sample"


def judged(tmp_path: Path, shape: Shape = SHAPE, **changes: Any) -> Health:
    return health(rqps.load("synthetic", write_duets(tmp_path, shape, **changes)))


def of_rounds(tmp_path: Path, rounds: int = 6, **changes: Any) -> Health:
    return health(rqps.load("synthetic", write_study(tmp_path, rounds=rounds, **changes)))


def test_good_duets_are_believed_and_the_sentence_has_the_numbers(tmp_path: Path) -> None:
    result = judged(tmp_path, health=6)
    assert result.belief == "believed"
    text = page.in_a_sentence(result)
    assert text.startswith("This study is reliable: the base against itself differs by 0.2 % ± ")
    assert re.search(
        r" the noise floor is 1.3 % in 4 of 4 steps \([\d.]+ % in the comparison that resolves most\);"
        r" no round was disturbed by other processes.$",
        text,
    )
    assert page.advice(result) == ""


def test_what_can_be_told_is_half_of_the_interval_that_decides(tmp_path: Path) -> None:
    result = judged(tmp_path, health=0)
    cells = compare(result.rounds).with_columns(((pl.col("sure_high") / pl.col("sure_low")).sqrt() - 1).alias("half"))
    for row in result.steps.iter_rows(named=True):
        of_step = cells.filter(step=row["step"], metric=row["metric"])
        assert row["noise_floor"] == of_step["half"].max()
        # Luck of both starts, 0.6 % each; cycles tell a round to 0.3 %, and the machine's own 10 % are divided away.
        assert 0.004 < row["between"] < 0.014
    alone = result.steps.filter(metric="operations_per_s")["alone"]
    assert alone.min() > 0.03  # type: ignore[operator]


def test_what_occasions_differ_by_beyond_their_rounds_is_the_machine_s(tmp_path: Path) -> None:
    [row] = between_occasions(of_occasions(6, 6, between=0.03)).to_dicts()
    assert (row["occasions"], row["within"], row["between"]) == (6, *map(pytest.approx, (0.005, 0.03), (0.2, 0.2)))
    [row] = between_occasions(of_occasions(6, 6, between=0.0)).to_dicts()
    assert row["between"] < 0.002
    few = judged(tmp_path, health=0)
    assert between_occasions(few.rounds).is_empty()
    assert Notebook("measurement_health", few.study)["of_occasions"] == []
    timed = Notebook("measurement_health", rqps.load(str(SAMPLES / "study=mysql-history-timed")))
    state, [machine] = timed["in_words"], timed["of_occasions"]
    assert re.match(
        r"By the median of all readings, this machine had \S+ of the \d+ MB of .*, clock \S+ GHz: ", state
    )
    assert re.match(r"Between its 3 occasions, ratios of throughput differ by [\d.]+ % more than rounds", machine)


@pytest.mark.parametrize("name", ["releases", "where-did-it-go", "point-lookups", "sysbench-releases"])
def test_no_decided_difference_is_below_the_noise_floor(name: str) -> None:
    sample = rqps.load(str(SAMPLES / f"study={name}"))
    decided = relate(sample)[1].filter(pl.col("verdict").is_in(["slower", "faster"]), metric="operations_per_s")
    finest = health(sample).finest
    assert finest is not None
    assert finest <= decided.select((pl.col("estimate") - 1).abs().min()).item()


@pytest.mark.parametrize("duets", [2, 6])
def test_a_base_that_differs_from_itself_is_found_however_few_its_rounds(tmp_path: Path, duets: int) -> None:
    result = judged(tmp_path, health=duets, itself=0.95)
    assert result.belief == "doubtful"
    assert result.compared.filter(metric="operations_per_s")["different"].all()
    assert page.in_a_sentence(result).startswith("This study is not reliable: the base is called different from")
    assert "--archive" in page.advice(result)


@pytest.mark.parametrize("itself", [1.0, 0.95])
def test_a_twin_in_each_round_is_the_base_against_itself_and_no_part_of_the_study(
    tmp_path: Path, itself: float
) -> None:
    twins, without = judged(tmp_path / "a", health=0, twin=True, itself=itself), judged(tmp_path / "b", health=0)
    assert twins.rounds.equals(without.rounds)
    assert twins.study.runs.equals(without.study.runs.with_columns(folder=twins.study.runs["folder"]))
    assert twins.itself.group_by("step", "metric").len()["len"].to_list() == [6] * 8
    assert twins.compared.filter(metric="operations_per_s")["different"].all() == (itself < 1)
    assert set(twins.compared["dbms"]) == {"my1.base.again"}


def test_duets_of_the_base_with_itself_are_not_part_of_the_study(tmp_path: Path) -> None:
    with_, without = judged(tmp_path / "a", health=6, itself=0.5), judged(tmp_path / "b", health=0)
    assert with_.rounds.equals(without.rounds)
    assert with_.steps.select("between", "within").equals(without.steps.select("between", "within"))


def test_a_config_called_again_is_not_the_base_itself(tmp_path: Path) -> None:
    result = judged(tmp_path, replace(SHAPE, dbms=("my1.again", "my2.again")), itself=0.95)
    assert set(result.compared["dbms"]) == {"my1.again.again"}
    assert result.compared.filter(metric="operations_per_s")["different"].all()
    assert result.steps["noise_floor"].is_not_null().all()


def test_ratios_that_go_one_way_are_doubted(tmp_path: Path) -> None:
    result = judged(tmp_path, drift=0.02)
    assert result.belief == "doubtful"
    assert "comparisons drift over the rounds" in page.in_a_sentence(result)
    assert result.drift.filter("drifting", metric="operations_per_s")["change"].mean() == pytest.approx(
        0.105, abs=0.02
    )
    assert "warm-up" in page.advice(result)


def test_what_changes_between_occasions_is_no_drift() -> None:
    result = health(rqps.load(str(SAMPLES / "study=mysql-history-timed")))
    assert set(result.drift["occasions"]) == {3}
    assert not result.drift["drifting"].any()
    by_occasion = result.rounds.with_columns(pl.col("ratio") * 0.9 ** pl.col("occasion"))
    assert fitted_drift(by_occasion)["change"].to_list() == pytest.approx(result.drift["change"].to_list())
    by_round = result.rounds.with_columns(pl.col("ratio") * 0.9 ** pl.col("round"))
    assert fitted_drift(by_round)["drifting"].all()


def test_others_are_doubted_where_they_met_one_side_only(tmp_path: Path) -> None:
    alike = judged(tmp_path / "duets", disturbed=4)
    assert alike.belief == "believed"
    assert "4 of 6 rounds were disturbed by other processes, all sides alike" in page.in_a_sentence(alike)
    one_sided = of_rounds(tmp_path / "rounds")
    assert one_sided.belief == "believed"
    steps = one_sided.study.steps.filter(pl.col("round") <= 3)
    busy = steps.with_columns(kind=pl.lit("others"), text=pl.lit("busy")).select(one_sided.study.warnings.columns)
    result = health(replace(one_sided.study, warnings=busy))
    assert result.belief == "doubtful"
    assert "3 of 6 rounds were disturbed by other processes;" in page.in_a_sentence(result)
    assert "method: duet" in page.advice(result)


def test_a_study_of_rounds_is_judged_by_their_spread(tmp_path: Path) -> None:
    result = of_rounds(tmp_path, noise=0.2)
    assert result.belief == "coarse"
    text = page.in_a_sentence(result)
    assert "not all steps resolve small differences" in text
    assert text.endswith("the base was not measured against itself.")
    assert "duets where the steps can be sliced" in page.advice(result)


def test_a_round_far_from_the_others_is_named(tmp_path: Path) -> None:
    result = of_rounds(tmp_path)
    doubled = pl.when(pl.col("dbms") != "my1.base", pl.col("round") == 3).then(2.0).otherwise(1.0)
    steps = result.study.steps.with_columns(pl.col("operations_per_s", "server_cpu_s") * doubled)
    far = health(replace(result.study, steps=steps))
    assert far.by_round.filter("far")["round"].to_list() == [3]
    assert "1 round of 6 is far from the others" in page.in_a_sentence(far)


@pytest.mark.parametrize("rounds", [1, 3])
def test_few_rounds_say_that_they_tell_nothing(tmp_path: Path, rounds: int) -> None:
    for value in (judged(tmp_path / "a", Shape(rounds=rounds), health=1), of_rounds(tmp_path / "b", rounds)):
        assert value.belief == "unknown"
        assert "a verdict takes 4 rounds" in page.in_a_sentence(value)
        assert "Measure 4 rounds or more" in page.advice(value)


def test_a_study_without_its_base_or_without_runs_is_no_error(tmp_path: Path) -> None:
    complete = of_rounds(tmp_path).study
    others = replace(complete, runs=complete.runs.filter(pl.col("dbms") != "my1.base"))
    nothing = replace(others, runs=complete.runs.clear(), steps=complete.steps.clear())
    for study in (others, nothing):
        result = health(study)
        assert page.in_a_sentence(result).startswith("Nothing is measured yet: no finished run of the base")
        assert stats.recorded_findings(study).is_empty() == study.runs.is_empty()


def test_constant_rounds_are_no_error(tmp_path: Path) -> None:
    result = of_rounds(tmp_path)
    same = result.study.steps.with_columns(pl.lit(100.0).alias("operations_per_s"))
    assert page.in_a_sentence(health(replace(result.study, steps=same)))


def test_belief_needs_all_of_its_reasons() -> None:
    good = {"noise_floor": 0.01, "called": 0, "drifting": False, "disturbed": 0.0}
    assert verdict.belief(**good) == "believed"  # type: ignore[arg-type]
    for wrong in ({"called": 1}, {"drifting": True}, {"disturbed": 0.5}):
        assert verdict.belief(**(good | wrong)) == "doubtful"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_duets(tmp_path_factory.mktemp("data"), SHAPE, itself=0.95)
    notebooks = tmp_path_factory.mktemp("notebooks")
    shutil.copy(NOTEBOOK, notebooks)
    return build("synthetic", data, data / "report", notebooks).parent


@pytest.mark.usefixtures("one_kernel")
def test_the_first_page_of_a_report_has_the_sentence(report: Path) -> None:
    index = (report / "index.html").read_text()
    assert 'class="nothing" title="This study is not reliable: the base is called different' in index
    assert ">This study is not reliable</span>" in index
    assert '<a href="measurement_health.html">the reasons</a>' in index


@pytest.mark.page
@each_width
def test_the_page_fits(browser: Browser, report: Path, width: int) -> None:
    with opened(browser, report / "measurement_health.html", width) as tab:
        assert tab.wait_for_charts() == 6
        tab.must_fit(width)
        assert tab.complaints() == []
