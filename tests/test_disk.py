"""The disk: how fast it is, how long a study waits for it, and what the kernel counts of it."""

import copy
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import psutil
import pytest
import rqps
from child import rqps as command
from house import House
from rqps import stats
from rqps.errors import RqpsError
from rqps.finding import machine_findings
from rqps.measure.counters import disk_counters, read_host, read_io_pressure
from rqps.measure.device import MEMORY, measure_device
from rqps.measure.machine import describe_machine, device_of, mount_of
from rqps.pages import db_bench
from rqps.schedule.run_folder import measuring
from rqps.stats.metrics import METRICS
from rqps.store import read_manifest, write_manifest
from rqps.store.schemas import TABLES
from rqps.study import DeviceSpeed, Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS
from synthetic import write_study
from test_observe_machine import write_tree

ROOT = Path(__file__).parent.parent
FAST, SLOW = DeviceSpeed(1e-4, 1e-4, 2e8), DeviceSpeed(1e-2, 1e-2, 1e8)
needs_a_disk = pytest.mark.skipif(
    getattr(mount_of(Path("/tmp")), "fstype", "") in MEMORY, reason="the temporary directory is in memory"
)


@needs_a_disk
def test_a_disk_is_read_and_written_and_left_as_it_was(tmp_path: Path) -> None:
    before = disk_counters(device_of(tmp_path))
    speed = measure_device(tmp_path, seconds=0.2)
    after = disk_counters(device_of(tmp_path))
    assert 1e-7 < speed.read_s < 1
    assert 1e-7 < speed.write_s < 1
    assert 1e4 < speed.bytes_per_s < 1e12
    if before and after:  # the page cache would serve all of this without one request
        assert after.read_count - before.read_count >= 0.1 / speed.read_s
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("/dev/shm", "/dev/shm: tmpfs is in memory, without a disk below it"),
        ("/proc", "/proc: no file there can be read and written with O_DIRECT"),
    ],
)
def test_a_folder_without_a_disk_or_without_direct_io_is_refused(folder: str, why: str) -> None:
    with pytest.raises(RqpsError, match=why) as caught:
        measure_device(Path(folder))
    assert "RQPS_SCRATCH" in caught.value.fix


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def of_the_disk(house: House) -> None:
    """Makes the house's study one whose table is larger than the buffer pool, past the page cache."""
    file, pool = house.path / "runs.yaml", "innodb_flush_method: O_DIRECT, innodb_buffer_pool_size: 16M, "
    text = file.read_text().replace("{max_connections", f"{{{pool}max_connections")
    file.write_text(text.replace("warmup_seconds: 0}", "warmup_seconds: 0, table_rows: 5000000}"))


@needs_a_disk
def test_plan_measures_the_disk_of_a_study_that_waits_for_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = command("plan", "demo", cwd=house.path).stdout
    assert "the disk" not in in_memory
    of_the_disk(house)
    output = command("plan", "demo", cwd=house.path).stdout
    assert re.search(
        r"the disk reads 16 KB in [\d.]+ [µm]s and writes 16 KB in [\d.]+ [µm]s, past the page cache", output
    )
    assert re.search(r"under load, (\d+ min )?\d+ s waiting for the disk\n", output), output
    monkeypatch.setenv("RQPS_SCRATCH", "/dev/shm/rqps-test")
    refused = command("plan", "demo", cwd=house.path)
    assert "so the time does not include waits for it: /dev/shm: tmpfs is in memory" in refused.stdout
    assert "waiting for the disk" not in refused.stdout
    assert refused.returncode == 1, "its builds are not there, as before"


def test_plan_measures_the_disk_when_asked_but_not_beside_a_measurement(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RQPS_CACHE", str(house.path / "cache"))
    assert "the disk " in command("plan", "demo", "--disk", cwd=house.path).stdout
    with measuring("other"):
        output = command("plan", "demo", "--disk", cwd=house.path).stdout
    assert "does not include waits for it: another rqps run" in output
    assert "study other" in output


def run_of(study: str) -> Run:
    return unfold(read_runs_file(ROOT / "runs.yaml", PARAMETERS), study, "here")[0]


@pytest.mark.parametrize("study", ["insert-releases-io", "sysbench-releases-io", "rocksdb-io", "rocksdb-releases"])
def test_a_study_of_the_disk_takes_longer_on_a_slow_one(study: str) -> None:
    run = run_of(study)
    assert 0 < run.disk_seconds(FAST) < run.disk_seconds(SLOW)


@pytest.mark.parametrize(
    "study", ["insert-releases-cpu", "releases", "rocksdb-reads", "pg-insert-io", "point-lookups"]
)
def test_a_study_that_fits_in_memory_waits_for_no_disk(study: str) -> None:
    assert run_of(study).disk_seconds(SLOW) == 0, "PostgreSQL reads through the page cache"


def test_queries_wait_no_longer_than_their_limit() -> None:
    asked = run_of("insert-releases-io").parameters
    tables = 16 << 20
    slowest = asked.disk_seconds(DeviceSpeed(10, 10, 1), tables)
    writes = asked.disk_seconds(DeviceSpeed(10, 10, 1), tables) - 2 * (15 - 10)
    assert slowest > writes > 1500 * 10, "a second for each page of each written row"
    assert asked.disk_seconds(SLOW, 1 << 40) == 0


def test_pressure_is_read_as_the_kernel_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "io"
    averages = "avg10=0.89 avg60=1.44 avg300=1.47"
    file.write_text(f"some {averages} total=613994419\nfull {averages} total=500000\n")
    assert read_io_pressure(file) == {"io_some_s": 613.994419, "io_full_s": 0.5}
    assert read_io_pressure(tmp_path / "no such file") == {}
    assert read_io_pressure(tmp_path) == {}, "it can't be read"


def test_counters_that_a_container_hides_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of(Path("/tmp"))
    (tmp_path / "stat").write_bytes(Path("/proc/stat").read_bytes())
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))  # it has no diskstats
    hidden = read_host("no-such-device")
    assert (hidden.reads, hidden.read_s, hidden.write_s) == (None, None, None)
    if device and Path(f"/sys/block/{device}/stat").exists():
        assert read_host(device).reads, "the same counters stand below /sys"


