"""Reading what the load generator says: one JSON line a thread and second, and the origin of the measured part."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rqps.errors import RqpsError
from rqps.workloads.sysbench.latency import added, edge_us, summary


@dataclass(frozen=True)
class Second:
    """What all threads did in one second; seconds of the warm-up are below 0."""

    second: int
    transactions: int
    retries: int
    """Transactions that the server refused and that were done again from their start."""
    sum_us: float
    max_us: float
    buckets: dict[int, int]


def read_origin(line: str) -> int | None:
    """The origin of the measured part in nanoseconds of CLOCK_MONOTONIC, if this line is the one that tells it."""
    return int(json.loads(line)["origin_ns"]) if line.startswith('{"origin_ns"') else None


def read_end(line: str) -> int | None:
    """When a thread ended its last transaction, on the same clock, if this line tells it."""
    return int(json.loads(line)["ended_ns"]) if line.startswith('{"ended_ns"') else None


def read_seconds(lines: Iterable[str], threads: int, whole_within_s: int | None = None) -> list[Second]:
    """Every second with what all threads did in it. A second that a thread did not report is an error.

    Where transactions are whole, threads end one after the other when `whole_within_s` seconds have passed.
    """
    by_second: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        if line.startswith('{"thread"'):
            report = json.loads(line)
            by_second.setdefault(report["second"], []).append(report)
    must = [second for second in by_second if whole_within_s is None or second < whole_within_s]
    short = [second for second in must if len(by_second[second]) != threads]
    if short or not by_second:
        raise RqpsError(
            f"sysbench reported {len(by_second)} seconds, of which {len(short)} lack a thread of {threads}",
            fix="see what sysbench said, in the step's log",
        )
    return [_add(second, reports) for second, reports in sorted(by_second.items())]


def _add(second: int, reports: list[dict[str, Any]]) -> Second:
    return Second(
        second=second,
        transactions=sum(report["transactions"] for report in reports),
        retries=sum(report["retries"] for report in reports),
        sum_us=sum(report["sum_us"] for report in reports),
        max_us=max(report["max_us"] for report in reports),
        buckets=added(dict(report["buckets"]) for report in reports),
    )


def whole(seconds: list[Second]) -> Second:
    """The measured part as one: all seconds from 0."""
    measured = [second for second in seconds if second.second >= 0]
    return Second(
        second=0,
        transactions=sum(second.transactions for second in measured),
        retries=sum(second.retries for second in measured),
        sum_us=sum(second.sum_us for second in measured),
        max_us=max((second.max_us for second in measured), default=0.0),
        buckets=added(second.buckets for second in measured),
    )


def interval_rows(step: str, per_transaction: int, seconds: list[Second]) -> list[dict[str, Any]]:
    """Rows of the table `intervals`."""
    return [
        {
            "step": step,
            "kind": step,
            "second": second.second,
            "operations": second.transactions * per_transaction,
            "transactions": second.transactions,
            "errors": 0,
            "retries": second.retries,
            **summary(second.buckets, second.sum_us, second.max_us),
        }
        for second in seconds
    ]


def latency_rows(step: str, seconds: list[Second]) -> list[dict[str, Any]]:
    """Rows of the table `latencies`: the histogram of every second."""
    return [
        {
            "step": step,
            "kind": step,
            "second": second.second,
            "from_us": edge_us(bucket),
            "below_us": edge_us(bucket + 1),
            "transactions": count,
        }
        for second in seconds
        for bucket, count in sorted(second.buckets.items())
    ]
