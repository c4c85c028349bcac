"""Real RocksDB libraries of several releases under the driver: every step, what is recorded, and what goes wrong."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
from child import until
from live_study import Place
from rqps.engines import Start
from rqps.engines.rocksdb.build import Build, locate, source
from rqps.engines.rocksdb.engine import Database, PreparedLibrary, prepare, written_options
from rqps.engines.sources import debian
from rqps.errors import RqpsError
from rqps.measure.job import loaded_data, make_ready, read_job
from rqps.measure.modes import pids_of
from rqps.measure.run import measure
from rqps.measure.turns import Side, stopped, take_turns
from rqps.profile import stack_costs
from rqps.stats import measured, relate
from rqps.study import BuildSpec, Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS, How
from rqps.workloads.db_bench.generator import DbBench, Driver, folder_of
from rqps.workloads.db_bench.parameters import DbBenchParameters
from rqps.workloads.db_bench.steps import find
from rqps.workloads.db_bench.workload import DbBenchSteps

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

OLD, NEW = "6.11.4", "9.7.3"
RUNS = f"""
builds:
  old: {{rocksdb: "{OLD}"}}
  new: {{rocksdb: "{NEW}"}}
configs:
  small: {{write_buffer_size: 100K, target_file_size_base: 100K, max_bytes_for_level_base: 400K, CONFIG}}
studies:
  small:
    question: Does it work?
    workload: db-bench
    dbms: [DBMS]
    base: old.small
    rounds: ROUNDS
    parameters: {{keys: 20000, cache_mb: 64, seconds: 1, PARAMETERS}}
"""


def written(
    parameters: str = "threads: 1",
    dbms: str = "old.small, new.small",
    config: str = "checksum_type: 3",
    rounds: int = 1,
) -> str:
    text = RUNS.replace("PARAMETERS", parameters).replace("DBMS", dbms).replace("CONFIG", config)
    return text.replace("ROUNDS", str(rounds))


@pytest.fixture
def short(short: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run's own process keeps off the CPUs of what it measures, for as long as the test."""
    (short / "scratch").mkdir()
    monkeypatch.setenv("RQPS_SCRATCH", str(short / "scratch"))
    before = os.sched_getaffinity(0)
    yield short
    os.sched_setaffinity(0, before)


def runs_of(folder: Path, text: str) -> list[Run]:
    (folder / "runs.yaml").write_text(text)
    return list(unfold(read_runs_file(folder / "runs.yaml", PARAMETERS), "small", "test"))


def opened(folder: Path, config: str = "checksum_type: 3", release: str = "old") -> Database:
    """The database of a dbms, on an empty folder."""
    text = written(config=config, dbms="old.small, new.small")
    (duet,) = runs_of(folder, text)
    run = next(run for run in duet.members if run.build == release)
    data = folder / "scratch" / "data"
    data.mkdir(parents=True, exist_ok=True)
    return prepare(run, print).open(data, Start(log=folder / "log"))


def how(folder: Path) -> How:
    return {"seed": 1, "cpus": (), "log": folder / "step.log"}


def do(database: Database, step: str, folder: Path, parameters: DbBenchParameters | None = None) -> Driver:
    """A step from its begin to its end."""
    asked = parameters or DbBenchParameters(keys=20_000, cache_mb=64, seconds=1)
    setup, described = find(step)
    folder_of(database, setup).mkdir(exist_ok=True)
    with Driver(database, setup, described, asked, **how(folder)) as load:
        load.wait_for_all()
    return load


