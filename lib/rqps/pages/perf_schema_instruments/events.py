"""What the performance schema recorded of each step, and what it took for itself."""

import polars as pl

from rqps.store.flat import IDENTITY
from rqps.study.perf_schema import class_of

_EVENTS = "perf_schema/"
_MEMORY = "perf_schema/memory_bytes"
_STATEMENTS = "questions"


def events_per_statement(status: pl.LazyFrame, named: pl.DataFrame) -> pl.DataFrame:
    """One row a step, dbms and instrument: the median of the rounds' events for each statement of the load."""
    keys = [*IDENTITY, "step", "name"]
    wanted = (pl.col("name").str.starts_with(_EVENTS) & (pl.col("name") != _MEMORY)) | (pl.col("name") == _STATEMENTS)
    grown = (
        status.filter(wanted)
        .with_columns(pl.col("value").cast(pl.Int64))
        .group_by(keys, maintain_order=True)
        .agg(pl.col("value").filter(moment="after").sum() - pl.col("value").filter(moment="before").sum())
        .collect()
    )
    statements = grown.filter(name=_STATEMENTS).select(*IDENTITY, "step", statements="value")
    each = grown.filter(pl.col("name") != _STATEMENTS).join(statements, on=[*IDENTITY, "step"])
    per = each.filter(pl.col("value") > 0).with_columns(
        pl.col("name").str.strip_prefix(_EVENTS).alias("instrument"),
        (pl.col("value") / pl.col("statements")).alias("per_statement"),
    )
    return (
        per.group_by("host", "step", "dbms", "instrument", maintain_order=True)
        .agg(pl.col("per_statement").median())
        .with_columns(pl.col("instrument").map_elements(_kind, pl.String).alias("kind"))
        .join(named.select("dbms", "scenario"), on="dbms", maintain_order="left")
        .sort("host", "step", "dbms", "per_statement", descending=[False, False, False, True])
    )


def _kind(instrument: str) -> str:
    return class_of(instrument) or instrument


def event_costs(events: pl.DataFrame, costs: pl.DataFrame) -> pl.DataFrame:
    """One row a step and scenario: events for each statement, and the nanoseconds of CPU that one of them adds.

    Only where an operation is a statement; a scenario whose cost the rounds can't tell from nothing has no such time.
    """
    keys = ["host", "step", "dbms"]
    counted = events.group_by(keys, maintain_order=True).agg(
        pl.col("per_statement").sum(),
        pl.col("kind").unique(maintain_order=True).str.join(", ").alias("kinds"),
    )
    sure = pl.col("added_low_us") > 0
    each_ns = pl.col("added_us") * 1e3 / pl.col("per_statement")
    return (
        costs.join(counted, on=keys, maintain_order="left")
        .with_columns(each_ns=pl.when(sure).then(each_ns))
        .select(*_EVENT_COSTS)
        .sort("position", "build", "per_statement", descending=[False, False, True], maintain_order=True)
    )


_OF_A_SCENARIO = ("host", "step", "position", "build", "scenario", "against")
_EVENT_COSTS = (*_OF_A_SCENARIO, "kinds", "per_statement", "added_us", "each_ns", "n")


def timers(settings: pl.LazyFrame) -> pl.DataFrame:
    """The clocks of each build, a row each: how often one ticks in a second, and the cycles that it takes to read it;
    of a version that can choose, also what it uses it for."""
    told = (
        settings.filter(kind="timer")
        .group_by("host", "build", "name", maintain_order=True)
        .agg(pl.col("value").unique(maintain_order=True))
        .collect()
        .with_columns(_reach(pl.col("value")).alias("value"))
    )
    clock, fact = pl.col("name").str.extract(r"^(\S+) "), pl.col("name").str.extract(r" (\S+)$")
    facts = told.filter(clock.is_not_null()).with_columns(clock.alias("clock"), fact.alias("fact"))
    used = told.filter(clock.is_null()).group_by("host", "build", clock="value").agg(pl.col("name").str.join(", "))
    if facts.is_empty():
        return pl.DataFrame(schema=_CLOCK)
    wide = facts.pivot("fact", index=["host", "build", "clock"], values="value", maintain_order=True)
    return (
        pl.concat([pl.DataFrame(schema=_CLOCK), wide], how="diagonal")
        .drop("used_for")
        .join(used.rename({"name": "used_for"}), on=["host", "build", "clock"], how="left", maintain_order="left")
        .select(*_CLOCK)
        .sort("host", "build", maintain_order=True)
    )


_CLOCK = dict.fromkeys(("host", "build", "clock", "frequency", "overhead", "used_for"), pl.String)


def _reach(values: pl.Expr) -> pl.Expr:
    """One value, or the lowest and the highest of several numbers."""
    number = values.list.eval(pl.element().cast(pl.Int64, strict=False))
    reach = pl.format("{} to {}", number.list.min(), number.list.max())
    return pl.when(values.list.len() == 1).then(values.list.first()).otherwise(reach)


def memory_use(status: pl.LazyFrame, counters: pl.LazyFrame, named: pl.DataFrame) -> pl.DataFrame:
    """One row a dbms: megabytes that its performance schema allocated, and that the whole server had in memory."""
    keys = ["host", "dbms"]
    own = (
        status.filter(pl.col("name") == _MEMORY)
        .group_by(*keys, "run")
        .agg(pl.col("value").cast(pl.Int64).max())
        .group_by(keys)
        .agg((pl.col("value").median() / 1e6).alias("perf_schema_mb"))
        .collect()
    )
    resident = (
        counters.group_by(*keys, "run")
        .agg(pl.col("server_rss_kb").max())
        .group_by(keys)
        .agg((pl.col("server_rss_kb").median() * 1024 / 1e6).alias("server_mb"))
        .collect()
    )
    return own.join(resident, on=keys, how="left").join(named, on="dbms").sort("host", "version", "scenario")
