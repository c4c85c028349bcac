"""How long does a big study take to relate? Its relative table from 400 folders, by rqps and by DuckDB.

50 steps, 20 builds and 20 rounds with a row for each of 60 seconds are 1.2 million rows of intervals. Two tables are
made: the notebooks' own, from `steps`, and the same from the intervals. Both sides read the same files, are processes
of their own, and have to give the same numbers. The goals: under 1 s to relate, and no slower than DuckDB from files
to table.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import relating_study
from bench import report, save
from rqps.stats.estimate import interval_ranks

HERE = Path(__file__).parent
TASKS = ("steps", "intervals")
DUCKDB = {"DuckDB": "all", "DuckDB that reads only what it needs": "needed"}
"""The first reads and checks what rqps does; the second shows what that costs."""

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--pairs", type=int, default=20)
options.add_argument("--steps", type=int, default=50)
options.add_argument("--builds", type=int, default=20)
options.add_argument("--rounds", type=int, default=20)
options.add_argument("--seconds", type=int, default=60)
options.add_argument("--duckdb", type=Path, help="a Python that has DuckDB; else one is made and removed again")
options.add_argument("--json", type=Path, help="where to write all numbers")


class Side:
    """A process that relates as often as it is asked to."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
        )

    def go(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self._told()

    def end(self) -> float:
        """Its peak memory, in MB."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        peak_mb = float(self._told()["peak_mb"])
        self.process.wait()
        return peak_mb

    def _told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told


def duckdb_python(folder: Path) -> Path:
    """A Python with DuckDB in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "duckdb"], check=True)
    return folder / "bin/python"


def same(ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    """Stops where the two tables differ."""
    assert len(ours) == len(theirs) > 0, (len(ours), len(theirs))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[:5] == other[:5], (mine, other)
        close = (math.isclose(a, b, rel_tol=1e-12) for a, b in zip(mine[5:], other[5:], strict=True))
        assert all(close), (mine, other)


def measure(task: str, sides: dict[str, Side], pairs: int) -> list[dict[str, Any]]:
    """One table, again and again by both sides, in random order within a pair."""
    first = {name: side.go() for name, side in sides.items()}  # reads the files into memory, too
    for side in first.values():
        same(first["rqps"]["rows"], side["rows"])
    timed = []
    for _ in range(pairs):
        order = list(sides)
        random.shuffle(order)
        timed.append({name: sides[name].go() for name in order})
    peaks = {name: side.end() for name, side in sides.items()}
    what = f"{len(first['rqps']['rows'])} rows from {task}, rqps (me) against"
    found = []
    for name in DUCKDB:
        whole = [(_seconds(pair["rqps"]), _seconds(pair[name])) for pair in timed]
        relate = [(pair["rqps"]["relate_s"], pair[name]["relate_s"]) for pair in timed]
        found.append(report(f"{what} {name} (base): seconds from files to table", whole))
        found.append(report(f"{what} {name} (base): seconds of these to relate, when loaded", relate))
    print("  peak memory: " + ", ".join(f"{name} {peak:,.0f} MB" for name, peak in peaks.items()) + "\n", flush=True)
    return [each | {"task": task, "peak_mb": peaks} for each in found]


def _seconds(told: dict[str, Any]) -> float:
    return float(told["load_s"] + told["relate_s"])


def main() -> None:
    asked = options.parse_args()
    size = {name: getattr(asked, name) for name in ("steps", "builds", "rounds", "seconds")}
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rqps-bench-")))
        python = asked.duckdb or duckdb_python(data / "duckdb")
        relating_study.write(data, **size)
        folder = data / "raw" / f"study={relating_study.STUDY}"
        k, _ = interval_ranks(asked.rounds)
        found = []
        for task in TASKS:
            ours = Side(sys.executable, "relating_polars.py", data, task)
            facts = (folder, task, "my01.base", str(asked.rounds), str(k))
            theirs = {name: Side(python, "relating_duckdb.py", *facts, reads) for name, reads in DUCKDB.items()}
            found += measure(task, {"rqps": ours, **theirs}, asked.pairs)
    save(asked.json, {"benchmark": "relating", **size, "found": found})


main()
