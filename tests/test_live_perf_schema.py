"""Every scenario on a real server of each generation: set, verified, and found in the load's events."""

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest
from live_server import run_of
from rqps.engines import CountOf, Start, Status
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.engine import MeasuredServer, prepare
from rqps.engines.mysql.events import StepWatch, by_kind, stop_recording, verify
from rqps.engines.mysql.instance import query
from rqps.engines.mysql.perf_schema import EVENTS, Scenario, ScenarioSpec, absent, named, names, scenario
from rqps.engines.mysql.reports import check_connections, read_setup, schema_rows
from rqps.engines.mysql.scenario import Realised, realise, updates
from rqps.errors import RqpsError
from rqps.measure.job import loaded_data
from rqps.study import Option, Run
from rqps.workloads.sysbench.generator import Generator, read_seconds
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

pytestmark = pytest.mark.live

VERSIONS = {"5.5.34": "my5534.common", "5.6.14": "my5614.common", "8.0.33": "my8033.common", "9.7": "my97.common"}
QUICK = SysbenchParameters(
    steps=("point-query", "read-write"), table_rows=5000, seconds=1, warmup_seconds=0, counted_operations=4000
)


def asking(version: str, asked: Scenario | None, **options: str | int) -> Run:
    """A run of that version with the options of base, and a scenario instead of its performance_schema."""
    run = run_of(VERSIONS[version], QUICK)
    others = {name: option for name, option in run.options.items() if name != "performance_schema"}
    if asked is None or asked.kind != "compiled-out":
        others["performance_schema"] = Option(asked is not None and asked.kind == "on")
    others |= {name: Option(value) for name, value in options.items()}
    others["innodb_buffer_pool_size"] = Option("64M")
    return replace(run, options=others, scenario=asked)


def own(**asked: object) -> Scenario:
    return scenario(ScenarioSpec.model_validate(asked))


@contextmanager
def serving(run: Run, folder: Path) -> Iterator[tuple[MeasuredServer, Realised]]:
    """The server of a run on its own copy of the loaded tables, with its scenario set."""
    prepared = prepare(run, print)
    asked = prepared.scenario
    assert asked is not None
    copy_folder(loaded_data(run, prepared, print), folder / "data")
    try:
        with closing(prepared.open(folder / "data", Start(log=folder / "mysqld.err"))) as server:
            server.verify()
            yield server, asked
    finally:
        shutil.rmtree(folder / "data", ignore_errors=True)


@pytest.fixture(scope="module")
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    """A server whose version, and whose scenario by name, a test asks for. Tests that ask for the same share it."""
    version, name = request.param
    with serving(asking(version, named(name)), tmp_path_factory.mktemp("s")) as (server, _):
        yield server


def on(*servers: tuple[str, str]) -> pytest.MarkDecorator:
    """Runs a test on each of these, by version and scenario."""
    return pytest.mark.parametrize("started", servers, indirect=True, ids=[" ".join(server) for server in servers])


def step(server: MeasuredServer, name: str, folder: Path, threads: int = 1) -> dict[str, int]:
    """Thousands of statements of a step, watched; the events of each kind between the two readings."""
    parameters = QUICK.model_copy(update={"threads": threads})
    log = folder / f"{name}.log"
    with server.watching(name) as watch:
        with Generator((server,), find(name), parameters, seed=1, cpus=(), log=log, counted=True) as load:
            before = watch.begin()
            load.wait_for_all()
        done = sum(second.transactions for second in read_seconds(load.lines, threads, whole_within_s=0))
        assert done >= parameters.transactions_of(find(name))
        after = watch.end(transactions=100)
    return events_between(before, after)


def events_between(before: Status, after: Status) -> dict[str, int]:
    return by_kind(
        {
            key.object: int(count) - int(before.get(key, 0))
            for key, count in after.items()
            if isinstance(key, CountOf) and key.name == EVENTS
        }
    )


