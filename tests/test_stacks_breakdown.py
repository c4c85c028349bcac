"""Differences of parts add up to the measured difference, and chance is not called a finding."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from hypothesis import given, settings
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.pages.flamegraph_breakdown import findings
from rqps.profile import as_measured, breakdown, instruction_costs, measured_costs, operation_costs, stack_costs
from rqps.profile.breakdown import BREAKDOWN, By, Profile, profile_of
from rqps.profile.components import OTHER
from rqps.show.cost_parts import on_parts
from rqps.stats.metrics import CPU
from synthetic import Shape, manifest, write_run, write_study
from synthetic_stacks import POINT, costs_of, instructions_of, stacks_of, steps_of, study

PARSE = next(path for path in POINT if path[-1] == "MYSQLparse(THD*)")
MORE_PARSING = {**POINT, PARSE: POINT[PARSE] + 2.0}
FORBIDDEN = "perf may not sample here: kernel.perf_event_paranoid is 4"
BY_RATIO = {"estimate": 1.1, "low": 1.09, "high": 1.11, "sure_low": 1.08, "sure_high": 1.12, "coverage": 0.95}
COMPARED = {
    **{"host": "here", "step": "point-query", "base": "my1.base", "dbms": "my2.base", "metric": CPU, "n": 8},
    **{"base_estimate": 20.0, **BY_RATIO, "verdict": "slower", "needs": "", "smallest_effect": 0.02},
}
"""The server's CPU per operation, as the ordinary rounds of a study compare it."""


def both(rounds: int = 6, **changes: float) -> pl.DataFrame:
    stacks, steps = study({"my1.base": POINT, "my2.base": MORE_PARSING}, rounds, **changes)  # type: ignore[arg-type]
    return stack_costs(stacks, steps)


def counted(sides: Mapping[str, Mapping[Any, int]], rounds: int = 4) -> pl.DataFrame:
    """Costs in instructions that were counted, alike in all rounds."""
    all_rounds = range(1, rounds + 1)
    steps = pl.concat([steps_of(dbms, n, 5.0, run=f"i{n:02}@{dbms}@here") for dbms in sides for n in all_rounds])
    counts = pl.concat([instructions_of(dbms, n, of_dbms) for dbms, of_dbms in sides.items() for n in all_rounds])
    return instruction_costs(counts, steps)


def test_what_only_the_order_of_adding_changes_is_no_difference() -> None:
    costs: dict[tuple[str, ...], float] = {("a",): 0.1, ("b",): 0.2, ("c",): 0.3}
    other_order = dict(reversed(costs.items()))
    assert sum(costs.values()) != sum(other_order.values())
    result = breakdown(costs_of({"my1.base": costs, "my2.base": other_order}), "my1.base")
    assert result["estimate"].to_list() == [0.0]


@settings(max_examples=30)
@given(
    st.sampled_from(["component", "function"]),
    st.integers(1, 4),
    st.lists(st.floats(0, 50), min_size=len(POINT), max_size=len(POINT)),
    st.randoms(use_true_random=False),
)
def test_differences_add_up(by: By, rounds: int, costs: list[float], chance: random.Random) -> None:
    me = dict(zip(POINT, [cost + 0.01 for cost in costs], strict=True))
    stacks, steps = study({"my1.base": POINT, "my2.base": me}, rounds, samples=200, seed=chance.randrange(10**6))
    parts = breakdown(stack_costs(stacks, steps), "my1.base", by)
    assert parts.schema == BREAKDOWN
    us = (1e6 * pl.col("server_cpu_s") / pl.col("operations")).mean().alias("us")
    base_us, me_us = steps.group_by("dbms").agg(us).sort("dbms")["us"]
    assert parts["base_estimate"].sum() == pytest.approx(base_us, rel=1e-12)
    assert parts["me_estimate"].sum() == pytest.approx(me_us, rel=1e-12)
    assert parts["estimate"].sum() == pytest.approx(me_us - base_us, abs=1e-9)
    assert parts["me_measured"].to_list() == pytest.approx([me_us] * parts.height)


def test_what_falls_in_no_component_is_a_row_even_where_it_is_nothing() -> None:
    known = {path: cost for path, cost in POINT.items() if path[-1] != "nobody_knows_this"}
    parts = breakdown(stack_costs(*study({"my1.base": known, "my2.base": known})), "my1.base")
    assert parts.filter(part=OTHER)["base_estimate"].to_list() == [0.0]
    assert breakdown(both(), "my1.base").filter(part=OTHER)["base_estimate"].item() == pytest.approx(0.2, rel=0.1)


