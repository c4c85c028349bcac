"""Stacks of real servers: sampled under load, put in order by role, whole, and never anybody else's."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest
from child import wait_for_end
from live_server import run_of
from releases import everything_but
from rqps.engines import Start, facts_of
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.engine import MeasuredServer, prepare
from rqps.engines.sources import debian
from rqps.engines.sources.programs import perf
from rqps.errors import RqpsError
from rqps.measure import placement
from rqps.measure.job import loaded_data
from rqps.measure.recording import Recording, Sampling, choose_sampling, recording
from rqps.measure.stacks import Profile, Profiling, profiling, read
from rqps.measure.step_counters import read_counters, used_between
from rqps.profile.broken_stacks import completeness, repaired
from rqps.store.manifest import Placement
from rqps.store.schemas import CALLERS, INLINED
from rqps.workloads.sysbench import generator
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

pytestmark = pytest.mark.live

QUICK = SysbenchParameters(steps=("point-query", "update-index"), table_rows=5000, warmup_seconds=1)
SEARCHES = r"^(row_search_mvcc|row_search_for_mysql|row_sel_\w+)"
"""Functions that find a row, in all releases."""

ROLES = facts_of("mysql").roles


@dataclass(frozen=True)
class House:
    server: MeasuredServer
    where: Placement
    folder: Path

    def profiled(
        self, step: str, sampling: Sampling | None = None, server: MeasuredServer | None = None, seconds: int = 3
    ) -> Profile:
        """A step under load, as a run does it."""
        asked = QUICK.model_copy(update={"seconds": seconds})
        used = server or self.server
        how = sampling or choose_sampling(self.server.build.program, len(self.where.server_cpus))
        cpus, log = self.where.client_cpus, self.folder / f"{step}.log"
        with (
            profiling(used, self.where, how) as profile,
            generator.Generator((self.server,), find(step), asked, seed=1, cpus=cpus, log=log) as load,
        ):
            profile.begin(load.wait_for_begin())
            first = read_counters(self.server.pids, load.pid, None)
            load.wait_for_end()
            last = read_counters(self.server.pids, load.pid, None)
            profile.end()
            load.wait_until_gone()
            return profile.profile(step, float(used_between(first, last)["server_cpu_s"] or 0), ROLES)


@contextmanager
def serving(dbms: str, folder: Path, build: Build | None = None) -> Iterator[House]:
    small = run_of(dbms, QUICK)
    prepared = prepare(small, print)
    copy_folder(loaded_data(small, prepared, print), folder / "data")
    where = placement.choose(None, 1)
    asked = Start(log=folder / "mysqld.err", cpus=where.server_cpus)
    with closing(replace(prepared, build=build or prepared.build).open(folder / "data", asked)) as server:
        yield House(server, where, folder)
    assert not list(folder.glob("stacks-*")), "what perf wrote is removed"


@pytest.fixture(scope="module")
def running_5624(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving("my5624.common", tmp_path_factory.mktemp("server")) as house:
        yield house


@pytest.fixture
def house(running_5624: House) -> Iterator[House]:
    """A 5.6.24 for tests that leave it as it was, and nothing of perf's beside it."""
    yield running_5624
    assert not list(running_5624.folder.glob("stacks-*"))


@pytest.mark.parametrize("dbms", ["my5534.common", "my5624.common", "my8033.common", "my97.common"])
def test_each_release_is_profiled_with_roles_and_whole_stacks(dbms: str, short: Path) -> None:
    with serving(dbms, short) as house:
        profile = house.profiled("point-query")
    sampled = profile.stacks.with_columns(host=pl.lit("here"), engine=pl.lit("mysql"), dbms=pl.lit(dbms))
    stacks = repaired(sampled)
    samples = int(stacks["samples"].sum())
    assert samples > 200, profile.warnings
    by_role = dict(stacks.group_by("role").agg(pl.col("samples").sum()).rows())
    assert by_role["connection"] > 0.8 * samples
    assert by_role.get("unknown", 0) < 0.05 * samples
    searching = stacks.filter(pl.col("frames").list.eval(pl.element().str.contains(SEARCHES)).list.any())
    assert searching["role"].unique().to_list() == ["connection"]
    assert searching["samples"].sum() > 0.03 * samples
    [complete] = completeness(sampled).to_dicts()
    assert complete["root"] + complete["repaired"] >= 0.98, complete
    inlined = profile.stacks["frames"].list.eval(pl.element().str.ends_with(INLINED)).list.any()
    assert inlined.any() == (dbms != "my97.common")
    # Debian's 9.7 is stripped: what remains are the names of functions that plugins may call.
    assert complete["unnamed"] < (0.3 if dbms == "my97.common" else 0.05), complete
    assert not profile.stacks.filter((pl.col("event") == CALLERS) & (pl.col("weight") != 0)).height
    [event] = set(profile.stacks["event"]) - {CALLERS}
    assert event in ("cpu-clock", "cycles")
    assert all(warning.step == "point-query" for warning in profile.warnings)
    [serving_threads] = profile.threads.filter(role="connection").to_dicts()
    assert 0 < serving_threads["running_s"] < serving_threads["threads"] * serving_threads["elapsed_s"]
    assert serving_threads["seen_running"] + serving_threads["seen_network"] > 0


