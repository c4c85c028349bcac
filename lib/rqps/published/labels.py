"""Short names for what published tables compare."""

import re

import polars as pl

_BUILD = re.compile(r"my(\d)(\d)(\d+)(adv)?_rel(?:_o2nofp)?(.*)")


def short(build: str) -> str:
    """A build as a column's head, words apart.

    >>> short("my8040_rel_o2nofp"), short("my8040adv_rel_o2nofp"), short("my8040_rel_o2nofp_norndfast+nops+spin5")
    ('8.0.40', '8.0.40 adv', '8.0.40 norndfast nops spin5')
    >>> short("my8040_rel"), short("5.7.5")
    ('8.0.40 -O3', '5.7.5')
    """
    if not (found := _BUILD.fullmatch(build)):
        return build
    major, minor, patch, advanced, rest = found.groups()
    words = [f"{major}.{minor}.{int(patch)}", "adv" if advanced else "", *re.split(r"[_+]", rest)]
    words += [] if "_o2nofp" in build else ["-O3"]
    return " ".join(word for word in words if word)


def labelled(rqps: pl.DataFrame) -> pl.DataFrame:
    """The frame with the column `label`: host and build where there are hosts to tell apart, else the build."""
    build = pl.col("build").map_elements(short, return_dtype=pl.String)
    several = rqps["host"].n_unique() > 1
    return rqps.with_columns((pl.format("{} {}", "host", build) if several else build).alias("label"))
