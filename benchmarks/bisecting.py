"""Counts how often `rqps bisect` names the right builds, alone, as certain or as a range, and how often the interval
of a size holds what another hour finds.

    python benchmarks/bisecting.py --tries 300
    python benchmarks/bisecting.py --tries 300 --builds 84 --spread reads --change 1 2

The bisection of the library runs on a simulated machine. One of the builds brought a change. Rounds have the noise of
`--noise`. From hour to hour each server is faster or slower at random, and the change is larger or smaller, as much
as ratios differed between occasions on one type of CPU (benchmarks/verdicts/results/occasion.parquet). The search
takes one hour, or is stopped and goes on in another hour. Its result is measured on two further occasions, and on a
fourth one, which the intervals should hold.
"""

import argparse
import math
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from rqps.schedule.bisection import ROUNDS, Bisection, bisection
from rqps.schedule.change_search import COVERAGES, Change, Pair, Search
from rqps.schedule.run_study import LocalRunner
from rqps.stats.metrics import THROUGHPUT
from rqps.study import RunsFile, read_runs_file
from rqps.workloads import PARAMETERS

OCCASIONS = Path(__file__).parent / "verdicts/results/occasion.parquet"
CPU_TYPE = {"cpu family": "25", "model": "17"}
"""The type of CPU that was seen on most occasions: five."""
TWIN, BASE = "my5624.again1", "my5624.common"
STEPS = {"none": (), "reads": ("point-query", "range-covered-si"), "writes": ("update-index", "insert")}
BUILDS, PERCENT, SEED = (84, 2000), (0, 1, 2, 5), 20_261_128
SCHEMA = {"step": pl.String, "metric": pl.String, "dbms": pl.String, "occasion": pl.Int32, "duet": pl.String}
SCHEMA |= {"ratio": pl.Float64}


class Spread(NamedTuple):
    """Standard deviations between hours: of the logarithm of a server's speed, and of that of a change."""

    server: float = 0.0
    change: float = 0.0


def spread_between_occasions(steps: Sequence[str]) -> Spread:
    """The spread of throughput over the occasions on one type of CPU. The spread of two servers of one binary is that
    of both servers; two releases have that of a change besides."""
    if not steps:
        return Spread()
    of_cpu = [pl.col("note").str.json_path_match(f"$.machine['{name}']") == is_ for name, is_ in CPU_TYPE.items()]
    rows = pl.read_parquet(OCCASIONS).filter(*of_cpu, pl.col("step").is_in(steps), metric=THROUGHPUT)
    wide = rows.pivot("dbms", index=["unit", "step", "round"], values="ratio").with_columns(pl.lit(1.0).alias(BASE))

    def variance(*pairs: tuple[str, str]) -> float:
        """The mean variance of the ratio of two between occasions, without the part that the rounds explain."""
        variances = []
        for one, other in pairs:
            log = (pl.col(one) / pl.col(other)).log()
            means = wide.group_by("unit", "step").agg(mean=log.mean(), by_rounds=log.var() / pl.len())
            of_steps = means.group_by("step").agg(pl.col("mean").var() - pl.col("by_rounds").mean())
            variances += of_steps["mean"].to_list()
        return max(float(np.mean(variances)), 0.0)

    of_twins = variance((TWIN, BASE))
    of_releases = variance(*combinations(sorted({*rows["dbms"], BASE} - {TWIN}), 2))
    return Spread(math.sqrt(of_twins / 2), math.sqrt(max(of_releases - of_twins, 0.0)))


def bisection_of(builds: int) -> Bisection:
    """The bisection of a step over so many builds, of which nothing is measured."""
    names = [f"b{at}" for at in range(builds)]
    of_builds = "".join(f"  {name}: {{path: /opt/{name}}}\n" for name in names)
    study = f"question: Which?, workload: sysbench, rounds: 4, base: b0.z, dbms: [b0.z, {names[-1]}.z]"
    study += ", parameters: {steps: [scan]}"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.yaml"
        path.write_text(f"builds:\n{of_builds}configs: {{z: {{}}}}\nstudies:\n  s: {{{study}}}\n")
        runs_file = read_runs_file(path, PARAMETERS)
        runner, ends = LocalRunner(path.parent, path), (names[0], names[-1])
        how: dict[str, Any] = {"counts": False, "data": path.parent, "runner": runner, "say": str}
        return bisection(runs_file, "s", "scan", ends, names[1:-1], **how)


