"""A user's own statements on real servers: what reaches them, what comes back, and dumps that can't be loaded."""

import gzip
import json
import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from child import rqps as command
from live_server import House, run_of, server_of
from live_study import Place
from rqps.errors import RqpsError
from rqps.measure.job import read_job
from rqps.report.site import WITHOUT_STATEMENTS
from rqps.store import packing
from rqps.store.read import load as read
from rqps.store.schemas import TABLES
from rqps.study.reading import beside_runs_yaml, look_beside
from rqps.workloads.own import tables_file
from rqps.workloads.own.parameters import OwnParameters
from rqps.workloads.own.workload import Own

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]
SHOP = Path(__file__).parent.parent / "data/shop/shop.sql"


def asked(steps: dict[str, Any], tables: Path = SHOP, **parameters: Any) -> OwnParameters:
    usual = {"tables": str(tables), "seconds": 1, "warmup_seconds": 0, "counted_operations": 200}
    return OwnParameters.model_validate({"steps": steps, **usual, **parameters})


class Shop(House):
    """A server with the shop."""

    workload = Own()

    def do(self, step: Any, **parameters: Any) -> tuple[Any, list[str]]:
        """The answer of a step that is done 200 times, and the statements that came to their end."""
        with self.logging() as entries:
            answer, _ = self.done("step", asked({"step": step}, **parameters), counted=True)
        done = [entry.statement for entry in entries if entry.command in ("Execute", "Query")]
        return answer, [text for text in done if re.match(r"SELECT (?!@@)|UPDATE|INSERT|BEGIN|COMMIT|DELETE", text)]


@pytest.fixture(scope="module", params=["my5624.common", "my8033.common"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with server_of(run_of(request.param, asked({"step": "SELECT 1"}), workload="own"), folder) as server:
        yield Shop(server, folder)


def test_every_value_is_one_of_those_that_were_asked_for(shop: Shop) -> None:
    step = {"sql": "SELECT note FROM orders WHERE id = ?", "values": {"id": "7..9"}, "rows": 1}
    answer, done = shop.do(step)
    assert {int(text.split("=")[1]) for text in done} == {7, 8, 9}
    assert len(done) == 200 + 50, "a quarter more to warm up"
    assert (answer.columns["transactions"], answer.columns["operations"]) == (200, 200)
    assert answer.warnings == ()


def test_a_row_of_a_table_gives_values_that_belong_together(shop: Shop) -> None:
    values = {"city": "customers.city", "id": {"column": "customers.id", "same_row_as": "city"}}
    step = {"sql": "SELECT name FROM customers WHERE id = {id} AND city = {city}", "values": values, "rows": 1}
    for prepared in (True, False):
        _, done = shop.do({**step, "prepared": prepared})
        assert len(set(done)) > 50


def test_a_transaction_has_one_draw_for_all_of_its_statements(shop: Shop) -> None:
    sql = "BEGIN; SELECT state FROM orders WHERE id = {id}; UPDATE orders SET state = {to} WHERE id = {id}; COMMIT"
    values = {"id": {"range": "1..60000", "zipf": 0.8}, "to": ["done", "it's ü\\\"\n"]}
    answer, done = shop.do({"sql": sql, "values": values})
    assert answer.columns["unit"] == "transaction"
    assert answer.columns["transactions"] == 200 / 4, "as many as weigh 200 statements"
    for begin, select, update, commit in zip(*[iter(done)] * 4, strict=True):
        assert (begin, commit) == ("BEGIN", "COMMIT")
        assert re.findall(r"id = (\d+)", select) == re.findall(r"id = (\d+)", update)
    states = {state for (state,) in shop.ask("SELECT DISTINCT state FROM rqps.orders")}
    assert states == {"open", "done", "it's ü\\\"\n"}


def test_a_mix_has_its_weights(shop: Shop) -> None:
    steps = {"one": "SELECT 1", "two": "SELECT 2", "both": {"mix": {"one": 3, "two": 1}}}
    with shop.logging() as entries:
        shop.done("both", asked(steps, counted_operations=4000), counted=True)
    done = [entry.statement for entry in entries if entry.command == "Execute"]
    assert 0.7 < done.count("SELECT 1") / len(done) < 0.8  # 5000 draws: 0.75 with a standard error of 0.006


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"sql": "SELECT note FROM orders WHERE id = ?", "values": {"id": "60001..60002"}, "rows": 1}, "0 rows came"),
        (
            {"sql": "SELECT note FROM orders WHERE id < 9", "rows": "0..7"},
            "8 rows came back, and 0..7 were asked for",
        ),
        ({"sql": "INSERT INTO digits VALUES (1)"}, "doesn't exist"),
        ({"sql": "INSERT INTO customers VALUES (1, 'a', 'b', '2020-01-01')"}, "Duplicate entry '1'"),
        ({"sql": "CREATE TABLE made (a INT)"}, "'made' already exists"),
        ({"sql": "SELECT a FROM"}, "You have an error in your SQL syntax"),
    ],
)
def test_a_statement_that_fails_ends_the_step_with_the_servers_words(step: Any, words: str, shop: Shop) -> None:
    with pytest.raises(RqpsError) as error:
        shop.do(step)
    assert words in str(error.value)


