"""Instructions per operation, and whether CPU time grew as they did.

They are the work of the server's own code for a statement. CPU time also has the cost of an instruction (caches
missed, memory waited for), the kernel's work, the server's around a statement, and its threads in the background.
"""

import polars as pl

from rqps.profile.names import readable
from rqps.stats import metrics
from rqps.stats.comparison import quotient
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT, USER_CPU, usable
from rqps.stats.verdict import decided

COUNTED = metrics.COUNTED.name
AGREEMENT = {"same": "agree", "slower": "CPU grew more", "faster": "CPU grew less"}
"""Verdicts on CPU time per instruction, relative to the base, as words on its growth beside instructions."""


def instructions_beside(compared: pl.DataFrame) -> pl.DataFrame:
    """The rows of a tidy frame on instructions, beside those of throughput and CPU time, as far as it has these.

    `per_instruction` is the ratio of CPU time per instruction; `agreement` is its verdict in words.
    """
    keys = ["host", "step", "base", "dbms"]
    estimate = pl.col("n", "estimate", "low", "high", "coverage", "sure_low", "sure_high")
    beside = compared.filter(metric=INSTRUCTIONS)
    for metric, name in ((THROUGHPUT, "throughput"), (CPU, "cpu"), (USER_CPU, "user_cpu")):
        of_metric = compared.filter(metric=metric).select(*keys, estimate.name.prefix(f"{name}_"))
        beside = beside.join(of_metric, on=keys, how="left", maintain_order="left")
    per_instruction = quotient(lambda name: pl.col(f"cpu_{name}"), pl.col)
    agreement = decided(
        near=pl.col("smallest_effect"),
        more_is_better=False,
        low="per_instruction_sure_low",
        high="per_instruction_sure_high",
        n="per_instruction_n",
    )
    return beside.with_columns(
        pl.min_horizontal("n", "cpu_n").alias("per_instruction_n"),
        *(ratio.alias(f"per_instruction_{name}") for name, ratio in per_instruction.items()),
    ).with_columns(
        pl.when(pl.col("cpu_estimate").is_not_null()).then(agreement.replace(AGREEMENT)).alias("agreement")
    )


def most_expensive_functions(
    instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame, most: int = 10
) -> pl.DataFrame:
    """The functions of each step that take most instructions by themselves: per operation, calls, and their share."""
    named = instructions.lazy().select(
        "step", "run", "calls", "instructions", pl.col("frames").list.last().alias("symbol")
    )
    rows = named.collect().join(usable(steps).select("run", "step", "position", "operations"), on=["run", "step"])
    spelt = {symbol: readable(symbol) for symbol in set(rows["symbol"])}
    operations = pl.col("operations").first()
    return (
        rows.with_columns(pl.col("symbol").replace_strict(spelt, return_dtype=pl.String).alias("function"))
        .group_by("run", "position", "step", "function")
        .agg(
            (pl.col("instructions").sum() / operations).alias(COUNTED),
            (pl.col("calls").sum() / operations).alias("calls_per_operation"),
        )
        .with_columns((pl.col(COUNTED) / pl.col(COUNTED).sum().over("run", "step")).alias("share"))
        .sort("run", "position", COUNTED, "function", descending=[False, False, True, False])
        .group_by("run", "step", maintain_order=True)
        .head(most)
        .select("run", "step", "function", COUNTED, "share", "calls_per_operation")
    )
