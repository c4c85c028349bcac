"""Status and settings as real servers of each generation report them."""

from collections.abc import Iterator

import polars as pl
import pytest
from rqps.engines.data import copy, origin, variables
from rqps.engines.instance import Connection, query, running
from rqps.engines.sources import locate
from rqps.observe.settings import read_settings
from rqps.observe.status import read_status, status_rows
from rqps.store.schemas import SETTINGS, STATUS
from rqps.study import BuildSpec

pytestmark = pytest.mark.live

KINDS = {
    "5.5.34": {"variable", "instrument", "consumer", "timer"},
    "5.6.24": {"variable", "instrument", "consumer", "timer", "actor", "object"},
    "8.0.33": {"variable", "instrument", "consumer", "timer", "actor", "object", "thread"},
    "9.7": {"variable", "instrument", "consumer", "timer", "actor", "object", "thread"},
}


@pytest.fixture(scope="module", params=sorted(KINDS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Connection]]:
    """A version and a connection to a server of it with its performance schema on."""
    version: str = request.param
    build = locate(f"my{version}", BuildSpec(mysql=version), print)
    source = origin(build, {})
    variables(source, print)
    folder = tmp_path_factory.mktemp("server")
    copy(source.folder / "empty" / "data", folder / "data")
    arguments = ("--performance-schema=ON", "--innodb-buffer-pool-size=64M")
    with running(build, folder / "data", arguments=arguments, log=folder / "error.log") as started:
        connection = started.connect()
        yield version, connection
        connection.close()


def test_status_is_every_value_by_its_lower_case_name(server: tuple[str, Connection]) -> None:
    _, connection = server
    before = read_status(connection)
    query(connection, "SELECT 1")
    after = read_status(connection)
    assert int(after["com_select"]) == int(before["com_select"]) + 1
    assert len(before) > 280
    assert all(name == name.lower() for name in before)
    rows = status_rows("point-query", "before", before)
    assert rows.schema == STATUS
    assert rows["moment"].unique().to_list() == ["before"]
    assert len(rows) == len(before)


def test_settings_hold_what_the_version_has_and_nothing_else(server: tuple[str, Connection]) -> None:
    version, connection = server
    frame = read_settings(connection)
    assert frame.schema == SETTINGS
    assert set(frame["kind"]) == KINDS[version]
    assert frame.select("kind", "name").is_duplicated().sum() == 0
    counts = dict(frame.group_by("kind").len().iter_rows())
    for kind, table in (("instrument", "setup_instruments"), ("consumer", "setup_consumers")):
        assert [(counts[kind],)] == query(connection, f"SELECT COUNT(*) FROM performance_schema.{table}")
    assert counts["variable"] > 300


def test_the_clocks_are_recorded_with_what_reading_them_costs(server: tuple[str, Connection]) -> None:
    version, connection = server
    timers = dict(read_settings(connection).filter(kind="timer").select("name", "value").iter_rows())
    assert int(timers["CYCLE frequency"]) > 10**8
    assert 0 < int(timers["CYCLE overhead"]) < int(timers["CYCLE frequency"])
    assert int(timers["NANOSECOND frequency"]) > 10**8
    chosen = {"5.5.34": "CYCLE", "5.6.24": "CYCLE"}  # later ones can't choose
    assert timers.get("wait") == chosen.get(version)


def test_a_switch_turned_off_reads_back_as_off(server: tuple[str, Connection]) -> None:
    _, connection = server
    name = query(
        connection, "SELECT name FROM performance_schema.setup_instruments WHERE name LIKE 'wait/io/file/%'"
    )[0][0]
    where = f"WHERE name = '{name}'"
    query(connection, f"UPDATE performance_schema.setup_instruments SET enabled = 'NO', timed = 'NO' {where}")
    [off] = read_settings(connection).filter(pl.col("kind") == "instrument", pl.col("name") == name).to_dicts()
    query(connection, f"UPDATE performance_schema.setup_instruments SET enabled = 'YES', timed = 'YES' {where}")
    [on] = read_settings(connection).filter(pl.col("kind") == "instrument", pl.col("name") == name).to_dicts()
    assert (off["value"], off["timed"], on["value"], on["timed"]) == ("NO", "NO", "YES", "YES")


def test_variables_are_the_servers_own(server: tuple[str, Connection]) -> None:
    version, connection = server
    variables = dict(
        read_settings(connection).filter(pl.col("kind") == "variable").select("name", "value").iter_rows()
    )
    assert variables["version"].startswith(version)
    assert variables["innodb_buffer_pool_size"] == str(64 << 20)
    assert variables["performance_schema"] == "ON"
