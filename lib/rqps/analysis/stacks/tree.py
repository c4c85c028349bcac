"""The call tree of two sides: what a path costs on each, so that vanished and new paths are seen beside the others.

Rows are sorted by their stacks, so the rows below a frame stand together: a level of the tree is found by comparing
each row with the one before it, and every sum is over rows as they were measured.
"""

import polars as pl

from rqps.analysis.stacks.inherited import components_of_frames
from rqps.analysis.stacks.sides import BASE, ME, Sides, one_pair

ROOT = "all"
FOLD_BELOW = 0.001

TREE = pl.Schema(
    {
        "node": pl.Int32,
        "parent": pl.Int32,  # null for the root
        "name": pl.String,
        "component": pl.String,
        "base_self": pl.Float64,  # per operation, the mean of the rounds
        "me_self": pl.Float64,
        "base_total": pl.Float64,
        "me_total": pl.Float64,
        "error": pl.Float64,  # half the width of the 95 % interval of me_total - base_total
    }
)

_SELFS = ("base_self", "me_self")
_MEANS = ("base_total", "me_total")


def flame_tree(costs: pl.DataFrame, base: str, me: str, step: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The frames of both sides in pre-order: for each its own cost on both sides, and that of all that it called.

    Frames that take less than `fold_below` of the operation on both sides are one frame below their caller, as
    `(12 minor)`, so that a total is always the sum of what is in it. Nothing is rounded.
    """
    sides = one_pair(costs, base, me, step)
    rows, names = _numbered(sides)
    totals = [sum(side.totals) / sides.rounds for side in (sides.base, sides.me)]
    return _finished(_levels(sides, rows, fold_below * max(totals)), names, sides)


def _numbered(sides: Sides) -> tuple[pl.DataFrame, pl.Series]:
    """One row a stack, sorted, with the numbers of names in place of names; and the names."""
    names = sides.rows["stack"].explode(empty_as_null=False).unique().sort()
    numbers = pl.col("stack").cast(pl.List(pl.Enum(names))).list.eval(pl.element().to_physical())
    rows = (
        sides.rows.select(numbers.alias("path"), "component", *sides.columns)
        .group_by("path", "component")
        .agg(pl.col(sides.columns).sum())
        .sort("path")
        .with_columns(sides.mean(BASE).alias(_MEANS[0]), sides.mean(ME).alias(_MEANS[1]))
    )
    return rows.with_row_index("row"), names


def _levels(sides: Sides, rows: pl.DataFrame, limit: float) -> list[pl.DataFrame]:
    """The frames of each depth, found from the root on; behind them those that stand for folded ones."""
    length = pl.col("path").list.len()
    root = rows.select(
        pl.lit(0, pl.UInt32).alias("frame"),
        pl.lit(None, pl.UInt32).alias("parent"),
        pl.lit(None, pl.UInt32).alias("name"),
        pl.lit(None, pl.UInt32).alias("minor"),
        pl.lit(None, pl.String).alias("component"),
        pl.lit(-1, pl.Int64).alias("at"),
        *_sums(sides, length == 0),
    )
    levels, folded = [root], []
    open_, number, depth = rows.with_columns(pl.lit(0, pl.UInt32).alias("frame")), 1, 0
    changes = (pl.col("parent") != pl.col("parent").shift(1)) | (pl.col("name") != pl.col("name").shift(1))
    is_minor = pl.max_horizontal(_MEANS) < limit
    while True:
        name = pl.col("path").list.get(depth, null_on_oob=True).cast(pl.UInt32)
        open_ = (
            open_.lazy()
            .filter(length > depth, pl.col("frame").is_not_null())
            .with_columns(pl.col("frame").alias("parent"), name.alias("name"))
            .with_columns((changes.fill_null(True).cum_sum() - 1).alias("run"))
            .collect()
        )
        if open_.is_empty():
            break
        depth += 1
        found = (
            open_.lazy()
            .group_by("run", maintain_order=True)
            .agg(
                pl.col("parent", "name").first(),
                (2 * pl.col("row").first().cast(pl.Int64)).alias("at"),
                *_sums(sides, length == depth),
            )
            .with_columns(pl.when(~is_minor).then(number + (~is_minor).cum_sum() - 1).cast(pl.UInt32).alias("frame"))
            .collect()
        )
        open_ = open_.with_columns(found["frame"].gather(open_["run"]))
        if found["frame"].null_count():
            folded.append(open_.filter(pl.col("frame").is_null()))
        levels.append(found.drop_nulls("frame"))
        number += levels[-1].height
    return [*levels, _folded(sides, pl.concat(folded), number)] if folded else levels


def _folded(sides: Sides, rows: pl.DataFrame, number: int) -> pl.DataFrame:
    """One frame for all minor callees of a caller, of the component that most of their cost belongs to."""
    most = (
        rows.group_by("parent", "component")
        .agg(pl.col(_MEANS).sum())
        .sort(pl.sum_horizontal(_MEANS), "component", descending=[True, False])
        .unique("parent", keep="first", maintain_order=True)
        .select("parent", "component")
    )
    return (
        rows.group_by("parent", maintain_order=True)
        .agg(
            pl.lit(None, pl.UInt32).alias("name"),
            pl.col("name").n_unique().alias("minor"),
            (2 * pl.col("row").max().cast(pl.Int64) + 1).alias("at"),
            *_sums(sides, pl.lit(True)),
        )
        .join(most, on="parent", maintain_order="left")
        .with_row_index("frame", offset=number)
    )


def _sums(sides: Sides, ends_here: pl.Expr) -> list[pl.Expr]:
    selfs = [pl.col(mean).filter(ends_here).sum().alias(name) for mean, name in zip(_MEANS, _SELFS, strict=True)]
    return [*selfs, pl.col(_MEANS).sum(), pl.col(sides.columns).sum()]


def _finished(levels: list[pl.DataFrame], names: pl.Series, sides: Sides) -> pl.DataFrame:
    """All frames in pre-order: at the first row of each, callers first; folded ones behind their last row."""
    frames = pl.concat(levels, how="diagonal").with_row_index("level")  # of one depth after those of the depth above
    frames = frames.sort("at", "level").with_row_index("node")
    node_of = frames.sort("frame")["node"]
    name = (
        pl.when(pl.col("parent").is_null())
        .then(pl.lit(ROOT))
        .when(pl.col("minor").is_not_null())
        .then(pl.format("({} minor)", "minor"))
        .otherwise(names.gather(frames["name"]))
    )
    parent, error = node_of.gather(frames["parent"]).alias("parent"), sides.error().alias("error")
    tree = frames.with_columns(name.alias("name"), parent, error)
    component = pl.Series(components_of_frames(tree["parent"].to_list(), tree["name"].to_list()), dtype=pl.String)
    tree = tree.with_columns(pl.coalesce("component", component))  # of what is folded it is known already
    return tree.select(pl.col(each).cast(kind) for each, kind in TREE.items())