WAITS = {"wait/synch/mutex", "wait/synch/rwlock", "wait/io/table", "wait/io/socket", "wait/lock/table"}
MUST = {
    "mdl-only": set[str](),
    "memory-only": {"memory"},
    "stages-only": {"stage"},
    "statements-only": {"statement", "digest"},
    "stages-and-statements": {"stage", "statement", "digest"},
    "statements-without-digests": {"statement"},
    "transactions-only": {"transaction"},
    "waits-only": WAITS,
    "default": {"wait/io/table", "wait/lock/table", "statement", "digest"},
    "all-enabled": {*WAITS, "stage", "statement", "digest"},
}
ONLY = {
    "off": "-",
    "all-disabled": "-",
    "mdl-only": "-",
    "waits-only": "wait/",
    "memory-only": "memory",
    "stages-only": "stage",
    "statements-without-digests": "statement",
    "transactions-only": "transaction",
}
"""The beginning of the kinds that may move at all."""
AT_START = [
    ("5.5.34", "off"),
    ("5.6.14", "off"),
    ("5.6.14", "stages-only"),
    ("8.0.33", "off"),
    ("8.0.33", "default"),
    ("9.7", "waits-only"),
    ("9.7", "statements-only"),
    ("9.7", "memory-only"),
]
"""Beside all-enabled, which every version starts with below."""


def check_moved(version: str, name: str, events: Mapping[str, int]) -> None:
    moved = {kind for kind, count in events.items() if count > 64}
    must = set(MUST.get(name, ()))
    if version == "5.5.34" and must:
        must = {"wait/synch/mutex", "wait/synch/rwlock"}
    elif version in ("8.0.33", "9.7"):
        must = {one.replace("rwlock", "sxlock") for one in must}
        must |= {"memory", "transaction"} if name in ("default", "all-enabled") else set()
    assert must <= moved, name
    if name in ONLY:
        assert all(text.startswith((ONLY[name], "idle")) for text in moved), name


