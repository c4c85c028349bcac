"""How often `rqps watch` names a change in a month of equal builds, and how soon it names a true one.

    python benchmarks/watching.py --months 100
    python benchmarks/watching.py --months 100 --others /tmp/others/lib/python3.11/site-packages

A month is 30 builds, one a day, with 47 steps of two measures each in 4 rounds. The rounds have the noise of one
build against itself (benchmarks/verdicts/results/aa.parquet). On each day every ratio to the base gets a random
shift, the same on both occasions of that day, drawn from the differences between occasions of MySQL 8.0.33 against
5.6.24 (occasion.parquet). On each occasion every ratio, also that to the version before, gets another one, drawn from
the differences between occasions of 5.6.24 against its twin; these were no larger than the spread of the rounds
explains, so this shift is 0. `--others` has apache-otava, which gets the history of ratios to the base.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from change_points import AA, otava, pools
from rqps.stats.build_versions import seen_on_occasions
from rqps.stats.metrics import CPU, THROUGHPUT

OCCASIONS = AA.with_name("occasion.parquet")
STEPS, METRICS, ROUNDS, DAYS, SEED = 47, (THROUGHPUT, CPU), 4, 30, 20_261_125
OF_HOURS, OF_TWINS = "my8033.common", "my5624.again1"
"""The dbms whose ratios to the base differ between occasions, and the base's own twin."""
CELLS = STEPS * len(METRICS)


class Month(NamedTuple):
    """The days on which a month named a change: on the first occasion, on both, and against the base;
    and those of Otava."""

    once: list[int]
    twice: list[int]
    base: list[int]
    otava: list[int]


@cache
def moves(dbms: str) -> Any:
    """The differences of a ratio's logarithm between occasions, made smaller by the part that the spread of the
    rounds explains: from the mean of all occasions, or of the base's twin from 0."""
    rows = pl.read_parquet(OCCASIONS).filter(pl.col("metric").is_in(METRICS), dbms=dbms)
    cpu = pl.col("note").str.json_path_match("$.machine.flags_digest")
    rows = rows.filter(cpu == cpu.mode().first())  # one CPU, that of most occasions
    log, several = pl.col("ratio").log(), pl.len()
    of_occasions = rows.group_by("unit", "step", "metric").agg(mean=log.mean(), square=log.var() / several, n=several)
    centre = pl.lit(0.0) if dbms == OF_TWINS else pl.col("mean").mean().over("step", "metric")
    moved = of_occasions.with_columns(move=pl.col("mean") - centre)
    occasions, n = moved["unit"].n_unique(), float(moved["n"].median())  # type: ignore[arg-type]
    by_chance = (n - 1) / (n - 3) * (1 if dbms == OF_TWINS else 1 - 1 / occasions)  # the variance of Student's t
    seen = float((moved["move"] ** 2 / moved["square"]).mean())  # type: ignore[arg-type]
    return moved["move"].to_numpy() * np.sqrt(max(1 - by_chance / seen, 0.0))


def rounds(random: np.random.Generator, level: Any) -> Any:
    """Logarithms of ratios by cell and round: a level, and the noise of real rounds."""
    of = pools()
    cells = [random.choice(of[at % len(of)], ROUNDS) for at in range(CELLS)]
    return np.stack(cells) * random.choice([-1.0, 1.0], (CELLS, ROUNDS)) + np.asarray(level)[:, None]


def frame(dbms: str, occasions: list[Any]) -> pl.DataFrame:
    """Paired rounds of some occasions, as `stats` has them."""
    parts = []
    for occasion, values in enumerate(occasions, start=1):
        cell, number = np.indices(values.shape)
        columns = {"cell": cell.ravel(), "round": 1 + number.ravel(), "ratio": np.exp(values.ravel())}
        parts.append(pl.DataFrame(columns).with_columns(occasion=pl.lit(occasion)))
    build, _, config = dbms.partition(".")
    same = {"host": "vm", "base": "base.z", "dbms": dbms, "build": build, "config": config}
    names = {
        "step": pl.format("step{}", pl.col("cell") // len(METRICS)),
        "metric": pl.when(pl.col("cell") % len(METRICS) == 0).then(pl.lit(THROUGHPUT)).otherwise(pl.lit(CPU)),
        "base_value": pl.lit(1.0),
        "me_value": pl.col("ratio"),
        "looks": pl.lit(1, pl.Int32),
    }
    return pl.concat(parts).with_columns(**{name: pl.lit(text) for name, text in same.items()}, **names)


def month(random: np.random.Generator, change: float, day_of_change: int, *, beside: bool) -> Month:
    """One month, with a change of the first cell on one of its days; 0 for none."""
    of_hours, of_twins = moves(OF_HOURS), moves(OF_TWINS)
    first = rounds(random, random.choice(of_hours, CELLS))
    reference, history = {"v0.z": frame("v0.z", [first])}, [first]
    once, twice, base = [], [], []
    for day in range(1, DAYS + 1):
        step, level = np.zeros(CELLS), random.choice(of_hours, CELLS)
        step[0] = change * (day == day_of_change)
        level[0] += change * (day >= day_of_change)
        occasions: list[tuple[Any, Any]] = []
        seen = [pl.DataFrame()]
        while len(occasions) < 2 and (not occasions or any(part.filter(state="suspected").height for part in seen)):
            tables = random.choice(of_twins, CELLS)
            occasions.append((rounds(random, step + tables), rounds(random, level + tables)))
            against_last, against_base = ([one[side] for one in occasions] for side in (0, 1))
            seen = [
                seen_on_occasions(frame(f"v{day}.z", against_last)),
                seen_on_occasions(frame(f"v{day}.z", against_base), "v0.z", reference),
            ]
        once += [day] * (len(occasions) == 2)
        twice += [day] * (seen[0].filter(state="changed").height > 0)
        base += [day] * (seen[1].filter(state="changed").height > 0)
        history.append(occasions[0][1])
    page = np.stack(history, axis=2)
    return Month(once, twice, base, [at for named in otava(page) for at, _, _ in named] if beside else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=100)
    parser.add_argument("--others", help="the folder of packages that has otava")
    arguments = parser.parse_args()
    if arguments.others:
        sys.path.append(arguments.others)
        logging.disable(logging.WARNING)
    print("| change of one step | named by | months with a false one | false a month | named on its day | later |")
    print("|---|---|---|---|---|---|")
    for percent in (0, 2, 5):
        random, day = np.random.default_rng([SEED, percent]), DAYS // 2
        size = float(np.log1p(-percent / 100))
        every = [month(random, size, day, beside=bool(arguments.others)) for _ in range(arguments.months)]
        ways: dict[str, Callable[[Month], list[int]]] = {
            "one occasion": lambda one: one.once,
            "two occasions, against the last": lambda one: one.twice,
            "two occasions, against the base": lambda one: one.base,
            "two occasions, either": lambda one: sorted({*one.twice, *one.base}),
        }
        if arguments.others:
            ways["Otava on ratios to the base"] = lambda one: one.otava
        for name, days in ways.items():
            named = [days(one) for one in every]
            false = [[at for at in one if not percent or at < day] for one in named]
            row = [f"{percent} %" if percent else "none", name, f"{np.mean([bool(one) for one in false]):.0%}"]
            row.append(f"{np.mean([len(one) for one in false]):.2f}")
            row.append(f"{np.mean([day in one for one in named]):.0%}" if percent else "")
            row.append(
                f"{np.mean([day not in one and max(one, default=0) > day for one in named]):.0%}" * bool(percent)
            )
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
