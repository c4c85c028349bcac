"""Memory that the performance schema takes, and the clocks that it reads."""

import polars as pl

from rqps.stats.perf_schema import MEMORY


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
        status.filter(pl.col("name") == MEMORY)
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
