"""A real server as a run starts it, for tests: prepared, with loaded data, and gone afterwards."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from rqps.engines import Start
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.engine import prepare
from rqps.engines.mysql.instance import Connection, Server, query, start
from rqps.measure.job import loaded_data
from rqps.study import Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS, Answer

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"
BUILDS = ["my5534.common", "my5614.common", "my5624.common", "my8033.common", "my97.common"]
"""One of every release."""

every_build = pytest.mark.parametrize("dbms", BUILDS)
BETWEEN = ["my5722.common", "my8012.common", "my8015.common", "my8031.common"]
"""Releases between those, without a mysqlslap."""
every_release = pytest.mark.parametrize("dbms", [*BUILDS, *BETWEEN])


def runs_of(study: str) -> dict[str, Run]:
    """One run of each dbms of a study in our own runs.yaml, by itself."""
    units = unfold(read_runs_file(RUNS_YAML, PARAMETERS), study, "test")
    return {run.dbms: replace(run, beside=()) for unit in units for run in unit.members}


def run_of(dbms: str, parameters: Any, study: str = "releases", **changes: Any) -> Run:
    """A run of a study in our own runs.yaml, with other parameters."""
    return replace(runs_of(study)[dbms], parameters=parameters, **changes)


@contextmanager
def running(build: Build, data: Path, *, arguments: tuple[str, ...], log: Path) -> Iterator[Server]:
    """Starts a server on `data` for the block. Fails if the server does not stop cleanly afterwards."""
    with start(build, data, Start(log), arguments).making(f"making data of {build.name}") as server:
        yield server


@contextmanager
def server_of(run: Run, folder: Path, *more: str) -> Iterator[Server]:
    """The server of a run, its log in the folder. `more` are arguments beside those of its config."""
    prepared = prepare(run, print)
    copy_folder(loaded_data(run, prepared, print), folder / "data")
    arguments = (*prepared.translated.arguments, *more)
    with running(prepared.build, folder / "data", arguments=arguments, log=folder / "mysqld.err") as server:
        yield server
    shutil.rmtree(folder, ignore_errors=True)


class Logged(NamedTuple):
    """A line of the general log."""

    connection: str
    command: str
    statement: str


ENTRY = re.compile(r"^(?:\S*[ \t].*?)?\s(\d+) (Connect|Init DB|Query|Execute|Prepare|Quit)\t(.*)$")


@dataclass(frozen=True)
class House:
    """A server on which steps of a workload are done, and a folder for logs."""

    server: Server
    folder: Path

    workload: ClassVar[Any]

    @contextmanager
    def at_work(self, step: str, parameters: Any, seed: int = 1, *, counted: bool = False) -> Iterator[Any]:
        """The load of a step, begun."""
        log = self.folder / f"{step}.log"
        how: dict[str, Any] = {"seed": seed, "cpus": (), "log": log, "counted": counted}
        with self.workload.generating((self.server,), step, parameters, **how) as load:
            load.wait_for_begin()
            yield load

    def done(self, step: str, parameters: Any, seed: int = 1, *, counted: bool = False) -> tuple[Answer, Any]:
        """The answer of a step done to its end, and its load."""
        with self.at_work(step, parameters, seed, counted=counted) as load:
            load.wait_for_end()
            load.wait_until_gone()
        return self.workload.answers(step, parameters, load)[0], load

    def ask(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """The answer of the last one."""
        with closing(self.server.connect(database)) as connection:
            return [query(connection, statement) for statement in statements][-1]

    @contextmanager
    def holding(self, *statements: str) -> Iterator[Connection]:
        """A connection that holds what these statements have locked, until the block ends."""
        with closing(self.server.connect("rqps")) as connection:
            for statement in statements:
                query(connection, statement)
            yield connection

    @contextmanager
    def logging(self) -> Iterator[list[Logged]]:
        """All that connections ask meanwhile, in its order."""
        log, result = self.folder / "general.log", list[Logged]()
        log.unlink(missing_ok=True)
        on = (f"general_log_file = '{log}'", "log_output = 'FILE'", "general_log = ON")
        with closing(self.server.connect()) as connection:
            for order in on:
                query(connection, f"SET GLOBAL {order}")
            yield result
            query(connection, "SET GLOBAL general_log = OFF")
        entries = map(ENTRY.match, log.read_text(errors="replace").splitlines())
        result += [Logged(*entry.groups()) for entry in entries if entry]
