"""Refusals of a real server: a deadlock is done again and reported, anything else fails the step."""

from collections import Counter
from collections.abc import Iterator

import pytest
from live_load import Sysbenched, asked, logging_server
from rqps.engines.mysql.instance import query
from rqps.errors import RqpsError
from rqps.numbers import in_percent

pytestmark = pytest.mark.live

THREADS = 8
FEW_ROWS = 20
"""That the threads find each other at."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sysbenched]:
    with logging_server(tmp_path_factory.mktemp("retries")) as running:
        yield running


@pytest.mark.parametrize(("step", "prepared"), [("write-only", True), ("read-write_range=10", False)])
def test_a_transaction_that_met_a_deadlock_is_done_again(step: str, prepared: bool, house: Sysbenched) -> None:
    for seconds in (4, 15, 60):  # on a busy machine, threads that wait for the CPU don't meet
        answer, logged = house.do(step, threads=THREADS, table_rows=FEW_ROWS, prepared=prepared, seconds=seconds)
        columns = answer.columns
        if columns["retries"]:
            break
    begun = Counter(entry.statement for entries in logged.values() for entry in entries if entry.command != "Prepare")
    # Each thread does one that ends after the measured part and is not counted, and may be refused in it.
    done_again = begun["BEGIN"] - begun["COMMIT"]
    assert columns["transactions"] + THREADS == begun["COMMIT"]
    assert 0 < columns["retries"] <= done_again <= columns["retries"] + THREADS
    assert columns["errors"] == 0
    assert columns["operations_per_s"] > 0
    (warning,) = answer.warnings
    share = columns["retries"] / (columns["retries"] + columns["transactions"])
    assert (warning.kind, warning.step) == ("retries", step)
    assert warning.text.startswith(f"{in_percent(share)} of transactions")
    assert sum(row["retries"] for row in answer.intervals) == columns["retries"]


def test_a_lock_that_is_waited_for_too_long_is_asked_for_again(house: Sysbenched) -> None:
    house.ask("SET GLOBAL innodb_lock_wait_timeout = 1")
    locks = [f"UPDATE {table} SET pad = pad WHERE id = 1" for table in ("sbtest1", "sbtest2")]
    parameters = asked("update-one", seconds=3)
    with house.holding("BEGIN", *locks) as holding, house.at_work("update-one", parameters) as load:
        load.wait_for_end()
        query(holding, "ROLLBACK")
        load.wait_until_gone()
    house.ask("SET GLOBAL innodb_lock_wait_timeout = 50")
    columns = house.workload.answers("update-one", parameters, load)[0].columns
    assert columns["retries"] >= 1
    assert columns["operations_per_s"] is None, "nothing came to its end in the measured part"


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("ALTER TABLE sbtest1 ADD UNIQUE (pad(1))", "Duplicate entry"),
        ("RENAME TABLE sbtest1 TO elsewhere", "Table 'rqps.sbtest1' doesn't exist"),
    ],
)
def test_any_other_error_fails_the_step(trouble: str, words: str, house: Sysbenched) -> None:
    """The last test here, since nothing sets the tables right again."""
    house.ask("SET sql_mode = ''", "DELETE FROM sbtest1 WHERE id > 1", trouble, database="rqps")
    with pytest.raises(RqpsError, match=words):
        house.do("insert", seconds=5)
