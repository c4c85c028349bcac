"""Status and settings as real servers of each generation report them."""

from collections.abc import Iterator

import polars as pl
import pytest
from live_server import running
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.build import locate
from rqps.engines.mysql.data import origin_of
from rqps.engines.mysql.instance import Connection, query
from rqps.engines.mysql.reports import read_settings, read_status
from rqps.store.schemas import SETTINGS
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
    source = origin_of(build, {})
    source.known(print)
    folder = tmp_path_factory.mktemp("server")
    copy_folder(source.folder / "initialised" / "data", folder / "data")
    arguments = ("--performance-schema=ON", "--innodb-buffer-pool-size=64M")
    with running(build, folder / "data", arguments=arguments, log=folder / "error.log") as started:
        connection = started.connect()
        yield version, connection
        connection.close()


def settings(connection: Connection) -> pl.DataFrame:
    return pl.DataFrame(read_settings(connection), schema=SETTINGS)


def test_status_is_every_value_by_its_lower_case_name(server: tuple[str, Connection]) -> None:
    _, connection = server
    before = read_status(connection)
    query(connection, "SELECT 1")
    after = read_status(connection)
    assert int(after["com_select"]) == int(before["com_select"]) + 1
    assert len(before) > 280
    assert all(name == name.lower() for name in before)


def test_settings_hold_what_the_version_has_and_nothing_else(server: tuple[str, Connection]) -> None:
    version, connection = server
    frame = settings(connection)
    assert set(frame["kind"]) == KINDS[version]
    assert frame.select("kind", "name").is_duplicated().sum() == 0
    counts = dict(frame.group_by("kind").len().iter_rows())
    for kind, table in (("instrument", "setup_instruments"), ("consumer", "setup_consumers")):
        assert [(counts[kind],)] == query(connection, f"SELECT COUNT(*) FROM performance_schema.{table}")
    assert counts["variable"] > 300


def test_the_clocks_are_recorded_with_what_reading_them_costs(server: tuple[str, Connection]) -> None:
    version, connection = server
    timers = dict(settings(connection).filter(kind="timer").select("name", "value").iter_rows())
    assert int(timers["CYCLE frequency"]) > 10**8
    assert 0 <= int(timers["CYCLE overhead"]) < int(timers["CYCLE frequency"])
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
    [off] = settings(connection).filter(pl.col("kind") == "instrument", pl.col("name") == name).to_dicts()
    query(connection, f"UPDATE performance_schema.setup_instruments SET enabled = 'YES', timed = 'YES' {where}")
    [on] = settings(connection).filter(pl.col("kind") == "instrument", pl.col("name") == name).to_dicts()
    assert (off["value"], off["timed"], on["value"], on["timed"]) == ("NO", "NO", "YES", "YES")


def test_variables_are_the_servers_own(server: tuple[str, Connection]) -> None:
    version, connection = server
    variables = dict(settings(connection).filter(pl.col("kind") == "variable").select("name", "value").iter_rows())
    assert variables["version"].startswith(version)
    assert variables["innodb_buffer_pool_size"] == str(64 << 20)
    assert variables["performance_schema"] == "ON"
