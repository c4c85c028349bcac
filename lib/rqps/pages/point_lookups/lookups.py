"""Point lookups as published: response time relative to one lookup, the same for all kinds and numbers of clients."""

import math

import polars as pl

from rqps.errors import RqpsError
from rqps.stats.metrics import tidy, usable
from rqps.stats.relative import comparable
from rqps.stats.summary import estimates

KINDS = {
    "pk": "PK",
    "pk-force": "PK-force",
    "cover-noforce": "cover-noforce",
    "nocover-force": "nocover-force",
    "cover-force": "cover-force",
}
"""How the published study calls them."""
UNIT_KIND = "pk"
JUMP = 2.5
"""What is so many times as long as the next shorter one leaves no room for all others on one axis."""
ROOM = 1.15
_STEP = r"^(?<engine>[^.@]+)\.(?<kind>[^@]+)@(?<clients>\d+)$"
_KEYS = ("host", "step", "position", "engine", "kind", "kind_words", "clients", "dbms", "build", "config")


def response_times(steps: pl.DataFrame, runs: pl.DataFrame, base: str) -> pl.DataFrame:
    """One row a step and run: `me_value`, what a query took in µs, and its `ratio` to the unit of its engine.

    The unit is the PK query of the base from one client on the same engine, host and round. What a query took follows
    from how many were done in which time: each client waits for its answer before it asks again.
    """
    comparable(runs)
    times = _parts(_tidy(steps, runs, "response_time_us", pl.col("threads") * pl.col("elapsed_s") * 1e6))
    unit = _unit(times, base)
    keys = ["host", "engine", "round"]
    of_base = times.filter(pl.col("dbms") == base).join(unit, on=["engine", "kind", "clients"], how="semi")
    of_base = of_base.select(*keys, base="dbms", unit="step", base_value="value", base_run="run")
    paired = times.join(of_base, on=keys, how="inner", maintain_order="left")
    if paired.is_empty():
        raise RqpsError(
            f"no round has the lookups of its base {base!r} that all others are relative to",
            fix="run the study again: it measures what is missing",
        )
    return paired.select(
        *_KEYS,
        "round",
        "base",
        "unit",
        "base_value",
        pl.col("value").alias("me_value"),
        (pl.col("value") / pl.col("base_value")).alias("ratio"),
        "base_run",
        "run",
    )


def lookups_normalised(times: pl.DataFrame) -> pl.DataFrame:
    """The median ratio of the rounds with its interval; `cut` is where an axis is cut for the rest to be seen."""
    found = estimates(times, [*_KEYS, "base", "unit"], "ratio")
    ends = {key: cut_of(group["median"].to_list()) for key, group in found.group_by("host", "engine", "clients")}
    cuts = [ends[row] for row in found.select("host", "engine", "clients").iter_rows()]
    return found.with_columns(pl.Series("cut", cuts, dtype=pl.Float64))


def lookups_in_us(times: pl.DataFrame) -> pl.DataFrame:
    """The median response time of the rounds, in µs, with its interval."""
    return estimates(times, _KEYS, "me_value")


def generator_shares(steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The load generator's share of the CPU that it and the server used in a step: the median of the rounds."""
    comparable(runs)
    both = pl.col("client_cpu_s") + pl.col("server_cpu_s")
    share = pl.when(both > 0).then(pl.col("client_cpu_s") / both) * pl.col("operations")
    return estimates(_parts(_tidy(steps, runs, "generator_share", share)), _KEYS, "value")


def lookups_server_cpu(steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """What a query costs the server in µs of CPU: the median of the rounds."""
    comparable(runs)
    return estimates(_parts(_tidy(steps, runs, "server_cpu_us", pl.col("server_cpu_s") * 1e6)), _KEYS, "value")


def cut_of(values: list[float]) -> float | None:
    """Where to cut an axis: a bit above the last value before a jump, if that shows at least half of them.

    >>> cut_of([1.0, 1.2, 1.4, 90.0, 80.0]), cut_of([1.0, 1.2, 1.4]), cut_of([1.0, 80.0, 85.0])
    (1.7, None, None)
    """
    ordered = sorted(values)
    pairs = zip(ordered, ordered[1:], range(1, len(ordered)), strict=False)
    jumps = [low for low, high, below in pairs if 0 < low * JUMP <= high and 2 * below >= len(ordered)]
    return _up(jumps[0] * ROOM) if jumps else None


def _up(value: float) -> float:
    """To two digits, and never down."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return max(value, round(math.ceil(value / step) * step, 9))


def lookup_plans(plans: pl.DataFrame, warnings: pl.DataFrame) -> pl.DataFrame:
    """One row a kind, engine and way of reading: which dbms read so, and whether the kind is named for that."""
    differing = (
        warnings.filter(kind="plan").select("dbms", "step").unique().with_columns(pl.lit(True).alias("differs"))
    )
    read = pl.format(
        "{}{}{}",
        pl.col("key").fill_null("no index"),
        pl.format(", {}", "access").fill_null(""),
        # That a server looks at the row once more is of no interest, and not said by all releases.
        pl.format(", {}", pl.col("extra").str.replace(r"(^|; )Using where", "").str.strip_prefix("; "))
        .replace(", ", "")
        .fill_null(""),
    )
    known = _parts(plans).join(differing, on=["dbms", "step"], how="left", maintain_order="left")
    return (
        known.with_columns(read.alias("reads"), pl.col("differs").fill_null(False))
        .group_by("engine", "kind", "kind_words", "statement", "reads", "differs", maintain_order=True)
        .agg(pl.col("dbms").unique(maintain_order=True), pl.col("rows").max())
        .sort("engine", pl.col("kind").replace_strict(list(KINDS), range(len(KINDS))), maintain_order=True)
    )


def _tidy(steps: pl.DataFrame, runs: pl.DataFrame, name: str, total: pl.Expr) -> pl.DataFrame:
    return tidy(usable(steps).with_columns((total / pl.col("operations")).alias(name)), [name], runs)


def _parts(frame: pl.DataFrame) -> pl.DataFrame:
    """With the parts of a step's name as columns of their own."""
    groups = pl.col("step").str.extract_groups(_STEP)
    return frame.with_columns(groups.struct.unnest()).with_columns(
        pl.col("clients").cast(pl.Int32), pl.col("kind").replace(KINDS).alias("kind_words")
    )


def _unit(times: pl.DataFrame, base: str) -> pl.DataFrame:
    """Of each engine the step that all are relative to: PK from one client, or what comes nearest to it."""
    mine = times.filter(pl.col("dbms") == base).sort("clients", pl.col("kind") != UNIT_KIND, "position")
    return mine.unique("engine", keep="first", maintain_order=True).select("engine", "kind", "clients")
