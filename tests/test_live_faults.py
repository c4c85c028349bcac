"""Servers and keepers killed at the worst moment: the error says by what, points to a log, and shows no rows."""

import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from child import Child, running_from, share_cache, until
from live_server import run_of, running
from live_study import Place, ended
from rqps.engines import Start
from rqps.engines.cache import cache_dir, short_key
from rqps.engines.mysql import data, instance
from rqps.engines.mysql.engine import prepare
from rqps.engines.mysql.instance import Server, query
from rqps.errors import RqpsError
from rqps.measure.job import loaded_data
from rqps.scratch import PREFIX
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.workload import Sysbench
from ssh_host import on_a_disk
from test_live_servers import prepared
from test_live_study import RUNS

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]


def kill_server(keeper: int) -> None:
    until(lambda: psutil.Process(keeper).children())
    psutil.Process(keeper).children()[0].kill()


def kill_keeper(keeper: int) -> None:
    psutil.Process(keeper).kill()


@pytest.mark.parametrize(
    ("kill", "how"),
    [(kill_server, "it ended by SIGKILL"), (kill_keeper, "it ended with its keeper, which ended by SIGKILL")],
)
def test_one_that_is_killed_before_it_answers(kill: Callable[[int], None], how: str, short: Path) -> None:
    build, translated, copied = prepared("my5624.common", short)
    with pytest.raises(RqpsError) as caught:
        instance.start(build, copied, Start(short / "mysqld.err", started=kill), translated.arguments)
    text = caught.value.message
    assert f"my5624 (5.6.24) did not start, {how}; " in text
    assert "it wrote nothing into its log" in text or f"{short}/mysqld.err:\n" in text
    assert not list(Path(os.environ["TMPDIR"]).glob(f"{PREFIX}*/mysqld*"))


def kill(server: Server) -> None:
    os.kill(server.pid, signal.SIGKILL)


def killed_while_loading(server: Server) -> None:
    with server.connect() as connection:
        query(connection, "CREATE DATABASE d")
        query(connection, "CREATE TABLE d.t (a VARCHAR(100))")
        kill(server)
        until(lambda: not psutil.pid_exists(server.pid))
        query(connection, "INSERT INTO d.t VALUES ('secret'), ('rows')")


def test_one_that_is_killed_while_its_tables_are_loaded_keeps_its_log_and_shows_no_rows(short: Path) -> None:
    build, _, _ = prepared("my5624.common", short)
    name, source = f"killed-{os.getpid()}", data.Origin(build, {})
    try:
        with pytest.raises(RqpsError) as caught:
            source.loaded(name, killed_while_loading, print)
        assert (
            "making data of my5624: the server my5624 ended in the middle of it, by SIGKILL" in caught.value.message
        )
        assert "secret" not in str(caught.value)
        [log] = re.findall(r"its log, (/\S+):", caught.value.message)
        assert Path(log).is_file()
    finally:
        for log_or_lock in source.folder.glob(f"*{name}*.*"):
            log_or_lock.unlink()
    assert not list(source.folder.glob(f"{PREFIX}*"))


def test_a_statement_that_is_refused_is_an_error_for_people(short: Path) -> None:
    build, translated, copied = prepared("my5624.common", short)
    log = short / "mysqld.err"
    with (
        pytest.raises(RqpsError, match="making data of my5624: the server my5624 refused a statement: 1146, Table"),
        running(build, copied, arguments=translated.arguments, log=log) as server,
    ):
        query(server.connect(), "SELECT * FROM rqps.nothing")


def test_tables_whose_server_did_not_stop_in_order_are_not_kept(short: Path) -> None:
    build, _, _ = prepared("my5624.common", short)
    name, source = f"unclean-{os.getpid()}", data.Origin(build, {})
    try:
        with pytest.raises(RqpsError, match="the server did not stop in order, it ended by SIGKILL"):
            source.loaded(name, kill, print)
    finally:
        for log_or_lock in source.folder.glob(f"*{name}*.*"):
            log_or_lock.unlink()
    assert not (source.folder / name).exists()


def test_tables_that_can_not_be_loaded_anew_leave_those_of_the_occasion_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = SysbenchParameters(steps=("point-query",), table_rows=100)
    run = replace(run_of("my5624.common", asked), study=f"anew-{os.getpid()}", occasion=2)
    ready = prepare(run, print)
    before = loaded_data(run, ready, print)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Sysbench, "load", lambda _, server, __: kill(server))
            with pytest.raises(RqpsError, match="the server did not stop in order, it ended by SIGKILL"):
                loaded_data(replace(run, occasion=3), ready, print)
        assert before.is_dir()
        anew = loaded_data(replace(run, occasion=4), ready, print)
        assert (anew.is_dir(), before.exists()) == (True, False)
        (other := anew.with_name(f"{anew.name}-format-6")).mkdir()  # as of another dbms of RocksDB
        assert loaded_data(replace(run, occasion=4), ready, print) == anew
        assert other.is_dir()
    finally:
        for left in before.parent.parent.glob(f"*-of-{short_key(run.study)}-*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def test_a_server_that_makes_an_empty_data_directory_does_not_outlive_rqps(short: Path) -> None:
    script = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from pathlib import Path
    from rqps.engines.mysql.data import Origin
    from test_live_servers import prepared
    folder = Path({str(short)!r})
    build, _, _ = prepared("my5624.common", folder)
    turn()
    Origin(build, {{}}).mysqld(folder / "data", "--bootstrap", sql=b"SELECT SLEEP(600);")
    """
    with Child(script) as child:
        child.send()
        until(lambda: any("--bootstrap" in words for words in running_from(short / "data").values()))
        child.kill()
        until(lambda: not running_from(short / "data"))


@pytest.mark.parametrize(
    ("size", "words"),
    [("30m", r"/cache: its disk has \d+ MB left, and a run needs 50 MB or more there"),
     ("100m", r"the disk of \S+ is full, or nearly so: \S+ MB are left; my5624 \(5.6.24\)")],
)  # fmt: skip
def test_a_full_disk_of_the_cache_is_named(
    size: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, links, cache = Place(tmp_path, RUNS), tmp_path / "links", tmp_path / "cache"
    links.mkdir()
    share_cache(links, cache_dir())
    monkeypatch.setenv("RQPS_CACHE", str(cache))
    fill = 'cp -a "$0/." "$1" && shift && exec "$@"'
    place.under = (*on_a_disk(cache, size), "sh", "-c", fill, str(links), str(cache))
    output = ended(place.start(), 1)
    assert re.search(words, output), output
    assert "what to do: make room " in output
    assert not list(place.study.glob("run=*"))


def test_a_keeper_that_is_killed_while_its_server_stops_fails_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path, RUNS.replace(", my5624.ps0]", "]"))
    process = place.start()
    place.wait("the end of the run", lambda: place.doing().startswith("stopping"), process)
    pids = [int(pid) for file in place.study.glob(".run=*.partial/pids.txt") for pid in file.read_text().split()]
    for one in map(psutil.Process, pids):
        if "keeper.py" in " ".join(one.cmdline()):
            one.kill()
    output = ended(process, 1)
    assert "the server did not stop in order, it ended with its keeper, which ended by SIGKILL" in output
    assert len(list(place.study.glob("failed/run=*"))) == 1
    assert not list(place.study.glob("run=*"))
