"""Parts of a scenario that enables everything: the CPU time that each part adds when it alone is enabled, their sum,
the time that everything adds (the whole), and the rest: the whole minus the sum."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import polars as pl

from rqps.stats.comparison import absolute
from rqps.stats.estimate import STUDENT
from rqps.stats.metrics import CPU
from rqps.stats.scenarios import scenario_costs, scenario_rounds
from rqps.store.read import Study

_INDENT = "\u2003"
SUM, REST = "sum of the parts", "left over"
_MOST_TRIED = 14  # maximum number of scenarios of which every subset is tried: 16384 subsets
_KEYS = ("host", "build", "step", "position", "scenario")

Enabled = Mapping[str, frozenset[str]]
"""Maps each scenario to its instruments and consumers."""


def scenario_parts(study: Study, everything: str, nothing: str, always: Collection[str] = ()) -> pl.DataFrame:
    """CPU time in µs per operation that the scenario `everything` adds to the scenario `nothing` (the whole), that
    each of its parts adds, the sum of the parts, and the rest: the whole minus the sum. Sums are formed round by
    round and have an interval but no verdict. Instruments and consumers that are `always` on are in no part.

    `role` is part, sum, whole, rest, or `within` for a piece of a part; `covers` is the row's share of the whole's
    instruments and consumers.
    """
    rounds = scenario_rounds(study).filter(metric=CPU, against=nothing)
    parts = [
        rows
        for _, of_build in rounds.group_by("host", "build", maintain_order=True)
        for rows in _of_build(of_build, _enabled(study.settings, of_build, always), everything)
    ]
    added = {"estimate": "added", "low": "added_low", "high": "added_high"}
    costs = scenario_costs(study).filter(metric=CPU, against=nothing)
    if not parts:
        columns = (*_KEYS, "n", *added, "coverage", "role", "covers")
        return costs.with_columns(role=pl.lit(""), covers=pl.lit(0.0)).clear().select(columns)
    # A single scenario's cost is taken from `scenario_costs`, so that the tables of costs and of parts agree.
    return pl.concat(parts).update(costs.select(*_KEYS, **added), on=_KEYS)


def disjoint(enabled: Enabled) -> tuple[str, ...]:
    """The scenarios that share no instrument or consumer and together enable the most of them; among equal choices,
    the choice with the most scenarios.

    >>> disjoint({"mdl": frozenset("a"), "waits": frozenset("abc"), "stages": frozenset("d")})
    ('waits', 'stages')
    >>> disjoint({"a": frozenset("a"), "b": frozenset("b"), "both": frozenset("ab")})
    ('a', 'b')
    """
    names = sorted(enabled, key=lambda name: (-len(enabled[name]), name))[:_MOST_TRIED]
    choices = (choice for count in range(len(names) + 1) for choice in combinations(names, count))
    sizes = [(sum(len(enabled[name]) for name in choice), choice) for choice in choices]
    alone = [(size, choice) for size, choice in sizes if size == len(_union(choice, enabled))]
    return max(alone, key=lambda one: (one[0], len(one[1])), default=(0, ()))[1]


def _union(choice: tuple[str, ...], enabled: Enabled) -> frozenset[str]:
    return frozenset().union(*(enabled[name] for name in choice))


def _enabled(settings: pl.LazyFrame, of_build: pl.DataFrame, always: Collection[str]) -> Enabled:
    """Maps each scenario to the instruments and consumers that it enables, but the base of its rounds does not."""
    dbms = dict(of_build.select("dbms", "scenario").unique().rows())
    base = of_build["base"][0]
    on = settings.filter(
        pl.col("kind").is_in(["instrument", "consumer"]),
        pl.col("value") == "YES",
        ~pl.col("name").is_in(list(always)),
        pl.col("dbms").is_in([*dbms, base]),
    )
    by_dbms = {str(name): frozenset(of) for name, of in on.group_by("dbms").agg("name").collect().rows()}
    of_base = by_dbms.get(base, frozenset())
    return {scenario: by_dbms.get(name, frozenset()) - of_base for name, scenario in dbms.items()}


def _of_build(rounds: pl.DataFrame, enabled: Enabled, everything: str) -> Iterator[pl.DataFrame]:
    """The costs of a scenario's parts for one build on one host; nothing unless the build was measured with the
    scenario `everything` and at least one part."""
    smaller = {name: on for name, on in enabled.items() if on and on < enabled.get(everything, frozenset())}
    chosen = disjoint(smaller)
    if not chosen:
        return
    keys = [*_KEYS[:-1], "round"]
    wide = rounds.filter(pl.col("scenario").is_in([*smaller, everything])).pivot(
        "scenario", index=keys, values="difference", maintain_order=True
    )
    wide = wide.drop_nulls([*chosen, everything]).with_columns(pl.sum_horizontal(*chosen).alias(SUM))
    wide = wide.with_columns((pl.col(everything) - pl.col(SUM)).alias(REST))
    pieces = list(_pieces(smaller, chosen))
    wide = wide.with_columns(value.alias(name) for name, value, _ in pieces)
    size, together = len(enabled[everything]), len(_union(chosen, enabled))
    described = [(name, "part", len(enabled[name]) / size) for name in chosen]
    described += [(SUM, "sum", together / size), (everything, "whole", 1.0), (REST, "rest", 1 - together / size)]
    described += [(name, "within", of_piece / size) for name, _, of_piece in pieces]
    about = pl.DataFrame(described, schema=["scenario", "role", "covers"], orient="row")
    values = wide.unpivot(about["scenario"].to_list(), index=keys, variable_name="scenario").drop_nulls("value")
    if not values.is_empty():
        yield absolute(values, STUDENT, keys=_KEYS).join(about, on="scenario", maintain_order="left")


def _pieces(enabled: Enabled, chosen: tuple[str, ...]) -> Iterator[tuple[str, pl.Expr, int]]:
    """Pieces of a part, each with its name, its cost in µs and its number of instruments and consumers. A piece
    follows from a scenario that enables only some instruments and consumers of the part. If the scenario enables at
    most half of them, it is the piece: metadata locks are a piece of all waits. If the scenario enables all but one,
    that one is the piece, and costs the difference: the cost of digests is the cost of statements with digests minus
    the cost of statements without them."""
    for part in chosen:
        for name, on in enabled.items():
            if on < enabled[part]:
                beyond = enabled[part] - on
                if len(beyond) == 1:
                    yield f"{next(iter(beyond))}, of {part}", pl.col(part) - pl.col(name), 1
                elif len(on) <= len(beyond):
                    yield f"{name}, of {part}", pl.col(name), len(on)


def as_tree(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted as a tree: each part is followed by its own parts, the most expensive first."""
    by = "added_instructions" if rows["added_instructions"].null_count() == 0 else "added"
    ordered = rows.sort("step", by, descending=[False, True])
    siblings = ordered.partition_by("step", "level", "parent", as_dict=True)

    def below(step: str, level: int, parent: str | None) -> Iterator[pl.DataFrame]:
        for row in siblings.get((step, level, parent), rows.clear()).iter_slices(1):
            yield row
            yield from below(step, level + 1, row["part"].item())

    tree = pl.concat(row for step in ordered["step"].unique(maintain_order=True) for row in below(step, 0, None))
    parts = tree.select("level", "part", "parent", "patterns").rows()
    patterns_of = {(level, part): patterns for level, part, _, patterns in parts}
    above = [patterns_of.get((level - 1, parent), ()) for level, _, parent, _ in parts]
    tree = tree.with_columns(
        short=pl.Series([_name(part[0], part[3], parents) for part, parents in zip(parts, above, strict=True)]),
        full=pl.Series([_name(level, patterns) for level, _, _, patterns in parts]),
    )
    row = pl.when(pl.col("short").is_unique().over("step")).then("short").otherwise("full")
    return tree.with_columns(row=row).drop("short", "full", "patterns")


def _name(level: int, patterns: Sequence[str], parents: Sequence[str] = ()) -> str:
    """The name of a part without its parent's prefix, indented by level; if the part has several instruments, the
    first of them and the number of the others.

    >>> _name(2, ["stage/sql/init", "stage/sql/end"], ["stage/%"]).strip()
    'sql/init and 1 more'
    """
    first, *others = patterns
    for above in parents:
        first = first.removeprefix(above.removesuffix("%")) if above.endswith("/%") else first
    more = f" and {len(others)} more" if others else ""
    return f"{_INDENT * level}{first}{more}"
