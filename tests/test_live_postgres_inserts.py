"""The insert benchmark on real PostgreSQL servers: two releases in turns, the tables that stay, and the plans."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from live_study import Place
from rqps.engines import Option, Start
from rqps.engines.cache import copy_folder
from rqps.engines.postgres.engine import MeasuredServer, prepare
from rqps.errors import RqpsError
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import find
from rqps.workloads.insert_benchmark.workload import InsertBenchmark, explained
from test_live_postgres import Dbms

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]
RUNS = """
builds:
  pg12: {postgres: "12.3"}
  pg18: {postgres: "18.6"}
configs:
  quick: {shared_buffers: 64MB, jit: false, fsync: false}
studies:
  small:
    question: Does every row come to the tables?
    workload: insert-benchmark
    dbms: [pg12.quick, pg18.quick]
    base: pg12.quick
    rounds: 1
    parameters: {clients: 2, load_rows: 20000, write_rows: 5000, rates: [100], seconds: 1, debt_every_seconds: 0.1}
"""
SMALL = InsertBenchmarkParameters(load_rows=20_000, write_rows=5000, rates=(100,), seconds=1, wait_seconds=20)


def test_two_releases_take_turns_and_every_row_comes_to_its_table(tmp_path: Path) -> None:
    Place(tmp_path, RUNS).run()
    study = rqps.load("small", data=tmp_path / "data")
    assert set(study.runs["version"]) == {"12.3", "18.6"}
    steps = study.steps
    assert steps["step"].unique(maintain_order=True).to_list() == ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100"]
    assert (steps["server_cpu_s"] > 0).all()
    by_kind = study.clients.group_by("run", "step", "kind").agg(pl.col("operations").sum()).collect()
    due = {"l.i0": 40_000, "l.x": 200, "l.i1": 8000, "l.i2": 2000, "qr100": 200, "qp100": 200}
    for step, rows in due.items():
        assert by_kind.filter(step=step, kind="insert")["operations"].to_list() == [rows, rows]
        deletes = by_kind.filter(step=step, kind="delete")["operations"].to_list()
        assert deletes == ([] if step in ("l.i0", "l.x") else [rows, rows])
    plans = study.plans.unique(["run", "step", "statement"]).collect()
    indexes = {"qr100": {"pi1_marketsegment", "pi1_registersegment", "pi1_pdc"}, "qp100": {"PRIMARY"}}
    assert {step: set(rows["key"]) for (step,), rows in plans.group_by("step")} == indexes
    engine = study.engine.collect()
    for side in engine.filter(moment="before", step="qr100").partition_by("run"):
        assert 0 <= side["checkpoint_age_kb"][0] < side["redo_capacity_kb"][0] == 1 << 20
        assert side["buffer_pool_kb"][0] == 64 << 10
        assert side["history_length"][0] < 100, "vacuumed"
    during = engine.filter(moment="during").join(steps.select("run", "step", "elapsed_s"), on=["run", "step"])
    assert set(during.select("run", "step").unique().rows()) >= {(run, "qr100") for run in study.runs["run"]}
    assert during["second"].is_between(0, during["elapsed_s"]).all(), "seconds of a server's own turns"
    assert (engine["tables_kb"].drop_nulls() < engine["datadir_kb"].drop_nulls()).all()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    folder, load = tmp_path_factory.mktemp("i"), InsertBenchmark()
    ready = prepare(Dbms("9.6.10", {"shared_buffers": Option("64MB"), "fsync": Option(False)}), lambda _: None)
    data = ready.loaded(load.data_name(SMALL), lambda server: load.load(server, SMALL), lambda _: None)
    copy_folder(data, folder / "data")
    with closing(ready.open(folder / "data", Start(folder / "log"))) as server:
        load.prepare(server, SMALL)
        yield server


def test_the_oldest_release_does_every_step_and_keeps_its_size(server: MeasuredServer, tmp_path: Path) -> None:
    load = InsertBenchmark()
    warnings: list[str] = []
    for step in SMALL.measured:
        checked = load.check(server, step, SMALL)
        how: Any = {"seed": 1, "cpus": (), "log": tmp_path / f"{step}.log"}
        with load.generating([server], step, SMALL, **how) as at_work:
            at_work.wait_for_all()
        (answer,) = load.answers(step, SMALL, at_work)
        assert bool(checked.plans) == (step in ("qr100", "qp100"))
        assert answer.columns["operations"] > 0
        warnings += [warning.text for warning in answer.warnings if warning.kind != "rate not held"]
    assert warnings == []
    with closing(server.connect()) as connection:
        ((rows, low),) = connection.query("SELECT count(*), min(transactionid) FROM rqps.pi1")
        assert (int(str(rows)), int(str(low)) > 5000) == (20_100, True)
        with pytest.raises(
            RqpsError, match=r"l\.i0 creates the tables, but the server already has pi1 with 20100 rows"
        ):
            load.check(server, "l.i0", SMALL)
        connection.query("DROP INDEX rqps.pi1_pdc; CREATE INDEX pi1_pdc ON rqps.pi1 (price, dateandtime)")
    words = "the step has to read pi1_pdc alone: SELECT price"
    with closing(server.connect("rqps")) as connection, pytest.raises(RqpsError, match=words):
        list(explained(connection, find("qr100", "current"), SMALL))
    with pytest.raises(RqpsError, match=r"indexes: asked for .*pi1_pdc \(price, dateandtime, customerid\)"):
        load.check(server, "qr100", SMALL)
