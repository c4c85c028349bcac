"""RocksDB measured truly: a release against itself is called the same, and instruction ratios are db_bench's."""

import argparse
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import rqps
from rqps import stats
from rqps.schedule.run_study import LocalRunner, run_study
from rqps.study import read_runs_file
from rqps.workloads import PARAMETERS

OLD, NEW, OF_DB_BENCH = "6.20.3", "9.9.3", (1.10, 1.11)
"""Instructions of readrandom in the newer release, relative to the older one: by the C API, and by db_bench."""
FEW, MANY = 5, 512
"""Files of the database: of that which these were counted on, and of the published ones."""
NEAR = 0.01
RUNS = f"""
builds:
  old: {{rocksdb: "{OLD}"}}
  new: {{rocksdb: "{NEW}"}}
configs:
  small: {{write_buffer_size: 400K, target_file_size_base: 400K, max_bytes_for_level_base: 1600K}}
  same: {{extends: small}}
studies:
  STUDY:
    question: Is it measured truly?
    workload: db-bench
    dbms: [old.small, OTHER]
    base: old.small
    rounds: ROUNDS
    instructions_rounds: COUNTED
    parameters:
      setups: [byrx, iobuf]
      steps: [readrandom, fwdrange, multireadrandom]
      keys: 100000
      written_by: "{OLD}"
      files: FILES
      cache_mb: 256
      warmup_operations: 20000
      seconds: SECONDS
"""

options = argparse.ArgumentParser(description=__doc__)
options.add_argument(
    "--comparisons", type=int, default=50, help="of a release with itself; 0: only count instructions"
)
options.add_argument("--rounds", type=int, default=6)
options.add_argument("--seconds", type=int, default=1)
options.add_argument("--folder", type=Path, help="keep what was measured here, and go on from it when called again")
asked = options.parse_args()


def measured(folder: Path, study: str, other: str, rounds: int, counted: int, files: int) -> None:
    text = RUNS.replace("STUDY", study).replace("OTHER", other).replace("ROUNDS", str(rounds))
    text = text.replace("COUNTED", str(counted)).replace("SECONDS", str(asked.seconds)).replace("FILES", str(files))
    (folder / "runs.yaml").write_text(text)
    runs_file = read_runs_file(folder / "runs.yaml", PARAMETERS)
    runner = LocalRunner(Path(__file__).parent.parent / "notebooks", folder / "runs.yaml")
    assert run_study(runs_file, study, data=folder / "data", runner=runner) == 0


with ExitStack() as end:
    folder = asked.folder or Path(end.enter_context(tempfile.TemporaryDirectory()))
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for files in (FEW, MANY):
        measured(folder, f"in-{files}-files", "new.small", rounds=1, counted=1, files=files)
        _, compared = stats.relate(rqps.load(f"in-{files}-files", folder / "data"))
        ratios = compared.filter(metric="server_instructions_per_operation")
        for row in ratios.to_dicts():
            print(f"{files} files: instructions of {row['step']}: {NEW} / {OLD} = {row['estimate']:.3f}", flush=True)
        if files == FEW:
            ratio = ratios.filter(step="byrx.readrandom")["estimate"].item()
            near = OF_DB_BENCH[0] * (1 - NEAR) <= ratio <= OF_DB_BENCH[1] * (1 + NEAR)
            print(
                f"db_bench: 1.11, the same driver elsewhere: 1.10; {'within' if near else 'NOT within'} 1 % of these"
            )
    done = wrong = 0
    for number in count(1):
        if done >= asked.comparisons:
            break
        measured(folder, f"alike{number}", "old.same", rounds=asked.rounds, counted=0, files=MANY)
        _, compared = stats.relate(rqps.load(f"alike{number}", folder / "data"))
        of_throughput = compared.filter(metric="operations_per_s")
        done += of_throughput.height
        wrong += int(of_throughput["verdict"].is_in(["slower", "faster"]).sum())
        print(f"a release with itself: {wrong} of {done} comparisons called different")
