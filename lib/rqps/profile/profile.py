"""All that the profiles of a study say, as frames that belong together; and what is said of a study without any."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from rqps.modes import Mode
from rqps.pages.flamegraph_breakdown.stack_findings import breakdown_findings
from rqps.profile.breakdown import BREAKDOWN, breakdown
from rqps.profile.operations import operation_costs
from rqps.profile.trees import flame_trees

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
