"""Is our load of the insert benchmark lighter than the original client, and does it drive a server better?

Both do the same steps on one server, with one client each in a database of its own, step by step and in random order.
CPU is that of all processes of a client, less what the same processes need for one statement, which is their start.
Rates are of whole seconds. Memory is what the processes have to themselves and their share of what they share. Where
server and client take turns on one CPU, how busy the server is with the original tells how much faster it can become.

The original is `bench/ibench/iibench.py` of the public repository mdcallag/mytools, fetched with git where needed and
run on Debian's Python and mysqlclient, which are unpacked in the cache.
"""

import argparse
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import insert_original as original
from bench import report, save, started
from client_memory import ClientMemory
from rqps.engines.mysql.instance import Server, query
from rqps.measure import placement
from rqps.measure.counters import read_process
from rqps.study import PlacementKind
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.settling import settle
from rqps.workloads.insert_benchmark.steps import LOAD, find
from rqps.workloads.insert_benchmark.workload import InsertBenchmark
from rqps.workloads.load_generator import DATABASE

STEPS = tuple(original.STEPS)
RATES = {"l.i0": "rows_per_s", "qr100": "queries_per_s", "qp100": "queries_per_s"}
"""Of which there is a goal."""
AT_LEAST = 1.3
MOST_MB = 50
STARTS = 5
ONE_STATEMENT = InsertBenchmarkParameters(load_rows=1000, write_rows=62)
"""Of 50 rows in l.i1."""

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--pairs", type=int, default=8)
options.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS, help="l.i0 and l.x are always done, too")
options.add_argument("--load-rows", type=int, default=400_000, help="inserted in l.i0")
options.add_argument("--write-rows", type=int, default=50_000, help="inserted in l.i1, four fifths, and l.i2")
options.add_argument("--seconds", type=int, default=8, help="of each step with queries")
options.add_argument("--placement", choices=["same-cpu", "split", "free"], help="as for any run if not given")
options.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="variables of the server")
options.add_argument("--original", type=Path, help="a checkout of mdcallag/mytools, or its iibench.py")
options.add_argument("--repository", default=original.REPOSITORY, help="where to fetch it; default: %(default)s")
options.add_argument("--python", type=Path, help="a Python that has mysqlclient, instead of Debian's")
options.add_argument("--json", type=Path, help="where to write all numbers")


@dataclass(frozen=True)
class Goal:
    """What is compared of a step, and how far ours has to be."""

    step: str
    what: str
    at_most: float | None = None
    at_least: float | None = None

    def met(self, ratio: float) -> str:
        if self.at_most is None and self.at_least is None:
            return ""
        within = ratio <= self.at_most if self.at_most is not None else ratio >= (self.at_least or 0)
        return "yes" if within else "no"

    @property
    def words(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:.2f}"
        return f"at least {self.at_least:.2f}" if self.at_least is not None else "reported"


GOALS = (
    *(Goal(step, "cpu_us_per_row", at_most=0.2) for step in ("l.i0", "l.i1", "l.i2")),
    *(Goal(step, rate, at_least=AT_LEAST) for step, rate in RATES.items()),
    *(Goal(step, "rows_per_s") for step in ("l.i1", "l.i2")),
    *(Goal(step, "server_busy") for step in RATES),
    *(Goal(step, "memory_mb") for step in ("l.i0", "l.i1", "qr100", "qp100")),
)


@dataclass(frozen=True)
class Done:
    """What a client says of a step: all its rows, and a number of seconds with their rows and queries."""

    rows: int
    seconds: float
    rows_in_them: int
    queries_in_them: int


Do = Callable[[str, InsertBenchmarkParameters, int], Done]
Halves = dict[str, list[dict[str, dict[str, float]]]]
"""Of each step what was measured in each pair, by its sides."""


def theirs(client: original.Client, server: Server, cpus: tuple[int, ...]) -> Do:
    def do(step: str, parameters: InsertBenchmarkParameters, seed: int) -> Done:
        rows = parameters.rows(find(step, parameters.form))
        lines = original.run(client, server, step, rows, seed=seed, cpus=cpus)
        fitting = [line for line in lines if line.rows < rows] or lines
        return Done(rows, fitting[-1].elapsed_s, fitting[-1].rows, fitting[-1].queries)

    return do


def ours(server: Server, cpus: tuple[int, ...], folder: Path) -> Do:
    workload = InsertBenchmark()

    def do(step: str, parameters: InsertBenchmarkParameters, seed: int) -> Done:
        log = folder / f"{step}.log"
        with workload.generating((server,), step, parameters, seed=seed, cpus=cpus, log=log) as load:
            load.wait_for_begin()
            load.wait_for_end()
            load.wait_until_gone()
        answer = workload.answers(step, parameters, load)[0]
        done = dict.fromkeys(("insert", "query"), 0)
        for row in answer.intervals:
            done[row["kind"]] = done.get(row["kind"], 0) + row["operations"]
        return Done(done["insert"], load.elapsed_s, done["insert"], done["query"])

    return do


