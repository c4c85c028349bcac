"""Made-up studies for tests, from a seeded generator: never measured, never outside a test's folder."""

import math
import random
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from rqps.store import Manifest, Placement, StudyCard, Warning_, write_manifest, write_study_card, write_table

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
DBMS = ("my1.base", "my2.base", "my2.ps0")
STEPS = ("point-query", "update-index")
SPEED = {"my1.base": 1.0, "my2.base": 0.7, "my2.ps0": 0.8}
SECONDS = 5


@dataclass(frozen=True)
class Shape:
    """The size of a made-up study, and its noise."""

    dbms: tuple[str, ...] = DBMS
    steps: tuple[str, ...] = STEPS
    rounds: int = 6
    noise: float = 0.01


def card(shape: Shape | None = None, **changes: Any) -> StudyCard:
    shape = shape or Shape()
    facts: dict[str, Any] = {
        "study": "synthetic",
        "question": "What does a made-up server cost?",
        "workload": "sysbench",
        "base": shape.dbms[0],
        "dbms": shape.dbms,
        "rounds": shape.rounds,
        "parameters": {"steps": list(shape.steps), "table_rows": 1000, "threads": 1, "seconds": SECONDS},
    }
    return StudyCard(**(facts | changes))


def manifest(dbms: str, round_: int, shape: Shape | None = None, **changes: Any) -> Manifest:
    shape = shape or Shape()
    build, config = dbms.split(".", 1)
    position = (round_ - 1) * len(shape.dbms) + (shape.dbms.index(dbms) if dbms in shape.dbms else 0)
    start = START + timedelta(minutes=position)
    facts: dict[str, Any] = {
        "study": "synthetic",
        "run": f"r{round_:02}@{dbms}@here",
        "host": "here",
        "dbms": dbms,
        "build": build,
        "config": config,
        "round": round_,
        "position": position,
        "seed": 7,
        "schema_version": 2,  # which had of a duet's side what stands in the run's id
        "workload": "sysbench",
        "identity": f"{dbms}-identity",
        "version": re.sub(r"\D.*", "", build.removeprefix("my")) + ".0.0",
        "version_comment": "Synthetic server",
        "build_source": f"synthetic {build}",
        "build_digest": build * 8,
        "options": {"performance_schema": "OFF" if config == "ps0" else "ON", "max_connections": "100"},
        "parameters": card(shape).parameters,
        "placement": Placement(kind="same-cpu", server_cpus=(0,), client_cpus=(0,), observer_cpus=(1,)),
        "rqps_version": "0.1.0",
        "git_revision": "0" * 40,
        "tools": {"sysbench": "1.0.20", "python": "3.11"},
        "machine": {"cpu": {"model": "Synthetic CPU", "cores": 2}, "memory_kb": 1000, "flags": ["a", "b"]},
        "started_at": start,
        "ended_at": start + timedelta(seconds=40),
        "elapsed_s": 40.0,
        "measured_s": 36.0,
        "outcome": "ok",
        "warnings": (Warning_(kind="steal", text="2 % of CPU time was stolen", step="point-query"),)
        if position == 1
        else (),
    }
    return Manifest(**(facts | changes))


def write_study(data: Path, shape: Shape | None = None, **changes: Any) -> Path:
    """Write a made-up study below `data`; the same shape gives the same bytes."""
    made = _made(shape or Shape(**changes)).name
    shutil.copytree(made, data / "raw/study=synthetic", dirs_exist_ok=True)
    return data


@cache
def _made(shape: Shape) -> "tempfile.TemporaryDirectory[str]":
    """The folder of a study that is copied wherever one of its shape is asked for."""
    made = tempfile.TemporaryDirectory()
    folder = Path(made.name)
    write_study_card(folder, card(shape))
    for round_ in range(1, shape.rounds + 1):
        for dbms in shape.dbms:
            write_run(folder, manifest(dbms, round_, shape), shape)
    return made


CYCLES = 10
LUCK = 0.005
"""The spread between starts of a server, in a duet."""


