"""sysbench without a server: its steps, their names in a study, and the reports that it writes."""

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rqps.errors import RqpsError
from rqps.workloads.answers import BUCKETS_PER_DOUBLING, PERCENTILES, edge_us, percentile_us, summary, together, total
from rqps.workloads.sysbench import steps
from rqps.workloads.sysbench.generator import read_seconds
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import before, expand, find, in_tables, is_measured, listed, lists
from rqps.workloads.sysbench.workload import with_values


def measured(group: str) -> list[str]:
    return [name for name in expand((group,)) if is_measured(name)]


def refused(**parameters: object) -> str:
    with pytest.raises(ValidationError) as caught:
        SysbenchParameters.model_validate(parameters)
    (error,) = caught.value.errors()
    return error["msg"].removeprefix("Value error, ")


def test_the_groups_are_the_published_lists() -> None:
    everything, of_2024, of_2025 = (measured(name) for name in ("all", "published-2024", "published-2025"))
    assert [len(everything), len(of_2024), len(of_2025)] == [47, 42, 32]
    assert sum(".pre" in name for name in everything) == sum(".pre" in name for name in of_2024) == 15
    assert set(everything) - set(of_2024) == {
        f"read-only-{kind}_range=1000" for kind in ("simple", "sum", "order", "distinct", "count")
    }
    assert set(everything) - set(of_2025) == {name for name in everything if ".pre" in name}
    writes = {"update", "write", "read-write", "delete", "insert"}
    assert sum(any(name.startswith(word) for word in writes) for name in of_2025) == 10


def test_reads_come_before_all_writes_or_after_a_flush() -> None:
    order = expand(("all",))
    writing = [position for position, name in enumerate(order) if name != "flush" and find(name).writes]
    first = writing[0]
    assert all(".pre" in name or not is_measured(name) for name in order[:first])
    for position, name in enumerate(order):
        if first < position < len(order) - 2 and name != "flush" and not find(name).writes:
            last_write = max(at for at in writing if at < position)
            assert "flush" in order[last_write:position]


def test_every_listed_step_exists_under_its_label_and_the_short_name_is_the_same_work() -> None:
    for name in expand(("all",)):
        if name != "flush":
            assert find(name).label == (name if is_measured(name) else f"{name}_range=100")
    for name in set(listed()) - {"all", "published-2024", "published-2025", "flush"}:
        assert find(name).statements == find(find(name).label).statements
        assert find(find(name).label).name == find(name).label


def test_a_range_that_is_read_can_be_any_and_one_that_is_a_label_can_not() -> None:
    assert find("random-points_range=50").statements == ("SELECT c FROM {table} WHERE id IN ({50 ids})",)
    assert find("range-covered-si_range=7").statements == ("SELECT k FROM {table} WHERE k BETWEEN {x} AND {x+7}",)
    assert find("read-only-sum_range=7").statements[2].endswith("BETWEEN {x} AND {x+6}")
    assert refused(steps=["scan_range=7"]) == (
        "step 'scan_range=7': its range is only a label, which is 100; write 'scan'"
    )
    assert (
        refused(steps=["hot-points_range=5001"])
        == "step 'hot-points_range=5001': a list of ids can have 5000 of them"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("point-qery", "unknown step 'point-qery'; did you mean 'point-query'?"),
        ("random_points", "unknown step 'random_points'; did you mean 'random-points'?"),
        ("published-2023", "unknown step 'published-2023'; did you mean 'published-202"),
        ("flsh", "unknown step 'flsh'; did you mean 'flush'?"),
        ("random-points_range=0", "unknown step 'random-points_range=0'; did you mean 'random-points_range=10"),
        ("zzz", "unknown step 'zzz'; the steps are all, published-2024, published-2025, point-query, "),
        ("", "unknown step ''; the steps are "),
    ],
)
def test_an_unknown_step_is_reported_with_the_nearest(name: str, words: str) -> None:
    assert refused(steps=["insert", name]).startswith(words)


def test_the_same_work_under_two_names_is_refused() -> None:
    assert refused(steps=["insert", "insert"]) == "step 'insert' is there more than once"
    assert refused(steps=["insert", "insert_range=100"]) == (
        "step 'insert_range=100' is there more than once, also as 'insert'"
    )
    assert (
        refused(steps=["published-2024", "scan"]) == "step 'scan' is there more than once, also as 'scan_range=100'"
    )
    again = SysbenchParameters(steps=("point-query.pre", "flush", "scan.warm", "flush", "scan.warm", "point-query"))
    assert again.measured == ("point-query.pre", "point-query")


def test_steps_that_measure_nothing_are_refused() -> None:
    assert refused(steps=["flush", "scan.warm"]).startswith("has no step to be measured")