def test_all_steps_on_two_releases(short: Path) -> None:
    place = Place(short, written("setups: [byrx, iodir]"))
    place.run()
    study = rqps.load("small", data=short / "data")
    asked = DbBenchParameters(setups=("byrx", "iodir"))
    assert study.steps.sort("position").filter(dbms="old.small")["step"].to_list() == list(asked.measured)
    assert dict(study.runs.select("dbms", "version").rows()) == {"old.small": OLD, "new.small": NEW}
    assert set(study.slices.collect()["step"]) == set(asked.measured), "releases take turns in each step"
    assert study.runs["version_comment"].str.contains(r"gcc 7\.3\.1, zstd 1\..*crc32c in software").all()
    assert (study.steps["operations"] > 0).all()
    assert (study.steps["server_cpu_s"] > 0).all()
    assert study.steps["client_cpu_s"].null_count() == study.steps.height  # load and engine are one process
    assert study.steps.filter(kind="fillseq")["operations"].to_list() == 4 * [20_000]
    assert study.steps.filter(pl.col("latency_p50_us") > pl.col("latency_max_us")).is_empty()

    by_second = study.intervals.filter(kind="readrandom").group_by("run", "step").agg(pl.col("operations").sum())
    rows = study.steps.filter(kind="readrandom").select("run", "step", "operations")
    assert by_second.collect().sort("run", "step").rows() == rows.sort("run", "step").rows()

    status = study.status.collect()
    numbers = status.with_columns(pl.col("value").cast(pl.Float64))
    assert set(status["moment"]) == {"before", "after"}
    filled = numbers.filter(step="byrx.readrandom", moment="before")
    assert (filled.filter(name="filter_kb")["value"] > 0).all()
    levels = filled.filter(name="level_kb")
    assert (levels.group_by("run").agg(pl.col("value").sum())["value"] > 20_000 * 400 / 1024).all()
    of_database = numbers.filter(pl.col("object").is_null(), moment="after")
    cpu = of_database.pivot("name", index=["run", "step"], values="value")
    assert (cpu.filter(pl.col("step").str.contains("overwrite|fillseq"))["background_cpu_s"] > 0).all()
    assert cpu["stall_percent"].null_count() == 0

    settings = dict(study.settings.filter(dbms="new.small").select("name", "value").collect().rows())
    assert (settings["write_buffer_size"], settings["checksum"]) == (str(100 << 10), "kxxHash64")
    assert settings["use_direct_reads"] == "byrx: false, iodir: true"
    assert settings["compaction_readahead_size"] == "2097152"
    old = dict(study.settings.filter(dbms="old.small").select("name", "value").collect().rows())
    assert old["compaction_readahead_size"] == "byrx: 0, iodir: 2097152", (
        "0 was the default, and O_DIRECT asks for it"
    )
    direct = study.status.filter(step="iodir.readrandom").collect()
    assert not direct.is_empty()
    assert not list((short / "scratch").glob("*")) if (short / "scratch").exists() else True


def test_releases_take_turns_on_equal_files(short: Path) -> None:
    reads = f'written_by: "{OLD}", steps: [readrandom, fwdrange], warmup_operations: 5000'
    place = Place(short, written(reads, rounds=2))
    place.run()
    study = rqps.load("small", data=short / "data")
    assert set(study.steps["step"]) == {"byrx.readrandom", "byrx.fwdrange"}
    slices = slices_of(study)
    last = slices.group_by("step", "round", "dbms").agg(pl.col("cycle").max()).group_by("step", "round").min()
    of_both = slices.join(last, on=["step", "round"], suffix="_last").filter(pl.col("cycle") < pl.col("cycle_last"))
    assert set(of_both.group_by("run", "step", "cycle").len()["len"]) == {2}
    assert measured(study, ["operations_per_s"]).filter(pl.col("blocks").list.len().fill_null(0) < 2).is_empty()
    trees = study.status.filter(pl.col("object").is_not_null(), moment="before").collect()
    assert set(trees["name"]) == {"level_files", "level_kb"}
    assert set(trees.group_by("name", "object").agg(pl.col("value").n_unique())["value"]) == {1}
    _, compared = relate(study)
    assert compared.filter(metric="operations_per_s").height == 2


def slices_of(study: rqps.Study) -> pl.DataFrame:
    """The slices of a study, each of one release, in which all of its operations were done."""
    slices = study.slices.collect()
    summed = slices.group_by("run", "step").agg(pl.col("operations").sum())
    of_steps = study.steps.select("run", "step", "operations")
    assert summed.sort("run", "step").rows() == of_steps.sort("run", "step").rows()
    sides = slices.group_by("step", "round", "slice").agg(pl.col("dbms").n_unique())
    assert set(sides["dbms"]) == {1}
    return slices


