"""Time of a server's threads per operation: running, ready without a CPU, and waiting, by kind of wait."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import polars as pl

from rqps.engines import ENGINES, facts_of, table
from rqps.profile.broken_stacks import repaired
from rqps.profile.components import Patterns
from rqps.profile.connections import SERVING
from rqps.profile.costs import COSTS, by_stack, named_stacks
from rqps.stats.metrics import usable
from rqps.store.read import Study, load
from rqps.store.schemas import LOST, READY, RUNNING, SYSTEM_CALL, UNSEEN, WAITING

NO_CPU = "ready without a CPU"
OTHER_WAIT = "something else"
NOT_SEEN = "not seen"
"""Time of a thread that was off the CPU before its first recorded event, and time in which its events were lost."""
LEFT_OVER = "left over"
"""The clients' time minus the recorded time of the threads that serve them; it may be negative."""
SAMPLED = (
    "Waits were sampled from /proc, since switches of threads could not be recorded: a wait is known by its system "
    "call, without the server's functions. A wait for another thread may be for a row lock, a latch or the log; a "
    "wait for a socket may be for the client or for another session."
)
LEAST_RECORDED = 0.5
"""The waits of a round count only if perf recorded at least this share of the step, since the recorded waits are
scaled up to the whole step."""
_OF_EVENT = {RUNNING: "running", READY: NO_CPU, UNSEEN: NOT_SEEN, LOST: NOT_SEEN}
WORK = "work"
"""The kind of wait of a background thread that has no work; all engines share this name."""
DISK = "the disk"
_FOR_WORK = ("a sleep", "another thread", "the system")
_KEYS = ("host", "dbms", "round", "step")
_ENOUGH = pl.col("share") >= LEAST_RECORDED


class Wait(NamedTuple):
    """A kind of wait, and patterns of the functions that wait in this way: `*` matches anything."""

    name: str
    """The thing that a thread waits for."""
    colour: str
    server: Sequence[str] = ()
    library: Sequence[str] = ()
    calls: Sequence[str] = ()
    """System calls in which a thread that serves a client waits in this way, for stacks without functions."""
    last_resort: bool = False
    """True if the wait is given only to stacks in which no function matches another wait."""
    counted: bool = True
    """False for a wait that delays no statement: a wait for the next statement of the client, or for work."""


@cache
def waits(engine: str) -> tuple[Wait, ...]:
    """The waits of an engine, then the waits that are recognised by functions of the C library and are the same for
    all engines."""
    return tuple(Wait(**row) for row in (*(facts_of(engine).table("waits") or ()), *table(__package__, "waits")))


@cache
def wait_colours() -> dict[str, str]:
    """Maps each kind of wait of any engine to its colour."""
    return {wait.name: wait.colour for engine in ENGINES for wait in waits(engine)}


@cache
def idle_waits() -> tuple[str, ...]:
    """The kinds of waits that delay no statement, such as waits for work."""
    return tuple({wait.name: None for engine in ENGINES for wait in waits(engine) if not wait.counted})


@cache
def _patterns(engine: str) -> tuple[Patterns, ...]:
    return tuple(
        Patterns(
            (pattern, row.name)
            for row in waits(engine)
            for pattern in (*row.server, *row.library)
            if row.last_resort == last_resort
        )
        for last_resort in (False, True)
    )


@cache
def _of_calls(engine: str) -> dict[str, str]:
    return {call: row.name for row in waits(engine) for call in row.calls}


def wait_of(engine: str, stack: Sequence[str]) -> str:
    """The kind of wait of a thread with this stack. `stack` has the role of the thread, then readable names of
    functions, root first.

    The innermost function that matches a wait decides; waits of last resort count only if no other wait matches. A
    background thread that only sleeps, or waits for another thread or the system, counts as waiting for work. So does
    a background thread that was sampled in any wait but for the disk.

    >>> [wait_of(ENGINES[0], [role, "clock_nanosleep"]) for role in ("connection", "io")]
    ['a sleep', 'work']
    """
    is_sampled = len(stack) > 2 and stack[1] == SYSTEM_CALL
    if is_sampled and stack[0] in SERVING and (wait := _of_calls(engine).get(stack[2])):
        return wait
    of_engine, of_library = ([known.find(name) for name in reversed(stack[1:])] for known in _patterns(engine))
    if wait := next(filter(None, of_engine), None):
        return wait
    wait = next(filter(None, of_library), OTHER_WAIT)
    is_for_work = wait != DISK if is_sampled else wait in _FOR_WORK
    return WORK if is_for_work and stack[0] not in SERVING else wait


