"""Reading what the load generator says: one JSON line a client, kind and second."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from rqps.errors import RqpsError
from rqps.workloads.insert_benchmark.steps import Step
from rqps.workloads.sysbench.latency import added, edge_us, summary

DUE = " due"
"""At the end of a kind: its latency since the moment when the limiter let it begin."""


@dataclass(frozen=True)
class Second:
    """What a client, or several, did of one kind in one second."""

    client: int
    kind: str
    second: int
    operations: int
    transactions: int
    retries: int
    found: int
    """Rows that queries gave."""
    sum_us: float
    max_us: float
    buckets: Mapping[int, int]


def read_seconds(lines: Iterable[str]) -> list[Second]:
    """All that the clients have written, in the order of kinds, seconds and clients."""
    found = []
    for line in lines:
        if line.startswith('{"client"'):
            told = json.loads(line)
            found.append(Second(**{**told, "buckets": dict(told["buckets"])}))
    return sorted(found, key=lambda each: (each.kind, each.second, each.client))


def must_be_whole(seconds: Iterable[Second], step: Step, statements: int, clients: int) -> None:
    """Fails unless every client has inserted in as many statements as were due, where it may not end before, and has
    deleted in as many as it inserted."""
    done: dict[tuple[str, int], int] = {}
    for each in seconds:
        done[each.kind, each.client] = done.get((each.kind, each.client), 0) + each.transactions
    for client in range(1, clients + 1):
        inserts, deletes = done.get(("insert", client), 0), done.get(("delete", client), 0)
        if inserts > statements or (step.rate is None and inserts < statements):
            _not_whole(step, client, f"{inserts} statements that insert, and {statements} were due")
        if step.deletes and deletes != inserts:
            _not_whole(step, client, f"{deletes} statements that delete, and {inserts} that insert")


def _not_whole(step: Step, client: int, what: str) -> NoReturn:
    raise RqpsError(f"{step.name}: client {client} did {what}", fix="see what sysbench said, in the step's log")


def total(seconds: Iterable[Second], kind: str) -> Second:
    """Seconds of one kind as one, of all clients."""
    return _sum(0, kind, 0, [each for each in seconds if each.kind == kind])


def by_second(seconds: Iterable[Second]) -> Iterator[Second]:
    """The same with all clients together."""
    together: dict[tuple[str, int], list[Second]] = {}
    for each in seconds:
        together.setdefault((each.kind, each.second), []).append(each)
    for (kind, second), of_clients in together.items():
        yield _sum(0, kind, second, of_clients)


def _sum(client: int, kind: str, second: int, parts: Sequence[Second]) -> Second:
    return Second(
        client=client,
        kind=kind,
        second=second,
        operations=sum(part.operations for part in parts),
        transactions=sum(part.transactions for part in parts),
        retries=sum(part.retries for part in parts),
        found=sum(part.found for part in parts),
        sum_us=sum(part.sum_us for part in parts),
        max_us=max((part.max_us for part in parts), default=0.0),
        buckets=added(part.buckets for part in parts),
    )


def interval_rows(step: str, seconds: Iterable[Second]) -> list[dict[str, Any]]:
    """Rows of the table `intervals`."""
    return [
        {**_counts(step, each), **summary(each.buckets, each.sum_us, each.max_us)}
        for each in seconds
        if not each.kind.endswith(DUE)
    ]


def latency_rows(step: str, seconds: Iterable[Second]) -> list[dict[str, Any]]:
    """Rows of the table `latencies`: the histogram of every second."""
    return [
        {
            "step": step,
            "kind": each.kind,
            "second": each.second,
            "from_us": edge_us(bucket),
            "below_us": edge_us(bucket + 1),
            "transactions": count,
        }
        for each in seconds
        for bucket, count in sorted(each.buckets.items())
    ]


def client_rows(step: str, seconds: Iterable[Second]) -> list[dict[str, Any]]:
    """Rows of the table `clients`."""
    return [
        {
            **_counts(step, each),
            "client": each.client,
            "latency_max_us": each.max_us if each.transactions else None,
        }
        for each in seconds
        if not each.kind.endswith(DUE)
    ]


def _counts(step: str, each: Second) -> dict[str, Any]:
    return {
        "step": step,
        "kind": each.kind,
        "second": each.second,
        "operations": each.operations,
        "transactions": each.transactions,
        "errors": 0,  # any other than those that are done again ends sysbench, and the run
        "retries": each.retries,
    }
