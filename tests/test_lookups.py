"""Point lookups as numbers: the unit of all ratios, where an axis is cut, plans, and ours beside theirs."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from rqps import stats
from rqps.errors import RqpsError
from rqps.pages import point_lookups as page
from rqps.pages.point_lookups.response_charts import JUMP, cut_of
from rqps.published import read
from rqps.published.releases import lookups_beside, lookups_contradictions, lookups_differ
from rqps.report.index import facts_of
from rqps.store import Manifest, Placement, Warning_, write_study_card
from synthetic import add_step_columns, card, manifest, write_rows

DBMS = {"my5534.base": 10.0, "my5534.ps0": 8.0, "my5624.base": 15.0, "my5624.ps0": 12.0}
"""Microseconds that a lookup takes."""
VERSIONS = {"my5534": "5.5.34", "my5624": "5.6.24-log"}
KINDS = {"pk": 1.0, "cover-noforce": 1.5, "cover-force": 2.0}
STEPS = [(engine, kind, clients) for engine in ("innodb", "memory") for clients in (1, 4) for kind in KINDS]
ROUNDS = 6
CYCLES = 4


def elapsed_s(dbms: str, engine: str, kind: str, round_: int) -> float:
    """1000 queries in all, on one CPU: with more clients nothing gets faster."""
    scan = 300.0 if (engine, kind) == ("memory", "cover-force") else KINDS[kind]
    return 1000 * DBMS[dbms] * scan * (1 + 0.001 * round_) / 1e6


def write(data: Path, rounds: int = ROUNDS, duet: bool = False, **changes: Any) -> Path:
    folder = data / "raw/study=lookups"
    parameters = {"engines": ["innodb", "memory"], "table_rows": 64000, **({} if duet else {"queries": 1000})}
    tools = {"sysbench": "1.0.20"} if duet else {"mysqlslap": "8.0.33 (sha256 0123456789ab)"}
    study: dict[str, Any] = {"study": "lookups", "workload": "point-lookups", "parameters": parameters}
    write_study_card(folder, card(**study, base="my5534.base", dbms=tuple(DBMS), rounds=rounds))
    for round_ in range(1, rounds + 1):
        for position, dbms in enumerate(DBMS):
            facts = manifest(
                dbms,
                round_,
                **study,
                **{name: changes[name] for name in ("placement", "placements") if name in changes},
                version=VERSIONS[dbms.partition(".")[0]],
                options={"performance_schema": "OFF" if dbms.endswith("ps0") else "ON"},
                tools=tools,
                run=f"r{round_:02}@here/{dbms}" if duet else f"r{round_:02}@{dbms}@here",
                position=position,
                warnings=tuple(
                    Warning_(kind="plan", text="by xj, not by xjk", step=f"{engine}.{kind}@{clients}")
                    for engine, kind, clients in STEPS
                    if kind == "cover-noforce"
                ),
            )
            _write_run(folder, facts, dbms, round_, changes)
    return data


def _write_run(folder: Path, facts: Manifest, dbms: str, round_: int, changes: dict[str, Any]) -> None:
    rows, plans, slices = [], [], list[dict[str, Any]]()
    for position, (engine, kind, clients) in enumerate(STEPS):
        seconds = elapsed_s(dbms, engine, kind, round_)
        step = f"{engine}.{kind}@{clients}"
        usual = {"step": step, "position": position, "unit": "query", "clients": clients, "operations": 1000}
        usual |= {
            "elapsed_s": seconds,
            "operations_per_s": 1000 / seconds,
            "warmup_s": 0.1,
            "errors": 0,
            "retries": 0,
        }
        usual |= {"server_cpu_s": 0.75 * seconds, "client_cpu_s": 0.25 * seconds}
        rows.append(usual | (changes.get(step) or {}))
        if "/" in facts.run:
            slices += _slices(step, clients * seconds * 1e6, usual)
        key = {"pk": "PRIMARY", "cover-noforce": "xj", "cover-force": "xjk"}[kind]
        plans.append({"step": step, "statement": f"select {kind}", "access": "ref", "key": key, "rows": 1})
    add_step_columns("point-lookups", rows)
    write_rows(folder, facts, {"steps": rows, "plans": plans, "slices": slices})


def _slices(step: str, busy_us: float, of_step: dict[str, Any]) -> list[dict[str, Any]]:
    """The slices of a step, while the machine is slow in every other cycle, for all servers."""
    count = 2 * CYCLES
    return [
        {"step": step, "slice": number, "cycle": number // 2, "operations": of_step["operations"] // count}
        | {"busy_us": busy_us / count * (0.5 + number // 2 % 2)}
        | {f"{who}_cpu_us": of_step[f"{who}_cpu_s"] * 1e6 / count for who in ("server", "client")}
        for number in range(count)
    ]


@pytest.fixture(scope="module", params=["rounds", "duet"])
def study(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> rqps.Study:
    return rqps.load("lookups", data=write(tmp_path_factory.mktemp("data"), duet=request.param == "duet"))


def with_steps(study: rqps.Study, steps: pl.DataFrame) -> rqps.Study:
    return rqps.Study(**{**vars(study), "steps": steps})


def medians(frame: pl.DataFrame, dbms: str) -> dict[str, float]:
    return {row["step"]: round(row["estimate"], 6) for row in frame.filter(dbms=dbms).iter_rows(named=True)}


def test_all_is_relative_to_one_lookup_of_the_base_on_the_same_engine(study: rqps.Study) -> None:
    relative = page.values(study, "relative")
    assert medians(relative, "my5534.base") == {
        f"{engine}.{kind}@{clients}": clients * lookups
        for engine, forced in (("innodb", 2.0), ("memory", 300.0))
        for kind, lookups in (("pk", 1.0), ("cover-noforce", 1.5), ("cover-force", forced))
        for clients in (1, 4)
    }
    assert medians(relative, "my5624.ps0")["innodb.cover-force@4"] == 1.2 * 8
    assert set(relative["n"]) == {ROUNDS}
    assert set(relative["unit"]) == {"innodb.pk@1", "memory.pk@1"}
    in_us = page.values(study, "microseconds").filter(dbms="my5534.base", step="innodb.pk@4").row(0, named=True)
    assert 40 < in_us["low"] < in_us["estimate"] < in_us["high"] < 40.3, "four clients wait four times as long"


def test_without_pk_from_one_client_the_nearest_to_it_is_the_unit(tmp_path: Path) -> None:
    study = rqps.load("lookups", data=write(tmp_path))
    few = study.steps.filter(~pl.col("step").str.contains("pk@1$"), pl.col("step").str.starts_with("innodb"))
    assert set(page.values(with_steps(study, few), "relative")["unit"]) == {"innodb.cover-noforce@1"}
    few = few.filter(pl.col("step").str.ends_with("@4"))
    assert set(page.values(with_steps(study, few), "relative")["unit"]) == {"innodb.pk@4"}


def test_rounds_without_the_base_give_no_ratio_and_none_at_all_is_an_error(study: rqps.Study) -> None:
    lost = study.steps.filter((pl.col("dbms") != "my5534.base") | (pl.col("round") > 2))
    found = page.values(with_steps(study, lost), "relative")
    assert set(found["n"]) == {4}, "rounds 3 to 6 have their base"
    with pytest.raises(RqpsError, match=r"no round has the lookups of its base 'my5534\.base'"):
        page.values(with_steps(study, study.steps.filter(pl.col("dbms") != "my5534.base")), "relative")


@pytest.mark.parametrize(
    "broken",
    [
        {"operations": 0, "operations_per_s": None},
        {"errors": 3},
        {"operations": 0, "operations_per_s": None, "elapsed_s": 0.0, "server_cpu_s": 0.0, "client_cpu_s": 0.0},
    ],
)
def test_a_step_that_did_nothing_or_failed_is_no_number_anywhere(broken: dict[str, Any], tmp_path: Path) -> None:
    changes: dict[str, Any] = {"innodb.cover-force@4": broken}
    study = rqps.load("lookups", data=write(tmp_path, **changes))
    frames = [page.values(study, quantity) for quantity in page.QUANTITIES]
    for frame in frames:
        assert "innodb.cover-force@4" not in set(frame["step"])
        assert frame.filter(step="innodb.cover-force@1").height == len(DBMS)
    said = stats.all_warnings(study).filter(kind="errors", step="innodb.cover-force@4")
    assert said.height == len(DBMS) * ROUNDS


def test_the_share_of_the_generator_is_of_both(study: rqps.Study) -> None:
    shares = page.values(study, "generator_share")
    assert shares["estimate"].round(9).to_list() == [0.25] * len(STEPS) * len(DBMS)


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=40))
def test_an_axis_is_cut_only_where_half_is_seen_and_something_runs_far_off(values: list[float]) -> None:
    cut = cut_of(values)
    if cut is not None:
        seen = [value for value in values if value <= cut]
        off = [value for value in values if value > cut]
        assert 2 * len(seen) >= len(values)
        assert off
        assert min(off) >= 0.99 * JUMP * max(seen)


def test_charts_are_whole_and_cut_where_one_kind_runs_off(study: rqps.Study) -> None:
    drawn = page.charts(study)
    said = [chart.to_dict()["usermeta"]["rqps"]["claim"] for chart in drawn]
    of_both = [f"{engine}, {clients}" for engine in ("innodb", "memory") for clients in ("1 client", "4 clients")]
    cut = [f"{each}," for each in of_both[2:]]
    assert sorted(claim.partition(":")[0].partition(" the")[0] for claim in said) == sorted(of_both + cut)
    assert said[0] == (
        "innodb, 1 client: a lookup takes 0.80 (PK, my5534.ps0) to 3.00 times (cover-force, my5624.base) "
        "as long as the unit."
    )
    assert said[3] == "memory, 1 client, the axis cut at 2.6. Off it run cover-force in all dbms (240 to 450)."


def test_an_axis_is_read_without_powers_of_ten(study: rqps.Study) -> None:
    whole = page.charts(study)[2]
    drawn = [text.text for text in ET.fromstring(vl_convert.vegalite_to_svg(whole.to_dict())).iter() if text.text]
    assert "e+" not in " ".join(drawn)
    assert {"0", "200"} <= set(drawn)


def test_one_round_is_drawn_without_intervals(tmp_path: Path) -> None:
    study = rqps.load("lookups", data=write(tmp_path, rounds=1))
    assert len(page.charts(study)) == 6
    assert "no interval" in page.numbers(study, "relative").as_raw_html()
    assert "One round, so there is no interval." in page.answers(study).as_raw_html()


def test_tables_have_a_row_a_dbms_and_a_column_a_kind(study: rqps.Study) -> None:
    html = page.numbers(study, "relative").as_raw_html()
    for words in ("innodb, 1 client<", "memory, 4 clients<", "cover-noforce", "my5624.ps0", "6 rounds", "97 %"):
        assert words in html
    said = repr(page.generator_answers(study))
    assert "In half of all steps and dbms it takes 25% or more of the CPU time of both." in said
    assert "At least 25% (25%–25%), in innodb.pk@1 of my5534.base. Medians of 6 rounds." in said
    share = page.numbers(study, "generator_share").as_raw_html()
    assert "25%" in share


def test_plans_stand_once_with_the_dbms_that_read_so_and_marked_where_not_as_named(study: rqps.Study) -> None:
    plans = page.read_by(study)
    assert plans.select("storage_engine", "kind", "reads", "differs").rows() == [
        (engine, kind, f"{key}, ref", kind == "cover-noforce")
        for engine in ("innodb", "memory")
        for kind, key in (("pk", "PRIMARY"), ("cover-noforce", "xj"), ("cover-force", "xjk"))
    ]
    assert all(sorted(dbms) == sorted(DBMS) for dbms in plans["dbms"])
    html = page.plans(study)._repr_html_()
    assert html.count("⚠ not as named") == 2
    nothing = page.plans(rqps.Study(**{**vars(study), "plans": study.plans.clear()}))
    assert "before plans were" in repr(nothing)


def test_a_warning_on_a_plan_travels_with_the_number(study: rqps.Study) -> None:
    rounds = stats.rounds(stats.measured(study), study.runs, study.card.base)
    carried = stats.with_warnings(stats.compare(rounds), stats.all_warnings(study))
    warned = {row["step"]: "plan" in row["warnings"] for row in carried.iter_rows(named=True)}
    assert warned == {f"{e}.{k}@{c}": k == "cover-noforce" for e, k, c in STEPS}


def test_ours_stand_beside_theirs_where_both_changed_the_same(study: rqps.Study) -> None:
    figures = read()
    beside = lookups_beside(figures, study)
    schema = "with the performance schema"
    without = f"{schema} to without it"
    assert beside.select("compared", "theirs", "ours", "of", "rounds").rows() == [
        (f"5.5 {without}", "1.06 (1.06–1.07)", "1.25 (1.25–1.25)", "my5534.base / my5534.ps0", 6),
        ("5.6 to 5.5, both without it", "1.09 (1.08–1.10)", "1.50 (1.50–1.50)", "my5624.ps0 / my5534.ps0", 6),
        (f"5.6 to 5.5, both {schema}", "1.07 (1.06–1.07)", "1.50 (1.50–1.50)", "my5624.base / my5534.base", 6),
        (f"5.6 {without}", "1.04 (1.04–1.05)", "1.25 (1.25–1.25)", "my5624.base / my5624.ps0", 6),
    ]
    said = " ".join(lookups_differ(figures, study))
    sliced = not study.slices.collect().is_empty()
    load = "1,000 or fewer, all by mysqlslap 8.0.33 (sha256 0123456789ab)"
    load = "those of 1 s, by sysbench 1.0.20" if sliced else load
    for words in ("5.5.34, 5.6.24", "40 hyperthread cores", f"ours {load}"):
        assert words in said
    assert any("--number-of-queries" in each for each in lookups_contradictions(figures))


def test_a_study_of_other_releases_has_nothing_beside_it(study: rqps.Study) -> None:
    others = study.runs.with_columns(pl.lit("8.0.33").alias("version"))
    alone = rqps.Study(**{**vars(study), "runs": others})
    beside = lookups_beside(read(), alone)
    assert beside.is_empty()
    assert "nothing in common" in repr(page.beside(alone)[0])


def test_the_first_page_says_where_things_ran_for_each_number_of_clients(tmp_path: Path) -> None:
    one = Placement(kind="same-cpu", server_cpus=(1,), client_cpus=(1,), observer_cpus=(0,))
    many = Placement(kind="free", server_cpus=(0, 1), client_cpus=(0, 1), observer_cpus=(0, 1))
    by_clients = many.model_copy(update={"kind": "by-clients"})
    data = write(tmp_path, rounds=1, placement=by_clients, placements={1: one, 4: many, 32: many})
    study = rqps.load("lookups", data=data)
    said = dict(facts_of(study, study.runs))["placement"]
    assert said.split("; ") == [
        "with 1 client same-cpu: server on CPU 1, client on CPU 1, observer on CPU 0",
        "with 4 clients free: server on CPU 0, 1, client on CPU 0, 1, observer on CPU 0, 1",
        "with 32 clients free: server on CPU 0, 1, client on CPU 0, 1, observer on CPU 0, 1",
    ]
