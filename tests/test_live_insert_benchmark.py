"""The insert benchmark on a real server: what reaches it, what it leaves there, and what is reported of it."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import rqps
from child import until
from live_inserts import Inserts, asked, empty_server
from live_study import Place
from rqps.engines.mysql.instance import query
from rqps.engines.sources.programs import sysbench
from rqps.workloads.insert_benchmark.generator import SCRIPT

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

INSERT = "INSERT INTO pi1 (dateandtime, cashregisterid, customerid, productid, price, data) VALUES {} rows"
DELETE = "DELETE FROM pi1 WHERE transactionid >= N ORDER BY transactionid ASC LIMIT {}"
MARKET = (
    "SELECT productid, customerid, price FROM pi1 FORCE INDEX (pi1_marketsegment) WHERE productid >= N "
    "ORDER BY productid, customerid, price LIMIT 10"
)
REGISTER = (
    "SELECT cashregisterid, customerid, price FROM pi1 FORCE INDEX (pi1_registersegment) WHERE cashregisterid > N "
    "ORDER BY cashregisterid, customerid, price LIMIT 10"
)
PDC = (
    "SELECT price, dateandtime, customerid FROM pi1 FORCE INDEX (pi1_pdc) WHERE price >= N "
    "ORDER BY price, dateandtime, customerid LIMIT 10"
)
POINT = "SELECT transactionid, productid, data FROM pi1 WHERE transactionid IN (10 N)"
TABLE = (
    "CREATE TABLE pi1 ( transactionid BIGINT NOT NULL AUTO_INCREMENT, dateandtime DATETIME, "
    "cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price INT NOT NULL, "
    "data VARCHAR(4000), PRIMARY KEY (transactionid)) ENGINE = InnoDB"
)
INDEXES = (
    "ALTER TABLE pi1 ADD INDEX pi1_marketsegment (productid, customerid, price), "
    "ADD INDEX pi1_registersegment (cashregisterid, customerid, price), "
    "ADD INDEX pi1_pdc (price, dateandtime, customerid)"
)
LOWEST, HIGHEST = "SELECT MIN(transactionid) FROM pi1", "SELECT MAX(transactionid) FROM pi1"


NUMBERS = """
package.path = "{folder}/?.lua;" .. package.path
local rows, buffer = require("rows"), require("ffi").new("uint8_t[32]")
function event() end
function thread_run()
   for number in ("{numbers}"):gmatch("%d+") do
      print(require("ffi").string(buffer, rows.put_number(buffer, 0, tonumber(number))))
   end
end
"""
RUNS_YAML = """
builds:
  my5624: {mysql: "5.6.24"}
configs:
  base:
    {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 32M, table_definition_cache: 400, log_bin: OFF, ssl: OFF}
studies:
  small:
    question: Does every row come to the tables?
    workload: insert-benchmark
    dbms: [my5624.base]
    base: my5624.base
    rounds: 1
    parameters:
      {steps: [l.i0, l.x, l.i1, qp100], clients: 2, load_rows: 2000, write_rows: 1000, rates: [100], seconds: 1,
       debt_every_seconds: 0.3}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inserts]:
    with empty_server(tmp_path_factory.mktemp("inserts")) as running:
        yield running


@pytest.fixture
def house(server: Inserts) -> Inserts:
    server.empty()
    return server


def rows(house: Inserts, table: str = "pi1") -> tuple[int, int, int]:
    """Their number, and the lowest and highest of their ids."""
    (result,) = house.ask(f"SELECT COUNT(*), MIN(transactionid), MAX(transactionid) FROM rqps.{table}")
    return result


