"""A user's own statements, before any server: what stands in them, in runs.yaml and in the file of tables."""

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from rqps import show, stats
from rqps.errors import RqpsError
from rqps.schedule.tries import StatementTry, study_of_statement
from rqps.show.claims import wrong
from rqps.study import Option, read_runs_file
from rqps.study.runs_file import resolve
from rqps.workloads import PARAMETERS, does
from rqps.workloads.own import tables_file
from rqps.workloads.own.sql_text import Scanner, Statement, parse, statements

SHOP = Path(__file__).parent.parent / "data/shop/shop.sql"
RUNS_YAML = """
builds:
  old: {mysql: "5.6.24"}
configs:
  plain: {}
studies:
  own:
    question: What did it cost?
    workload: own
    dbms: [old.plain]
    base: old.plain
    rounds: 4
    parameters:
      tables: shop.sql
      steps:
        one: %s
"""


def read(folder: Path, step: str, text: str = RUNS_YAML) -> Any:
    (folder / "shop.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\nINSERT INTO t VALUES (1);\n")
    (folder / "runs.yaml").write_text(text % step)
    return read_runs_file(folder / "runs.yaml", PARAMETERS).studies["own"].parameters


@pytest.mark.parametrize(
    ("sql", "names", "expected"),
    [
        ("SELECT '?' , ? FROM t -- what?\n", ["a"], [(("SELECT '?' , ", " FROM t"), ("a",))]),
        ("SELECT {a}, '{a}', \"{b}\", {a}", ["a"], [(("SELECT ", ", '{a}', \"{b}\", ", ""), ("a", "a"))]),
        ("SELECT ? + {b} + ?", ["a", "b", "c"], [(("SELECT ", " + ", " + ", ""), ("a", "b", "c"))]),
        ("SELECT 'it''s; \\'?' ; SELECT ?", ["a"], [(("SELECT 'it''s; \\'?'",), ()), (("SELECT ", ""), ("a",))]),
        ("SELECT doc ? 'k' FROM t WHERE id = {id}", ["id"], [(("SELECT doc ? 'k' FROM t WHERE id = ", ""), ("id",))]),
        ("SELECT $$ ; ? $$ /* ; ? */", [], [(("SELECT $$ ; ? $$ /* ; ? */",), ())]),
        ("SELECT 'größer ☃', x'00ff' ;", [], [(("SELECT 'größer ☃', x'00ff'",), ())]),
    ],
)
def test_values_stand_outside_of_quotes(sql: str, names: list[str], expected: list[Any]) -> None:
    assert parse(sql, names) == [Statement(*one) for one in expected]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{sql: SELECT ?}", "? in 'SELECT ?' has no value; there are no values"),
        ("{sql: 'SELECT ?', values: {a: 1..2, b: 1..2}}", "the value 'b' is in no statement"),
        ("{sql: 'SELECT {b}', values: {a: 1..2}}", "{b} in 'SELECT {b}' has no value; the values are a"),
        ("{sql: 'SELECT ?', values: {a: 9..2}}", "'9..2' is no range: write the smaller number first"),
        ("{sql: 'SELECT ?', values: {a: 1..9999999999}}", "2^32 wide"),
        ("{sql: 'SELECT ?', values: {a: id}}", "'id' is no column; write TABLE.COLUMN, such as orders.customer_id"),
        ("{sql: 'SELECT ?', values: {a: []}}", "at least one"),
        ("{sql: 'SELECT ?', values: {a: {range: 1..9, list: [1]}}}", "values are a range, a list or a column"),
        ("{sql: 'SELECT ?', values: {a: {range: 1..9, zipf: 1}}}", "zipf: 1 has no such sampler"),
        ("{sql: 'SELECT ?, ?', values: {a: t.id, b: {column: u.id, same_row_as: a}}}", "is of another table"),
        ("{sql: SELECT 1, rows: many}", "'many' is no number of rows; write 1, or 0..10, or 1.."),
        ('{sql: "SELECT \'open"}', "does not close '"),
        ("{sql: ';'}", "sql has no statement"),
        ("{}", "a step has either sql, a file of statements, or a mix of other steps"),
        ("{mix: {two: 1}}", "'two' is no step with sql"),
        ("{mix: {one: 0}}", "at least 1"),
    ],
)
def test_a_step_that_can_not_be_done_is_refused_with_its_place(step: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(RqpsError) as error:
        read(tmp_path, step)
    assert "parameters" in str(error.value)
    assert words in str(error.value)


def test_other_tables_are_another_study(tmp_path: Path) -> None:
    before = read(tmp_path, "SELECT 1").digest
    file = tmp_path / "shop.sql"
    assert tables_file.unchanged("shop.sql", before) == file
    file.write_text("CREATE TABLE other (id INT);\n")
    with pytest.raises(RqpsError, match="has changed"):
        tables_file.unchanged("shop.sql", before)
    file.unlink()
    with pytest.raises(RqpsError, match="no such file"):
        tables_file.unchanged("shop.sql", before)


def test_tables_that_are_not_there_are_missed_when_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match=r"no such file: .*/shops\.sql"):
        read(tmp_path, "SELECT 1", RUNS_YAML.replace("tables: shop.sql", "tables: shops.sql"))


