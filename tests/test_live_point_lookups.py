"""Point lookups on real servers: the statements, the plans, the counts, and what goes wrong."""

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from live_server import RUNS_YAML, House, every_build, runs_of, server_of
from rqps.engines import Option
from rqps.errors import RqpsError
from rqps.study import Run, read_runs_file
from rqps.workloads import PARAMETERS, Answer
from rqps.workloads.point_lookups import generator
from rqps.workloads.point_lookups.generator import Generator, mysqlslap
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.steps import KINDS, PUBLISHED, find
from rqps.workloads.point_lookups.workload import PointLookups

pytestmark = pytest.mark.live

KEYS = {
    "pk": "PRIMARY const",
    "pk-force": "PRIMARY const",
    "cover-noforce": "xj ref",
    "nocover-force": "xj ref",
    "cover-force": "xjk ref",
    "nocover-noforce": "xj ref",
}
"""Index and access of every release, on both engines but for the exception below."""
ON_MEMORY = KEYS | {"cover-force": "None ALL"}


RUNS = runs_of("point-lookups")
ROWS = 2000


def asked(**parameters: Any) -> PointLookupsParameters:
    usual = {"table_rows": ROWS, "queries": 200, "scan_queries": 8, "warmup_queries": 0}
    return PointLookupsParameters.model_validate(usual | parameters)


class Lookups(House):
    """A server with the tables of the point lookups."""

    workload = PointLookups()

    def do(self, step: str, parameters: PointLookupsParameters | None = None) -> tuple[Answer, Generator]:
        """A step done for a moment."""
        return self.done(step, parameters or asked())


@contextmanager
def serving(
    dbms: str,
    folder: Path,
    parameters: PointLookupsParameters | None = None,
    options: dict[str, Any] | None = None,
    *,
    checked: bool = True,
) -> Iterator[Lookups]:
    """A server of a dbms of the study, with some options changed."""
    parameters = parameters or asked()
    of_build = RUNS.get(dbms) or next(iter(RUNS.values()))
    run = {**vars(of_build), "parameters": parameters}
    if dbms not in RUNS:
        name = dbms.partition(".")[0]
        run |= {"dbms": dbms, "build": name, "build_spec": read_runs_file(RUNS_YAML, PARAMETERS).builds[name]}
    run["options"] = {**of_build.options, **{name: Option(value) for name, value in (options or {}).items()}}
    with server_of(Run(**run), folder) as server:
        if checked:
            PointLookups().prepare(server, parameters)
        yield Lookups(server, folder)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lookups]:
    with serving("my8033.common", tmp_path_factory.mktemp("lookups")) as here:
        yield here


@pytest.mark.parametrize("kind", PUBLISHED)
def test_each_client_does_the_published_query_and_nothing_else(kind: str, house: Lookups) -> None:
    clients: list[Counter[str]] = []
    others: list[Counter[str]] = []
    with house.logging() as entries:
        house.do(f"innodb.{kind}@4", asked(queries=25))
    logged: dict[str, list[str]] = {}
    for connection, command, statement in entries:
        logged.setdefault(connection, []).append(f"{command} {statement}".strip())
    for text in logged.values():
        (clients if "Connect root@localhost on rqps_innodb using Socket" in text else others).append(Counter(text))
    ours = [value for value in (*clients, *others) if "Query SET NAMES utf8mb4" in value]
    asking = {"Connect root@localhost on rqps_innodb using Socket": 1, f"Query {KINDS[kind].query}": 25, "Quit": 1}
    assert [client for client in clients if client not in ours] == [asking] * 4
    coming_and_going = {"Connect root@localhost on  using Socket": 1, "Quit": 1}
    complete = [other for other in others if other not in ours and len(other) > 1]
    assert complete == [coming_and_going], "mysqlslap's own"


@pytest.fixture(scope="module")
def pair(house: Lookups, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lookups, Lookups]]:
    with serving("my5624.common", tmp_path_factory.mktemp("beside")) as other:
        yield house, other


