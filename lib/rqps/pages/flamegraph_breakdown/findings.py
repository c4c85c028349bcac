"""The profiles of a study as frames that belong together, and their findings in sentences."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from rqps.profile.breakdown import BREAKDOWN, MICROSECONDS, breakdown, operation_costs
from rqps.profile.components import OTHER
from rqps.profile.tree import flame_trees
from rqps.stats.interval import ROUNDS_FOR_A_VERDICT
from rqps.study import Mode

MOST_PARTS = 4
MOST_FUNCTIONS = 1
WORTH_TELLING = 0.02
"""Of the whole difference: where instructions are counted, the smallest part is certain, and no answer."""

Row = dict[str, Any]


_TRY = {
    "stacks": "Give it stacks_rounds: 4 in runs.yaml and run it again: only what is missing is measured.",
    "instructions": "Give it instructions_rounds: 1 in runs.yaml and run it again: no special hardware is needed.",
}
_WHAT = {"stacks": "sampled stacks", "instructions": "counted instructions"}


class Profile(NamedTuple):
    """One row an operation, a component, a function and a frame of the call tree, each against the base."""

    operations: pl.DataFrame
    components: pl.DataFrame
    functions: pl.DataFrame
    trees: pl.DataFrame


def profile(costs: pl.DataFrame, base: str) -> Profile:
    """Break costs down in all ways. Where there is nothing to compare, the frames have no rows."""
    if base not in set(costs["dbms"]):
        costs = costs.clear()
    if costs.is_empty():
        none = pl.DataFrame(schema=BREAKDOWN)
        operations = operation_costs(none).with_columns(pl.lit("").alias("finding"))
        return Profile(operations, none, none, pl.DataFrame())
    components, functions = breakdown(costs, base), breakdown(costs, base, "function")
    told = pl.Series("finding", breakdown_findings(components, functions), pl.String)
    operations = operation_costs(components).with_columns(told)
    return Profile(operations, components, functions, flame_trees(costs, base))


def profile_findings(operations: pl.DataFrame, mode: Mode, failed: pl.DataFrame | None = None) -> tuple[str, ...]:
    """What the greatest difference of each step is made of, or how to get a study that tells.

    `failed` are the study's runs that failed: it is said why, as where profiling is forbidden.
    """
    missing = () if failed is None else tuple(_missing(failed.filter(mode=mode), mode))
    if operations.is_empty():
        none = f"This study has no {_WHAT[mode]} of a dbms and of its base."
        return (none, *missing) if missing else (f"{none} {_TRY[mode]}",)
    changed = (pl.col("me_cost") / pl.col("base_cost")).log().abs()
    greatest = operations.sort(changed, descending=True, maintain_order=True).unique(["host", "step"], keep="first")
    order = operations["step"].unique(maintain_order=True).to_list()
    return (*greatest.sort(pl.col("step").replace_strict(order, range(len(order))))["finding"], *missing)


def _missing(failed: pl.DataFrame, mode: Mode) -> Iterator[str]:
    for (error,), tries in failed.group_by("error", maintain_order=True):
        runs = ", ".join(tries["run"].unique(maintain_order=True))
        yield f"Without {_WHAT[mode]}, since they failed: {runs}. {error}"


def most_changed_part(parts: pl.DataFrame) -> tuple[str, str, str]:
    """The step, dbms and component with the surest great difference: the number to check first."""
    sure = (pl.col("difference").abs() - pl.col("error")) / pl.col("base_measured")
    row = parts.sort(sure, descending=True, maintain_order=True)
    return (row["step"][0], row["dbms"][0], row["part"][0]) if parts.height else ("", "", "")


def part_from(costs: pl.DataFrame, steps: pl.DataFrame, step: str, dbms: tuple[str, ...], part: str) -> pl.DataFrame:
    """The rounds behind the cost of a component: its samples of all samples, times what the step measured."""
    whole = costs.filter(pl.col("dbms").is_in(dbms), step=step)
    keys = ["dbms", "round"]
    sums = whole.group_by(*keys, maintain_order=True).agg(
        pl.col("samples", "cost").filter(pl.col("component") == part).sum().name.prefix("its_"),
        pl.col("samples", "cost").sum().name.prefix("all_"),
    )
    raw = steps.filter(step=step).select("run", *keys, "operations", "server_cpu_s")
    return sums.join(raw, on=keys, how="left", maintain_order="left").select(
        "run", "operations", "server_cpu_s", "its_samples", "all_samples", "its_cost", "all_cost"
    )


def breakdown_findings(parts: pl.DataFrame, functions: pl.DataFrame | None = None) -> tuple[str, ...]:
    """A few sentences for every step and dbms of a breakdown by component, the largest parts first.

    With a breakdown by `functions` each part names those of its own that changed most.
    """
    hosts = parts["host"].unique(maintain_order=True).to_list()
    keys = ["host", "step", "dbms"]
    said = []
    for (host, step, dbms), rows in parts.group_by(keys, maintain_order=True):
        own = [] if functions is None else functions.filter(host=host, step=step, dbms=dbms).to_dicts()
        where = f"On {host}, {step}" if len(hosts) > 1 else step
        said.append(f"{where}: {' '.join(_told(rows.to_dicts(), own))}")
    return tuple(said)


def _told(rows: list[Row], functions: list[Row]) -> Iterator[str]:
    of = rows[0]
    difference, error = of["me_measured"] - of["base_measured"], of["measured_error"]
    sampled = of["unit"] == MICROSECONDS
    short = "µs" if sampled else "instructions"
    rounds = f"{of['n']} round{'s' if of['n'] > 1 else ''}"
    me, base = _plain(of["me_measured"], error), _plain(of["base_measured"], error)
    unit = "µs of server CPU" if sampled else short
    means = f"means of {rounds}" if of["n"] > 1 else rounds
    yield f"an operation costs {of['dbms']} {me} {unit}, and {of['base']} {base} ({means})."
    if abs(difference) <= error:
        yield f"The difference, {_signed(difference, error)} {short}, is within its error."
        return
    way = "more" if difference > 0 else "less"
    told = [row for row in rows if _is_told(row) and abs(row["difference"]) >= WORTH_TELLING * abs(difference)]
    same_way = [row for row in told if (row["difference"] > 0) == (difference > 0)][:MOST_PARTS]
    back = [row for row in told if (row["difference"] > 0) != (difference > 0)][:MOST_PARTS]
    rest = _rest(rows, [*same_way, *back], difference, error)
    size = f"{_plain(abs(difference), error)} ± {_plain(error, error)} {short} {way}"
    if same_way and back:
        # A part may be larger than what remains of it in the whole.
        more = _listed([f"{_size(row)} {way} for {_part(row, functions)}" for row in same_way])
        less = _listed([f"{_size(row)} {'less' if way == 'more' else 'more'} for {row['part']}" for row in back])
        yield f"That is {size}: {more}; and {less}{rest}."
    elif same_way:
        first, *others = same_way
        parts = [f"{_size(row)} {_part(row, functions)}" for row in others]
        yield f"Of the {size}, {_listed([f'{_size(first)} are {_part(first, functions)}', *parts])}{rest}."
    else:
        yield f"No part of the {size} can be told from chance."
    if sampled and of["n"] < ROUNDS_FOR_A_VERDICT:
        yield f"With {rounds} these are no verdicts: it takes {ROUNDS_FOR_A_VERDICT}."


def _rest(rows: list[Row], named: list[Row], difference: float, error: float) -> str:
    """What the parts that are not named come to, so that nobody takes those that are for all."""
    others = [row for row in rows if row not in named and row["difference"]]
    sum_ = sum(row["difference"] for row in others)
    if abs(sum_) < max(error, WORTH_TELLING * abs(difference)):
        return ""
    other, come = ("another part", "comes") if len(others) == 1 else (f"{len(others)} other parts", "come")
    return f"; {other} {come} to {_plain(abs(sum_), error)} {'more' if sum_ > 0 else 'less'}"


def _is_told(row: Row) -> bool:
    """A finding; of too few rounds, what would be one. What belongs nowhere is no answer."""
    sure = row["verdict"] in ("slower", "faster")
    few = row["unit"] == MICROSECONDS and row["n"] < ROUNDS_FOR_A_VERDICT
    return row["part"] != OTHER and (sure or (few and abs(row["difference"]) > row["error"]))


def _part(row: Row, functions: list[Row]) -> str:
    """`performance schema (most in pfs_end_statement_vc, 1.2 ± 0.3)`."""
    mine = [each for each in functions if each["component"] == row["part"] and _is_told(each)]
    mine = [each for each in mine if (each["difference"] > 0) == (row["difference"] > 0)][:MOST_FUNCTIONS]
    named = ", ".join(f"{each['part']}, {_size(each)}" for each in mine)
    return str(row["part"]) + (f" (most in {named})" if named else "")


def _size(row: Row) -> str:
    return f"{_plain(abs(row['difference']), row['error'])} ± {_plain(row['error'], row['error'])}"


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _signed(value: float, error: float) -> str:
    return f"{'−' if value < 0 else '+'}{_plain(abs(value), error)} ± {_plain(error, error)}"


def _plain(value: float, error: float) -> str:
    """With as many digits as the error has any use for.

    >>> _plain(12.345, 0.42), _plain(0.0123, 0.004), _plain(12345.6, 87.0)
    ('12.3', '0.012', '12,346')
    """
    digits = 3 if error <= 0 else max(0, min(3, -math.floor(math.log10(error))))
    return f"{value:,.{digits}f}"
