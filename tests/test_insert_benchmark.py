"""The insert benchmark without a server: its parameters, its steps, and reading what the load generator says."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rqps.engines.mysql import innodb
from rqps.errors import RqpsError
from rqps.workloads.answers import by_second, interval_rows, latency_rows, read_seconds
from rqps.workloads.insert_benchmark import generator
from rqps.workloads.insert_benchmark.generator import CLOCK_BEGINS, clock_begins
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import find, names
from rqps.workloads.insert_benchmark.workload import warnings_of

PUBLISHED = ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"]


def asked(**parameters: Any) -> InsertBenchmarkParameters:
    return InsertBenchmarkParameters.model_validate(parameters)


def test_the_steps_of_each_form_are_those_published() -> None:
    assert list(asked().measured) == PUBLISHED
    assert list(asked(form="2023").measured) == ["l.i0", "l.x", "l.i1", "q100", "q500", "q1000"]
    assert names("2021", (100, 500)) == ("l.i0", "l.x", "l.i1", "q100.1", "q100.2", "q500.1", "q500.2")


def test_what_a_client_does_in_each_step() -> None:
    def described(form: str) -> dict[str, tuple[int, int, int, int]]:
        parameters = asked(form=form, load_rows=30_000, write_rows=10_000, seconds=60, rates=(100,))
        steps = [find(name, form) for name in parameters.measured]
        return {
            step.name: (
                parameters.rows(step),
                parameters.rows_per_transaction(step),
                step.connections,
                len(step.queries),
            )
            for step in steps
        }

    assert described("current") == {
        "l.i0": (30_000, 100, 1, 0),
        "l.x": (100, 100, 1, 0),
        "l.i1": (8000, 50, 2, 0),
        "l.i2": (2000, 5, 2, 0),
        "qr100": (6000, 50, 3, 3),
        "qp100": (6000, 50, 3, 1),
    }
    assert described("2023")["l.i1"] == (10_000, 50, 2, 0), "there is no l.i2 that has a fifth of the rows"
    assert described("2021")["q100.2"] == (6000, 50, 2, 3), "nothing is deleted"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"clients": 0}, "greater than or equal to 1"),
        ({"form": "2022"}, "Input should be 'current', '2023' or '2021'"),
        ({"rates": (120,)}, "rate 120: transactions of 50 rows can't make it; write 100 or 150"),
        ({"rates": (20,)}, "write 50, or set background_rows_per_transaction"),
        ({"rates": ()}, "needs at least one"),
        ({"rates": (100, 100)}, "each only once"),
        ({"steps": ("l.x",)}, "needs l.i0 in front"),
        ({"steps": ()}, "needs l.i0 in front"),
        ({"steps": ("l.i0", "qr100")}, "needs l.x in front"),
        ({"steps": ("l.i0", "l.x", "qp100", "qr100")}, "in this order: l.i0, l.x, qr100, qp100"),
        ({"steps": ("l.i0", "l.x", "l.x")}, "name them in this order: l.i0, l.x"),
        ({"steps": ("l.i0", "l.x", "qr200")}, "unknown step 'qr200'; did you mean 'qr500'?"),
        ({"steps": ("l.i0", "l.x", "q100")}, "unknown step 'q100'"),
        ({"load_rows": 449}, "at least 450 rows are needed"),
        ({"write_rows": 4}, "greater than or equal to 5"),
    ],
)
def test_what_can_not_be_asked_for(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(words)):
        asked(**parameters)


def test_a_part_of_the_steps_can_be_asked_for_without_what_it_does_not_need() -> None:
    assert asked(steps=("l.i0", "l.x", "qp500")).measured == ("l.i0", "l.x", "qp500")
    assert asked(steps=("l.i0",), load_rows=1).connections.needed == 3


def test_what_is_not_given_is_not_written_down() -> None:
    assert "steps" not in asked().model_dump()
    assert asked(most_seconds=5).model_dump()["most_seconds"] == 5


def test_the_rows_have_a_clock_that_no_step_turns_back() -> None:
    parameters = asked(load_rows=95_000, write_rows=10_000, seconds=60)
    begins = [clock_begins(find(name, "current"), parameters) - CLOCK_BEGINS for name in PUBLISHED]
    assert begins == [0, 10, 11, 12, 13, 73, 133, 193, 253, 313]


def test_the_wait_is_the_published_one_unless_it_is_set() -> None:
    waits = [asked(load_rows=rows).wait_s for rows in (30_000_000, 800_000_000, 2_000_000_000)]
    assert waits == [90, 860, 1200]
    assert asked(wait_seconds=5).wait_s == 5


def test_the_redo_log_is_read_as_every_release_writes_it() -> None:
    old = "LOG\n---\nLog sequence number 1595675\nLog flushed up to   1595675\nLast checkpoint at  1595000\n"
    new = (
        "Log sequence number          1834526\nLog buffer assigned up to    1834526\n"
        "Last checkpoint at           1834000\n"
    )
    results = [innodb.REDO.search(text) for text in (old, new)]
    assert [one and int(one[1]) - int(one[2]) for one in results] == [675, 526]


def test_what_is_left_to_settle_is_reported_in_words() -> None:
    row = {"dirty_kb": 10.0, "buffer_pool_kb": 1000.0, "history_length": 100}
    assert innodb.left(row) == ""
    assert innodb.left(row | {"dirty_kb": 25.0}).startswith("2.5 % of the buffer pool is dirty, 1 % may be")
    assert "1,234 transactions are not purged, 100 may be" in innodb.left(row | {"history_length": 1234})


# --- What the load generator says -------------------------------------------------------------------------------


def line(client: int, kind: str, second: int, buckets: dict[int, int], rows: int = 50) -> str:
    count = sum(buckets.values())
    seconds_of = {
        "client": client,
        "kind": kind,
        "second": second,
        "operations": rows * count,
        "transactions": count,
        "retries": 0,
        "rows_found": 10 * count,
        "sum_us": 100.0 * count,
        "max_us": 200.0 if count else 0.0,
        "buckets": list(buckets.items()),
    }
    return json.dumps(seconds_of)


COUNTS = st.dictionaries(st.integers(0, 400), st.integers(1, 50), max_size=4)
SECONDS = st.dictionaries(
    st.tuples(st.integers(1, 3), st.sampled_from(["insert", "delete", "insert due", "query"]), st.integers(0, 4)),
    COUNTS,
)


@given(SECONDS)
def test_nothing_is_lost_or_counted_twice(counts_of: dict[tuple[int, str, int], dict[int, int]]) -> None:
    seconds = read_seconds(["Threads started!\n", *(line(*key, buckets) for key, buckets in counts_of.items())])
    together = list(by_second(seconds))
    statements = {
        kind: sum(sum(counts.values()) for key, counts in counts_of.items() if key[1] == kind)
        for _, kind, _ in counts_of
    }
    of_latencies: dict[str, int] = {}
    for row in latency_rows("qr100", together):
        of_latencies[row["kind"]] = of_latencies.get(row["kind"], 0) + row["transactions"]
    assert of_latencies == {kind: count for kind, count in statements.items() if count}
    for rows in (interval_rows("qr100", generator.done(together)), generator.client_rows("qr100", seconds)):
        assert "insert due" not in {row["kind"] for row in rows}
        for kind in {row["kind"] for row in rows}:
            of_kind = [row for row in rows if row["kind"] == kind]
            assert sum(row["transactions"] for row in of_kind) == statements[kind]
            assert sum(row["operations"] for row in of_kind) == 50 * statements[kind]
    seen = {(second.client, second.kind, second.second) for second in seconds}
    assert seen == set(counts_of), "also those in which nothing was done"


@pytest.mark.parametrize(
    ("step", "inserts", "deletes", "words"),
    [
        ("l.i1", (16, 15), (16, 15), "l.i1: client 2 did 15 INSERT statements instead of 16"),
        ("l.i1", (16, 16), (14, 16), "l.i1: client 1 did 14 DELETE statements, but 16 INSERT statements"),
        ("qr100", (15, 15), (15, 16), "qr100: client 2 did 16 DELETE statements, but 15 INSERT statements"),
        ("qr100", (17, 15), (17, 15), "qr100: client 1 did 17 INSERT statements instead of 16"),
    ],
)
def test_a_client_that_did_not_do_its_part_is_an_error(
    step: str, inserts: tuple[int, int], deletes: tuple[int, int], words: str
) -> None:
    lines = [
        line(client, kind, 0, {100: count})
        for kind, counts in (("insert", inserts), ("delete", deletes))
        for client, count in enumerate(counts, 1)
    ]
    with pytest.raises(RqpsError, match=re.escape(words)):
        generator.must_be_whole(read_seconds(lines), find(step, "current"), 16, 2)


def test_a_step_with_a_rate_may_end_before_all_rows_are_in() -> None:
    lines = [line(1, "insert", 0, {100: 9}), line(1, "delete", 0, {100: 9})]
    generator.must_be_whole(read_seconds(lines), find("qr100", "current"), 16, 1)
    generator.must_be_whole(read_seconds(lines[:1]), find("q100.1", "2021"), 16, 1)


def warned(lines: list[str], *, deleted: int = 0, **columns: Any) -> dict[str, str]:
    parameters = asked(rates=(100,), seconds=10, load_rows=3000)
    usual = {"target_held": True, "target_per_s": 100.0, "elapsed_s": 10.0, "retries": 0}
    seconds = read_seconds(lines)
    result = warnings_of(find("qp100", "current"), parameters, seconds, usual | columns, deleted)
    return {one.kind: one.text for one in result}


def test_a_missed_rate_is_reported_with_what_was_left_undone() -> None:
    slow = [line(1, "insert", 0, {100: 12})]
    assert warned(slow, target_held=False, elapsed_s=30.0) == {
        "rate not held": "20 rows/s were inserted instead of 100; "
        "the step ended after 30 s, at its limit of 30 s, with 600 of 1,000 rows"
    }
    assert warned([line(1, "insert", 0, {100: 20})], target_held=False, elapsed_s=20.0) == {
        "rate not held": "50 rows/s were inserted instead of 100"
    }


def test_what_else_is_reported_of_a_step() -> None:
    lines = [line(1, "insert", 0, {100: 20}), line(1, "delete", 0, {100: 20}), line(1, "insert due", 0, {100: 20})]
    assert warned(lines, deleted=1000) == {}
    assert warned(lines, deleted=1200) == {}, "the server deletes rows of its own tables, too"
    assert warned(lines, deleted=990)["rows"].startswith("990 of 1,000 rows were deleted")
    assert warned(lines, deleted=1000, retries=2)["retries"].startswith("4.8 % of statements were refused")
    few = [line(1, "query", 0, {100: 4}).replace('"rows_found": 40', '"rows_found": 20')]
    assert warned(few)["rows"] == "a query returned 5 rows on average instead of 10"
