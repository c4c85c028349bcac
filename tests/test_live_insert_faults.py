"""The insert benchmark where a server is late, refuses a statement, has much put off, or other tables than due."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from child import until
from live_inserts import Inserts, asked, empty_server
from rqps.engines.mysql.innodb import left
from rqps.engines.mysql.instance import query
from rqps.errors import RqpsError
from rqps.scratch import IN_USE, PREFIX
from rqps.workloads import Answer
from rqps.workloads.insert_benchmark.generator import MEMORY
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.settling import settle
from rqps.workloads.insert_benchmark.steps import find
from rqps.workloads.insert_benchmark.workload import explained

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inserts]:
    with empty_server(tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.fixture
def house(server: Inserts) -> Inserts:
    server.empty()
    return server


def put_off(house: Inserts, parameters: InsertBenchmarkParameters, seconds: float) -> Answer:
    """The step qp100, in which nobody can write for so long from its beginning."""
    with house.holding("LOCK TABLES pi1 READ") as blocking, house.at_work("qp100", parameters) as load:
        time.sleep(seconds)
        query(blocking, "UNLOCK TABLES")
        load.wait_for_end()
        load.wait_until_gone()
    return house.workload.answers("qp100", parameters, load)[0]


def operations(text: Answer, kind: str) -> int:
    return sum(row["operations"] for row in text.intervals if row["kind"] == kind)


def test_the_memory_of_a_load_is_in_a_folder_that_the_next_one_sweeps(house: Inserts) -> None:
    with house.at_work("l.i0", asked()) as load:
        words = Path(f"/proc/{load.pid}/cmdline").read_text().split("\0")
        (shared,) = (Path(word.partition("=")[2]).parent for word in words if word.startswith("--shared-file="))
        assert shared.match(f"{MEMORY}/{PREFIX}*")
        assert sorted(path.name for path in shared.iterdir()) == ["clients", IN_USE]
        load.wait_for_end()
        load.wait_until_gone()
    assert not shared.exists()


def test_what_is_late_is_forgiven_or_made_up_for(house: Inserts) -> None:
    house.do_all(asked(), "qr100")
    late, elapsed_s = {}, {}
    for limiter in ("forgiving", "catching-up"):
        answer = put_off(house, asked(seconds=3, limiter=limiter), 1.5)
        due = [row for row in answer.latencies if row["kind"] == "insert due" and row["from_us"] > 4e5]
        late[limiter], elapsed_s[limiter] = sum(row["transactions"] for row in due), answer.columns["elapsed_s"]
        assert operations(answer, "insert") == 300
    assert late["forgiving"] >= 2, "all that was due while nobody could write"
    assert elapsed_s["forgiving"] > 3.4, "the second that came too late begins anew"
    assert late["catching-up"] >= 4, "those of the next second are late as well"


def test_a_lock_that_is_waited_for_too_long_is_counted_and_asked_for_again(house: Inserts) -> None:
    parameters = asked()
    house.do_all(parameters, "l.x")
    house.ask("SET GLOBAL innodb_lock_wait_timeout = 1")
    lock = "SELECT transactionid FROM pi1 ORDER BY transactionid LIMIT 10 FOR UPDATE"
    met = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_timeouts'"
    before = house.ask(met)
    with house.holding("BEGIN", lock) as holding, house.at_work("l.i1", parameters) as load:
        until(lambda: house.ask(met) != before)
        query(holding, "ROLLBACK")
        load.wait_for_end()
        load.wait_until_gone()
    house.ask("SET GLOBAL innodb_lock_wait_timeout = 50")
    answer = house.workload.answers("l.i1", parameters, load)[0]
    assert answer.columns["retries"] >= 1
    assert (
        sum(row["retries"] for row in answer.more["clients"] if row["kind"] == "delete") == answer.columns["retries"]
    )
    assert [warning.kind for warning in answer.warnings] == ["retries"]
    assert house.ask("SELECT COUNT(*) FROM rqps.pi1") == [(3100,)]


def test_a_deadlock_is_counted_and_done_again(house: Inserts) -> None:
    """Of a delete that has locked its first rows and waits for the last, when the holder of that asks for the first.
    The holder has changed more rows, so the server refuses the delete."""
    parameters = asked()
    house.do_all(parameters, "l.x")
    met = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
    ((before,),), last = house.ask(met), parameters.write_rows_per_transaction
    change = "UPDATE pi1 SET data = 'changed' WHERE transactionid"
    with (
        house.holding("BEGIN", f"{change} BETWEEN 1001 AND 2000", f"{change} = {last}") as holding,
        house.at_work("l.i1", parameters) as load,
    ):
        while not house.ask("SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"):
            time.sleep(0.2)  # the server keeps its answer as it was while it is asked more often than every 0.1 s
        query(holding, f"{change} = 1")
        query(holding, "ROLLBACK")
        load.wait_for_end()
        load.wait_until_gone()
    answer = house.workload.answers("l.i1", parameters, load)[0]
    assert house.ask(met) == [(before + 1,)]
    # One is the deadlock's; on a busy machine locks may be waited for too long as well.
    retries = {row["kind"]: row["retries"] for row in answer.more["clients"] if row["retries"]}
    assert retries.keys() == {"delete"}
    assert answer.columns["retries"] == retries["delete"] >= 1
    assert [warning.kind for warning in answer.warnings] == ["retries"]
    assert house.ask("SELECT COUNT(*) FROM rqps.pi1") == [(3100,)]


def test_any_other_error_fails_the_step_with_what_the_server_said(house: Inserts) -> None:
    parameters = asked(clients=2, seconds=20)
    house.do_all(parameters, "l.i2")
    with house.at_work("qr100", parameters) as load:
        house.ask("DROP TABLE rqps.pi2")
        with pytest.raises(RqpsError, match=r"qr100: .*\n?.*Table 'rqps.pi2' doesn't exist"):
            load.wait_for_end()
    assert load.process.poll() is not None


def test_too_few_connections_are_reported_before_the_first_step(house: Inserts) -> None:
    house.ask("SET GLOBAL max_connections = 10")
    with pytest.raises(RqpsError, match="max_connections is 10; 3 clients and"):
        house.workload.prepare(house.server, asked(clients=3))
    house.ask("SET GLOBAL max_connections = 151")


def test_what_can_not_settle_is_reported(house: Inserts) -> None:
    parameters = asked(small_write_rows_per_transaction=1, wait_seconds=2)
    house.do_all(parameters, "l.i1")
    with house.holding("START TRANSACTION WITH CONSISTENT SNAPSHOT"):  # so that nothing is purged
        house.do("l.i2", parameters)
        had = house.ask("SHOW GLOBAL VARIABLES LIKE 'innodb%'")
        answer = house.do("qr100", parameters)
    *settling, before, _ = answer.more["engine"]
    assert {row["moment"] for row in settling} == {"settling"}
    assert settling[-1]["second"] >= 2
    assert before["waited_s"] >= 2
    assert before["history_length"] > 100
    (warning,) = (warning for warning in answer.warnings if warning.kind == "not settled")
    assert warning.text.startswith("the debt of earlier steps was not worked off within 2 s")
    assert house.ask("SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had, "all is set back"


def test_the_wait_ends_when_all_is_settled_or_when_it_was_published_to_end(house: Inserts) -> None:
    for wait in ("settled", "published"):
        house.empty()
        parameters = asked(wait=wait, wait_seconds=3, steps=("l.i0", "l.x", "qp100"))
        answer = house.do_all(parameters)["qp100"]
        *_, last, before, _ = answer.more["engine"]
        if wait == "settled":
            assert left(last) == ""
        else:
            assert before["waited_s"] >= 3


def test_looking_at_a_release_that_flushes_only_at_rest_does_not_keep_it_at_work(tmp_path: Path) -> None:
    parameters = asked(load_rows=50_000, write_rows=20_000)
    with empty_server(tmp_path, "my5614.common") as old:
        old.do_all(parameters, "l.i2")
        rows, warnings = settle(old.server, parameters, "qr100")
    assert warnings == []
    assert left(rows[-1]) == ""


def test_tables_of_another_size_are_refused(house: Inserts) -> None:
    house.do("l.i0", asked())
    with pytest.raises(RqpsError, match=r"l.x: rqps.pi1: rows: asked for 5,000, found ids for 3,000"):
        house.do("l.x", asked(load_rows=5000))
    with pytest.raises(RqpsError, match=r"rows: asked for 2,000, found ids for 3,000"):
        house.do("l.x", asked(load_rows=2000))
    with pytest.raises(RqpsError, match="tables: asked for pi1, pi2, found pi1"):
        house.do("l.x", asked(clients=2))
    with pytest.raises(RqpsError, match=r"l.i0 creates the tables, but the server already has pi1 with 3000 rows"):
        house.do("l.i0", asked())
    with pytest.raises(RqpsError, match=r"indexes: asked for PRIMARY .transactionid., pi1_marketsegment"):
        house.do("l.i1", asked())


def test_a_query_that_does_not_use_its_index_alone_is_refused(house: Inserts) -> None:
    house.do_all(asked(), "l.x")
    house.ask("ALTER TABLE rqps.pi1 DROP INDEX pi1_pdc, ADD INDEX pi1_pdc (price, dateandtime)")
    with pytest.raises(RqpsError, match="the step has to read pi1_pdc alone: SELECT price"):
        list(explained(house.server.connect("rqps"), find("qr100", "current"), asked()))
