"""Cost of an operation by call stack: the stacks of a step add up to its measured CPU time, or its instructions.

Counted instructions are the work of the server's own code for a statement. CPU time also depends on the cost of an
instruction (cache misses, waits for memory), and includes the kernel's work, the server's work around a statement,
and its background threads.
"""

from functools import cache
from typing import Any

import polars as pl

from rqps.profile.broken_stacks import repaired
from rqps.profile.components import INLINED_MARK, KERNEL_MARK, OTHER, claim, renames
from rqps.profile.names import of_the_c_library, readable
from rqps.stats.metrics import COUNTED, usable
from rqps.store.schemas import INLINED

_COLUMNS: dict[str, Any] = {  # `Any`, since the class of polars's types is not public
    "host": pl.String,
    "dbms": pl.String,
    "engine": pl.String,
    "round": pl.Int32,
    "step": pl.String,
    "stack": pl.List(pl.String),  # readable names, root first
    "component": pl.String,
    "samples": pl.Float64,  # null for counted instructions
    "cost": pl.Float64,  # µs of CPU, or instructions, per operation
}
COSTS = pl.Schema(_COLUMNS)
NOT_SAMPLED = "[not sampled]"
"""The only stack of a step that ended before any sample was taken."""

_KEYS = ("host", "dbms", "round", "step")
_NAMELESS, _KERNEL = "[unknown]", "[kernel"
_ROWS_AT_A_TIME = 200_000
"""Maximum number of stacks that are processed at once, to limit memory: a study may have a million stacks."""


