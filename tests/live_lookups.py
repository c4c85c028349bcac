"""Point lookups on a real server, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_server import RUNS_YAML, runs_of, server_of
from rqps.engines.mysql.instance import Server, query
from rqps.study import Run, read_runs_file
from rqps.study.runs_file import Option
from rqps.workloads import PARAMETERS, Answer
from rqps.workloads.point_lookups.generator import Generator
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.workload import PointLookups

RUNS = runs_of("point-lookups")
ROWS = 2000
BUILDS = ["my5534.base", "my5614.base", "my5624.base", "my8033.base", "my97.base"]


def asked(**parameters: Any) -> PointLookupsParameters:
    usual = {"table_rows": ROWS, "queries": 200, "scan_queries": 8, "warmup_queries": 0}
    return PointLookupsParameters.model_validate(usual | parameters)


@dataclass(frozen=True)
class House:
    """A server with the tables of the point lookups."""

    server: Server
    folder: Path

    def do(self, step: str, parameters: PointLookupsParameters | None = None) -> tuple[Answer, Generator]:
        """A step done for a moment."""
        workload, parameters = PointLookups(), parameters or asked()
        with workload.generating(
            self.server, step, parameters, seed=1, cpus=(), log=self.folder / "mysqlslap.log"
        ) as load:
            load.wait_for_begin()
            load.wait_for_end()
            load.wait_until_gone()
        return workload.answer(step, parameters, load), load

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The answer of the last one."""
        connection = self.server.connect()
        rows = [query(connection, statement) for statement in statements][-1]
        connection.close()
        return rows


@contextmanager
def serving(
    dbms: str,
    folder: Path,
    parameters: PointLookupsParameters | None = None,
    options: dict[str, Any] | None = None,
    *,
    checked: bool = True,
) -> Iterator[House]:
    """A server of a dbms of the study, with some options changed."""
    parameters = parameters or asked()
    of_build = RUNS.get(dbms) or next(iter(RUNS.values()))
    run = {**vars(of_build), "parameters": parameters}
    if dbms not in RUNS:
        name = dbms.partition(".")[0]
        run |= {"dbms": dbms, "build": name, "build_spec": read_runs_file(RUNS_YAML, PARAMETERS).builds[name]}
    run["options"] = {**of_build.options, **{name: Option(value) for name, value in (options or {}).items()}}
    with server_of(Run(**run), folder) as server:
        if checked:
            PointLookups().prepare(server, parameters)
        yield House(server, folder)