def test_a_mix_is_done_with_its_steps_alone(tmp_path: Path) -> None:
    text = RUNS_YAML + "        two: SELECT 2\n        both: {mix: {one: 9, two: 1}}\n"
    parameters = read(tmp_path, "{sql: 'DELETE FROM t WHERE id = ?', values: {id: 1..9}}", text)
    assert list(parameters.only("both").steps) == ["both", "one", "two"]
    assert list(parameters.only("two").steps) == ["two"]
    assert [parameters.writes(step) for step in ("one", "two", "both")] == [True, False, True]


def texts(sql: str, **how: Any) -> list[str]:
    return [line.text for line in statements(sql.splitlines(keepends=True), Scanner(**how))]


def test_a_step_is_explained_by_its_statements() -> None:
    steps = {"one": "SELECT 1", "day": {"mix": {"one": 8, "log": 1}}, "log": {"file": "slow.log"}}
    names = ("one", "day", "log", "log.select-orders-1a2b3c4d", "other")
    assert [does("own", {"step": name}, {"steps": steps}) for name in names] == [
        *("SELECT 1", "A mix of 8 x one, 1 x log", "Statements of slow.log", "Statements of slow.log", "")
    ]


def test_a_dump_comes_apart_where_its_server_would_take_it_apart() -> None:
    assert texts("INSERT INTO t VALUES ('a;\nb'),('\\';');# c;\nSELECT 1;", hash_comments=True) == [
        "INSERT INTO t VALUES ('a;\nb'),('\\';')",
        "SELECT 1",
    ]
    assert texts('INSERT INTO t VALUES (1,"5\\" pipe; of steel");SELECT 2') == [
        'INSERT INTO t VALUES (1,"5\\" pipe; of steel")',
        "SELECT 2",
    ]
    assert texts("SELECT E'it\\'s; one'; SELECT 'C:\\';", backslash=False) == [
        "SELECT E'it\\'s; one'",
        "SELECT 'C:\\'",
    ]
    assert texts("INSERT INTO t VALUES ('C:\\');SELECT 2", backslash=False) == [
        "INSERT INTO t VALUES ('C:\\')",
        "SELECT 2",
    ]
    trigger = "DELIMITER ;;\nCREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; END ;;\nDELIMITER ;\n"
    assert texts(trigger + "SELECT 3;") == [
        "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; END",
        "SELECT 3",
    ]
    assert texts("CREATE FUNCTION f() AS $body$ a; b $body$;SELECT 4;") == [
        "CREATE FUNCTION f() AS $body$ a; b $body$",
        "SELECT 4",
    ]


def test_a_folder_of_mydumper_has_its_tables_first(tmp_path: Path) -> None:
    names = ["shop.orders.00001.sql.gz", "shop.orders-schema.sql.gz", "metadata", "shop.items-schema.sql"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    files = [file.name for file in tables_file.files_of(tmp_path)]
    assert files == ["shop.items-schema.sql", "shop.orders-schema.sql.gz", "shop.orders.00001.sql.gz"]


def test_one_digest_is_of_one_content(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;")
    (tmp_path / "b.sql").write_text("SELECT 1;")
    (tmp_path / "c.sql.gz").write_bytes(gzip.compress(b"SELECT 1;"))
    a, b, c = (tables_file.digest_of(tmp_path / name) for name in ("a.sql", "b.sql", "c.sql.gz"))
    assert a == b != c


def plan(
    dbms: str, *tables: tuple[str | None, str | None], step: str = "one", round: int = 1
) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "dbms": dbms,
            "round": round,
            "statement": "SELECT",
            "access": access,
            "key": key,
            "extra": str(place),
        }
        for place, (access, key) in enumerate(tables)
    ]