@pytest.mark.parametrize(
    ("step", "needed"),
    [
        ("read-only_range=10000", 10_000),
        ("range-notcovered-si", 101),
        ("random-points_range=1000", 1000),
        ("hot-points", 200),
        ("update-inlist", 10),
    ],
)
def test_a_range_larger_than_the_table_is_refused(step: str, needed: int) -> None:
    assert SysbenchParameters(steps=(step,), table_rows=needed).table_rows == needed
    assert refused(steps=[step], table_rows=needed - 1).startswith(
        f"step '{step}' needs {needed} rows, and table_rows is {needed - 1}"
    )


def test_what_was_not_given_does_not_change_what_a_study_is_known_by() -> None:
    dumped = SysbenchParameters(steps=("insert",)).model_dump(mode="json")
    assert not {"write_seconds", "warm_seconds", "flush_seconds"} & dumped.keys()
    assert SysbenchParameters(steps=("insert",), flush_seconds=7).model_dump()["flush_seconds"] == 7


def test_seconds_are_those_of_reads_writes_and_warm_ups() -> None:
    asked = SysbenchParameters(
        steps=("scan.warm", "flush", "scan", "write-only", "update-one"),
        seconds=10, write_seconds=15, warm_seconds=60, warmup_seconds=5,
    )  # fmt: skip
    assert [asked.seconds_of(find(name)) for name in asked.steps if name != "flush"] == [60, 10, 10, 15]
    assert asked.estimated_seconds == 60 + 15 + 15 + 20
    plain = SysbenchParameters(steps=("scan.warm", "update-one"), seconds=10)
    assert [plain.seconds_of(find(name)) for name in plain.steps] == [10, 10]


def test_a_flush_may_take_what_the_published_tests_wait() -> None:
    sizes = [(1, 100_000), (1, 50_000_000), (8, 10_000_000), (8, 400_000_000)]
    limits = [SysbenchParameters(tables=tables, table_rows=rows).flush_limit_s for tables, rows in sizes]
    assert limits == [60.1, 110, 140, 1200]


def test_what_comes_before_a_step_is_what_stands_there() -> None:
    order = expand(("published-2025",))
    assert before(order, "update-inlist_range=100") == ("point-query.warm", "flush", "scan.warm")
    assert before(order, "scan_range=100") == ("flush", "scan.warm")
    assert before(order, "read-only_range=10") == ()


@pytest.mark.parametrize("rows", [1, 2, 200, 1000, 20_000])
def test_values_for_explain_are_rows_that_exist(rows: int) -> None:
    for name in measured("all"):
        step = find(name)
        if step.rows_needed <= rows:
            for statement in step.each_statement:
                numbers = with_values(statement, "t", rows, 1).partition("WHERE")[2]
                results = [int(word) for word in numbers.replace("(", " ").replace(")", " ").replace(",", " ").split()
                         if word.isdigit()]  # fmt: skip
                assert all(0 <= number <= rows for number in results), statement
                assert "{" not in with_values(statement, "t", rows, 1)


def test_every_kind_is_in_one_group_and_a_study_of_all_has_the_published_ones() -> None:
    assert Counter(find(name).group for name in measured("all")) == {
        "Point queries": 8 + 9,
        "Range queries without aggregation": 4 + 5,
        "Range queries with aggregation": 3 + 8,
        "Writes": 10,
    }
    assert all(find(name).writes == (find(name).group == "Writes") for name in measured("all"))
    assert all(find(name).group for name in set(listed()) - set(lists()) - {"flush"})


def test_a_new_step_without_a_group_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(steps._DESCRIBED["groups"], "Writes", [])
    find.cache_clear()
    with pytest.raises(ValueError, match=r"step 'insert' is in none of the groups of steps\.yaml; add 'insert' to"):
        find("insert")


def test_a_table_has_its_steps_by_group_and_the_same_work_before_and_after_writes_side_by_side() -> None:
    mixed = ["insert", "random-points_range=1000", "random-points.pre_range=100", "random-points", "scan"]
    random_points = ["random-points.pre_range=100", "random-points", "random-points_range=1000"]
    assert in_tables(mixed) == [*random_points, "scan", "insert"]


def test_a_pre_step_does_the_same_work_as_the_later_one() -> None:
    for name in measured("all"):
        if ".pre" in name:
            assert find(name).statements == find(name.replace(".pre", "")).statements


