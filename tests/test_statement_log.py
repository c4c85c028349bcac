"""Logs of statements to do again: what is read of each form, what is left out, and shapes without values."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rqps.errors import RqpsError
from rqps.workloads.own.parameters import OwnParameters
from rqps.workloads.own.statement_log import log_of, shape_of
from rqps.workloads.own.steps import StepSpec

SLOW = """/sbin/mysqld, Version: 8.0.33 (MySQL Community Server). started with:
Tcp port: 3306  Unix socket: mysqld.sock
Time                 Id Command    Argument
# Time: 2026-11-27T02:00:00.000000Z
# User@Host: app[app] @ localhost []  Id:     8
# Query_time: 0.000123  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1
use mall;
SET timestamp=1764208800;
SELECT note FROM orders WHERE id = 7;
# Time: 2026-11-27T02:00:01.000000Z
# Query_time: 0.000123  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1
SET PASSWORD FOR 'x' = 'kept4secret';
# administrator command: Quit;
# Query_time: 0.000123  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1
UPDATE orders SET note = 'it''s;
# two lines' WHERE id = 8;
SELECT note FROM orders WHERE id = 9;
# Time: 2026-11-27T02:00:02.000000Z
SELECT 'cut
"""
GENERAL = """mysqld, Version: 5.6.24 (MySQL). started with:
Tcp port: 0  Unix socket: s
Time                 Id Command    Argument
261127  2:33:14\t    3 Connect\tapp@localhost on mall
\t\t    3 Query\tCREATE USER 'a' IDENTIFIED BY 'kept4secret'
\t\t    3 Prepare\tSELECT note FROM orders WHERE id = ?
2026-11-27T02:33:14.123456Z\t   12 Execute\tSELECT note FROM orders WHERE id = 7
2026-11-27T02:33:14.123456Z\t   12 Query\tUPDATE orders SET note = 'it''s;
# two lines' WHERE id = 8
2026-11-27T02:33:14.123456Z\t   12 Query\tSELECT note FROM orders WHERE id = 9
2026-11-27T02:33:15.123456Z\t   12 Quit\t
2026-11-27T02:33:15.123456Z\t   12 Query\tSELECT 'cut
"""
POSTGRES = """2026-11-27 02:33:14.123 UTC [77] app@mall LOG:  statement: SELECT note FROM orders WHERE id = 7;
2026-11-27 02:33:14.124 UTC [77] app@mall LOG:  execute <unnamed>: UPDATE orders SET note = $2
\tWHERE id = $1
2026-11-27 02:33:14.124 UTC [77] app@mall DETAIL:  parameters: $1 = '8', $2 = 'it''s;
\t# two lines'
2026-11-27 02:33:14.125 UTC [77] app@mall LOG:  duration: 0.042 ms  parse <unnamed>: SELECT 1
2026-11-27 02:33:14.125 UTC [77] app@mall LOG:  duration: 0.042 ms  statement: SELECT note FROM orders WHERE id = 9
2026-11-27 02:33:14.126 UTC [77] app@mall LOG:  statement: ALTER ROLE app PASSWORD 'kept4secret'
2026-11-27 02:33:14.126 UTC [77] app@mall ERROR:  syntax error at or near "SELEC" at character 1
2026-11-27 02:33:14.126 UTC [77] app@mall STATEMENT:  SELEC 1
2026-11-27 02:33:14.127 UTC [77] app@mall LOG:  execute s1: SELECT $1 + 1
2026-11-27 02:33:14.128 UTC [77] app@mall LOG:  statement: SELECT 'cut
"""
SQL = """-- what the shop does
SELECT note FROM orders WHERE id = 7;
BEGIN;
UPDATE orders SET note = 'it''s;
# two lines' WHERE id = 8; SELECT note FROM orders WHERE id = 9;
COMMIT;
GRANT ALL ON *.* TO a IDENTIFIED BY 'kept4secret';
SELECT 1 INTO OUTFILE '/tmp/x';
SELECT 'cut
"""
FORMS = {"MySQL's slow log": SLOW, "MySQL's general log": GENERAL, "PostgreSQL's log": POSTGRES, "a file of SQL": SQL}


def read(folder: Path, text: str | bytes, most: int = 100, *, reads_only: bool = False) -> Any:
    file = folder / "log"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return log_of(file, str(text), most, reads_only=reads_only)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_statements_in_their_order(form: str, tmp_path: Path) -> None:
    for text in (FORMS[form], gzip.compress(FORMS[form].encode())):
        log = read(tmp_path, text)
        assert log.form == form
        first, second, third = (one.text for one in log.statements)
        assert (first, third) == ("SELECT note FROM orders WHERE id = 7", "SELECT note FROM orders WHERE id = 9")
        assert " ".join(second.replace("'8'", "8").split()) == (
            "UPDATE orders SET note = 'it''s; # two lines' WHERE id = 8"
        )
        assert log.left_out["are cut off, or lack their values"] == 1 + (form == "PostgreSQL's log")
        assert "kept4secret" not in repr(log)


@pytest.mark.parametrize("form", FORMS)
def test_shapes_are_called_by_what_they_do_and_their_digest(form: str, tmp_path: Path) -> None:
    log = read(tmp_path, FORMS[form])
    select, update = log.most_frequent(8)
    assert select.name == f"select-orders-{select.digest}"
    assert update.shape == "UPDATE orders SET note = ? WHERE id = ?"
    assert [one.digest for one in log.statements] == [select.digest, update.digest, select.digest]
    assert [one.digest for one in log.most_frequent(1)] == [select.digest]


def test_a_part_of_a_log(tmp_path: Path) -> None:
    assert len(read(tmp_path, SLOW, 2).statements) == 2
    log = read(tmp_path, SLOW, reads_only=True)
    assert [one.reads for one in log.statements] == [True, True]
    assert log.left_out["write, and only those that read were asked for"] == 1


def test_bytes_that_are_no_text_come_as_they_are(tmp_path: Path) -> None:
    text = b"SELECT * FROM t WHERE b = '\xff\xfe' AND c = 'gr\xc3\xb6\xc3\x9fer \xe2\x98\x83';\n"
    (one,) = read(tmp_path, text).statements
    assert one.text.encode("utf-8", "surrogateescape") + b";\n" == text


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("SELECT /*+ NO_ICP(t) */ a FROM t -- now\nWHERE b=-1", "SELECT /*+ NO_ICP(t) */ a FROM t WHERE b=?"),
        ("/* app */ SELECT 1e-3, .5, 0xFF, x'00', a1, t.b2 # no", "SELECT ?, ?, ?, x?, a1, t.b2"),
        ("INSERT INTO t (a, b) VALUES (1, 'x'),\n(2, NULL)", "INSERT INTO t (a, b) VALUES (...), (?, NULL)"),
        ('SELECT "a", `a 1` FROM t', "SELECT ?, `a 1` FROM t"),
        ("SELECT 'a\\'b', 'c''d'", "SELECT ?, ?"),
    ],
)
def test_a_shape_has_no_values(text: str, shape: str) -> None:
    assert shape_of(text) == shape


def test_in_postgres_double_quotes_hold_names() -> None:
    assert shape_of("SELECT \"a 1\", 'x\\', $$it's 5$$", postgres=True) == 'SELECT "a 1", ?, ?'


@given(st.text(alphabet="abé;'\"`\\#-$/* \n", max_size=30), st.integers(0, 10**6))
def test_no_text_of_a_value_is_in_a_shape(text: str, number: int) -> None:
    for literal, postgres in (
        ("'" + text.replace("\\", "\\\\").replace("'", "''") + "'", False),
        ("'" + text.replace("'", "''") + "'", True),
    ):
        assert shape_of(f"SELECT c FROM t WHERE a = {literal} AND b = {number}", postgres=postgres) == (
            "SELECT c FROM t WHERE a = ? AND b = ?"
        )


def own(folder: Path, **step: Any) -> OwnParameters:
    (folder / "t.sql").write_text("CREATE TABLE orders (id INT PRIMARY KEY);\n")
    step = {"file": str(folder / "slow.log"), **step}
    return OwnParameters.model_validate({"tables": str(folder / "t.sql"), "steps": {"replay": step}})


def test_the_most_frequent_shapes_are_steps_too(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(SLOW)
    parameters = own(tmp_path)
    log, select, update = parameters.every
    assert (log, select[:21], update[:21]) == ("replay", "replay.select-orders-", "replay.update-orders-")
    assert [parameters.writes(step) for step in (log, select, update)] == [True, False, True]
    both = parameters.step(select).log
    assert both
    assert len(both.statements) == 2
    alone = parameters.only(select)
    assert list(alone.every) == [select]
    assert alone.step(select).log == both
    assert list(own(tmp_path, alone=0).every) == ["replay"]
    assert list(own(tmp_path, alone=1, reads_only=True).every) == ["replay", select]
    with pytest.raises(RqpsError, match=r"no step 'replay\.delete-orders-00000000'"):
        parameters.only("replay.delete-orders-00000000")


def test_another_log_is_another_study(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(SLOW)
    before = own(tmp_path)
    (tmp_path / "slow.log").write_text(SLOW + "SELECT 1;\n")
    assert own(tmp_path).steps["replay"].digest != before.steps["replay"].digest
    with pytest.raises(RqpsError, match=r"slow\.log: has changed"):
        before.every  # noqa: B018
    again = OwnParameters.model_validate(before.model_dump())
    assert again.steps["replay"] == before.steps["replay"], "a study that was packed needs no file to be read"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"sql": "SELECT 1"}, "either sql, a file of statements, or a mix"),
        ({"rows": 1}, "a file of statements has no values and no rows"),
        ({"values": {"a": "1..2"}}, "a file of statements has no values and no rows"),
        ({"only": "x"}, "string_pattern_mismatch"),
        ({"most": 0}, "greater_than_equal"),
        ({"file": "gone.log"}, "no such file"),
    ],
)
def test_a_step_of_a_log_that_can_not_be_is_refused(step: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(SLOW)
    with pytest.raises(ValidationError) as error:
        own(tmp_path, **step)
    assert words in str(error.value) + repr(error.value.errors())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "slow.log: read as a file of SQL, has no statement that can be replayed"),
        ("SET GLOBAL a = 'kept4secret';", "; 1 neither read nor write rows"),
        (
            "# Time: 1\nSELECT 'cut",
            "read as MySQL's slow log, has no statement that can be replayed; 1 are cut off",
        ),
    ],
)
def test_a_log_of_nothing_says_what_it_has(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(text)
    with pytest.raises(RqpsError) as error:
        own(tmp_path).every  # noqa: B018
    assert words in str(error.value)
    assert "kept4secret" not in str(error.value)


def test_only_a_log_has_its_keys() -> None:
    with pytest.raises(ValueError, match="reads_only and only belong to a step with a file"):
        StepSpec(sql="SELECT 1", reads_only=True)
