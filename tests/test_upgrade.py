"""Rows of version 1 are read, and packed, with every column of today."""

from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.store import write_manifest, write_study_card
from rqps.store.schemas import STEPS
from rqps.store.upgrade import step_columns
from rqps.workloads.insert_benchmark import steps as inserts
from rqps.workloads.point_lookups import steps as lookups
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find
from synthetic import Shape, card, manifest, tables

COLUMNS = ("kind", "range", "group", "table_position", "writes", "storage_engine")
AGGREGATED = "Range queries with aggregation"


@pytest.mark.parametrize(
    ("workload", "before", "step", "expected"),
    [
        ("sysbench", ["insert", "point-query"], "update-index", ("update-index", 100, "Writes", 1, True, None)),
        ("sysbench", ["insert", "scan"], "point-query", ("point-query", 100, "Point queries", 0, False, None)),
        ("sysbench", ["read-only"], "read-only.pre_range=10", ("read-only.pre", 10, AGGREGATED, 0, False, None)),
        ("sysbench", ["read-write@4"], "read-write@16", ("read-write", 100, "Writes", 1, True, None)),
        ("point-lookups", ["innodb.pk@4"], "memory.pk@4", ("pk", None, "memory, 4 clients", 1, False, "memory")),
        ("insert-benchmark", ["l.i0"], "qr500", ("qr", None, "Queries beside writes", 1, True, None)),
        ("insert-benchmark", ["l.i0"], "l.i1", ("l.i1", None, "Writes", 1, True, None)),
    ],
)
def test_columns_follow_from_labels(
    workload: str, before: list[str], step: str, expected: tuple[object, ...]
) -> None:
    found = step_columns(workload, [*before, step])[step]
    assert tuple(found[name] for name in COLUMNS) == expected


def test_what_follows_from_a_label_is_what_the_workload_writes_now() -> None:
    asked = SysbenchParameters()
    upgraded = step_columns("sysbench", asked.measured)
    for name in asked.measured:
        step, found = find(name), upgraded[name]
        assert (found["kind"], found["range"], found["group"]) == (step.kind, step.range_size, step.group)
        assert found["writes"] == step.writes
        assert found["table_position"] == asked.in_tables.index(name)
    for form in ("current", "2023", "2021"):
        names = inserts.names(form, [100, 500])
        for position, (name, found) in enumerate(step_columns("insert-benchmark", names).items()):
            step_of_form = inserts.find(name, form)
            assert (found["kind"], found["group"]) == (step_of_form.kind, step_of_form.group)
            assert found["table_position"] == position
    for name, found in step_columns("point-lookups", PointLookupsParameters().steps).items():
        lookup = lookups.find(name)
        wanted = (lookup.kind.name, lookup.engine, lookup.group)
        assert (found["kind"], found["storage_engine"], found["group"]) == wanted


def test_several_numbers_of_clients_stand_together_in_tables() -> None:
    asked = SysbenchParameters(steps=("insert", "scan"), threads=(8, 1))
    assert sorted(
        asked.sweep, key=lambda name: step_columns("sysbench", asked.sweep)[name]["table_position"]
    ) == list(asked.in_tables)


def test_a_step_that_no_workload_has_is_kept_behind_the_others() -> None:
    found = step_columns("sysbench", ["long-gone", "insert"])
    assert (found["long-gone"]["group"], found["long-gone"]["table_position"]) == ("Other steps", 1)


def test_errors_of_before_retries_were_counted_are_retries(tmp_path: Path) -> None:
    facts, folder = manifest("my1.base", 1, schema_version=1), tmp_path / "raw/study=synthetic"
    rows = [row | {"errors": 7} for row in tables(facts, Shape())["steps"]]
    later = [*COLUMNS, "retries", "server_instructions", "server_cycles"]
    old = pl.DataFrame(rows, schema=STEPS).drop(later).rename({"clients": "threads"})
    run = folder / f"run={facts.run}"
    run.mkdir(parents=True)
    old.write_parquet(run / "steps.parquet", metadata={"rqps_schema_version": "1"})
    write_study_card(folder, card())
    write_manifest(run, facts)
    steps = rqps.load("synthetic", data=tmp_path).steps
    assert steps.columns[7:] == list(STEPS)
    assert steps.select("errors", "retries", "clients", "server_cycles").unique().rows() == [(0, 7, 1, None)]
