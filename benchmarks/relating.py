"""How long does a big study take to relate? Its relative table from folders, packed and from an object store, by rqps
and by DuckDB; each of its pages, that of all rounds, and the whole report.

50 steps, 20 builds and 20 rounds with a row for each of 60 seconds are 1.2 million rows of intervals in 400 folders;
`--large` has 100 rounds and 1,000 seconds, which are 100 million rows. Two tables are made: the notebooks' own, from
`steps`, and the same from the intervals. Both sides read the same files, are processes of their own, and have to give
the same ratios. The object store is a small S3 server in Python on loopback, which takes its share of the same CPUs.

The goals: under 1 s to relate, and no slower than DuckDB from files to table; of the large study 10 s and 2 GB for
either table and for each page; the report is as many of them as it has.
"""

import argparse
import json
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import relating_study
from bench import report, save
from rqps.store.packing import pack

HERE = Path(__file__).parent
PAGES = ("relative_throughput", "cost_per_operation", "measurement_health")
OF_RQPS = (*PAGES, "rounds", "report")
TASKS = ("steps", "intervals", *OF_RQPS)
LARGE = {"steps": 50, "builds": 20, "rounds": 100, "seconds": 1000}
DUCKDB = {"DuckDB": "needed", "DuckDB that reads and checks all that rqps does": "all"}
STORE = """import runpy, socketserver
socketserver.TCPServer.request_queue_size = 128  # 5 by itself: more connections at once wait for seconds
socketserver.StreamRequestHandler.disable_nagle_algorithm = True
runpy.run_module("localbucket", run_name="__main__")"""
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "not-secret", "AWS_REGION": "us-east-1"}

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--pairs", type=int, default=20)
options.add_argument("--steps", type=int, default=50)
options.add_argument("--builds", type=int, default=20)
options.add_argument("--rounds", type=int, default=20)
options.add_argument("--seconds", type=int, default=60)
options.add_argument("--large", action="store_true", help="100 million rows, whatever the sizes above")
options.add_argument("--task", choices=TASKS, action="append", help="one of them only")
options.add_argument("--data", type=Path, help="a folder to keep the study in, or where it was kept")
options.add_argument("--python", type=Path, help="one that has DuckDB and localbucket; else one is made and removed")
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
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


def others_python(folder: Path) -> Path:
    """A Python with DuckDB and an S3 server in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = ("duckdb==1.5.5", "duckdb-extensions==1.5.5", "duckdb-extension-httpfs==1.5.5", "localbucket==1.2.1")
    subprocess.run([folder / "bin/pip", "install", "--quiet", *packages], check=True)
    return folder / "bin/python"


@contextmanager
def object_store(python: Path, folder: Path) -> Iterator[None]:
    """An S3 server on loopback whose buckets are the folders in `folder`, with the variables that lead to it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    os.environ |= KEYS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
    command = [str(python), "-c", STORE, "--port", port, str(folder)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            yield
        finally:
            server.terminate()


def same(ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    """Stops where the two tables differ."""
    assert len(ours) == len(theirs) > 0, (len(ours), len(theirs))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[:5] == other[:5], (mine, other)
        assert math.isclose(mine[5], other[5], rel_tol=1e-12), (mine, other)


def measure(task: str, where: str, sides: dict[str, Side], pairs: int) -> list[dict[str, Any]]:
    """One table, again and again by all sides, in random order within a pair."""
    first = {name: side.go() for name, side in sides.items()}  # reads the files into memory, too
    if task not in OF_RQPS:
        for side in first.values():
            same(first["rqps"]["rows"], side["rows"])
    timed = []
    for _ in range(pairs):
        order = list(sides)
        random.shuffle(order)
        timed.append({name: sides[name].go() for name in order})
    peaks = {name: side.end() for name, side in sides.items()}
    results = []
    for name in sides:
        seconds = sorted(_seconds(pair[name]) for pair in timed)
        cpu_s = sorted(pair[name]["cpu_s"] for pair in timed)
        took, cpu = (f"{of[len(of) // 2]:.2f} s ({of[0]:.2f} to {of[-1]:.2f})" for of in (seconds, cpu_s))
        print(f"{task}, {where}, {name}: {took}, CPU {cpu}, peak {peaks[name]:,.0f} MB")
        if name != "rqps":
            of_pairs = [(_seconds(pair["rqps"]), _seconds(pair[name])) for pair in timed]
            results.append(report(f"{task}, {where}: seconds of rqps (me) and {name} (base)", of_pairs))
    return [{"task": task, "where": where, "timed": timed, "peak_mb": peaks, "found": results}]


def _seconds(answer: dict[str, Any]) -> float:
    return float(answer["load_s"] + answer["relate_s"])


def main() -> None:
    asked = options.parse_args()
    size = LARGE if asked.large else {name: getattr(asked, name) for name in LARGE}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rqps-bench-")))
        python = asked.python or others_python(scratch / "others")
        data = asked.data or scratch
        packed = data / "bucket" / f"study={relating_study.STUDY}"
        folders = data / "raw" / packed.name
        if not packed.exists():
            relating_study.write(data, **size)
            began = time.perf_counter()
            pack(str(folders), packed.parent)
            print(f"packing {size}: {time.perf_counter() - began:.1f} s")
        stack.enter_context(object_store(python, data))
        places = {"folders": folders, "packed": packed, "object store": f"s3://bucket/{packed.name}"}
        results = []
        for task in asked.task or TASKS:
            for where, place in places.items():
                sides = {"rqps": Side(sys.executable, "relating_polars.py", place, task)}
                for name, reads in DUCKDB.items() if task not in OF_RQPS else ():
                    if reads == "needed" or where == "folders":
                        sides[name] = Side(python, "relating_duckdb.py", place, task, "my01.base", reads)
                results += measure(task, where, sides, asked.pairs)
        save(asked.json, {"benchmark": "relating", **size, "found": results})


main()