def stack_costs(stacks: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """µs of CPU per operation by stack: the stack's share of the samples' weight, times the step's CPU time.

    `steps` are the steps of the same runs. A step with errors or without operations gives no cost.
    """
    measured = _per_operation(steps, pl.col("server_cpu_s") * 1e6)
    rows, named = named_stacks(repaired(_inlined_in_all(stacks.lazy().collect())))
    weighed = rows.join(measured.drop("engine"), on=["run", *_KEYS], maintain_order="left")
    weight = pl.when(pl.col("weight").sum().over("run", "step") > 0).then("weight").otherwise("samples")
    share = weight / weight.sum().over("run", "step")
    costs = weighed.with_columns(cost=share * pl.col("per_operation"), samples=pl.col("samples").cast(pl.Float64))
    missing = measured.join(costs, on=["run", "step"], how="anti").with_columns(
        number=pl.lit(named.height, pl.UInt32), samples=pl.lit(0.0), cost=pl.col("per_operation")
    )
    not_sampled = pl.DataFrame({"stack": [[NOT_SAMPLED]], "component": [OTHER]})
    columns = [*_KEYS, "engine", "number", "samples", "cost"]
    return by_stack(pl.concat([costs.select(columns), missing.select(columns)]), pl.concat([named, not_sampled]))


def instruction_costs(instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Counted instructions per operation by stack; `steps` are the steps of the same runs."""
    columns = ["run", *_KEYS, "engine", "role", "frames", "modules", "instructions"]
    rows, named = named_stacks(instructions.lazy().filter(pl.col("instructions") > 0).select(columns).collect())
    per_operation = _per_operation(steps, pl.lit(1.0)).select("run", "step", "per_operation")
    counted = rows.join(per_operation, on=["run", "step"], maintain_order="left")
    cost = pl.col("instructions") * pl.col("per_operation")
    return by_stack(counted.with_columns(cost=cost, samples=pl.lit(None, pl.Float64)), named)


def as_measured(costs: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """Scales costs so that an operation costs what the ordinary rounds measured; the stacks keep their shares.

    `operations` has a row per host, step, base and dbms with `base_estimate` and `me_estimate`. Each dbms has one
    factor for all rounds of a step, so the relative spread between rounds is unchanged. Steps without ordinary rounds
    are not scaled.
    """
    cell = ["host", "step", "dbms"]
    sides = ({"dbms": "base", "measured": "base_estimate"}, {"dbms": "dbms", "measured": "me_estimate"})
    measured = pl.concat(operations.select("host", "step", **side) for side in sides).unique(cell, keep="first")
    profiled = costs.group_by(cell).agg(profiled=pl.col("cost").sum() / pl.col("round").n_unique())
    factors = profiled.join(measured, on=cell).select(*cell, factor=pl.col("measured") / pl.col("profiled"))
    scaled = costs.join(factors, on=cell, how="left", maintain_order="left")
    return scaled.with_columns(cost=pl.col("cost") * pl.col("factor").fill_null(1.0)).drop("factor")


@cache
def frame_name(engine: str, raw: str, in_kernel: bool) -> str:
    """The readable name of a function; an older name is replaced by the current one.

    >>> from rqps.engines import ENGINES
    >>> frame_name(ENGINES[0], "mutex_lock", True), frame_name(ENGINES[0], "hash(char const*) (inlined)", False)
    ('mutex_lock_[k]', 'hash_[i]')
    """
    if raw.endswith(INLINED):
        return frame_name(engine, raw.removesuffix(INLINED), in_kernel) + INLINED_MARK
    name = readable(raw)
    if in_kernel:
        return name + KERNEL_MARK
    name = of_the_c_library(name)
    of_engine = renames(engine)
    if name in of_engine.new_name:
        return of_engine.new_name[name]
    owner, colons, rest = name.partition("::")
    return of_engine.new_class.get(owner, owner) + colons + rest if colons else name


def _per_operation(steps: pl.DataFrame, total: pl.Expr) -> pl.DataFrame:
    return usable(steps).select("run", *_KEYS, "engine", (total / pl.col("operations")).alias("per_operation"))


def _inlined_in_all(stacks: pl.DataFrame) -> pl.DataFrame:
    """The stacks without inlined functions, unless all runs have inlined functions. Without debug information, the
    cost of an inlined function counts for the function that contains it, so runs with and without debug information
    could not be compared."""
    inlined = pl.element().str.ends_with(INLINED)
    have = stacks.filter(pl.col("frames").list.eval(inlined).list.any())["run"].n_unique()
    if have in (0, stacks["run"].n_unique()):
        return stacks
    places = pl.col("frames").list.eval((~inlined).arg_true())
    return stacks.with_columns(pl.col("frames", "modules").list.gather(places))


def named_stacks(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two frames: the rows, each with the number of its readable stack in place of its frames; and the readable
    stacks with their components, in the order of these numbers.

    Most rows repeat the frames of other rows (96 % of the rows of counted instructions), so each distinct stack is
    parsed once.
    """
    frames = ["role", "frames", "in_kernel"]
    # Lists of numbers are grouped in half the time of lists of names.
    in_kernel = pl.element().str.starts_with(_KERNEL).fill_null(False)
    numbered = rows.select(
        "engine",
        "role",
        pl.col("frames").cast(pl.List(pl.Categorical)),
        in_kernel=pl.col("modules").list.eval(in_kernel),
    )
    groups = numbered.with_row_index("row").group_by("engine", *frames, maintain_order=True).agg("row")
    different = groups.with_columns(pl.col("frames").cast(pl.List(pl.String)))
    stacks = [pl.DataFrame(schema={"stack": COSTS["stack"], "component": pl.String, "row": different.schema["row"]})]
    # Each engine names functions in its own way.
    for of_engine in different.partition_by("engine", maintain_order=True):
        for part in of_engine.iter_slices(_ROWS_AT_A_TIME):
            stacks.append(_stacks_of(part["engine"][0], part.select(frames)).hstack(part.select("row")))
    named = pl.concat(stacks).group_by("stack", "component", maintain_order=True).agg(pl.col("row").list.explode())
    numbers = named.with_row_index("number").select("number", "row").explode("row").drop_nulls().sort("row")
    return rows.drop("role", "frames", "modules").with_columns(numbers["number"]), named.drop("row")


def by_stack(rows: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """The costs of all operations by stack; `rows` has the number of each stack in `named`."""
    # The rows of an operation follow one another, and a number is grouped and sorted faster than five names.
    keys = [*_KEYS, "engine"]
    is_first = rows.select(pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift()) for key in keys)).to_series()
    firsts = rows.filter(is_first).select(keys)
    known = firsts.unique().sort(keys)
    place = firsts.join(known.with_row_index("place"), on=keys, how="left", maintain_order="left")["place"]
    numbered = rows.select("number", "samples", "cost", place[is_first.cum_sum() - 1])
    samples = pl.when(pl.col("samples").is_not_null().all()).then(pl.col("samples").sum())
    costs = numbered.group_by("place", "number", maintain_order=True).agg(samples, pl.col("cost").sum())
    # The order is fixed: the last digit of later sums depends on the order of rows, and ranks depend on the sums.
    costs = costs.sort("place", "cost", descending=[False, True], maintain_order=True)
    named_costs = costs.hstack(known[costs["place"]]).hstack(named[costs["number"]])
    return named_costs.select(pl.col(name).cast(kind) for name, kind in COSTS.items())


def _stacks_of(engine: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The readable `stack` of each row of `role, frames, in_kernel`, root first, and its `component`.

    A stack begins with the role of its thread. So that stacks of two releases can be compared, frames are left out
    that only some releases have: those that the engine's `renames.yaml` lists under `starts` or `layers`, and callers
    that have no name or are listed under `passed`.
    """
    numbered = frame.with_row_index("row")
    long = numbered.select("row", "frames", "in_kernel").explode("frames", "in_kernel").drop_nulls("frames")
    # Each name is looked up as a kernel function and as a program's function; then numbers replace the names.
    raw = long["frames"].unique()
    place = pl.col("frames").cast(pl.Enum(raw)).to_physical().cast(pl.UInt32)
    known = _known(engine, [(name, kernel) for name in raw for kernel in (False, True)])
    long = long.select("row", number=place * 2 + pl.col("in_kernel"))
    long = pl.concat([long, known[long["number"]]], how="horizontal").filter(~pl.col("left_out"))
    # Leaves out unnamed callers, and `passed` callers, which only some builds have in otherwise equal stacks.
    is_caller = pl.col("row") == pl.col("row").shift(-1)
    long = long.filter(~(pl.col("passed") & is_caller.fill_null(False)))
    # If caller and callee have two raw names that became one readable name, they count as one function; if the raw
    # names are equal, the function calls itself.
    again = (
        (pl.col("row") == pl.col("row").shift(1))
        & (pl.col("same") == pl.col("same").shift(1))
        & (pl.col("number") != pl.col("number").shift(1))
    )
    same_side = pl.col("kernel") == pl.col("kernel").last()
    stacks = (
        long.filter(~again.fill_null(False))
        .group_by("row", maintain_order=True)
        .agg("name", *(pl.col(column).filter(same_side).drop_nulls().last() for column in ("component", "last")))
    )
    readable_rows = numbered.select("row", "role").join(stacks, on="row", how="left", maintain_order="left")
    below = pl.col("name").fill_null(pl.lit([], pl.List(pl.String)))
    return readable_rows.select(
        pl.concat_list("role", below).alias("stack"),
        pl.coalesce("component", "last", pl.lit(OTHER)).alias("component"),
    )


def _known(engine: str, raw: list[tuple[str, bool]]) -> pl.DataFrame:
    """One row per raw name: its readable name; flags for kernel functions, names that are left out, and `passed`
    callers; its component, and the component of last resort (`last`). Equal readable names have the same number
    `same`."""
    table = renames(engine)
    left_out, passed = {*table.starts, *table.layers}, {_NAMELESS, *table.passed}
    columns = [
        (name, kernel, bare in left_out, bare in passed, claim(engine, name), claim(engine, name, True))
        for name, kernel in ((frame_name(engine, text, kernel), kernel) for text, kernel in raw)
        for bare in [name.removesuffix(INLINED_MARK)]
    ]
    flags = dict.fromkeys(("kernel", "left_out", "passed"), pl.Boolean)
    schema = {"name": pl.String, **flags, "component": pl.String, "last": pl.String}
    return pl.DataFrame(columns, schema=schema, orient="row").with_columns(pl.col("name").rank("dense").alias("same"))


def most_expensive_functions(
    instructions: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame, most: int = 10
) -> pl.DataFrame:
    """The functions of each run and step that execute most instructions themselves: instructions and calls per
    operation, and the share of all instructions."""
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
            (pl.col("instructions").sum() / operations).alias(COUNTED.name),
            (pl.col("calls").sum() / operations).alias("calls_per_operation"),
        )
        .with_columns((pl.col(COUNTED.name) / pl.col(COUNTED.name).sum().over("run", "step")).alias("share"))
        .sort("run", "position", COUNTED.name, "function", descending=[False, False, True, False])
        .group_by("run", "step", maintain_order=True)
        .head(most)
        .select("run", "step", "function", COUNTED.name, "share", "calls_per_operation")
    )


def function_changes(costs: pl.DataFrame, before: str, after: str) -> pl.DataFrame:
    """The cost of each function itself, without its callees, in two dbms, the largest change first. `costs` has the
    costs by stack.

    One row per step and function: the cost `before`, `after`, and their `change`. All functions of a step add up to
    the whole step.
    """
    names = {before: "before", after: "after"}
    rounds = pl.col("round").n_unique().over("step", "dbms")
    own = costs.filter(pl.col("dbms").is_in(list(names))).with_columns(
        pl.col("dbms").replace(names), function=pl.col("stack").list.last(), cost=pl.col("cost") / rounds
    )
    both = own.group_by("step", "function").agg(
        *(pl.col("cost").filter(dbms=name).sum().alias(name) for name in names.values())
    )
    changed = both.with_columns(change=pl.col("after") - pl.col("before"))
    return changed.sort("step", pl.col("change").abs(), "function", descending=[False, True, False])
