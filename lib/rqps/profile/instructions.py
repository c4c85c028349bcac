"""Instructions per operation, and whether CPU time tells the same as they do.

They are counted one by one, and say how much work the server's own code does for a statement. CPU time has two
things beside that: what an instruction costs, where caches miss or memory is waited for; and what is not counted: the
kernel's work, the server's before and after a statement, and its threads in the background, which flush and purge.
"""

from collections.abc import Sequence

import polars as pl

from rqps.profile.names import readable
from rqps.stats.interval import Estimate, Verdict, verdict
from rqps.stats.metrics import tidy, usable
from rqps.stats.relative import ratios_to, relative
from rqps.stats.summary import summarise
from rqps.store.read import Study

COUNTED = "instructions_per_operation"
CPU, USER_CPU, THROUGHPUT = "server_cpu_us_per_operation", "server_user_cpu_us_per_operation", "operations_per_s"
AGREEMENT: dict[Verdict, str] = {
    "same": "agree",
    "slower": "CPU grew more",
    "faster": "CPU grew less",
    "unsure": "unsure",
}
"""What CPU time per instruction, relative to the base, says of the ratios of CPU time and of instructions."""

_KEYS = ("host", "step", "base", "dbms")
_ESTIMATE = ("n", "median", "low", "high", "coverage")
_NO_SUMMARY = {
    **dict.fromkeys(("metric", "host", "step", "base", "dbms"), pl.String),
    "n": pl.Int32,
    **dict.fromkeys(("median", "low", "high", "coverage"), pl.Float64),
}


def counted_beside(counted: Study, measured: Study, base: str) -> pl.DataFrame:
    """One row per step and dbms whose instructions were counted: their ratio, and those of throughput and CPU time.

    `counted` are a study's runs of that mode, `measured` its ordinary ones. No rows where nothing was counted.
    """
    values = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    if base not in set(values["dbms"]) or values["dbms"].n_unique() < 2:
        return pl.DataFrame()
    summary = pl.DataFrame(schema=_NO_SUMMARY)
    if base in set(measured.runs["dbms"]):
        summary = summarise(relative(measured.steps, measured.runs, base, (THROUGHPUT, CPU, USER_CPU)))
    return instructions_beside(instruction_ratios(values, counted.runs, base), summary)


def instructions_per_operation(
    instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame, runs: pl.DataFrame
) -> pl.DataFrame:
    """One row per step and run whose instructions were counted: `metric, value`, as other metrics have it."""
    sums = instructions.lazy().group_by("run", "step").agg(pl.col("instructions").sum()).collect()
    wide = usable(steps).join(sums, on=["run", "step"], how="inner", maintain_order="left")
    return tidy(wide.with_columns((pl.col("instructions") / pl.col("operations")).alias(COUNTED)), [COUNTED], runs)


def instruction_ratios(counted: pl.DataFrame, runs: pl.DataFrame, base: str) -> pl.DataFrame:
    """One row per step and dbms: instructions an operation of base and me, their ratio, and how far rounds are apart.

    `spread` is the largest distance of a round's ratio from the median, relative to it; null with a single round.
    """
    ratio, n = pl.col("ratio"), pl.len()
    far = (ratio - ratio.median()).abs().max() / ratio.median()
    return (
        ratios_to(base, counted, runs)
        .group_by("host", "step", "position", "base", "dbms", maintain_order=True)
        .agg(
            pl.col("base_value").median().alias("base_instructions"),
            pl.col("me_value").median().alias("me_instructions"),
            ratio.median().alias("instructions"),
            pl.when(n > 1).then(far).alias("spread"),
            n.cast(pl.Int32).alias("counted_rounds"),
        )
    )


def instructions_beside(ratios: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Those ratios beside the ones of throughput and CPU time of ordinary runs, and whether they agree.

    `summary` sums up the rounds of the metrics above. `per_instruction` is the ratio of CPU time per instruction,
    with the interval of the CPU time; `agreement` is what it says. Where nothing was measured beside, they are null.
    """
    beside = ratios
    for metric, name in ((THROUGHPUT, "throughput"), (CPU, "cpu"), (USER_CPU, "user_cpu")):
        named = {column: f"{name}_{column}" for column in _ESTIMATE if column != "median"}
        of_metric = summary.filter(metric=metric).select(*_KEYS, *_ESTIMATE).rename({**named, "median": name})
        beside = beside.join(of_metric, on=_KEYS, how="left", maintain_order="left")
    per_instruction = [
        (pl.col(column) / pl.col("instructions")).alias(name)
        for column, name in (
            ("cpu", "per_instruction"),
            ("cpu_low", "per_instruction_low"),
            ("cpu_high", "per_instruction_high"),
        )
    ]
    beside = beside.with_columns(per_instruction)
    return beside.with_columns(pl.Series("agreement", [_agreement(row) for row in beside.to_dicts()], pl.String))


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


def _agreement(row: dict[str, float | int | None]) -> str | None:
    if row["per_instruction"] is None:
        return None
    names: Sequence[str] = ("cpu_n", "per_instruction", "per_instruction_low", "per_instruction_high", "cpu_coverage")
    found = Estimate(*(row[name] for name in names))  # type: ignore[arg-type]
    return AGREEMENT[verdict(found, more_is_better=False)]
