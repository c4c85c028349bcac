"""The insert benchmark where a server can't go on: a rate too high, a disk too small, a death in any step."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from child import small_disk
from live_inserts import Inserts, asked, empty_server
from live_server import runs_of
from live_study import Place, ended
from rqps.engines import Start
from rqps.engines.mysql import instance
from rqps.engines.mysql.engine import prepare
from rqps.errors import RqpsError

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

OLD = "my5624.common"
"""It starts in a second."""
KINDS = ("insert", "delete", "query")
FULL_MB, ROOMY_MB, FILE_BYTES = 60, 240, 14_000_000
"""The smallest is more than a run asks for before it starts, and less than its rows need."""
RUNS_YAML = """
builds:
  my5624: {mysql: "5.6.24"}
configs:
  base:
    {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 24M, table_definition_cache: 400, log_bin: OFF, ssl: OFF}
  ps0: {extends: base, performance_schema: OFF}
studies:
  small:
    question: What if the disk fills?
    workload: insert-benchmark
    dbms: [my5624.base]
    base: my5624.base
    rounds: 1
    method: rounds
    parameters: {steps: [l.i0], load_rows: 400000}
"""


def test_a_rate_that_no_server_holds_ends_the_step_at_its_limit(tmp_path: Path) -> None:
    parameters = asked(steps=("l.i0", "l.x", "qr1000000"), rates=(1_000_000,), most_seconds=2)
    with empty_server(tmp_path, OLD) as house:
        answer = house.do_all(parameters)["qr1000000"]
        rows = house.ask("SELECT COUNT(*) FROM rqps.pi1")[0][0]
    columns = answer.columns
    (warning,) = answer.warnings
    done = {kind: sum(row["operations"] for row in answer.intervals if row["kind"] == kind) for kind in KINDS}
    assert (columns["target_per_s"], columns["target_held"]) == (1e6, False)
    assert columns["elapsed_s"] >= 2
    assert warning.kind == "rate not held"
    assert f"at its limit of 2 s, with {done['insert']:,} of 1,000,000 rows" in warning.text
    assert 0 < done["insert"] == done["delete"], "as many are deleted also where a step is ended"
    assert done["query"] == columns["operations"] > 0
    assert rows == parameters.load_rows + parameters.load_rows_per_transaction


def test_a_killed_server_fails_whichever_step_it_is(tmp_path: Path) -> None:
    """One after the other on the same data, which each server recovers that comes after."""
    many = asked(load_rows=100_000, write_rows=1_000_000, seconds=60)
    few = asked(load_rows=20_000)
    disorder = pytest.raises(RqpsError, match="did not stop in order")
    with disorder, empty_server(tmp_path, OLD) as house:
        killed_in("l.i0", many, house)
        house = again(house)
        house.empty()
        house.do_all(few, upto="l.x")
        for step in ("l.i1", "l.i2", "qr100", "qp100"):
            killed_in(step, many, house)
            house = again(house)
        house.empty()
        house.do("l.i0", few)
        killed_in("l.x", few, house)
        house.server.close()


def killed_in(step: str, parameters: Any, house: Inserts) -> None:
    log = house.folder / f"{step}.log"
    with house.workload.generating((house.server,), step, parameters, seed=1, cpus=(), log=log) as load:
        load.wait_for_begin()
        os.kill(house.server.pid, signal.SIGKILL)
        with pytest.raises(RqpsError, match=rf"^{step}: the server \S+ ended in the middle of it, by SIGKILL"):
            load.wait_for_end()
    assert load.process.poll() is not None, "sysbench is gone, too"


def again(house: Inserts) -> Inserts:
    """The house with a new server on the same data."""
    house.server.close()
    prepared = prepare(runs_of("releases")["my5624.common"], print)
    build, translated = prepared.build, prepared.translated
    log = house.folder / "mysqld.err"
    server = instance.start(build, house.server.directory, Start(log), translated.arguments)
    return replace(house, server=server)


Starting = Callable[[bool], dict[str, Any]]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Starting]:
    """Options to start a program for which the disk is large enough, or is not: on a file system of its own where we
    may mount one, else with a limit on the size of a file."""
    scratch = tmp_path / "scratch"
    environment = {"env": {**os.environ, "RQPS_SCRATCH": str(scratch)}}
    with small_disk(scratch, ROOMY_MB << 20) as is_small:

        def start(full: bool) -> dict[str, Any]:
            if is_small:
                size = f"remount,size={FULL_MB if full else ROOMY_MB}m"
                subprocess.run(["mount", "-o", size, str(scratch)], check=True)
            limit = ["prlimit", f"--fsize={FILE_BYTES}"] if full and not is_small else []
            return environment | {"under": limit}

        yield start


def test_a_disk_that_fills_fails_its_run_alone_and_is_given_back(tmp_path: Path, disk: Starting) -> None:
    place = Place(tmp_path, RUNS_YAML)
    ended(place.start(**disk(False)), 0)
    (before,) = place.study.glob("run=*")
    digests = digested(before)

    place.ask(RUNS_YAML.replace("dbms: [my5624.base]", "dbms: [my5624.base, my5624.ps0]"))
    output = ended(place.start(**disk(True)), 1)
    assert "l.i0: " in output
    assert "The table 'pi1' is full" in output
    assert list(place.study.glob("run=*")) == [before]
    assert digested(before) == digests
    (failed,) = place.study.glob("failed/run=*")
    assert "The table 'pi1' is full" in json.loads((failed / "failure.json").read_text())["error"]
    assert "The table 'pi1' is full" in (failed / "logs/mysqld.err").read_text()
    assert list((tmp_path / "scratch").iterdir()) == [], "what it had written is gone"


def digested(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
