"""The kernel's counters of all threads of a process: tried with an event that it counts on every machine."""

import os
import resource
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from child import Child, wait_for_threads, waiting_threads
from rqps.measure.counters import differences
from rqps.measure.perf_events import HARDWARE, TASK_CLOCK, Event, EventCounters

NO_SUCH_EVENT = Event(kind=1, config=999)
PAGE_FAULTS = Event(kind=1, config=2)
PAGES = 2000
"""That each thread touches: a number that says nothing of the machine, unlike a time."""
SPINNER = f"""
    import mmap, threading
    def spin():
        area = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE)
        area.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(area), mmap.PAGESIZE): area[at] = 1
        if threading.current_thread().name == "parent":
            child = threading.Thread(target=spin)
            child.start()
            child.join()
    early = threading.Event()
    waiting = threading.Thread(target=lambda: (early.wait(), spin()))
    waiting.start()
    turn()
    early.set()
    threads = [threading.Thread(target=spin, name="parent") for _ in range(2)]
    for thread in threads: thread.start()
    for thread in (*threads, waiting): thread.join()
    turn()
"""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def faults_of(pid: int) -> int:
    """Those of all threads, also of those that ended, as the kernel itself adds them up."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_threads_that_were_there_that_came_and_that_ended_are_counted() -> None:
    with Child(SPINNER) as process, closing(EventCounters([process.pid], {"faults": PAGE_FAULTS})) as counters:
        earlier, before = counters.read(), faults_of(process.pid)
        process.go_on()
        wait_for_threads(process.pid, 1)
        used = differences(earlier, counters.read())
        faults = faults_of(process.pid) - before
    assert faults >= 5 * PAGES, "one was there, two came, and each of these began one more"
    assert used["faults"] == pytest.approx(faults, rel=0.02)


def test_a_process_that_ended_after_it_was_listed_is_left_out() -> None:
    """Backends of a server with a process for each connection end at any time."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with closing(EventCounters([os.getpid(), ended.pid], {"faults": PAGE_FAULTS})) as counters:
        assert counters.read()["faults"] is not None


def test_all_files_are_closed() -> None:
    files = open_files()
    with Child(waiting_threads(8)) as process:
        counters = EventCounters([process.pid], {"clock": TASK_CLOCK, "again": TASK_CLOCK})
        assert open_files() >= files + 18
        used = differences(counters.read(), counters.read())
        counters.close()
        assert (used["clock"] is None, used["again"] is None) == (False, False)
    assert open_files() <= files + 2  # pipes of the child


def test_an_event_that_can_not_be_counted_here_is_unknown_and_costs_nothing() -> None:
    files = open_files()
    with closing(EventCounters([os.getpid()], {"none": NO_SUCH_EVENT, "clock": TASK_CLOCK})) as counters:
        used = differences(counters.read(), counters.read())
        assert used["none"] is None
        assert used["clock"] is not None
    assert open_files() == files


def test_the_events_of_the_cpu_are_counted_or_unknown() -> None:
    """As the machine has them; both columns are there in any case."""
    with closing(EventCounters([os.getpid()])) as counters:
        earlier = counters.read()
        sum(range(100_000))
        used = differences(earlier, counters.read())
    assert list(used) == list(HARDWARE)
    for count in used.values():
        assert count is None or count > 100_000


def test_too_few_files_are_no_reason_to_fail() -> None:
    with Child(waiting_threads(8)) as process, ExitStack() as opened:
        # The limit is on the numbers of files, and a file gets the lowest that is free.
        highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        while (last := opened.enter_context(open(os.devnull)).fileno()) < highest:  # noqa: PTH123
            pass
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 5, limits[1]))
        try:
            with closing(EventCounters([process.pid], {"clock": TASK_CLOCK})) as counters:
                assert counters.read() == {"clock": None}
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
