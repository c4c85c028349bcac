"""Pairs the values of me and base by round. Only runs that differ solely in the dbms form a ratio."""

from collections.abc import Sequence

import polars as pl

from rqps.errors import RqpsError
from rqps.study import SMALLEST_EFFECT

SHARES_SECONDS = pl.col("host_cpu_user_s").is_null()
"""True for a step of a duet: its servers share every second, so the host's CPU time can't be divided among them and
is null."""
IN_DUET = pl.col("side").is_not_null()
"""True for a run of one server of a duet."""
VERDICT_SETTINGS = {"looks": pl.lit(1, pl.Int32), "smallest_effect": pl.lit(SMALLEST_EFFECT)}
"""The columns `looks` and `smallest_effect`, on which a verdict depends, with defaults for values that belong to no
study."""


def rounds(values: pl.DataFrame, runs: pl.DataFrame, base: str) -> pl.DataFrame:
    """One row per step, dbms, metric and round: `base_value`, `me_value`, their `ratio` and their `difference`.

    The value of each dbms is paired with the base's value for the same step in the same round on the same host. If
    one of the two is missing, because a run did not finish or the step had errors, there is no row. In a duet `error`
    is the standard error of the ratio's logarithm, estimated from blocks of consecutive `cycles`.
    """
    names = sorted(set(runs["dbms"]))
    if base not in names:
        fix = f"choose a base of: {', '.join(names)}" if names else "measure it first: rqps run STUDY"
        raise RqpsError(f"no finished run of the base {base!r}", fix=fix)
    return rounds_of_pairs(values, [(base, me) for me in names if me != base])


def rounds_within_build(values: pl.DataFrame, runs: pl.DataFrame, base: str) -> pl.DataFrame:
    """Rounds within each build: its other configs against the base's config or, if the build lacks that config,
    against its first config."""
    configs = dict(runs.select("dbms", "config").iter_rows())
    pairs = []
    for _, of_build in runs.sort("listed").group_by("build", maintain_order=True):
        names = of_build["dbms"].unique(maintain_order=True).to_list()
        first = next((name for name in names if configs[name] == configs.get(base)), names[0])
        pairs += [(first, me) for me in names if me != first]
    return rounds_of_pairs(values, pairs)


def rounds_of_pairs(values: pl.DataFrame, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Rounds of given pairs of base and me.

    The rows stay in the order of the values of me.
    """
    keys = ["host", "step", "metric", "round", "duet"]
    names = pl.DataFrame(pairs, schema={"base": pl.String, "dbms": pl.String}, orient="row")
    if "duet" not in values.columns:
        values = values.with_columns(duet=pl.lit(""))
    if "blocks" not in values.columns:
        values = values.with_columns(cycles=pl.lit(None, pl.Int32), blocks=pl.lit(None, pl.List(pl.Float64)))
    values = judgeable(values)
    known = [name for name in ("occasion", "usual_spread") if name in values.columns]
    of_base = values.filter(pl.col("dbms").is_in(names["base"].to_list())).select(
        *keys, "clients", base="dbms", base_value="value", base_run="run", base_blocks="blocks"
    )
    me, of = pl.col("value"), pl.col("base_value")
    # If one side finishes its work before the other, it has fewer blocks than the other: its list is padded.
    count = pl.max_horizontal(pl.col("blocks").list.len(), pl.col("base_blocks").list.len())
    moves, base_moves = (_padded(pl.col(name), count) for name in ("blocks", "base_blocks"))
    squares = (moves - base_moves).list.eval(pl.element() ** 2).list.sum()
    ratio = me / of
    return (
        values.lazy()
        .join(names.lazy(), on="dbms", maintain_order="left")
        .join(of_base.lazy(), on=[*keys, "clients", "base"], maintain_order="left")
        # Rounds whose base has the value 0 have no ratio: the base's CPU time per operation was too small to measure.
        .filter(of > 0)
        .select(
            *("host", "step", "position", "table_position", "kind", "range", "group", "clients", "metric", "round"),
            *("base", "dbms", "build", "config", "base_value"),
            me.alias("me_value"),
            ratio.alias("ratio"),
            ((ratio - 1) * of).alias("difference"),
            pl.when(count > 1).then((squares * count / (count - 1)).sqrt()).alias("error"),
            "cycles",
            *("base_run", "run", "duet", *VERDICT_SETTINGS, *known),
        )
        .collect()
    )


def _padded(blocks: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Lists padded with zeros to `count` blocks: a missing block contributes nothing to the ratio."""
    return pl.concat_list(blocks, pl.lit(0.0).repeat_by(count - blocks.list.len()))


def judgeable(values: pl.DataFrame) -> pl.DataFrame:
    """The values, with the columns of `VERDICT_SETTINGS` added where they are missing."""
    return values.with_columns(
        **{name: setting for name, setting in VERDICT_SETTINGS.items() if name not in values.columns}
    )


def duets(runs: pl.DataFrame) -> pl.DataFrame:
    """The `occasion` and the `duet` of each `run`. `duet` is the run's `unit`, so that only servers of the same duet
    are paired; it is empty if the dbms was measured alone."""
    return runs.select("run", "occasion", duet=pl.when(IN_DUET).then("unit").otherwise(pl.lit("")))


def comparable(runs: pl.DataFrame) -> None:
    """Raises an error if runs that would be pooled differ in binary, options, workload, parameters or placement.
    Layouts of one build may have different binaries, but all runs of one layout must have the same binary."""
    whose_columns = {("host", "dbms", "layout"): ("build_digest",), ("host", "dbms"): ("identity",)}
    for names, columns in {**whose_columns, ("host",): ("workload", "parameters", "placement")}.items():
        for column in columns:
            kinds = runs.group_by(*names, column, maintain_order=True).agg(pl.col("run").sort())
            for key, group in kinds.group_by(names, maintain_order=True):
                if group.height > 1:
                    whose = " on ".join(str(part) for part in reversed(key[:2]))
                    mixed = "; ".join(
                        f"{value} in {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
                        for value, names in group.select(column, "run").rows()
                    )
                    raise RqpsError(
                        f"{whose}: runs with different {column} can't be in one comparison: {mixed}",
                        fix="move runs of one kind out of the study's folder, or measure them as another study",
                    )


def where_from(rounds: pl.DataFrame, step: str, dbms: str, metric: str = "operations_per_s") -> pl.DataFrame:
    """The rounds behind one ratio: the values of me and base, and for each value its run and the condition that
    selects its row in the table `steps`. The values of a duet with `cycles` are totals over its rows of `slices`."""
    of_cell = rounds.filter(step=step, dbms=dbms, metric=metric)
    cycles = ["cycles"] if of_cell["cycles"].is_not_null().any() else []
    return of_cell.select(
        *("host", "round", "me_value", "base_value", "ratio", *cycles),
        pl.col("run").alias("me_run"),
        "base_run",
        pl.format("step = '{}'", "step").alias("row"),
    )