@pytest.mark.parametrize("step", ["innodb.pk@1", "innodb.cover-force@4", "memory.pk@4", "memory.cover-force@32"])
def test_servers_in_turns_answer_the_published_query_as_often_as_they_count(
    step: str, pair: tuple[Lookups, Lookups], tmp_path: Path
) -> None:
    workload, parameters, described = PointLookups(), asked(slice_ms=5), find(step)
    servers = [here.server for here in pair]
    selects = "SHOW GLOBAL STATUS LIKE 'Com_select'"
    with (
        pair[0].logging() as entries,
        workload.generating(servers, step, parameters, seed=1, cpus=(), log=tmp_path / "log") as load,
    ):
        load.wait_for_begin()
        before = [int(here.ask(selects)[0][1]) for here in pair]
        load.wait_for_end()
        load.wait_until_gone()
        done = [int(here.ask(selects)[0][1]) - count for here, count in zip(pair, before, strict=True)]
    answers = workload.answers(step, parameters, load)
    slices = [answer.more["slices"] for answer in answers]
    assert [sum(row["operations"] for row in rows) for rows in slices] == done
    assert [answer.columns["operations"] for answer in answers] == done
    assert all(row["operations"] >= described.clients for rows in slices for row in rows), "a query of each client"
    assert len(slices[0]) == len(slices[1]) > 2
    text = Counter((entry.command, entry.statement) for entry in entries)
    assert text["Query", described.kind.query] == done[0], "as text, and not prepared"
    for answer in answers:
        columns = answer.columns
        assert (columns["kind"], columns["storage_engine"]) == (described.kind.name, described.engine)
        assert (columns["clients"], columns["errors"]) == (described.clients, 0)
        assert 0 < columns["latency_p50_us"] <= columns["latency_p99_us"]
        assert columns["client_cpu_s"] > 0
    assert list(workload.tools(parameters, servers=2)) == ["sysbench"]
    assert list(workload.tools(parameters, servers=1)) == ["mysqlslap"]


def test_mysqlslap_creates_nothing_and_drops_nothing(house: Lookups) -> None:
    tables = "SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2"
    before = house.ask(tables)
    house.do("memory.pk@4")
    assert house.ask(tables) == before
    assert house.ask("SELECT COUNT(*) FROM rqps_memory.foo") == [(ROWS,)]


def test_the_number_that_mysqlslap_takes_is_of_all_clients_together(house: Lookups) -> None:
    slap = mysqlslap("8.0.33")
    argv = slap.argv(house.server, "rqps_innodb", "select 1", clients=4, queries=25)
    assert "--number-of-queries=100" in argv
    answer, load = house.do("innodb.pk@4", asked(queries=25))
    assert load.counted.selects == answer.columns["operations"] == 100
    assert load.lines[-1].strip().endswith(",4,25")


@every_build
def test_one_mysqlslap_talks_to_every_release_and_every_index_is_known(dbms: str, tmp_path: Path) -> None:
    with serving(dbms, tmp_path) as here:
        for engine, keys in (("innodb", KEYS), ("memory", ON_MEMORY)):
            for kind, key in keys.items():
                checked = PointLookups().check(here.server, f"{engine}.{kind}@1", asked())
                (plan,) = checked.plans
                assert f"{plan['key']} {plan['access']}" == key, (engine, kind)
                as_named = plan["key"] in KINDS[kind].indexes
                assert [warning.kind for warning in checked.warnings] == ([] if as_named else ["plan"])
        for step in ("innodb.pk@1", "innodb.cover-force@4", "memory.pk@32", "memory.cover-force@4"):
            answer, load = here.do(step, asked(queries=40, warmup_queries=3))
            scanned = step == "memory.cover-force@4"
            clients = find(step).clients
            assert answer.columns["operations"] == clients * (2 if scanned else 40)
            assert answer.columns["errors"] == 0
            assert answer.columns["clients"] == clients
            assert answer.columns["operations_per_s"] == answer.columns["operations"] / answer.columns["elapsed_s"]
            assert answer.columns["warmup_s"] > 0
            assert "latency_mean_us" not in answer.columns
            assert (answer.intervals, answer.latencies) == ([], [])
            assert not generator.complaints(load.lines)
        assert here.ask("SHOW GLOBAL STATUS LIKE 'Ssl_accepts'")[0][1] == "0"


def test_tables_hold_what_is_asked_for_on_both_engines(house: Lookups) -> None:
    for schema in ("rqps_innodb", "rqps_memory"):
        reported = house.ask(f"SELECT COUNT(*), SUM(i = j), SUM(i = k), SUM(l = 0) FROM {schema}.foo")
        assert [int(number) for number in reported[0]] == [ROWS] * 4


