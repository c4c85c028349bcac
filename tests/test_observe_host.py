"""The host's counters: read as the kernel writes them, and growing with what was really done."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from rqps.observe.host_counters import (
    HostCounters,
    HostReader,
    device_of,
    mount_of,
    parse_cpu_ticks,
    parse_disk,
    parse_mounts,
    read_busy_s,
    read_host,
)
from rqps.store.schemas import STEPS

DISKSTATS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 90210 41 8123004 30111 70155 2222 9120012 51234 0 40960 81345
 259       1 nvme0n1p1 512 0 4096 31 2 0 2 0 0 40 31
 259       2 nvme0n1p2 89600 41 8110000 30060 70153 2222 9120010 51233 0 40900 81300 9 0 8 1 7 3
 253       0 dm-0 4 0 8 0 6 0 10 0 0 0 0 0 0 0 0 0 0
"""

MOUNTINFO = r"""
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
23 22 0:21 / /proc rw,nosuid shared:2 - proc proc rw
40 22 0:35 /@home /home rw,noatime shared:9 - btrfs /dev/mapper/vg-data rw,ssd,subvol=/@home
41 40 0:36 / /home/my\040data rw - tmpfs tmpfs rw,size=1024k
42 22 0:50 / /merged rw - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c
"""


def test_the_counters_are_the_columns_of_the_table() -> None:
    assert [each.name for each in fields(HostCounters)] == [
        name.removeprefix("host_") for name in STEPS if name.startswith("host_")
    ]


def test_a_line_of_an_old_and_of_a_new_kernel_give_the_same_columns() -> None:
    assert parse_disk(DISKSTATS, "nvme0n1p1") == (512, 2, 2048, 1)
    assert parse_disk(DISKSTATS, "nvme0n1p2") == (89600, 70153, 4055000, 4560005)
    assert parse_disk(DISKSTATS, "nvme0n1") == (90210, 70155, 4061502, 4560006)
    assert parse_disk(DISKSTATS, "nvme0n1p3") is None


def test_every_tick_but_the_guests_is_counted_once() -> None:
    assert sum(parse_cpu_ticks("cpu  1 10 100 1000 10000 100000 1000000 10000000 9 9")) == 11111111


def test_mounts_are_told_apart() -> None:
    mounts = {mount.path: mount for mount in parse_mounts(MOUNTINFO.strip())}
    assert mounts["/home"].source == "/dev/mapper/vg-data"
    assert mounts["/home"].kind == "btrfs"
    assert mounts["/home/my data"].kind == "tmpfs"
    assert "upperdir=/b" in mounts["/merged"].options
    assert mounts["/"].number == "259:2"


def test_the_mount_of_a_path_is_the_one_that_df_names(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/proc/self"), Path("/dev/shm"), Path("/")):
        said = subprocess.run(["df", "--output=target", path], capture_output=True, text=True).stdout
        mount = mount_of(path)
        assert mount is not None
        assert mount.path == said.splitlines()[1]


def test_memory_has_no_device_and_so_no_reads() -> None:
    assert device_of(Path("/dev/shm")) is None
    used = read_host(None) - read_host(None)
    assert (used.reads, used.writes, used.read_kb, used.write_kb) == (None, None, None, None)


def test_what_is_written_through_appears_at_the_device(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device is None:  # such as a container's overlay: nothing can be told, and nothing is
        assert read_host(device).reads is None
        return
    with HostReader(device) as reader:
        earlier = reader.counters()
        with (tmp_path / "written").open("wb") as file:
            file.write(os.urandom(4 << 20))
            os.fsync(file.fileno())
        used = reader.counters() - earlier
    assert used.write_kb is not None
    assert used.write_kb >= 4096
    assert used.writes is not None
    assert used.writes >= 1


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
    host = read_host(None)
    assert read_busy_s(range(os.cpu_count() or 1)) == pytest.approx(host.cpu_user_s + host.cpu_system_s, abs=0.5)
    assert read_busy_s([]) == 0


def test_state_agrees_with_the_kernels_own_text() -> None:
    with HostReader(None) as reader:
        state = reader.state()
    total_kb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert 0 < state.memory_available_kb < total_kb
    assert state.load_1min == pytest.approx(os.getloadavg()[0], abs=0.5)
    assert state.frequency_mhz is None or 100 < state.frequency_mhz < 10_000
