"""The verdict on simulated noise: slices of servers whose true ratio is known, through the library's own estimate.

A round has a start's luck, which is the same for all its cycles, and each cycle has noise of its own, made as slices
in the order A B B A on a machine whose speed changes. `stats.rounds_of_pairs` and `stats.compare` do the rest.
"""

from typing import Any

import numpy as np
import polars as pl
from measuring import BASE, CPU, ME, SEED, THROUGHPUT
from rqps import stats
from rqps.stats.metrics import BLOCKS

CELLS, CYCLES = 20, 60
ROUNDS = (4, 6, 9, 12)
LUCK = 0.009
"""Spread between starts, as measured in the first trials."""
WITHIN = 0.03
"""Spread of a slice's speed."""
SLOWER = (0.01, 0.02, 0.03)
KINDS = {
    "normal": "a start's luck and slices spread normally",
    "skewed": "most starts are alike, some much slower, on both sides; slices are held up now and then",
    "skewed on one side": "the same, but only starts of one side",
    "two speeds": "each start of either side is fast or, three times of ten, 2 % slower",
    "drifting": "the machine loses half of its speed and wins it back while a round goes on",
    "contaminated": "one round of twelve is off by 4 %, one slice of twenty takes twice as long",
    "half differ": "as normal, and every second cell is 10 % slower; the others are equal, and moved by a slowdown",
    "two metrics": "as normal; each cell has a throughput and a CPU, with most of a start's luck in common",
    "three metrics": "the same with the load generator's CPU, as it was before",
    "many clients": "as normal, but every third cell has six times the luck and its slices spread six times as much",
    "noisy slices": "the same luck for all, but every third cell's slices spread six times as much",
    "base and twin": "as normal, by three servers with a luck each, of which the base's value is the mean of two",
}
"""Each kind of noise."""
OF_A_CELL = {"two metrics": (THROUGHPUT, CPU), "three metrics": (THROUGHPUT, CPU, "client_cpu_us_per_operation")}
DIFFERENT = 0.9
CALLED = pl.col("verdict").is_in(["slower", "faster"])
IN_COMMON = 0.8
"""Share of the variance of a start's luck that the metrics of a cell have in common."""


NOISY = 6
"""Times the noise of every third cell, where a kind says so."""


def _noisy(shape: tuple[int, int]) -> Any:
    return np.where(np.arange(shape[0]) % 3 == 0, NOISY, 1)


