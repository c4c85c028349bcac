"""Metrics: throughput, and costs of an operation (the increase of a counter divided by the operations)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from rqps.errors import RqpsError, instead
from rqps.stats.near_pairs import CELL, has_few_rounds, near_pairs, usual_spreads
from rqps.stats.pairing import VERDICT_SETTINGS, comparable, duets, judgeable
from rqps.store.read import Study, load
from rqps.store.schemas import IDENTITY
from rqps.study import Mode

BLOCKS = 12
"""Number of blocks of consecutive cycles from which a round's standard error is estimated. Single cycles would give a
wrong error, since cycles that follow each other are correlated."""


MOST_OUTSIDE = 0.1
"""A cycle in which more than this share of the CPU time went to other processes or other guests is disturbed."""
MOST_DISTURBED = 0.5
"""If more than this share of a step's cycles are disturbed, no cycle is left out: the disturbance is then the normal
state of the machine."""


@dataclass(frozen=True)
class Metric:
    """One quantity of a step: its calculation, and its names for readers. `REGISTRY` lists all but `COUNTED`."""

    name: str
    title: str
    """The metric's name on a chart: `CPU per operation`."""
    column: str
    """The heading of the metric's column in tables of absolute values, such as `CPU, µs/o`; empty if the tables leave
    the metric out."""
    value: pl.Expr
    """The value of a step, calculated from the columns of the raw table `steps`."""
    of_slices: tuple[pl.Expr, pl.Expr] | None = None
    """Two columns of a duet's slices: the metric's value is the sum of the first divided by the sum of the second."""
    side: str = ""
    """The metric's name in sentences. Only metrics with such a name get a verdict and count in a page's correction
    for multiple comparisons; all others are shown with an interval and no verdict."""
    more_is_better: bool = False
    mode: Mode = "throughput"
    """The mode of the runs that measure the metric."""
    usual_spread: float | None = None
    """The standard deviation of the metric's value between starts of a server, as a share of the value, if it is
    known before a study is measured."""


def _per_operation(total: pl.Expr) -> pl.Expr:
    return total / pl.col("operations")


def _host(name: str, title: str, column: str) -> Metric:
    """The metric that divides a counter of the whole host by the operations of the step."""
    return Metric(f"host_{name}_per_operation", title, column, _per_operation(pl.col(f"host_{name}")))


def _request(kind: str) -> Metric:
    """The metric of the mean time that the disk takes for one read or one write; without a request it has no
    value."""
    total_s, requests = pl.col(f"host_{kind}_s"), pl.col(f"host_{kind}s")
    return Metric(f"disk_{kind}_ms", f"time of one {kind} by the disk", f"ms/{kind[0]}", 1e3 * total_s / requests)


