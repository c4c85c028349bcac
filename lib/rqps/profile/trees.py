"""The call trees of all comparisons of a study in one table."""

import polars as pl

from rqps.profile.sides import pairs
from rqps.profile.tree import FOLD_BELOW, TREE, flame_tree

KEYS = {"host": pl.String, "step": pl.String, "dbms": pl.String}


def flame_trees(costs: pl.DataFrame, base: str, fold_below: float = FOLD_BELOW) -> pl.DataFrame:
    """The tree of every host, step and dbms that has a round in common with the base, one after the other."""
    trees = [
        flame_tree(costs.filter(host=host), base, dbms, step, fold_below).select(
            pl.lit(host).alias("host"), pl.lit(step).alias("step"), pl.lit(dbms).alias("dbms"), pl.all()
        )
        for host, step, dbms, _ in pairs(costs, base)
    ]
    return pl.concat(trees) if trees else pl.DataFrame(schema={**KEYS, **TREE})
