"""What is observed of a step while its load goes on."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from rqps import placement
from rqps.observe.device import device_of
from rqps.observe.ends import between, read_end, warnings_between
from rqps.observe.sampler import Sampler
from rqps.run.job import Job
from rqps.servers.instance import Server
from rqps.store.manifest import Warning_
from rqps.workloads.protocol import Load


@dataclass(frozen=True)
class Observed:
    """What was observed: columns of the step's row in `steps`, and rows of tables of its own."""

    columns: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]


def observe(job: Job, server: Server, load: Load, step: str) -> Observed:
    """Reads all counters at the two ends of the measured part, and a row a second between them."""
    device = device_of(server.data)
    origin_ns = load.wait_for_begin()
    first = read_end(server.pid, load.pid, device)
    started_at = datetime.now(UTC) - timedelta(microseconds=(time.monotonic_ns() - origin_ns) / 1e3)
    placement.verify(load.pid, job.placement.client_cpus)
    with Sampler(server.pid, load.pid, device, origin_ns) as sampler:
        load.wait_for_end()
        last = read_end(server.pid, load.pid, device)
    return Observed(
        columns={"started_at": started_at, **between(first, last)},
        tables={"counters": sampler.frame(step)},
        warnings=warnings_between(first, last, step),
    )
