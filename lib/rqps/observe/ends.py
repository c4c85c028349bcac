"""The two ends of a step: every counter read in one go, and what was used in between."""

import time
from dataclasses import asdict, dataclass

from rqps.observe.host import HostCounters, read_host
from rqps.observe.process import ProcessReading, read_process, threads_ended
from rqps.store.manifest import Warning_


@dataclass(frozen=True)
class End:
    """All counters at one moment of CLOCK_MONOTONIC."""

    at_ns: int
    server: ProcessReading
    client: ProcessReading
    host: HostCounters


def read_end(server_pid: int, client_pid: int, device: str | None) -> End:
    """Read everything now. `device` is the one that holds the data directory, see `device_of`."""
    return End(time.monotonic_ns(), read_process(server_pid), read_process(client_pid), read_host(device))


def between(earlier: End, later: End) -> dict[str, float | int | None]:
    """What was used between two ends, under the names of the counter columns of the table `steps`."""
    parts = {
        "server": asdict(later.server - earlier.server),
        "client": asdict(later.client - earlier.client),
        "host": asdict(later.host - earlier.host),
    }
    return {f"{part}_{name}": value for part, counters in parts.items() for name, value in counters.items()}


def elapsed_s(earlier: End, later: End) -> float:
    return (later.at_ns - earlier.at_ns) / 1e9


def warnings_between(earlier: End, later: End, step: str) -> tuple[Warning_, ...]:
    """Why counters of this step are missing, where some are."""
    found = []
    for part, first, last in (
        ("server", earlier.server, later.server),
        ("client", earlier.client, later.client),
    ):
        if not last.io_permitted:
            text = f"reads and writes of the {part} are unknown: this user may not read its /proc/PID/io"
            found.append(Warning_(kind="counters", text=text, step=step))
        ended = threads_ended(first.switches_by_thread or {}, last.switches_by_thread or {})
        if ended:
            text = f"context switches of the {part} are unknown: {ended} of its threads ended during the step"
            found.append(Warning_(kind="counters", text=text, step=step))
    return tuple(found)
