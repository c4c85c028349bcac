"""The counters of a process agree with what the process itself, or the kernel elsewhere, says of it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from child import Child, wait_for_threads, waiting_threads
from hypothesis import given
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.measure.counters import cpu_of_all_ns, read_process, read_processes, switches_between

SPINNER = """
    import resource, threading, time
    def spin():
        while time.thread_time() < 0.3: pass
    turn()
    threads = [threading.Thread(target=spin) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    turn(used.ru_utime + used.ru_stime)
"""


def test_cpu_of_another_process_counts_threads_that_have_ended() -> None:
    with Child(SPINNER) as process:
        earlier = read_process(process.pid)
        own_s = float(process.go_on())
        wait_for_threads(process.pid, 1)
        later = read_process(process.pid)
    used = later - earlier
    assert later.cpu_s == pytest.approx(own_s, rel=0.02)
    assert (used.cpu_s or 0) >= 0.6, "two threads burnt 0.3 s of CPU each, by their own clock"
    assert (used.cpu_user_s or 0) + (used.cpu_system_s or 0) == pytest.approx(used.cpu_s, abs=0.03)


def test_a_process_that_sleeps_switches() -> None:
    script = """
        import time
        turn()
        for _ in range(50): time.sleep(0.001)
        turn()
    """
    with Child(script) as process:
        earlier = read_process(process.pid)
        process.go_on()
        used = read_process(process.pid) - earlier
    assert (used.context_switches or 0) >= 50


def test_reads_and_writes_are_counted_as_the_process_makes_them(tmp_path: Path) -> None:
    script = f"""
        import os
        file = os.open({str(tmp_path / "written")!r}, os.O_CREAT | os.O_RDWR)
        turn()
        for _ in range(40): os.write(file, bytes(16384))
        for i in range(30): os.pread(file, 4096, i * 4096)
        os.fsync(file)
        turn()
    """
    with Child(script) as process:
        earlier = read_process(process.pid)
        process.go_on()
        used = read_process(process.pid) - earlier
    assert used.writes in (40, 41), "40 to the file, and the answer, which we may have before it is counted"
    assert 31 <= (used.reads or 0) <= 33, "30 of the file and the question"
    on_tmpfs = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout
    if on_tmpfs.strip() != "tmpfs":
        assert used.write_kb == pytest.approx(40 * 16, rel=0.1)


def test_a_process_not_yet_reaped_still_has_its_counters() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    reading = read_process(process.pid)
    process.wait()
    assert 0.2 <= (reading.cpu_s or 0) < resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime + 1


def test_a_process_that_is_gone_is_an_error_that_names_it() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(RqpsError, match=f"process {process.pid} has ended"):
        read_process(process.pid)


def test_io_that_may_not_be_read_is_unknown_and_says_so() -> None:
    """An ordinary user looks at a process of root: at this one, or at process 1."""
    script = """
        import os
        from rqps.measure.counters import read_process
        pid = 1
        if os.getuid() == 0:
            pid = os.getppid()
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        reading = read_process(pid)
        turn(reading.reads, reading.write_kb, reading.cpu_s > 0)
    """
    with Child(script) as ordinary_user:
        assert ordinary_user.said.split() == ["None", "None", "True"]


@given(
    lasting=st.dictionaries(st.integers(1, 99), st.tuples(st.integers(0, 999), st.integers(0, 999))),
    new=st.dictionaries(st.integers(100, 199), st.integers(0, 999)),
)
def test_switches_add_up_over_kept_and_new_threads(lasting: dict[int, tuple[int, int]], new: dict[int, int]) -> None:
    earlier = {thread: first for thread, (first, _) in lasting.items()}
    later = {thread: first + more for thread, (first, more) in lasting.items()} | new
    expected = sum(more for _, more in lasting.values()) + sum(new.values())
    assert switches_between(earlier, later) == expected
    if lasting:
        assert switches_between(earlier, dict(list(later.items())[1:])) is None


def test_processes_of_one_engine_are_added_up_and_an_engine_may_have_none() -> None:
    with Child(waiting_threads(1)) as one, Child(waiting_threads(3)) as other:
        before = [read_process(process.pid) for process in (one, other)]
        both = read_processes([one.pid, other.pid])
        after = [read_process(process.pid) for process in (one, other)]
    assert both is not None
    assert len(both.switches_by_thread or ()) == 6
    for name in ("context_switches", "cpu_s"):  # which go on while they are read
        least, most = (sum(getattr(item, name) for item in alone) for alone in (before, after))
        assert least - 1e-6 <= getattr(both, name) <= most + 1e-6
    assert read_processes([]) is None


PARENT = """
import os, sys, time
burn = lambda: [n for n in range(10**7) if n < 0]
print(flush=True)
for line in sys.stdin:
    if os.fork() == 0:
        burn()
        os._exit(0)
    if line == "wait\\n":
        os.wait()
    print(flush=True)
"""


def test_cpu_of_children_that_came_and_went_is_their_parents() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        sleeper = subprocess.Popen(["sleep", "100"])  # one that stays
        before = read_processes([parent.pid, sleeper.pid])
        before_ns = cpu_of_all_ns([parent.pid, sleeper.pid])
        parent.stdin.write("wait\n")
        parent.stdout.readline()
        gone = subprocess.Popen(["true"])
        gone.wait()
        after = read_processes([parent.pid, gone.pid, sleeper.pid])
        used_ns = cpu_of_all_ns([parent.pid, gone.pid, sleeper.pid]) - before_ns
        with pytest.raises(ProcessLookupError):
            cpu_of_all_ns([gone.pid, sleeper.pid])
        with pytest.raises(RqpsError, match="has ended"):
            read_processes([gone.pid, sleeper.pid])
        sleeper.kill()
        sleeper.wait()
        parent.stdin.close()
    assert before is not None
    assert after is not None
    used = after - before
    assert used.cpu_s is not None
    assert used.cpu_s > 0.1
    assert used_ns / 1e9 == pytest.approx(used.cpu_s, abs=0.03)
    assert after.rss_kb < sum(process.rss_kb for process in (after, before)) + after.shared_kb
