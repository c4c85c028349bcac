"""Work and footprint of an operation: its counted instructions, and the cache misses simulated along with them."""

from functools import lru_cache

import polars as pl

from rqps.profile.costs import frame_name
from rqps.stats.comparison import relate
from rqps.stats.metrics import CPU, usable
from rqps.store.read import Study, load

_KEYS = ("host", "step", "dbms")
INSTRUCTIONS = "instructions"
_UNTIMED = pl.DataFrame(
    schema={
        **dict.fromkeys(("metric", *_KEYS, "base"), pl.String),
        **dict.fromkeys(("estimate", "low", "high"), pl.Float64),
    }
)
"""An empty frame with the columns that `work_and_cost` reads, for a study without ordinary rounds."""
FOOTPRINT = pl.Schema(
    {
        **dict.fromkeys((*_KEYS, "base", "event"), pl.String),
        "n": pl.UInt32,  # number of me's rounds with counted instructions
        "spread": pl.Float64,  # me's largest value / me's smallest value - 1, over the rounds
        **dict.fromkeys(("base_value", "me_value", "ratio"), pl.Float64),
    }
)


def footprint(study: Study, base: str = "") -> pl.DataFrame:
    """One row per host, step, dbms and `event`: the number of such events per operation in base and me, and their
    ratio. An event is an executed instruction, a miss of a first-level cache, or a miss of a simulated last-level
    cache of one size. Empty if the study does not simulate caches (`caches: true`). `base` defaults to the study's
    base."""
    events, base = _events(study, ()), base or study.card.base
    means = events.group_by(*_KEYS, "event", maintain_order=True).agg(
        n=pl.len(), spread=pl.col("value").max() / pl.col("value").min() - 1, me_value=pl.col("value").mean()
    )
    of_base = means.filter(dbms=base).select("host", "step", "event", base_value="me_value")
    paired = means.filter(pl.col("dbms") != base).join(of_base, on=["host", "step", "event"], maintain_order="left")
    ratio = pl.col("me_value") / pl.col("base_value")
    return paired.with_columns(ratio=ratio, base=pl.lit(base)).select(
        pl.col(name).cast(kind) for name, kind in FOOTPRINT.items()
    )


def by_function(study: Study, base: str = "") -> pl.DataFrame:
    """The events of `footprint`, divided by the `function` in which they occur: the number per operation in base
    and me (`base_value`, `me_value`), and the difference `added`, the largest first."""
    rows, base = _events(study, ("engine", "function")), base or study.card.base
    sums = rows.group_by(*_KEYS, "event", "function").agg(pl.col("value").sum())
    # Means are over all counted rounds of the step: a function that is missing from a round had no events in it.
    rounds = rows.group_by(*_KEYS, "event").agg(rounds=pl.col("round").n_unique())
    means = sums.join(rounds, on=[*_KEYS, "event"]).with_columns(pl.col("value") / pl.col("rounds"))
    cell = ["host", "step", "event", "function"]
    of_base = means.filter(dbms=base).select(*cell, base_value="value")
    of_me = means.filter(pl.col("dbms") != base).select(*cell, "dbms", me_value="value")
    dbms = of_me.select("host", "step", "dbms").unique()
    every = pl.concat([of_me.select(*cell, "dbms"), of_base.select(cell).join(dbms, on=["host", "step"])]).unique()
    both = every.join(of_base, on=cell, how="left").join(of_me, on=[*cell, "dbms"], how="left")
    added = pl.col("me_value") - pl.col("base_value")
    return (
        both.with_columns(pl.col("base_value", "me_value").fill_null(0.0), base=pl.lit(base))
        .with_columns(added=added)
        .select(*_KEYS, "base", "event", "function", "base_value", "me_value", "added")
        .sort(*_KEYS, "event", "added", "function", descending=[False] * 4 + [True, False])
    )