def test_a_step_that_changes_what_it_reads_says_that_rows_are_gone(shop: Shop) -> None:
    sql = "SELECT id FROM customers WHERE id = {id}; DELETE FROM customers WHERE id = {id}"
    with pytest.raises(RqpsError, match="0 rows came back, and 1 were asked for"):
        shop.do({"sql": sql, "values": {"id": "1..9"}, "rows": 1})


def test_values_that_fit_no_row_are_a_warning(shop: Shop) -> None:
    answer, _ = shop.do({"sql": "SELECT note FROM orders WHERE id = ?", "values": {"id": "70000..70001"}})
    assert [warning.kind for warning in answer.warnings] == ["no rows"]


def test_a_wrong_column_is_named_before_anything_is_measured(shop: Shop) -> None:
    step = {"sql": "SELECT note FROM orders WHERE id = ?", "values": {"id": "orders.ident"}}
    with pytest.raises(RqpsError, match=r"values: column orders\.ident"):
        shop.do(step)
    with pytest.raises(RqpsError, match=r"steps\.step: .* refuses 'SELECT nothing FROM orders'"):
        Own().check(shop.server, "step", asked({"step": "SELECT nothing FROM orders"}))


def test_a_plan_has_a_row_for_each_table_in_the_order_of_the_server(shop: Shop) -> None:
    sql = "SELECT COUNT(*) FROM customers c JOIN orders o ON o.customer_id = c.id WHERE c.city = ?"
    checked = Own().check(shop.server, "step", asked({"step": {"sql": sql, "values": {"city": "customers.city"}}}))
    assert [row["key"] for row in checked.plans] == ["customers_city", "orders_customer"]


LOG = """# Time: 2026-11-27T02:00:00.000000Z
# Query_time: 0.000123  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1
SET timestamp=1764208800;
SELECT note FROM orders WHERE id = 47;
SELECT state FROM orders WHERE id = 48;
UPDATE orders SET note = 'it''s ü' WHERE id = 49;
SELECT note FROM orders WHERE id = 50;
"""