def test_rows_of_the_memory_engine_are_there_again_after_a_start(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        with serving("my5624.common", tmp_path / str(number)) as here:
            assert here.ask("SELECT COUNT(*) FROM rqps_memory.foo WHERE j = i") == [(ROWS,)]


def test_instructions_are_counted_of_as_many_queries_on_every_server(house: Lookups) -> None:
    for step, value in (("innodb.pk@4", 3), ("memory.cover-force@1", 1)):
        answer, _ = house.done(step, asked(counted_operations=12), counted=True)
        assert answer.columns["operations"] == value * find(step).clients


@pytest.mark.parametrize("dbms", ["my5534.common", "my8033.common", "my97.common"])
def test_clients_that_can_not_connect_give_no_number(dbms: str, tmp_path: Path) -> None:
    """mysqlslap ends with success all the same, and tells a time."""
    with serving(dbms, tmp_path) as here:
        here.ask("SET GLOBAL max_user_connections = 6")  # two are ours, and mysqlslap has one more than its clients
        blocking = here.server.connect("rqps_innodb")
        parameters = asked(queries=10)
        with here.at_work("innodb.pk@4", parameters) as load:
            with blocking.cursor() as cursor:
                cursor.execute("SET GLOBAL max_user_connections = 4")
                cursor.execute("LOCK TABLES foo WRITE")
            unlock = threading.Timer(2, blocking.close)
            unlock.start()
            load.wait_for_end()
            unlock.join()
            load.wait_until_gone()
        answer = here.workload.answers("innodb.pk@4", parameters, load)[0]
        assert answer.columns["operations"] == 20
        assert answer.columns["errors"] == 20 + load.counted.refused
        first, second = (warning.text for warning in answer.warnings if warning.kind == "errors")
        assert first.startswith("the server ran 20 of 40 queries: mysqlslap: Error when connecting")
        assert second.startswith("20 connections were refused and repeated")


def test_queries_that_fail_are_none(house: Lookups) -> None:
    with house.at_work("memory.pk@4", asked()) as load:
        house.ask("RENAME TABLE rqps_memory.foo TO rqps_memory.gone")
        load.wait_for_end()
        load.wait_until_gone()
    house.ask("RENAME TABLE rqps_memory.gone TO rqps_memory.foo")
    answer = house.workload.answers("memory.pk@4", asked(), load)[0]
    columns = answer.columns
    assert (columns["operations"], columns["operations_per_s"], columns["errors"]) == (0, None, 800)
    assert columns["elapsed_s"] > 0
    assert answer.warnings[0].text.startswith(
        "the server ran 0 of 800 queries: mysqlslap: Cannot run query select j from foo where i = 100"
    )


def test_more_clients_than_connections_are_refused_before_anything(house: Lookups) -> None:
    with pytest.raises(RqpsError, match="max_connections is 151; 149 clients and 3 further") as caught:
        PointLookups().prepare(house.server, asked(clients=[1, 149]))
    assert "set max_connections to 152 or more" in str(caught.value.fix)


@pytest.mark.parametrize(
    ("engine", "words"),
    [("innodbb", "'innodbb': it has no such engine"), ("federated", "'federated': it was built without it")],
)
def test_a_missing_storage_engine_is_reported(engine: str, words: str, house: Lookups) -> None:
    _is_refused(house, engine, words)


@pytest.mark.parametrize(
    ("dbms", "options", "engine", "words"),
    [
        ("my5624.common", {}, "tokudb", "'tokudb': it has no such engine"),
        ("my8033.common", {"disabled_storage_engines": "MEMORY"}, "memory", "'memory': its config disables it"),
    ],
)
def test_a_disabled_storage_engine_is_reported(
    dbms: str, options: dict[str, Any], engine: str, words: str, tmp_path: Path
) -> None:
    with serving(dbms, tmp_path, asked(engines=["memory"]), options, checked=False) as here:
        _is_refused(here, engine, words)


def _is_refused(house: Lookups, engine: str, words: str) -> None:
    with pytest.raises(RqpsError, match=re.escape(words)) as caught:
        PointLookups().prepare(house.server, asked(engines=[engine]))
    assert "this server has" in str(caught.value.fix)
    assert "myisam" in str(caught.value.fix)
    assert engine not in str(caught.value.fix).split("has ")[1].split(", ")


def test_a_memory_table_that_grows_too_large_is_reported(tmp_path: Path) -> None:
    parameters = asked(engines=["memory"], table_rows=128_000)
    with (
        serving("my5624.common", tmp_path, parameters, {"max_heap_table_size": "1M"}, checked=False) as here,
        pytest.raises(
            RqpsError, match=r"a table of 128000 rows with engine memory: the server \S+ refused .*: 1114, .* full"
        ) as reported,
    ):
        PointLookups().prepare(here.server, parameters)
    assert str(reported.value.fix).startswith("set max_heap_table_size in the config to more")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lookups]:
    with serving("my5624.common", tmp_path_factory.mktemp("older"), asked(engines=["innodb"]), checked=False) as here:
        yield here


