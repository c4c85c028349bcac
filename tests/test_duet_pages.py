"""Pages on duets show what is known of each server, lead to its slices, and always have a row instead of an error."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from executed import Notebook
from rqps import show
from rqps.pages import cost_per_operation
from rqps.show import Sentences
from rqps.show.lines import NO_DUET
from rqps.show.words import NOT_COMPARED
from rqps.stats import (
    SAME_WORK,
    all_warnings,
    compare,
    counters_over_time,
    relate,
    side_by_side,
    throughput_over_time,
    waiting,
    where_from,
)
from rqps.store import Study, write_study_card
from synthetic import (
    DBMS,
    SPEED,
    Shape,
    card,
    in_turns,
    manifest,
    shape_of_many,
    tables,
    write_duets,
    write_rows,
    write_study,
)

BASE, CPU = "my1.base", "server_cpu_us_per_operation"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", data=write_duets(tmp_path_factory.mktemp("data")))


def drawn(shown: Any) -> str:
    """What a cell shows, as the page has it."""
    if isinstance(shown, str | Sentences):
        return str(shown)
    return str(shown.to_json() if hasattr(shown, "to_json") else shown.as_raw_html())


def all_of(study: Study) -> Iterator[Any]:
    """Every chart, table and sentence of the two pages that show any study."""
    rounds, compared = relate(study)
    yield Notebook("relative_throughput", study).html
    for metric in ("operations_per_s", CPU):
        yield show.heatmap(compared, metric)
        yield show.ratio_table(compared, metric)
        yield show.ratio_text(compared, metric)
        yield show.trace(study, rounds, compared, metric)
    for published in (False, True):
        yield from cost_per_operation.cost_tables(cost_per_operation.costs(study, published=published))


def test_a_duet_finds_the_ratios_that_it_was_made_with_whatever_the_machine_does(study: Study) -> None:
    rows = relate(study)[1].filter(metric="operations_per_s")
    for row in rows.to_dicts():
        assert row["estimate"] == pytest.approx(SPEED[row["dbms"]], rel=0.01)
        assert row["verdict"] == "slower"


def test_a_ratio_leads_to_its_run_and_to_the_slices_that_it_is_from(study: Study) -> None:
    rounds, _ = relate(study)
    traced = where_from(rounds, "update-index", "my2.ps0")
    assert traced["me_run"][0] == "r01@here/my2.ps0"
    for row in traced.to_dicts():
        rates = []
        for side in ("me", "base"):
            folder = Path(study.place, f"run={row[f'{side}_run']}")
            of_step = pl.read_parquet(folder / "steps.parquet").filter(pl.sql_expr(row["row"]))
            assert of_step["operations_per_s"].item() == pytest.approx(row[f"{side}_value"])
            slices = pl.read_parquet(folder / "slices.parquet").filter(pl.sql_expr(row["row"]))
            assert slices["cycle"].n_unique() == row["cycles"]
            rates.append(slices.select(pl.col("operations").sum() / pl.col("busy_us").sum()).item())
        assert rates[0] / rates[1] == pytest.approx(row["ratio"])
        cpu = where_from(rounds, "update-index", "my2.ps0", CPU).filter(round=row["round"]).row(0, named=True)
        assert cpu["me_value"] == pytest.approx(of_slices(study, row["me_run"], "update-index"))


def of_slices(study: Study, run: str, step: str) -> float:
    """CPU of an operation in a run's own slices."""
    rows = study.slices.filter(run=run, step=step).collect()
    return float(rows.select(pl.col("server_cpu_us").sum() / pl.col("operations").sum()).item())


def test_what_is_of_all_servers_together_is_not_taken_for_one(study: Study) -> None:
    assert cost_per_operation.costs(study, published=True).is_empty()
    metrics = cost_per_operation.costs(study)["metric"].unique()
    assert [name for name in metrics if name.startswith(("host_", "client_"))] == ["client_cpu_us_per_operation"]


def test_a_second_of_a_duet_counts_the_time_that_the_server_had(study: Study) -> None:
    steps = study.steps.with_columns(clients=pl.lit(2, pl.Int32))
    rate = {1: throughput_over_time(study.intervals, study.steps), 2: throughput_over_time(study.intervals, steps)}
    raw = study.intervals.filter(run=f"r01@here/{BASE}", step="point-query", second=0).collect().to_dicts()[0]
    of_one = throughput_over_time(study.intervals.filter(run=f"r01@here/{BASE}"), study.steps)
    first = of_one.filter(step="point-query", second=0)["estimate"].item()
    assert first == pytest.approx(1e6 / raw["latency_mean_us"])
    assert (rate[2]["estimate"] / rate[1]["estimate"]).to_list() == pytest.approx([2] * rate[1].height)


