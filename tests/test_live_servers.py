"""Every version of the catalogue, started and measured for real."""

import gc
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from child import wait_for_end
from live_load import LABELS, Sysbenched, asked, done, shape
from live_server import every_release, run_of, running, server_of
from published_statements import EXPECTED
from rqps.engines import Start
from rqps.engines.cache import copy_folder
from rqps.engines.mysql import instance
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.engine import prepare
from rqps.engines.mysql.events import wait_for_closing
from rqps.engines.mysql.instance import Server, query
from rqps.engines.mysql.options import mismatches
from rqps.engines.preparation import Translated
from rqps.errors import RqpsError
from rqps.measure.job import loaded_data
from rqps.measure.step_counters import read_counters, used_between
from rqps.scratch import PREFIX
from rqps.study import Option
from rqps.workloads.answers import total
from rqps.workloads.sysbench import generator
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find
from rqps.workloads.sysbench.workload import check_plan, check_tables, flush

pytestmark = pytest.mark.live

QUICK = SysbenchParameters(
    steps=("point-query", "update-index", "insert"), table_rows=5000, seconds=1, warmup_seconds=1
)
LESS_THAN_A_BATCH = 200


def prepared(dbms: str, folder: Path, parameters: SysbenchParameters = QUICK) -> tuple[Build, Translated, Path]:
    run = run_of(dbms, parameters)
    prepared = prepare(run, print)
    build, translated = prepared.build, prepared.translated
    copied = folder / "data"
    copy_folder(loaded_data(run, prepared, print), copied)
    return build, translated, copied


@every_release
def test_each_version_starts_with_the_base_config_does_every_step_and_stops(dbms: str, short: Path) -> None:
    build, translated, copied = prepared(dbms, short, asked("insert"))
    with running(build, copied, arguments=translated.arguments, log=short / "mysqld.err") as server:
        connection = server.connect()
        reported = {str(name).lower(): str(value) for name, value in query(connection, "SHOW GLOBAL VARIABLES")}
        assert reported["version"].startswith(build.version)
        assert mismatches(translated.expected, reported) == []
        assert reported.get("skip_networking", "ON") == "ON"
        assert build.compiled["profiling"] == reported["have_profiling"].lower()
        assert build.compiled["instruments"] == "all"
        reads_by_the_index_and_flushes(Sysbenched(server, short))
        for name in QUICK.steps:
            measure(server, connection, name, short)
    assert not connection.open, "it would have waited for this"
    assert not Path(f"/proc/{server.pid}").exists()
    assert not server.socket.parent.exists()
    assert "ready for connections" in (short / "mysqld.err").read_text(errors="replace")


def reads_by_the_index_and_flushes(house: Sysbenched) -> None:
    parameters, connection = asked("all"), house.server.connect()
    house.workload.prepare(house.server, parameters)
    for label in LABELS:
        check_plan(connection, find(label))
    house.do("write-only", counted=True, counted_operations=4000)
    flush(house.server, parameters)
    for _ in range(LESS_THAN_A_BATCH):  # which purge leaves lying in 5.5
        query(connection, "UPDATE rqps.sbtest1 SET k = k + 1 WHERE id = 5")
    had = query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
    flush(house.server, parameters)
    assert query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had
    answer, logged = house.do("read-write_range=10", counted=True, counted_operations=1000)
    assert [shape(statement) for statement in done(logged)[:20]] == EXPECTED["read-write_range=10"]
    assert (answer.columns["errors"], answer.columns["retries"]) == (0, 0)


def measure(server: Server, connection: instance.Connection, name: str, folder: Path) -> None:
    """One step on a running server: what the client counted is what the server counted."""
    step, parameters = find(name), QUICK.model_copy(update={"warmup_seconds": int(name == QUICK.steps[0])})
    check_plan(connection, step)
    before = statements(connection)
    with generator.Generator((server,), step, parameters, seed=1, cpus=(), log=folder / f"{name}.log") as load:
        load.wait_for_begin()
        first = read_counters(server.pids, load.pid, None)
        load.wait_for_end()
        used = used_between(first, read_counters(server.pids, load.pid, None))
        load.wait_until_gone()
    seconds = generator.read_seconds(load.lines, QUICK.clients)
    counted = sum(second.transactions for second in seconds)
    assert [second.second for second in seconds] == list(range(-parameters.warmup_seconds, 1))
    assert total(seconds, "").transactions > 0
    # The last transaction ends after the measured part and is not counted; nor is what connects and prepares.
    assert 0 <= statements(connection) - before - counted <= 10
    assert (used["server_cpu_s"] or 0) > 0