def test_an_added_cost_is_found_where_it_was_added() -> None:
    parts = breakdown(both(), "my1.base")
    first = parts.row(0, named=True)
    assert (first["part"], first["verdict"], first["n"]) == ("parser", "slower", 6)
    assert first["low"] < 2.0 < first["high"]
    assert parts.filter(pl.col("verdict").is_in(["slower", "faster"]))["part"].to_list() == ["parser"]
    functions = breakdown(both(), "my1.base", "function")
    assert functions.row(0, named=True)["part"] == "my_sql_parser_parse"


def test_swapping_the_sides_swaps_the_verdict() -> None:
    existing, back = breakdown(both(), "my1.base"), breakdown(both(), "my2.base")
    pairs = existing.join(back, on="part")
    assert pairs["estimate"].to_list() == pytest.approx((-pairs["estimate_right"]).to_list(), abs=1e-9)
    assert pairs["high"].to_list() == pytest.approx((-pairs["low_right"]).to_list(), abs=1e-9)
    assert pairs.filter(verdict="slower")["verdict_right"].to_list() == ["faster"]
    assert pairs.filter(verdict="faster").is_empty()


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_few_rounds_give_an_interval_and_no_verdict(rounds: int) -> None:
    parts = breakdown(both(rounds), "my1.base")
    assert set(parts["verdict"]) == {"unsure"}
    assert set(parts["needs"]) == {f"4 rounds: there are {rounds}"}
    assert (parts["high"] > parts["low"]).all()


def width_of(parts: pl.DataFrame) -> float:
    row = parts.filter(part="parser").row(0, named=True)
    return float(row["high"] - row["low"])


def test_more_rounds_make_the_interval_narrower_and_never_wider_than_one_round_does() -> None:
    widths = [width_of(breakdown(both(rounds), "my1.base")) for rounds in (1, 2, 4, 8)]
    assert widths == sorted(widths, reverse=True)


def test_two_samples_are_no_finding() -> None:
    none, two = {("do_command",): 10_000}, {("do_command",): 9_998, ("MYSQLparse",): 2}
    stacks = [stacks_of("my1.base", round_, none) for round_ in range(1, 7)]
    stacks += [stacks_of("my2.base", round_, two if round_ == 1 else none) for round_ in range(1, 7)]
    steps = [steps_of(dbms, round_, 10.0) for dbms in ("my1.base", "my2.base") for round_ in range(1, 7)]
    parts = breakdown(stack_costs(pl.concat(stacks), pl.concat(steps)), "my1.base").filter(part="parser")
    assert parts["me_samples"].item() == 2
    assert parts["verdict"].item() == "unsure"
    assert parts["low"].item() < 0 < parts["estimate"].item()


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.05])
def test_of_equal_servers_next_to_nothing_is_found(spread: float) -> None:
    # 40 comparisons of 10 components and 10 functions each; the stated rate is 5 % of tables with any finding.
    result = 0
    for seed in range(40):
        stacks, steps = study({"my1.base": POINT, "my2.base": POINT}, 4, samples=3_000, spread=spread, seed=seed)
        costs = stack_costs(stacks, steps)
        for by in ("component", "function"):
            parts = breakdown(costs, "my1.base", by)
            result += parts.filter(pl.col("verdict").is_in(["slower", "faster"])).height > 0
    assert result <= 8


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    covered = []
    for seed in range(60):
        stacks, steps = study({"my1.base": POINT, "my2.base": MORE_PARSING}, 4, 3_000, 0.02, seed)
        row = breakdown(stack_costs(stacks, steps), "my1.base").filter(part="parser").row(0, named=True)
        covered.append(row["low"] <= 2.0 <= row["high"])
    assert sum(covered) >= 0.9 * len(covered)


def test_a_function_that_calls_itself_costs_its_time_once() -> None:
    path = ("dispatch_command", "f", "g", "f")
    stacks = pl.concat([stacks_of(dbms, 1, {path: 5}) for dbms in ("my1.base", "my2.base")])
    steps = pl.concat([steps_of(dbms, 1, 10.0) for dbms in ("my1.base", "my2.base")])
    parts = breakdown(stack_costs(stacks, steps), "my1.base", "inclusive")
    assert parts.select("part", "me_estimate").sort("part").rows() == [
        (name, 10.0) for name in ("connection", "dispatch_command", "f", "g")
    ]


