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
    results = {}
    for step in steps:
        results[step] = {"kind": step, "range": None, "group": "Other steps", "writes": False, "storage_engine": None}
        results[step]["kind_after_writes"] = None
        with suppress(ValueError):
            results[step] |= known(step)
    order = _in_tables(results) if workload == "sysbench" else list(results)
    return {step: {**columns, "table_position": order.index(step)} for step, columns in results.items()}


def _sysbench(step: str) -> dict[str, Any]:
    step_found = sysbench.find(step.partition("@")[0])
    return {
        "kind": step_found.kind,
        "kind_after_writes": step_found.kind_after_writes,
        "range": step_found.range_size,
        "group": step_found.group,
        "writes": step_found.writes,
    }


def _in_tables(steps: dict[str, dict[str, Any]]) -> list[str]:
    names = {step.partition("@")[0] for step, columns in steps.items() if columns["range"] is not None}
    known = sysbench.in_tables(names)

    def place(step: str) -> tuple[int, int]:
        name, _, clients = step.partition("@")
        return (known.index(name), int(clients or 0)) if name in known else (len(known), 0)

    return sorted(steps, key=place)


def _point_lookup(step: str) -> dict[str, Any]:
    step_found = lookups.find(step)
    return {"kind": step_found.kind.name, "group": step_found.group, "storage_engine": step_found.engine}


def _insert(step: str) -> dict[str, Any]:
    step_found = inserts.find(step, "current")
    return {"kind": step_found.kind, "group": step_found.group, "writes": True}
