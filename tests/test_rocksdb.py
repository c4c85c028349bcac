"""RocksDB: flags and releases, reading what db_bench of any release prints, and studies that make no sense."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rqps.engines.rocksdb import build, engine, flags
from rqps.engines.rocksdb.build import Build, source
from rqps.engines.sources import catalogue
from rqps.errors import RqpsError
from rqps.measure.job import foresee
from rqps.schedule.state import state
from rqps.study import BuildSpec, Option, read_runs_file
from rqps.workloads import PARAMETERS
from rqps.workloads.db_bench.db_bench_output import read_output, read_stats
from rqps.workloads.db_bench.parameters import DbBenchParameters
from rqps.workloads.db_bench.steps import common, find, setups, steps

OLD = """\
RocksDB:    version 6.20
readrandom   :      10.218 micros/op 97866 ops/sec;   36.2 MB/s (489332 of 489332 found)

Microseconds per read:
Count: 489332 Average: 10.2181  StdDev: 42.29
Min: 1  Median: 8.3372  Max: 14232
Percentiles: P50: 8.34 P75: 10.86 P99: 33.12 P99.9: 126.96 P99.99: 1242.40
"""
NEW = """\
RocksDB:    version 9.11.2
overwrite    :       7.854 micros/op 127320 ops/sec 1800.001 seconds 229176999 operations;   51.0 MB/s
Microseconds per write:
Count: 229176999 Average: 7.8540  StdDev: 42.29
Min: 1  Median: 5.3372  Max: 1423200
Percentiles: P50: 5.34 P75: 7.86 P99: 23.12 P99.9: 96.96 P99.99: 842.40
"""


def a_build(version: str, program: str = "librocksdbjni-linux64.so") -> Build:
    path = Path("/opt/rocksdb") / program
    return Build("mine", version, "directory /opt/rocksdb", path.parent, path, (str(path),), "0" * 64)


def test_the_flags_of_steps_and_setups_are_known() -> None:
    given = [common(), *(step.flags for step in steps().values()), *(setup.flags for setup in setups().values())]
    assert {name for one in given for name in one} <= flags.known().keys()


def test_a_flag_becomes_an_option_of_rocksdb() -> None:
    text = flags.options_text(
        {"compression_type": "lz4", "min_level_to_compress": "2", "num_levels": "3", "checksum_type": "3"}
    )
    assert text == (
        "compression=kLZ4Compression;compression_per_level=kNoCompression:kNoCompression:kLZ4Compression;"
        "num_levels=3;block_based_table_factory={checksum=kxxHash64;};"
    )


def test_an_unknown_flag_names_the_nearest() -> None:
    with pytest.raises(
        RqpsError, match=r"my\.small: unknown flag 'write_bufer_size'; did you mean 'write_buffer_size'"
    ):
        flags.checked({"write_bufer_size": Option("1M")}, a_build("9.7.3"), "my.small", db_bench=False)


def test_an_unknown_value_of_a_flag_names_those_there_are() -> None:
    with pytest.raises(RqpsError, match="compression_type: did you mean 'zstd'"):
        flags.checked({"compression_type": Option("zst")}, a_build("9.7.3"), "my.small", db_bench=False)


@pytest.mark.parametrize("name", ["threads", "duration", "num", "writes", "seed"])
def test_what_the_study_sets_no_config_can_set(name: str) -> None:
    with pytest.raises(RqpsError, match=f"{name} can't be set by a config"):
        flags.checked({name: Option(4)}, a_build("9.7.3"), "my.small", db_bench=False)


@pytest.mark.parametrize("size", ["64m", "64MB", "0.5G"])
def test_a_size_of_the_cache_that_is_no_number_is_refused(size: str) -> None:
    with pytest.raises(RqpsError, match=f"cache_size: '{size}' is not a size"):
        flags.checked({"cache_size": Option(size)}, a_build("9.7.3"), "my.small", db_bench=False)
    asked: Any = SimpleNamespace(options={"cache_size": Option(size)})
    assert engine.memory_bytes(asked) == engine.BESIDE_THE_CACHE_BYTES


def test_a_flag_that_a_db_bench_lacks_is_an_error_unless_it_is_optional_or_the_default() -> None:
    old, asked = a_build("6.11.4", "db_bench"), Option("auto_hyper_clock_cache")
    with pytest.raises(RqpsError, match=r"db_bench of 6\.11\.4 does not have cache_type, which exists since 7\.4"):
        flags.checked({"cache_type": asked}, old, "my.small", db_bench=True)
    optional = Option("auto_hyper_clock_cache", optional=True)
    assert flags.checked({"cache_type": optional}, old, "my.small", db_bench=True) == ({}, ["cache_type"])
    assert flags.checked({"cache_type": Option("lru_cache")}, old, "my.small", db_bench=True) == ({}, ["cache_type"])


def test_the_catalogue_has_libraries_by_release() -> None:
    for version, entry in catalogue("rocksdb").items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert f":{version}:jar" in entry.from_["maven"]
        assert entry.files == ["librocksdbjni-linux64.so"]


def test_a_release_that_nobody_has_names_the_nearest() -> None:
    with pytest.raises(
        RqpsError, match=r"rocksdb 6\.11\.5 is not in the catalogue; the nearest version in it is 6\.11\.4"
    ):
        source("mine", BuildSpec(rocksdb="6.11.5"))


def test_no_compiler_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RqpsError, match="this machine has no C compiler") as caught:
        build.driver(print)
    assert "apt install gcc libc6-dev" in caught.value.fix


def test_results_of_old_and_new_releases() -> None:
    old, new = read_output(OLD.splitlines(), "readrandom"), read_output(NEW.splitlines(), "overwrite")
    assert (old["operations"], old["operations_per_s"], old["latency_max_us"]) == (489332, 97866.0, 14232.0)
    assert old["elapsed_s"] == pytest.approx(5.0, rel=0.001)
    assert (new["operations"], new["elapsed_s"], new["latency_p99_9_us"]) == (229176999, 1800.001, 96.96)


def test_a_batch_of_an_old_release_is_as_many_operations_as_it_has_keys() -> None:
    output = OLD.replace("readrandom   :", "multireadrandom :")
    batched = read_output(output.splitlines(), "multireadrandom", batch=10)
    assert (batched["operations"], batched["transactions"]) == (4893320, 489332)
    assert batched["elapsed_s"] == pytest.approx(50.0, rel=0.001)


def test_stalls_of_old_and_new_releases() -> None:
    old = (
        "Stalls(count): 2 level0_slowdown, 2 level0_slowdown_with_compaction, 0 level0_numfiles, "
        "3 memtable_compaction, interval 5 total count"
    )
    new = (
        "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 2, "
        "l0-file-count-limit-delays: 2, total-stops: 3"
    )
    assert read_stats([old])["stalls"] == "5"
    of_all = "Write Stall (count): write-buffer-manager-limit-stops: 0"
    assert read_stats([new, of_all])["stalls"] == "2"


def test_of_statistics_that_are_printed_more_than_once_the_last_count() -> None:
    head = "Level    Files   Size     Score Comp(sec) CompMergeCPU(sec) Comp(cnt)"
    prints = [[head, f" Sum      3/0    1.00 GB   0.0 {seconds} {seconds} {seconds}"] for seconds in (2, 9)]
    assert read_stats([line for lines in prints for line in lines])["compaction_s"] == "9"


def test_bytes_and_syncs_of_the_log() -> None:
    line = "Cumulative WAL: 1000K writes, 12 syncs, 83333.33 writes per sync, written: 0.11 GB, 5.35 MB/s"
    assert read_stats([line]) == {"wal_syncs": "12", "wal_written_gb": "0.11"}


def test_steps_that_give_no_number_come_before_the_next_one() -> None:
    asked = DbBenchParameters()
    assert [one.name for one in asked.before("byrx.readrandom")] == ["settle"]
    assert [one.name for one in asked.before("byrx.revrangewhilewriting")] == ["overwritesome", "flush"]
    assert asked.before("byrx.overwrite") == ()
    assert asked.measured[0] == "byrx.fillseq"


def test_the_published_sizes() -> None:
    asked = DbBenchParameters(setups=("byrx", "iodir"), keys=20_000_000, large_keys=400_000_000, seconds=1800)
    of = {setup: asked.flags_of(*find(f"{setup}.readrandom")) for setup in asked.setups}
    assert (of["byrx"]["num"], of["iodir"]["num"], of["byrx"]["duration"]) == (20_000_000, 400_000_000, 1800)
    assert (of["byrx"]["bytes_per_sync"], of["iodir"]["bytes_per_sync"]) == (1048576, 0)
    assert of["iodir"]["use_direct_reads"] is True


RUNS = """
builds:
  rx: {rocksdb: "9.7.3"}
  own: {path: /opt/rocksdb/db_bench}
  my: {mysql: "8.0.33"}
