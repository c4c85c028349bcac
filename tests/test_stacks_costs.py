"""Parts of an operation's cost add up to what was measured, whatever the stacks."""

import itertools
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from rqps.profile import instruction_costs, stack_costs
from rqps.profile.components import OTHER, component_of, components
from rqps.profile.costs import COSTS, NOT_SAMPLED
from synthetic_stacks import NS_A_SAMPLE, OPERATIONS, POINT, instructions_of, stacks_of, steps_of

# Of every component a name, and names of none.
FRAMES = [
    *("do_command", "dispatch_command(THD*)", "MYSQLparse", "mysql_parse(THD*)", "row_search_mvcc", "malloc"),
    *("btr_cur_search_to_nth_level", "memcpy", "nobody_knows_this", "[unknown]", "start_thread"),
    *("[k]do_syscall_64", "[k]tcp_sendmsg", "[k]memcpy"),
]
paths = st.lists(st.sampled_from(FRAMES), min_size=1, max_size=8).map(tuple)
profiles = st.dictionaries(paths, st.integers(1, 1000), min_size=1, max_size=30)


def of_both(old: Mapping[Any, int], new: Mapping[Any, int], cost_us: float) -> pl.DataFrame:
    """Costs of an operation on two releases that need the same time for it."""
    sides = {"my1.base": old, "my2.base": new}
    stacks = [stacks_of(dbms, 1, samples) for dbms, samples in sides.items()]
    return stack_costs(pl.concat(stacks), pl.concat([steps_of(dbms, 1, cost_us) for dbms in sides]))


@given(profiles, st.floats(0.001, 1e6))
def test_costs_add_up_to_what_the_step_measured(samples: dict[tuple[str, ...], int], cost_us: float) -> None:
    steps = steps_of("my1.base", 1, cost_us)
    costs = stack_costs(stacks_of("my1.base", 1, samples), steps)
    assert costs.schema == COSTS
    measured = 1e6 * steps["server_cpu_s"].item() / steps["operations"].item()
    assert costs["cost"].sum() == pytest.approx(measured, rel=1e-12)
    assert costs["samples"].sum() == sum(samples.values())
    assert not costs.select("stack").is_duplicated().any()


def test_the_same_stacks_give_the_same_costs_in_the_same_order() -> None:
    """Most have the cost of others: their order would be any, and their sums differ in the last digit."""
    paths = list(itertools.permutations(FRAMES[:7], 4))
    samples = {path: 1 + place % 3 for place, path in enumerate(paths)}
    stacks, steps = stacks_of("my1.base", 1, samples), steps_of("my1.base", 1, 0.1)
    first, *again = (stack_costs(stacks, steps) for _ in range(6))
    for one in again:
        assert_frame_equal(one, first, check_exact=True)


@given(profiles)
def test_each_stack_has_the_component_that_the_rule_gives_it(samples: dict[tuple[str, ...], int]) -> None:
    costs = stack_costs(stacks_of("my1.base", 1, samples), steps_of("my1.base", 1, 10.0))
    names = {component.name for component in components("mysql")} | {OTHER}
    for stack, component in costs.select("stack", "component").iter_rows():
        assert stack[0] == "connection"
        assert component == component_of("mysql", stack)
        assert component in names


def test_a_stack_is_its_share_of_the_weight() -> None:
    stacks = stacks_of("my1.base", 1, {("do_command",): 1, ("MYSQLparse",): 1})
    heavy = stacks.with_columns(pl.Series("weight", [NS_A_SAMPLE, 3 * NS_A_SAMPLE]))
    costs = stack_costs(heavy, steps_of("my1.base", 1, 8.0))
    assert costs.select(pl.col("stack").list.last(), "cost", "samples").rows() == [
        ("my_sql_parser_parse", 6.0, 1.0),
        ("do_command", 2.0, 1.0),
    ]


def test_runs_and_steps_are_not_mixed() -> None:
    stacks, steps = [], []
    for dbms, round_, step in itertools.product(("my1.base", "my2.base"), (1, 2), ("point-query", "insert")):
        stacks.append(stacks_of(dbms, round_, {("do_command",): 10 * round_, ("MYSQLparse",): 30}, step=step))
        steps.append(steps_of(dbms, round_, round_ * (10.0 if step == "insert" else 5.0), step))
    costs = stack_costs(pl.concat(stacks).lazy(), pl.concat(steps))
    sums = costs.group_by("dbms", "round", "step").agg(pl.col("cost").sum()).sort("dbms", "round", "step")
    assert sums["cost"].to_list() == pytest.approx([10.0, 5.0, 20.0, 10.0] * 2)


def test_stacks_of_two_releases_meet() -> None:
    old = ("start_thread", "handle_one_connection", "dispatch_command(THD*)", "mysql_parse(THD*)")
    command = ("do_command", "dispatch_command", "dispatch_sql_command(THD*)")
    new = ("clone3", "start_thread", "handle_connection", *command)
    result = of_both({old: 1}, {new: 1}, 1.0)["stack"].to_list()
    assert result == [["connection", "dispatch_command", "dispatch_sql_command"]] * 2


def test_a_layer_of_one_release_counts_for_its_caller() -> None:
    old = ("mysql_execute_command", "execute_sqlcom_select", "handle_select", "mysql_select", "JOIN::optimize")
    new = ("mysql_execute_command", "Sql_cmd_dml::execute", "Query_block::optimize", "JOIN::optimize")
    costs = of_both({old: 3, old[:-1]: 1}, {new: 1}, 8.0)
    result = costs.select("dbms", pl.col("stack").list.slice(-2), "cost").rows()
    assert result == [
        ("my1.base", ["mysql_execute_command", "JOIN::optimize"], 6.0),
        ("my1.base", ["connection", "mysql_execute_command"], 2.0),
        ("my2.base", ["mysql_execute_command", "JOIN::optimize"], 8.0),
    ]


