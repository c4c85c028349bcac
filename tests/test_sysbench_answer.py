"""Reading what the load generator says."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.workloads.answers import (
    BUCKETS_PER_DOUBLING,
    PERCENTILES,
    edge_us,
    percentile_us,
    read_origin,
    summary,
    together,
)
from rqps.workloads.sysbench.generator import measured_part, read_seconds


def line(second: int, buckets: list[list[int]], thread: int = 0, **more: float) -> str:
    done = sum(count for _, count in buckets)
    said = {"thread": thread, "second": second, "transactions": done, "retries": 0, "sum_us": 0, "max_us": 0}
    return json.dumps({**said, "buckets": buckets, **more}, separators=(",", ":"))


def test_threads_are_added_up_second_by_second() -> None:
    seconds = read_seconds(
        [
            "sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n",
            '{"origin_ns":123}\n',
            line(-1, [[10, 5]]),
            line(-1, [[10, 6]], thread=1),
            line(0, [[10, 1], [40, 2]], max_us=7.0, sum_us=10.0),
            line(0, [[40, 4]], thread=1, max_us=9.0, sum_us=20.0, retries=3),
        ],
        threads=2,
    )
    assert [(second.second, second.transactions) for second in seconds] == [(-1, 11), (0, 7)]
    assert (seconds[1].buckets, seconds[1].max_us, seconds[1].sum_us, seconds[1].retries) == (
        {10: 1, 40: 6},
        9,
        30,
        3,
    )


def test_the_warm_up_is_not_in_the_whole() -> None:
    seconds = read_seconds([line(-1, [[1, 100]]), line(0, [[2, 3]]), line(1, [[2, 4]])], threads=1)
    whole = measured_part("scan", seconds)
    assert (whole.transactions, whole.buckets) == (7, {2: 7})


@pytest.mark.parametrize(
    "lines", [[], ["FATAL: error 2013: Lost connection\n"], [line(0, []), line(1, [], thread=1)]]
)
def test_an_answer_with_a_thread_missing_is_an_error(lines: list[str]) -> None:
    with pytest.raises(RqpsError, match="lack a thread of 2"):
        read_seconds(lines, threads=2)


def test_the_origin_is_known_by_its_line() -> None:
    assert (read_origin('{"origin_ns":5000000001}\n'), read_origin(line(0, []))) == (5_000_000_001, None)


def test_nothing_done_has_no_latency() -> None:
    assert set(summary(together("scan", 0, [])).values()) == {None}


@given(st.dictionaries(st.integers(0, 900), st.integers(1, 10_000), min_size=1), st.floats(0, 1))
def test_percentiles_stay_within_their_bucket_and_in_order(buckets: dict[int, int], share: float) -> None:
    max_us = edge_us(max(buckets) + 1)
    found = percentile_us(buckets, share, max_us)
    counted = [bucket for bucket in sorted(buckets) for _ in range(min(buckets[bucket], 1))]
    assert edge_us(counted[0]) <= found <= max_us
    in_order = [percentile_us(buckets, each, max_us) for each in sorted(PERCENTILES.values())]
    assert in_order == sorted(in_order)


@given(st.lists(st.floats(2, 1e6), min_size=1, max_size=200))
def test_a_percentile_is_as_near_as_a_bucket_is_wide(latencies: list[float]) -> None:
    buckets: dict[int, int] = {}
    for latency in latencies:
        bucket = math.floor(math.log2(latency) * BUCKETS_PER_DOUBLING)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    exact = sorted(latencies)[math.ceil(0.95 * len(latencies)) - 1]
    assert percentile_us(buckets, 0.95, max(latencies)) == pytest.approx(exact, rel=2 ** (1 / 32) - 1 + 1e-9)
