"""Duets on real servers: slices, cycles and tables of each side, and faults of one of them."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from live_load import ROWS, asked
from live_server import run_of, server_of
from rqps.engines.mysql.instance import Server
from rqps.workloads import Answer
from rqps.workloads.sysbench.workload import Sysbench

pytestmark = pytest.mark.live

SIDES = ("my5624.base", "my8033.base")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(server_of(run_of(dbms, asked("insert")), tmp_path_factory.mktemp("duet")))
            for dbms in SIDES
        ]


def done(servers: list[Server], step: str, folder: Path, **parameters: Any) -> tuple[list[Answer], pl.DataFrame]:
    """The answers of a step, one for each server, and the slices of all."""
    workload, wanted = Sysbench(), asked(step, **parameters)
    with workload.generating(servers, step, wanted, seed=1, cpus=(), log=folder / f"{step}.log") as load:
        load.wait_for_begin()
        load.wait_for_end()
        load.wait_until_gone()
    answers = list(workload.answers(step, wanted, load))
    slices = [
        pl.DataFrame(answer.more["slices"]).with_columns(side=pl.lit(side)) for side, answer in enumerate(answers)
    ]
    return answers, pl.concat(slices).sort("slice", "side")


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("step", ["point-query", "update-index", "read-write_range=10", "scan"])
def test_servers_take_turns_there_and_back(step: str, threads: int, servers: list[Server], tmp_path: Path) -> None:
    answers, slices = done(servers, step, tmp_path, threads=threads, warmup_seconds=1, slice_ms=10)
    cycles = slices.group_by("cycle", maintain_order=True).agg("side", "slice")
    assert cycles["cycle"].to_list() == list(range(cycles.height))
    assert all(sides == [0, 1, 1, 0] for sides in cycles["side"].to_list()), "there and back"
    assert slices["slice"].to_list() == list(range(slices.height))
    each = ROWS if step == "scan" else 1
    assert min(slices["operations"].to_list()) >= threads * each, "every client did something in every slice"
    for side, answer in enumerate(answers):
        own = slices.filter(side=side)
        assert own["operations"].sum() == answer.columns["operations"]
        assert answer.columns["elapsed_s"] == pytest.approx(sum(own["busy_us"]) / 1e6 / threads, rel=1e-3)