def write_duets(data: Path, shape: Shape | None = None, **changes: Any) -> Path:
    """Write a made-up study of duets: one slice of 20 ms after the other, in cycles of all servers and back."""
    shape = shape or Shape(**changes)
    folder = data / "raw/study=synthetic"
    write_study_card(folder, card(shape))
    for round_ in range(1, shape.rounds + 1):
        for dbms in shape.dbms:
            facts = manifest(dbms, round_, shape, run=f"r{round_:02}@here/{dbms}", position=round_ - 1)
            write_rows(folder, facts, in_turns(tables(facts, shape), facts, shape))
    return data


def in_turns(
    result: dict[str, list[dict[str, Any]]], facts: Manifest, shape: Shape
) -> dict[str, list[dict[str, Any]]]:
    """The tables of one server of a duet: with slices, and without what is of all servers together."""
    place, servers = shape.dbms.index(facts.dbms), len(shape.dbms)
    for row in result["steps"]:
        machine = random.Random(f"{facts.round} {row['step']}")  # as fast for all of a duet
        start = random.Random(f"{facts.run} {row['step']}")
        speed = _speed(facts.dbms, row["step"]) * 20_000 / (row["position"] + 1) * math.exp(start.gauss(0, LUCK))
        slices = []
        for cycle in range(CYCLES):
            now = speed * math.exp(machine.gauss(0, 20 * shape.noise))
            for number in (place, 2 * servers - 1 - place):
                busy_us = 20_000.0
                done = max(1, round(busy_us * now / 1e6 * math.exp(start.gauss(0, shape.noise))))
                of_slice = {"step": row["step"], "slice": 2 * servers * cycle + number, "cycle": cycle}
                cpu = {"client_cpu_us": 4.0 * done, "server_cpu_us": 6e5 * done / speed}
                slices.append(of_slice | {"operations": done, "busy_us": busy_us} | cpu)
        result["slices"] += sorted(slices, key=lambda one: one["slice"])
        operations, elapsed_s = (sum(one[name] for one in slices) for name in ("operations", "busy_us"))
        row |= {name: None for name in row if name.startswith(("host_", "client_"))}
        row |= dict.fromkeys(("operations", "transactions"), operations)
        row |= {"elapsed_s": elapsed_s / 1e6, "operations_per_s": operations / elapsed_s * 1e6}
        row |= {f"{who}_cpu_s": sum(one[f"{who}_cpu_us"] for one in slices) / 1e6 for who in ("server", "client")}
    return result


@cache
def shape_of_many() -> Shape:
    """All steps on ten builds."""
    from rqps.workloads.sysbench.parameters import SysbenchParameters  # the kernels of scripted runs need no steps

    builds = tuple(f"my{number}_rel_o2nofp.cz10a" for number in range(1, 11))
    return Shape(dbms=builds, steps=SysbenchParameters().measured, rounds=2)


def write_run(folder: Path, facts: Manifest, shape: Shape) -> Path:
    return write_rows(folder, facts, tables(facts, shape))


def write_rows(folder: Path, facts: Manifest, rows: Mapping[str, list[dict[str, Any]]]) -> Path:
    """Write a run with these rows; its other tables are empty."""
    import polars as pl  # the kernels of scripted runs need none of it
    from rqps.store.schemas import TABLES

    run = folder / f"run={facts.run}"
    run.mkdir(parents=True, exist_ok=True)
    for name, schema in TABLES.items():
        if rows.get(name):
            write_table(run, name, pl.DataFrame(rows[name], schema=schema))
        else:
            (run / f"{name}.parquet").write_bytes(_without_rows(name))
    write_manifest(run, facts)
    return run


@cache
def _without_rows(name: str) -> bytes:
    """The file of an empty table: most are, in a made-up study."""
    import polars as pl
    from rqps.store.schemas import TABLES

    with tempfile.TemporaryDirectory() as folder:
        return write_table(Path(folder), name, pl.DataFrame(schema=TABLES[name])).read_bytes()


def tables(facts: Manifest, shape: Shape) -> dict[str, list[dict[str, Any]]]:
    from rqps.store.schemas import TABLES

    chance = random.Random(f"{facts.run} {shape.noise}")
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for position, step in enumerate(shape.steps):
        _add_step(results, facts, step, position, shape.noise, chance)
    add_step_columns("sysbench", results["steps"])
    results["settings"] = [
        {"kind": "variable", "name": name, "value": value, "timed": None}
        for name, value in {**facts.options, "version": facts.version, "query_cache_type": "OFF"}.items()
    ]
    return results