def test_the_server_sees_the_published_statements(house: Inserts) -> None:
    parameters = asked(load_rows=1050)
    seen: dict[str, Counter[str]] = {}
    for step in parameters.measured:
        with house.logging_shapes() as statements:
            house.do(step, parameters)
        seen[step] = Counter(statements)
    assert seen["l.i0"] == {TABLE: 1, INSERT.format(100): 10, INSERT.format(50): 1}
    assert seen["l.x"] == {INSERT.format(100): 1, INDEXES: 1}
    assert seen["l.i1"] == {INSERT.format(50): 16, DELETE.format(50): 16, LOWEST: 1}
    assert seen["l.i2"] == {INSERT.format(5): 40, DELETE.format(5): 40, LOWEST: 1}
    assert seen["qp100"].pop(HIGHEST) == -(-seen["qp100"][POINT] // 100)
    for step, queries in (("qr100", {MARKET, REGISTER, PDC}), ("qp100", {POINT})):
        writes = {value: seen[step].pop(value) for value in (INSERT.format(50), DELETE.format(50), LOWEST)}
        assert writes == {INSERT.format(50): 2, DELETE.format(50): 2, LOWEST: 1}
        assert set(seen[step]) == queries
        assert min(seen[step].values()) > 0.7 * max(seen[step].values()), "each is drawn as often as the others"
    assert rows(house) == (1150, 1201, 2350)


def test_the_same_seed_gives_the_same_rows_whoever_is_first(house: Inserts) -> None:
    def loaded(seed: int) -> list[int]:
        house.empty()
        parameters = asked(clients=3)
        for step in ("l.i0", "l.x", "l.i1"):
            house.do(step, parameters, seed)
        return [int(checksum) for _, checksum in house.ask("CHECKSUM TABLE rqps.pi1, rqps.pi2, rqps.pi3")]

    first = loaded(seed=7)
    assert len(set(first)) == 3, "each client has rows of its own"
    assert loaded(seed=7) == first
    assert set(loaded(seed=8)).isdisjoint(first)


def test_the_rows_are_drawn_as_published(house: Inserts) -> None:
    house.do("l.i0", asked(load_rows=20_000, steps=("l.i0",)))
    ends = "MIN({0}), MAX({0}), COUNT(DISTINCT {0})"
    (register,), (customer,), (product,), (price,) = (
        house.ask(f"SELECT {ends.format(column)} FROM rqps.pi1")
        for column in ("cashregisterid", "customerid", "productid", "price")
    )
    assert register == (0, 999, 1000)
    assert price == (0, 499, 500)
    assert (product[0] < 10, product[1] > 9990, product[2] > 8000) == (True, True, True)
    assert (customer[0] < 100, customer[1] > 99_900, customer[2] > 17_000) == (True, True, True)
    lengths = dict(house.ask("SELECT LENGTH(data), COUNT(*) FROM rqps.pi1 GROUP BY 1"))
    assert set(lengths) == set(range(10, 21))
    random = "FLOOR(LENGTH(data) * 0.375)"
    first = f"LEFT(data, LENGTH(data) - {random}) = REPEAT('a', LENGTH(data) - {random})"
    assert house.ask(f"SELECT COUNT(*) FROM rqps.pi1 WHERE NOT ({first})") == [(0,)]
    assert house.ask(f"SELECT COUNT(DISTINCT BINARY RIGHT(data, {random})) > 18000 FROM rqps.pi1") == [(1,)]
    moments = house.ask("SELECT dateandtime, COUNT(*) FROM rqps.pi1 GROUP BY 1 ORDER BY 1")
    assert [(f"{moment:%F %T}", count) for moment, count in moments] == [
        ("2024-01-01 00:00:00", 10_000),
        ("2024-01-01 00:00:01", 10_000),
    ]


def test_inserts_wait_for_deletes_and_end_with_as_many(house: Inserts) -> None:
    parameters = asked(write_rows=2500)
    house.do_all(parameters, "l.x")
    lock = "SELECT transactionid FROM pi1 ORDER BY transactionid LIMIT 10 FOR UPDATE"
    with house.holding("BEGIN", lock) as holding, house.at_work("l.i1", parameters) as load:
        until(lambda: rows(house)[2] >= 3100 + 8 * 50)
        assert rows(house)[2] == 3100 + 8 * 50
        query(holding, "ROLLBACK")
        load.wait_for_end()
        load.wait_until_gone()
    assert rows(house) == (3100, 2001, 5100)


@pytest.mark.parametrize("clients", [1, 2])
def test_a_shared_table_keeps_its_size_too(clients: int, house: Inserts) -> None:
    parameters = asked(clients=clients, shared_table=True)
    result = house.do_all(parameters, "qr100")
    assert rows(house)[0] == clients * 3100
    assert result["l.x"].columns["operations"] == clients * 3100
    assert house.ask("SHOW TABLES FROM rqps") == [("pi1",)]
    assert {row["client"] for row in result["qr100"].more["clients"]} == set(range(1, clients + 1))


def test_older_forms_of_the_benchmark(house: Inserts) -> None:
    house.do_all(asked(form="2023"))
    assert rows(house)[0] == 3100
    house.empty()
    result = house.do_all(asked(form="2021"))
    assert rows(house)[0] == 3100 + 1000 + 2 * 100
    assert {row["kind"] for row in result["q100.2"].intervals} == {"insert", "query"}


def test_all_is_reported_by_second_and_client(house: Inserts) -> None:
    parameters = asked(clients=2, seconds=2)
    house.do_all(parameters, "l.i2")
    answer = house.do("qp100", parameters)
    columns = answer.columns
    assert (columns["unit"], columns["clients"], columns["target_per_s"], columns["errors"]) == ("query", 2, 200.0, 0)
    inserts = [row for row in answer.intervals if row["kind"] == "insert"]
    assert [row["operations"] for row in inserts if row["operations"]] == [200, 200], "its share in each second"
    for kind in ("insert", "delete", "query"):
        ours = sum(row["operations"] for row in answer.more["clients"] if row["kind"] == kind)
        assert ours == sum(row["operations"] for row in answer.intervals if row["kind"] == kind)
    due = {row["kind"]: 0 for row in answer.latencies}
    for row in answer.latencies:
        due[row["kind"]] += row["transactions"]
    assert (due["insert"], due["delete"], due["insert due"], due["delete due"]) == (8, 8, 8, 8)
    assert due["query"] == columns["operations"] == columns["transactions"]
    before, after = answer.more["engine"]
    assert (before["moment"], before["rows_low"]) == ("before", 1001)
    assert (after["moment"], after["rows_low"]) == ("after", 1201)
    assert after["tables_kb"] > 100
    assert after["datadir_kb"] > after["tables_kb"]
    assert 0 <= after["checkpoint_age_kb"] <= after["redo_capacity_kb"] == 256 * 1024
    assert 0 <= after["dirty_kb"] <= after["buffer_pool_kb"] == 256 * 1024


def test_the_debt_is_read_during_a_step(house: Inserts) -> None:
    parameters = asked(clients=2, seconds=2, debt_every_seconds=0.2)
    house.do_all(parameters, "l.i2")
    answer = house.do("qp100", parameters)
    before, *during, after = answer.more["engine"]
    assert {row["moment"] for row in during} == {"during"}
    seconds = [row["second"] for row in during]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] < 1 < seconds[-1] <= answer.columns["elapsed_s"]
    assert len(seconds) > 5
    ages = [row["checkpoint_age_kb"] for row in (before, *during, after)]
    assert ages[0] < max(ages[1:-1]) <= before["redo_capacity_kb"]