def time_costs(
    stacks: pl.DataFrame | pl.LazyFrame, threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """Thread time in µs per operation by stack, in the columns `COSTS`. A stack is the role of a thread, the kind of
    its time, and the functions in which the thread left the CPU. The component of a row is the kind of time.

    The rows contain all time of all threads that ran in the step, without the rounds in which less than
    `LEAST_RECORDED` of the step was recorded. `threads` and `steps` are of the same runs.
    """
    per_ns = 1 / pl.col("share") / 1e3 / pl.col("operations")
    scale = _shares(threads, steps).filter(_ENOUGH).select("run", "step", per_ns=per_ns)
    every = stacks.lazy().collect()
    off = repaired(every.filter(pl.col("event").is_in([WAITING, READY])))
    rest = every.filter(pl.col("event").is_in([RUNNING, UNSEEN, LOST]))
    rows, named = named_stacks(pl.concat([off.drop("ending", strict=False), rest]))
    distinct = rows.select("engine", "number", "event").unique(maintain_order=True)
    kinds = [
        _OF_EVENT.get(event) or wait_of(engine, named["stack"][number])
        for engine, number, event in distinct.iter_rows()
    ]
    distinct = distinct.with_columns(kind=pl.Series(kinds, dtype=pl.String))
    rows = rows.join(distinct, on=["engine", "number", "event"]).join(scale, on=["run", "step"])
    of_kind = rows.select("number", "kind").unique(maintain_order=True).with_row_index("with_kind")
    below = named[of_kind["number"]]["stack"]
    role, functions = below.list.first(), below.list.slice(1)
    stack = pl.DataFrame({"role": role, "kind": of_kind["kind"], "functions": functions})
    stack = stack.select(pl.concat_list("role", "kind", "functions").alias("stack"), component="kind")
    costs = rows.join(of_kind, on=["number", "kind"]).with_columns(
        cost=pl.col("weight") * pl.col("per_ns"), samples=pl.col("samples").cast(pl.Float64)
    )
    return by_stack(costs.drop("number").rename({"with_kind": "number"}), stack)


def _shares(threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The usable steps with the `share` of their time that perf recorded."""
    recorded = threads.lazy().group_by("run", "step").agg(recorded_s=pl.col("elapsed_s").max()).collect()
    share = pl.col("recorded_s").fill_null(0) / pl.col("elapsed_s")
    return usable(steps).join(recorded, on=["run", "step"], how="left").with_columns(share=share)


def left_out(study: Study) -> pl.DataFrame:
    """The steps and dbms with rounds whose waits do not count, since less than `LEAST_RECORDED` of the step was
    recorded: the number of these rounds (`left_out`) and of all rounds (`n`)."""
    recorded = load(study.place, mode="waits")
    shares = _shares(recorded.threads, recorded.steps).sort("host", "step", "dbms")
    rounds = shares.group_by("host", "step", "dbms", maintain_order=True).agg(left_out=(~_ENOUGH).sum(), n=pl.len())
    return rounds.filter(pl.col("left_out") > 0)


@lru_cache(maxsize=2)
def time_of_threads(study: Study) -> pl.DataFrame:
    """The time of a study's threads by state, as rows of `time_costs`, from the rounds that recorded waits. A thread
    runs on a CPU, is ready but has no CPU, or waits; time in an unknown state is `NOT_SEEN`."""
    recorded = load(study.place, mode="waits")
    if recorded.runs.is_empty():
        return pl.DataFrame(schema=COSTS)
    return time_costs(recorded.stacks, recorded.threads, recorded.steps)


def sampling_note(study: Study) -> list[str]:
    """The sentence `SAMPLED` if waits of the study were sampled, otherwise nothing."""
    return [SAMPLED] if time_of_threads(study)["stack"].list.contains(SYSTEM_CALL).any() else []


def waiting(costs: pl.DataFrame) -> pl.DataFrame:
    """The rows of waits that delay a statement: without time on a CPU, ready for a CPU or not recorded, and without
    idle waits."""
    not_counted = [*_OF_EVENT.values(), *idle_waits()]
    return costs.filter(~pl.col("component").is_in(not_counted))


def time_of_clients(study: Study) -> pl.DataFrame:
    """Time of the threads that serve clients, by kind, in µs per operation, mean of the rounds.

    The kinds of one step and dbms sum to elapsed time * clients / operations. The kind `left over` is the difference
    between this sum and the recorded time.
    """
    costs = time_of_threads(study).filter(pl.col("stack").list.first().is_in(SERVING))
    cells = list(_KEYS)
    by_kind = costs.group_by(*cells, kind="component").agg(us=pl.col("cost").sum())
    steps = usable(load(study.place, mode="waits").steps)
    all_us = pl.col("elapsed_s") * pl.col("clients") * 1e6 / pl.col("operations")
    clients = steps.select(*cells, all_us=all_us).join(by_kind, on=cells, how="semi")
    left = clients.join(by_kind.group_by(cells).agg(pl.col("us").sum()), on=cells).select(
        *cells, kind=pl.lit(LEFT_OVER), us=(pl.col("all_us") - pl.col("us")).round(6) + 0.0
    )
    rounds = pl.concat([by_kind, left]).join(clients, on=cells)
    cell = ["host", "step", "dbms"]
    count = clients.group_by(cell).agg(n=pl.len(), all_us=pl.col("all_us").mean())
    means = rounds.group_by(*cell, "kind").agg(pl.col("us").sum()).join(count, on=cell)
    means = means.with_columns(us=pl.col("us") / pl.col("n")).with_columns(share=pl.col("us") / pl.col("all_us"))
    order = [RUNNING, NO_CPU, *wait_colours(), OTHER_WAIT, NOT_SEEN, LEFT_OVER]
    place = pl.col("kind").replace_strict({kind: place for place, kind in enumerate(order)}, return_dtype=pl.Int32)
    return means.sort(*cell, place)
