"""Verdicts on throughput, CPU and instructions of the same comparisons, and what it means where they differ."""

import polars as pl

from rqps.stats.metrics import CPU, INSTRUCTIONS, SIDES, THROUGHPUT

BY_CPU = {
    ("unsure", "slower"): "the cost is there, the machine hides it",
    ("unsure", "faster"): "the saving is there, the machine hides it",
    ("unsure", "same"): "the code costs the same; only waiting could make a difference",
    ("slower", "same"): "it waits: an operation takes longer for the same CPU time",
    ("slower", "faster"): "it waits longer than it saves CPU time",
    ("slower", "unsure"): "it is slower; whether by its CPU time or by waiting is open",
    ("same", "slower"): "the cost is there, but something else sets the pace",
    ("same", "faster"): "the saving is there, but something else sets the pace",
    ("same", "unsure"): "throughput is the same; what an operation costs is open",
    ("faster", "same"): "it waits less: an operation takes less time for the same CPU time",
    ("faster", "slower"): "it waits less, or works on more CPUs at once, for more CPU time",
    ("faster", "unsure"): "it is faster; whether by its CPU time or by waiting is open",
}
"""The meaning of verdicts on throughput and on CPU per operation that differ; slower CPU is more expensive."""
BY_INSTRUCTIONS = {
    ("slower", "same"): "it executes as much code, and each instruction takes longer",
    ("slower", "faster"): "it executes less code, and each instruction takes longer",
    ("faster", "same"): "it executes as much code, and each instruction takes less time",
    ("faster", "slower"): "it executes more code, and each instruction takes less time",
    ("same", "slower"): "it executes more code in the same time",
    ("same", "faster"): "it executes less code in the same time",
    ("unsure", "slower"): "it executes more code, which the clock does not show yet",
    ("unsure", "faster"): "it executes less code, which the clock does not show yet",
    ("unsure", "same"): "it executes as much code",
}
"""The meaning of verdicts on CPU and on instructions per operation that differ."""


def side_by_side(compared: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step and dbms: the verdict of each metric in a column, and `meaning` where they differ.

    >>> step = {"host": "vm", "step": "scan", "base": "my56.z", "dbms": "my80.z"}
    >>> two = [{**step, "metric": THROUGHPUT, "verdict": "unsure"}, {**step, "metric": CPU, "verdict": "slower"}]
    >>> side_by_side(pl.DataFrame(two))["meaning"].item()
    'the cost is there, the machine hides it'
    """
    keys = ["host", "step", "base", "dbms"]
    wide = compared.pivot("metric", list(SIDES), index=keys, values="verdict", maintain_order=True)
    return wide.with_columns(
        pl.concat_str(
            _meaning(BY_CPU, THROUGHPUT, CPU),
            _meaning(BY_INSTRUCTIONS, CPU, INSTRUCTIONS),
            separator="; ",
            ignore_nulls=True,
        )
        .replace("", None)
        .alias("meaning")
    )


def deciding(compared: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step and dbms, in the order of the frame: the verdict on throughput; where it is unsure, the
    verdict on CPU per operation; where that is unsure, too, the one on instructions.

    >>> step = {"host": "vm", "step": "scan", "base": "my56.z", "dbms": "my80.z"}
    >>> two = [{**step, "metric": THROUGHPUT, "verdict": "unsure"}, {**step, "metric": CPU, "verdict": "slower"}]
    >>> deciding(pl.DataFrame(two))["metric"].item()
    'server_cpu_us_per_operation'
    """
    keys = ["host", "step", "base", "dbms"]
    place = pl.col("metric").replace_strict(list(SIDES), range(len(SIDES)), return_dtype=pl.Int8)
    sides = compared.filter(pl.col("metric").is_in(list(SIDES)))
    first = sides.sort(pl.col("verdict") == "unsure", place, maintain_order=True).unique(keys, keep="first")
    return sides.select(keys).unique(maintain_order=True).join(first, on=keys, maintain_order="left")


def _meaning(meanings: dict[tuple[str, str], str], first: str, second: str) -> pl.Expr:
    both = {" ".join(words): meaning for words, meaning in meanings.items()}
    return pl.concat_str(first, second, separator=" ").replace_strict(both, default=None, return_dtype=pl.String)
