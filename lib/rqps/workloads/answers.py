"""Reads the reports that sysbench writes with the Lua scripts of rqps, one per thread and second, adds them up, and
turns the sums into rows of the raw tables.

Latencies are kept as histograms in microseconds, with 32 buckets for each factor of two.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqps.numbers import in_percent
from rqps.store.manifest import Warning_

BUCKETS_PER_DOUBLING = 32
PERCENTILES = {"latency_p50_us": 0.50, "latency_p95_us": 0.95, "latency_p99_us": 0.99, "latency_p99_9_us": 0.999}
RETRIES_WORTH_A_WARNING = 0.001
"""The share of all started transactions above which retries give a warning. Some retries are normal when many threads
write, and published numbers include them as well."""


@dataclass(frozen=True)
class Second:
    """The operations of one kind that one or more threads did in one second. The seconds of the warm-up
    have negative numbers."""

    kind: str
    second: int
    operations: int
    transactions: int
    retries: int
    """The number of times that the server refused a transaction, which was then repeated from its start."""
    sum_us: float
    max_us: float
    buckets: Mapping[int, int]
    client: int = 0
    rows_found: int = 0
    """Rows that queries returned."""

    def columns(self, step: str) -> dict[str, Any]:
        """The columns that the tables `intervals` and `clients` share."""
        return {
            "step": step,
            "kind": self.kind,
            "second": self.second,
            "operations": self.operations,
            "transactions": self.transactions,
            "errors": 0,  # an error that is not retried makes sysbench fail, and with it the run
            "retries": self.retries,
        }


def read_seconds(lines: Iterable[str]) -> list[Second]:
    """All reports of the clients, ordered by kind, second and client."""
    reports = [json.loads(line) for line in lines if line.startswith('{"client"')]
    reported = [Second(**{**report, "buckets": dict(report["buckets"])}) for report in reports]
    return sorted(reported, key=lambda part: (part.kind, part.second, part.client))


def together(kind: str, second: int, parts: Sequence[Second]) -> Second:
    """Adds up the reports of several threads for one second, or of several seconds."""
    buckets = Counter[int]()
    for part in parts:
        buckets.update(part.buckets)
    return Second(
        kind=kind,
        second=second,
        operations=sum(part.operations for part in parts),
        transactions=sum(part.transactions for part in parts),
        retries=sum(part.retries for part in parts),
        sum_us=sum(part.sum_us for part in parts),
        max_us=max((part.max_us for part in parts), default=0.0),
        buckets=buckets,
        rows_found=sum(part.rows_found for part in parts),
    )


def total(seconds: Iterable[Second], kind: str) -> Second:
    """The counts of all measured seconds of one kind and of all clients, added up."""
    return together(kind, 0, [part for part in seconds if part.kind == kind and part.second >= 0])


def by_second(seconds: Iterable[Second]) -> Iterator[Second]:
    """Yields the counts and latencies of all threads together, for each second and kind of operation."""
    parts: dict[tuple[str, int], list[Second]] = {}
    for part in seconds:
        parts.setdefault((part.kind, part.second), []).append(part)
    for (kind, second), of_threads in parts.items():
        yield together(kind, second, of_threads)


def interval_rows(step: str, seconds: Iterable[Second]) -> list[dict[str, Any]]:
    return [{**part.columns(step), **summary(part)} for part in seconds]


def latency_rows(step: str, seconds: Iterable[Second]) -> list[dict[str, Any]]:
    """Rows of the table `latencies`: the histogram of every second."""
    return [
        {
            "step": step,
            "kind": part.kind,
            "second": part.second,
            "from_us": edge_us(bucket),
            "below_us": edge_us(bucket + 1),
            "transactions": count,
        }
        for part in seconds
        for bucket, count in sorted(part.buckets.items())
    ]


def summary(part: Second) -> dict[str, float | None]:
    """The latency columns of the raw tables; all are null if there were no transactions."""
    total = sum(part.buckets.values())
    if total == 0:
        return dict.fromkeys(["latency_mean_us", *PERCENTILES, "latency_max_us"])
    return {
        "latency_mean_us": part.sum_us / total,
        **{name: percentile_us(part.buckets, share, part.max_us) for name, share in PERCENTILES.items()},
        "latency_max_us": part.max_us,
    }


def step_columns(measured: Second, elapsed_s: float, operations: int, retries: int) -> dict[str, Any]:
    """Columns of the table `steps` for a step; `measured` is the total of its measured seconds."""
    return {
        "elapsed_s": elapsed_s,
        "operations": operations,
        "transactions": measured.transactions,
        "operations_per_s": operations / elapsed_s if operations else None,
        **summary(measured),
        "errors": 0,  # an error that is not retried makes sysbench fail, and with it the run
        "retries": retries,
    }


def edge_us(bucket: int) -> float:
    """The lower edge of a bucket, in microseconds. The first bucket also contains all shorter latencies.

    >>> edge_us(0), edge_us(32), edge_us(64)
    (0.0, 2.0, 4.0)
    """
    return 2 ** (bucket / BUCKETS_PER_DOUBLING) if bucket > 0 else 0.0


def percentile_us(buckets: Mapping[int, int], share: float, max_us: float) -> float:
    """The latency below which `share` of the transactions are, interpolated within the bucket.

    >>> percentile_us({32: 10}, 0.5, max_us=2.04) == (edge_us(32) + 2.04) / 2
    True
    """
    rank = share * sum(buckets.values())
    below = 0
    for bucket in sorted(buckets):
        count = buckets[bucket]
        if below + count >= rank:
            low, high = edge_us(bucket), min(edge_us(bucket + 1), max_us)
            return low + max(0.0, high - low) * (rank - below) / count
        below += count
    return max_us


def retries_warning(step: str, what: str, retries: int, done: int) -> Iterator[Warning_]:
    """Yields a warning if more than a small share of `what` (transactions, statements) was repeated."""
    share = retries / max(1, retries + done)
    if share > RETRIES_WORTH_A_WARNING:
        text = (
            f"{in_percent(share)} of {what} were refused, because of a deadlock or a lock wait timeout, and "
            f"repeated: {retries:,} retries for {done:,} completed {what}"
        )
        yield Warning_(kind="retries", text=text, step=step)