def luck(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Any:
    """Logarithms of what starts do to a ratio, with mean zero, by cell and round. Cells differ in their spread."""
    spread = LUCK * np.exp(random.normal(0, 0.3, (shape[0], 1)))
    if kind == "many clients":
        spread *= _noisy(shape)[:, None]
    if kind == "skewed":
        return spread * (random.exponential(1, shape) - random.exponential(1, shape)) / np.sqrt(2)
    if kind == "skewed on one side":
        return spread * (1 - random.exponential(1, shape))
    if kind == "two speeds":
        sides = [random.random(shape) < 0.3 for _ in range(2)]
        return 0.02 * (sides[0].astype(float) - sides[1]) + random.normal(0, 0.003, shape)
    if kind == "contaminated":
        return random.normal(0, 0.6, shape) * spread + (random.random(shape) < 1 / 12) * random.normal(0, 0.04, shape)
    return random.normal(0, 1, shape) * spread


def slices(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Any:
    """Logarithms of the speed of each of the four slices of each cycle."""
    every = (*shape, CYCLES, 4)
    noise = random.normal(0, WITHIN, every)
    if kind in ("many clients", "noisy slices"):
        noise *= _noisy(shape)[:, None, None, None]
    if kind.startswith("skewed"):
        return noise - random.exponential(WITHIN, every) * (random.random(every) < 0.3)
    if kind == "contaminated":
        return noise - np.log(2) * (random.random(every) < 0.05)
    if kind == "drifting":
        at = np.linspace(0, 2 * np.pi, CYCLES * 4).reshape(CYCLES, 4) + random.uniform(0, 2 * np.pi, (*shape, 1, 1))
        walk = random.normal(0, 0.005, (*shape, CYCLES * 4)).cumsum(-1).reshape(every)
        return noise + np.log(0.75 + 0.25 * np.cos(at)) + walk
    return noise


def _totals(side: Any) -> tuple[Any, Any]:
    """The value of each round, and the share that each block of its cycles moves it by."""
    flat = side.reshape(-1, CYCLES)
    shares = (flat / flat.sum(1, keepdims=True) - 1 / CYCLES).reshape(-1, BLOCKS, CYCLES // BLOCKS).sum(-1)
    return flat.mean(1), shares


def page(kind: str, rounds: int, random: np.random.Generator) -> pl.DataFrame:
    """The values of a page of equal servers, as `stats.measured` gives them."""
    shape, metrics = (CELLS, rounds), OF_A_CELL.get(kind, (THROUGHPUT,))
    common, frames = luck(kind, shape, random), []
    for metric in metrics:
        speed = np.exp(slices(kind, shape, random))
        own = common
        if len(metrics) > 1:
            own = np.sqrt(IN_COMMON) * common + np.sqrt(1 - IN_COMMON) * luck(kind, shape, random)
        done = speed[..., (0, 1)] + speed[..., (3, 2)]  # in two slices of one length on each side
        sides = {BASE: _totals(done[..., 0]), ME: _totals(done[..., 1] * np.exp(own)[..., None])}
        if kind == "base and twin":
            again = np.exp(slices(kind, shape, random))
            starts = [luck(kind, shape, random) / np.sqrt(2) for _ in range(3)]
            of_all = (done[..., 0], again[..., 0] + again[..., 3], done[..., 1])
            both = [_totals(one * np.exp(own)[..., None]) for one, own in zip(of_all, starts, strict=True)]
            sides = {BASE: (np.sqrt(both[0][0] * both[1][0]), (both[0][1] + both[1][1]) / 2), ME: both[2]}
        for dbms, (values, shares) in sides.items():
            columns = {
                "step": np.repeat(np.arange(CELLS), rounds).astype(str),
                "round": np.tile(np.arange(rounds, dtype=np.int32), CELLS),
                "cycles": np.full(len(values), CYCLES),
                "blocks": pl.Series(shares.tolist(), dtype=pl.List(pl.Float64)),
                "value": values,
            }
            whose = {"dbms": pl.lit(dbms), "metric": pl.lit(metric)}
            frames.append(pl.DataFrame(columns).with_columns(**whose))
    usual = {"host": "simulated", "kind": "", "group": "", "build": "", "config": ""}
    return pl.concat(frames).with_columns(
        *(pl.lit(value).alias(name) for name, value in usual.items()),
        pl.col("step").cast(pl.Int64).alias("position"),
        pl.col("step").cast(pl.Int64).alias("table_position"),
        pl.lit(None, pl.Int64).alias("range"),
        pl.lit(1).alias("clients"),
        pl.format("r{}@simulated/{}", "round", "dbms").alias("run"),
    )


def simulate(pages: int, kind: str, rounds: int) -> dict[str, float | int | str]:
    """One row of the table: pages of equal servers, and the same ones with a slowdown added."""
    random = np.random.default_rng([SEED, list(KINDS).index(kind), rounds])
    count = dict.fromkeys(("held", "false", "pages with false", "same"), 0)
    hits, cells = dict.fromkeys(SLOWER, 0), 0
    for _ in range(pages):
        paired = stats.rounds_of_pairs(page(kind, rounds, random), [(BASE, ME)])
        differs = (pl.col("position") % 2 == 1) & (kind == "half differ")
        paired = paired.with_columns((pl.when(differs).then(DIFFERENT).otherwise(1) * pl.col("ratio")).alias("ratio"))
        equal = stats.compare(paired).filter(~differs)
        called = equal.filter(CALLED).height
        count["held"] += equal.filter(pl.col("low") <= 1, pl.col("high") >= 1).height
        count["false"] += called
        count["pages with false"] += called > 0
        count["same"] += equal.filter(verdict="same").height
        cells += equal.height
        for slower in SLOWER:
            ratio = pl.when(differs).then(1).otherwise(1 - slower) * pl.col("ratio")
            moved = paired.with_columns(ratio.alias("ratio"), smallest_effect=pl.lit(slower / 2))
            hits[slower] += stats.compare(moved).filter(CALLED, ~differs).height
    return {
        "noise": kind,
        "rounds": rounds,
        "cells": cells,
        "95 % intervals hold the truth": count["held"] / cells,
        "called different": count["false"] / cells,
        "pages of 20 with a false call": count["pages with false"] / pages,
        "called same": count["same"] / cells,
        **{f"{slower:.0%} slower found": number / cells for slower, number in hits.items()},
    }