def test_counters_of_the_host_stand_once_for_all_servers_of_a_duet(study: Study) -> None:
    unit = rqps.load_run(Path(study.place, "run=r01@here"))
    series = counters_over_time(unit.counters, unit.steps, unit.runs)
    busy = series.filter(measure="CPUs busy").group_by("who").len()
    assert {who for who in busy["who"] if who.startswith("dbms")} == {f"dbms {dbms}" for dbms in DBMS}
    assert busy["len"].n_unique() == 1
    assert "of all its dbms together" in show.counters(series).to_dict()["usermeta"]["rqps"]["how"]
    without = unit.counters.with_columns(host_cpu_user_s=pl.lit(None, pl.Float64))
    assert "whole host" not in set(
        counters_over_time(without, unit.steps, unit.runs).filter(measure="CPUs busy")["who"]
    )


def test_the_picture_of_a_duet_goes_from_slices_to_rounds(study: Study) -> None:
    rounds, compared = relate(study)
    spec = show.duet(study, rounds, compared).to_dict()
    rows = {tuple(sorted(dataset[0])): dataset for dataset in spec["datasets"].values()}
    slices = next(item for columns, item in rows.items() if "slice" in columns)
    cycles, of_rounds = rows["cycle", "ratio"], rows["cycles", "ratio", "round"]
    assert {row["dbms"] for row in slices} == {BASE, "my2.base"}
    assert len(cycles) == 10
    assert min(cycle["ratio"] for cycle in cycles) < of_rounds[0]["ratio"] < max(cycle["ratio"] for cycle in cycles)
    assert spec["usermeta"]["rqps"]["claim"].startswith("point-query: my2.base runs at 0.")


def test_without_a_duet_there_is_no_picture(tmp_path: Path) -> None:
    alone = rqps.load("synthetic", data=write_study(tmp_path, rounds=2))
    assert show.duet(alone, *relate(alone)).sentences == (NO_DUET,)


@pytest.mark.parametrize(
    ("throughput", "cpu", "instructions", "waiting", "reason", "differ"),
    [
        ("unsure", "slower", None, "faster", "less waiting offsets the extra CPU time", True),
        ("faster", "slower", None, "faster", "less waiting saves more than the extra CPU time", True),
        ("slower", "same", None, "slower", "an operation waits longer for the same CPU time", True),
        ("unsure", "slower", None, "unsure", None, True),
        ("unsure", "slower", None, None, None, True),
        ("slower", "slower", "same", None, SAME_WORK, True),
        ("slower", None, "same", None, SAME_WORK, True),
        ("slower", "same", "same", "slower", "an operation waits longer for the same CPU time", True),
        ("slower", "same", "same", None, SAME_WORK, True),
        ("slower", "slower", "unsure", None, None, False),
        ("slower", "slower", "slower", None, None, False),
    ],
)
def test_verdicts_that_differ_have_a_reason_where_waiting_shows_it(
    throughput: str, cpu: str, instructions: str | None, waiting: str | None, reason: str | None, differ: bool
) -> None:
    cell = {"host": "here", "step": "scan", "base": BASE, "dbms": "my2.base"}
    verdicts = {"operations_per_s": throughput, CPU: cpu, "server_instructions_per_operation": instructions}
    compared = pl.DataFrame([{**cell, "metric": name, "verdict": word} for name, word in verdicts.items() if word])
    waits = pl.DataFrame([{**cell, "verdict": waiting, "base_estimate": 2.0, "me_estimate": 1.0}])
    row = side_by_side(compared, waits).row(0, named=True)
    assert (row["reason"], row["differ"]) == (reason, differ)
    by_counts = SAME_WORK if instructions == "same" else None
    assert side_by_side(compared)["reason"].to_list() == [by_counts], "without the waits they explain nothing"
    negative = waits.with_columns(me_estimate=pl.lit(-0.5))
    assert side_by_side(compared, negative)["reason"].to_list() == [by_counts], "other threads worked meanwhile"


def test_an_operation_waits_for_what_is_not_cpu_time(study: Study) -> None:
    waits = waiting(study)
    assert waits.select("step", "dbms").rows() == relate(study)[1].filter(metric=CPU).select("step", "dbms").rows()
    one = waits.row(0, named=True)
    slices = study.slices.filter(pl.col("step") == one["step"], pl.col("dbms") == one["dbms"])
    of_rounds = (
        slices.group_by("round")
        .agg(
            (pl.col("busy_us") - pl.col("server_cpu_us") - pl.col("client_cpu_us")).sum() / pl.col("operations").sum()
        )
        .collect()
    )
    assert one["me_estimate"] == pytest.approx(of_rounds["busy_us"].median())
    several = study.steps.with_columns(clients=pl.lit(4, pl.Int32))
    assert waiting(replace(study, steps=several)).is_empty(), "of several clients each waits for the others"
    elsewhere = study.conditions.filter(pl.col("value") != "same-cpu")
    assert waiting(replace(study, conditions=elsewhere)).is_empty()