def test_releases_that_write_take_turns_and_do_nothing_between_them(short: Path) -> None:
    steps = "steps: [fillseq, settle, readrandom, overwritesome, flush, readwhilewriting, overwrite], keys: 100000"
    text = written(steps, dbms="old.small, new.small, third.small").replace("keys: 20000, ", "")
    place = Place(short, text.replace("configs:", f'  third: {{rocksdb: "{OLD}"}}\nconfigs:'))
    place.run()
    study = rqps.load("small", data=short / "data")
    keys = ["run", "step"]
    of_slices = slices_of(study).group_by(keys).agg(pl.col("server_cpu_us").sum() / 1e6, pl.col("busy_us").sum())
    of_database = study.status.filter(pl.col("object").is_null(), moment="after").collect()
    status = of_database.pivot("name", index=keys, values="value")
    cpu_s = sum(pl.col(f"{ground}_cpu_s").cast(pl.Float64) for ground in ("foreground", "background"))
    rows = study.steps.join(of_slices, on=keys).join(status.with_columns(load_cpu_s=cpu_s), on=keys)
    assert rows.height == 12
    behind = pl.col("background_cpu_s").cast(pl.Float64) / pl.col("foreground_cpu_s").cast(pl.Float64)
    assert rows.filter(behind > 0.2, kind="readrandom").is_empty(), "a wait until a time that is past would spin"
    outside = rows.filter(pl.col("server_cpu_us") < 0.6 * pl.col("load_cpu_s"))  # others may have the CPU
    assert outside.is_empty(), outside.select(*keys, "server_cpu_us", "load_cpu_s")
    own_us = pl.col("elapsed_s_right").cast(pl.Float64) * 1e6
    assert rows.filter(own_us > 1.001 * pl.col("busy_us")).is_empty(), "what others do takes none of its time"
    assert rows.filter(pl.col("latency_mean_us") > own_us).is_empty()
    assert set(rows.filter(kind="fillseq")["operations"]) == {100_000}


@pytest.mark.parametrize(("number", "reason"), [("KILL", "ended with code -9"), ("STOP", "did not end within 1 s")])
def test_a_side_that_is_killed_or_hangs_ends_the_step(short: Path, number: str, reason: str) -> None:
    databases, over = [], threading.Event()
    with ExitStack() as loads:
        sides = []
        for release in ("old", "new"):
            (short / release).mkdir()
            databases.append(database := opened(short / release, release=release))
            asked, log = DbBenchParameters(keys=50_000_000, cache_mb=64), short / f"{release}.log"
            turn: How = {"seed": 1, "cpus": (), "log": log, "in_turns": True}
            load = loads.enter_context(DbBenchSteps().generating([database], "byrx.fillseq", asked, **turn))
            assert isinstance(load, Driver)
            sides.append(Side(pids_of(database), load, None, "byrx.fillseq"))
        load.patience_s = 1

        def strike() -> None:
            while not over.wait(0.01):  # who has been stopped is let go on when its turn comes
                load.process.send_signal(signal.Signals[f"SIG{number}"])

        striking = threading.Thread(target=strike)
        with stopped(sides):
            striking.start()
            try:
                with pytest.raises(RqpsError, match=f"new.small: byrx.fillseq: the driver {reason}"):
                    take_turns(sides, "seed")
            finally:
                over.set()
                striking.join()
    assert [database.pids for database in databases] == [(), ()]


def test_a_config_that_names_a_format_reads_files_of_that_format(short: Path) -> None:
    text = written(f'written_by: "{NEW}", steps: [readrandom]', "old.small", "format_version: 3")
    (run, *_) = runs_of(short, text)
    data = loaded_data(run, prepare(run, print), print)
    assert written_options(data / "byrx")["format_version"] == "3"


def test_an_occasion_loads_its_own_tables_in_place_of_those_before_and_of_no_other_study_s(short: Path) -> None:
    (run, *_) = runs_of(short, written(f'written_by: "{NEW}", steps: [readrandom]', "old.small"))
    ready = prepare(run, print)
    asked = (("demo-2", 2), ("demo", 2), ("demo", 3))
    loaded = [loaded_data(replace(run, study=study, occasion=occasion), ready, print) for study, occasion in asked]
    assert [data.is_dir() for data in loaded] == [True, False, True]
    for data in loaded:
        shutil.rmtree(data.parent, ignore_errors=True)


