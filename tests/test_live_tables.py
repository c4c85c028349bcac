"""Conditions that a real server and its tables must meet before the first step."""

from collections.abc import Iterator

import pytest
from live_load import Sysbenched, asked, logging_server
from rqps.engines.mysql.instance import query
from rqps.errors import RqpsError
from rqps.workloads.sysbench.workload import Sysbench

pytestmark = pytest.mark.live

ASKED = asked("insert")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sysbenched]:
    with logging_server(tmp_path_factory.mktemp("tables"), "my5624.common") as running:
        yield running


def test_tables_are_loaded_with_the_same_rows_again(house: Sysbenched) -> None:
    connection = house.server.connect()
    rows = query(connection, "CHECKSUM TABLE rqps.sbtest1, rqps.sbtest2")
    query(connection, "DROP DATABASE rqps")
    Sysbench().load(house.server, ASKED)
    assert query(connection, "CHECKSUM TABLE rqps.sbtest1, rqps.sbtest2") == rows
    assert rows[0][1] != rows[1][1], "two tables are not the same rows"


@pytest.mark.parametrize(
    ("change", "back", "words"),
    [
        (
            "RENAME TABLE sbtest2 TO mysql.sbtest2",
            "RENAME TABLE mysql.sbtest2 TO sbtest2",
            "rqps: tables: asked for 2, found 1",
        ),
        ("CREATE TABLE sbtest3 LIKE sbtest1", "DROP TABLE sbtest3", "rqps: tables: asked for 2, found 3"),
        (
            "ALTER TABLE sbtest2 ENGINE = MyISAM",
            "ALTER TABLE sbtest2 ENGINE = InnoDB",
            "rqps.sbtest2: engine: asked for innodb, found myisam",
        ),
        (
            "ALTER TABLE sbtest2 DROP INDEX k_2",
            "ALTER TABLE sbtest2 ADD INDEX k_2 (k)",
            "sbtest2: indexes: asked for PRIMARY .id., k_2 .k., found PRIMARY .id.",
        ),
        (
            "ALTER TABLE sbtest1 MODIFY pad CHAR(61) NOT NULL",
            "ALTER TABLE sbtest1 MODIFY pad CHAR(60) NOT NULL",
            "columns: asked for .*pad char.60.*, found .*pad char.61.",
        ),
        (
            "DELETE FROM sbtest1 WHERE id = 7",
            "INSERT INTO sbtest1 (id) VALUES (7)",
            "sbtest1: rows: asked for 20000, found 19999",
        ),
        (
            "UPDATE sbtest1 SET id = 30000 WHERE id = 7",
            "UPDATE sbtest1 SET id = 7 WHERE id = 30000",
            "ids: asked for 1 to 20000, found 1 to 30000",
        ),
    ],
)
def test_tables_prepared_otherwise_are_refused(change: str, back: str, words: str, house: Sysbenched) -> None:
    connection = house.server.connect("rqps")
    query(connection, "SET sql_mode = ''")
    query(connection, change)
    try:
        with pytest.raises(RqpsError, match=words):
            Sysbench().prepare(house.server, ASKED)
    finally:
        query(connection, back)
    Sysbench().prepare(house.server, ASKED)


def test_more_threads_than_connections_are_refused_before_the_first_step(house: Sysbenched) -> None:
    with pytest.raises(RqpsError, match="max_connections is 151; 150 threads and") as caught:
        Sysbench().prepare(house.server, ASKED.model_copy(update={"threads": 150}))
    assert caught.value.fix
    assert "set max_connections to 152 or more" in caught.value.fix
