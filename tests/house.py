"""A folder in which `rqps run` works with a notebook that needs no servers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from child import running_from, until
from rqps.schedule.state import RunState, state
from rqps.study import Run, read_runs_file
from rqps.workloads import PARAMETERS
from rqps_run import main

TESTS = Path(__file__).parent
RUNS = """
builds:
{builds}
configs:
  base: {{max_connections: 100}}
studies:
  demo:
    question: Does it hold?
    workload: sysbench
    dbms: [{dbms}]
    base: my1.base
    {rounds}
    method: {method}
    seed: 1
    parameters: {{steps: [point-query], seconds: {seconds}, warmup_seconds: 0}}
"""


class House:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.study = path / "data/raw/study=demo"
        self.log = path / "order.log"
        self.environment = {"PYTHONPATH": f"{TESTS}:{TESTS / 'notebooks'}", "RQPS_CACHE": str(path / "cache")}
        run = path / "notebooks/run"
        run.mkdir(parents=True)
        shutil.copy(TESTS / "notebooks/scripted.ipynb", run / "sysbench.ipynb")
        self.ask()
        self.script({})

    def ask(
        self,
        rounds: int = 1,
        seconds: int = 1,
        builds: int = 2,
        method: str = "rounds",
        budget: str = "",
        more: str = "",
    ) -> None:
        names = [f"my{number}" for number in range(1, builds + 1)]
        text = RUNS.format(
            builds="\n".join(f"  {name}: {{path: /nowhere/{name}}}" for name in names),
            dbms=", ".join(f"{name}.base" for name in names),
            rounds=f"budget: {budget}" if budget else f"rounds: {rounds}{more}",
            seconds=seconds,
            method=method,
        )
        (self.path / "runs.yaml").write_text(text)

    def script(self, faults: dict[str, str]) -> None:
        """Make runs go wrong: `{"r1 my1.base": "raise"}`."""
        (self.path / "script.json").write_text(json.dumps(faults))

    def states(self) -> list[RunState]:
        runs_file = read_runs_file(self.path / "runs.yaml", PARAMETERS)
        return list(state(runs_file, "demo", self.path / "data", host="here"))

    @staticmethod
    def name(run: Run) -> str:
        return f"r{run.round} {run.dbms}" if run.unit == run.run else run.unit.removesuffix("@here")

    def first(self) -> str:
        return self.name(self.states()[0].run)

    def noted(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def start(self, *options: str, under: Sequence[str] = (), **popen: Any) -> "subprocess.Popen[str]":
        """Starts the command, under another one where one is given."""
        command = [*under, sys.executable, str(TESTS / "rqps_run.py"), str(self.path), "demo", *options]
        env = os.environ | self.environment | {"PYTHONUNBUFFERED": "1"}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, env=env, text=True, **(pipes | popen))

    def run(self, *options: str) -> tuple[int, str]:
        """The exit code and the words of the command in this process."""
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as words, redirect_stderr(words):
            for name, value in self.environment.items():
                patch.setenv(name, value)
            return main(self.path, "demo", *options), words.getvalue()

    def until(self, met: Callable[[], object]) -> None:
        until(met, why=lambda: "\n".join(self.noted()))

    def kernels(self) -> list[int]:
        return list(running_from(self.path))

    def partials(self) -> list[str]:
        return [path.name for path in self.study.glob(".run=*")]

    def folders(self) -> list[str]:
        return sorted(re.sub(r"@here", "", path.name) for path in self.study.glob("run=*"))

    def failures(self) -> list[str]:
        return sorted(re.sub(r"@here", "", path.name) for path in self.study.glob("failed/*"))


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    words, _ = process.communicate(timeout=300)
    return process.returncode, words
