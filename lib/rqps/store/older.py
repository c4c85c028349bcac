"""Brings older studies up to date while they are read; no other module knows their formats."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

ENGINE_OF = {"db-bench": "rocksdb"}
"""The engine of a workload, for manifests up to version 3, which have no engine. All other workloads ran on MySQL."""


def facts_up_to_date(facts: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    """The facts of a manifest in the format of the current `version`."""
    if facts.get("schema_version") not in range(2, version):
        return facts
    older: dict[str, Any] = {"schema_version": version}
    if facts["schema_version"] < 4:
        older["engine"] = ENGINE_OF.get(str(facts.get("workload")), "mysql")
    if facts["schema_version"] == 2:
        unit, _, side = str(facts.get("run")).partition("/")
        older |= {"unit": unit, "side": side or None, "twin": bool(side) and side != facts.get("dbms")}
    return {"occasion": 1, **facts, **older}


def columns_up_to_date(table: str) -> dict[str, "pl.Expr"]:
    """Expressions that convert columns of a table from older formats; rows in the current format stay unchanged.

    Up to version 6, the name of a counter in `status` included its object: a latch, as in `latch.os_waits.LATCH`, a
    kind of file, an instrument or an LSM level. For a step before the first write, `kind_after_writes` was missing;
    only the step's kind, such as `read-only.pre`, showed that nothing had been written yet.
    """
    import polars as pl  # imported late: it takes long, and manifests are read without it

    if table == "steps":
        before, kind = pl.col("kind").str.ends_with(".pre"), pl.col("kind").str.strip_suffix(".pre")
        return {"kind_after_writes": pl.when(before).then(kind).otherwise("kind_after_writes")}
    if table != "status":
        return {}
    name = pl.col("name")
    of_latch, of_file = name.str.starts_with("latch."), name.str.starts_with("file_bytes_written.")
    of_level = name.str.contains(r"^level\d+_(files|kb)$")
    of_event = name.str.starts_with("perf_schema/") & (name != "perf_schema/memory_bytes")
    return {
        "name": pl.when(of_latch)
        .then(name.str.extract(r"^latch\.(\w+)"))
        .when(of_file)
        .then(pl.lit("file_bytes_written"))
        .when(of_event)
        .then(pl.lit("events"))
        .when(of_level)
        .then(name.str.replace(r"\d+", ""))
        .otherwise(name),
        "object": pl.when(of_latch)
        .then(name.str.replace(r"^latch\.\w+\.", ""))
        .when(of_file)
        .then(name.str.strip_prefix("file_bytes_written."))
        .when(of_event)
        .then(name.str.strip_prefix("perf_schema/"))
        .when(of_level)
        .then(name.str.extract(r"(\d+)"))
        .otherwise("object"),
    }
