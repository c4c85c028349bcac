"""Before and after a step on a real server: flushes, warm-ups, whole scans, and steps that come to nothing."""

from collections.abc import Iterator

import pytest
from live_load import ROWS, Sysbenched, asked, logging_server
from rqps.engines.mysql.innodb import read_debt
from rqps.engines.mysql.instance import query
from rqps.errors import RqpsError
from rqps.workloads.sysbench.generator import Generator
from rqps.workloads.sysbench.steps import find
from rqps.workloads.sysbench.workload import flush

pytestmark = pytest.mark.live

SCANNING = "digest_text LIKE 'SELECT * FROM%LENGTH%'"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sysbenched]:
    with logging_server(tmp_path_factory.mktemp("steps")) as running:
        yield running


def test_each_thread_scans_its_own_table_and_whole_scans_only(house: Sysbenched) -> None:
    answer, logged = house.do("scan", threads=2)
    assert {entry.statement for entries in logged.values() for entry in entries} == {
        f"SELECT * FROM sbtest{number} WHERE LENGTH(c) < 0" for number in (1, 2)
    }
    assert all(len({entry.statement for entry in entries}) == 1 for entries in logged.values())
    columns = answer.columns
    assert columns["unit"] == "row"
    assert (
        columns["transactions"]
        == sum(map(len, logged.values()))
        == sum(row["transactions"] for row in answer.intervals)
    )
    assert columns["operations"] == ROWS * columns["transactions"]
    assert columns["elapsed_s"] > 1
    assert columns["operations_per_s"] == columns["operations"] / columns["elapsed_s"]
    assert columns["warmup_s"] == 0


def test_many_threads_of_few_counted_transactions_all_come_to_do_theirs(house: Sysbenched) -> None:
    parameters = asked("point-query", threads=64, counted_operations=64)
    for time in range(5):  # the first have ended when the last begin
        log = house.folder / f"{time}.log"
        step = find("point-query")
        with Generator((house.server,), step, parameters, seed=1, cpus=(), log=log, counted=True) as load:
            load.patience_s = 60
            load.wait_for_all()
            assert len(load.moments_ns["ended"]) == 64


def test_a_step_of_a_training_ends_with_its_statements(house: Sysbenched) -> None:
    answer, _ = house.do("point-query", threads=2, operations=600)
    step, parameters = find("point-query"), asked("point-query", operations=600)
    assert answer.columns["transactions"] == parameters.transactions_of(step) > 500
    with pytest.raises(RqpsError, match="measured for a number of seconds, not of operations"):
        Generator((house.server, house.server), step, parameters, seed=1, cpus=(), log=house.folder / "two.log")


def test_a_step_that_comes_to_nothing_gives_no_number(house: Sysbenched) -> None:
    lock, parameters = "LOCK TABLES sbtest1 WRITE, sbtest2 WRITE", asked("update-index")
    with house.holding(lock) as blocking, house.at_work("update-index", parameters) as load:
        load.wait_for_end()
        query(blocking, "UNLOCK TABLES")
        load.wait_until_gone()
    columns = house.workload.answers("update-index", parameters, load)[0].columns
    assert (columns["operations"], columns["transactions"], columns["operations_per_s"]) == (0, 0, None)
    assert {value for name, value in columns.items() if name.startswith("latency")} == {None}


def test_a_flush_and_a_warm_up_come_before_the_step_and_leave_no_number(house: Sysbenched) -> None:
    parameters = asked("update-index", "flush", "scan.warm", "scan")
    assert house.workload.steps(parameters) == ("update-index", "scan")
    house.do("update-index")
    connection = house.server.connect()
    had = query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
    scans = f"SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest WHERE {SCANNING}"
    query(connection, "TRUNCATE performance_schema.events_statements_summary_by_digest")
    with house.at_work("scan", parameters) as load:
        status = dict(query(connection, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_%'"))
        assert query(connection, scans)[0][0] == 2, "both tables were scanned in the warm-up"
        load.wait_for_end()
        load.wait_until_gone()
    assert query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had
    assert int(status["Innodb_buffer_pool_pages_dirty"]) <= 0.01 * int(status["Innodb_buffer_pool_pages_total"])
    assert (house.folder / "scan.before1.log").exists()


def test_a_flush_comes_before_a_step_of_several_numbers_of_clients(house: Sysbenched) -> None:
    parameters = asked("update-index", "flush", "point-query", threads=(1, 2))
    answer, _ = house.done("point-query@2", parameters)
    assert answer.columns["operations"] > 0


def test_a_flush_that_can_not_end_fails_and_sets_the_options_back(house: Sysbenched) -> None:
    parameters = asked("insert", flush_seconds=1)
    reading, control = house.server.connect("rqps"), house.server.connect()
    query(reading, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    query(reading, "SELECT COUNT(*) FROM sbtest1")  # holds up purge
    house.do("update-index")
    had = query(control, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
    with pytest.raises(RqpsError, match=r"flush of my8033: not done within 1 s: .* are not purged, 100 may be"):
        flush(house.server, parameters)
    assert query(control, "SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had
    reading.close()
    flush(house.server, parameters.model_copy(update={"flush_seconds": 60}))
    assert read_debt(control)["history_length"] <= 100
