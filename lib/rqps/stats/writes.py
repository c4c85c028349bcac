"""Written bytes by purpose, as the engine counts them, and the difference from the bytes that its process wrote."""

from collections.abc import Mapping

import polars as pl

from rqps.engines import PROCESS_BYTES, facts_of
from rqps.stats.metrics import usable
from rqps.stats.pairing import SHARES_SECONDS
from rqps.store.read import Study

REST, PROCESS, DEVICE = "not explained", "the process", "the device"
LEAST_KB = 0.01
"""Minimum KB per operation: the writes of a step with less are not broken down."""
_KEYS = ("host", "step", "dbms", "round")


def written(study: Study) -> pl.DataFrame:
    """One row per host, step, dbms, round and purpose: `kb` written per operation, and the purpose's `role`.

    A `part` is a purpose that the engine counts, the `whole` is the kernel's count for the engine's processes, and
    the `rest` is the whole minus the parts, which is negative if the parts exceed the whole. `device` is the amount
    that all processes wrote to the disk. It is read once a second, so it has no row if servers take turns within a
    second.
    """
    steps = usable(study.steps).filter("writes", pl.col("server_write_kb").is_not_null())
    per_operation = pl.col("server_write_kb", "host_write_kb") / pl.col("operations")
    steps = steps.with_columns(per_operation).filter(pl.col("server_write_kb") >= LEAST_KB)
    # The readings of the counters include the warm-up, whose operations are not counted.
    warmed = 1 + pl.col("warmup_s").fill_null(0) / pl.col("elapsed_s")
    steps = steps.with_columns(
        operations=pl.col("operations") * warmed, host_write_kb=pl.when(~SHARES_SECONDS).then("host_write_kb")
    )
    parts = _parts(study, steps)
    seen = parts.filter(purpose=PROCESS_BYTES).select("run", "step", seen="kb")
    steps = steps.join(seen, on=["run", "step"], how="left", maintain_order="left")
    steps = steps.with_columns(pl.coalesce("seen", "server_write_kb").alias("server_write_kb"))
    parts = parts.filter(pl.col("purpose") != PROCESS_BYTES)
    explained = parts.group_by("run", "step").agg(pl.col("kb").sum())
    of_process = steps.select("run", *_KEYS, "position", process="server_write_kb", device="host_write_kb")
    both = of_process.join(explained, on=["run", "step"], how="inner")
    others = [
        both.with_columns(kb=pl.col("process") - pl.col("kb"), purpose=pl.lit(REST), role=pl.lit("rest")),
        both.with_columns(kb="process", purpose=pl.lit(PROCESS), role=pl.lit("whole")),
        both.with_columns(kb="device", purpose=pl.lit(DEVICE), role=pl.lit("device")).drop_nulls("kb"),
    ]
    columns = (*_KEYS, "position", "purpose", "role", "kb")
    of_engine = parts.join(of_process, on=["run", "step"]).with_columns(role=pl.lit("part"))
    return (
        pl.concat([of_engine.select(columns), *(other.select(columns) for other in others)])
        .with_row_index("order")
        .sort("host", "position", "dbms", "round", "order")
        .drop("order", "position")
    )


def counted(study: Study) -> bool:
    """True if the study's engine counts its writes by purpose, and writes in some step."""
    steps = usable(study.steps).filter("writes", pl.col("server_write_kb") > LEAST_KB * pl.col("operations"))
    return not steps.is_empty() and not _parts(study, steps.tail(1)).is_empty()


def by_purpose(study: Study) -> pl.DataFrame:
    """One row per host, step, dbms and purpose: `kb` per operation, the mean of the `rounds`; its `share` of the
    amount that the process wrote; and `base_kb`, the base's `kb`."""
    keys = ["host", "step", "dbms", "purpose", "role"]
    means = written(study).group_by(keys, maintain_order=True).agg(pl.col("kb").mean(), rounds=pl.len())
    of_process = means.filter(role="whole").select("host", "step", "dbms", process="kb")
    of_base = means.filter(dbms=study.card.base).select("host", "step", "purpose", base_kb="kb")
    both = means.join(of_process, on=["host", "step", "dbms"], how="left", maintain_order="left")
    both = both.with_columns(share=pl.col("kb") / pl.col("process")).drop("process")
    return both.join(of_base, on=["host", "step", "purpose"], how="left", maintain_order="left")


def _parts(study: Study, steps: pl.DataFrame) -> pl.DataFrame:
    """KB per operation of each run, step and purpose."""
    value = pl.col("value").cast(pl.Float64, strict=False)
    moments = study.status.select("run", "step", "moment", "name", value=value).drop_nulls()
    moments = moments.join(steps.lazy().select("run", "step"), on=["run", "step"], how="semi")
    engines = {
        (run, step): (engine, operations)
        for run, step, engine, operations in steps.select("run", "step", "engine", "operations").iter_rows()
    }
    schema = {"run": pl.String, "step": pl.String, "purpose": pl.String, "kb": pl.Float64}
    rows = []
    for (run, step), status in moments.collect().group_by("run", "step", maintain_order=True):
        at = {name: dict(of.select("name", "value").iter_rows()) for (name,), of in status.group_by("moment")}
        engine, operations = engines[run, step]
        for purpose, kb in growth(engine, at.get("before", {}), at.get("after", {})).items():
            rows.append({"run": run, "step": step, "purpose": purpose, "kb": kb / operations})
    return pl.DataFrame(rows, schema=schema)


def growth(engine: str, before: Mapping[str, float], after: Mapping[str, float]) -> Mapping[str, float]:
    """Maps each purpose to the KB that an engine wrote for it between two readings of its status; includes the
    kernel's count for its processes, if the status has it. A counter that fell, because it wrapped or was reset, is
    left out, as if this release did not have it. A counter that is only in the second reading counts from 0."""
    grew = {name: value - before.get(name, 0) for name, value in after.items() if value >= before.get(name, 0)}
    parts = facts_of(engine).written(grew, after)
    seen = {PROCESS_BYTES: grew[PROCESS_BYTES] / 1024} if parts and PROCESS_BYTES in grew else {}
    return {**parts, **seen}
