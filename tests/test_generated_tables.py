"""Tables made of a few words in runs.yaml: their statements, the distributions of their columns, and bad input."""

from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError
from rqps.engines.mysql import dialect as mysql
from rqps.engines.postgres import dialect as postgres
from rqps.workloads.own.generated_tables import columns_of, statements
from rqps.workloads.own.parameters import OwnParameters

MALL: dict[str, Any] = {
    "customers": {
        "rows": 200,
        "columns": {"id": "key", "name": "text 20", "country": {"list": ["DE", "FR"], "zipf": 2}},
    },
    "orders": {
        "rows": 3000,
        "columns": {
            "id": "key",
            "customer": {"column": "customers.id", "zipf": 0.9},
            "country": {"column": "customers.country", "same_row_as": "customer"},
            "total": "1..4000000000",
            "day": "2020-01-01..2020-01-31",
            "share": [0.5, 1],
        },
        "indexes": ["customer", ["customer", "day"]],
    },
}


def own(tables: Any) -> OwnParameters:
    return OwnParameters.model_validate({"tables": tables, "steps": {"one": "SELECT 1"}})


def made(tables: Any) -> dict[str, list[Any]]:
    drawn: dict[str, Any] = {}
    parameters = own(tables)
    assert not isinstance(parameters.tables, str)
    for table, spec in parameters.tables.items():
        drawn |= {f"{table}.{name}": column for name, column in columns_of(table, spec, drawn)}
    return {name: list(column.values) for name, column in drawn.items()}


def test_rows_are_as_they_were_asked_for() -> None:
    rows = made(MALL)
    assert rows["customers.id"] == list(range(1, 201))
    assert all(0 <= len(name) <= 20 for name in rows["customers.name"])
    assert len(set(rows["customers.name"])) == 200
    countries = Counter(rows["customers.country"])
    assert set(countries) == {"DE", "FR"}
    assert countries["DE"] > 2 * countries["FR"]  # four times by Zipf's law; the seed is fixed
    assert all(1 <= total <= 4_000_000_000 for total in rows["orders.total"])
    assert set(rows["orders.day"]) == {f"2020-01-{day:02}" for day in range(1, 32)}
    assert set(rows["orders.share"]) == {0.5, 1}


def test_columns_of_one_row_belong_together() -> None:
    rows = made(MALL)
    country_of = dict(zip(rows["customers.id"], rows["customers.country"], strict=True))
    orders = zip(rows["orders.customer"], rows["orders.country"], strict=True)
    assert all(country_of[customer] == country for customer, country in orders)
    most, second, *_ = Counter(rows["orders.customer"]).most_common()
    assert (most[0], second[0]) == (1, 2)


def test_the_same_words_make_the_same_rows_and_a_further_column_changes_none() -> None:
    more = {**MALL, "orders": {**MALL["orders"], "columns": {"first": "text 9", **MALL["orders"]["columns"]}}}
    before, after = made(MALL), made(more)
    assert before == made(MALL)
    assert {name: after[name] for name in before} == before
    assert own(MALL).digest == own(MALL).digest != own(more).digest


@pytest.mark.parametrize(
    ("sql", "quote", "ending"), [(mysql, "`", " DEFAULT CHARACTER SET utf8mb4"), (postgres, '"', "")]
)
def test_statements_of_a_table(sql: Any, quote: str, ending: str) -> None:
    tables = {"t": {"rows": 2, "columns": {"id": "key", "a": ["it's"]}, "indexes": ["a"]}}
    parameters = own(tables)
    assert not isinstance(parameters.tables, str)
    spec = parameters.tables["t"]
    made_of = list(statements(sql, "t", spec, [column for _, column in columns_of("t", spec, {})]))
    text = sql.literal("it's")
    assert [statement.replace(quote, "") for statement in made_of] == [
        f"CREATE TABLE t (id INT NOT NULL, a VARCHAR(4) NOT NULL, PRIMARY KEY (id)){ending}",
        f"INSERT INTO t VALUES (1, {text}), (2, {text})",
        "CREATE INDEX t_a ON t (a)",
    ]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": "number"}, "'number' is no column; write key, text 20"),
        ({"a": "text 0"}, "'text 0' is no text; write 1 to 2000"),
        ({"a": "2020-02-01..2020-01-01"}, "has no days: write the earlier one first"),
        ({"a": "2020-02-31..2020-03-01"}, "day is out of range"),
        ({"a": "t.b"}, "tables.t.columns.a: 't.b' stands nowhere above; there are none"),
        ({"a": "key", "b": "t.b"}, "'t.b' stands nowhere above; there are t.a"),
        ({"a": "key", "b": "key"}, "a table has one key at most"),
        ({"a; DROP": "key"}, "string_pattern_mismatch"),
        ({}, "too_short"),
        ({"a": [1, 2], "b": {"list": [1], "same_row_as": "a"}}, "same_row_as: 'a' is of another table or length"),
        ({"a": "1..2", "b": {"list": [1], "same_row_as": "a"}}, "'a' is no list and no column of a table above it"),
        ({"a": {"range": "1..4000000000", "zipf": 0.9}}, "zipf: '1..4000000000' is wider than 10,000,000"),
    ],
)
def test_columns_that_can_not_be_made_are_refused(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        own({"t": {"rows": 2, "columns": columns}})
    assert words in str(error.value) + repr(error.value.errors())


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rows": 0}, "greater_than_equal"),
        ({"rows": 10_000_001}, "less_than_equal"),
        ({"rows": 1, "indexes": ["b"]}, "indexes: 'b' is no column; the columns are a"),
        ({"rows": 1, "indexes": [[]]}, "too_short"),
        ({"rows": 1, "keys": 1}, "extra_forbidden"),
    ],
)
def test_tables_that_can_not_be_made_are_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        own({"t": {"columns": {"a": "key"}, **table}})
    assert words in str(error.value) + repr(error.value.errors())
