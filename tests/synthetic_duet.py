"""Made-up duets: servers that take turns while the machine's speed changes under all of them, and start with luck."""

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rqps.store import Manifest, Warning_, write_study_card
from synthetic import DBMS, SPEED, Shape, card, manifest, tables, write_rows

CYCLES = 60
AGAIN = ".again"


def write_duets(
    data: Path,
    shape: Shape | None = None,
    *,
    health: int = 2,
    luck: float = 0.006,
    drift: float = 0.0,
    itself: float = 1.0,
    disturbed: int = 0,
    twin: bool = False,
) -> Path:
    """Write a made-up study of duets below `data`: so many duets of the base with itself, or a twin in each round.

    `luck` is the spread of starts, `drift` what all but the base gain from round to round, `itself` the speed of the
    second base; of the first `disturbed` rounds each step has a warning of others.
    """
    shape = shape or Shape()
    folder = data / "raw/study=synthetic"
    write_study_card(folder, card(shape))
    for number in range(1, shape.rounds + 1):
        for dbms in shape.dbms:
            gain = 1.0 if dbms == shape.dbms[0] else math.exp(drift * number)
            facts = manifest(dbms, number, shape, run=f"r{number:02}@here/{dbms}", position=number - 1)
            _write_member(folder, _warned(facts, shape, number <= disturbed), shape, gain, luck)
        if twin:
            facts = manifest(shape.dbms[0], number, shape, run=f"r{number:02}@here/{shape.dbms[0]}{AGAIN}")
            _write_member(folder, facts, shape, itself, luck)
    for number in range(1, health + 1):
        for name, gain in ((shape.dbms[0], 1.0), (shape.dbms[0] + AGAIN, itself)):
            run = f"h{number:02}@here/{name}"
            facts = manifest(shape.dbms[0], number, shape, run=run, mode="health", warnings=())
            _write_member(folder, facts, shape, gain, luck)
    return data


def _warned(facts: Manifest, shape: Shape, disturbed: bool) -> Manifest:
    text = "other processes kept 80 % of a CPU busy meanwhile"
    warnings = tuple(Warning_(kind="others", text=text, step=step) for step in shape.steps)
    return facts.model_copy(update={"warnings": warnings if disturbed else ()})


def _write_member(folder: Path, facts: Manifest, shape: Shape, gain: float, luck: float) -> None:
    rows = tables(facts, shape)
    unit = facts.run.partition("/")[0]
    rows["slices"] = []
    for step in rows["steps"]:
        machine, own = random.Random(f"{unit} {step['step']}"), random.Random(f"{facts.run} {step['step']} {luck}")
        speed = SPEED.get(facts.dbms, 1.0) * gain * math.exp(own.gauss(0, luck))
        slow = math.exp(machine.gauss(0, 0.1))
        for cycle in range(CYCLES):
            rows["slices"] += _slices(step, cycle, speed * slow * math.exp(machine.gauss(0, 0.1)), own)
        step["operations_per_s"] *= gain * slow
        # The generator and the host worked for all of them.
        step |= {name: None for name in step if name.startswith(("host_", "client_")) and name != "client_cpu_s"}
    write_rows(folder, facts, rows)


def write_side(
    folder: Path, dbms: str, unit: int, occasion: int, shape: Shape, speeds: Mapping[str, float], host: str = "here"
) -> None:
    """One side of a duet of an occasion, with its speed in each step relative to the base."""
    facts = manifest(
        dbms,
        unit,
        shape,
        study=folder.name.removeprefix("study="),
        run=f"r{unit:02}@{host}/{dbms}",
        host=host,
        occasion=occasion,
        schema_version=3,
        unit=f"r{unit:02}@{host}",
        side=dbms,
        twin=False,
        mode="throughput",
        engine="mysql",
    )
    rows = tables(facts.model_copy(update={"dbms": DBMS[0]}), shape)
    rows["slices"] = []
    for step in rows["steps"]:
        luck = random.Random(f"{dbms} {unit} {step['step']}").gauss(0, 0.003)
        speed = speeds.get(step["step"], 1.0) * math.exp(luck)
        for at in range(40):
            operations = round(4000 * speed)
            cpu = {"client_cpu_us": 4.0 * operations, "server_cpu_us": 12_000.0}
            row = {"step": step["step"], "slice": at, "cycle": at // 2, "operations": operations}
            rows["slices"].append({**row, "busy_us": 20_000.0, **cpu})
    write_rows(folder, facts, rows)


def _slices(step: dict[str, Any], cycle: int, speed: float, own: random.Random) -> list[dict[str, Any]]:
    results = []
    for half in (0, 1):
        operations = max(1, round(400 * speed * math.exp(own.gauss(0, 0.02))))
        row = {"step": step["step"], "slice": 2 * cycle + half, "cycle": cycle, "operations": operations}
        cpu = {"client_cpu_us": 4.0 * operations, "server_cpu_us": 12_000.0 / speed * operations / 400}
        results.append({**row, "busy_us": 20_000.0, **cpu})
    return results