def test_another_plan_is_the_first_thing_to_know() -> None:
    rows = [
        *plan("old.c", ("ref", "by_city"), ("ref", "by_customer")),
        *plan("new.c", ("ALL", None), ("ref", "by_customer")),
        *plan("newer.c", ("ALL", None), ("ref", "by_customer")),
        *plan("new.c", ("ref", "by_city"), ("ref", "by_customer"), round=2),
        *plan("old.c", ("const", "PRIMARY"), step="two"),
        *plan("new.c", ("const", "PRIMARY"), step="two"),
    ]
    card = SimpleNamespace(workload="own", base="old.c")
    changes = stats.plan_changes(SimpleNamespace(card=card, plans=pl.LazyFrame(rows)))  # type: ignore[arg-type]
    assert changes.select("step", "dbms").rows() == [("one", "new.c"), ("one", "newer.c")]
    (sentence,) = show.other_plans(changes, {"old.c": "Old"})
    assert wrong(sentence, {"plans": changes}.__getitem__) == []
    (false,) = wrong(sentence, {"plans": changes.head(1)}.__getitem__)
    assert false.endswith("is 1, not 2")
    assert [sentence] == [
        "one: new.c and newer.c by another plan than Old, so a difference is no regression of code alone: "
        "ALL (no index), ref (by_customer), in place of ref (by_city), ref (by_customer)."
    ]
    card.workload = "sysbench"
    assert stats.plan_changes(SimpleNamespace(card=card, plans=pl.LazyFrame(rows))).is_empty()  # type: ignore[arg-type]


BUILDS = """
builds:
  old: {mysql: "5.6.24"}
  new: {mysql: "8.0.33"}
  other: {mysql: "9.7"}
configs:
  plain: {}
  small: {extends: plain, innodb_buffer_pool_size: 64M}
"""


def test_a_try_of_a_statement_writes_a_study_that_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "runs.yaml").write_text(BUILDS)
    (tmp_path / "t.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY, s INT);\n")
    values = ("id=1..9", "s=[open, 'it''s', 3]")
    asked = StatementTry(
        "SELECT * FROM t WHERE id = ? AND s = ?", tmp_path / "t.sql", ("old.plain", "new.small"), values
    )
    runs_file, study, entry = study_of_statement(asked, tmp_path / "runs.yaml", tmp_path / "data")
    spec = runs_file.studies[study]
    assert {*runs_file.builds} == {"old", "new"}
    assert {*runs_file.configs} == {"plain", "small"}
    assert spec.base == "old.plain"
    assert spec.parameters.steps["statement"].values["s"].list == ("open", "it's", 3)  # type: ignore[attr-defined]
    (tmp_path / "again.yaml").write_text(BUILDS + entry)
    assert read_runs_file(tmp_path / "again.yaml", PARAMETERS).studies[study] == spec


def test_a_try_takes_the_my_cnf_that_stands_beside_runs_yaml(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/my.cnf").write_text("[mysqld]\nsync_binlog=0\n")
    (tmp_path / "runs.yaml").write_text(f"{BUILDS}  theirs: {{my_cnf: etc/my.cnf}}\n")
    (tmp_path / "t.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\n")
    asked = StatementTry("SELECT 1", tmp_path / "t.sql", ("old.theirs", "new.theirs"))
    runs_file, *_ = study_of_statement(asked, tmp_path / "runs.yaml", tmp_path / "data")
    assert resolve(runs_file.configs, "theirs", "8.0.33") == {"sync_binlog": Option("0")}


@pytest.mark.parametrize(
    ("dbms", "values", "words"),
    [
        (("old.plain",), (), "a comparison needs two dbms"),
        (("old.plain", "newer.plain"), (), "--dbms newer.plain: runs.yaml has no build 'newer'; did you mean 'new'?"),
        (("old.plain", "new"), (), "--dbms new: runs.yaml has no config ''"),
        (("old.plain", "new.plain"), ("id",), "--values id is not NAME=VALUES"),
        (("old.plain", "new.plain"), ("id=[1",), "--values id=[1 is no list"),
        (("old.plain", "new.plain"), ("id=1..",), "'1..' is no column"),
        (("old.plain", "new.plain"), (), "? in 'SELECT ?' has no value"),
    ],
)
def test_a_try_that_can_not_be_done_says_why(dbms: Any, values: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "runs.yaml").write_text(BUILDS)
    (tmp_path / "t.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\n")
    with pytest.raises(RqpsError) as error:
        study_of_statement(
            StatementTry("SELECT ?", tmp_path / "t.sql", dbms, values), tmp_path / "runs.yaml", tmp_path
        )
    assert words in str(error.value)
