"""What does holding a server to a scenario take? Seconds to set and verify each named one, beside the server's start.

A scenario is set by options at the server's start, or by UPDATE after it, and then verified: every instrument,
consumer and thread. Around each step it is verified again and events are counted. All of that is timed here, on an
idle server; what of it is seen in a step's own numbers is asked by a test. The goal is under 2 s on 9.7.
"""

import argparse
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rqps.engines import Start
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.engine import prepare
from rqps.engines.mysql.perf_schema import absent, named, names
from rqps.study import Option, Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"
GOAL_S = 2.0

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--dbms", default="my97.common", help="one of the study `releases`")
options.add_argument("--times", type=int, default=5)
asked = options.parse_args()


def measure(run: Run, folder: Path) -> dict[str, float]:
    """Seconds of each part, for one start of the server."""
    prepared = prepare(run, lambda _: None)
    copy_folder(prepared.origin.folder / "initialised" / "data", folder / "data")
    began = time.monotonic()
    prepared = prepare(run, print)
    answered = time.monotonic()
    with closing(prepared.open(folder / "data", Start(log=folder / "mysqld.err"))) as server:
        started = time.monotonic()
        server.verify()
        verified = time.monotonic()
        with server.watching("nothing") as watch:
            watch.begin()
            watch.end(0)
        watched_too = time.monotonic()
    shutil.rmtree(folder / "data")
    return {
        "told_s": answered - began,
        "start_s": started - answered,
        "verified_s": verified - started,
        "step_s": watched_too - verified,
    }


units = unfold(read_runs_file(RUNS_YAML, PARAMETERS), "releases", "bench")
base = next(run for unit in units for run in unit.members if run.dbms == asked.dbms)
print(f"{asked.dbms}: seconds, the slowest of {asked.times}; set and verified is told + verified + one step")
print(f"{'scenario':24} {'told':>7} {'verified':>9} {'a step':>7} {'all':>7}   server's own start")
slowest = 0.0
for name in names():
    scenario = named(name)
    if scenario.kind == "compiled-out" or absent(base.build_spec.mysql or "9.7", scenario):
        continue
    switch = {"performance_schema": Option(scenario.kind == "on")}
    run = replace(base, options={**base.options, **switch}, scenario=scenario)
    folder = Path(tempfile.mkdtemp(prefix="rqps-bench-"))
    results = [measure(run, folder) for _ in range(asked.times)]
    shutil.rmtree(folder)
    worst = {part: max(measurement[part] for measurement in results) for part in results[0]}
    ours_s = max(measurement["told_s"] + measurement["verified_s"] + measurement["step_s"] for measurement in results)
    slowest = max(slowest, ours_s)
    print(
        f"{name:24} {worst['told_s']:7.3f} {worst['verified_s']:9.3f} {worst['step_s']:7.3f} {ours_s:7.3f}"
        f"   {min(measurement['start_s'] for measurement in results):.1f} to {worst['start_s']:.1f}",
        flush=True,
    )
print(f"slowest: {slowest:.3f} s; the goal is {GOAL_S:g} s")
