"""Real PostgreSQL servers of several releases: started as another user, verified, ended, and what goes wrong."""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from child import PATIENCE_S, until
from rqps.engines import Option, Start
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import copy_folder
from rqps.engines.postgres import engine
from rqps.engines.postgres.build import locate, source
from rqps.engines.postgres.client import StatementError
from rqps.engines.postgres.engine import MeasuredServer, PreparedServer, foresee, memory_bytes, prepare
from rqps.engines.postgres.unprivileged import server_user
from rqps.errors import RqpsError

pytestmark = pytest.mark.live
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to take")


@dataclass(frozen=True)
class Dbms:
    """What a run asks the engine for."""

    version: str = "14.0"
    options: dict[str, Option] = field(default_factory=dict)
    config: str = "common"
    scenario: Any = None
    spec: BuildSpec | None = None

    @property
    def build(self) -> str:
        return f"pg{self.version}"

    @property
    def dbms(self) -> str:
        return f"{self.build}.{self.config}"

    @property
    def build_spec(self) -> BuildSpec:
        return self.spec or BuildSpec(postgres=self.version)


def asking(version: str = "14.0", **options: Any) -> Dbms:
    return Dbms(version, {name: Option(value) for name, value in options.items()})


def prepared(asked: Dbms) -> PreparedServer:
    return prepare(asked, lambda _: None)


def opened(folder: Path, asked: Dbms, under: tuple[str, ...] = ()) -> MeasuredServer:
    ready = prepared(asked)
    copy_folder(ready.loaded("nothing", lambda _: None, lambda _: None), folder / "data")
    return ready.open(folder / "data", Start(folder / "log", under=under))


@pytest.fixture
def server(short: Path) -> Iterator[MeasuredServer]:
    with closing(opened(short, asking(shared_buffers="64MB", jit=False))) as server:
        yield server


@pytest.mark.parametrize("version", ["9.6.10", "12.3", "14.0", "18.6"])
def test_each_release_starts_verifies_and_stops(version: str, short: Path) -> None:
    asked = asking(
        version, shared_buffers="64MB", wal_compression=True, max_wal_size="2GB", checkpoint_timeout="10min"
    )
    server = opened(short, asked)
    verified = {name: reported for name, _, reported in server.verify()}
    assert verified["shared_buffers"] == "64MB"
    assert verified["wal_compression"] == ("pglz" if version == "18.6" else "on")
    assert (verified["locale"], verified["encoding"], verified["data_checksums"]) == ("C", "UTF8", "off")
    assert server.version == version
    assert "compiled by gcc" in server.version_comment
    settings = {(row["kind"], row["name"]): row["value"] for row in server.settings()}
    assert settings["source", "shared_buffers"] == "command line"
    assert settings["variable", "listen_addresses"] == ""
    assert {"checkpointer", "walwriter", "autovacuum launcher"} <= set(server.thread_names().values())
    pids = server.pids
    assert server.close() == ""
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not server.socket.parent.exists()


@pytest.mark.parametrize(
    ("version", "shape"),
    [
        ("14.0", {"data_checksums": "on"}),
        ("15.1", {"locale_provider": "icu", "icu_locale": "en-US"}),
        ("18.6", {"data_checksums": "on", "locale_provider": "builtin"}),
    ],
)
def test_data_have_the_shape_that_a_config_asks_for(version: str, shape: dict[str, str], short: Path) -> None:
    with closing(opened(short, asking(version, **shape))) as server:
        assert {(name, value, value) for name, value in shape.items()} <= {*server.verify()}


def test_a_commit_between_releases_starts_and_verifies(short: Path, tmp_path: Path) -> None:
    """12.15 with another version in its programs, 12rc1, as a checkout between two releases would build it."""
    tree = tmp_path / "tree"
    copy_folder(locate("release", BuildSpec(postgres="12.15"), print).directory, tree)
    for program in tree.glob("**/bin/*"):
        if program.name in ("postgres", "initdb"):
            program.write_bytes(program.read_bytes().replace(b"12.15\0", b"12rc1\0").replace(b"12.15\n", b"12rc1\n"))
    asked = Dbms("12rc1", {"shared_buffers": Option("64MB")}, spec=BuildSpec(path=str(tree)))
    with closing(opened(short, asked)) as server:
        assert server.verify()
        assert server.version == "12rc1"
        assert server.prepared.origin.build.number == (12,)


