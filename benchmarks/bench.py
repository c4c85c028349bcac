"""What the benchmarks share: a real server under the base config, pairs in random order, a ratio with its spread."""

import argparse
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from rqps.engines import Start, engine_of
from rqps.engines.cache import copy_folder
from rqps.measure import placement
from rqps.measure.job import loaded_data
from rqps.stats import MEDIAN
from rqps.store.manifest import Placement
from rqps.study import read_runs_file, unfold
from rqps.workloads import PARAMETERS
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.workload import warm

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"


def choosing(description: str | None) -> argparse.ArgumentParser:
    """The options of a benchmark that runs on one server, of any engine."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--study", default="releases", help="one of runs.yaml, such as pg-releases")
    options.add_argument("--dbms", default="my8033.common", help="one of that study, such as pg140.pg-still")
    return options


@contextmanager
def started(study: str, dbms: str, where: Placement) -> Iterator[tuple[Any, Path]]:
    """A server of a dbms of a study, with the study's tables and in its place, and a folder for logs."""
    units = unfold(read_runs_file(RUNS_YAML, PARAMETERS), study, "bench")
    run = next(run for unit in units for run in unit.members if run.dbms == dbms)
    prepared = engine_of(run.build_spec).prepare(run, print)
    folder = Path(tempfile.mkdtemp(prefix="rqps-bench-"))
    copy_folder(loaded_data(run, prepared, print), folder / "data")
    asked = Start(log=folder / "server.log", cpus=where.server_cpus, scratch=(folder / "data",))
    server = prepared.open(folder / "data", asked)
    try:
        placement.apply(os.getpid(), where.observer_cpus)
        yield server, folder
    finally:
        server.close()
        shutil.rmtree(folder)


@contextmanager
def serving(
    dbms: str, parameters: SysbenchParameters, study: str = "releases"
) -> Iterator[tuple[Any, Placement, Path]]:
    """A warm server of a dbms of a study, placed as its runs are, and a folder for logs."""
    where = placement.choose(None, parameters.clients)
    with started(study, dbms, where) as (server, folder):
        warm(server.connect(), parameters)
        yield server, where, folder


def compare(what: str, pairs: int, me: Callable[[], float], base: Callable[[], float]) -> dict[str, Any]:
    """Measures both sides of each pair in random order and reports the ratio me / base."""
    results = []
    for _ in range(pairs):
        sides = [("me", me), ("base", base)]
        random.shuffle(sides)
        values = {name: side() for name, side in sides}
        results.append((values["me"], values["base"]))
    return report(what, results)


def report(what: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Prints each pair, and the median of the ratios with its interval; gives the same for a file."""
    ratios = [me / base for me, base in pairs]
    print(f"{what}\n  pair           me         base    ratio")
    for number, ((me, base), ratio) in enumerate(zip(pairs, ratios, strict=True), start=1):
        print(f"  {number:4} {me:12,.3f} {base:12,.3f} {ratio:8.4f}")
    [summary] = MEDIAN.estimate(pl.DataFrame({"what": what, "ratio": ratios}), ["what"], "ratio").to_dicts()
    span = f"{min(ratios):.4f} to {max(ratios):.4f}"
    print(f"  median ratio {summary['estimate']:.4f} of {len(pairs)} pairs, from {span};")
    if summary["low"] is None:
        print("  too few pairs for an interval\n", flush=True)
    else:
        reach = f"from {summary['low']:.4f} to {summary['high']:.4f}"
        print(f"  {summary['coverage']:.0%} interval of the median {reach}\n", flush=True)
    return {"what": what, "pairs": [{"me": me, "base": base} for me, base in pairs], "ratio": summary}


def save(file: Path | None, results: dict[str, Any]) -> None:
    """Writes what was found as JSON, if a file is asked for."""
    if file:
        file.write_text(json.dumps(results, indent=2) + "\n")