def test_instructions_of_a_read_are_the_same_again(short: Path) -> None:
    asked = f'written_by: "{OLD}", steps: [readrandom], counted_operations: 5000, warmup_operations: 20000'
    text = written(asked, dbms="old.small").replace("rounds: 1", "rounds: 1\n    instructions_rounds: 1")
    (run,) = (run for run in runs_of(short, text) if run.mode == "instructions")
    counted: list[tuple[int, int]] = []
    for again in ("first", "second"):
        job = make_ready([run], print)[run.dbms].job(run, short / again, None)
        measure(read_job(job.write()))
        rows = pl.read_parquet(job.folder / "instructions.parquet")
        assert set(rows["role"]) == {"client"}
        assert {stack[0] for stack in rows["frames"]} == {"one_operation"}
        leaf = pl.col("frames").list.last()
        named = rows.filter(leaf.str.contains("rocksdb::"))
        assert int(named["instructions"].sum()) > 0.5 * int(rows["instructions"].sum())
        compares = rows.filter(leaf.str.contains("memcmp"))
        counted.append((int(rows["instructions"].sum()), int(compares["instructions"].sum())))
    (first, of_first), (second, of_second) = counted
    assert first / 5000 == pytest.approx(13_700, rel=0.2)  # of the reference, on a tree of another size
    assert first - of_first == pytest.approx(second - of_second, rel=1e-4)
    assert first == pytest.approx(second, rel=1e-3)  # memcmp takes a longer way where a key lies at a page's end


def test_a_library_without_a_function_of_the_c_api(tmp_path: Path) -> None:
    program = tmp_path / "librocksdb.so"
    (tmp_path / "empty.c").write_text("int rocksdb_options_create(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", program, tmp_path / "empty.c"], check=True)
    with pytest.raises(RqpsError, match=r"lacks a function of the C API: rocksdb_get_options_from_string"):
        locate("mine", BuildSpec(path=str(tmp_path), rocksdb="9.7.3"), print)


def test_another_version_than_promised(tmp_path: Path) -> None:
    library = locate("old", BuildSpec(rocksdb=OLD), print).program
    (tmp_path / "librocksdb.so").symlink_to(library)
    with pytest.raises(RqpsError, match=rf"9\.7\.3 is expected, but directory .* is {OLD}"):
        locate("mine", BuildSpec(path=str(tmp_path), rocksdb="9.7.3"), print)


def test_a_database_of_a_newer_release(short: Path) -> None:
    do(opened(short, "format_version: 6", "new"), "byrx.fillseq", short)
    with pytest.raises(
        RqpsError, match=r"(?s)byrx\.readrandom: the driver ended with code 1.*(format_version|version|footer)"
    ):
        do(opened(short), "byrx.readrandom", short)


def test_a_filter_that_is_not_there(short: Path) -> None:
    do(opened(short, "bloom_bits: 0"), "byrx.fillseq", short)
    with pytest.raises(RqpsError, match="no filter blocks, though a filter was asked for"):
        do(opened(short), "byrx.readrandom", short)


def test_what_a_config_asks_for_is_verified(short: Path) -> None:
    verified = {name: (asked, result) for name, asked, result in opened(short, "block_size: 4K").verify()}
    assert verified["block_size"] == ("4096", "4096")
    assert verified["version"] == (OLD, OLD)


@pytest.mark.parametrize("kind", ["lru_cache", "hyper_clock_cache", "auto_hyper_clock_cache"])
def test_a_kind_of_block_cache(kind: str, short: Path) -> None:
    database = opened(short, f"cache_type: {kind}", "new")
    assert ("cache_type", kind, kind) in database.verify()
    do(database, "byrx.fillseq", short)
    do(database, "byrx.readrandom", short)


def test_a_cache_too_small_for_its_kind_ends_rocksdb_by_a_signal(short: Path) -> None:
    with pytest.raises(RqpsError, match=r"(?s)new\.small: RocksDB 9\.7\.3 does not open: .*killed by SIG"):
        opened(short, "cache_type: auto_hyper_clock_cache, cache_size: 0", "new").verify()


