"""Point lookups on real PostgreSQL servers: two releases in turns, the plans of each, and one server by the clock."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import rqps
from live_study import Place
from rqps.engines import Option, Start
from rqps.engines.cache import copy_folder
from rqps.engines.postgres.engine import prepare
from rqps.errors import RqpsError
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.steps import UNHINTED, find
from rqps.workloads.point_lookups.workload import PointLookups
from test_live_postgres import Dbms

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]
RUNS = """
builds:
  pg12: {postgres: "12.3"}
  pg18: {postgres: "18.6"}
configs:
  quick: {shared_buffers: 64MB, jit: false, fsync: false, max_connections: 20}
studies:
  small:
    question: Is a row found?
    workload: point-lookups
    dbms: [pg12.quick, pg18.quick]
    base: pg12.quick
    rounds: 1
    parameters: {engines: [heap], clients: [1, 4], table_rows: 2000}
"""
FEW = PointLookupsParameters(engines=("heap",), clients=(1, 4), table_rows=64_000)
PLANS = {"pk": "Index Scan", "cover-noforce": "Index Only Scan", "nocover-noforce": "Index Scan"}


def test_two_releases_in_turns_answer_every_kind_of_query(tmp_path: Path) -> None:
    Place(tmp_path, RUNS).run()
    study = rqps.load("small", data=tmp_path / "data")
    assert set(study.runs["version"]) == {"12.3", "18.6"}
    steps = study.steps
    assert set(steps["step"]) == {f"heap.{kind}@{clients}" for kind in UNHINTED for clients in (1, 4)}
    assert set(steps["storage_engine"]) == {"heap"}
    assert (steps["operations"] > 0).all()
    assert (steps["server_cpu_s"] > 0).all()
    assert (steps["errors"] == 0).all()


@pytest.mark.parametrize("version", ["9.6.10", "12.3", "14.0", "18.6"])
def test_each_release_reads_as_the_kind_is_named_and_one_server_is_asked_by_the_clock(
    version: str, short: Path
) -> None:
    load, warnings = PointLookups(), []
    ready = prepare(Dbms(version, {"shared_buffers": Option("64MB")}), lambda _: None)
    data = ready.loaded(load.data_name(FEW), lambda server: load.load(server, FEW), lambda _: None)
    copy_folder(data, short / "data")
    with closing(ready.open(short / "data", Start(short / "log"))) as server:
        load.prepare(server, FEW)
        for step in FEW.steps:
            checked = load.check(server, step, FEW)
            (row,) = checked.plans
            assert row["access"] == PLANS[find(step).kind.name]
            warnings += [warning.text for warning in checked.warnings]
        for counted in (False, True):
            how: Any = {"seed": 1, "cpus": (), "log": short / "lookups.log", "counted": counted}
            with load.generating([server], "heap.pk@4", FEW, **how) as at_work:
                at_work.wait_for_all()
            (answer,) = load.answers("heap.pk@4", FEW, at_work)
            assert (answer.columns["clients"], answer.columns["errors"]) == (4, 0)
            assert answer.columns["operations"] == 4000 if counted else answer.columns["operations"] > 0
        with server.connect() as connection:
            connection.query("DROP INDEX rqps.xjk")
        with pytest.raises(RqpsError, match=r"rqps\.foo: indexes: asked for PRIMARY \(i\), xj \(j\), xjk \(j, k\)"):
            load.prepare(server, FEW)
    assert warnings == []
    assert list(load.tools(FEW, servers=1)) == ["sysbench"]
