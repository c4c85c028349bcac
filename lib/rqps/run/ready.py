"""Everything that takes long and need not be measured, done before the first run: fetching and loading."""

from collections.abc import Sequence
from pathlib import Path

from rqps.engines import Prepared, prepare
from rqps.run.count import ready_to_count
from rqps.run.job import Say
from rqps.run.sample import ready_to_sample
from rqps.study import Run
from rqps.workloads import workload


def make_ready(runs: Sequence[Run], say: Say) -> None:
    """Fetches each build, loads each table once, and translates each config, so that a mistake shows at once."""
    for run in {run.workload: run for run in runs}.values():
        workload(run.workload).tools(run.parameters)  # fetched, or reported as missing, before anything is measured
    ready_to_count(runs, say)
    ready_to_sample(runs, say)
    for run in {run.dbms: run for run in runs}.values():
        loaded_data(run, prepare(run, say), say)


def loaded_data(run: Run, prepared: Prepared, say: Say) -> Path:
    """The data directory that every round of this dbms starts from a copy of."""
    load = workload(run.workload)
    return prepared.loaded(load.data_name(run.parameters), lambda server: load.load(server, run.parameters), say)