THROUGHPUT, CPU, INSTRUCTIONS = (
    "operations_per_s",
    "server_cpu_us_per_operation",
    "server_instructions_per_operation",
)
# An embedded engine has no client process. The engine's process is stopped outside its slices, and its work at the
# end of a step is in no slice, so its CPU time is taken from the counters of the step, not from those of the slices.
_SERVER_US = pl.when(pl.col("client_cpu_us").is_not_null()).then("server_cpu_us")
USER_CPU, CLIENT_CPU = "server_user_cpu_us_per_operation", "client_cpu_us_per_operation"
_HOST_CPU_S = pl.col("host_cpu_user_s") + pl.col("host_cpu_system_s")
REGISTRY = (
    Metric(
        THROUGHPUT,
        title="operations/s",
        column="operations/s",
        value=pl.col(THROUGHPUT),
        of_slices=(pl.col("operations"), pl.col("busy_s")),
        side="throughput",
        more_is_better=True,
    ),
    Metric(
        CPU,
        title="CPU per operation",
        column="CPU, µs/o",
        value=_per_operation(pl.col("server_cpu_s") * 1e6),
        of_slices=(_SERVER_US, pl.col("operations")),
        side="CPU",
    ),
    Metric(
        CLIENT_CPU,
        title="client CPU per operation",
        column="client CPU, µs/o",
        value=_per_operation(pl.col("client_cpu_s") * 1e6),
        of_slices=(pl.col("client_cpu_us"), pl.col("operations")),
    ),
    _host("context_switches", "context switches of the host per operation", "cs/o"),
    _host("reads", "reads of the host per operation", "r/o"),
    _host("read_kb", "KB read by the host per operation", "rKB/o"),
    _host("write_kb", "KB written by the host per operation", "wKB/o"),
    _request("read"),
    _request("write"),
    Metric(
        "waiting_for_disk_percent",
        title="part of the time in which something on the host waits for a disk, in percent",
        column="disk wait, %",
        value=100 * pl.col("host_io_some_s") / pl.col("elapsed_s"),
    ),
    Metric(  # its value is null if hardware counters can't be read
        INSTRUCTIONS,
        title="instructions per operation",
        column="instructions/o",
        value=_per_operation(pl.col("server_instructions")),
        side="instructions",
    ),
    Metric(
        "server_cycles_per_operation",
        title="cycles per operation",
        column="cycles/o",
        value=_per_operation(pl.col("server_cycles")),
    ),
    Metric(
        USER_CPU,
        title="user CPU per operation",
        column="",
        value=_per_operation(pl.col("server_cpu_user_s") * 1e6),
        of_slices=(_SERVER_US * pl.col("user_share"), pl.col("operations")),
    ),
    Metric(
        "host_cpu_us_per_operation",
        title="CPU of the whole host per operation",
        column="",
        value=_per_operation(_HOST_CPU_S * 1e6),
    ),
    Metric(
        "server_context_switches_per_operation",
        title="context switches per operation",
        column="",
        value=_per_operation(pl.col("server_context_switches")),
    ),
)
COUNTED = Metric(
    "instructions_per_operation",
    title="counted instructions per operation",
    column="",
    value=_per_operation(pl.col("instructions")),
    mode="instructions",
    # Counts of the same statements differed by 0.1 % between two starts of a server; benchmarks/counting.py allows up
    # to 0.3 %.
    usual_spread=0.001,
)
METRICS = {metric.name: metric.value for metric in REGISTRY}
USUAL_SPREADS = {metric.name: metric.usual_spread for metric in (*REGISTRY, COUNTED) if metric.usual_spread}
TITLES = {metric.name: metric.title for metric in REGISTRY}
SIDES = {metric.name: metric.side for metric in REGISTRY if metric.side}
"""Maps metrics with verdicts to their names in sentences. Their order matters: the first of them whose verdict is not
unsure decides the verdict of a step."""
COMPARED = tuple(SIDES)
PUBLISHED = {
    "cpu/o": "percent of host/operation",
    "cs/o": "switches/operation",
    "r/o": "reads/operation",
    "rKB/o": "KB/operation",
    "wKB/o": "KB/operation",
    "o/s": "operations/s",
}
"""The columns of a published per-operation table, in that order, with their units. The costs are those of the whole
host."""
THROUGHPUTS = (*(metric.name for metric in REGISTRY if metric.more_is_better), "o/s")
"""Metrics of which more is better; all others are costs."""

DESCRIBED: dict[str, pl.Expr] = {
    "table_position": pl.col("position"),
    "kind": pl.lit(None, pl.String),
    "range": pl.lit(None, pl.Int64),
    "group": pl.lit("", pl.String),
    "clients": pl.lit(None, pl.Int32),
}
"""Columns that describe a step, with their values in a frame that lacks them."""

USABLE = (
    (pl.col("operations").is_null() | (pl.col("operations") > 0))
    & (pl.col("errors") == 0)
    & (pl.col("operations_per_s") > 0)
)


def measured(study: Study, metrics: Iterable[str] = METRICS) -> pl.DataFrame:
    """One row per step, run and metric: `metric, value`, and for a duet the number of its `cycles`, and its `blocks`.

    Values of a duet are totals over its slices: operations / time of the slices, and CPU time in the slices /
    operations. Imported values of few rounds have the `usual_spread` of near-A/A pairs. A step with errors or no
    operations gives no value. Rows are in the order in which the steps were run, older versions before newer ones.
    Runs that differ in more than the dbms raise an error, and so does a name that is neither in `METRICS` nor a
    column of the study's steps, and a metric that only runs of another mode measured. A metric that no run of the
    study measured has no rows.
    """
    asked = list(metrics)
    for name in asked:
        if name not in METRICS and name not in study.steps.columns:
            raise RqpsError(f"no metric {name!r}", fix=instead(name, METRICS, "metrics"))
    values = _measured(study, tuple(dict.fromkeys([*METRICS, *asked]))).filter(pl.col("metric").is_in(asked))
    if values.is_empty():
        _refuse_other_modes(study, asked)
    return values


def _refuse_other_modes(study: Study, metrics: list[str]) -> None:
    """Raises an error if these runs measured none of the metrics, but runs of another mode measured all of them."""
    name, wanted = study.card.study, ", ".join(metrics)
    if study.card.rounds and set(study.runs["mode"]) == {COUNTED.mode} and INSTRUCTIONS not in metrics:
        fix = f'load its timed runs: rqps.load("{name}")'
        raise RqpsError(f"{name}: runs that count instructions do not measure {wanted}", fix=fix)
    if set(metrics) == {INSTRUCTIONS} and not load(study.place, mode=COUNTED.mode).runs.is_empty():
        fix = "take the rows of this metric from stats.relate(study), which has the counts"
        raise RqpsError(f"{name}: the timed runs did not measure {wanted}: other runs counted it", fix=fix)


