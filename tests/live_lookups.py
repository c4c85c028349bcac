"""Point lookups on a real server, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_server import RUNS_YAML, House, runs_of, server_of
from rqps.engines import Option
from rqps.study import Run, read_runs_file
from rqps.workloads import PARAMETERS, Answer
from rqps.workloads.point_lookups.generator import Generator
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.point_lookups.workload import PointLookups

RUNS = runs_of("point-lookups")
ROWS = 2000


def asked(**parameters: Any) -> PointLookupsParameters:
    usual = {"table_rows": ROWS, "queries": 200, "scan_queries": 8, "warmup_queries": 0}
    return PointLookupsParameters.model_validate(usual | parameters)


class Lookups(House):
    """A server with the tables of the point lookups."""

    workload = PointLookups()

    def do(self, step: str, parameters: PointLookupsParameters | None = None) -> tuple[Answer, Generator]:
        """A step done for a moment."""
        return self.done(step, parameters or asked())


@contextmanager
def serving(
    dbms: str,
    folder: Path,
    parameters: PointLookupsParameters | None = None,
    options: dict[str, Any] | None = None,
    *,
    checked: bool = True,
) -> Iterator[Lookups]:
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
        yield Lookups(server, folder)
