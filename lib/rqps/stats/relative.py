"""Ratios of me to base, round by round. Only what differs in nothing but the dbms is ever divided."""

from collections.abc import Sequence

import polars as pl

from rqps.errors import RqpsError
from rqps.stats.metrics import COMPARED, measured

_ONE_OF_A_DBMS = ("build_digest", "identity")
_ONE_OF_A_HOST = ("workload", "parameters", "placement")


def relative(steps: pl.DataFrame, runs: pl.DataFrame, base: str, metrics: Sequence[str] = COMPARED) -> pl.DataFrame:
    """One row a step, dbms, metric and round: `base_value`, `me_value` and their `ratio`.

    Rounds are paired on the same host; a round without its base, or without a usable step, gives no ratio.
    """
    return ratios_to(base, measured(steps, runs, metrics), runs)


def ratios_to(base: str, values: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The same for any values that `metrics.tidy` has put in order."""
    comparable(runs)
    if base not in set(runs["dbms"]):
        there = ", ".join(sorted(set(runs["dbms"]))) or "none yet"
        raise RqpsError(f"no finished run of the base {base!r}", fix=f"choose a base of: {there}")
    ratios = paired(values, [(base, me) for me in _others(runs, base)])
    if ratios.is_empty():
        raise RqpsError(
            f"no round has both its base {base!r} and another dbms finished without errors: nothing to compare",
            fix="run the study again: it measures what is missing",
        )
    return ratios


def config_effect(
    steps: pl.DataFrame, runs: pl.DataFrame, base: str, metrics: Sequence[str] = COMPARED
) -> pl.DataFrame:
    """The same within each build: its other configs against the base's config, or its first one."""
    comparable(runs)
    config = base.partition(".")[2]
    pairs = []
    for (build,), of_build in runs.sort("dbms").group_by("build", maintain_order=True):
        names = sorted(set(of_build["dbms"]))
        first = f"{build}.{config}" if f"{build}.{config}" in names else names[0]
        pairs += [(first, me) for me in names if me != first]
    return paired(measured(steps, runs, metrics), pairs)


def given_back(ratios: pl.DataFrame, effects: pl.DataFrame) -> pl.DataFrame:
    """By how much another config of a build moves rQPS: two ratios to one base, subtracted round by round."""
    keys = ["host", "step", "metric", "round"]
    mine = ratios.select(*keys, "base", "dbms", "ratio")
    pairs = effects.select(*keys, "position", "dbms", instead_of="base")
    return (
        pairs.join(mine, on=[*keys, "dbms"], maintain_order="left")
        .join(
            mine.rename({"dbms": "instead_of", "ratio": "instead"}),
            on=[*keys, "base", "instead_of"],
            maintain_order="left",
        )
        .with_columns((pl.col("ratio") - pl.col("instead")).alias("difference"))
    )


def comparable(runs: pl.DataFrame) -> None:
    """Refuse to pool what differs: another binary, other options, another table size, other placement."""
    for names, columns in ((("host", "dbms"), _ONE_OF_A_DBMS), (("host",), _ONE_OF_A_HOST)):
        for column in columns:
            kinds = runs.group_by(*names, column, maintain_order=True).agg(pl.col("run").sort())
            for key, group in kinds.group_by(names, maintain_order=True):
                if group.height > 1:
                    whose = " on ".join(str(part) for part in reversed(key))
                    raise _mixed(whose, column, group.select(column, "run"))


def _mixed(whose: str, column: str, kinds: pl.DataFrame) -> RqpsError:
    groups = "; ".join(
        f"{value} in {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" for value, names in kinds.rows()
    )
    return RqpsError(
        f"{whose}: runs with different {column} can't be compared as one: {groups}",
        fix="move the folders of one kind out of the study's, or measure them as a study of their own",
    )


def _others(runs: pl.DataFrame, base: str) -> list[str]:
    return [dbms for dbms in sorted(set(runs["dbms"])) if dbms != base]


def paired(values: pl.DataFrame, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Each value of me beside that of its base, of the same round on the same host, and their ratio.

    A dbms is me to one base at most, so that the rows stay in the order of the values.
    """
    keys = ["host", "step", "metric", "round"]
    names = pl.DataFrame(pairs, schema={"base": pl.String, "dbms": pl.String}, orient="row")
    of_base = values.filter(pl.col("dbms").is_in(names["base"].to_list())).select(
        *keys, "threads", base="dbms", base_value="value", base_run="run"
    )
    return (
        values.join(names, on="dbms", maintain_order="left")
        .join(of_base, on=[*keys, "threads", "base"], maintain_order="left")
        # A ratio to nothing is no number: an operation that cost no CPU is below what can be seen.
        .filter(pl.col("base_value") > 0)
        .select(
            *keys,
            "position",
            "base",
            "dbms",
            "build",
            "config",
            "base_value",
            pl.col("value").alias("me_value"),
            (pl.col("value") / pl.col("base_value")).alias("ratio"),
            "base_run",
            "run",
        )
    )