@lru_cache(maxsize=2)  # sections of a page need the same values, or some of them
def _measured(study: Study, metrics: tuple[str, ...]) -> pl.DataFrame:
    # Runs that count instructions are left out, since callgrind slows them down.
    timed = study.runs.filter(pl.col("mode") != COUNTED.mode)["run"]
    steps = study.steps.lazy().filter(USABLE, pl.col("run").is_in(timed.implode()))
    values = tidy(steps.with_columns(**METRICS), metrics, study.runs)
    joined = values.join(_of_slices(study), on=["run", "step", "metric"], how="left", maintain_order="left")
    joined = joined.with_columns(pl.coalesce("of_slices", "value").alias("value")).drop("of_slices")
    if not has_few_rounds(study):
        return joined
    spreads = usual_spreads(near_pairs(joined, study.runs, study.steps)).select(*CELL, "usual_spread")
    return joined.join(spreads, on=CELL, how="left", maintain_order="left", nulls_equal=True)


def disturbed_cycles(study: Study) -> pl.LazyFrame:
    """One row per cycle of a duet, `unit, step, cycle`: `disturbed` is true if other processes or guests disturbed
    the cycle, and `left_out` is true if the values of all servers are computed without the cycle. Only the kernel's
    counters decide which cycles are left out: a choice by the cycle's ratio would bias the result."""
    outside, disturbed = pl.col("outside_us").sum() / pl.col("cpu_us").sum(), pl.col("disturbed")
    return (
        study.cycles.join(study.runs.lazy().select("run", "unit"), on="run")
        .group_by("unit", "step", "cycle")
        .agg(disturbed=outside > MOST_OUTSIDE)
        .with_columns(left_out=disturbed & (disturbed.mean().over("unit", "step") <= MOST_DISTURBED))
    )


def _of_slices(study: Study) -> pl.DataFrame:
    """The values of duets as totals over their slices, with the number of `cycles`, and with `blocks`: the share by
    which each block of consecutive cycles changes the value. Slices without a number of operations and disturbed
    cycles are left out.

    A block has the same cycles for all servers of a duet, so that a slowdown of the machine falls into the same block
    for all of them.
    """
    keys, cycle, busy, user = ["run", "step"], pl.col("cycle"), pl.col("busy_us"), pl.col("server_cpu_user_s")
    slices = study.slices.filter(pl.col("operations").is_not_null())
    of_steps = (
        slices.group_by(keys)
        .agg(cycles=cycle.max() + 1, total_us=busy.sum())
        .join(study.runs.lazy().select("run", "unit"), on="run")
        .join(study.steps.lazy().select(*keys, "elapsed_s", user_share=user / pl.col("server_cpu_s")), on=keys)
        .with_columns(width=(pl.col("cycles").max().over("unit", "step") / BLOCKS).ceil())
    )
    left_out = disturbed_cycles(study).filter("left_out")
    by_block = (
        slices.join(of_steps, on=keys)
        .join(left_out, on=["unit", "step", "cycle"], how="anti")
        .group_by(*keys, "cycles", "user_share", block=(cycle / pl.col("width")).floor())
        .agg(
            pl.col("operations").sum(),
            *(
                pl.when(pl.col(name).count() > 0).then(pl.col(name).sum())
                for name in ("client_cpu_us", "server_cpu_us")
            ),
            busy_s=(busy / pl.col("total_us") * pl.col("elapsed_s")).sum(),
        )
        .sort(*keys, "block")
        .collect()
    )
    frames = []
    for metric in REGISTRY:
        if metric.of_slices is not None:
            amount, per = metric.of_slices
            blocks = amount / amount.sum() - per / per.sum()
            totals = by_block.group_by(*keys, "cycles").agg(of_slices=amount.sum() / per.sum(), blocks=blocks)
            known = totals.filter(pl.col("of_slices").is_between(0, math.inf, "none"))
            frames.append(known.with_columns(metric=pl.lit(metric.name)))
    return pl.concat(frames)


def with_counts(values: pl.DataFrame, study: Study) -> pl.DataFrame:
    """The values of a study's metrics. If the study has counted instructions, these counts replace the instructions
    that the CPU's hardware counters measured, and have a `usual_spread`."""
    counted = load(study.place, mode="instructions")
    if study.card.base not in set(counted.runs["dbms"]):
        return values
    counts = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    counts = _with_spread_of_counts(counts.with_columns(metric=pl.lit(INSTRUCTIONS)))
    return pl.concat([values.filter(pl.col("metric") != INSTRUCTIONS), counts], how="diagonal")