def test_what_waits_for_the_disk_is_counted(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device is None or getattr(mount_of(tmp_path), "fstype", "") in MEMORY:
        return
    earlier = read_host(device)
    measure_device(tmp_path, seconds=0.3)
    used = read_host(device) - earlier
    assert used.read_s is not None
    assert used.write_s is not None
    assert used.read_s > 0, "one read after the other"
    if read_io_pressure():
        assert (used.io_some_s or 0) > 0
        assert (used.io_some_s or 0) >= (used.io_full_s or 0)


def test_a_study_of_before_has_no_times_of_the_disk(tmp_path: Path) -> None:
    new = {"host_read_s", "host_write_s", "host_io_some_s", "host_io_full_s"}
    packed = rqps.load("releases", data=ROOT / "data")
    assert packed.steps.select(new).null_count().sum_horizontal()[0] == 4 * packed.steps.height
    run = write_study(tmp_path, rounds=1) / "raw/study=synthetic/run=r01@my1.base@here"
    for name in ("steps", "counters"):
        table = run / f"{name}.parquet"
        older = pl.read_parquet(table).drop(new)
        assert len(older.columns) == len(TABLES[name]) - 4
        version = pl.read_parquet_metadata(table)["rqps_schema_version"]
        older.write_parquet(table, metadata={"rqps_schema_version": version})
    write_manifest(run, read_manifest(run))  # with the digests of these files
    study = rqps.load("synthetic", data=tmp_path)
    assert study.steps.select(new).null_count().sum_horizontal()[0] == 4 * study.steps.height
    measures = stats.counters_over_time(study.counters, study.steps, study.runs)["measure"]
    assert "disk, ms per request" not in set(measures)


def with_times(study: rqps.Study, **columns: object) -> dict[str, float]:
    wide = study.steps.with_columns(**{name: pl.lit(value) for name, value in columns.items()}).head(1)
    values = stats.tidy(wide.with_columns(**METRICS), ["disk_read_ms", "disk_write_ms"], study.runs)
    return dict(values.select("metric", "value").rows())


def test_latency_is_the_time_of_all_requests_over_their_number(tmp_path: Path) -> None:
    study = rqps.load("synthetic", data=write_study(tmp_path, rounds=1))
    some = with_times(study, host_reads=50, host_read_s=0.2, host_writes=8, host_write_s=0.004)
    assert some == pytest.approx({"disk_read_ms": 4.0, "disk_write_ms": 0.5})
    none = with_times(study, host_reads=0, host_read_s=0.0, host_writes=8, host_write_s=None)
    assert none == {}, "no request has no latency"


@pytest.mark.parametrize(
    ("files", "limit_kb"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "2097152\n",
                "sys/fs/cgroup/a/memory.max": "1048576\n",
            },
            1024,
        ),
        ({"proc/self/cgroup": "4:memory:/m\n", "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "409600\n"}, 400),
        (
            {
                "proc/self/cgroup": "4:memory:/m\n",
                "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
        ),
    ],
)
def test_a_memory_limit_is_a_fact_of_the_machine(
    tmp_path: Path, files: Mapping[str, str], limit_kb: int | None
) -> None:
    tree = write_tree(tmp_path, {"proc/meminfo": "MemTotal:  16000 kB\n", **files})
    facts = describe_machine(tmp_path, root=tree)
    assert facts.get("memory_limit_kb") == limit_kb
    limits = [finding.observed for finding in machine_findings(facts) if finding.name == "memory limit"]
    assert limits == (
        []
        if limit_kb is None
        else [f"{limit_kb:,} KB for this process and all that it starts, with the files that they read"]
    )


@pytest.mark.parametrize(
    ("max_sectors_kb", "read_ahead_kb", "level"), [(128, 128, "note"), (512, 4096, "ok"), (4096, 128, "ok")]
)
def test_read_ahead_is_compared_with_the_largest_request(max_sectors_kb: int, read_ahead_kb: int, level: str) -> None:
    machine = {"cpus_allowed": 8, "max_sectors_kb": max_sectors_kb, "read_ahead_kb": read_ahead_kb, "device": "sda"}
    [finding] = [finding for finding in machine_findings(machine) if finding.name == "disk requests"]
    assert (finding.level, finding.observed) == (
        level,
        f"max_sectors_kb and read_ahead_kb are {max_sectors_kb} and {read_ahead_kb}",
    )


def test_a_page_of_db_bench_says_what_the_disk_reads_at_once() -> None:
    study = rqps.load("rocksdb-releases", data=ROOT / "data")
    assert "max_sectors_kb" not in set(db_bench.conditions_beside(study)["condition"]), "not recorded then"
    of_base = study.conditions.filter(kind="machine", dbms=study.card.base).head(1)
    values = {"max_sectors_kb": "4096"}
    facts = [of_base.with_columns(name=pl.lit(name), value=pl.lit(value)) for name, value in values.items()]
    study = copy.copy(study)
    object.__setattr__(study, "conditions", pl.concat([study.conditions, *facts]))
    row = db_bench.conditions_beside(study).filter(condition="max_sectors_kb").row(0, named=True)
    assert row["here"] == "4,096 KB"
    assert "128 KB" in row["published"]
