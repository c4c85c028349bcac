"""A real server as a run starts it, for tests: prepared, with loaded data, and gone afterwards."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rqps.engines.cache import copy_folder
from rqps.engines.mysql import instance, prepare
from rqps.engines.mysql.instance import Server
from rqps.run.job import loaded_data
from rqps.study import Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"


def runs_of(study: str) -> dict[str, Run]:
    """One run of each dbms of a study in our own runs.yaml."""
    return {run.dbms: run for run in unfold(read_runs_file(RUNS_YAML, PARAMETERS), study, "test")}


@contextmanager
def server_of(run: Run, folder: Path, *more: str) -> Iterator[Server]:
    """The server of a run, its log in the folder. `more` are arguments beside those of its config."""
    prepared = prepare(run, print)
    copy_folder(loaded_data(run, prepared, print), folder / "data")
    arguments = (*prepared.translated.arguments, *more)
    with instance.running(prepared.build, folder / "data", arguments=arguments, log=folder / "mysqld.err") as server:
        yield server
    shutil.rmtree(folder, ignore_errors=True)