def test_a_function_that_not_all_releases_pass_through_keeps_its_own_cost_and_no_callees() -> None:
    old = ("read_const", "handler::ha_index_read_idx_map", "handler::index_read_map", "ha_innobase::index_read")
    new = ("read_const", "handler::ha_index_read_map", "ha_innobase::index_read")
    costs = of_both({old: 3, old[:-1]: 1}, {new: 1}, 8.0)
    result = costs.select("dbms", pl.col("stack").list.slice(1), "component", "cost").rows()
    assert result == [
        ("my1.base", ["read_const", "ha_innobase::index_read"], "handler", 6.0),
        ("my1.base", ["read_const", "handler::index_read_map"], "handler", 2.0),
        ("my2.base", ["read_const", "ha_innobase::index_read"], "handler", 8.0),
    ]


def test_callers_without_a_name_do_not_part_releases() -> None:
    named = ("start_thread", "dispatch_command", "net_flush", "[unknown]")
    stripped = ("[unknown]", "[unknown]", "dispatch_command", "[unknown]", "net_flush", "[unknown]")
    result = of_both({named: 1}, {stripped: 1}, 1.0)["stack"].to_list()
    assert result == [["connection", "dispatch_command", "net_flush", "[unknown]"]] * 2


def test_recursion_is_kept_and_two_names_of_one_function_are_not() -> None:
    stacks = stacks_of("my1.base", 1, {("f(int)", "f(int)", "g<int>()", "g<long>()"): 1})
    assert stack_costs(stacks, steps_of("my1.base", 1, 1.0))["stack"].to_list() == [["connection", "f", "f", "g"]]


@pytest.mark.parametrize("wrong", [{"operations": 0}, {"errors": 1, "retries": 0}, {"operations_per_s": None}])
def test_a_step_that_gives_no_number_gives_no_cost(wrong: dict[str, Any]) -> None:
    steps = steps_of("my1.base", 1, 5.0, **wrong)
    assert stack_costs(stacks_of("my1.base", 1, {("do_command",): 9}), steps).is_empty()


def test_a_step_without_samples_is_all_unknown_and_not_lost() -> None:
    costs = stack_costs(stacks_of("my1.base", 1, {}), steps_of("my1.base", 1, 5.0))
    assert costs.select("stack", "component", "samples", "cost").rows() == [([NOT_SAMPLED], OTHER, 0.0, 5.0)]


def test_names_that_mean_something_elsewhere_are_names_here() -> None:
    hostile = ('a;b"c', "<script>alert(1)</script>", "it's\nnot")
    costs = stack_costs(stacks_of("my1.base", 1, {hostile: 3}), steps_of("my1.base", 1, 5.0))
    assert costs["cost"].to_list() == [5.0]
    assert len(costs["stack"][0]) == 4


def test_instructions_are_per_operation_and_exact() -> None:
    counts = {("dispatch_command(THD*)", "mysql_parse(THD*)"): 3_000, ("dispatch_command(THD*)", "malloc"): 500}
    steps = steps_of("my1.base", 1, 5.0, run="i01@my1.base@here")
    costs = instruction_costs(instructions_of("my1.base", 1, counts), steps)
    assert costs.schema == COSTS
    assert costs.select("stack", "component", "samples", "cost").rows() == [
        (["connection", "dispatch_command", "dispatch_sql_command"], "connection and statement", None, 3.0),
        (["connection", "dispatch_command", "malloc"], "allocator", None, 0.5),
    ]
    assert costs["cost"].sum() * OPERATIONS == sum(counts.values())


@pytest.mark.parametrize(("of_old", "ends"), [("hash (inlined)", {"hash_[i]"}), ("hash", {"hash", "look_up"})])
def test_inlined_functions_are_parts_if_all_runs_have_them(of_old: str, ends: set[str]) -> None:
    """The old run has an inlined function or a call. As some run has no inlined function, the new run shows none."""
    new = {("do_command", "look_up", "hash (inlined)"): 4}
    costs = of_both({("do_command", "look_up", of_old): 4}, new, 1.0)
    assert set(costs["stack"].list.last()) == ends
    assert costs["cost"].to_list() == pytest.approx([1.0, 1.0])


def test_an_inlined_function_has_the_component_of_its_name() -> None:
    called, inlined = ({("do_command", f"row_search_mvcc{end}"): 4} for end in ("", " (inlined)"))
    assert of_both(called, called, 1.0)["component"].unique().to_list() == ["InnoDB rows and versions"]
    assert of_both(inlined, inlined, 1.0)["component"].unique().to_list() == ["InnoDB rows and versions"]


def test_the_made_up_point_query_is_sorted_as_it_was() -> None:
    samples = {path: round(10 * cost) for path, cost in POINT.items()}
    costs = stack_costs(stacks_of("my1.base", 1, samples), steps_of("my1.base", 1, 16.2))
    result = costs.group_by("component").agg(pl.col("cost").sum().round(6)).sort("cost", "component").rows()
    assert result == [
        ("other", 0.2),
        ("connection and statement", 0.3),
        ("performance schema", 0.5),
        ("allocator", 0.7),
        ("parser", 2.0),
        ("InnoDB B-tree", 2.5),
        ("InnoDB rows and versions", 3.0),
        ("optimizer", 3.0),
        ("kernel: network", 4.0),
    ]
