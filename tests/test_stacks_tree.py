"""The call tree of two sides loses nothing: every total is the sum of what is in it, on both sides."""

from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.profile import flame_tree, stack_costs
from rqps.profile.call_tree import TREE
from rqps.profile.components import component_of
from synthetic_stacks import POINT, Path, costs_of, study

Costs = dict[Path, float]

names = st.sampled_from(
    ["a", "b", "c", "do_command", "my_sql_parser_parse", "memcpy", "recv_[k]", "<script>", "x;y", "f"]
)
stacks = st.lists(names, min_size=1, max_size=7).map(tuple)
sides = st.dictionaries(stacks, st.floats(1e-6, 1e3), min_size=1, max_size=40)
folds = st.sampled_from([0.0, 0.001, 0.02, 0.2, 2.0])


def tree_of(base: Costs, me: Costs, fold_below: float) -> pl.DataFrame:
    return flame_tree(costs_of({"base": base, "me": me}), "base", "me", "point-query", fold_below)


@given(sides, sides, folds)
def test_sums_are_kept(base: Costs, me: Costs, fold_below: float) -> None:
    tree = tree_of(base, me, fold_below)
    assert tree.schema == TREE
    for side, costs in (("base", base), ("me", me)):
        total = sum(costs.values())
        assert tree[f"{side}_total"][0] == pytest.approx(total, rel=1e-12)
        assert tree[f"{side}_self"].sum() == pytest.approx(total, rel=1e-12)
        within = tree.group_by("parent").agg(pl.col(f"{side}_total").sum().alias("called"))
        inside = tree.join(within, left_on="node", right_on="parent", how="left").fill_null(0)
        lost = inside[f"{side}_total"] - inside[f"{side}_self"] - inside["called"]
        assert lost.abs().max() <= 1e-9 * total  # type: ignore[operator]


@given(sides, sides, folds)
def test_callers_stand_before_callees_and_callees_together(base: Costs, me: Costs, fold_below: float) -> None:
    open_: list[int] = []
    for node, parent in tree_of(base, me, fold_below).select("node", "parent").iter_rows():
        while open_ and open_[-1] != parent:
            open_.pop()
        assert open_ or node == 0
        open_.append(node)


@given(sides, sides)
def test_unfolded_each_path_is_one_frame_with_its_costs(base: Costs, me: Costs) -> None:
    wanted: dict[Path, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for number, costs in enumerate((base, me)):
        for stack, cost in costs.items():
            wanted[stack][number] += cost
            for depth in range(len(stack) + 1):
                wanted[stack[:depth]][number + 2] += cost
    paths: list[Path] = []
    results = {}
    for row in tree_of(base, me, 0.0).iter_rows(named=True):
        paths.append(() if row["parent"] is None else (*paths[row["parent"]], row["name"]))
        results[paths[-1]] = [row["base_self"], row["me_self"], row["base_total"], row["me_total"]]
        if paths[-1]:
            assert row["component"] == component_of("mysql", paths[-1])
    assert results.keys() == wanted.keys()
    assert len(results) == len(paths)
    for path, costs_there in wanted.items():
        assert results[path] == pytest.approx(costs_there, rel=1e-12)


@given(sides, sides, st.sampled_from([0.001, 0.02, 0.2]))
def test_only_what_is_minor_on_both_sides_is_folded(base: Costs, me: Costs, fold_below: float) -> None:
    limit = fold_below * max(sum(base.values()), sum(me.values()))
    tree = tree_of(base, me, fold_below).filter(pl.col("parent").is_not_null())
    largest = pl.max_horizontal("base_total", "me_total")
    folded = pl.col("name").str.contains(r"^\(\d+ minor\)$")
    assert tree.filter(~folded & (largest < limit * (1 - 1e-9))).is_empty()
    assert not tree.filter(folded).select("parent").is_duplicated().any()
    assert tree.filter(folded & pl.col("node").is_in(tree["parent"].to_list())).is_empty()


def test_minor_frames_are_one_frame_that_says_how_many_they_are() -> None:
    base = {("a", "big"): 97.0, ("a", "x", "y"): 1.0, ("a", "z"): 0.5, ("a", "x"): 0.5, ("b",): 1.0}
    tree = tree_of(base, base, 0.02)
    assert tree.select("name", "me_self", "me_total").rows() == [
        ("all", 0.0, 100.0),
        ("a", 0.0, 99.0),
        ("big", 97.0, 97.0),
        ("(2 minor)", 2.0, 2.0),
        ("(1 minor)", 1.0, 1.0),
    ]


def test_a_frame_that_one_side_alone_has_is_as_sure_as_its_samples() -> None:
    stacks, steps = study(
        {"my1.base": POINT, "my2.base": {**POINT, ("start_thread", "do_command", "new"): 3.0}}, rounds=4
    )
    tree = flame_tree(stack_costs(stacks, steps), "my1.base", "my2.base", "point-query")
    new = tree.filter(name="new").row(0, named=True)
    assert new["base_total"] == 0
    assert new["me_total"] == pytest.approx(3.0, abs=new["error"])
    assert 0 < new["error"] < 0.5
    other = tree.filter(name="my_sql_parser_parse").row(0, named=True)
    assert abs(other["me_total"] - other["base_total"]) < other["error"]


@pytest.mark.parametrize(("base", "me", "step"), [("base", "me", "no step"), ("base", "no dbms", "point-query")])
def test_what_is_not_there_is_an_error_that_lists_what_is(base: str, me: str, step: str) -> None:
    with pytest.raises(RqpsError, match=r"there are no costs of the .* 'no ") as caught:
        flame_tree(costs_of({"base": POINT, "me": POINT}), base, me, step)
    assert "choose one of: " in caught.value.fix


def test_hosts_are_never_mixed() -> None:
    costs = costs_of({"base": POINT, "me": POINT})
    two = pl.concat([costs, costs.with_columns(pl.lit("there").alias("host"))])
    with pytest.raises(RqpsError, match="several hosts: here, there"):
        flame_tree(two, "base", "me", "point-query")


def test_a_million_distinct_stacks_do_not_fall_over() -> None:
    calls = [f"f{number}" for number in range(100)]
    frame = pl.DataFrame({"a": calls}).join(pl.DataFrame({"b": calls}), how="cross")
    frame = frame.join(pl.DataFrame({"c": calls}), how="cross")
    stack = pl.concat_list(pl.lit("connection"), pl.lit("do_command"), "a", "b", "c")
    costs = frame.select(
        pl.lit("here").alias("host"),
        pl.lit("base").alias("dbms"),
        pl.lit("mysql").alias("engine"),
        pl.lit(1, pl.Int32).alias("round"),
        pl.lit("point-query").alias("step"),
        stack.alias("stack"),
        pl.lit("other").alias("component"),
        pl.lit(1.0).alias("samples"),
        pl.lit(1e-6).alias("cost"),
    )
    tree = flame_tree(costs, "base", "base", "point-query")
    assert tree["me_total"][0] == pytest.approx(1.0, rel=1e-9)
    assert tree["me_self"].sum() == pytest.approx(1.0, rel=1e-9)
    assert tree.height == 1 + 2 + 100 + 100
