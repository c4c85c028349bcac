"""Point lookups without a server: steps, what a study may ask, the table's statements, and mysqlslap's words."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rqps.engines import Access
from rqps.engines.mysql import dialect as mysql
from rqps.engines.postgres import dialect as postgres
from rqps.errors import RqpsError
from rqps.study import BuildSpec
from rqps.workloads.point_lookups.generator import Report, complaints, mysqlslap, read_report, with_mysqlslap
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.steps import KINDS, PUBLISHED, find
from rqps.workloads.point_lookups.workload import difference, statements

TEN_ROWS = "(null,0,0,0),(null,0,0,0),(null,0,0,0),(null,0,0,0),(null,0,0,0),(null,0,0,0),(null,0,0,0)"
TEN_ROWS += ",(null,0,0,0),(null,0,0,0),(null,0,0,0)"


def asked(**parameters: object) -> PointLookupsParameters:
    return PointLookupsParameters.model_validate(parameters)


def refused(**parameters: object) -> str:
    with pytest.raises(ValidationError) as caught:
        asked(**parameters)
    (error,) = caught.value.errors()
    return error["msg"].removeprefix("Value error, ")


def test_the_queries_are_the_published_ones() -> None:
    assert {name: KINDS[name].query for name in PUBLISHED} == {
        "pk": "select j from foo where i = 100",
        "pk-force": "select j from foo FORCE INDEX(`PRIMARY`) where i = 100",
        "cover-noforce": "select k from foo where j = 100",
        "nocover-force": "select k from foo FORCE INDEX(`xj`) where j = 100",
        "cover-force": "select k from foo FORCE INDEX(`xjk`) where j = 100",
    }


def test_the_table_is_made_as_published() -> None:
    assert list(statements("innodb", 64_000, mysql)) == [
        "create table foo (i int primary key auto_increment, j int, k int, l int) engine=innodb",
        *[f"insert into foo values {TEN_ROWS}"] * 100,
        *["insert into foo select null,0,0,0 from foo"] * 6,
        "update foo set j=i, k=i",
        "create index xj on foo(j)",
        "create index xjk on foo(j,k)",
    ]


def test_the_table_is_made_in_another_servers_sql() -> None:
    made = list(statements("heap", 2000, postgres))
    assert made[0] == "create table foo (i serial primary key, j int, k int, l int)"
    assert made[1].startswith("insert into foo values (nextval('foo_i_seq'),0,0,0),")
    assert made[101:] == [
        "insert into foo select nextval('foo_i_seq'),0,0,0 from foo",
        "update foo set j=i, k=i",
        "create index xj on foo(j)",
        "create index xjk on foo(j,k)",
        "vacuum (analyze) foo",
    ]


def test_a_server_without_hints_has_the_kinds_without_them() -> None:
    of_heap = asked(engines=["heap"])
    assert of_heap.kinds == ("pk", "cover-noforce", "nocover-noforce")
    assert of_heap.steps[:2] == ("heap.pk@1", "heap.cover-noforce@1")
    assert of_heap.estimated_seconds == of_heap.estimated_duet_seconds, "sysbench asks it for so many seconds"
    words = refused(engines=["heap"], kinds=["pk", "pk-force", "cover-force"])
    assert words.startswith("kinds: pk-force, cover-force tell the server which index to use")
    assert words.endswith("write some of pk, cover-noforce, nocover-noforce")


def test_builds_and_storage_engines_have_to_fit() -> None:
    builds = {"my": BuildSpec(mysql="8.0.33"), "pg": BuildSpec(postgres="14.0")}
    assert str(asked().refused(builds, True)).startswith("point-lookups: pg can't have tables of the engines innodb")
    assert str(asked(engines=["heap"]).refused(builds, True)).startswith("point-lookups: my can't have tables of the")
    assert asked(engines=["heap"]).refused({"pg": builds["pg"]}, False) is None
    assert asked().refused({"my": builds["my"]}, False) is None


def test_published_sizes_are_what_is_asked_for_if_nothing_is() -> None:
    usual = asked()
    assert (usual.table_rows, usual.clients, usual.program) == (64_000, (1, 4, 32), "8.0.33")
    assert [usual.warmup_of(scans=scans) for scans in (False, True)] == [1000, 1]
    assert [usual.queries_of(clients, scans=scans) for clients in (1, 32) for scans in (False, True)] == [100_000] * 4
    assert len(usual.steps) == 2 * 3 * 5


def test_kinds_are_neighbours_then_clients_then_engines() -> None:
    steps = asked(kinds=["pk", "cover-force"], clients=[1, 4]).steps
    assert steps[:4] == ("innodb.pk@1", "innodb.cover-force@1", "innodb.pk@4", "innodb.cover-force@4")
    assert steps[4:] == tuple(step.replace("innodb", "memory") for step in steps[:4])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kinds": ["pk-forced"]}, "unknown kind 'pk-forced'; did you mean 'pk-force'?"),
        ({"kinds": ["cover"]}, "unknown kind 'cover'; did you mean 'cover-force'?"),
        (
            {"kinds": ["x"]},
            "unknown kind 'x'; the kinds are pk, pk-force, cover-noforce, nocover-force, cover-force, ",
        ),
        ({"clients": [4, 1, 4]}, "4 is there more than once"),
        ({"engines": ["memory", "memory"]}, "'memory' is there more than once"),
        ({"table_rows": 65_000}, "65000 rows can't be made by doubling 1000; write 64000 or 128000"),
        ({"table_rows": 10}, "10 rows can't be made by doubling 1000; write 1000"),
        ({"clients": [0]}, "Input should be greater than or equal to 1"),
        ({"clients": []}, "is empty; it needs at least one"),
        ({"engines": ["InnoDB"]}, "'InnoDB' can't be an engine; write its name in small letters, such as innodb or"),
        (
            {"seconds": 2, "slice_ms": 1001},
            "slice_ms is 1001: each server has two slices of a cycle, and a step of 2 s no room for them; write 1000",
        ),
        (
            {"mysqlslap": "newest"},
            "'newest' is neither a version, such as \"8.0.33\", nor a path, such as /opt/mysql",
        ),
    ],
)
def test_a_mistake_is_reported(parameters: dict[str, object], words: str) -> None:
    assert refused(**parameters).startswith(words)


def test_a_step_that_does_not_exist_is_reported() -> None:
    with pytest.raises(ValueError, match=r"unknown step 'innodb\.scan@1'; a step is ENGINE\.KIND@CLIENTS"):
        find("innodb.scan@1")


def test_many_clients_ask_less_each_and_at_least_once() -> None:
    some = asked(queries=10_000, most_queries=20_000, scan_queries=20)
    assert [some.queries_of(clients, scans=False) for clients in (1, 4, 32)] == [10_000, 5_000, 625]
    assert [some.queries_of(clients, scans=True) for clients in (1, 4, 32)] == [20, 5, 1]


def test_more_work_is_estimated_to_take_longer() -> None:
    small, large = asked(queries=1000), asked(queries=100_000)
    assert 0 < small.estimated_seconds < large.estimated_seconds
    capped = asked(scan_queries=10)
    assert capped.estimated_seconds < asked().estimated_seconds, "where each query reads all rows, these take most"
    assert asked(kinds=["pk"]).estimated_seconds < asked(kinds=["cover-force"], scan_queries=None).estimated_seconds
    short, long = asked(queries=1, seconds=2), asked(queries=1000, seconds=3, warmup_seconds=1)
    assert long.estimated_duet_seconds - short.estimated_duet_seconds == 2 * len(short.steps), "whatever the queries"


@given(st.integers(0, 10**9), st.integers(1, 10_000), st.integers(1, 10**12))
def test_the_report_of_mysqlslap_is_read_from_between_other_lines(ms: int, clients: int, queries: int) -> None:
    s = f"{ms // 1000}.{ms % 1000:03}"
    lines = [
        "rqps begin\n",
        "/x/mysqlslap: Error, in 1.000 of 2\n",
        f",mixed,{s},{s},{s},{clients},{queries}\n",
        "\n",
    ]
    assert read_report(lines) == Report(ms / 1000, clients, queries)
    assert read_report([line for line in lines if "mixed" not in line]) is None
    assert complaints(lines) == ["mysqlslap: Error, in 1.000 of 2"]


def plan(key: str | None = "xjk", *, covers: bool = False, scans: bool = False) -> Access:
    return Access(key, covers, {"rows": 64000 if scans else 1}, "", scans)


@pytest.mark.parametrize(
    ("step", "result", "words"),
    [
        ("innodb.pk@1", plan("PRIMARY"), ""),
        ("innodb.cover-force@1", plan(covers=True), ""),
        ("innodb.nocover-force@1", plan("xj"), ""),
        ("innodb.cover-noforce@1", plan("xj"), "innodb reads by index xj, not by xjk: "),
        ("memory.cover-force@1", plan(None, scans=True), "memory reads all of about 64000 rows by"),
        ("innodb.cover-force@1", plan(covers=True, scans=True), "innodb reads all of index xjk: "),
        ("innodb.cover-force@1", plan(), "innodb reads index xjk and the row with it, which is not what"),
        (
            "innodb.nocover-force@1",
            plan("xj", covers=True),
            "innodb reads index xj alone, which is not what the kind",
        ),
    ],
)
def test_a_plan_is_compared_with_the_name_of_its_kind(step: str, result: Access, words: str) -> None:
    reported = difference(find(step), result)
    assert reported.startswith(words)
    assert bool(reported) == bool(words)
    assert not reported or reported.endswith(find(step).kind.query)


def test_a_mysqlslap_that_is_not_there_is_reported() -> None:
    with pytest.raises(RqpsError, match="mysqlslap: /nowhere/mysqlslap is no file") as caught:
        mysqlslap("/nowhere/mysqlslap")
    assert caught.value.fix == "give the path of a mysqlslap, or one of the versions 5.5.34, 5.6.14, 8.0.33"


@pytest.mark.parametrize("version", ["5.6.24", "9.7.1", "4.1.0"])
def test_a_version_without_one_is_reported_before_it_is_fetched(version: str) -> None:
    assert with_mysqlslap() == ["5.5.34", "5.6.14", "8.0.33"]
    with pytest.raises(RqpsError, match=f"mysqlslap: the catalogue has no mysqlslap of version {version}") as caught:
        mysqlslap(version)
    assert "give one of 5.5.34, 5.6.14, 8.0.33, or the path of a mysqlslap" in str(caught.value.fix)


@pytest.mark.parametrize("words", ["sysbench 1.0.20", ""])
def test_a_file_that_is_no_mysqlslap_is_reported(words: str, tmp_path: Path) -> None:
    program = tmp_path / "mysqlslap-that-is-none"
    program.write_text(f"#!/bin/sh\necho '{words}'\n")
    program.chmod(0o755)
    with pytest.raises(RqpsError, match="does not report its version as a mysqlslap does") as caught:
        mysqlslap(str(program))
    assert (words or "it prints nothing") in caught.value.message


@pytest.mark.parametrize(
    ("text", "version", "option"),
    [
        ("mysqlslap  Ver 8.0.33 for Linux on x86_64 (MySQL Community Server - GPL)", "8.0.33", "--ssl-mode=DISABLED"),
        ("mysqlslap  Ver 1.0 Distrib 5.5.34, for Linux (x86_64)", "5.5.34", "--skip-ssl"),
        ("mysqlslap  Ver 1.0 Distrib 10.11.6-MariaDB, for debian-linux-gnu (x86_64)", "10.11.6", "--skip-ssl"),
        ("mariadb-slap from 11.8.3-MariaDB, client 10.11 Ver 11.8.3 for Linux", "11.8.3", "--skip-ssl"),
    ],
)
def test_each_kind_of_mysqlslap_is_reported_in_its_own_words_to_do_without_tls(
    text: str, version: str, option: str, tmp_path: Path
) -> None:
    program = tmp_path / f"slap-{version}"
    program.write_text(f'#!/bin/sh\necho "{program.parent}/{text}"\n')
    program.chmod(0o755)
    result = mysqlslap(os.fspath(program))
    assert (result.version, result.without_tls) == (version, option)
    assert result.words == f"{version} (sha256 {result.digest[:12]})"
