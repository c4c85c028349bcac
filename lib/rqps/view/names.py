"""Names as short as they may be where there is little room, and still different."""

import re
from collections.abc import Iterable

import polars as pl


def short_steps(steps: pl.DataFrame, between: str = " ") -> dict[str, str]:
    """Steps by their kind alone where all of that kind have one range; else with `between` before the range.

    A step without a range keeps its name, and so do steps that would have the same short one.

    >>> short_steps(pl.DataFrame({
    ...     "step": ["scan_range=100", "read-only_range=10", "read-only_range=100", "qr100"],
    ...     "kind": ["scan", "read-only", "read-only", "qr"],
    ...     "range": [100, 10, 100, None],
    ... }))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'scan_range=100': 'scan', 'read-only_range=10': 'read-only 10', 'read-only_range=100': 'read-only 100',
     'qr100': 'qr100'}
    """
    names = steps.select("step").unique(maintain_order=True)
    if not {"kind", "range"} <= set(steps.columns):
        return {step: step for step in names["step"]}
    sized = pl.when(pl.col("range").n_unique().over("kind") > 1).then(
        pl.format("{}" + between + "{}", "kind", "range")
    )
    short = sized.otherwise("kind").alias("short")
    found = steps.select("step", "kind", "range").unique(maintain_order=True).with_columns(short)
    as_it_is = pl.col("range").is_null() | (pl.col("short").count().over("short") > 1)
    named = pl.when(as_it_is).then("step").otherwise("short")
    return dict(found.select("step", named.alias("short")).iter_rows())


def short_dbms(dbms: Iterable[str]) -> tuple[dict[str, str], str]:
    """Dbms without the end that all of them have, which is given too: whole words of it only.

    >>> short_dbms(["my8028_rel_o2nofp.z11a", "my8040_rel_o2nofp.z11a", "my8040adv_rel_o2nofp.z11a"])[1]
    '_rel_o2nofp.z11a'
    >>> short_dbms(["my5624.base", "my8033.base", "my8033.ps0"])[0]["my8033.base"]
    'my8033.base'
    """
    names = list(dict.fromkeys(dbms))
    words = [re.findall(r"^[^._ ]*|[._ ][^._ ]*", name) for name in names]
    end: list[str] = []
    while len(names) > 1 and all(len(each) > 1 for each in words) and len({each[-1] for each in words}) == 1:
        end.insert(0, words[0][-1])
        words = [each[:-1] for each in words]
    return {name: "".join(each) for name, each in zip(names, words, strict=True)}, "".join(end)