def test_a_list_of_threads_makes_every_step_once_with_each() -> None:
    asked = SysbenchParameters.model_validate({"steps": ["read-write", "flush", "scan"], "threads": [1, 4, 64]})
    assert asked.sweep == ("read-write@1", "read-write@4", "read-write@64", "scan@1", "scan@4", "scan@64")
    assert asked.clients == 64
    step, alone = asked.alone("scan@4")
    assert (step.name, alone.threads, alone.steps) == ("scan", 4, asked.steps)
    once = SysbenchParameters.model_validate({"steps": ["read-write", "flush", "scan"], "threads": 4})
    assert once.sweep == ("read-write", "scan")
    assert once.alone("scan")[1] == once
    assert asked.estimated_seconds == 3 * once.estimated_seconds


def test_one_number_of_threads_is_written_down_as_before() -> None:
    assert SysbenchParameters(threads=4).model_dump(mode="json")["threads"] == 4
    assert SysbenchParameters(threads=(4,)).model_dump(mode="json")["threads"] == [4]


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "4", [], [1, 0], [[1]], None])
def test_threads_that_are_no_numbers_of_clients_are_refused(threads: object) -> None:
    assert "a whole number of at least 1 is due, or a list of them" in refused(threads=threads)


def test_a_number_of_threads_stands_once() -> None:
    assert refused(threads=[1, 8, 1]) == "[1, 8, 1] has a number more than once"


def line(second: int, buckets: list[list[int]], thread: int = 0, **more: float) -> str:
    done = sum(count for _, count in buckets)
    text = {
        "client": thread + 1,
        "kind": "0",
        "second": second,
        "operations": done,
        "transactions": done,
        "retries": 0,
    }
    return json.dumps(text | {"rows_found": 0, "sum_us": 0, "max_us": 0, "buckets": buckets, **more})


def test_threads_are_added_up_second_by_second() -> None:
    seconds = read_seconds(
        [
            "sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n",
            "rqps origin 123\n",
            line(-1, [[10, 5]]),
            line(-1, [[10, 6]], thread=1),
            line(0, [[10, 1], [40, 2]], max_us=7.0, sum_us=10.0),
            line(0, [[40, 4]], thread=1, max_us=9.0, sum_us=20.0, retries=3),
        ],
        threads=2,
    )
    assert [(second.second, second.transactions) for second in seconds] == [(-1, 11), (0, 7)]
    last = seconds[1]
    assert (last.buckets, last.max_us, last.sum_us, last.retries) == ({10: 1, 40: 6}, 9, 30, 3)


def test_the_warm_up_is_not_in_the_whole() -> None:
    seconds = read_seconds([line(-1, [[1, 100]]), line(0, [[2, 3]]), line(1, [[2, 4]])], threads=1)
    complete = total(seconds, "")
    assert (complete.transactions, complete.buckets) == (7, {2: 7})


@pytest.mark.parametrize(
    "lines", [[], ["FATAL: error 2013: Lost connection\n"], [line(0, []), line(1, [], thread=1)]]
)
def test_an_answer_with_a_thread_missing_is_an_error(lines: list[str]) -> None:
    with pytest.raises(RqpsError, match="not reported exactly once by each of the 2 threads"):
        read_seconds(lines, threads=2)


def test_nothing_done_has_no_latency() -> None:
    assert set(summary(together("scan", 0, [])).values()) == {None}


@given(st.dictionaries(st.integers(0, 900), st.integers(1, 10_000), min_size=1), st.floats(0, 1))
def test_percentiles_stay_within_their_bucket_and_in_order(buckets: dict[int, int], share: float) -> None:
    max_us = edge_us(max(buckets) + 1)
    result = percentile_us(buckets, share, max_us)
    counted = [bucket for bucket in sorted(buckets) for _ in range(min(buckets[bucket], 1))]
    assert edge_us(counted[0]) <= result <= max_us
    in_order = [percentile_us(buckets, one, max_us) for one in sorted(PERCENTILES.values())]
    assert in_order == sorted(in_order)


@given(st.lists(st.floats(2, 1e6), min_size=1, max_size=200))
def test_a_percentile_is_as_near_as_a_bucket_is_wide(latencies: list[float]) -> None:
    buckets: dict[int, int] = {}
    for latency in latencies:
        bucket = math.floor(math.log2(latency) * BUCKETS_PER_DOUBLING)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    exact = sorted(latencies)[math.ceil(0.95 * len(latencies)) - 1]
    assert percentile_us(buckets, 0.95, max(latencies)) == pytest.approx(exact, rel=2 ** (1 / 32) - 1 + 1e-9)


def test_one_step_of_several_numbers_of_clients_keeps_its_name() -> None:
    asked = SysbenchParameters(steps=("read-write", "scan"), threads=(1, 4))
    assert asked.only("scan@4").sweep == ("scan@4",)
    assert SysbenchParameters(steps=("scan",), threads=4).only("scan").sweep == ("scan",)
