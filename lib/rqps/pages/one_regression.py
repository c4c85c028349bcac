"""Frames for the notebook that answers questions about one comparison at a time: pairs of base and me, comparisons,
profiles and what-ifs."""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from rqps import stats
from rqps.engines import facts_of
from rqps.errors import RqpsError, instead
from rqps.profile import breakdown, flame_trees, profiled_costs
from rqps.profile.breakdown import BREAKDOWN, INSTRUCTIONS, METRIC_OF, MICROSECONDS, By, measured_costs
from rqps.profile.costs import as_measured
from rqps.show import Clause, Question, Row, comparison, finding, phrase, verdict_words
from rqps.stats.comparison import relate_pairs
from rqps.stats.metrics import with_counts
from rqps.store.read import Study
from rqps.workloads import PARAMETERS

Pairs = Sequence[tuple[str, str]]
"""Pairs of base and me."""
FRAME = "pairs"
"""The name of the frame from which the numbers in sentences are recomputed."""
FOLD_BELOW = 0.003
"""Minimum share of the cost that a frame needs to be drawn separately: the page has a flame graph for each question,
and stays small if each graph has only frames that are visible without zooming."""
TRIES = pl.Schema({"about": pl.String, "pattern": pl.String, "option": pl.String, "to": pl.String})


def pairs_of(study: Study, base: str = "", me: str = "") -> Pairs:
    """Pairs each dbms with the study's base, with the previous release under the same config, and with the same build
    under the base's config. Adds the pair of `base` and `me`; if only `base` is given, adds its pairs with all
    dbms."""
    runs, own = study.runs, study.card.base
    measured = set(runs["dbms"])
    for name in filter(None, (base, me)):
        if name not in measured:
            unknown = f"{study.card.study}: no run of {name!r}; {instead(name, sorted(measured), 'dbms')}"
            raise RqpsError(unknown, fix="name a dbms of the study")
    names = [dbms for dbms in stats.version_order(runs)["dbms"] if dbms in measured]
    pairs = [(own, name) for name in names if name != own]
    before: dict[str, str] = {}
    members = {name: (build, config) for name, build, config in runs.select("dbms", "build", "config").iter_rows()}
    by_member = {member: name for name, member in members.items()}
    for name in names:
        build, config = members[name]
        pairs += [(before[config], name)] if config in before else []
        before[config] = name
        of_base = by_member.get((build, study.configs.get(own, "")))
        pairs += [(of_base, name)] if of_base else []
    pairs += [(base, me)] if base and me else [(base, name) for name in names if base]
    return list(dict.fromkeys((of, name) for of, name in pairs if of != name))


