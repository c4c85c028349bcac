"""Bytes written for each purpose, as the engine counts them, and the remaining bytes that its process wrote; also
bytes read, syncs and flushed pages."""

import re
from collections.abc import Mapping, Sequence

import polars as pl

from rqps.engines import PROCESS_BYTES, CountOf, Counts, facts_of
from rqps.stats.metrics import usable
from rqps.stats.pairing import SHARES_SECONDS
from rqps.store.read import Study

REST, PROCESS, DEVICE = "not explained", "the process", "the device"
LEAST_KB = 0.01
"""Minimum KB per operation: the writes of a step with less are not broken down."""
_KEYS = ("host", "step", "dbms", "round")
_QUANTITIES = {
    "KB read per operation": ("read", "operations"),
    "syncs per transaction": ("syncs", "transactions"),
    "pages per operation": ("pages", "operations"),
}
"""Maps each quantity to two names: the field of `Facts` that holds the engine's function for it, which returns one
amount for each purpose; and the column of `steps` by which the amounts are divided."""


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
    steps = steps.with_columns(_warmed("operations"), host_write_kb=pl.when(~SHARES_SECONDS).then("host_write_kb"))
    amounts = _amounts(study, steps, ["written"])
    parts = amounts.join(steps.select("run", "step", "operations"), on=["run", "step"], maintain_order="left")
    parts = parts.select("run", "step", "purpose", kb=pl.col("amount") / pl.col("operations"))
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
    return not steps.is_empty() and not _amounts(study, steps.tail(1), ["written"]).is_empty()


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


def other_io(study: Study) -> pl.DataFrame:
    """One row per host, step, dbms, quantity and purpose: the `amount`, the mean of the `rounds`. The quantities are
    KB read and pages flushed or made dirty, both per operation, and syncs per transaction. A quantity that an engine
    or a release does not count has no rows."""
    steps = usable(study.steps).with_columns(_warmed("operations", "transactions"))
    amounts = _amounts(study, steps, [kind for kind, _ in _QUANTITIES.values()])
    known = steps.select("run", *_KEYS, "position", "operations", "transactions")
    both = amounts.join(known, on=["run", "step"], maintain_order="left")
    quantities = [
        both.filter(kind=kind).with_columns(quantity=pl.lit(name), amount=pl.col("amount") / pl.col(divisor))
        for name, (kind, divisor) in _QUANTITIES.items()
    ]
    keys = ["host", "position", "step", "dbms", "quantity", "purpose"]
    known_amounts = pl.concat(quantities).filter(pl.col("amount").is_finite())
    means = known_amounts.group_by(keys, maintain_order=True).agg(pl.col("amount").mean(), rounds=pl.len())
    return means.sort("host", "position", "quantity", maintain_order=True).drop("position")


def _warmed(*columns: str) -> pl.Expr:
    """Counts of a step, scaled up to cover its warm-up, which is assumed to have the step's rate: the engine's
    counters are first read before the warm-up, but the load generator does not record the operations of the
    warm-up."""
    return pl.col(columns) * (1 + pl.col("warmup_s").fill_null(0) / pl.col("elapsed_s"))


def _amounts(study: Study, steps: pl.DataFrame, kinds: Sequence[str]) -> pl.DataFrame:
    """The amount of each run, step, kind and purpose. The kinds are names of fields of an engine's facts: `written`,
    `read`, `syncs` and `pages`."""
    value = pl.col("value").cast(pl.Float64, strict=False)
    status = study.status.filter(pl.col("run").is_in(steps["run"].unique().implode()))
    moments = status.select("run", "step", "moment", "name", "object", value=value).drop_nulls("value")
    moments = moments.join(steps.lazy().select("run", "step"), on=["run", "step"], how="semi")
    engines = {(run, step): engine for run, step, engine in steps.select("run", "step", "engine").iter_rows()}
    texts = dict.fromkeys(("run", "step", "kind", "purpose"), pl.String)
    counts: dict[tuple[str, str], dict[str, dict[str | CountOf, float]]] = {}
    for run, step, moment, name, of, count in moments.collect().iter_rows():
        at = counts.setdefault((run, step), {}).setdefault(moment, {})
        at[name if of is None else CountOf(name, of)] = count
    rows = []
    for (run, step), of_moment in counts.items():
        readings = (engines[run, step], of_moment.get("before", {}), of_moment.get("after", {}))
        for kind in kinds:
            for purpose, amount in growth(*readings, kind).items():
                rows.append({"run": run, "step": step, "kind": kind, "purpose": purpose, "amount": amount})
    return pl.DataFrame(rows, schema={**texts, "amount": pl.Float64})


def growth(engine: str, before: Counts, after: Counts, kind: str = "written") -> Mapping[str, float]:
    """Maps each purpose to the KB that an engine wrote for it between two readings of its status, or to the amount
    of another `kind`. For `written`, the result also has the kernel's count for the engine's processes, if the status
    has it. A counter that fell, because it wrapped or was reset, is left out, as if this release did not have it; a
    gauge may fall. A counter that is only in the second reading counts from 0."""
    facts = facts_of(engine)
    grew = {
        name: value - before.get(name, 0)
        for name, value in after.items()
        if value >= before.get(name, 0) or (isinstance(name, str) and re.fullmatch(facts.counters.gauges, name))
    }
    parts: Mapping[str, float] = getattr(facts, kind)(grew, after)
    if kind != "written" or not parts or PROCESS_BYTES not in grew:
        return parts
    return {**parts, PROCESS_BYTES: grew[PROCESS_BYTES] / 1024}
