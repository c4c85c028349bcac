"""The tables of names are checked against the symbols of real servers: no name is made up, no rename is a guess."""

import re
from collections.abc import Iterable, Mapping

import pytest
from rqps.engines import facts_of
from rqps.engines.mysql.build import locate
from rqps.engines.postgres.build import locate as locate_postgres
from rqps.engines.sources import catalogue
from rqps.profile.components import components, renames
from rqps.profile.costs import frame_name
from rqps.profile.names import readable
from rqps.profile.waits import waits
from rqps.study import BuildSpec
from symbols import functions

pytestmark = pytest.mark.live

OLD, NEW = ("5.5.34", "5.6.14", "5.6.24", "5.7.22"), ("8.0.12", "8.0.15", "8.0.31", "8.0.33", "9.7")
POSTGRES = ("12.6", "14.0", "15.1", "17.0", "18.6")
INLINED = {
    *("exec_parse_message*", "exec_bind_message*", "exec_execute_message*", "SocketBackend", "ReadCommand"),
    *("BackendStartup", "BackendRun", "InitPlan", "CopyXLog*", "ReserveXLog*", "MemoryChunk*", "expand_table"),
    "WalSndWaitForWal",
}
"""Patterns of static functions that are inlined in the catalogue's PostgreSQL: other builds have a symbol for some of
them, and their debug information names the rest."""
C_LIBRARY = {"read", "recv", "send", "write", "pwrite"}
Names = Mapping[str, set[str]]


@pytest.fixture(scope="module")
def names() -> Names:
    """The readable names of every function of every release of the catalogue."""
    assert {*OLD, *NEW} == catalogue("mysql").keys()
    builds = {version: locate(version, BuildSpec(mysql=version), print) for version in catalogue("mysql")}
    results = {version: set(functions(build.program)) for version, build in builds.items()}
    read = {name: readable(name) for name in set().union(*results.values())}
    return {version: {read[name] for name in of_version} for version, of_version in results.items()}


@pytest.fixture(scope="module")
def today(names: Names) -> Names:
    """The names that profiles show, by release."""
    return {version: {frame_name("mysql", name, False) for name in item} for version, item in names.items()}


def having(names: Names, versions: tuple[str, ...], name: str) -> list[str]:
    return [version for version in versions if name in names[version]]


def test_a_rename_is_from_a_name_that_older_servers_have_to_one_that_newer_servers_have(names: Names) -> None:
    for old, now in renames("mysql").new_name.items():
        assert having(names, OLD + NEW, old), f"no server has {old}"
        assert having(names, NEW, now), f"no newer server has {now}"
        both = [version for version in names if {old, now} <= names[version]]
        assert both == [], f"{both} have both {old} and {now}: these are two functions"


@pytest.fixture(scope="module")
def of_postgres() -> Names:
    """The readable names of every function of some releases of PostgreSQL, and of a module that comes along."""
    builds = {version: locate_postgres(version, BuildSpec(postgres=version), print) for version in POSTGRES}
    files = {
        version: [build.program, *build.directory.glob("lib/**/pg_stat_statements.so")]
        for version, build in builds.items()
    }
    return {version: {readable(name) for file in of for name in functions(file)} for version, of in files.items()}


def test_a_rename_of_postgres_is_from_a_name_of_some_release_to_one_of_a_newer(of_postgres: Names) -> None:
    for old, now in renames("postgres").new_name.items():
        assert having(of_postgres, POSTGRES, old), f"no server has {old}"
        assert having(of_postgres, POSTGRES[1:], now), f"no newer server has {now}"


def test_a_layer_is_a_function_that_not_all_servers_have(names: Names) -> None:
    for layer in renames("mysql").layers:
        assert 0 < len(having(names, OLD + NEW, layer)) < len(OLD + NEW), layer


def test_what_is_passed_is_a_function_of_a_real_server_and_no_layer(today: Names) -> None:
    """That not all stacks have it may be a compiler's doing, who made a jump or a part of the caller of it."""
    servers_own = [name for name in renames("mysql").passed if name not in C_LIBRARY]
    assert [name for name in servers_own if not having(today, OLD + NEW, name)] == []
    assert {*renames("mysql").passed} & {*renames("mysql").layers, *renames("mysql").starts} == set()


def test_a_class_that_was_renamed_is_gone_under_its_older_name(names: Names) -> None:
    owners = {version: {name.partition("::")[0] for name in item if "::" in name} for version, item in names.items()}
    for old, now in renames("mysql").new_class.items():
        assert having(owners, OLD, old), f"no older server has {old}"
        assert having(owners, NEW, now), f"no newer server has {now}"
        assert [version for version in names if {old, now} <= owners[version]] == []


def made_up(engine: str, patterns: Iterable[str], names: Names) -> set[str]:
    """The patterns that mean no function of these servers."""
    lines = "\n".join(["", *{frame_name(engine, name, False) for name in set().union(*names.values())}, ""])
    return {
        pattern
        for pattern in patterns
        if not re.search(f"\n{'.*'.join(map(re.escape, pattern.split('*')))}\n", lines)
    }


def test_every_pattern_of_the_servers_own_code_means_a_function_of_a_real_one(
    names: Names, of_postgres: Names
) -> None:
    of_mysql = (*(one.server for one in components("mysql")), *(wait.server for wait in waits("mysql")))
    assert made_up("mysql", {pattern for patterns in of_mysql for pattern in patterns}, names) == set()
    rows = (row for name in ("components", "waits") for row in facts_of("postgres").table(name))
    assert made_up("postgres", (pattern for row in rows for pattern in row["server"]), of_postgres) == INLINED


def test_names_of_real_functions_are_read_without_noise(names: Names) -> None:
    assert min(map(len, names.values())) > 10_000
    for name in set().union(*names.values()):
        assert readable(name) == name
        assert name.count("(") == name.count("operator()"), name
        assert "<" not in re.sub(r"operator(<=>|<<=|<<|<=|<|->\*|->)", "", name), name
