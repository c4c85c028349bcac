"""Every step on a real server: which statements reach it, how many, and by which index they are read.

What is expected is written here once more, by hand and from the published definitions, in the words of `shape()`.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rqps.errors import RqpsError
from rqps.run.job import resolve
from rqps.run.ready import loaded_data
from rqps.servers import data, instance
from rqps.servers.instance import Server, query
from rqps.study import Run, read_runs_file, unfold
from rqps.workloads.protocol import Answer
from rqps.workloads.sysbench import check, flush
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import expand, find, is_measured
from rqps.workloads.sysbench.workload import Sysbench

pytestmark = pytest.mark.live

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"
RUNS = {run.dbms: run for run in unfold(read_runs_file(RUNS_YAML), "releases", "test")}
ROWS = 20_000
LABELS = [name for name in expand(("all",)) if is_measured(name)]
POINTS = ["SELECT c FROM t WHERE id = N"] * 10
SIMPLE = "SELECT c FROM t WHERE id BETWEEN N AND N+{}"
SUM = "SELECT SUM(k) FROM t WHERE id BETWEEN N AND N+{}"
ORDER = "SELECT c FROM t WHERE id BETWEEN N AND N+{} ORDER BY c"
DISTINCT = "SELECT DISTINCT c FROM t WHERE id BETWEEN N AND N+{} ORDER BY c"
INDEX = "UPDATE t SET k = k + 1 WHERE id = N"
NONINDEX = "UPDATE t SET c = 'C119' WHERE id = N"
WRITES = [
    INDEX,
    NONINDEX,
    "DELETE FROM t WHERE id = N",
    "INSERT INTO t (id, k, c, pad) VALUES (N, N, 'C119', 'C59')",
]


def ranges(rows: int) -> list[str]:
    return [text.format(rows - 1) for text in (SIMPLE, SUM, ORDER, DISTINCT)]


EXPECTED = {
    "point-query_range=100": ["SELECT c FROM t WHERE id = N"],
    "random-points_range=10": ["SELECT c FROM t WHERE id IN (10 N)"],
    "random-points_range=100": ["SELECT c FROM t WHERE id IN (100 N)"],
    "random-points_range=1000": ["SELECT c FROM t WHERE id IN (1000 N)"],
    "hot-points_range=100": ["SELECT c FROM t WHERE id IN (100 N)"],
    "points-covered-pk_range=100": ["SELECT id FROM t WHERE id IN (100 N)"],
    "points-notcovered-pk_range=100": ["SELECT id, c FROM t WHERE id IN (100 N)"],
    "points-covered-si_range=100": ["SELECT k FROM t WHERE k IN (100 N)"],
    "points-notcovered-si_range=100": ["SELECT k, c FROM t WHERE k IN (100 N)"],
    "range-covered-pk_range=100": ["SELECT id FROM t WHERE id BETWEEN N AND N+100"],
    "range-notcovered-pk_range=100": ["SELECT id, c FROM t WHERE id BETWEEN N AND N+100"],
    "range-covered-si_range=100": ["SELECT k FROM t WHERE k BETWEEN N AND N+100"],
    "range-notcovered-si_range=100": ["SELECT k, c FROM t WHERE k BETWEEN N AND N+100"],
    "read-only_range=10": ["BEGIN", *POINTS, *ranges(10), "COMMIT"],
    "read-only_range=100": ["BEGIN", *POINTS, *ranges(100), "COMMIT"],
    "read-only_range=10000": ["BEGIN", *POINTS, *ranges(10_000), "COMMIT"],
    "read-only-simple_range=1000": ["BEGIN", *POINTS, SIMPLE.format(999), "COMMIT"],
    "read-only-sum_range=1000": ["BEGIN", *POINTS, SUM.format(999), "COMMIT"],
    "read-only-order_range=1000": ["BEGIN", *POINTS, ORDER.format(999), "COMMIT"],
    "read-only-distinct_range=1000": ["BEGIN", *POINTS, DISTINCT.format(999), "COMMIT"],
    "read-only-count_range=1000": ["SELECT COUNT(c) FROM t WHERE id BETWEEN N AND N+999"],
    "scan_range=100": ["SELECT * FROM t WHERE LENGTH(c) < 0"],
    "update-inlist_range=100": ["UPDATE t SET c = 'C119' WHERE id IN (10 N)"],
    "update-index_range=100": [INDEX],
    "update-nonindex_range=100": [NONINDEX],
    "update-one_range=100": [NONINDEX],
    "update-zipf_range=100": [NONINDEX],
    "write-only_range=10000": ["BEGIN", *WRITES, "COMMIT"],
    "read-write_range=10": ["BEGIN", *POINTS, *ranges(10), *WRITES, "COMMIT"],
    "read-write_range=100": ["BEGIN", *POINTS, *ranges(100), *WRITES, "COMMIT"],
    "delete_range=100": ["DELETE FROM t WHERE id = N"],
    "insert_range=100": ["INSERT INTO t (id, k, c, pad) VALUES (0, N, 'C119', 'C59')"],
}


def shape(statement: str) -> str:
    """A statement with its values as N and C, with their number and distance."""

    def distance(found: re.Match[str]) -> str:
        return f"BETWEEN N AND N+{int(found[2]) - int(found[1])}"

    def count(found: re.Match[str]) -> str:
        return f"IN ({found[1].count(',') + 1} N)"

    text = re.sub(r"sbtest\d+", "t", statement)
    text = re.sub(r"'((?:\d{11}-)+\d{11})'", lambda found: f"'C{len(found[1])}'", text)
    text = re.sub(r"BETWEEN (\d+) AND (\d+)", distance, text)
    text = re.sub(r"IN \(([\d, ]+)\)", count, text)
    text = re.sub(r"id = \d+", "id = N", text)
    return re.sub(r"VALUES \((\d+), \d+,", lambda found: f"VALUES ({'0' if found[1] == '0' else 'N'}, N,", text)


@dataclass(frozen=True)
class Logged:
    """What the general log has of a connection of the load."""

    command: str
    statement: str


@dataclass(frozen=True)
class House:
    """A server with its general log on."""

    server: Server
    folder: Path

    def do(self, name: str, seed: int = 1, **parameters: Any) -> tuple[Answer, dict[str, list[Logged]]]:
        """A step done for a moment: its answer, and what was logged by connection."""
        asked = SysbenchParameters(
            steps=(name,), tables=2, table_rows=ROWS, **{"seconds": 1, "warmup_seconds": 0, **parameters}
        )
        connection = self.server.connect()
        log = self.folder / "general.log"
        log.unlink(missing_ok=True)
        for order in (f"general_log_file = '{log}'", "log_output = 'FILE'", "general_log = ON"):
            query(connection, f"SET GLOBAL {order}")
        workload = Sysbench()
        with workload.generating(
            self.server, name, asked, seed=seed, cpus=(), log=self.folder / "sysbench.log"
        ) as load:
            load.wait_for_begin()
            load.wait_for_end()
            load.wait_until_gone()
        query(connection, "SET GLOBAL general_log = OFF")
        connection.close()
        return workload.answer(name, asked, load), _logged(log)


def _logged(log: Path) -> dict[str, list[Logged]]:
    found: dict[str, list[Logged]] = {}
    entry = re.compile(r"^(?:\S*[ \t].*?)?\s(\d+) (Execute|Query|Prepare)\t(.*)$")
    for line in log.read_text(errors="replace").splitlines():
        if (told := entry.match(line)) and not told[3].startswith(("SET ", "SHOW ")):
            found.setdefault(told[1], []).append(Logged(told[2], told[3]))
    return found


def done(logged: dict[str, list[Logged]]) -> list[str]:
    """The statements of a load with one thread."""
    (entries,) = logged.values()
    return [entry.statement for entry in entries if entry.command != "Prepare"]


def prepared_data(dbms: str, folder: Path) -> tuple[Any, tuple[str, ...], Path]:
    asked = SysbenchParameters(steps=("insert",), tables=2, table_rows=ROWS)
    run = Run(**{**vars(RUNS[dbms]), "parameters": asked})
    build, translated = resolve(run, print)
    copied = folder / "data"
    data.copy(loaded_data(run, build, print), copied)
    return build, translated.arguments, copied


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("statements")
    build, arguments, copied = prepared_data("my8033.base", folder)
    with instance.running(build, copied, arguments=arguments, log=folder / "mysqld.err") as server:
        yield House(server, folder)
    shutil.rmtree(folder, ignore_errors=True)


def test_what_is_expected_is_every_step_there_is() -> None:
    assert set(EXPECTED) == {label.replace(".pre", "") for label in LABELS}


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("label", EXPECTED)
def test_a_step_does_the_published_statements(label: str, prepared: bool, house: House) -> None:
    answer, logged = house.do(label, prepared=prepared)
    expected = EXPECTED[label]
    (entries,) = logged.values()
    statements = [entry for entry in entries if entry.command != "Prepare"]
    transactions = len(statements) // len(expected)
    assert [shape(entry.statement) for entry in statements] == expected * transactions
    assert answer.columns["transactions"] == sum(row["transactions"] for row in answer.intervals)
    # The last transaction ends after the measured part and is not counted, unless the part ends with it.
    assert transactions - answer.columns["transactions"] == (0 if find(label).whole else 1)
    per_transaction = ROWS if label == "scan_range=100" else len(expected)
    assert answer.columns["operations"] == answer.columns["transactions"] * per_transaction > 0
    as_text = {"BEGIN"} if prepared and find(label).prepared else set(expected)
    for entry in statements:
        assert (entry.command == "Query") == (shape(entry.statement) in as_text), entry


def test_both_tables_are_used_and_ten_points_stay_on_one(house: House) -> None:
    _, logged = house.do("read-write_range=10")
    blocks: Counter[tuple[str, ...]] = Counter()
    for begin, transaction in _transactions(done(logged), 20):
        assert begin == "BEGIN"
        tables = [re.findall(r"sbtest(\d)", statement)[0] for statement in transaction[1:-1]]
        assert len(set(tables[:10])) == 1
        assert tables[16] == tables[17], "a row is inserted into the table that it was deleted from"
        deleted, inserted = transaction[17], transaction[18]
        assert re.findall(r"id = (\d+)", deleted) == re.findall(r"VALUES \((\d+),", inserted)
        blocks[tuple(tables[9:15])] += 1
    assert len(blocks) > 8, "every statement draws its table"


def _transactions(statements: list[str], length: int) -> Iterator[tuple[str, list[str]]]:
    for start in range(0, len(statements) - length + 1, length):
        yield statements[start], statements[start : start + length]


def test_hot_points_and_update_one_always_find_the_same_rows(house: House) -> None:
    _, logged = house.do("hot-points")
    middle = ", ".join(str(ROWS // 2 + i) for i in range(1, 101))
    assert {re.findall(r"IN \((.*)\)", statement)[0] for statement in done(logged)} == {middle}
    _, logged = house.do("update-one")
    assert {statement.rpartition("WHERE ")[2] for statement in done(logged)} == {"id = 1"}


def test_zipf_draws_ids_as_often_as_the_law_says(house: House) -> None:
    _, logged = house.do("update-zipf")
    drawn = Counter(int(statement.rpartition(" = ")[2]) for statement in done(logged))
    total = drawn.total()
    weights = [n**-0.8 for n in range(1, ROWS + 1)]
    assert min(drawn) >= 1
    assert max(drawn) <= ROWS
    for first, last in pairwise((0, 1, 2, 5, 20, 100, 1000, ROWS)):
        share = sum(weights[first:last]) / sum(weights)
        found = sum(count for number, count in drawn.items() if first < number <= last)
        assert abs(found - share * total) < 5 * (total * share * (1 - share)) ** 0.5, (first, last)


def test_uniform_ids_reach_all_of_the_table(house: House) -> None:
    _, logged = house.do("random-points_range=1000")
    ids = [int(number) for statement in done(logged) for number in re.findall(r"\d+", statement.partition("IN")[2])]
    assert 1 <= min(ids) < ROWS / 100
    assert ROWS * 99 / 100 < max(ids) <= ROWS
    assert abs(sum(ids) / len(ids) - ROWS / 2) < 5 * ROWS / (12 * len(ids)) ** 0.5


@pytest.mark.parametrize(
    "label",
    ["point-query", "random-points_range=10", "read-write_range=10", "update-zipf", "insert", "update-inlist"],
)
def test_a_seed_gives_the_same_statements_again(label: str, house: House) -> None:
    one, again, unprepared, other = (
        done(house.do(label, seed=seed, prepared=prepared)[1])
        for seed, prepared in ((7, True), (7, True), (7, False), (8, True))
    )
    both = min(len(one), len(again), len(unprepared))
    assert both > 20
    assert one[:both] == again[:both] == unprepared[:both]
    assert one[:both] != other[:both]


def test_each_thread_scans_its_own_table_and_whole_scans_only(house: House) -> None:
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
    assert columns["elapsed_s"] < 1 + columns["latency_max_us"] / 1e6
    assert columns["operations_per_s"] == columns["operations"] / columns["elapsed_s"]
    assert columns["warmup_s"] == 0


def test_a_step_that_comes_to_nothing_gives_no_number(house: House) -> None:
    asked = SysbenchParameters(steps=("update-index",), tables=2, table_rows=ROWS, seconds=1, warmup_seconds=0)
    blocking = house.server.connect("rqps")
    query(blocking, "LOCK TABLES sbtest1 WRITE, sbtest2 WRITE")
    workload = Sysbench()
    with workload.generating(
        house.server, "update-index", asked, seed=1, cpus=(), log=house.folder / "sysbench.log"
    ) as load:
        load.wait_for_begin()
        load.wait_for_end()
        query(blocking, "UNLOCK TABLES")
        load.wait_until_gone()
    columns = workload.answer("update-index", asked, load).columns
    assert (columns["operations"], columns["transactions"], columns["operations_per_s"]) == (0, 0, None)
    assert {value for name, value in columns.items() if name.startswith("latency")} == {None}


def test_a_flush_and_a_warm_up_come_before_the_step_and_leave_no_number(house: House) -> None:
    asked = SysbenchParameters(
        steps=("update-index", "flush", "scan.warm", "scan"), tables=2, table_rows=ROWS, seconds=1, warmup_seconds=0
    )
    assert Sysbench().steps(asked) == ("update-index", "scan")
    house.do("update-index")
    connection = house.server.connect()
    had = query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
    scans = f"SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest WHERE {SCANNING}"
    query(connection, "TRUNCATE performance_schema.events_statements_summary_by_digest")
    with Sysbench().generating(
        house.server, "scan", asked, seed=1, cpus=(), log=house.folder / "03-scan.log"
    ) as load:
        status = dict(query(connection, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_%'"))
        assert query(connection, scans)[0][0] == 2, "both tables were scanned in the warm-up"
        load.wait_for_begin()
        load.wait_for_end()
        load.wait_until_gone()
    assert query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had
    assert int(status["Innodb_buffer_pool_pages_dirty"]) <= 0.01 * int(status["Innodb_buffer_pool_pages_total"])
    assert (house.folder / "03-scan.before1.log").exists()


SCANNING = "digest_text LIKE 'SELECT * FROM%LENGTH%'"


def test_a_flush_that_can_not_end_fails_and_sets_the_options_back(house: House) -> None:
    asked = SysbenchParameters(steps=("insert",), tables=2, table_rows=ROWS, flush_seconds=1)
    reading, control = house.server.connect("rqps"), house.server.connect()
    query(reading, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    query(reading, "SELECT COUNT(*) FROM sbtest1")  # holds up purge
    house.do("update-index")
    had = query(control, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
    with pytest.raises(RqpsError, match=r"flush: not done within 1 s: .* transactions are not purged, 100 may be"):
        flush.flush(house.server, asked)
    assert query(control, "SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had
    reading.close()
    flush.flush(house.server, asked.model_copy(update={"flush_seconds": 60}))
    assert flush.transactions_unpurged(control) <= 100


def test_more_threads_than_connections_are_refused_before_the_first_step(house: House) -> None:
    asked = SysbenchParameters(steps=("insert",), tables=2, table_rows=ROWS, threads=150)
    with pytest.raises(RqpsError, match="max_connections is 151, and 150 threads are asked for") as caught:
        Sysbench().prepare(house.server, asked)
    assert caught.value.fix
    assert "set max_connections to 152 or more" in caught.value.fix


def test_tables_are_loaded_with_the_same_rows_again(tmp_path: Path) -> None:
    build, arguments, copied = prepared_data("my8033.base", tmp_path)
    asked = SysbenchParameters(steps=("insert",), tables=2, table_rows=ROWS)
    with instance.running(build, copied, arguments=arguments, log=tmp_path / "mysqld.err") as server:
        connection = server.connect()
        rows = query(connection, "CHECKSUM TABLE rqps.sbtest1, rqps.sbtest2")
        query(connection, "DROP DATABASE rqps")
        Sysbench().load(server, asked)
        assert query(connection, "CHECKSUM TABLE rqps.sbtest1, rqps.sbtest2") == rows
        assert rows[0][1] != rows[1][1], "two tables are not the same rows"
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("dbms", ["my5534.base", "my5614.base", "my5624.base", "my8033.base", "my97.base"])
def test_each_version_reads_by_the_index_and_flushes(dbms: str, tmp_path: Path) -> None:
    build, arguments, copied = prepared_data(dbms, tmp_path)
    with instance.running(build, copied, arguments=arguments, log=tmp_path / "mysqld.err") as server:
        connection = server.connect()
        asked = SysbenchParameters(steps=("all",), tables=2, table_rows=ROWS, seconds=1, warmup_seconds=0)
        Sysbench().prepare(server, asked)
        for label in LABELS:
            check.check_plan(connection, find(label))
        here = House(server, tmp_path)
        here.do("write-only")
        had = query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
        flush.flush(server, asked)
        assert query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'") == had
        answer, logged = here.do("read-write_range=10")
        assert [shape(statement) for statement in done(logged)[:20]] == EXPECTED["read-write_range=10"]
        assert answer.columns["errors"] == 0
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE sbtest2", "rqps: asked for 2 tables, found 1"),
        ("CREATE TABLE sbtest3 LIKE sbtest1", "rqps: asked for 2 tables, found 3"),
        ("ALTER TABLE sbtest2 ENGINE = MyISAM", "rqps.sbtest2: asked for engine InnoDB, found MyISAM"),
        ("ALTER TABLE sbtest2 DROP INDEX k_2", "sbtest2: asked for indexes PRIMARY id, k_2 k, found PRIMARY id"),
        ("ALTER TABLE sbtest1 MODIFY c CHAR(60) NOT NULL", "asked for columns .*c char.120.*, found .*c char.60."),
        ("DELETE FROM sbtest1 WHERE id = 7", "sbtest1: asked for 20000 rows, found 19999"),
        ("UPDATE sbtest1 SET id = 30000 WHERE id = 7", "asked for ids 1 to 20000, found 1 to 30000"),
    ],
)
def test_tables_that_were_prepared_otherwise_are_refused(change: str, words: str, tmp_path: Path) -> None:
    build, arguments, copied = prepared_data("my5624.base", tmp_path)
    with instance.running(build, copied, arguments=arguments, log=tmp_path / "mysqld.err") as server:
        connection = server.connect("rqps")
        query(connection, "SET sql_mode = ''")
        query(connection, change)
        asked = SysbenchParameters(steps=("insert",), tables=2, table_rows=ROWS)
        with pytest.raises(RqpsError, match=words):
            Sysbench().prepare(server, asked)
    shutil.rmtree(tmp_path, ignore_errors=True)