def test_a_value_that_rocksdb_refuses(short: Path) -> None:
    with pytest.raises(RqpsError, match=r"old\.small: RocksDB 6\.11\.4 does not open: .*"):
        opened(short, "format_version: 99").verify()


def test_a_driver_that_is_killed_in_the_middle(short: Path) -> None:
    database = opened(short)
    setup, step = find("byrx.fillseq")
    folder_of(database, setup).mkdir()
    asked = DbBenchParameters(keys=50_000_000, cache_mb=64)
    with Driver(database, setup, step, asked, **how(short)) as load:
        load.wait_for_begin()
        threading.Timer(0.5, lambda: os.kill(load.pid, signal.SIGKILL)).start()
        with pytest.raises(RqpsError, match=r"byrx\.fillseq: the driver ended with code -9"):
            load.wait_for_end()
    assert database.pids == ()


@pytest.fixture
def own(short: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A db_bench of this machine's distribution. It was built with assertions, which only numbers suffer from."""
    tree = debian.unpacked("rocksdb-tools", None, print)
    program = tree / "usr/bin/db_bench"
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, debian.library_folders(tree)))}
    with monkeypatch.context() as patched:
        patched.setenv(*next(iter(environment.items())))
        with pytest.raises(
            RqpsError, match=r"builds\.own: db_bench .* was built with assertions, which cost 10 to 30 %"
        ):
            locate("own", BuildSpec(path=str(program)), print)
        version = source("own", BuildSpec(path=str(program))).version
    assert version is not None
    build = Build("own", version, "of the distribution", tree, program, (str(program),), "0" * 64, environment)
    data = short / "scratch/data"
    data.mkdir(parents=True)
    options = {"write_buffer_size": str(100 << 10), "target_file_size_base": str(100 << 10)}
    return PreparedLibrary("own.small", "small", build, options).open(data, Start(log=short / "log"))


def test_a_db_bench_of_ones_own(short: Path, own: Database) -> None:
    assert own.verify()[0] == ("version", own.version, own.version)
    asked = DbBenchParameters(keys=20_000, cache_mb=64, seconds=1)
    for step in asked.measured:
        with DbBenchSteps().generating([own], step, asked, **how(short)) as load:
            load.wait_for_all()
        (answer,) = DbBenchSteps().answers(step, asked, load)
        columns = answer.columns
        assert columns["operations"] == pytest.approx(columns["operations_per_s"] * columns["elapsed_s"], rel=0.01)
        assert 0 < columns["latency_p50_us"] <= columns["latency_p99_us"] <= columns["latency_max_us"]
        status = {row["name"]: row["value"] for row in answer.more["status"]}
        assert {"stall_percent", "compaction_cpu_s", "compaction_written_gb"} <= status.keys()
    assert {row["name"]: row["value"] for row in own.settings()}["write_buffer_size"] == str(100 << 10)


def test_a_db_bench_that_is_killed_in_the_middle(short: Path, own: Database) -> None:
    setup, step = find("byrx.fillseq")
    folder_of(own, setup).mkdir()
    with DbBench(own, setup, step, DbBenchParameters(keys=50_000_000, cache_mb=64), **how(short)) as load:
        load.wait_for_begin()
        threading.Timer(0.5, lambda: os.kill(load.pid, signal.SIGKILL)).start()
        load.wait_for_end()
        with pytest.raises(RqpsError, match=r"byrx\.fillseq: db_bench ended with code -9"):
            load.wait_until_gone()
    assert own.pids == ()


def test_a_step_that_hangs(short: Path) -> None:
    database = opened(short)
    do(database, "byrx.fillseq", short)
    setup, step = find("byrx.readrandom")
    with Driver(database, setup, step, DbBenchParameters(keys=20_000, seconds=60), **how(short)) as load:
        load.patience_s = 0.5
        load.wait_for_begin()
        with pytest.raises(RqpsError, match=r"did not get to 'ended' within 0.5 s"):
            load.wait_for_end()


