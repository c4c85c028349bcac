"""Work and footprint of an operation: its counted instructions, and the cache misses simulated beside them."""

import polars as pl

from rqps.profile.costs import frame_name
from rqps.stats.comparison import relate
from rqps.stats.metrics import CPU, usable
from rqps.store.read import Study, load

_KEYS = ("host", "step", "dbms")
INSTRUCTIONS = "instructions"
FOOTPRINT = pl.Schema(
    {
        **dict.fromkeys((*_KEYS, "base", "event"), pl.String),
        "n": pl.UInt32,  # of me: counted rounds
        "spread": pl.Float64,  # of me: the largest round beside the smallest, less 1
        **dict.fromkeys(("base_value", "me_value", "ratio"), pl.Float64),
    }
)


def footprint(study: Study) -> pl.DataFrame:
    """One row per host, step, dbms and event of an operation: instructions, misses of the first-level caches, and of
    each last level that was simulated. Empty for a study without `caches`."""
    events = _events(study, []).with_columns(event=_named())
    base = study.card.base
    means = events.group_by(*_KEYS, "event", maintain_order=True).agg(
        n=pl.len(), spread=pl.col("value").max() / pl.col("value").min() - 1, me_value=pl.col("value").mean()
    )
    of_base = means.filter(dbms=base).select("host", "step", "event", base_value="me_value")
    paired = means.filter(pl.col("dbms") != base).join(of_base, on=["host", "step", "event"], maintain_order="left")
    ratio = pl.col("me_value") / pl.col("base_value")
    return paired.with_columns(ratio=ratio, base=pl.lit(base)).select(
        pl.col(name).cast(kind) for name, kind in FOOTPRINT.items()
    )


def by_function(study: Study) -> pl.DataFrame:
    """The same events by the `function` that has them: `base_value, me_value` and how much was `added`, the most
    first."""
    rows = _events(study, ["engine", "function"]).with_columns(event=_named())
    rounds = rows.group_by(*_KEYS, "event").agg(rounds=pl.col("round").n_unique())
    means = (
        rows.group_by(*_KEYS, "event", "function")
        .agg(pl.col("value").sum())
        .join(rounds, on=[*_KEYS, "event"])
        .select(*_KEYS, "event", "function", value=pl.col("value") / pl.col("rounds"))
    )
    of_base = means.filter(dbms=study.card.base).drop("dbms")
    others = means.filter(pl.col("dbms") != study.card.base).select(_KEYS).unique()
    both = (
        others.join(
            pl.concat(
                [
                    of_base.select("host", "step", "event", "function"),
                    means.select("host", "step", "event", "function"),
                ]
            ).unique(),
            on=["host", "step"],
        )
        .join(of_base.rename({"value": "base_value"}), on=["host", "step", "event", "function"], how="left")
        .join(means.rename({"value": "me_value"}), on=[*_KEYS, "event", "function"], how="left")
        .with_columns(pl.col("base_value", "me_value").fill_null(0.0))
    )
    return both.with_columns(added=pl.col("me_value") - pl.col("base_value")).sort(
        *_KEYS, "event", "added", "function", descending=[False] * 4 + [True, False]
    )


def work_and_cost(study: Study) -> pl.DataFrame:
    """One row per host, step and dbms: the ratio of `cpu`, split into `work` (instructions) and the `cost` of an
    instruction, beside misses per 1000 instructions on both sides."""
    events = footprint(study)
    work = events.filter(event=INSTRUCTIONS).select(*_KEYS, work="ratio", base_work="base_value", me_work="me_value")
    compared = relate(study)[1].filter(pl.lit(study.card.rounds != 0), metric=CPU)  # or CPU is that of callgrind
    cpu = compared.select(*_KEYS, cpu="estimate", low="low", high="high")
    misses = events.filter(pl.col("event") != INSTRUCTIONS).join(work, on=_KEYS)
    per_1000 = misses.select(
        *_KEYS,
        "event",
        base=1000 * pl.col("base_value") / pl.col("base_work"),
        me=1000 * pl.col("me_value") / pl.col("me_work"),
    )
    split = work.join(cpu, on=_KEYS, how="left", maintain_order="left").with_columns(
        cost=pl.col("cpu") / pl.col("work")
    )
    return split.select(*_KEYS, "cpu", "low", "high", "work", "cost").join(
        per_1000.group_by(_KEYS).agg(misses_per_1000=pl.struct("event", "base", "me")),
        on=_KEYS,
        maintain_order="left",
    )


def _events(study: Study, by: list[str]) -> pl.DataFrame:
    """Events per operation of each counted round that has misses, by function where that is asked for."""
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
    return rows.with_columns(value=pl.col("value") / pl.col("operations"))


def _with_function(rows: pl.DataFrame) -> pl.DataFrame:
    last = rows.with_columns(last=pl.col("frames").list.last())
    known = last.select("engine", "last").unique()
    names = [frame_name(engine, name, False) for engine, name in known.iter_rows()]
    return last.join(known.with_columns(function=pl.Series(names, dtype=pl.String)), on=["engine", "last"])


def _named() -> pl.Expr:
    """The name of an event for people; of the last level with its size."""
    names = {"i1_misses": "misses of the instruction cache", "d1_misses": "misses of the data cache"}
    of_last = pl.format("misses of {} MB", pl.col("last_level_kb") // 1024)
    return pl.when(event="ll_misses").then(of_last).otherwise(pl.col("event").replace(names))
