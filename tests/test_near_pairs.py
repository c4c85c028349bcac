"""The noise floor of results of one run: how often it holds what two runs of one server differ by."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from rqps.stats.near_pairs import NEIGHBOURS, near_pairs, noise_floors, usual_spreads

METRIC = "operations_per_s"
NOTHING_TWICE = pl.DataFrame(schema={"kind": pl.String, "kind_after_writes": pl.String})
VERSIONS = ("8.0.30", "8.0.31", "8.0.32", "8.0.33", "8.4.0")


def study_of(
    steps: int, spread: float, uneven: float, random: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame, Any]:
    """One run of each version, in which nothing changed: its values, its runs, and the spread of each step."""
    spreads = spread * np.exp(random.normal(0, uneven, steps))
    logs = random.normal(0, 1, (len(VERSIONS), steps)) * spreads
    rows = [
        {"host": "vm", "dbms": version, "step": f"s{step}", "kind": f"s{step}", "value": 1000 * float(np.exp(log))}
        for version, of_version in zip(VERSIONS, logs, strict=True)
        for step, log in enumerate(of_version)
    ]
    unused = {name: pl.lit(None) for name in ("position", "table_position", "group")}
    values = pl.DataFrame(rows).with_columns(
        *(pl.col("dbms").alias(name) for name in ("run", "build", "config")),
        *(pl.lit(1).alias(name) for name in ("range", "clients", "round")),
        metric=pl.lit(METRIC),
        **unused,
    )
    runs = pl.DataFrame({"dbms": VERSIONS, "version": VERSIONS}).with_columns(engine=pl.lit("x"), config=pl.lit("c"))
    return values, runs, spreads


@pytest.mark.parametrize("uneven", [0.0, 0.4])
def test_the_floor_of_one_run_holds_what_two_runs_of_one_server_differ_by(uneven: float) -> None:
    """A further pair of runs of each step, of 30 studies with 20 steps: as often as promised, also where the spreads
    of steps are uneven, each of which is drawn towards that of all. The seed is fixed."""
    random = np.random.default_rng(7)
    held = []
    for _ in range(30):
        values, runs, spreads = study_of(20, 0.01, uneven, random)
        pairs = near_pairs(values, runs, NOTHING_TWICE)
        assert set(pairs["because"]) == {NEIGHBOURS}
        assert pairs.height == 3 * 20, "8.4.0 has no neighbour"
        floors = noise_floors(usual_spreads(pairs)).sort(pl.col("step").str.slice(1).cast(pl.Int64))
        further = np.abs(random.normal(0, 1, len(spreads)) * spreads * np.sqrt(2))
        held += (further < np.log(floors["floor_1"].to_numpy())).tolist()
    assert 0.93 <= np.mean(held) <= 0.999
