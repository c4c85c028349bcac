"""A further engine is its folder: a toy, with a process for each connection, goes from runs.yaml to a page."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import rqps

pytestmark = pytest.mark.live
ROOT = Path(__file__).parent.parent
TOY = Path(__file__).parent / "toy"
RUNS = """\
builds:
  one: {{path: {0}/one, toy: "1.0"}}
  two: {{path: {0}/two, toy: "2.0"}}
configs:
  common: {{work: 20000}}
studies:
  toy:
    question: Does 2.0 count slower than 1.0?
    workload: toy
    dbms: [one.common, two.common]
    base: one.common
    rounds: 2
    parameters: {{seconds: 1}}
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the library and the notebooks with the toy in it; not one of the files that are there is changed."""
    shutil.copytree(ROOT / "lib/rqps", tmp_path / "lib/rqps", ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for page in (tmp_path / "notebooks/analysis").glob("*.ipynb"):
        if page.name != "relative_throughput.ipynb":  # one page says it, in a quarter of the time
            page.unlink()
    shutil.copytree(TOY / "engine", tmp_path / "lib/rqps/engines/toy")
    shutil.copytree(TOY / "workload", tmp_path / "lib/rqps/workloads/toy")
    shutil.copy(TOY / "toy.ipynb", tmp_path / "notebooks/run/toy.ipynb")
    shutil.copytree(ROOT / "data/published", tmp_path / "data/published")
    (tmp_path / "runs.yaml").write_text(RUNS.format(tmp_path))
    for build, version, times in (("one", "1.0", 1), ("two", "2.0", 3)):
        (tmp_path / build).mkdir()
        defined = [f'-DVERSION="{version}"', f"-DTIMES={times}"]
        compiled(TOY / "engine/toyd.c", tmp_path / build / "toyd", *defined)
    compiled(TOY / "workload/toyload.c", tmp_path / "toyload")
    return tmp_path


def compiled(source: Path, program: Path, *more: str) -> None:
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", *more, "-o", str(program), str(source)], check=True)


def rqps_in(house: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(house / "lib"), "TOYLOAD": str(house / "toyload"), **more}
    environment["RQPS_DATA"] = str(house / "data")
    call = [sys.executable, "-m", "rqps.cli", *words]
    return subprocess.run(call, cwd=house, env=environment, capture_output=True, text=True, timeout=500, check=False)


def test_an_engine_of_ones_own_goes_from_runs_yaml_to_a_page(house: Path) -> None:
    refused = house / "refused.yaml"
    refused.write_text((house / "runs.yaml").read_text().replace("{work: 20000}", "{socket: /tmp/x}"))
    done = rqps_in(house, "plan", "toy", "--runs-yaml", str(refused))
    assert "'socket' is set by rqps for every server" in done.stderr
    done = rqps_in(house, "run", "toy")
    assert done.returncode == 0, done.stdout + done.stderr
    done = rqps_in(house, "show", "toy")
    assert done.returncode == 0, done.stderr
    assert "count" in done.stdout
    done = rqps_in(house, "report", "toy")
    assert done.returncode == 0, done.stderr
    assert "Does 2.0 count slower than 1.0?" in (house / "data/report/toy/index.html").read_text()
    study = rqps.load("toy", house / "data")
    assert study.runs["engine"].unique().to_list() == ["toy"]
    assert study.settings.select("name").unique().collect()["name"].to_list() == ["work"]
    of_operation = pl.col("server_cpu_s").sum() / pl.col("operations").sum()
    cost = dict(study.steps.group_by("dbms").agg(of_operation).iter_rows())
    assert cost["two.common"] > cost["one.common"], "three times the turns"
    used = (study.steps["server_cpu_s"] / study.steps["operations"]).to_list()
    assert min(used) > 2e-6, "20,000 turns of a loop, in the process of the connection, and not in the one that waits"


def test_a_wall_clock_that_is_set_back_again_and_again_changes_no_number(house: Path) -> None:
    library = house / "set_back.so"
    compiled(TOY / "set_back.c", library, "-shared", "-fPIC")
    clock = {"LD_PRELOAD": str(library), "SET_BACK_FROM_S": str(int(time.monotonic()))}
    done = rqps_in(house, "run", "toy", **clock)
    assert done.returncode == 0, done.stdout + done.stderr
    study = rqps.load("toy", house / "data")
    began = study.runs.sort("position")["started_at"]
    assert (began.diff().drop_nulls().dt.total_seconds() < 0).all(), "by the wall clock, a later run begins earlier"
    assert (study.runs["elapsed_s"] > study.runs["measured_s"]).all()
    assert (study.runs["ended_at"] > study.runs["started_at"]).all()
    assert study.steps["elapsed_s"].is_between(0.9, 3).all()
    assert (study.steps["operations_per_s"] > 0).all()