def test_a_log_is_done_in_its_order_again_and_again(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(LOG)
    answer, done = shop.do({"file": str(tmp_path / "slow.log")})
    ids = [int(text.rpartition("= ")[2]) for text in done]
    assert ids == [47, 48, 49, 50] * (len(ids) // 4) + [47, 48, 49, 50][: len(ids) % 4]
    assert (answer.columns["unit"], answer.columns["operations"]) == ("query", 200)
    assert [warning.text for warning in answer.warnings] == [
        "statements of MySQL's slow log that are not replayed: 1 neither read nor write rows"
    ]


def test_a_shape_of_a_log_is_done_alone_and_has_its_plan(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(LOG)
    parameters = asked({"replay": {"file": str(tmp_path / "slow.log")}})
    _, select, *_ = Own().steps(parameters)
    with shop.logging() as entries:
        shop.done(select, parameters, counted=True)
    notes = {entry.statement for entry in entries if entry.statement.startswith("SELECT note")}
    assert notes == {f"SELECT note FROM orders WHERE id = {number}" for number in (47, 50)}
    assert {row["key"] for row in Own().check(shop.server, "replay", parameters).plans} == {"PRIMARY"}


def test_errors_of_a_log_show_no_values(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text("SELECT gone FROM orders WHERE note = 'kept4secret';\n")
    parameters = asked({"replay": {"file": str(tmp_path / "slow.log")}})
    for fails in (
        lambda: Own().check(shop.server, "replay", parameters),
        lambda: shop.done("replay", parameters, counted=True),
    ):
        with pytest.raises(RqpsError, match=r"(?i)unknown column 'gone'") as error:
            fails()
        assert "kept4secret" not in str(error.value)


def test_statements_that_lock_each_other_out_are_done_again_and_counted(shop: Shop) -> None:
    existing = "BEGIN; UPDATE orders SET state = 'a' WHERE id = 1; UPDATE orders SET state = 'a' WHERE id = 2; COMMIT"
    back = "BEGIN; UPDATE orders SET state = 'b' WHERE id = 2; UPDATE orders SET state = 'b' WHERE id = 1; COMMIT"
    steps = {"there": existing, "back": back, "step": {"mix": {"there": 1, "back": 1}}}
    answer, _ = shop.done("step", asked(steps, threads=4, counted_operations=8000), counted=True)
    retried = [warning.text for warning in answer.warnings]
    assert answer.columns["transactions"] == 2000
    assert retried
    assert "transactions" in retried[0]


def test_rows_of_a_million_come_back(shop: Shop) -> None:
    sql = "SELECT a.id FROM orders a JOIN (SELECT id FROM orders LIMIT 17) b"
    answer, _ = shop.done(
        "step", asked({"step": {"sql": sql, "rows": 1_020_000}}, counted_operations=2), counted=True
    )
    assert answer.columns["transactions"] == 2


def test_texts_of_digits_and_bytes_stay_what_they_are(shop: Shop) -> None:
    table = "CREATE TABLE phones (phone VARCHAR(20) PRIMARY KEY, tag VARBINARY(9), area INT)"
    rows = "INSERT INTO phones VALUES ('4930123', 'a1', 30), ('4930124', 'b2', 30)"
    shop.ask("DROP TABLE IF EXISTS phones", table, rows, database="rqps")
    values: dict[str, Any] = {"phone": "phones.phone"}
    values |= {name: {"column": f"phones.{name}", "same_row_as": "phone"} for name in ("tag", "area")}
    sql = "SELECT 1 FROM phones WHERE phone = {phone} AND tag = {tag} AND area = {area}"
    _, done = shop.do({"sql": sql, "values": values, "rows": 1})
    where = "SELECT 1 FROM phones WHERE phone = "
    rest = {text.removeprefix(where) for text in done if text.startswith(where)}
    assert rest == {"'4930123' AND tag = 'a1' AND area = 30", "'4930124' AND tag = 'b2' AND area = 30"}


def test_a_statement_with_other_bytes_than_text_has_its_plan(shop: Shop, tmp_path: Path) -> None:
    (log := tmp_path / "log.sql").write_bytes("SELECT HEX('größer') FROM orders WHERE id = 1;\n".encode("latin1"))
    plans = Own().check(shop.server, "step", asked({"step": {"file": str(log)}})).plans
    (statement,) = pl.DataFrame([*plans], schema=TABLES["plans"])["statement"]
    assert statement == "SELECT HEX('gr\ufffd\ufffder') FROM orders WHERE id = 1"


def test_binary_and_multi_byte_text_reach_the_server_as_they_are(shop: Shop) -> None:
    step = {"sql": "SELECT HEX(?), CHAR_LENGTH('größer ☃'), HEX(x'00ff')", "values": {"a": ["ü☃", "a\0b"]}, "rows": 1}
    _, done = shop.do(step)
    assert {text[12:16] for text in done} == {"ü☃')", "a\\0b"}


def test_a_procedure_of_several_results_is_refused_in_the_servers_words(shop: Shop) -> None:
    shop.ask("DROP PROCEDURE IF EXISTS two", database="rqps")
    shop.ask("CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2; END", database="rqps")
    with pytest.raises(RqpsError, match="two"):
        shop.do("CALL two()")


def test_a_statement_that_does_not_end_fails_the_step(shop: Shop) -> None:
    with pytest.raises(RqpsError, match=r"steps\.step: my\d+ completed no transaction within 1 s"):
        shop.done("step", asked({"step": "SELECT SLEEP(30)"}))


DUMP = """-- MySQL dump 10.13  Distrib 8.0.33, for Linux (x86_64)
/*!40101 SET NAMES utf8 */;
CREATE DATABASE `mall`;
USE `mall`;
DROP TABLE IF EXISTS `t`;
CREATE TABLE `t` (`a` int, `b` varbinary(9)) ENGINE=InnoDB;
LOCK TABLES `t` WRITE;
INSERT INTO `t` VALUES (1,_binary '\\0\\';\\n'),(2,'ü');
UNLOCK TABLES;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`nobody`@`%`*/ /*!50003 TRIGGER `g` BEFORE INSERT ON `t` FOR EACH ROW
BEGIN SET NEW.a = NEW.a + 1; END */;;
DELIMITER ;
CREATE ALGORITHM=UNDEFINED DEFINER=`nobody`@`%` SQL SECURITY DEFINER VIEW `v` AS select a from t;
-- Dump completed on 2026-01-01
"""


@pytest.fixture(scope="module", params=["my8033.common"])
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("empty")
    with server_of(run_of(request.param, asked({"step": "SELECT 1"}), workload="own"), folder) as server:
        yield Shop(server, folder)


def load(house: House, folder: Path, dump: str, name: str = "dump.sql") -> None:
    house.ask("DROP DATABASE IF EXISTS rqps")
    file = folder / name
    file.write_bytes(gzip.compress(dump.encode()) if name.endswith(".gz") else dump.encode())
    tables_file.load(house.server, "rqps", file)


@pytest.mark.parametrize("name", ["dump.sql", "dump.sql.gz"])
def test_a_dump_of_another_database_and_user_is_loaded(name: str, empty: Shop, tmp_path: Path) -> None:
    load(empty, tmp_path, DUMP, name)
    assert empty.ask("SELECT a, HEX(b) FROM t ORDER BY a", database="rqps") == [(1, "00273B0A"), (2, "C3BC")]
    empty.ask("INSERT INTO t VALUES (8, 'x')", database="rqps")
    assert empty.ask("SELECT COUNT(*) FROM v WHERE a = 9", database="rqps") == [(1,)]
    assert ("mall",) not in empty.ask("SHOW DATABASES")
    Own().prepare(empty.server, asked({"step": "SELECT 1"}))  # which reads all of a table without a primary key, too


@pytest.mark.parametrize(
    ("dump", "words"),
    [
        (DUMP[: DUMP.index("'ü')")], "dump.sql: is cut off: the statement that begins in line 8 has no end"),
        (DUMP[: DUMP.index("-- Dump completed")], "is cut off: it has no line '-- Dump completed'"),
        ("SELECT 1;", "creates no table"),
        ("", "creates no table"),
        ("CREATE TABLE t (a INT) ENGINE=Nothing COLLATE=utf8mb4_nobody_ci;", "dump.sql, line 1: my8033 refused"),
    ],
)
def test_a_dump_that_can_not_be_loaded_says_where(dump: str, words: str, empty: Shop, tmp_path: Path) -> None:
    with pytest.raises(RqpsError) as error:
        load(empty, tmp_path, dump)
    assert words in str(error.value)


def test_a_gzipped_dump_that_is_cut_off_says_so(empty: Shop, tmp_path: Path) -> None:
    (tmp_path / "dump.sql.gz").write_bytes(gzip.compress(DUMP.encode())[:-20])
    empty.ask("DROP DATABASE IF EXISTS rqps")
    with pytest.raises(RqpsError, match="is cut off: it can't be unpacked to its end"):
        tables_file.load(empty.server, "rqps", tmp_path / "dump.sql.gz")


SMALL_STUDY = """
builds:
  my5624: {mysql: "5.6.24"}
configs:
  base:
    {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 32M, table_definition_cache: 400, log_bin: OFF, ssl: OFF}
  other: {extends: base, query_cache_type?: 0}
studies:
  small:
    question: What does nothing cost?
    workload: own
    dbms: [my5624.base, my5624.other]
    base: my5624.base
    rounds: 1
    parameters:
      tables: t.sql
      seconds: 1
      warmup_seconds: 0
      steps:
        one: {sql: "SELECT id FROM secret_table WHERE id IN (?, ?)", values: {a: [1, 47110815], b: 1..2}}
        two: {file: secret_log.sql}
"""


def test_a_packed_study_without_statements_has_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = "CREATE TABLE secret_table (id INT PRIMARY KEY);\nINSERT INTO secret_table VALUES (1),(2);\n"
    (tmp_path / "t.sql").write_text(tables)
    (tmp_path / "secret_log.sql").write_text("SELECT 1;\n")
    place = Place(tmp_path, SMALL_STUDY)
    place.run()
    job, *_ = (tmp_path / "data/raw/study=small").glob("run=*/logs/job.json")
    look_beside(Path("/"))
    assert read_job(job).run.study == "small"
    assert beside_runs_yaml("t.sql") == tmp_path / "t.sql", "wherever the notebook of the run is"
    packed = packing.pack("small", tmp_path / "small.rqps", tmp_path / "data", with_statements=False)
    with zipfile.ZipFile(packed[0]) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
        rows = [repr(pl.read_parquet(BytesIO(part)).to_dicts()).encode() for part in contents if part[:4] == b"PAR1"]
    assert not [part[:80] for part in (*contents, *rows) if re.search(rb"secret_|47110815", part)]
    study = read(tmp_path / "small.rqps")
    assert study.card.parameters["steps"]["one"]["sql"].startswith("left out (SHA-256 ")
    assert study.steps["operations"].sum() == read("small", tmp_path / "data").steps["operations"].sum()
    assert packing.unpack(str(tmp_path / "small.rqps"), tmp_path / "again")

    monkeypatch.setattr("rqps.experiment.SECONDS", 1)
    monkeypatch.setattr("rqps.experiment.BUDGET_S", 15)  # for one round
    tried = rqps.what_if("small", step="one", config={"sort_buffer_size": "1M"}, data=tmp_path / "data")
    assert "sort_buffer_size = 1M" in tried
    assert re.search(r"^one +", tried, re.MULTILINE), tried

    done = command("report", "small", "--without-statements", "--with-data", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {page: page.read_bytes() for page in (tmp_path / "data/report/small").rglob("*") if page.is_file()}
    assert not [page for page, text in pages.items() if b"secret_table" in text or b"47110815" in text]
    assert WITHOUT_STATEMENTS.encode() in pages[tmp_path / "data/report/small/index.html"]
    with zipfile.ZipFile(tmp_path / "data/report/small/small.rqps") as archive:
        assert not [name for name in archive.namelist() if b"secret_table" in archive.read(name)]


MALL = {
    "customers": {"rows": 500, "columns": {"id": "key", "city": ["Köln", "Ålesund", "東京", "it's \\ here"]}},
    "orders": {
        "rows": 3000,
        "columns": {
            "id": "key",
            "customer": {"column": "customers.id", "zipf": 0.9},
            "day": "2020-01-01..2020-12-31",
        },
        "indexes": ["customer", ["customer", "day"]],
    },
}


def test_tables_are_made_of_a_few_words(tmp_path: Path) -> None:
    step = {"sql": "SELECT COUNT(*) FROM orders WHERE customer = ?", "values": {"id": "orders.customer"}, "rows": 1}
    parameters = OwnParameters.model_validate(
        {"tables": MALL, "steps": {"step": step}, "seconds": 1, "warmup_seconds": 0, "counted_operations": 200}
    )
    with server_of(run_of("my5624.common", parameters, workload="own"), tmp_path) as server:
        house = Shop(server, tmp_path)
        cities = house.ask("SELECT DISTINCT city FROM customers", database="rqps")
        assert {city for (city,) in cities} == {"Köln", "Ålesund", "東京", "it's \\ here"}
        ((rows, customers),) = house.ask("SELECT COUNT(*), COUNT(DISTINCT customer) FROM orders", database="rqps")
        assert (int(rows), int(customers) > 300) == (3000, True)
        answer, _ = house.done("step", parameters, counted=True)
        assert answer.columns["operations"] == 200
        assert [row["key"] for row in Own().check(server, "step", parameters).plans] == ["orders_customer"]


POSTGRES = f"""
builds:
  pg14: {{postgres: "14.0"}}
  pg18: {{postgres: "18.6"}}
configs:
  quick: {{shared_buffers: 64MB, jit: false, fsync: false, max_connections: 20}}
studies:
  small:
    question: What did it cost?
    workload: own
    dbms: [pg14.quick, pg18.quick]
    base: pg14.quick
    rounds: 1
    parameters:
      seconds: 1
      warmup_seconds: 0
      tables: {json.dumps(MALL)}
      steps:
        one: {{sql: "SELECT city FROM customers WHERE id = ?", values: {{id: orders.customer}}, rows: 1}}
        replay: {{file: postgres.log}}
"""
POSTGRES_LOG = """2026-11-27 02:33:14.123 UTC [77] app@mall LOG:  statement: SELECT city FROM customers WHERE id = 7;
2026-11-27 02:33:14.124 UTC [77] app@mall LOG:  execute <unnamed>: UPDATE orders SET day = $2 WHERE id = $1
2026-11-27 02:33:14.124 UTC [77] app@mall DETAIL:  parameters: $1 = '8', $2 = '2020-02-02'
2026-11-27 02:33:14.125 UTC [77] app@mall LOG:  statement: SELECT city FROM customers WHERE city = 'it''s \\ here'
"""


def test_made_tables_and_a_log_of_postgres_in_a_duet(tmp_path: Path) -> None:
    (tmp_path / "postgres.log").write_text(POSTGRES_LOG)
    Place(tmp_path, POSTGRES).run()
    study = rqps.load("small", tmp_path / "data")
    steps = study.steps.select("step", "operations", "writes").unique("step", maintain_order=True)
    assert [re.sub(r"-[0-9a-f]{8}$", "", step) for step in steps["step"]] == [
        "one",
        "replay",
        "replay.select-customers",
        "replay.update-orders",
        "replay.select-customers",
    ]
    assert (study.steps["operations"] > 4).all()
    assert steps["writes"].to_list() == [False, True, False, True, False]
    assert study.plans.collect()["key"].drop_nulls().len() > 0
