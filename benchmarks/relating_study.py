"""A made-up study of the size that `relating.py` asks for, written by the project's own writer.

Its manifests are one of the sample's with other names, so that they are as long as real ones. Tables that are not
read in the benchmark have few rows.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rqps.store import Manifest, load, write_manifest, write_study_card, write_table
from rqps.store.schemas import TABLES

DATA = Path(__file__).parent.parent / "data"
STUDY = "relating"
NOISE = 0.02


def write(data: Path, *, steps: int, builds: int, rounds: int, seconds: int) -> Path:
    """Writes the study below `data` and gives its folder; the same size gives the same numbers."""
    folder = data / "raw" / f"study={STUDY}"
    dbms = [f"my{number:02}.base" for number in range(1, builds + 1)]
    like = load("releases", DATA)
    facts = {"study": STUDY, "base": dbms[0], "dbms": tuple(dbms), "rounds": rounds}
    of_first = like.manifests.filter(folder=like.runs["folder"][0]).collect()
    manifest = Manifest.model_validate_json(of_first["manifest"][0])
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        write_one = partial(_write_run, folder, manifest, steps, seconds)
        for _ in threads.map(write_one, _runs(dbms, rounds)):
            pass
    write_study_card(folder, like.card.model_copy(update=facts))
    return folder


def _runs(dbms: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    for round_ in range(1, rounds + 1):
        for number, name in enumerate(dbms):
            build, position = name.partition(".")[0], (round_ - 1) * len(dbms) + number
            facts = {"study": STUDY, "run": f"r{round_:03}@{name}@vm", "dbms": name, "build": build, "round": round_}
            facts |= {"build_digest": build, "identity": name, "version": f"8.0.{number}", "position": position}
            yield facts


def _write_run(folder: Path, manifest: Manifest, steps: int, seconds: int, facts: dict[str, Any]) -> None:
    run = folder / f"run={facts['run']}"
    chance = np.random.default_rng(facts["position"])
    speed = 1 - 0.01 * int(facts["version"].rpartition(".")[2])
    for table, frame in _tables(steps, seconds, speed, chance).items():
        write_table(run, table, frame)
    write_manifest(run, manifest.model_copy(update=facts))


def _tables(steps: int, seconds: int, speed: float, chance: np.random.Generator) -> dict[str, pl.DataFrame]:
    names = [f"step-{number:02}_range=100" for number in range(steps)]
    rates = 20_000 * speed / np.arange(1, steps + 1)
    counts = np.round(rates[:, None] * chance.lognormal(0, NOISE, (steps, seconds))).astype(np.int64)
    by_second = pl.DataFrame(
        {
            "step": pl.Series(names).repeat_by(seconds).explode(),
            "second": np.tile(np.arange(seconds, dtype=np.int32), steps),
            "operations": counts.ravel(),
        }
    )
    latency_us = 1e6 / pl.col("operations")
    intervals = by_second.with_columns(
        pl.col("step").alias("kind"),
        pl.col("operations").alias("transactions"),
        pl.lit(0).alias("errors"),
        *((latency_us * factor).alias(name) for name, factor in _LATENCIES.items()),
    )
    totals = counts.sum(axis=1)
    of_steps = pl.DataFrame(
        {
            "step": names,
            "position": list(range(steps)),
            "operations": totals,
            "operations_per_s": totals / seconds,
            "server_cpu_s": 0.6 * seconds * chance.lognormal(0, NOISE, steps),
            "client_cpu_s": 0.3 * seconds * chance.lognormal(0, NOISE, steps),
        }
    ).with_columns(
        pl.lit("query").alias("unit"),
        pl.lit(1).alias("clients"),
        pl.col("step").alias("kind"),
        pl.col("position").alias("table_position"),
        pl.lit("Point queries").alias("group"),
        pl.lit(False).alias("writes"),
        pl.lit(float(seconds)).alias("elapsed_s"),
        pl.col("operations").alias("transactions"),
        pl.lit(0).alias("errors"),
    )
    counters = by_second.select("step", pl.col("second") + 1.0, pl.lit(1.0).alias("interval_s")).head(steps)
    few = {"latencies": by_second.select("step", pl.col("step").alias("kind"), "second").head(steps)}
    few["status"] = pl.DataFrame({"step": names, "moment": "after", "name": "questions", "value": "1"})
    few["settings"] = pl.DataFrame({"kind": "variable", "name": names, "value": "ON"})
    few["plans"] = pl.DataFrame(schema=TABLES["plans"])
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