def statements(connection: instance.Connection) -> int:
    """Statements that the server did for the load: selects by their own counter, since SHOW is none of them."""
    names = ("Com_select", "Com_update", "Com_insert")
    wait_for_closing(connection)
    facts = dict(query(connection, "SHOW GLOBAL STATUS LIKE 'Com\\_%'"))
    return sum(int(facts[name]) for name in names)


@pytest.mark.parametrize("dbms", ["my5614.common", "my5722.common", "my8033.common"])
def test_options_that_shape_tables_shape_those_that_are_loaded(dbms: str, short: Path) -> None:
    small = SysbenchParameters(steps=("point-query",), table_rows=100)
    run = run_of(dbms, small)
    options = {"innodb_page_size": Option("4k"), "innodb_default_row_format": Option("compact", optional=True)}
    options = {**run.options, **options}
    with server_of(replace(run, options=options), short) as server:
        connection = server.connect()
        assert query(connection, "SELECT @@innodb_page_size")[0][0] == 4096
        formats = query(connection, "SELECT row_format FROM information_schema.tables WHERE table_name = 'sbtest1'")
        assert formats[0][0].lower() == "compact"


def test_a_round_starts_from_the_same_bytes(short: Path) -> None:
    """Changes that one server made to its copy are not in the next one."""
    build, translated, copied = prepared("my8033.common", short)
    with running(build, copied, arguments=translated.arguments, log=short / "1.err") as server:
        query(server.connect(), "DELETE FROM rqps.sbtest1 WHERE id <= 100")
    shutil.rmtree(copied)
    _, _, copied = prepared("my8033.common", short)
    with running(build, copied, arguments=translated.arguments, log=short / "2.err") as server:
        check_tables(server.connect(), QUICK)


def test_a_server_leaves_no_open_file_behind(short: Path) -> None:
    """Without a search for cycles of unused objects, since rqps lets Python search seldom."""
    build, translated, copied = prepared("my5624.common", short)
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    gc.disable()
    try:
        with running(build, copied, arguments=translated.arguments, log=short / "mysqld.err"):
            pass
        assert len(list(Path("/proc/self/fd").iterdir())) <= before
    finally:
        gc.enable()


def test_a_server_that_does_not_start_shows_the_end_of_its_error_log(short: Path) -> None:
    build, translated, copied = prepared("my8033.common", short)
    arguments = (*translated.arguments, "--innodb-no-such-option=1")
    with pytest.raises(RqpsError, match=r"(?s)did not start.*unknown variable 'innodb-no-such-option=1'"):
        instance.start(build, copied, Start(short / "mysqld.err"), arguments)
    assert not list(Path(os.environ["TMPDIR"]).glob(f"{PREFIX}*/mysqld*"))


@pytest.mark.parametrize("name", ["point-query", "insert"])
def test_a_server_killed_in_the_middle_of_a_step_fails_the_step_and_says_so(name: str, short: Path) -> None:
    build, translated, copied = prepared("my5624.common", short)
    server = instance.start(build, copied, Start(short / "mysqld.err"), translated.arguments)
    step = find(name)
    with generator.Generator((server,), step, QUICK, seed=1, cpus=(), log=short / "sb.log") as load:
        load.wait_for_begin()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(RqpsError, match=f"{name}: the server my5624 ended in the middle of it, by SIGKILL"):
            load.wait_until_gone()
    server.close()
    assert load.process.returncode is not None


def test_a_table_that_is_not_as_asked_fails_the_run(short: Path) -> None:
    build, translated, copied = prepared("my5624.common", short)
    with running(build, copied, arguments=translated.arguments, log=short / "mysqld.err") as server:
        connection = server.connect()
        query(connection, "DELETE FROM rqps.sbtest1 WHERE id = 7")
        with pytest.raises(RqpsError, match="rows: asked for 5000, found 4999"):
            check_tables(connection, QUICK)
        query(connection, "ALTER TABLE rqps.sbtest1 DROP INDEX k_1")
        with pytest.raises(RqpsError, match="range-covered-si: the server's plan uses no index, not k_1"):
            check_plan(connection, find("range-covered-si"))


def test_the_server_of_a_killed_process_stops(short: Path) -> None:
    """As a notebook's kernel that is killed: nobody is left who could stop the server."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; import test_live_servers as live; from rqps.engines.mysql import instance\n"
        "from rqps.engines import Start\n"
        "folder = Path(sys.argv[2]); build, translated, copied = live.prepared('my5624.common', folder)\n"
        "server = instance.start(build, copied, Start(folder / 'mysqld.err'), translated.arguments)\n"
        "print('up', server.pid, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parent), str(short)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = next(int(line.split()[1]) for line in owner.stdout if line.startswith("up"))
    owner.kill()
    owner.wait()
    wait_for_end(pid)
    assert "Shutdown complete" in (short / "mysqld.err").read_text()
