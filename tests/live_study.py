"""`rqps run` of a small study on real servers, for tests: a folder with all that the command needs."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from child import rqps as command
from child import until

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
OLD_AND_SMALL = """
builds:
  my5624: {mysql: "5.6.24"}
configs:
  base:
    {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 8M, table_definition_cache: 400, log_bin: OFF, ssl: OFF}
"""
"""The begin of a runs.yaml, with the server that starts first; more configs may follow. With more definitions of
tables, the performance schema of 5.6 takes 300 MB more at each start."""


class Place:
    """A folder with a runs.yaml whose study is `small`, the notebooks, and the command."""

    def __init__(self, path: Path, runs_yaml: str) -> None:
        self.path = path
        self.under: tuple[str, ...] = ()
        """The command that rqps is started under."""
        self.study = path / "data/raw/study=small"
        shutil.copytree(NOTEBOOKS, path / "notebooks")
        (path / "data").mkdir()
        self.ask(runs_yaml)

    def ask(self, runs_yaml: str) -> None:
        (self.path / "runs.yaml").write_text(runs_yaml)

    def start(self, *options: str, under: Sequence[str] = (), **popen: Any) -> "subprocess.Popen[str]":
        command = [*self.under, *under, sys.executable, "-m", "rqps.cli", "run", "small", *options]
        popen |= {"cwd": self.path, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, text=True, start_new_session=True, **popen)

    def run(self, code: int = 0) -> str:
        """The words of the command in this process, where it ends with this exit code."""
        done = command("run", "small", cwd=self.path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def wait(self, what: str, result: Callable[[], object], process: "subprocess.Popen[str]") -> None:
        def met() -> object:
            assert process.poll() is None, f"ended before {what}: {process.communicate()[0]}"
            return result()

        until(met, patience_s=480, why=lambda: f"no {what} in time")

    def doing(self) -> str:
        return "".join(file.read_text() for file in self.study.glob(".run=*.partial/progress.txt"))

    def servers(self) -> list[int]:
        """Servers and load generators that belong to this place, by their command line."""
        results = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.study) in words and ("mysqld" in words or "sysbench" in words):
                results.append(int(process.name))
        return results


def ended(process: "subprocess.Popen[str]", code: int) -> str:
    text, _ = process.communicate(timeout=600)
    assert process.returncode == code, text
    return text
