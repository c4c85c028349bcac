"""How much of a run is measuring? One run of four steps of 30 seconds, from `rqps run` to its end.

The goal is 90 % of the wall time in measured steps and their warm-up. Fetching and loading come before the first run
and are not in it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from bench import RUNS_YAML
from rqps.store import load_run

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--runs", type=int, default=3)
options.add_argument("--seconds", type=int, default=30)
asked = options.parse_args()

with tempfile.TemporaryDirectory(prefix="rqps-bench-") as name:
    folder = Path(name)
    (folder / "data").mkdir()
    runs = yaml.safe_load(RUNS_YAML.read_text())
    study = runs["studies"]["demo"]
    study.update(dbms=["my8033.common"], base="my8033.common")
    study["parameters"].update(seconds=asked.seconds, warmup_seconds=5)
    (folder / "runs.yaml").write_text(json.dumps(runs))  # JSON is YAML, and quotes the versions
    command = [sys.executable, "-m", "rqps.cli", "run", "demo", "--runs-yaml", str(folder / "runs.yaml")]
    for rounds in range(1, asked.runs + 1):
        began = time.monotonic()
        subprocess.run([*command, "--rounds", str(rounds)], check=True, stdout=subprocess.DEVNULL)
        took_s = time.monotonic() - began
        finished = sorted((folder / "data/raw/study=demo").glob(f"run=r{rounds:02}*"))
        manifest = load_run(finished[0]).runs.row(0, named=True)
        print(
            f"run {rounds}: {manifest['measured_s']:.0f} s of {took_s:.1f} s of `rqps run` are measured or warm-up: "
            f"{manifest['measured_s'] / took_s:.1%}",
            flush=True,
        )
