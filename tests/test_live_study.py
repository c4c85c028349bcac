"""`rqps run` on real servers: from runs.yaml to the raw rows, with faults injected on the way."""

import json
import os
import re
import signal
from pathlib import Path

import polars as pl
import pytest
import rqps
from live_study import OLD_AND_SMALL, Place, ended
from rqps.store.schemas import MODE_TABLES, TABLES, WORKLOAD_TABLES

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

RUNS = (
    OLD_AND_SMALL
    + """\
  ps0: {extends: base, performance_schema: OFF}
studies:
  small:
    question: What does the performance schema of 5.6 cost <b>here</b>?
    workload: sysbench
    dbms: [my5624.base, my5624.ps0]
    base: my5624.base
    rounds: 1
    method: rounds
    seed: 1
    parameters: {steps: [point-query, update-index], table_rows: 2000, seconds: 2, warmup_seconds: 1}
"""
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, RUNS)


def test_a_killed_server_fails_its_run_and_the_next_call_measures_what_is_missing(place: Place) -> None:
    process = place.start()
    place.wait("the second step", lambda: place.doing().startswith("update-index"), process)
    place.wait("a server", place.servers, process)
    for pid in place.servers():
        if "mysqld" in (Path(f"/proc/{pid}") / "exe").readlink().name:
            os.kill(pid, signal.SIGKILL)
    assert "update-index: the server my5624.ps0 ended in the middle of it, by SIGKILL" in ended(process, 1)
    (failed,) = place.study.glob("failed/run=*")
    assert "SIGKILL" in (failure := json.loads((failed / "failure.json").read_text()))["error"]
    assert failure["doing"] == "update-index 2/2"
    assert (failed / "logs/mysqld.err").exists()
    assert len(list(place.study.glob("run=*"))) == 1  # the study went on

    assert "small: 1 run measured in" in place.run()
    every_number_comes_from_its_raw_rows(place)
    assert "2 done already" in place.run()


def every_number_comes_from_its_raw_rows(place: Place) -> None:
    """In a study that is whole."""
    study = rqps.load("small", data=place.path / "data")
    assert sorted(study.runs["dbms"]) == ["my5624.base", "my5624.ps0"]
    for name, schema in TABLES.items():
        if name in MODE_TABLES or name in WORKLOAD_TABLES or name in ("slices", "cycles"):
            assert (
                list(place.study.glob(f"run=*/{name}.parquet")) == []
            )  # of runs of another mode or workload, or of duets
            continue
        frame = pl.read_parquet(place.study / f"run=*/{name}.parquet", hive_partitioning=False)
        assert frame.schema == schema
        assert frame.height > 0
    measured_seconds = pl.col("second") >= 0
    counted = study.intervals.filter(measured_seconds).group_by("run", "step").agg(pl.col("operations").sum())
    both = study.steps.join(counted.collect(), on=["run", "step"], suffix="_of_intervals")
    assert both["operations"].to_list() == both["operations_of_intervals"].to_list()
    in_buckets = study.latencies.filter(measured_seconds).group_by("run", "step").agg(pl.col("transactions").sum())
    assert study.steps.join(in_buckets.collect(), on=["run", "step", "transactions"]).height == study.steps.height
    settings = study.settings.filter(kind="variable", name="performance_schema").collect()
    assert dict(zip(settings["config"], settings["value"], strict=True)) == {"base": "ON", "ps0": "OFF"}
    assert not settings["value"].str.contains(str(place.path)).any()


def test_a_signal_in_a_step_leaves_no_process_and_no_half_run(place: Place) -> None:
    process = place.start()
    place.wait("the first step", lambda: place.doing().startswith("point-query"), process)
    place.wait("a server", place.servers, process)
    process.send_signal(signal.SIGTERM)
    ended(process, 128 + signal.SIGTERM)
    assert place.servers() == []
    assert [path.name for path in place.study.iterdir()] == ["study.json"]


def test_an_unknown_option_fails_before_anything_is_measured(place: Place) -> None:
    place.ask(RUNS.replace("ssl: OFF}", "ssl: OFF, innodb_dedicated_server: ON}"))
    assert re.search(r"my5624\.\w+: MySQL 5\.6\.24 has no option innodb_dedicated_server", place.run(1))
    assert not list(place.study.glob("run=*"))
