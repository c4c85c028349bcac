"""Time of a start: seconds from the order to start on a copy of loaded tables until the server answers, and to stop.

Each start is a run's: under a keeper, on its CPUs, with the options of the study's config. The copy is not timed.
"""

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from bench import RUNS_YAML, choosing, save
from rqps.engines import Start, engine_of
from rqps.engines.cache import copy_folder
from rqps.measure import placement
from rqps.measure.job import loaded_data
from rqps.study import read_runs_file, unfold
from rqps.workloads import PARAMETERS

options = choosing(__doc__)
options.add_argument("--starts", type=int, default=20)
options.add_argument("--json", type=Path, help="where to write all numbers")


def main() -> None:
    asked = options.parse_args()
    units = unfold(read_runs_file(RUNS_YAML, PARAMETERS), asked.study, "bench")
    run = next(run for unit in units for run in unit.members if run.dbms == asked.dbms)
    prepared = engine_of(run.build_spec).prepare(run, print)
    loaded, cpus = loaded_data(run, prepared, print), placement.choose(None, 1).server_cpus
    starts_s, stops_s = [], []
    for number in range(asked.starts):
        folder = Path(tempfile.mkdtemp(prefix="rqps-bench-"))
        copy_folder(loaded, folder / "data")
        begun = time.monotonic()
        server = prepared.open(folder / "data", Start(log=folder / "server.log", cpus=cpus))
        starts_s.append(time.monotonic() - begun)
        begun = time.monotonic()
        disorder = server.close()
        stops_s.append(time.monotonic() - begun)
        assert not disorder, disorder
        shutil.rmtree(folder)
        print(f"start {number + 1}: {starts_s[-1]:.3f} s, stop: {stops_s[-1]:.3f} s", flush=True)
    print(f"{asked.dbms}: {median(starts_s):.3f} s to start, {median(stops_s):.3f} s to stop (medians)")
    save(asked.json, {"benchmark": "starting", "dbms": asked.dbms, "starts_s": starts_s, "stops_s": stops_s})


main()