def measured(
    server: Server, do: Do, step: str, parameters: InsertBenchmarkParameters, seed: int, start_s: float
) -> dict[str, float]:
    """What came of a step on one side of a pair; `start_s` is taken off its CPU."""
    before_s, server_before = _cpu_s_of_children(), read_process(server.pid)
    with ClientMemory() as memory:
        done = do(step, parameters, seed)
    used_s, server_s = _cpu_s_of_children() - before_s, (read_process(server.pid) - server_before).cpu_s or 0
    return {
        "cpu_us_per_row": (used_s - start_s) * 1e6 / done.rows,
        "rows_per_s": done.rows_in_them / done.seconds,
        "queries_per_s": done.queries_in_them / done.seconds,
        "server_busy": server_s / (done.rows * done.seconds / done.rows_in_them),
        "memory_mb": memory.most_mb,
        "cpu_s": used_s,
    }


def _cpu_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_s(server: Server, do: Do) -> float:
    """CPU seconds that all processes of a client need for one statement."""
    begin(server)
    for step in STEPS[:2]:
        do(step, ONE_STATEMENT, 1)
    return statistics.median(measured(server, do, "l.i1", ONE_STATEMENT, 1, 0)["cpu_s"] for _ in range(STARTS))


def begin(server: Server) -> None:
    """Both databases without tables."""
    connection = server.connect()
    for name in (DATABASE, original.DATABASE):
        query(connection, f"DROP DATABASE IF EXISTS {name}")
        query(connection, f"CREATE DATABASE {name}")
    connection.close()


@contextmanager
def serving(kind: PlacementKind | None) -> Iterator[tuple[Server, tuple[int, ...], Path]]:
    """The 8.0.33 of the study `ps-cost-insert`, the CPUs of its client, and a folder for logs."""
    where = placement.choose(kind, 1)
    with started("ps-cost-insert", "my8033.common", where) as (server, folder):
        print(f"my8033.common, {where.kind}: server {where.server_cpus}, client {where.client_cpus}\n")
        yield server, where.client_cpus, folder


def table(results: Sequence[dict[str, Any]]) -> str:
    """One row a goal, with the interval of its ratio."""
    lines = [f"{'step':6} {'ours / original':16} {'pairs':>5} {'ratio':>7} {'interval':>15}  goal"]
    for result in results:
        goal, ratio = Goal(**result["goal"]), result["ratio"]
        reach = f"{ratio['low']:.3f}–{ratio['high']:.3f}" if ratio["low"] is not None else "too few"
        verdict = f"{goal.words}: {goal.met(ratio['estimate'])}" if goal.met(ratio["estimate"]) else goal.words
        lines.append(f"{goal.step:6} {goal.what:16} {ratio['n']:5} {ratio['estimate']:7.3f} {reach:>15}  {verdict}")
    return "\n".join(lines)


def reachable(halves: Halves) -> Iterator[str]:
    """What holds a rate: of each that has a goal, how many times that of the original it can become."""
    for step in (step for step in halves if step in RATES):
        busy = statistics.median(half["base"]["server_busy"] for half in halves[step])
        yield (
            f"{step}: with the original the server is at work {busy:.0%} of the time, so a client that costs nothing "
            f"makes it {1 / busy:.2f} times as fast on that CPU"
        )


def main() -> None:
    asked = options.parse_args()
    parameters = InsertBenchmarkParameters(
        load_rows=asked.load_rows, write_rows=asked.write_rows, rates=(100,), seconds=asked.seconds, wait_seconds=20
    )
    halves: Halves = {step: [] for step in STEPS if step in (*STEPS[:2], *asked.steps)}
    client = original.client(asked.original, asked.python, asked.repository)
    with serving(asked.placement) as (server, cpus, folder):
        for setting in asked.set:
            query(server.connect(), f"SET GLOBAL {setting}")
        sides = {"me": ours(server, cpus, folder), "base": theirs(client, server, cpus)}
        starts = {side: start_s(server, do) for side, do in sides.items()}
        print(f"CPU of the start: ours {starts['me']:.3f} s, the original {starts['base']:.3f} s\n")
        begun = time.monotonic()
        for seed in range(1, asked.pairs + 1):
            begin(server)
            # With one for all steps, both clients would insert just the rows that are deleted, in the same places.
            seeds = {step: 100 * seed + number for number, step in enumerate(STEPS)}
            for step in halves:
                both = {}
                for side in random.sample(list(sides), 2):
                    if step != LOAD:
                        settle(server, parameters, step)
                    both[side] = measured(server, sides[side], step, parameters, seeds[step], starts[side])
                halves[step].append(both)
            left_s = (time.monotonic() - begun) / seed * (asked.pairs - seed)
            print(f"pair {seed} of {asked.pairs} done, about {left_s / 60:.0f} min left", file=sys.stderr, flush=True)
    results = []
    for goal in (goal for goal in GOALS if goal.step in halves):
        pairs = [(half["me"][goal.what], half["base"][goal.what]) for half in halves[goal.step]]
        comparison = report(
            f"{goal.step}: {goal.what.replace('_', ' ')}, ours (me) against the original (base)", pairs
        )
        results.append(comparison | {"goal": asdict(goal)})
    print(table(results))
    print(*reachable(halves), sep="\n")
    most = max(half["me"]["memory_mb"] for step in halves.values() for half in step)
    print(f"memory of our client, at most: {most:.1f} MB, under {MOST_MB} MB: {'yes' if most < MOST_MB else 'no'}")
    save(asked.json, {"benchmark": "insert_benchmark", "start_cpu_s": starts, "halves": halves, "found": results})


main()
