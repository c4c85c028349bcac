"""The components of a tree's frames, level by level: each inherits from its caller what it has not itself."""

import polars as pl

from rqps.analysis.stacks.frames import claim, last_resort
from rqps.analysis.stacks.tables import KERNEL_MARK, OTHER

_CLAIMS = ("server", "server at last", "kernel", "kernel at last")


def with_components(levels: list[pl.DataFrame], names: pl.Series) -> list[pl.DataFrame]:
    """The levels with the `component` that `component_of` gives the path to each frame.

    `name` is a place in `names`; a level's `frame` numbers go on where those of the level above end.
    """
    table = _table(names)
    root, *deeper = levels
    found = [root.with_columns(pl.lit(OTHER).alias("component"))]
    above, first = pl.DataFrame({each: [None] for each in _CLAIMS}, schema=dict.fromkeys(_CLAIMS, pl.String)), 0
    for level in deeper:
        own, inherited = table[level["name"]], above[level["parent"] - first]
        here = own.select("in_kernel", *(pl.coalesce(each, inherited[each]).alias(each) for each in _CLAIMS))
        server, server_at_last, kernel, kernel_at_last = _CLAIMS
        component = (
            pl.when("in_kernel")
            .then(pl.coalesce(kernel, kernel_at_last, pl.lit(OTHER)))
            .otherwise(pl.coalesce(server, server_at_last, pl.lit(OTHER)))
        )
        found.append(level.with_columns(here.select(component.alias("component"))["component"]))
        above, first = here.drop("in_kernel"), first + found[-2].height
    return found


def _table(names: pl.Series) -> pl.DataFrame:
    """What each name claims by itself, on its side of the kernel's border."""
    in_kernel = names.str.ends_with(KERNEL_MARK)
    claims = pl.DataFrame(
        {
            "in_kernel": in_kernel,
            "claim": pl.Series([claim(name) for name in names], dtype=pl.String),
            "at last": pl.Series([last_resort(name) for name in names], dtype=pl.String),
        }
    )
    return claims.select(
        "in_kernel",
        *(
            pl.when(pl.col("in_kernel") == kernel).then(what).alias(column)
            for column, what, kernel in zip(
                _CLAIMS, ("claim", "at last") * 2, (False, False, True, True), strict=True
            )
        ),
    )