def test_the_index_step_has_its_own_time(house: Inserts) -> None:
    answer = house.do_all(asked(clients=2), "l.x")["l.x"]
    assert answer.columns["operations"] == 2 * 3100
    (first, second) = [row for row in answer.more["clients"] if row["kind"] == "index" and row["transactions"]]
    assert (first["operations"], second["operations"]) == (3100, 3100)
    longest = max(first["latency_max_us"], second["latency_max_us"]) / 1e6
    assert longest <= answer.columns["elapsed_s"]


@pytest.mark.parametrize("dbms", ["my5534.common", "my5624.common", "my97.common"])
def test_every_release_does_every_step(dbms: str, tmp_path: Path) -> None:
    with empty_server(tmp_path, dbms) as house:
        parameters = asked(load_rows=2000)
        result = house.do_all(parameters)
        assert rows(house) == (2100, 1201, 3300)
        for step, item in result.items():
            *_, before, after = item.more["engine"]
            assert (before["moment"], after["moment"]) == ("before", "after")
            assert after["redo_capacity_kb"] == 256 * 1024, step
            assert 0 <= after["checkpoint_age_kb"] < 32 * 1024, step
            assert after["history_length"] >= 0
        assert result["qr100"].more["engine"][-2]["dirty_kb"] <= 0.01 * 256 * 1024
        assert not [
            warning
            for text in result.values()
            for warning in text.warnings
            if warning.kind in ("rows", "not settled")
        ]


def test_a_study_is_measured_and_every_row_comes_to_its_tables(tmp_path: Path) -> None:
    Place(tmp_path, RUNS_YAML).run()
    study = rqps.load("small", data=tmp_path / "data")
    assert study.steps["step"].to_list() == ["l.i0", "l.x", "l.i1", "qp100"]
    assert (study.steps["server_cpu_s"] > 0).all()
    by_kind = study.clients.group_by("step", "kind").agg(pl.col("operations").sum()).collect()
    text = {(step, kind): operations for step, kind, operations in by_kind.iter_rows()}
    due = {"l.i0": 4000, "l.x": 200, "l.i1": 1600, "qp100": 200}
    assert {step: text[step, "insert"] for step in due} == due
    assert {step: text[step, "delete"] for step in list(due)[2:]} == {step: due[step] for step in list(due)[2:]}
    for step, operations in study.steps.select("step", "operations").iter_rows():
        kind = {"l.x": "index", "qp100": "query"}.get(step, "insert")
        assert text[step, kind] == operations
    moments = study.engine.group_by("step", maintain_order=True).agg(pl.col("moment").unique().sort()).collect()
    by_step = {step: set(names) for step, names in moments.iter_rows()}
    assert by_step.pop("qp100") == {"after", "before", "during", "settling"}
    assert list(by_step) == ["l.i0", "l.x", "l.i1"]
    assert all({"after", "before"} <= names <= {"after", "before", "during"} for names in by_step.values())


def test_numbers_of_any_size_are_written_as_they_are(tmp_path: Path) -> None:
    powers = [10**power for power in range(16)]
    numbers = [str(number) for power in powers for number in (power - 1, power, power + 1, 7 * power + 305)]
    script, tool = tmp_path / "numbers.lua", sysbench()
    script.write_text(NUMBERS.format(folder=SCRIPT.parent, numbers=" ".join(numbers)))
    command = [*tool.argv, str(script), "--events=1", "--verbosity=0", "run"]
    environment = os.environ | dict(tool.environment)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == numbers