configs:
  small: {write_buffer_size: 1M}
  large: {write_buffer_size: 9M}
studies:
  tried:
    question: Does it hold?
    workload: WORKLOAD
    dbms: [DBMS]
    base: rx.small
    rounds: 1
"""


@pytest.mark.parametrize(
    ("workload", "dbms", "reason"),
    [
        ("db-bench", "rx.small, my.small", "db-bench is for builds of rocksdb, and my is none"),
        ("sysbench", "rx.small, my.small", "sysbench is for builds of mysql and postgres, and rx is none"),
        ("db-bench", "rx.small, own.small", "own put the load by their own db_bench, rx by the driver"),
        ("db-bench", "own.small, own.large", "own can't take turns.*write `method: rounds`"),
    ],
)
def test_builds_that_can_t_be_compared(tmp_path: Path, workload: str, dbms: str, reason: str) -> None:
    text = RUNS.replace("WORKLOAD", workload).replace("DBMS", dbms)
    (tmp_path / "runs.yaml").write_text(text.replace("base: rx.small", f"base: {dbms.partition(',')[0]}"))
    with pytest.raises(RqpsError, match=f"studies.tried.dbms: {reason}"):
        read_runs_file(tmp_path / "runs.yaml", PARAMETERS)


def test_db_benchs_are_measured_by_rounds(tmp_path: Path) -> None:
    text = RUNS.replace("WORKLOAD", "db-bench").replace("DBMS", "own.small, own.large")
    text = text.replace("base: rx.small", "base: own.small").replace("rounds: 1", "rounds: 1\n    method: rounds")
    (tmp_path / "runs.yaml").write_text(text)
    assert not read_runs_file(tmp_path / "runs.yaml", PARAMETERS).studies["tried"].duet


def test_only_one_thread_takes_turns() -> None:
    assert not DbBenchParameters().not_sliced
    assert "threads" in DbBenchParameters(threads=2).not_sliced


def test_a_plan_says_where_the_disk_is_too_small(tmp_path: Path) -> None:
    text = RUNS.replace("WORKLOAD", "db-bench").replace("DBMS", "rx.small")
    text = text.replace("rounds: 1", "rounds: 1\n    parameters: {keys: KEYS}")
    keys = {"small": 1000, "large": shutil.disk_usage(tmp_path).total // 400}
    for size, many in keys.items():
        (tmp_path / "runs.yaml").write_text(text.replace("KEYS", str(many)))
        runs_file = read_runs_file(tmp_path / "runs.yaml", PARAMETERS)
        errors = foresee([run_state.run for run_state in state(runs_file, "tried", tmp_path)])
        assert any(" left, and a run needs " in error.message for error in errors) == (size == "large")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"steps": ["readrandom"]}, "the first one has to be fillseq"),
        ({"steps": ["readrandon"]}, "unknown step 'readrandon'; did you mean 'readrandom'"),
        ({"setups": ["byrc"]}, "unknown set-up 'byrc'; did you mean 'byrx'"),
        ({"setups": ["byrx", "byrx"]}, "is there more than once"),
        ({"steps": ["settle", "flush"]}, "only prepare others"),
    ],
)
def test_parameters_that_make_no_sense(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        DbBenchParameters.model_validate(given)