def test_counted_instructions_need_as_many_rounds_as_all_others() -> None:
    sides = {"my1.base": {("MYSQLparse",): 10_000_000, ("malloc",): 1_000_000}}
    sides["my2.base"] = {("MYSQLparse",): 10_000_000, ("malloc",): 1_200_000}
    parts = breakdown(counted(sides), "my1.base")
    assert parts.select("part", "estimate", "verdict").rows() == [
        ("allocator", 200.0, "slower"),
        ("other", 0.0, "same"),
        ("parser", 0.0, "same"),
    ]
    assert set(parts["unit"]) == {"instructions/operation"}
    once = breakdown(counted(sides, rounds=1), "my1.base")
    assert once["estimate"].to_list() == [200.0, 0.0, 0.0]
    assert set(once["verdict"]) == {"unsure"}


def test_a_part_is_the_same_within_a_share_of_itself_and_not_of_its_operation() -> None:
    sides = {"my1.base": {("MYSQLparse",): 10_000_000, ("malloc",): 100_000}}
    sides["my2.base"] = {("MYSQLparse",): 10_100_000, ("malloc",): 134_000}
    parts = breakdown(counted(sides), "my1.base")
    assert dict(parts.select("part", "verdict").rows()) == {"parser": "same", "allocator": "slower", "other": "same"}


def test_parts_share_the_correction_of_their_study() -> None:
    decided = pl.DataFrame({**COMPARED, "step": [f"{step}" for step in range(20_000)]})
    open_ones = decided.with_columns(sure_low=0.9)
    costs = stack_costs(*study({"my1.base": POINT, "my2.base": {**POINT, PARSE: POINT[PARSE] + 0.25}}))
    alone, *others = (breakdown(costs, "my1.base", compared=beside) for beside in (None, decided, open_ones))
    verdicts = [parts.filter(part="parser")["verdict"].item() for parts in (alone, *others)]
    assert verdicts == ["slower", "slower", "unsure"]
    assert all(parts["estimate"].equals(alone["estimate"]) for parts in others)


def test_an_operation_costs_what_the_ordinary_rounds_measured() -> None:
    compared = pl.DataFrame([COMPARED])
    ordinary = measured_costs(compared)
    assert ordinary.select("base_estimate", "me_estimate", "low").row(0) == pytest.approx((20.0, 22.0, 1.8))
    profiled = both()
    costs = as_measured(profiled, ordinary)
    (operation,) = operation_costs(costs, "my1.base", compared=compared).to_dicts()
    assert (operation["n"], operation["estimate"]) == (8, pytest.approx(2.0))
    for by in ("component", "thread", "function"):
        parts = breakdown(costs, "my1.base", by, compared=compared)
        assert parts["base_estimate"].sum() == pytest.approx(20.0)
        assert parts["estimate"].sum() == pytest.approx(2.0)
        assert set(parts["measured_error"].round(9)) == {0.2}
    shares = [
        frame.filter(dbms="my2.base")["cost"] / frame.filter(dbms="my2.base")["cost"].sum()
        for frame in (costs, profiled)
    ]
    assert shares[0].to_list() == pytest.approx(shares[1].to_list())
    assert as_measured(profiled, ordinary.clear()).equals(profiled)


def test_a_thread_in_the_background_has_its_own_part() -> None:
    costs = costs_of(
        {"my1.base": {("connection", "f"): 10.0}, "my2.base": {("connection", "f"): 10.0, ("purge", "g"): 2.0}}
    )
    parts = breakdown(costs, "my1.base", "thread")
    assert dict(parts.select("part", "estimate").rows()) == {"purge": 2.0, "connection": 0.0}


def test_small_functions_are_one_part() -> None:
    many: dict[tuple[str, ...], float] = {("run",): 100.0, **{(f"f{n}",): 0.5 for n in range(5)}}
    parts = breakdown(costs_of({"my1.base": many, "my2.base": many}), "my1.base", "function")
    assert dict(parts.select("part", "base_estimate").rows()) == {"run": 100.0, "(5 smaller functions)": 2.5}


def test_only_rounds_that_both_have_are_compared() -> None:
    stacks, steps = study({"my1.base": POINT, "my2.base": POINT}, 3)
    complete = (pl.col("dbms") == "my1.base") & (pl.col("round") == 2)
    parts = breakdown(stack_costs(stacks.filter(~complete), steps.filter(~complete)), "my1.base")
    assert set(parts["n"]) == {2}


def test_parts_add_up_to_the_operation_where_a_round_of_me_is_missing() -> None:
    compared = pl.DataFrame([COMPARED])
    profiled = both().with_columns(cost=pl.col("cost") * (1 + 0.1 * pl.col("round")))  # rounds differ
    missing = (pl.col("dbms") == "my2.base") & (pl.col("round") > 3)
    costs = as_measured(profiled.filter(~missing), measured_costs(compared))
    for by in ("component", "function"):
        parts = breakdown(costs, "my1.base", by, compared=compared)
        assert parts["base_estimate"].sum() == pytest.approx(20.0)
        assert parts["me_estimate"].sum() == pytest.approx(22.0)