class SimulatedBisection(Bisection):
    """The bisection of the library on a simulated machine, whose servers run at random speeds."""

    def set_up(self, random: np.random.Generator, change: float, spread: Spread, noise: float, hours: int) -> None:
        """The logarithm of the change, which one of the builds brought, and the hours of the search."""
        self.random, self.change, self.spread, self.noise = random, change, spread, noise
        self.culprit = int(random.integers(1, len(self.dbms)))
        self.probes_in_first_hour = int(random.integers(1, self.probes)) if hours > 1 else -1
        self.probed, self.now, self.rows = 0, 1, pl.DataFrame(schema=SCHEMA)
        self.positions = {dbms: at for at, dbms in enumerate(self.dbms)}
        self.begin_hour()

    def begin_hour(self) -> None:
        self.speeds = self.random.normal(0, self.spread.server, len(self.dbms))
        self.speeds[self.culprit :] += self.random.normal(self.change, self.spread.change)

    def try_once(self) -> dict[str, float | None]:
        """Searches and measures the result again; says what came true, and how many builds the ranges have."""
        last = len(self.dbms) - 1
        search = Search(self.measure, self.title, self.say)
        search.settle(last)
        changes = list(search.changes(0, last, 0.0))
        if not changes:
            return {"named": False}
        pair = (changes[0].before, changes[0].after)

        def holds(candidates: Pair) -> bool | None:
            return candidates[0] < self.culprit <= candidates[1] if self.change else None

        facts: dict[str, float | None] = {"named": True, "right": holds(pair), "neighbours": pair[1] == pair[0] + 1}
        sizes = {}
        for occasions in (1, 3):
            while self.now < occasions:
                self._measure_again(changes, True)
            sizes[occasions], ranges = self._size(*pair, len(changes)), self._ranges([], pair)
            low, high = ranges[COVERAGES[0]]
            facts[f"range of {occasions}"] = holds((low, high))
            facts[f"builds of {occasions}"] = high - low
        facts["certain"] = certain = sizes[3].excludes_none and ranges[COVERAGES[1]] == pair
        facts["certain and wrong"] = not holds(pair) if certain else None
        self._measure_again(changes, True)
        fourth = self._rounds().filter(occasion=self.now).group_by("dbms").agg(pl.col("ratio").log().mean())
        logs = {self.dbms[0]: 0.0, **dict(fourth.iter_rows())}
        before, after = (logs[self.dbms[at]] for at in pair)
        for occasions, size in sizes.items():
            facts[f"held by {occasions}"] = abs(size.level.value - (after - before)) <= size.level.half
        return facts

    def _run(self, asked: RunsFile, **how: Any) -> None:
        names, rounds = [name for name in asked.studies[self.study].dbms if name != self.dbms[0]], ROUNDS
        if how.get("another"):
            self.now += 1
            self.begin_hour()
        else:
            rounds = min(number - self._done(name) for name, number in how["wanted"].items())
            if self.probed == self.probes_in_first_hour:
                self.begin_hour()
            self.probed += 1
        rows = []
        for number in range(rounds):
            base, *others = self.random.normal(0, self.noise / math.sqrt(2), 1 + len(names))
            duet = f"{self.rows.height}-{number}"
            for name, luck in zip(names, others, strict=True):
                log = self.speeds[self.positions[name]] + luck - self.speeds[0] - base
                rows.append((self.step, THROUGHPUT, name, self.now, duet, math.exp(log)))
        self.rows = self.rows.vstack(pl.DataFrame(rows, schema=SCHEMA, orient="row"))

    def _rounds(self) -> pl.DataFrame:
        return self.rows

    def _occasion(self) -> int:
        return self.now

    def _can_start(self, at: int) -> bool:
        return 0 <= at < len(self.dbms)

    def answer(self, changes: Sequence[Change]) -> str:
        return str(changes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=300)
    parser.add_argument("--builds", type=int, nargs="+", default=BUILDS)
    parser.add_argument("--change", type=float, nargs="+", default=PERCENT, help="percent")
    parser.add_argument("--spread", nargs="+", choices=list(STEPS), default=list(STEPS), help="between occasions")
    parser.add_argument("--hours", type=int, nargs="+", choices=(1, 2), default=(1, 2), help="of a search")
    parser.add_argument("--noise", type=float, default=0.5, help="of the ratio of a round, in percent")
    asked = parser.parse_args()
    spreads = {name: spread_between_occasions(STEPS[name]) for name in asked.spread}
    for name, spread in spreads.items():
        print(f"{name}: a server {spread.server:.2%}, a change {spread.change:.2%}")
    shown = {
        "right pair": "right",
        "two neighbours": "neighbours",
        "range of one occasion holds it": "range of 1",
        "its builds": "builds of 1",
        "range of three": "range of 3",
        "its builds (three)": "builds of 3",
        "certain after three": "certain",
        "of these wrong": "certain and wrong",
        "size of one holds the fourth": "held by 1",
        "size of three": "held by 3",
    }
    head = ["builds", "change", "spread", "hours of the search", "a change named", *shown]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for builds, name, percent, hours in product(asked.builds, spreads, asked.change, asked.hours):
        if name == "none" and hours > 1:
            continue
        of, seed = bisection_of(builds), [SEED, builds, list(STEPS).index(name), round(1000 * percent), hours]
        tries = []
        for number in range(asked.tries):
            one = SimulatedBisection(of.runs_file, of.study, of.step, of.dbms, False, of.data, of.runner, of.say)
            random = np.random.default_rng([*seed, number])
            one.set_up(random, math.log1p(-percent / 100), spreads[name], asked.noise / 100, hours)
            tries.append(one.try_once())
        cells = [f"{builds:,}", f"{percent:g} %", name, str(hours)]
        for column in ("named", *shown.values()):
            known = [value for one in tries if (value := one.get(column)) is not None]
            true = sum(map(bool, known))
            if column.startswith("builds"):
                cells.append(f"{np.median(known):.0f}")
            elif column in ("named", "certain", "certain and wrong"):
                cells.append(f"{true} of {len(known)}")
            else:
                cells.append(f"{true / len(known):.0%}" if known else "")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
