"""The profile of a study, and its findings as sentences: each number with its error, the largest first."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from rqps.profile.breakdown import BREAKDOWN, MICROSECONDS, OPERATIONS, breakdown, operation_costs
from rqps.profile.call_tree import flame_trees
from rqps.profile.components import OTHER
from rqps.profile.costs import COSTS, instruction_costs, stack_costs
from rqps.profile.pair import ASSUMED
from rqps.show import Nothing, Row, Sentences
from rqps.stats.verdict import ROUNDS_FOR_A_VERDICT
from rqps.store.read import Study, load
from rqps.study import SMALLEST_EFFECT, Mode

MOST_PARTS = 4
MOST_FUNCTIONS = 1
WORTH_NAMING = 0.02
"""The least share of the whole difference: of counted instructions the smallest part is certain, and no answer."""

_ADVICE = {
    "stacks": "Give it stacks_rounds: 4 in runs.yaml and run it again: only what is missing is measured.",
    "instructions": "Give it instructions_rounds: 4 in runs.yaml and run it again: no special hardware is needed.",
}
_NAMES: dict[Mode, str] = {"stacks": "sampled stacks", "instructions": "counted instructions"}


class Profile(NamedTuple):
    """The profile of a study: its findings, and a frame each of operations, components, functions and call trees."""

    findings: Sentences
    costs: pl.DataFrame
    operations: pl.DataFrame
    components: pl.DataFrame
    functions: pl.DataFrame
    trees: pl.DataFrame


def profile(study: Study, mode: Mode) -> Profile:
    """The costs that a study's runs of that mode sampled or counted, each broken down against the base."""
    if mode == "stacks":
        costs = stack_costs(study.stacks, study.steps)
    else:
        costs = instruction_costs(study.instructions, study.steps)
    return profile_of(costs, study.card.base, mode, study.failed, study.card.smallest_effect)


def profile_of(
    costs: pl.DataFrame,
    base: str,
    mode: Mode,
    failed: pl.DataFrame | None = None,
    smallest_effect: float = SMALLEST_EFFECT,
) -> Profile:
    """The same of costs that are known, with the errors of runs that failed."""
    if base not in set(costs["dbms"]):
        components = functions = pl.DataFrame(schema=BREAKDOWN)
        operations, trees, costs = pl.DataFrame(schema=OPERATIONS), pl.DataFrame(), pl.DataFrame(schema=COSTS)
    else:
        components = breakdown(costs, base, smallest_effect=smallest_effect)
        functions = breakdown(costs, base, "function", smallest_effect)
        operations = operation_costs(costs, base, smallest_effect)
        trees = flame_trees(costs, base)
    findings = pl.Series("finding", breakdown_findings(components, functions), pl.String)
    operations = operations.with_columns(findings)
    found = profile_findings(operations, mode, failed)
    in_short = Nothing(found) if operations.is_empty() and len(found) == 1 else Sentences(found)
    return Profile(in_short, costs, operations, components, functions, trees)


def parts_of(study: Study, step: str, base: str, dbms: str) -> str:
    """The parts of one difference, sampled or else counted, with their functions; empty where neither was done."""
    for components, functions in _parts_of(study, [(step, dbms)], base):
        found = _with_error(components).to_dicts()
        _, *sentences = _sentences(found, _with_error(functions).to_dicts())
        sentences += [ASSUMED] * (found[0]["n"] == 1)
        return re.sub(r" µs (more|less)", r" µs of server CPU \1", " ".join(sentences), count=1)
    return ""


def changed_parts(study: Study, cells: Sequence[tuple[str, str]]) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """Components and functions of these steps and dbms, sampled or else counted; None where neither was done."""
    return next(_parts_of(study, cells, study.card.base), None)