def test_an_unknown_base_lists_those_that_there_are() -> None:
    with pytest.raises(RqpsError, match=r"base 'my9\.base'") as caught:
        breakdown(both(1), "my9.base")
    assert "my1.base, my2.base" in caught.value.fix


def said_of(costs: pl.DataFrame) -> list[str]:
    """The sentences on the one comparison of some costs, which are nowhere measured but in the profile."""
    parts = breakdown(costs, "my1.base", ("component", "thread", "function"))
    operations = operation_costs(costs, "my1.base")
    profile = Profile(costs, costs, operations, parts, operations)
    (row,) = profile.operations.to_dicts()
    return list(on_parts(profile, row, {}))


def test_sentences_say_what_the_tables_say() -> None:
    complete, *parts = said_of(both())
    ratio = "my2.base uses 1.13x the CPU of my1.base per operation (1.11–1.15, 6 rounds)"
    assert complete == f"{ratio}: 16.2 to 18.2 µs, +2.0 (+1.7 to +2.4)."
    assert parts == ["Components, in µs: +2.03 ± 0.08 parser.", "Functions, in µs: +2.03 ± 0.08 my_sql_parser_parse."]


def test_what_went_the_other_way_is_named_until_most_of_the_difference_is() -> None:
    optimize = next(path for path in POINT if path[-1] == "JOIN::optimize()")
    other = {**MORE_PARSING, optimize: POINT[optimize] - 1.0}
    _, components, functions = said_of(stack_costs(*study({"my1.base": POINT, "my2.base": other})))
    assert components == "Components, in µs: +2.01 ± 0.08 parser and −0.94 ± 0.07 optimizer."
    assert functions == "Functions, in µs: +2.01 ± 0.08 my_sql_parser_parse; all others −1.0."


def test_a_sentence_adds_up_what_it_does_not_name() -> None:
    grown = {"MYSQLparse": 500, "JOIN::optimize": 400, "row_search_mvcc": 300, "dispatch_command": 200, "malloc": 150}
    grown |= {"btr_cur_search_to_nth_level": 50, "start_statement_v1": -160, "net_send_ok": -1}
    sides = {
        "my1.base": {(name,): 1_000_000 for name in grown},
        "my2.base": {(name,): 1_000_000 + 1000 * more for name, more in grown.items()},
    }
    _, components, functions, *others = said_of(counted(sides))
    named = "+500.0 ± 1.6 parser, +400.0 ± 1.5 optimizer and +300.0 ± 1.5 InnoDB rows and versions"
    assert components == f"Components, in instructions: {named}; all others +239."
    assert functions.endswith("row_search_mvcc; all others +239.")
    assert others == []


def test_a_thread_beside_the_clients_that_grew_is_named() -> None:
    sides: dict[str, dict[tuple[str, ...], float]] = {
        dbms: {("connection", "f"): 10.0, ("purge", "g"): us} for dbms, us in (("my1.base", 1.0), ("my2.base", 4.0))
    }
    assert "Other threads, in µs: +3.00 ± 0.27 purge." in said_of(costs_of(sides))


def test_too_few_rounds_are_mentioned() -> None:
    assert said_of(both(2))[-1] == "This is from 2 rounds, and a verdict takes 4."


def test_of_equal_servers_nothing_is_named() -> None:
    text = said_of(stack_costs(*study({"my1.base": POINT, "my2.base": POINT})))
    assert text[1:] in (["That is no change."], ["The difference is inconclusive."])


def test_runs_that_failed_are_named_with_their_error(tmp_path: Path) -> None:
    study = rqps.load("synthetic", data=write_study(tmp_path))
    (advice,) = findings(study, "stacks", profile_of(study, "stacks").operations).sentences
    assert "no sampled stacks of a dbms and of its base. Give it stacks_rounds: 4" in advice
    for number in (1, 2):
        failed = manifest(
            "my2.base", number, run=f"s{number:02}@my2.base@here", mode="stacks", outcome="failed", error=FORBIDDEN
        )
        write_run(tmp_path / "raw/study=synthetic/failed", failed, Shape())
    failed_too = rqps.load("synthetic", data=tmp_path)
    none, why = findings(failed_too, "stacks", profile_of(failed_too, "stacks").operations).sentences
    assert none == "This study has no sampled stacks of a dbms and of its base."
    assert why == f"Without sampled stacks, since they failed: s01@my2.base@here and s02@my2.base@here. {FORBIDDEN}"
