"""Repeatability and duration of counting instructions: each release, each step, several starts.

Every start counts the same statements: the same seed, from a copy of the same tables. The goal is that starts differ
by less than 0.3 %, and by less than 0.1 % for PostgreSQL with 2000 operations.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from rqps.engines import Start, engine_of, facts_of
from rqps.engines.cache import copy_folder
from rqps.engines.sources.programs import valgrind
from rqps.measure import placement
from rqps.measure.callgrind import Callgrind
from rqps.measure.job import loaded_data
from rqps.study import Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS, How
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.workload import Sysbench

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"
STEPS = ("point-query", "range-covered-si", "update-index", "insert")

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--starts", type=int, default=3)
options.add_argument("--operations", type=int, default=None, help="counted_operations; as in a study if not given")
options.add_argument("--study", default="releases", help="one of runs.yaml, such as pg-releases")
options.add_argument("--dbms", nargs="+", help="some of that study; all if not given")
asked = options.parse_args()
units = unfold(read_runs_file(RUNS_YAML, PARAMETERS), asked.study, "bench")
runs = {run.dbms: run for unit in units for run in unit.members}
of_study = units[0].parameters
assert isinstance(of_study, SysbenchParameters), f"{asked.study} is no study of sysbench"
operations = asked.operations or of_study.counted_operations
parameters = of_study.model_copy(update={"steps": STEPS, "index_first": True, "counted_operations": operations})


def count(run: Run, folder: Path) -> dict[str, float]:
    """One start: instructions an operation of each step, and how long all of it took."""
    began = time.monotonic()
    engine, facts = engine_of(run.build_spec), facts_of(run.build_spec.engine)
    prepared = engine.prepare(run, print)
    where = placement.choose(None, parameters.clients)
    callgrind = Callgrind(valgrind(), folder / "callgrind", folder / "valgrind.log", engine.counted)
    copy_folder(loaded_data(run, prepared, print), folder / "data")
    asked = Start(
        log=folder / facts.log,
        cpus=where.server_cpus,
        scratch=(folder / "data", folder / "callgrind"),
        under=callgrind.command,
        environment=callgrind.valgrind.environment,
        patience_s=callgrind.start_patience_s,
    )
    server = prepared.open(folder / "data", asked)
    counts = {}
    try:
        placement.apply(os.getpid(), where.observer_cpus)
        load_of = Sysbench()
        load_of.prepare(server, parameters)
        for step in STEPS:
            log = folder / f"{step}.log"
            how: How = {"seed": 1, "cpus": where.client_cpus, "log": log, "counted": True}
            with load_of.generating((server,), step, parameters, **how) as load:
                load.wait_for_begin()
                callgrind.begin(server.pids[0])
                load.wait_for_end()
                costs = callgrind.end(server.pids[0])
                load.wait_until_gone()
            answer = load_of.answers(step, parameters, load)[0]
            counts[step] = sum(cost.instructions for cost in costs.values()) / answer.columns["operations"]
    finally:
        server.close()
    return {**counts, "seconds": time.monotonic() - began}


print(f"{'dbms':14} {'step':18} {'instructions/operation':>22} {'starts differ by':>17} {'a run takes':>12}")
for dbms in asked.dbms or runs:
    starts = []
    for _ in range(asked.starts):
        work = Path(tempfile.mkdtemp(prefix="rqps-bench-"))
        try:
            starts.append(count(Run(**{**vars(runs[dbms]), "parameters": parameters}), work))
        finally:
            shutil.rmtree(work)
    took_s = median(start["seconds"] for start in starts)
    for step in STEPS:
        values = [start[step] for start in starts]
        differ = (max(values) - min(values)) / median(values)
        print(f"{dbms:14} {step:18} {median(values):22,.0f} {differ:17.3%} {took_s:10.0f} s", flush=True)
