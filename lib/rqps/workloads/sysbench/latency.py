"""Latency histograms as the Lua side counts them: 32 buckets for every doubling of microseconds."""

from collections.abc import Iterable, Mapping

BUCKETS_PER_DOUBLING = 32
PERCENTILES = {
    "latency_p50_us": 0.50,
    "latency_p95_us": 0.95,
    "latency_p99_us": 0.99,
    "latency_p99_9_us": 0.999,
}


def edge_us(bucket: int) -> float:
    """Where a bucket begins; the first one holds all that is shorter, too.

    >>> edge_us(0), edge_us(32), edge_us(64)
    (0.0, 2.0, 4.0)
    """
    return 2 ** (bucket / BUCKETS_PER_DOUBLING) if bucket > 0 else 0.0


def percentile_us(buckets: Mapping[int, int], share: float, max_us: float) -> float:
    """The latency below which `share` of the transactions stay, placed evenly within its bucket.

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


def summary(buckets: Mapping[int, int], sum_us: float, max_us: float) -> dict[str, float | None]:
    """The latency columns of the raw tables; all null where nothing was done."""
    total = sum(buckets.values())
    if total == 0:
        return dict.fromkeys(["latency_mean_us", *PERCENTILES, "latency_max_us"])
    return {
        "latency_mean_us": sum_us / total,
        **{name: percentile_us(buckets, share, max_us) for name, share in PERCENTILES.items()},
        "latency_max_us": max_us,
    }


def added(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Histograms of several threads or seconds as one."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.items():
            total[bucket] = total.get(bucket, 0) + count
    return total