def test_a_build_without_frame_pointers_is_profiled_by_copies_of_its_stacks(short: Path) -> None:
    with serving("my8033.common", short) as house:
        usual = choose_sampling(house.server.build.program, len(house.where.server_cpus))
        profile = house.profiled("point-query", replace(usual, unwinding="DWARF", samples_per_s=199), seconds=4)
    assert CALLERS not in set(profile.stacks["event"])
    sampled = profile.stacks.with_columns(host=pl.lit("here"), engine=pl.lit("mysql"), dbms=pl.lit("my8033.common"))
    [complete] = completeness(sampled).to_dicts()
    assert complete["samples"] > 20
    assert complete["root"] >= 0.95, complete


def test_writing_is_profiled_with_its_background_threads(house: House) -> None:
    profile = house.profiled("update-index")
    roles = set(profile.stacks["role"])
    assert "connection" in roles
    assert roles & {"purge", "master", "io", "page cleaner"}, "threads of 5.6 have no names of their own"


def test_a_server_without_symbols_is_reported(short: Path) -> None:
    prepared = prepare(run_of("my5624.common", QUICK), print)
    build = prepared.build
    stripped = short / "mysqld"
    content = bytearray(build.program.read_bytes())
    content[40:48], content[58:64] = bytes(8), bytes(6)  # where the sections are: the loader does not need them
    stripped.write_bytes(content)
    stripped.chmod(0o755)
    nameless = replace(build, program=stripped, argv=(str(stripped),))
    with serving("my5624.common", short, nameless) as house:
        profile = house.profiled("point-query", seconds=1)
    assert any("mysqld has no symbols" in warning.text for warning in profile.warnings), profile.warnings
    assert set(profile.stacks["role"]) <= {"unknown", "main", "mysqld"}


def test_a_profile_of_another_process_is_refused(house: House) -> None:
    with sleeping() as other:
        somebody = replace(house.server, pid=other)
        with pytest.raises(RqpsError, match=rf"no sample is of the server \(process {other}\), though"):
            house.profiled("point-query", server=somebody, seconds=1)


@contextmanager
def sleeping() -> Iterator[int]:
    process = subprocess.Popen(["/bin/sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


@contextmanager
def idle(house: House) -> Iterator[Profiling]:
    """A profile of nearly nothing: a server without load, for a moment."""
    with profiling(house.server, house.where, choose_sampling(house.server.build.program, 1)) as profile:
        profile.begin(time.monotonic_ns())
        time.sleep(0.3)
        profile.end()
        yield profile


def test_an_idle_server_is_reported(house: House) -> None:
    with idle(house) as profile:
        result = profile.profile("nothing", 0.001, ROLES)
    assert result.warnings[0].text.startswith(("no samples: the server used", "only "))


def test_a_file_that_is_cut_off_is_refused(house: House) -> None:
    with idle(house) as profile:
        assert isinstance(profile.recording, Recording)
        file = profile.recording.data
        profile.recording.finish()
        complete = file.stat().st_size
        for size in (complete // 2, 60, 0):
            os.truncate(file, size)
            with pytest.raises(RqpsError, match="perf's file can't be read"):
                read(file, house.server.pids, house.where.observer_cpus)


def test_a_perf_that_ends_in_the_middle_fails_the_step(house: House) -> None:
    with profiling(house.server, house.where, choose_sampling(house.server.build.program, 1)) as profile:
        profile.begin(time.monotonic_ns())
        assert isinstance(profile.recording, Recording)
        profile.recording.process.kill()
        profile.recording.process.wait()
        with pytest.raises(RqpsError, match=r"perf record failed \(exit status -9\)"):
            profile.end()


def test_perf_is_unpacked_where_the_machine_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process whose PATH has everything but perf."""
    monkeypatch.setenv("PATH", everything_but(("perf",), tmp_path))
    tool = perf()
    tree = debian.place("linux-perf", None)
    assert tool.argv[0].startswith(str(tree))
    assert list(tree.glob("tree/usr/lib/*/libperl.so.*")), "perf is linked with it, and many machines have it not"
    output = subprocess.run(["ldd", tool.argv[0]], env=os.environ | tool.environment, capture_output=True, text=True)
    assert "not found" not in output.stdout


def test_perf_says_why_it_does_not_sample(tmp_path: Path) -> None:
    odd = Sampling("no-such-event", 999, 97, "frame pointers", large_buffer=True)
    perf_of_it = recording(odd, server_cpus=(0,), cpus=(), scratch=tmp_path)
    with pytest.raises(RqpsError, match=r"(?s)perf record failed.*no-such-event"):
        perf_of_it.__enter__()
    assert list(tmp_path.iterdir()) == []


def test_perf_ends_with_whoever_started_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from rqps.measure.recording import Sampling, recording\n"
        "how = Sampling('cpu-clock', 999, 97, 'frame pointers', True)\n"
        "with recording(how, server_cpus=(0,), cpus=(), scratch=Path(sys.argv[1])) as running:\n"
        "    running.begin(); print(running.process.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    for number, left in ((signal.SIGKILL, 1), (signal.SIGINT, 0)):
        owner = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert Path(f"/proc/{pid}/cmdline").read_bytes().startswith(perf().argv[0].encode())
        owner.send_signal(number)
        owner.wait()
        wait_for_end(pid)
        folders = list(tmp_path.iterdir())
        assert len(folders) == left  # the server's keeper removes it with the rest of the scratch
        shutil.rmtree(tmp_path, ignore_errors=True)
        tmp_path.mkdir()
