"""Every step on a real server: the statements that reach it, their number, tables and rows; the same of one seed.

What is expected is in `published_statements`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from live_load import LABELS, ROWS, Sysbenched, asked, done, logging_server, shape
from live_server import Logged
from published_statements import EXPECTED
from rqps.workloads import Answer
from rqps.workloads.sysbench.steps import find

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sysbenched]:
    with logging_server(tmp_path_factory.mktemp("statements")) as running:
        yield running


def test_what_is_expected_is_every_step_there_is() -> None:
    assert set(EXPECTED) == {label.replace(".pre", "") for label in LABELS}


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "as text"])
@pytest.mark.parametrize("label", EXPECTED)
def test_a_step_does_the_published_statements(label: str, prepared: bool, house: Sysbenched) -> None:
    parameters, step = asked(label, counted_operations=300), find(label)
    result = house.do(label, counted=True, prepared=prepared, counted_operations=300)
    answer, entries, transactions = published(label, result)
    assert answer.columns["transactions"] == parameters.transactions_of(step)
    assert transactions - answer.columns["transactions"] == parameters.warmup_transactions_of(step)
    as_text = {"BEGIN"} if prepared and step.prepared else set(EXPECTED[label])
    for entry in entries:
        assert (entry.command == "Query") == (shape(entry.statement) in as_text), entry


CLOCKED = ("point-query_range=100", "read-write_range=10", "insert_range=100", "scan_range=100")


@pytest.mark.parametrize("label", CLOCKED)
def test_by_the_clock_it_does_the_same(label: str, house: Sysbenched) -> None:
    answer, _, transactions = published(label, house.do(label))
    # The last transaction ends after the measured part and is not counted, unless the part ends with it.
    assert transactions - answer.columns["transactions"] == (0 if find(label).whole_transactions else 1)


def published(label: str, result: tuple[Answer, dict[str, list[Logged]]]) -> tuple[Answer, list[Logged], int]:
    """Nothing but whole transactions as published, of which the answer tells; the statements, and how often."""
    answer, logged = result
    (entries,) = logged.values()
    statements = [entry for entry in entries if entry.command != "Prepare"]
    transactions = len(statements) // len(EXPECTED[label])
    assert [shape(entry.statement) for entry in statements] == EXPECTED[label] * transactions
    assert answer.columns["transactions"] == sum(row["transactions"] for row in answer.intervals)
    per_transaction = ROWS if label == "scan_range=100" else len(EXPECTED[label])
    assert answer.columns["operations"] == answer.columns["transactions"] * per_transaction > 0
    return answer, statements, transactions


def test_both_tables_are_used_and_ten_points_stay_on_one(house: Sysbenched) -> None:
    _, logged = house.do("read-write_range=10", counted=True, prepared=False, counted_operations=3000)
    blocks: Counter[tuple[str, ...]] = Counter()
    for begin, transaction in _transactions(done(logged), 20):
        assert begin == "BEGIN"
        tables = [re.findall(r"sbtest(\d)", statement)[0] for statement in transaction[1:-1]]
        assert len(set(tables[:10])) == 1
        assert tables[16] == tables[17], "a row is inserted into the table that it was deleted from"
        deleted, inserted = transaction[17], transaction[18]
        assert re.findall(r"id = (\d+)", deleted) == re.findall(r"VALUES \((\d+),", inserted)
        blocks[tuple(tables[9:15])] += 1
    assert len(blocks) > 8, "every statement draws its table"


def _transactions(statements: list[str], length: int) -> Iterator[tuple[str, list[str]]]:
    for start in range(0, len(statements) - length + 1, length):
        yield statements[start], statements[start : start + length]


def test_hot_points_and_update_one_always_find_the_same_rows(house: Sysbenched) -> None:
    _, logged = house.do("hot-points")
    middle = ", ".join(str(ROWS // 2 + i) for i in range(1, 101))
    assert {re.findall(r"IN \((.*)\)", statement)[0] for statement in done(logged)} == {middle}
    _, logged = house.do("update-one")
    assert {statement.rpartition("WHERE ")[2] for statement in done(logged)} == {"id = 1"}


def test_zipf_draws_ids_as_often_as_the_law_says(house: Sysbenched) -> None:
    _, logged = house.do("update-zipf", counted=True, counted_operations=3000)
    drawn = Counter(int(statement.rpartition(" = ")[2]) for statement in done(logged))
    total = drawn.total()
    weights = [n**-0.8 for n in range(1, ROWS + 1)]
    assert min(drawn) >= 1
    assert max(drawn) <= ROWS
    for first, last in pairwise((0, 1, 2, 5, 20, 100, 1000, ROWS)):
        share = sum(weights[first:last]) / sum(weights)
        result = sum(count for number, count in drawn.items() if first < number <= last)
        assert abs(result - share * total) < 5 * (total * share * (1 - share)) ** 0.5, (first, last)


def test_uniform_ids_reach_all_of_the_table(house: Sysbenched) -> None:
    _, logged = house.do("random-points_range=1000", counted=True, counted_operations=100)
    ids = [int(number) for statement in done(logged) for number in re.findall(r"\d+", statement.partition("IN")[2])]
    assert 1 <= min(ids) < ROWS / 100
    assert ROWS * 99 / 100 < max(ids) <= ROWS
    assert abs(sum(ids) / len(ids) - ROWS / 2) < 5 * ROWS / (12 * len(ids)) ** 0.5


@pytest.mark.parametrize(
    "label",
    ["point-query", "random-points_range=10", "read-write_range=10", "update-zipf", "insert", "update-inlist"],
)
def test_a_seed_gives_the_same_statements_again(label: str, house: Sysbenched) -> None:
    one, again, unprepared, other = (
        done(house.do(label, seed=seed, prepared=prepared, counted=counted, counted_operations=300)[1])
        for seed, prepared, counted in ((7, True, False), (7, True, True), (7, False, True), (8, True, True))
    )
    both = min(len(one), len(again), len(unprepared))
    assert both > 20
    assert one[:both] == again[:both] == unprepared[:both]
    assert one[:both] != other[:both]


def test_each_thread_has_a_sequence_of_its_own_and_has_it_again(house: Sysbenched) -> None:
    first, again = (house.do("random-points_range=10", seed=7, threads=2)[1] for _ in range(2))
    begins = [
        {
            tuple(entry.statement for entry in entries if entry.command != "Prepare")[:20]
            for entries in logged.values()
        }
        for logged in (first, again)
    ]
    assert begins[0] == begins[1]
    assert len(begins[0]) == 2, "two threads that draw the same would ask for the same"