@AS_ROOT
def test_as_root_it_runs_as_another_user_and_says_so(server: MeasuredServer) -> None:
    user = server_user()
    assert user is not None
    uids = set()
    for pid in server.pids:
        with suppress(psutil.NoSuchProcess):  # a worker of autovacuum comes and goes
            uids.add(psutil.Process(pid).uids().real)
    assert uids == {user.uid}
    assert f"{user.name}, since PostgreSQL refuses to run as root" in server.prepared.in_words["runs as"]
    with pytest.raises(RqpsError, match="none of the users no-such-user") as raised:
        server_user(("no-such-user", "root"))
    assert "useradd" in str(raised.value)


def test_a_step_has_its_status_and_no_word_of_an_autovacuum_that_did_not_come(server: MeasuredServer) -> None:
    with server.watching("step") as watch, server.connect() as connection:
        before = watch.begin()
        connection.query("CREATE SCHEMA IF NOT EXISTS rqps; CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
        connection.query("SELECT count(*) FROM t")
        time.sleep(1.5)  # a server's counts come late
        after = watch.end(1)
        assert not list(watch.lost())
    assert int(after["database.tup_returned"]) > int(before["database.tup_returned"])
    server.close()


def test_autovacuum_in_a_step_is_said(short: Path) -> None:
    asked = asking(autovacuum_naptime="1s", autovacuum_vacuum_threshold=10, autovacuum_vacuum_scale_factor=0.0)
    with closing(opened(short, asked)) as server, server.watching("step") as watch:
        watch.begin()
        with server.connect() as connection:
            connection.query("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
            connection.query("DELETE FROM t")

            def vacuumed() -> bool:
                return connection.query("SELECT autovacuum_count FROM pg_stat_user_tables") != [("0",)]

            until(vacuumed, patience_s=60)
        watch.end(1)
        (text,) = watch.lost()
        assert "autovacuum worked on" in text


def test_options_are_refused_by_release_before_anything_starts() -> None:
    prepared(asking("14.0"))
    with pytest.raises(RqpsError) as raised:
        prepared(asking("14.0", io_method="sync", shared_bufers="1GB", jit="perhaps", work_mem="4M"))
    for words in (
        "no option io_method",
        "did you mean shared_buffers?",
        "'perhaps' is neither on nor off",
        "'4M' is not a number, with one of B, kB, MB, GB, TB behind it",
    ):
        assert words in str(raised.value)
    with pytest.raises(RqpsError, match="no option io_method"):
        foresee(asking("14.0", io_method="sync"))
    optional = prepared(Dbms("14.0", {"io_method": Option("sync", optional=True)}))
    assert optional.in_words["options left out"] == "io_method"
    assert prepared(asking("18.6", io_method="sync")).options["io_method"] == "sync"
    for size in ("1GB", 131072):  # a number counts pages
        assert memory_bytes(asking(shared_buffers=size)) == (1 << 30) + engine.BESIDE_IT_BYTES


def test_options_go_by_their_older_names() -> None:
    assert prepared(asking("12.3", wal_keep_size="160MB")).options["wal_keep_segments"] == "10"
    assert prepared(asking("14.0", wal_keep_size="160MB")).options["wal_keep_size"] == "160MB"
    assert prepared(asking("14.0", debug_parallel_query=True)).options["force_parallel_mode"] == "on"
    with pytest.raises(RqpsError, match="wal_compression: 'lz4' is neither on nor off"):
        prepared(asking("14.0", wal_compression="lz4"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (asking("9.6.10", wal_segsize=64), "initdb of PostgreSQL 9.6.10 has no --wal-segsize"),
        (asking("14.0", locale_provider="icu"), "initdb of PostgreSQL 14.0 has no --locale-provider"),
        (asking("14.0", locale="xx_YY.UTF-8"), 'invalid locale name "xx_YY.UTF-8"'),
        (asking("15.1", locale_provider="icu"), "ICU locale must be specified"),
    ],
    ids=["older initdb", "older provider", "no such locale", "no such collation"],
)
def test_data_that_a_build_cannot_make(asked: Dbms, words: str) -> None:
    with pytest.raises(RqpsError, match="pg") as raised:
        prepared(asked)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shared_buffers": "64TB"}, "64TB"),
        ({"max_connections": 5, "superuser_reserved_connections": 9}, "superuser_reserved_connections"),
        ({"shared_buffers": "4TB"}, "could not map anonymous shared memory"),
    ],
    ids=["too large a value", "options that contradict", "out of shared memory"],
)
def test_a_server_that_does_not_start_says_why(options: dict[str, Any], words: str, short: Path) -> None:
    with pytest.raises(RqpsError, match="did not start, it ended with code 1") as raised:
        opened(short, asking(**options))
    assert words in str(raised.value)