@pytest.mark.parametrize(
    ("change", "back", "words"),
    [
        (
            "RENAME TABLE foo TO mysql.foo",
            "RENAME TABLE mysql.foo TO foo",
            "engine: asked for innodb, found no such table",
        ),
        (
            "ALTER TABLE foo ENGINE = MyISAM",
            "ALTER TABLE foo ENGINE = InnoDB",
            "engine: asked for innodb, found myisam",
        ),
        (
            "ALTER TABLE foo DROP INDEX xjk",
            "ALTER TABLE foo ADD INDEX xjk (j, k)",
            "indexes: asked for PRIMARY (i), xj (j), xjk (j, k), found PRIMARY (i), xj",
        ),
        (
            "ALTER TABLE foo MODIFY l BIGINT",
            "ALTER TABLE foo MODIFY l INT",
            "columns: asked for i int, j int, k int, l int, found i int, j int, k int",
        ),
        ("DELETE FROM foo WHERE i = 7", "INSERT INTO foo VALUES (7, 7, 7, 0)", "rows: asked for 2000, found 1999"),
        (
            "UPDATE foo SET k = 0 WHERE i = 7",
            "UPDATE foo SET k = 7 WHERE i = 7",
            "rows with j = i and k = i: asked for 2000, found 1999",
        ),
    ],
)
def test_a_table_that_was_prepared_otherwise_is_refused(change: str, back: str, words: str, older: Lookups) -> None:
    parameters = asked(engines=["innodb"])
    older.ask("USE rqps_innodb", change)
    try:
        with pytest.raises(RqpsError, match=re.escape(f"rqps_innodb.foo: {words}")):
            PointLookups().prepare(older.server, parameters)
    finally:
        older.ask("USE rqps_innodb", back)
    PointLookups().prepare(older.server, parameters)


def test_more_rows_than_were_loaded_are_missed(house: Lookups) -> None:
    with pytest.raises(RqpsError, match=r"rqps_innodb\.foo: rows: asked for 4000, found 2000"):
        PointLookups().prepare(house.server, asked(engines=["innodb"], table_rows=4000))


def test_a_mysqlslap_that_is_too_old_for_the_server_is_reported(house: Lookups) -> None:
    with pytest.raises(
        RqpsError, match=r"mysqlslap 5\.5\.34 can't put load on MySQL 8\.0\.33: mysqlslap: Error"
    ) as reported:
        house.do("innodb.pk@1", asked(mysqlslap="5.5.34", warmup_queries=1))
    assert "give another mysqlslap in the study's parameters" in str(reported.value.fix)


def test_a_mysqlslap_that_is_killed_fails_the_step(house: Lookups) -> None:
    with house.at_work("innodb.pk@1", asked(queries=10_000_000)) as load:
        load.process.kill()
        with pytest.raises(RqpsError, match=r"innodb\.pk@1: mysqlslap ended with code -9"):
            load.wait_for_end()


def test_a_server_that_dies_is_reported_before_mysqlslap_that_lost_it(tmp_path: Path) -> None:
    endless = asked(queries=10_000_000)
    disorder = pytest.raises(RqpsError, match="did not stop in order, it ended by SIGKILL")
    with disorder, serving("my5624.common", tmp_path) as here, here.at_work("innodb.pk@1", endless) as load:
        os.kill(here.server.pid, signal.SIGKILL)
        with pytest.raises(RqpsError, match=r"innodb\.pk@1: the server \S+ ended in the middle of it, by SIGKILL"):
            load.wait_for_end()
