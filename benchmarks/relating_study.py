"""A made-up study of the size that `relating.py` asks for, written by the project's own writer.

Its manifests are one of the sample's with other names, so that they are as long as real ones. Tables that are not
read in the benchmark have few rows.
"""

import random
from pathlib import Path

import polars as pl
from rqps.store import load_run, read_manifest, write_manifest, write_study_card, write_table
from rqps.store.schemas import TABLES

SAMPLE = Path(__file__).parent.parent / "data/sample/study=releases"
STUDY = "relating"
NOISE = 0.02


def write(data: Path, *, steps: int, builds: int, rounds: int, seconds: int) -> None:
    """Writes the study below `data`; the same size gives the same numbers."""
    folder = data / "raw" / f"study={STUDY}"
    dbms = [f"my{number:02}.base" for number in range(1, builds + 1)]
    like = next(path.parent for path in sorted(SAMPLE.glob("run=*/manifest.json")))
    facts = {"study": STUDY, "base": dbms[0], "dbms": tuple(dbms), "rounds": rounds}
    write_study_card(folder, load_run(like).card.model_copy(update=facts))
    manifest = read_manifest(like)
    position = 0
    for round_ in range(1, rounds + 1):
        for number, name in enumerate(dbms):
            build = name.partition(".")[0]
            facts = {"study": STUDY, "run": f"r{round_:02}@{name}@vm", "dbms": name, "build": build, "round": round_}
            facts |= {"build_digest": build, "identity": name, "version": f"8.0.{number}", "position": position}
            chance = random.Random(position)
            run = folder / f"run={facts['run']}"
            for table, frame in _tables(steps, seconds, 1 - 0.01 * number, chance).items():
                write_table(run, table, frame)
            write_manifest(run, manifest.model_copy(update=facts))
            position += 1


def _tables(steps: int, seconds: int, speed: float, chance: random.Random) -> dict[str, pl.DataFrame]:
    names = [f"step-{number:02}_range=100" for number in range(steps)]
    rates = [20_000 * speed / (number + 1) for number in range(steps)]
    each = [[round(rate * chance.lognormvariate(0, NOISE)) for _ in range(seconds)] for rate in rates]
    by_second = pl.DataFrame(
        {
            "step": [name for name in names for _ in range(seconds)],
            "second": list(range(seconds)) * steps,
            "operations": [count for counts in each for count in counts],
        }
    )
    latency_us = 1e6 / pl.col("operations")
    intervals = by_second.with_columns(
        pl.col("step").alias("kind"),
        pl.col("operations").alias("transactions"),
        pl.lit(0).alias("errors"),
        *((latency_us * factor).alias(name) for name, factor in _LATENCIES.items()),
    )
    totals = [sum(counts) for counts in each]
    of_steps = pl.DataFrame(
        {
            "step": names,
            "position": list(range(steps)),
            "operations": totals,
            "operations_per_s": [total / seconds for total in totals],
            "server_cpu_s": [0.6 * seconds * chance.lognormvariate(0, NOISE) for _ in names],
            "client_cpu_s": [0.3 * seconds * chance.lognormvariate(0, NOISE) for _ in names],
        }
    ).with_columns(
        pl.lit("query").alias("unit"),
        pl.lit(1).alias("clients"),
        pl.lit(float(seconds)).alias("elapsed_s"),
        pl.col("operations").alias("transactions"),
        pl.lit(0).alias("errors"),
    )
    counters = by_second.select("step", pl.col("second") + 1.0, pl.lit(1.0).alias("interval_s"))
    few = {"latencies": by_second.select("step", pl.col("step").alias("kind"), "second").head(steps)}
    few["status"] = pl.DataFrame({"step": names, "moment": "after", "name": "questions", "value": "1"})
    few["settings"] = pl.DataFrame({"kind": "variable", "name": names, "value": "ON"})
    made = {"steps": of_steps, "intervals": intervals, "counters": counters, **few}
    return {name: _filled(name, frame) for name, frame in made.items()}


_LATENCIES = {
    "latency_mean_us": 1.0,
    "latency_p50_us": 0.9,
    "latency_p95_us": 1.5,
    "latency_p99_us": 2.0,
    "latency_p99_9_us": 4.0,
    "latency_max_us": 20.0,
}


def _filled(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in its table's form; what it does not have is empty."""
    schema = TABLES[name]
    missing = [pl.lit(None).alias(column) for column in schema if column not in frame.columns]
    return frame.with_columns(missing).select(schema.names()).cast(schema)
