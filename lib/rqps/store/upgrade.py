"""Rows of version 1 as version 2 has them.

A step of version 1 has its name only; of the three workloads that there were then, its kind, range, clients and group
follow from that. Nothing is added here for a later workload: its rows have these columns from the beginning.
"""

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from rqps.store.schemas import TABLES

LATER_TABLES = ("plans", "threads", "clients", "engine")
"""Tables that came into being while the version was 1: a run of that version may be without their files."""

_LATER_COLUMNS = {"steps": ("server_instructions", "server_cycles")}
_STEP_COLUMNS = ("kind", "range", "group", "writes", "storage_engine", "table_position")
_GROUPS = {
    "Point queries": "point-query hot-points random-points points-covered-pk points-covered-si points-notcovered-pk "
    "points-notcovered-si",
    "Range queries without aggregation": "range-covered-pk range-covered-si range-notcovered-pk range-notcovered-si "
    "scan",
    "Range queries with aggregation": "read-only read-only-simple read-only-sum read-only-order read-only-distinct "
    "read-only-count",
    "Writes": "update-one update-zipf update-nonindex update-index update-inlist delete insert write-only read-write",
}
_GROUP_OF = {kind: group for group, kinds in _GROUPS.items() for kind in kinds.split()}
_USUAL_RANGE = {"write-only": 10_000} | {
    f"read-only-{what}": 1000 for what in ("simple", "sum", "order", "distinct", "count")
}
_SYSBENCH = re.compile(r"(?P<kind>[a-z]+(?:-[a-z]+)*)(?P<pre>\.pre)?(?:_range=(?P<range>\d+))?(?:@(?P<clients>\d+))?")
_POINT_LOOKUP = re.compile(r"(?P<engine>[^.@]+)\.(?P<kind>[^@]+)@(?P<clients>\d+)")
_INSERT = re.compile(r"(?P<kind>l\.\w+|q[rp]?)(?:\d+(?:\.\d)?)?")


def upgraded(name: str, rows: pl.LazyFrame, workload: str) -> pl.LazyFrame:
    """The rows of one table of version 1, with every column of today.

    Errors of before `retries` was counted are transactions that were done again, which is no failure.
    """
    columns = rows.collect_schema().names()
    if "retries" in TABLES[name] and "retries" not in columns:
        rows = rows.with_columns(retries="errors", errors=pl.lit(0, pl.Int64))
    later = [column for column in _LATER_COLUMNS.get(name, ()) if column not in columns]
    rows = rows.with_columns(pl.lit(None, TABLES[name][column]).alias(column) for column in later)
    if name != "steps":
        return rows
    rows = rows.rename({"threads": "clients"})

    def described(steps: pl.DataFrame) -> pl.DataFrame:
        names = steps.sort("position", maintain_order=True)["step"].unique(maintain_order=True)
        found = [{"step": step, **columns} for step, columns in step_columns(workload, names).items()]
        more = pl.DataFrame(found, schema_overrides=TABLES["steps"], infer_schema_length=None)
        return steps.join(more, on="step", how="left", maintain_order="left")

    return rows.map_batches(
        described,
        schema=pl.Schema({**rows.collect_schema(), **{name: TABLES["steps"][name] for name in _STEP_COLUMNS}}),
        predicate_pushdown=False,
        projection_pushdown=False,
    )


def step_columns(workload: str, steps: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The columns that follow from the name of each step; the steps are in the order in which they were run.

    >>> step_columns("sysbench", ["update-index", "read-only.pre_range=10"])["update-index"]
    ... # doctest: +NORMALIZE_WHITESPACE
    {'kind': 'update-index', 'range': 100, 'group': 'Writes', 'writes': True, 'storage_engine': None,
     'table_position': 1}
    """
    known = {"sysbench": _sysbench, "point-lookups": _point_lookup, "insert-benchmark": _insert}
    found = {step: known.get(workload, _other)(step) for step in steps}
    in_tables = sorted(found, key=lambda step: _place(step, found[step])) if workload == "sysbench" else list(found)
    return {step: {**found[step], "table_position": in_tables.index(step)} for step in found}


def _place(step: str, columns: dict[str, Any]) -> tuple[int, int, bool, int]:
    """The order of tables: by group and kind, then by range, steps before all writes first, then by clients."""
    kinds, kind = list(_GROUP_OF), columns["kind"].removesuffix(".pre")
    if kind not in kinds:
        return len(kinds), 0, False, 0
    return kinds.index(kind), columns["range"], kind == columns["kind"], int(step.partition("@")[2] or 0)


def _sysbench(step: str) -> dict[str, Any]:
    found = _SYSBENCH.fullmatch(step)
    if not found or (kind := found["kind"]) not in _GROUP_OF:
        return _other(step)
    group, size = _GROUP_OF[kind], int(found["range"] or _USUAL_RANGE.get(kind, 100))
    columns = {"kind": kind + (found["pre"] or ""), "range": size, "group": group, "writes": group == "Writes"}
    return _other(step) | columns


def _point_lookup(step: str) -> dict[str, Any]:
    found = _POINT_LOOKUP.fullmatch(step)
    if not found:
        return _other(step)
    clients = f"{found['clients']} client{'' if found['clients'] == '1' else 's'}"
    group = f"{found['engine']}, {clients}"
    return _other(step) | {"kind": found["kind"], "group": group, "storage_engine": found["engine"]}


def _insert(step: str) -> dict[str, Any]:
    found = _INSERT.fullmatch(step)
    kind = found["kind"] if found else step
    group = "Queries beside writes" if kind.startswith("q") else "Writes"
    return _other(step) | {"kind": kind, "group": group, "writes": True}


def _other(step: str) -> dict[str, Any]:
    return {"kind": step, "range": None, "group": "Other steps", "writes": False, "storage_engine": None}
