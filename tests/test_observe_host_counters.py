"""The host's counters: read as the kernel writes them, and growing with what was really done."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rqps.measure.counters import read_busy_s, read_host, read_host_state, read_idle_ns
from rqps.measure.machine import device_of, mount_of


def test_the_mount_of_a_path_is_the_one_that_df_names(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/proc/self"), Path("/dev/shm"), Path("/")):
        output = subprocess.run(["df", "--output=target", path], capture_output=True, text=True).stdout
        assert getattr(mount_of(path), "mountpoint", None) == output.splitlines()[1]


def test_memory_has_no_device_and_so_no_reads() -> None:
    assert device_of(Path("/dev/shm")) is None
    used = read_host(None) - read_host(None)
    assert (used.reads, used.writes, used.read_kb, used.write_kb) == (None, None, None, None)


def test_what_is_written_through_appears_at_the_device(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device is None:  # such as a container's overlay: its reads and writes are unknown
        assert read_host(device).reads is None
        return
    earlier = read_host(device)
    with (tmp_path / "written").open("wb") as file:
        file.write(os.urandom(4 << 20))
        os.fsync(file.fileno())
    used = read_host(device) - earlier
    assert (used.write_kb or 0) >= 4096
    assert (used.writes or 0) >= 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may hide files from a process")
@pytest.mark.parametrize(
    ("hidden", "has_device"),
    [("mount --bind /dev/null /proc/diskstats", True), ("mount -t tmpfs none /sys", False)],
)
def test_a_container_without_disk_counters_has_no_reads(hidden: str, has_device: bool, tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from rqps.measure.counters import read_host
from rqps.measure.machine import describe_machine, device_of
device, place = device_of(Path({str(tmp_path)!r})), Path({str(tmp_path)!r})
used = read_host(device) - read_host(device)
print(device is not None, used.reads, used.write_kb, len(describe_machine(place)) > 9)
"""
    command = ["unshare", "--mount", "sh", "-c", f'{hidden} && exec "$0" -c "$1"', sys.executable, script]
    output = subprocess.run(command, capture_output=True, text=True)
    outside = device_of(tmp_path) is not None
    assert output.stdout.split() == [str(outside and has_device), "None", "None", "True"], output.stderr


def test_cpu_burnt_anywhere_appears_at_the_host() -> None:
    earlier = read_host(None)
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    used = read_host(None) - earlier
    assert used.cpu_user_s + used.cpu_system_s >= 0.27
    assert used.context_switches > 0
    assert used.interrupts > 0


def test_cpu_burnt_on_one_cpu_is_that_cpus() -> None:
    cpu = min(os.sched_getaffinity(0))
    before_s = read_busy_s([cpu])
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run(["taskset", "-c", str(cpu), sys.executable, "-c", burn], check=True)
    assert read_busy_s([cpu]) - before_s >= 0.45
    earlier, busy_s, later = read_host(None), read_busy_s(range(os.cpu_count() or 1)), read_host(None)
    assert earlier.cpu_user_s + earlier.cpu_system_s - 0.1 <= busy_s, "but for what the kernel rounds"
    assert busy_s <= later.cpu_user_s + later.cpu_system_s + 0.1
    assert read_busy_s([]) == 0


def test_a_cpu_that_is_kept_busy_is_not_idle() -> None:
    cpu = min(os.sched_getaffinity(0))
    burn = "import time\nuntil = time.monotonic() + 0.5\nwhile time.monotonic() < until: pass"
    busy = subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", burn])
    time.sleep(0.2)
    earlier, since = read_idle_ns([cpu]), time.monotonic()
    time.sleep(0.2)
    later, elapsed_s = read_idle_ns([cpu]), time.monotonic() - since
    assert busy.wait() == 0
    if earlier and later:
        exact_s, ticks_s = ((n - m) / 1e9 for m, n in zip(earlier[cpu], later[cpu], strict=True))
        assert exact_s < 0.1 * elapsed_s
        assert ticks_s <= 0.1 * elapsed_s + 0.01
    assert read_idle_ns([4095]) is None, "a CPU without counters"


def test_state_agrees_with_the_kernels_own_text() -> None:
    earlier, state, later = os.getloadavg()[0], read_host_state(), os.getloadavg()[0]
    total_kb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert 0 < (state["host_memory_available_kb"] or 0) < total_kb
    assert state["host_load_1min"] in (earlier, later)
    assert state["host_frequency_mhz"] is None or 100 < state["host_frequency_mhz"] < 10_000