def _with_spread_of_counts(counts: pl.DataFrame) -> pl.DataFrame:
    """Adds `usual_spread`: the larger of two standard deviations, the usual one of counts (`COUNTED`), and the one
    between a step's rounds, pooled over all dbms. The second is larger for writes, since their counts depend on purge
    and flushing. A difference that all dbms share in a round comes from the random values in its statements, and is
    removed first."""
    step, log = ("host", "step"), pl.col("value").log()
    # Two calls, since polars would compute a window inside another window over the groups of the outer one.
    of_dbms = counts.with_columns(off=log - log.mean().over(*step, "dbms"))
    left = of_dbms.with_columns(off=pl.col("off") - pl.col("off").mean().over(*step, "occasion", "round"))
    rounds = pl.struct("occasion", "round").n_unique().over(step)
    freedom = pl.len().over(step) - pl.col("dbms").n_unique().over(step) - rounds + 1
    spread = pl.when(freedom > 0).then(((pl.col("off") ** 2).sum().over(step) / freedom).sqrt())
    return left.with_columns(usual_spread=pl.max_horizontal(pl.lit(COUNTED.usual_spread), spread)).drop("off")


def instructions_per_operation(
    instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame, runs: pl.DataFrame
) -> pl.DataFrame:
    """One row per step and run whose instructions were counted: `metric, value`, as for other metrics."""
    sums = instructions.lazy().group_by("run", "step").agg(pl.col("instructions").sum()).collect()
    wide = usable(steps).join(sums, on=["run", "step"], how="inner", maintain_order="left")
    return tidy(wide.with_columns(COUNTED.value.alias(COUNTED.name)), [COUNTED.name], runs)


def usable(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that ran without errors and have a throughput above 0."""
    return steps.filter(USABLE)


def with_groups(frame: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The frame with the `group` and `kind` of its steps, as `steps` has them; null for a mean over several steps."""
    of_steps = steps.select("step", "group", "kind").unique("step", keep="first")
    return frame.join(of_steps, on="step", how="left", maintain_order="left")


def tidy(wide: pl.DataFrame | pl.LazyFrame, metrics: Iterable[str], runs: pl.DataFrame) -> pl.DataFrame:
    """Turns steps with one column per metric into one row per step, run and metric, with the `VERDICT_SETTINGS` of
    the study. Runs that are not `comparable` raise an error."""
    comparable(runs)
    names = sorted(metrics)
    metric = pl.col("metric").cast(pl.Enum(names)).to_physical()  # numbers are sorted faster than words
    columns = wide.lazy().collect_schema().names()
    missing = [of.alias(name) for name, of in DESCRIBED.items() if name not in columns]
    described = (
        wide.lazy()
        .with_columns(missing)
        .join(version_order(runs).lazy(), on="dbms")
        .join(judgeable(runs).lazy().select("run", *VERDICT_SETTINGS), on="run")
        .join(duets(runs).lazy(), on="run")
    )
    index = [*IDENTITY, "occasion", "step", "position", *DESCRIBED, *VERDICT_SETTINGS, "duet", "rank"]
    frames = (described.select(*index, metric=pl.lit(name), value=pl.col(name).cast(pl.Float64)) for name in names)
    return (
        pl.concat(frames)
        .filter(pl.col("value").is_finite())
        .sort("host", "position", metric, "rank", "round")
        .collect()
    )


def version_order(runs: pl.DataFrame) -> pl.DataFrame:
    """The `rank` of each dbms: older versions first, and the dbms of one version in the study's order."""
    numbers = pl.col("version").str.extract_all(r"\d+").cast(pl.List(pl.Int64))
    ordered = runs.with_columns(numbers=numbers).unique("dbms").sort("numbers", "listed", "dbms")
    return ordered.select("dbms").with_row_index("rank")


HOST_CPU_S = pl.sum_horizontal("^host_cpu_.*_s$")
"""CPU seconds of the host in all modes, idle included."""
SHOWN_BY_VMSTAT = (pl.col("second") - pl.col("interval_s") > -0.5) & (HOST_CPU_S > 0)
"""True for a row of `counters` whose interval begins after the warm-up: such rows correspond to lines of vmstat."""
LINES_BETWEEN_HEADERS = 21
"""Number of lines after which vmstat repeats its header, which the published average counts as a line of zeros."""


def vmstat_averages(cpu: str, switches: str) -> tuple[pl.Expr, pl.Expr]:
    """The averages over vmstat's lines as they are published: CPU in percent of all CPUs, which vmstat rounds to
    whole percents, and context switches per second."""
    lines = pl.len() + pl.len() // LINES_BETWEEN_HEADERS
    rounded = [(100 * pl.col(f"host_cpu_{mode}_s") / HOST_CPU_S + 0.5).floor() for mode in ("user", "system")]
    per_s = (pl.col("host_context_switches") / pl.col("interval_s")).round()
    return (rounded[0] + rounded[1]).sum().alias(cpu) / lines, per_s.sum().alias(switches) / lines