def work_and_cost(events: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step, base and dbms of a footprint, with three ratios of me to base: `cpu` (CPU time per
    operation, from `compared`) is `work` (instructions per operation) times `cost` (CPU time per instruction). `cpu`
    and `cost` are null if no ordinary rounds measured CPU."""
    cell = ["host", "step", "base", "dbms"]
    cpu = compared.filter(metric=CPU).select(*cell, cpu="estimate", low="low", high="high")
    work = events.filter(event=INSTRUCTIONS).select(*cell, work="ratio")
    both = work.join(cpu, on=cell, how="left", maintain_order="left")
    return both.select(*cell, "cpu", "low", "high", "work", cost=pl.col("cpu") / pl.col("work"))


def misses_per_1000(events: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step, base, dbms and event of a footprint: misses per 1000 instructions in base and in me."""
    cell = ["host", "step", "base", "dbms"]
    work = events.filter(event=INSTRUCTIONS).select(*cell, base_work="base_value", me_work="me_value")
    misses = events.filter(pl.col("event") != INSTRUCTIONS).join(work, on=cell, maintain_order="left")
    sides = {f"{side}_value": 1000 * pl.col(f"{side}_value") / pl.col(f"{side}_work") for side in ("base", "me")}
    return misses.select(*cell, "event", **sides).with_columns(ratio=pl.col("me_value") / pl.col("base_value"))


def split_of(study: Study) -> pl.DataFrame:
    """`work_and_cost` of a study. CPU time is taken from ordinary rounds, not from rounds under callgrind."""
    is_timed = study.card.rounds != 0 and study.card.base in set(study.runs["dbms"])
    return work_and_cost(footprint(study), relate(study)[1] if is_timed else _UNTIMED)


def density_of(study: Study) -> pl.DataFrame:
    """`misses_per_1000` of a study."""
    return misses_per_1000(footprint(study))


@lru_cache(maxsize=4)  # two pages and a report's first page use the result
def _events(study: Study, by: tuple[str, ...]) -> pl.DataFrame:
    """The number of events per operation: executed instructions, and cache misses by level. One row per event, step
    and run that simulated caches; with columns `by`, one row for each of their values."""
    counted = load(study.place, mode="instructions")
    misses = counted.cache_misses.collect()
    keys = ["run", *_KEYS, "round"]
    steps = usable(counted.steps).select("run", "step", "operations")
    work = counted.instructions.filter(pl.col("run").is_in(misses["run"].unique().implode())).collect()
    levels = misses.group_by("run").agg(pl.col("last_level_kb").first())
    frames = []
    for table, names in ((work, ["instructions"]), (misses, ["i1_misses", "d1_misses", "ll_misses"])):
        if by:
            table = _with_function(table)
        sums = table.group_by(*keys, *by, maintain_order=True).agg(pl.col(names).sum())
        frames.append(sums.unpivot(on=names, index=[*keys, *by], variable_name="event", value_name="value"))
    rows = pl.concat(frames).join(steps, on=["run", "step"], maintain_order="left").join(levels, on="run")
    return rows.with_columns(value=pl.col("value") / pl.col("operations"), event=_named())


def _with_function(rows: pl.DataFrame) -> pl.DataFrame:
    last = rows.with_columns(last=pl.col("frames").list.last())
    known = last.select("engine", "last").unique()
    names = [frame_name(engine, name, False) for engine, name in known.iter_rows()]
    return last.join(known.with_columns(function=pl.Series(names, dtype=pl.String)), on=["engine", "last"])


def _named() -> pl.Expr:
    """The readable name of an event; for misses of the last level it contains the size of the cache."""
    names = {"i1_misses": "misses of the instruction cache", "d1_misses": "misses of the data cache"}
    of_last = pl.format("misses of {} MB", pl.col("last_level_kb") // 1024)
    return pl.when(event="ll_misses").then(of_last).otherwise(pl.col("event").replace(names))