def add_step_columns(workload: str, steps: list[dict[str, Any]]) -> None:
    """Give each row what follows from its step's name."""
    from step_columns import step_columns

    columns = step_columns(workload, [row["step"] for row in steps])
    for row in steps:
        row |= columns[row["step"]]


def _add_step(
    result: dict[str, list[dict[str, Any]]],
    facts: Manifest,
    step: str,
    position: int,
    noise: float,
    chance: random.Random,
) -> None:
    speed = _speed(facts.dbms, step) * 20_000 / (position + 1)
    per_second = [max(1, round(speed * math.exp(chance.gauss(0, noise)))) for _ in range(SECONDS)]
    operations = sum(per_second)
    latency = {
        "latency_mean_us": 1e6 / speed,
        "latency_p50_us": 0.95e6 / speed,
        "latency_p95_us": 1.4e6 / speed,
        "latency_p99_us": 2e6 / speed,
        "latency_p99_9_us": 4e6 / speed,
        "latency_max_us": 20e6 / speed,
    }
    server_s = operations * 0.6 / speed * math.exp(chance.gauss(0, noise / 2))
    client_s = operations * 4e-6
    counters = _counters(operations, server_s, client_s)
    result["steps"].append(
        {
            "step": step,
            "position": position,
            "unit": "query",
            "clients": 1,
            "started_at": facts.started_at + timedelta(seconds=10 * position),
            "warmup_s": 1.0,
            "elapsed_s": float(SECONDS),
            "operations": operations,
            "transactions": operations,
            "operations_per_s": operations / SECONDS,
            "errors": 0,
            "retries": 0,
            **latency,
            **counters,
        }
    )
    for second, count in enumerate(per_second):
        row = {"step": step, "kind": step, "second": second, "operations": count, "transactions": count}
        result["intervals"].append({**row, "errors": 0, "retries": 0, **latency})
        share = count / operations
        result["counters"].append(
            {
                "step": step,
                "second": second + 1.0,
                "interval_s": 1.0,
                "server_rss_kb": 200_000,
                "client_rss_kb": 9_000,
                "host_load_1min": 1.0,
                "host_memory_available_kb": 4_000_000,
                **_counters(count, server_s * share, client_s * share),
            }
        )
        result["latencies"].append(
            {"step": step, "kind": step, "second": second, "from_us": 40.0, "below_us": 60.0, "transactions": count}
        )
    for moment, questions in (("before", 0), ("after", operations)):
        result["status"].append({"step": step, "moment": moment, "name": "questions", "value": str(questions)})
        result["machine_state"] += [
            {"step": step, "moment": moment, "kb": kb, "load_ns": ns} for kb, ns in ((0, 0.4), (4096, 20.0))
        ]


def _speed(dbms: str, step: str) -> float:
    """Of a release without a speed of its own: from one to the next it gains or loses, in each step another share."""
    number = re.match(r"my(\d+)", dbms)
    assert number
    return SPEED.get(dbms, random.Random(step).uniform(0.9, 1.03) ** (int(number[1]) - 1))


def _counters(operations: int, server_s: float, client_s: float) -> dict[str, float | int]:
    results: dict[str, float | int] = {}
    for who, cpu_s in (("server", server_s), ("client", client_s)):
        of_process = {"cpu_s": cpu_s, "cpu_user_s": 0.6 * cpu_s, "cpu_system_s": 0.4 * cpu_s, "read_kb": 0.0}
        of_process |= dict.fromkeys(("context_switches", "reads", "writes"), operations)
        of_process["write_kb"] = 0.1 * operations
        results |= {f"{who}_{name}": value for name, value in of_process.items()}
    host = {"cpu_user_s": server_s + client_s, "cpu_system_s": 0.3, "cpu_idle_s": 0.5, "cpu_iowait_s": 0.05}
    host |= {"cpu_steal_s": 0.0, "context_switches": 3 * operations, "interrupts": operations}
    host |= {"reads": 0, "writes": 10, "read_kb": 0.0, "write_kb": 500.0}
    return results | {f"host_{name}": value for name, value in host.items()}