def _parts_of(
    study: Study, cells: Sequence[tuple[str, str]], base: str
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """The breakdown of these cells by component and by function, once for each mode that profiled any of them."""
    of_me = pl.DataFrame(cells, schema=["step", "dbms"], orient="row")
    wanted = pl.concat([of_me, of_me.with_columns(dbms=pl.lit(base))]).unique().lazy()
    for mode in _NAMES:
        profiled = load(study.place, mode=mode)
        steps = profiled.steps.join(wanted.collect(), on=["step", "dbms"], how="semi")
        if base not in set(steps["dbms"]):
            continue
        if mode == "stacks":
            costs = stack_costs(profiled.stacks.join(wanted, on=["step", "dbms"], how="semi"), steps)
        else:
            costs = instruction_costs(profiled.instructions.join(wanted, on=["step", "dbms"], how="semi"), steps)
        components = breakdown(costs, base)
        if not components.is_empty():
            yield components, breakdown(costs, base, "function")


def profile_findings(operations: pl.DataFrame, mode: Mode, failed: pl.DataFrame | None = None) -> tuple[str, ...]:
    """The greatest difference of each step by its parts, or how to get one; and why runs failed."""
    missing = []
    if failed is not None:
        for (error,), tries in failed.filter(mode=mode).group_by("error", maintain_order=True):
            runs = ", ".join(tries["run"].unique(maintain_order=True))
            missing.append(f"Without {_NAMES[mode]}, since they failed: {runs}. {error}")
    if operations.is_empty():
        none = f"This study has no {_NAMES[mode]} of a dbms and of its base."
        return (none, *missing) if missing else (f"{none} {_ADVICE[mode]}",)
    changed = (pl.col("me_estimate") / pl.col("base_estimate")).log().abs()
    greatest = operations.sort(changed, descending=True, maintain_order=True).unique(["host", "step"], keep="first")
    order = operations["step"].unique(maintain_order=True).to_list()
    assumed = [ASSUMED] * (operations["n"].min() == 1)
    return (*greatest.sort(pl.col("step").replace_strict(order, range(len(order))))["finding"], *assumed, *missing)


def breakdown_findings(parts: pl.DataFrame, functions: pl.DataFrame | None = None) -> tuple[str, ...]:
    """Sentences for every step and dbms: its parts, the largest first, with the `functions` that changed most."""
    several = parts["host"].n_unique() > 1
    keys = ["host", "step", "dbms"]
    own_of = {} if functions is None else _with_error(functions).partition_by(keys, as_dict=True)
    findings = []
    for (host, step, dbms), rows in _with_error(parts).group_by(keys, maintain_order=True):
        own = own_of[host, step, dbms].to_dicts() if own_of else []
        where = f"On {host}, {step}" if several else step
        findings.append(f"{where}: {' '.join(_sentences(rows.to_dicts(), own))}")
    return tuple(findings)


def _with_error(parts: pl.DataFrame) -> pl.DataFrame:
    return parts.with_columns(((pl.col("high") - pl.col("low")) / 2).alias("error"))


def _sentences(rows: Sequence[Row], functions: Sequence[Row]) -> Iterator[str]:
    of = rows[0]
    difference, error = of["me_measured"] - of["base_measured"], of["measured_error"]
    sampled = of["unit"] == MICROSECONDS
    unit, short = ("µs of server CPU", "µs") if sampled else ("instructions", "instructions")
    rounds = f"{of['n']} round{'s' if of['n'] > 1 else ''}"
    me, base = _plain(of["me_measured"], error), _plain(of["base_measured"], error)
    means = f"means of {rounds}" if of["n"] > 1 else rounds
    yield f"an operation costs {of['dbms']} {me} {unit}, and {of['base']} {base} ({means})."
    if abs(difference) <= error:
        signed = f"{'−' if difference < 0 else '+'}{_plain(abs(difference), error)} ± {_plain(error, error)}"
        yield f"The difference, {signed} {short}, is within its error."
        return
    way, back = ("more", "less") if difference > 0 else ("less", "more")
    found = [row for row in rows if _is_found(row) and abs(row["estimate"]) >= WORTH_NAMING * abs(difference)]
    same_way = [row for row in found if (row["estimate"] > 0) == (difference > 0)][:MOST_PARTS]
    other_way = [row for row in found if (row["estimate"] > 0) != (difference > 0)][:MOST_PARTS]
    rest = _rest(rows, [*same_way, *other_way], difference, error)
    size = f"{_plain(abs(difference), error)} ± {_plain(error, error)} {short} {way}"
    if same_way and other_way:
        # A part may be larger than what remains of it in the whole.
        one = _listed([f"{_size(row)} {way} for {_part(row, functions)}" for row in same_way])
        other = _listed([f"{_size(row)} {back} for {row['part']}" for row in other_way])
        yield f"That is {size}: {one}; and {other}{rest}."
    elif same_way:
        first, *others = same_way
        parts = [f"{_size(row)} {_part(row, functions)}" for row in others]
        yield f"Of the {size}, {_listed([f'{_size(first)} are {_part(first, functions)}', *parts])}{rest}."
    else:
        yield f"No part of the {size} is more than chance."
    if of["n"] < ROUNDS_FOR_A_VERDICT:
        yield f"With {rounds} these are no verdicts, which take {ROUNDS_FOR_A_VERDICT}."


def _rest(rows: Sequence[Row], named: Sequence[Row], difference: float, error: float) -> str:
    """The sum of the parts that are not named, so that nobody takes those that are for all."""
    others = [row["estimate"] for row in rows if row not in named and row["estimate"]]
    sum_ = sum(others)
    if abs(sum_) < max(error, WORTH_NAMING * abs(difference)):
        return ""
    other, come = ("another part", "comes") if len(others) == 1 else (f"{len(others)} other parts", "come")
    return f"; {other} {come} to {_plain(abs(sum_), error)} {'more' if sum_ > 0 else 'less'}"


def _is_found(row: Row) -> bool:
    """A finding; of too few rounds, what would be one. What belongs nowhere is no answer."""
    sure = row["verdict"] in ("slower", "faster")
    few = row["n"] < ROUNDS_FOR_A_VERDICT
    return row["part"] != OTHER and (sure or (few and abs(row["estimate"]) > row["error"]))


def _part(row: Row, functions: Sequence[Row]) -> str:
    """`performance schema (most in pfs_end_statement_vc, 1.2 ± 0.3)`."""
    named = (each for each in functions if not each["part"].startswith("["))  # [unknown], of a stripped server
    mine = [each for each in named if each["component"] == row["part"] and _is_found(each)]
    mine = [each for each in mine if (each["estimate"] > 0) == (row["estimate"] > 0)][:MOST_FUNCTIONS]
    most = ", ".join(f"{each['part']}, {_size(each)}" for each in mine)
    return str(row["part"]) + (f" (most in {most})" if most else "")


def _size(row: Row) -> str:
    return f"{_plain(abs(row['estimate']), row['error'])} ± {_plain(row['error'], row['error'])}"


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _plain(value: float, error: float) -> str:
    """A number in as many digits as its error has any use for.

    >>> _plain(12.345, 0.42), _plain(0.0123, 0.004), _plain(12345.6, 87.0)
    ('12.3', '0.012', '12,346')
    """
    digits = 3 if error <= 0 else max(0, min(3, -math.floor(math.log10(error))))
    return f"{value:,.{digits}f}"