def relate(study: Study, pairs: Pairs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rounds of all pairs, and one comparison per pair, step and metric, including counted instructions.
    Comparisons with the study's base are the same as on all other pages."""
    values = with_counts(stats.measured(study, stats.COMPARED), study)
    rounds = pl.concat([stats.rounds_of_pairs(values, some) for some in _one_base_each(pairs)] or [pl.DataFrame()])
    if rounds.is_empty():
        nothing = f"{study.card.study}: no round has both its base and another dbms"
        raise RqpsError(nothing, fix="run the study again first")
    compared = relate_pairs(rounds, stats.relate(study)[1])
    return rounds, stats.with_layouts(stats.with_warnings(compared, stats.all_warnings(study)), study)


def _one_base_each(pairs: Pairs) -> Iterator[Pairs]:
    """Splits the pairs into lists in which each dbms is compared with only one base. The first list has the first
    base of each dbms."""
    while pairs:
        some = {me: base for base, me in reversed(pairs)}
        yield [(base, me) for base, me in pairs if some[me] == base]
        pairs = [(base, me) for base, me in pairs if some[me] != base]


def first_question(compared: pl.DataFrame, step: str = "", base: str = "", me: str = "") -> Question:
    """The throughput comparison with the given step, base and me whose interval is farthest from 1. If any of these
    comparisons regressed, only regressions are considered."""
    for column, name in (("step", step), ("dbms", me), ("base", base)):
        if name and (known := compared[column].unique(maintain_order=True).to_list()) and name not in known:
            raise RqpsError(f"no {column} {name!r}; {instead(name, known, column + 's')}", fix="name one of these")
        compared = compared.filter(pl.col(column) == name) if name else compared
    if compared.is_empty():
        raise RqpsError(f"{step}: no round has both {base} and {me}", fix="name another dbms, or run the study again")
    ratios = compared.filter(pl.col("metric").is_in(stats.THROUGHPUTS))
    slower = ratios.filter(verdict="slower")
    ratios = ratios if slower.is_empty() else slower
    low, high = pl.col("low").fill_null(1.0).log(), pl.col("high").fill_null(1.0).log()
    sure = pl.max_horizontal(low, -high)
    row = ratios.sort(sure, pl.col("estimate").log().abs(), descending=True, maintain_order=True).row(0, named=True)
    return Question(row["host"], row["step"], row["base"], row["dbms"])


def compared_pairs(study: Study) -> pl.DataFrame:
    """The comparisons of the pairs that `pairs_of` forms if no base and no me are given."""
    return relate(study, pairs_of(study))[1]


def answer(row: Row, names: Mapping[str, str]) -> Clause:
    """A sentence with the comparison and its verdict. `names` maps dbms to names."""
    needs = f"; it takes {row['needs']}" if row["needs"] else ""
    compared = comparison(row, names[row["dbms"]], names[row["base"]], FRAME)
    return finding(phrase("{}: {}: {}{}", row["step"], compared, verdict_words(row["metric"])[row["verdict"]], needs))


def costs_of(study: Study) -> pl.DataFrame:
    """The cost of an operation per call stack: sampled CPU time, or counted instructions if nothing was sampled."""
    costs = profiled_costs(study, "stacks")
    return profiled_costs(study, "instructions") if costs.is_empty() else costs


def parts_of(costs: pl.DataFrame, pairs: Pairs, compared: pl.DataFrame, by: By = "component") -> pl.DataFrame:
    """The difference of each pair, broken down by the parts of an operation. The verdicts are corrected for multiple
    comparisons together with those of `compared`."""
    least = compared["smallest_effect"][0]
    frames = [breakdown(of, base, by, least, compared) for base, of in _by_base(costs, pairs, compared)]
    return pl.concat(frames) if frames else pl.DataFrame(schema=BREAKDOWN)


def trees_of(costs: pl.DataFrame, pairs: Pairs, compared: pl.DataFrame) -> pl.DataFrame:
    """The flame graph of each pair, as a tree in pre-order."""
    of_bases = _by_base(costs, pairs, compared)
    trees = [flame_trees(of, base, FOLD_BELOW).with_columns(base=pl.lit(base)) for base, of in of_bases]
    return pl.concat(trees) if trees else pl.DataFrame()


def _by_base(costs: pl.DataFrame, pairs: Pairs, compared: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields each base with the costs of its pairs: the profile's costs by stack, scaled so that their sum is the
    measured cost of an operation."""
    profiled = set(costs["dbms"])
    metric = METRIC_OF[INSTRUCTIONS if costs["samples"].null_count() else MICROSECONDS]
    for base in dict.fromkeys(of for of, _ in pairs if of in profiled):
        of_pairs = costs.filter(pl.col("dbms").is_in([base, *(me for of, me in pairs if of == base)]))
        yield base, as_measured(of_pairs, measured_costs(compared.filter(base=base, metric=metric)))


def tries_of(study: Study) -> pl.DataFrame:
    """The option changes that rqps suggests to try for the study's engines, each with a pattern of the functions that
    it affects. Empty if the steps of the workload can't be measured one by one, since a what-if measures a single
    step."""
    engines = study.runs["engine"].unique().sort()
    rows = [
        (about, functions, name, str(value))
        for engine in engines
        if PARAMETERS[study.card.workload].steps_stand_alone
        for about, functions, options in facts_of(engine).tries
        for name, value in options.items()
    ]
    return pl.DataFrame(rows, schema=TRIES, orient="row")
