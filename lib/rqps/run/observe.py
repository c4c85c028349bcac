"""What is observed of a step while its load goes on."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import polars as pl

from rqps.engines import Opened
from rqps.observe import placement
from rqps.observe.host_counters import device_of, read_busy_s
from rqps.observe.perf_events import EventCounters, Reading
from rqps.observe.step_counters import Sampler, read_counters, used_between, warnings_between
from rqps.run.job import Job
from rqps.store.manifest import Warning_
from rqps.workloads.protocol import Load


@dataclass(frozen=True)
class Observed:
    """What was observed: columns of the step's row in `steps`, and rows of tables of its own."""

    columns: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]
    busy_s: float | None = None
    """Of the CPUs on which server and load generator may run, whoever used them; None where nobody looked."""


class Watcher(Protocol):
    """Whatever else looks on while a step is measured."""

    def begin(self, origin_ns: int) -> None:
        """The measured part has begun, at that moment of CLOCK_MONOTONIC."""

    def end(self) -> None:
        """It has ended; the load's threads are still there."""


def observe(
    job: Job, server: Opened, events: EventCounters, load: Load, step: str, watcher: Watcher | None = None
) -> Observed:
    """Reads all counters at the two ends of the measured part, and a row a second between them."""
    device, pids = device_of(server.directory), server.pids
    where = job.placement_of(step)
    cpus = {*where.server_cpus, *where.client_cpus}
    origin_ns = load.wait_for_begin()
    if watcher:
        watcher.begin(origin_ns)
    first, first_busy_s, first_events = (
        read_counters(pids, load.pid, device),
        read_busy_s(cpus),
        events.read(),
    )
    started_at = datetime.now(UTC) - timedelta(microseconds=(time.monotonic_ns() - origin_ns) / 1e3)
    placement.verify(load.pid, where.client_cpus)
    with Sampler(pids, load.pid, device, origin_ns) as sampler:
        load.wait_for_end()
        last, last_busy_s, last_events = (
            read_counters(pids, load.pid, device),
            read_busy_s(cpus),
            events.read(),
        )
        if watcher:
            watcher.end()
    counted = {f"server_{name}": count for name, count in (last_events - first_events).items()}
    return Observed(
        columns={"started_at": started_at, **used_between(first, last), **counted},
        tables={"counters": sampler.frame(step)},
        warnings=(*warnings_between(first, last, step), *_events_shared(last_events, step)),
        busy_s=last_busy_s - first_busy_s,
    )


def _events_shared(events: Reading, step: str) -> Iterator[Warning_]:
    for name in sorted(events.shared):
        text = f"{name} of the server are unknown: others had the CPU's counter for a part of the time"
        yield Warning_(kind="counters", text=text, step=step)
