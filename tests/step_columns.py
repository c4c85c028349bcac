"""Columns of a step that follow from its name, for made-up runs: as its workload writes them."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rqps.workloads.insert_benchmark import steps as inserts
from rqps.workloads.point_lookups import steps as lookups
from rqps.workloads.sysbench import steps as sysbench


def step_columns(workload: str, steps: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The columns of each step; a step that no workload has stands behind the others of sysbench."""
    known = {"sysbench": _sysbench, "point-lookups": _point_lookup, "insert-benchmark": _insert}[workload]
    found = {}
    for step in steps:
        found[step] = {"kind": step, "range": None, "group": "Other steps", "writes": False, "storage_engine": None}
        with suppress(ValueError):
            found[step] |= known(step)
    order = _in_tables(found) if workload == "sysbench" else list(found)
    return {step: {**columns, "table_position": order.index(step)} for step, columns in found.items()}


def _sysbench(step: str) -> dict[str, Any]:
    found = sysbench.find(step.partition("@")[0])
    return {"kind": found.kind, "range": found.range_size, "group": found.group, "writes": found.writes}


def _in_tables(steps: dict[str, dict[str, Any]]) -> list[str]:
    names = {step.partition("@")[0] for step, columns in steps.items() if columns["range"] is not None}
    known = sysbench.in_tables(names)

    def place(step: str) -> tuple[int, int]:
        name, _, clients = step.partition("@")
        return (known.index(name), int(clients or 0)) if name in known else (len(known), 0)

    return sorted(steps, key=place)


def _point_lookup(step: str) -> dict[str, Any]:
    found = lookups.find(step)
    return {"kind": found.kind.name, "group": found.group, "storage_engine": found.engine}


def _insert(step: str) -> dict[str, Any]:
    found = inserts.find(step, "current")
    return {"kind": found.kind, "group": found.group, "writes": True}