def test_a_page_says_once_by_which_interval_it_decides(study: Study) -> None:
    rounds, compared = relate(study)
    assert "8 comparisons, so that all hold together at 95 %" in drawn(show.method(compared))
    few = compare(rounds.filter(metric="operations_per_s"))
    assert "interval of 98.75 % of each of 4" not in drawn(show.method(few)), "99 % at least"
    assert "interval of 99 % of each of 4 comparisons" in drawn(show.method(few))


def test_equal_rounds_have_a_verdict_and_no_width() -> None:
    step = {"host": "here", "metric": "operations_per_s", "base": BASE, "dbms": "my2.base", "base_value": 1.0}
    ratios = {f"step {number}": (1.0, 0.5)[number % 2] for number in range(1000)}
    rows = [{**step, "step": name, "me_value": ratio, "ratio": ratio} for name, ratio in ratios.items()] * 4
    compared = compare(pl.DataFrame(rows))
    assert compared.height == 1000
    assert dict(compared.group_by("estimate", "verdict").len().select("estimate", "verdict").rows()) == {
        1.0: "same",
        0.5: "slower",
    }


def test_one_round_is_unsure_and_says_what_it_would_take(tmp_path: Path) -> None:
    one = rqps.load("synthetic", data=write_duets(tmp_path, rounds=1))
    _, compared = relate(one)
    assert set(compared["verdict"]) == {"unsure"}
    assert set(compared["needs"]) == {"4 rounds: there are 1"}
    assert all(drawn(item) for item in all_of(one))


def test_a_base_of_another_host_leaves_a_row_that_says_why(tmp_path: Path) -> None:
    shape = Shape(rounds=2)
    data = write_duets(tmp_path, shape)
    folder = data / "raw/study=synthetic"
    for round_ in (1, 2):
        shutil.rmtree(folder / f"run=r{round_:02}@here/{BASE}")
        facts = manifest(BASE, round_, shape, host="there", run=f"r{round_:02}@there/{BASE}")
        write_rows(folder, facts, in_turns(tables(facts, shape), facts, shape))
    mixed = rqps.load("synthetic", data=data)
    assert relate(mixed)[1].is_empty()
    rows = all_warnings(mixed).filter(kind="uncompared")
    assert rows.select("host", "dbms", "step").height == 4
    assert set(rows["text"]) == {f"no verdict: in no round {BASE} gave a number on the same host"}
    shown = [drawn(one) for one in all_of(mixed)]
    assert any(NOT_COMPARED in one for one in shown)
    assert any("in no round" in one for one in shown)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.5])
def test_pages_show_duets_however_noisy(tmp_path: Path, noise: float) -> None:
    duets = rqps.load("synthetic", data=write_duets(tmp_path, noise=noise, rounds=4))
    assert all(map(drawn, all_of(duets)))


def test_pages_show_a_duet_of_all_steps_and_ten_builds(tmp_path: Path) -> None:
    many = rqps.load("synthetic", data=write_duets(tmp_path, shape_of_many()))
    rounds, compared = relate(many)
    assert len(drawn(show.duet(many, rounds, compared))) < 500_000
    assert len(Notebook("relative_throughput", many).html) < 3_000_000


def test_pages_show_a_thousand_steps(tmp_path: Path) -> None:
    steps = tuple(f"read-only_range={number}" for number in range(1, 1001))
    shape = Shape(dbms=DBMS[:2], steps=steps, rounds=1)
    thousand = rqps.load("synthetic", data=write_duets(tmp_path, shape))
    assert relate(thousand)[1].filter(metric="operations_per_s").height == 1000
    assert all(drawn(one) for one in all_of(thousand))


def test_the_smallest_effect_of_a_study_decides_and_stands_in_its_sentences(tmp_path: Path) -> None:
    data = write_duets(tmp_path, rounds=8)
    folder = data / "raw/study=synthetic"
    for share, word, value in ((0.3, "same", "within 30 %"), (0.001, "slower", "within 0.1 %")):
        write_study_card(folder, card(smallest_effect=share))
        study = rqps.load("synthetic", data=data)
        _, compared = relate(study)
        assert set(compared.filter(dbms="my2.ps0", metric="operations_per_s")["verdict"]) == {word}
        assert value in drawn(show.ratio_table(compared))
        shown = "".join(map(drawn, all_of(study)))
        assert value in shown
        assert "within 2 %" not in shown


def test_a_round_in_which_nothing_was_used_has_no_ratio_and_spoils_no_other() -> None:
    step = {"host": "here", "metric": "wKB/o", "base": BASE, "dbms": "my2.base", "base_value": 1.0}
    ratios = {f"step {number}": [1.0, 1.1, 0.9, 1.05, 0.95, 1.02] for number in range(5)}
    ratios["step 0"][0] = 0.0
    rows = [{**step, "step": name, "me_value": one, "ratio": one} for name, of in ratios.items() for one in of]
    compared = compare(pl.DataFrame(rows))
    assert compared["n"].to_list() == [5, 6, 6, 6, 6]
    assert compared.select(pl.col("estimate", "low", "high").is_finite().all()).row(0) == (True, True, True)
    assert set(compared["verdict"]) == {"unsure"}
