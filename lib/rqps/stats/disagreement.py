"""Verdicts on throughput, CPU and instructions of the same step and dbms, and the reason why these verdicts differ,
if waiting times or instructions show a reason."""

import polars as pl

from rqps.stats.comparison import compare, in_tables
from rqps.stats.metrics import CPU, INSTRUCTIONS, SIDES, THROUGHPUT, tidy, usable
from rqps.stats.pairing import IN_DUET, rounds
from rqps.store.read import Study

WAITING = "waiting_us_per_operation"
EXPLAINED = {
    ("unsure", "slower", "faster"): "less waiting offsets the extra CPU time",
    ("same", "slower", "faster"): "less waiting offsets the extra CPU time",
    ("faster", "slower", "faster"): "less waiting saves more than the extra CPU time",
    ("unsure", "faster", "slower"): "more waiting offsets the saved CPU time",
    ("same", "faster", "slower"): "more waiting offsets the saved CPU time",
    ("slower", "faster", "slower"): "more waiting costs more than the saved CPU time",
    ("slower", "same", "slower"): "an operation waits longer for the same CPU time",
    ("faster", "same", "faster"): "an operation waits less for the same CPU time",
}
"""Maps the verdicts on throughput, CPU and waiting to the reason why throughput and CPU differ. For CPU and waiting,
`slower` means that an operation takes more of it."""
SAME_WORK = "same work; layout, caches or waits"
"""The reason that is given if throughput or CPU of a step changed, but the number of instructions did not."""

_KEYS = ["host", "step", "base", "dbms"]


def waiting(study: Study) -> pl.DataFrame:
    """One row per comparison: the time that an operation waits, in µs, and its difference from the base's.

    The waiting time is the elapsed time of an operation minus the CPU time of server and client. It is known only for
    a single client that shares one CPU with its server; in a duet it is calculated from the slices.
    """
    on_one_cpu = study.conditions.filter(
        pl.col("kind") == "placement",
        pl.col("name").is_in(["kind", "with 1 client.kind"]),
        pl.col("value") == "same-cpu",
    )
    steps = usable(study.steps).filter(
        pl.col("clients") == 1, pl.col("target_per_s").is_null(), pl.col("host").is_in(on_one_cpu["host"].to_list())
    )
    alone = steps.join(study.runs.filter(~IN_DUET).select("run"), on="run", how="semi").select(
        "run",
        "step",
        waited_us=(pl.col("elapsed_s") - pl.col("server_cpu_s") - pl.col("client_cpu_s")) * 1e6,
        done="operations",
    )
    # CPU time that a server uses between its slices, in the background, does not count.
    sliced = study.slices.drop_nulls(["operations", "client_cpu_us", "server_cpu_us"]).group_by("run", "step")
    sums = sliced.agg(
        waited_us=(pl.col("busy_us") - pl.col("server_cpu_us") - pl.col("client_cpu_us")).sum(),
        done=pl.col("operations").sum(),
    )
    waits = pl.concat([alone, sums.collect()], how="vertical_relaxed")
    wide = steps.join(waits, on=["run", "step"], maintain_order="left")
    values = tidy(wide.with_columns((pl.col("waited_us") / pl.col("done")).alias(WAITING)), [WAITING], study.runs)
    return in_tables(compare(rounds(values, study.runs, study.card.base), of="difference"))


def side_by_side(compared: pl.DataFrame, waits: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per comparison, with one column per metric for its verdict. `differ` is true if these verdicts differ;
    `reason` explains the difference, and is null if neither `waits` nor the instructions show a reason.

    >>> step = {"host": "vm", "step": "insert", "base": "my56.z", "dbms": "my80.z"}
    >>> verdicts = {THROUGHPUT: "same", CPU: "slower"}
    >>> two = pl.DataFrame([{**step, "metric": metric, "verdict": word} for metric, word in verdicts.items()])
    >>> less = pl.DataFrame([{**step, "base_estimate": 4.3, "me_estimate": 1.5, "verdict": "faster"}])
    >>> side_by_side(two)["reason"].item(), side_by_side(two, less)["reason"].item()
    (None, 'less waiting offsets the extra CPU time')
    """
    wide = compared.pivot("metric", list(SIDES), index=_KEYS, values="verdict", maintain_order=True)
    if waits is None:
        waits = wide.select(_KEYS, verdict=pl.lit(None, pl.String)).clear()
    else:
        # Several threads may use CPU at once, in which case the waiting time is negative and means nothing.
        waits = waits.filter(pl.min_horizontal("base_estimate", "me_estimate") >= 0)
    counted = pl.col(INSTRUCTIONS) != "unsure"
    verdicts = pl.concat_str(THROUGHPUT, CPU, "waiting", separator=" ")
    reasons = {" ".join(words): reason for words, reason in EXPLAINED.items()}
    by_waits = verdicts.replace_strict(reasons, default=None, return_dtype=pl.String)
    differs = pl.any_horizontal(pl.col(THROUGHPUT, CPU).is_in(["slower", "faster"]))
    by_work = pl.when(differs, pl.col(INSTRUCTIONS) == "same").then(pl.lit(SAME_WORK))
    return wide.join(
        waits.select(*_KEYS, waiting="verdict"), on=_KEYS, how="left", maintain_order="left"
    ).with_columns(
        differ=(pl.col(THROUGHPUT) != pl.col(CPU)).fill_null(False)
        | (counted & (pl.col(INSTRUCTIONS) != pl.coalesce(CPU, THROUGHPUT))).fill_null(False),
        reason=pl.coalesce(by_waits, by_work),
    )


def deciding(compared: pl.DataFrame) -> pl.DataFrame:
    """One row per host, step and dbms, in the order of the frame: the comparison of throughput or, if its verdict
    is unsure, the comparison of CPU per operation or of instructions, whichever is the first with another verdict.
    If all verdicts are unsure, it is the comparison of throughput.

    >>> step = {"host": "vm", "step": "scan", "base": "my56.z", "dbms": "my80.z"}
    >>> two = [{**step, "metric": THROUGHPUT, "verdict": "unsure"}, {**step, "metric": CPU, "verdict": "slower"}]
    >>> deciding(pl.DataFrame(two))["metric"].item()
    'server_cpu_us_per_operation'
    """
    place = pl.col("metric").replace_strict(list(SIDES), range(len(SIDES)), return_dtype=pl.Int8)
    sides = compared.filter(pl.col("metric").is_in(list(SIDES)))
    first = sides.sort(pl.col("verdict") == "unsure", place, maintain_order=True).unique(_KEYS, keep="first")
    return sides.select(_KEYS).unique(maintain_order=True).join(first, on=_KEYS, maintain_order="left")