@on(*AT_START)
def test_a_scenario_set_at_the_start_shows_in_the_events_of_a_load(
    started: MeasuredServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    version, name = request.node.callspec.params["started"]
    check_moved(version, name, step(started, "read-write", tmp_path))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_scenario_of_a_version_shows_in_the_events_of_a_load(version: str, tmp_path: Path) -> None:
    """On one server, whose instruments are all on as it starts and so can be switched by UPDATE afterwards."""
    with serving(asking(version, named("all-enabled")), tmp_path) as (server, started_with):
        check_moved(version, "all-enabled", step(server, "read-write", tmp_path))
        now = started_with
        for name in names():
            asked = named(name)
            if asked.kind != "on" or name == "all-enabled" or (version, name) in AT_START or absent(version, asked):
                continue
            has = server.prepared.origin.known(print)
            wanted = realise(asked, server.build, has, config=name)
            changes = updates(wanted, replace(has, instruments=now.instruments, consumers=now.consumers))
            now = replace(wanted, arguments=(), statements=tuple(changes))
            server = replace(server, prepared=replace(server.prepared, scenario=now))
            server.verify()
            check_moved(version, name, step(server, "read-write", tmp_path))


@on(("5.6.14", "all-enabled"))
def test_a_connection_that_closes_late_has_its_events_in_the_step(started: MeasuredServer) -> None:
    """As on a busy host, where the server closes the load's connections some time after the load has ended."""
    with started.watching("point-query") as watch:
        watch.begin()
        load = started.connect()
        for _ in range(100):
            query(load, "SELECT k FROM rqps.sbtest1 WHERE id = 1")
        late = threading.Timer(1, load.close)
        late.start()
        watch.end(transactions=100)
        late.join()
        assert isinstance(watch, StepWatch)
        assert watch._grew("connections") >= 1, "so many may have had events of their sockets"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_build_with_instruments_is_not_compiled_out(version: str) -> None:
    run = asking(version, named("compiled-out"))
    with pytest.raises(RqpsError, match=r"its performance schema is not compiled out: it has \d+ instruments"):
        prepare(run, print)


@on(("8.0.33", "statements-only"), ("9.7", "statements-only"))
def test_no_statement_of_ours_is_among_those_of_a_step(started: MeasuredServer, tmp_path: Path) -> None:
    """As many statements are counted as the load sent: its transactions, and what connecting takes.

    They were prepared before, and so in 8.0 they have no digests.
    """
    log = tmp_path / "point-query.log"
    with closing(started.connect()) as connection:
        query(connection, "TRUNCATE performance_schema.events_statements_summary_by_digest")
    with started.watching("point-query") as watch:
        time.sleep(0.2)  # connections that were closed before are gone
        before = watch.begin()
        with Generator((started,), find("point-query"), QUICK, seed=1, cpus=(), log=log) as load:
            load.wait_for_all()
        sent = sum(second.transactions for second in read_seconds(load.lines, 1))
        after = watch.end(transactions=sent)
    digests = "SELECT digest_text FROM performance_schema.events_statements_summary_by_digest"
    texts = [str(text) for (text,) in query(started.connect(), digests)]
    counted = events_between(before, after)["statement"]
    assert sent > 100
    assert 0 <= counted - sent <= 8  # the last one, connecting, preparing, closing
    assert any("`sbtest1`" in text for text in texts) == (started.build.number >= (9,))
    assert not [text for text in texts if "GET_LOCK" in text or "SHOW GLOBAL STATUS" in text]
    assert not [text for text in texts if "summary_by_user" in text or "setup_instruments" in text]


@on(("8.0.33", "statements-only"))
def test_settings_changed_in_the_middle_of_a_step_fail_it_with_both_values(
    started: MeasuredServer, tmp_path: Path
) -> None:
    log, parameters = tmp_path / "point-query.log", QUICK.model_copy(update={"seconds": 2})
    with started.watching("point-query") as watch:
        with Generator((started,), find("point-query"), parameters, seed=1, cpus=(), log=log) as load:
            watch.begin()
            other = started.connect()
            where = "WHERE name LIKE 'stage/sql/%'"
            query(other, f"UPDATE performance_schema.setup_instruments SET enabled = 'YES' {where}")
            query(other, "UPDATE performance_schema.setup_consumers SET enabled = 'NO' WHERE name LIKE '%digest'")
            load.wait_for_all()
        with pytest.raises(RqpsError) as caught:
            watch.end(transactions=1)
    assert "point-query: the performance schema was changed during the step" in caught.value.message
    assert "more of stage: asked for off, the server has counted" in caught.value.message
    assert "consumer statements_digest: asked for on, the server has off" in caught.value.message


@on(("9.7", "waits-only"))
def test_actors_objects_and_threads_that_are_not_watched_are_found(started: MeasuredServer) -> None:
    connection = started.connect()
    query(connection, "UPDATE performance_schema.setup_actors SET enabled = 'NO'")
    objects = "'TABLE', 'rqps', 'sbtest1', 'NO', 'NO'"
    query(connection, f"INSERT INTO performance_schema.setup_objects VALUES ({objects})")
    query(connection, "UPDATE performance_schema.threads SET instrumented = 'NO' WHERE name = 'thread/sql/main'")
    asked = started.prepared.scenario
    assert asked is not None
    with pytest.raises(RqpsError) as reported:
        verify(connection, asked, "my97.ps")
    for words in (
        "actor %@%: enabled NO, history YES: the server has this row, and the release does not",
        "object TABLE rqps.sbtest1: enabled NO, timed NO: the server has this row",
        "the thread thread/sql/main: asked for on, the server has off",
    ):
        assert words in reported.value.message


def test_a_scenario_set_by_update_on_5_6_would_count_few_mutexes_and_is_not_done_so(tmp_path: Path) -> None:
    """Mutexes that are made while their instrument is off are never counted: it has to be on at the start."""
    run = asking("5.6.14", named("all-disabled"))
    with serving(run, tmp_path) as (server, asked):
        connection = server.connect()
        query(connection, "UPDATE performance_schema.setup_instruments SET enabled = 'YES', timed = 'YES'")
        query(connection, "UPDATE performance_schema.setup_consumers SET enabled = 'YES'")
        late = query(connection, "SELECT COUNT(*) FROM performance_schema.mutex_instances")[0][0]
    with serving(asking("5.6.14", named("all-enabled")), tmp_path) as (server, asked):
        assert asked.statements == ()
        early = query(server.connect(), "SELECT COUNT(*) FROM performance_schema.mutex_instances")[0][0]
    assert early > 5 * late


def test_a_set_of_one_s_own_with_sizes_is_what_the_server_has(tmp_path: Path) -> None:
    asked = own(
        extends="default",
        instruments={"wait/synch/mutex/%": "counted", "memory/%": "off"},
        consumers={"events_waits_current": True, "statements_digest": False},
    )
    sizes = {"performance_schema_events_waits_history_long_size": 777, "performance_schema_digests_size": 300}
    with serving(asking("8.0.33", asked, **sizes), tmp_path) as (server, _realised):
        events = step(server, "point-query", tmp_path)
        connection = server.connect()
        variables = dict(query(connection, "SHOW GLOBAL VARIABLES LIKE 'performance_schema%size'"))
        untimed = "SELECT SUM(count_star), SUM(sum_timer_wait) FROM performance_schema.{} WHERE event_name LIKE '{}'"
        count, waited = query(
            connection, untimed.format("events_waits_summary_global_by_event_name", "wait/synch/mutex/%")
        )[0]
    assert {name: int(variables[name]) for name in sizes} == sizes
    assert events["wait/synch/mutex"] > 1000
    assert (events.get("memory", 0), events["digest"]) == (0, 0)
    assert count > 1000
    assert waited == 0


@pytest.mark.parametrize(
    ("version", "pattern", "reported"),
    [
        ("8.0.33", "wait/synch/mutx/%", "fits no instrument; did you mean wait/synch/mutex/%"),
        ("8.0.33", "statement/sql/selct", "did you mean statement/sql/select"),
        ("9.7", "wait/synch/mutex/innodb/buffer_block_mutex", "unless InnoDB is compiled without PFS_SKIP"),
        ("5.6.14", "wait/synch/rwlock/innodb/buf_block_lock", "unless InnoDB is compiled without PFS_SKIP"),
    ],
)
def test_an_unknown_pattern_is_reported_with_near_names(version: str, pattern: str, reported: str) -> None:
    run = asking(version, own(instruments={pattern: "timed"}))
    with pytest.raises(RqpsError, match=reported):
        prepare(run, print)


def test_a_build_whose_version_nobody_promised_is_refused_with_the_promise_to_make() -> None:
    run = asking("5.6.14", named("memory-only"))
    with pytest.raises(RqpsError, match="memory-only is not in this version: MySQL 5"):
        prepare(run, print)


def test_histories_too_large_for_this_machine_are_refused_before_any_server_starts() -> None:
    size = "performance_schema_events_statements_history_size"
    asked = asking("8.0.33", named("statements-only"), **{size: 1_000_000})
    with pytest.raises(RqpsError, match=rf"{size}=1000000 takes [\d.]+ GB of memory at the server's start"):
        prepare(asked, print)


@on(("8.0.33", "default"))
def test_a_user_without_the_rights_learns_which_ones(started: MeasuredServer) -> None:
    asked = started.prepared.scenario
    assert asked is not None
    query(started.connect(), "CREATE USER joe@localhost")
    with closing(pymysql.connect(unix_socket=str(started.socket), user="joe", ssl_disabled=True)) as connection:
        with pytest.raises(RqpsError) as reported:
            verify(connection, asked, "my8033.ps")
        with pytest.raises(RqpsError, match="UPDATE command denied to user 'joe'"):
            stop_recording(connection)
    assert "can't be verified: SELECT command denied to user 'joe'@'localhost'" in reported.value.message
    assert "GRANT SELECT, UPDATE ON performance_schema.* TO joe" in reported.value.fix


@on(("5.5.34", "default"), ("9.7", "memory-only"))
def test_a_table_that_a_version_does_not_have_is_empty(started: MeasuredServer) -> None:
    missing = "setup_timers" if started.build.number >= (9,) else "setup_actors"
    assert schema_rows(started.connect(), missing) == []
    assert read_setup(started.connect()).instruments


def test_more_threads_than_the_server_admits_are_refused(tmp_path: Path) -> None:
    run = asking("5.6.14", named("default"), max_connections=20)
    with (
        serving(run, tmp_path) as (server, _),
        pytest.raises(RqpsError, match="max_connections is 20; 64 threads and"),
    ):
        check_connections(server.connect(), QUICK.model_copy(update={"threads": (1, 64)}).connections)


def test_more_threads_than_the_performance_schema_knows_fail_the_step(tmp_path: Path) -> None:
    known_threads = {"performance_schema_max_thread_instances": 40}
    run = asking("5.6.14", named("statements-only"), **known_threads)
    with (
        serving(run, tmp_path) as (server, _asked),
        pytest.raises(RqpsError, match=r"the performance schema had no room for \d+ threads"),
    ):
        step(server, "point-query", tmp_path, threads=64)
