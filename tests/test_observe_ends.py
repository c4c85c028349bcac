"""A step's two ends: one difference a counter column, and a warning where a counter is missing."""

import os

from child import Child, wait_for_threads, waiting_threads
from rqps.observe.perf_events import HARDWARE
from rqps.observe.step_counters import elapsed_s, read_counters, used_between, warnings_between
from rqps.store.schemas import COUNTERS, STEPS

SPIN = """
    import time
    turn()
    while time.process_time() < 0.3: pass
    turn()
"""


def test_the_difference_of_two_ends_fills_the_counter_columns_of_steps() -> None:
    with Child(SPIN) as server:
        first = read_counters(server.pid, os.getpid(), None)
        server.go_on()
        last = read_counters(server.pid, os.getpid(), None)
    used = used_between(first, last)
    of_events = {f"server_{name}" for name in HARDWARE}  # read beside, by counters that were opened before
    counters = [name for name in STEPS if name.startswith(("server_", "client_", "host_")) and name not in of_events]
    assert list(used) == counters
    assert set(used) < set(COUNTERS)
    assert elapsed_s(first, last) > 0
    assert (used["client_cpu_s"] or 0) < (used["server_cpu_s"] or 0), "the server burnt CPU, the client waited"
    host_s = sum(used[f"host_cpu_{kind}_s"] or 0 for kind in ("user", "system"))
    assert (used["server_cpu_s"] or 0) < host_s + 0.05, "the host's CPU holds the server's"
    assert warnings_between(first, last, "point-query") == ()


def test_a_thread_that_ended_is_told_with_the_step() -> None:
    with Child(waiting_threads(1)) as client:
        first = read_counters(os.getpid(), client.pid, None)
        client.go_on()
        wait_for_threads(client.pid, 1)
        last = read_counters(os.getpid(), client.pid, None)
    assert used_between(first, last)["client_context_switches"] is None
    [warning] = warnings_between(first, last, "insert")
    assert warning.step == "insert"
    assert "switches of the client are unknown: 1 of its threads ended" in warning.text
