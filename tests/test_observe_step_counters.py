"""A step's counters: one difference per column, a steady cadence, and a warning where a counter is missing."""

import os
import time
from collections.abc import Iterator

import polars as pl
import pytest
from child import SPINNING, Child, until, wait_for_threads, waiting_threads
from rqps.measure.perf_events import HARDWARE
from rqps.measure.step_counters import MOST_THREADS, Sampler, read_counters, used_between, warnings_between
from rqps.store.schemas import COUNTERS, STEPS

SPIN = """
    import time
    turn()
    while time.process_time() < 0.3: pass
    turn()
"""


def test_the_difference_of_two_readings_fills_the_counter_columns_of_steps() -> None:
    with Child(SPIN) as server, Child("turn()") as client:
        first = read_counters([server.pid], client.pid, None)
        server.go_on()
        last = read_counters([server.pid], client.pid, None)
    used = used_between(first, last)
    of_events = {f"server_{name}" for name in HARDWARE}  # read beside, by counters that were opened before
    counters = [name for name in STEPS if name.startswith(("server_", "client_", "host_")) and name not in of_events]
    assert list(used) == counters
    assert set(used) < set(COUNTERS)
    assert (used["client_cpu_s"] or 0) < (used["server_cpu_s"] or 0), "the server burnt CPU, the client waited"
    host_s = sum(used[f"host_cpu_{kind}_s"] or 0 for kind in ("user", "system"))
    assert (used["server_cpu_s"] or 0) < host_s + 0.05, "the host's CPU holds the server's"
    assert warnings_between(first, last, "point-query") == ()


def test_a_thread_that_ended_is_a_warning_of_the_step() -> None:
    with Child(waiting_threads(1)) as client:
        first = read_counters([os.getpid()], client.pid, None)
        client.go_on()
        wait_for_threads(client.pid, 1)
        last = read_counters([os.getpid()], client.pid, None)
    assert used_between(first, last)["client_context_switches"] is None
    [warning] = warnings_between(first, last, "insert")
    assert warning.step == "insert"
    assert "switches of the client are unknown: 1 of its threads ended" in warning.text


@pytest.fixture
def burner() -> Iterator[Child]:
    with Child(SPINNING) as process:
        process.send()
        yield process


def rows_of(sampler: Sampler, least: int) -> pl.DataFrame:
    """The rows so far, once there are as many."""
    until(lambda: sampler.frame("s").height >= least)
    return sampler.frame("s")


def test_a_late_row_shifts_no_later_one_and_leaves_no_gap(burner: Child) -> None:
    origin_ns = time.monotonic_ns() - 70_000_000
    with Sampler(lambda: [burner.pid], os.getpid(), None, origin_ns, interval_s=0.2) as sampler:
        frame = rows_of(sampler, 5)
    assert frame.schema == COUNTERS
    assert (frame["second"] // 0.2).is_unique().all(), "one row in an interval"
    assert frame["second"].is_sorted()
    starts = frame["second"] - frame["interval_s"]
    assert (starts[1:] - frame["second"][:-1]).abs().max() < 1e-6  # type: ignore[operator]


def test_what_is_sampled_before_the_origin_has_negative_seconds() -> None:
    with Sampler(lambda: [os.getpid()], os.getpid(), None, time.monotonic_ns() + 10**12, interval_s=0.1) as sampler:
        assert (rows_of(sampler, 1)["second"] < 0).all()


def test_intervals_add_up_to_no_more_than_the_ends_say(burner: Child) -> None:
    first = read_counters([burner.pid], os.getpid(), None)
    with Sampler(lambda: [burner.pid], os.getpid(), None, time.monotonic_ns(), interval_s=0.1) as sampler:
        rows_of(sampler, 4)
    used = used_between(first, read_counters([burner.pid], os.getpid(), None))
    frame = sampler.frame("s")
    assert 0 < frame["server_cpu_s"].sum() <= (used["server_cpu_s"] or 0)
    assert frame["server_context_switches"].sum() <= (used["server_context_switches"] or 0)
    assert (frame["server_rss_kb"] > 1000).all()
    assert (frame["host_memory_available_kb"] > 0).all()


def test_a_process_that_ends_has_nulls_and_the_rest_goes_on(burner: Child) -> None:
    with Sampler(lambda: [burner.pid], os.getpid(), None, time.monotonic_ns(), interval_s=0.1) as sampler:
        before = rows_of(sampler, 1).height
        burner.kill()
        frame = rows_of(sampler, before + 2)
    assert frame["server_cpu_s"][0] is not None
    assert (frame["server_cpu_s"][-1], frame["server_rss_kb"][-1]) == (None, None)
    assert frame["client_cpu_s"].null_count() == 0


def test_many_threads_cost_no_switches_a_second_but_keep_the_rest() -> None:
    with (
        Child(waiting_threads(MOST_THREADS)) as many,
        Sampler(lambda: [many.pid], os.getpid(), None, time.monotonic_ns(), interval_s=0.1) as sampler,
    ):
        frame = rows_of(sampler, 1)
    assert frame["server_context_switches"].null_count() == frame.height
    assert frame["client_context_switches"].null_count() == frame["server_cpu_s"].null_count() == 0


def test_a_sampler_stopped_at_once_gives_an_empty_table_of_the_schema() -> None:
    with Sampler(lambda: [os.getpid()], os.getpid(), None, time.monotonic_ns()) as sampler:
        pass
    assert sampler.frame("s").equals(pl.DataFrame(schema=COUNTERS))