def test_more_keys_than_the_disk_has_room_for(short: Path) -> None:
    keys = shutil.disk_usage(short).total // 400
    with pytest.raises(RqpsError, match=r"old\.small: a database of this size needs about .* and the disk has"):
        DbBenchSteps().prepare(opened(short), DbBenchParameters(keys=keys))


def test_nothing_is_left_of_a_run_that_is_interrupted(short: Path) -> None:
    place = Place(short, written("steps: [fillseq, settle, readrandom]").replace("seconds: 1", "seconds: 60"))
    started = place.start()
    with closing(started.stdout):  # type: ignore[type-var]
        place.wait("the step", lambda: "readrandom" in place.doing(), started)
        time.sleep(1)
        os.killpg(started.pid, signal.SIGINT)
        until(lambda: started.poll() is not None, patience_s=60, why=lambda: "still running")
    assert started.returncode == 130
    assert not list((short / "scratch").iterdir())


ON_A_DISK = """
cp -a "$0" "$0-kept" && mount "-t$1" "-osize=$2" none "$0" && cp -a "$0-kept/." "$0" && shift 2 || exit 2
"$@"; ended=$?
{ cp "$0/byrx/LOG" "$0-kept"; umount "$0"; cp "$0-kept/LOG" "$0/byrx"; rm -r "$0-kept"; } 2>/dev/null
exit $ended
"""


def on_a_disk(database: Database, kind: str, size: str) -> Database:
    """The database, with each step on a copy of it on a file system of its own. What is left of a step is its LOG."""
    unshare = shutil.which("unshare")
    assert unshare is not None
    under = (unshare, "-rm", "sh", "-c", ON_A_DISK, str(database.directory), kind, size)
    return replace(database, start=replace(database.start, under=under))


def test_a_disk_that_fills_in_compaction(short: Path) -> None:
    small = opened(short)
    triggers = {f"level0_{name}_trigger": "100" for name in ("file_num_compaction", "slowdown_writes", "stop_writes")}
    sizes = {"target_file_size_base": str(64 << 20), "max_bytes_for_level_base": str(256 << 20)}
    options = {**small.prepared.options, **triggers, **sizes}
    database = replace(small, prepared=replace(small.prepared, options=options))
    do(database, "byrx.fillseq", short)
    do(
        database, "byrx.overwritesome", short
    )  # 9 MB in level 0, which a compaction writes anew before it removes them
    with pytest.raises(
        RqpsError, match=r"(?s)byrx\.flush: .*background compaction error: IO error: No space"
    ) as caught:
        do(on_a_disk(database, "tmpfs", "14m"), "byrx.flush", short)
    assert "make room on the disk" in caught.value.fix


def test_a_file_system_without_o_direct(short: Path) -> None:
    with pytest.raises(RqpsError, match=r"iodir\.fillseq: the driver ended with code 1: .*irect I/O") as caught:
        do(on_a_disk(opened(short), "ramfs", "64m"), "iodir.fillseq", short)
    assert "this file system has no O_DIRECT" in caught.value.fix


def test_where_the_time_goes(short: Path) -> None:
    text = written("steps: [fillseq, settle, readrandom, overwrite]", dbms="old.small")
    place = Place(short, text.replace("rounds: 1", "rounds: 1\n    stacks_rounds: 1"))
    place.run()
    study = rqps.load("small", data=short / "data", mode="stacks")
    roles = {role.rstrip("0123456789") for role in study.threads.collect()["role"]}
    assert {"client", "rocksdb:low", "rocksdb:high"} <= roles
    costs = stack_costs(study.stacks, study.steps)
    nobodys = pl.col("samples").filter(pl.col("component").is_in(["other", "libraries"])).sum()
    share = costs.select(nobodys / pl.col("samples").sum()).item()
    assert share < 0.25, "of all steps together: a short one has a handful of samples"
    reading = set(costs.filter(step="byrx.readrandom")["component"])
    assert {"RocksDB block cache", "RocksDB index", "RocksDB filter", "RocksDB data blocks"} <= reading
    assert "RocksDB flush and compaction" in set(costs["component"]), "a short step alone may have no such sample"