def test_data_of_another_major_release_are_refused(short: Path) -> None:
    old, new = prepared(asking("14.0")), prepared(asking("15.1"))
    copy_folder(old.loaded("nothing", lambda _: None, lambda _: None), short / "data")
    with pytest.raises(RqpsError, match="is of PostgreSQL 14"):
        new.open(short / "data", Start(short / "log"))


def crc32c(content: bytes) -> int:
    """The checksum in a file of control data."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_data_of_a_build_with_another_block_size_are_refused_with_both_sizes(short: Path) -> None:
    ready = prepared(asking())
    copy_folder(ready.loaded("nothing", lambda _: None, lambda _: None), short / "data")
    file = short / "data/global/pg_control"
    content = file.read_bytes()
    sizes = struct.pack("<II", 8192, 131072)  # of a block, and blocks in a file
    ends = (end for end in range(200, 400, 4) if crc32c(content[:end]) == struct.unpack_from("<I", content, end)[0])
    end, at = next(ends), content.index(sizes)
    other = content[:at] + struct.pack("<I", 16384) + content[at + 4 : end]
    file.write_bytes(other + struct.pack("<I", crc32c(other)) + content[end + 4 :])
    with pytest.raises(RqpsError, match="did not start, it ended with code 1") as raised:
        ready.open(short / "data", Start(short / "log"))
    assert "BLCKSZ 16384, but the server was compiled with BLCKSZ 8192" in str(raised.value)


def test_a_socket_with_too_long_a_path_is_refused(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = prepared(asking())
    (long := short / ("x" * 100)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    copy_folder(ready.loaded("nothing", lambda _: None, lambda _: None), short / "data")
    with pytest.raises(RqpsError, match="a socket's path may have 107 characters"):
        ready.open(short / "data", Start(short / "log"))


def test_a_promised_version_that_is_not_there() -> None:
    tree = prepared(asking("14.0")).build.directory
    assert source("mine", BuildSpec(path=str(tree))).version == "14.0"
    with pytest.raises(RqpsError, match=r"13\.1 is expected, but directory .* is 14\.0"):
        locate("mine", BuildSpec(path=str(tree), postgres="13.1"), lambda _: None)
    assert locate("mine", BuildSpec(path=str(tree), postgres="14"[:2] + ".0"), lambda _: None).major == "14"
    with pytest.raises(RqpsError, match=r"postgres 11\.1 is not in the catalogue, which has 9\.6\.10, 12\.3"):
        prepared(asking("11.1"))


def test_a_build_on_path_and_one_without_the_libraries_that_it_came_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = prepared(asking("14.0")).build.directory
    monkeypatch.setenv("PATH", f"{tree}/bin:{os.environ['PATH']}")
    on_path = locate("mine", BuildSpec(on_path=True, postgres="14.0"), lambda _: None)
    assert (on_path.version, on_path.source) == ("14.0", "postgres on PATH")
    shutil.copytree(tree, tmp_path / "14", symlinks=True)
    for library in (tmp_path / "14/lib").glob("libicu*"):
        library.unlink()
    words = r"builds\.mine: its program needs libicui18n\.so\.52, which this machine does not have"
    with pytest.raises(RqpsError, match=words):
        locate("mine", BuildSpec(path=str(tmp_path / "14"), postgres="14.0"), lambda _: None)


@pytest.mark.parametrize(
    ("package", "suite"), [("postgresql-15", "bookworm"), ("postgresql-17", "trixie"), ("postgresql-18", "sid")]
)
def test_a_package_of_debian_runs_by_its_own_loader_whatever_the_machines_libc(
    package: str, suite: str, short: Path
) -> None:
    major = package.removeprefix("postgresql-")
    newest = BuildSpec(debian=package, suite=suite, postgres=f"{major}.999")
    with pytest.raises(RqpsError, match=rf"{major}\.999 is expected, but debian {suite} {package} is") as raised:
        locate("newest", newest, lambda _: None)
    version = re.findall(rf" is ({major}\.\d+)", raised.value.message)[0]
    spec = BuildSpec(debian=package, suite=suite, postgres=version)
    with closing(opened(short, Dbms(version, {"shared_buffers": Option("64MB")}, spec=spec))) as server:
        assert ("shared_buffers", "64MB", "64MB") in server.verify()
        assert "Debian" in server.version_comment
        with server.connect() as connection:
            assert connection.query("SELECT sum(i) FROM generate_series(1, 4) AS i") == [("10",)]
        assert server.close() == ""


def test_a_setting_that_nobody_asked_for_fails_the_run(server: MeasuredServer) -> None:
    with server.connect() as connection:
        connection.query("ALTER SYSTEM SET work_mem = '1MB'")
        connection.query("SELECT pg_reload_conf()")

    def refused() -> bool:
        try:
            server.verify()
        except RqpsError as error:
            return "work_mem: not in the config" in str(error)
        return False

    until(refused, patience_s=60)


def test_a_backend_that_is_killed_restarts_the_server_and_is_named(server: MeasuredServer) -> None:
    connection = server.connect()
    os.kill(int(str(connection.query("SELECT pg_backend_pid()")[0][0])), signal.SIGKILL)
    words = r"died, and the server restarted all: .*signal 9"
    with pytest.raises(RqpsError, match=words), server.explaining("step"):
        connection.query("SELECT 1")
    until(server.answers, patience_s=30)
    assert server.close() == ""


def test_a_refused_statement_is_explained(server: MeasuredServer) -> None:
    words = 'refused a statement: ERROR: relation "t" does not exist'
    with pytest.raises(RqpsError, match=words), server.explaining("step"), server.connect() as connection:
        connection.query("SELECT * FROM t")
    with server.connect() as connection:
        with pytest.raises(StatementError, match="division by zero"):
            connection.query("SELECT 1 / 0")
        assert connection.query("SELECT NULL, 'ü', 3 - 1") == [(None, "ü", "2")]


OWNER = """
import sys, time
from pathlib import Path
from threading import Thread
sys.path.insert(0, {tests!r})
from test_live_postgres import asking, opened
server = opened(Path({folder!r}), asking())
print(*server.pids, flush=True)
connection = server.connect()
connection.query("SELECT pg_sleep(1000)")
"""


@pytest.mark.parametrize("stopped", [False, True], ids=["at work", "between its turns"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_nothing_is_left_of_a_server_whose_owner_ends(end: signal.Signals, stopped: bool, short: Path) -> None:
    prepared(asking()).loaded("nothing", lambda _: None, lambda _: None)
    program = OWNER.format(tests=str(Path(__file__).parent), folder=str(short))
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) > 5
    time.sleep(0.5)
    for pid in reversed(pids) if stopped else ():
        with suppress(ProcessLookupError):  # of a connection that started it
            os.kill(pid, signal.SIGSTOP)
    owner.send_signal(end)
    owner.wait()
    until(lambda: not any(map(psutil.pid_exists, pids)), patience_s=30)


def stopped_backend(server: MeasuredServer) -> int:
    """A process of a connection that no signal but SIGKILL ends, stopped before the connection goes."""
    connection = server.connect()
    pid = int(str(connection.query("SELECT pg_backend_pid()")[0][0]))
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_a_stuck_backend_does_not_outlive_its_postmaster(server: MeasuredServer) -> None:
    backend = stopped_backend(server)
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(backend), patience_s=30)
    assert server.close() == "pg14.0.common: the server did not stop in order, it ended by SIGKILL"


def test_a_stuck_backend_does_not_outlive_its_keeper_and_postmaster(server: MeasuredServer) -> None:
    backend = stopped_backend(server)
    server.keeper.kill()
    until(lambda: not psutil.pid_exists(server.pid), patience_s=30)
    assert psutil.pid_exists(backend)
    assert "with its keeper, which ended by SIGKILL" in server.close()
    assert not psutil.pid_exists(backend)


def test_a_server_is_closed_in_spite_of_a_connection_to_a_stuck_backend(server: MeasuredServer) -> None:
    with server.connect(patience_s=10 * PATIENCE_S) as connection:
        (pid,) = (int(str(pid)) for (pid,) in connection.query("SELECT pg_backend_pid()"))
        os.kill(pid, signal.SIGSTOP)
        stopping = Thread(target=server.close, daemon=True)
        stopping.start()
        stopping.join(PATIENCE_S)
        assert not stopping.is_alive()
    assert not psutil.pid_exists(pid)


def test_nothing_is_left_of_a_server_whose_keeper_is_killed(server: MeasuredServer) -> None:
    pids = server.pids
    server.keeper.kill()
    until(lambda: not any(map(psutil.pid_exists, pids)), patience_s=30)
