"""The verdict on an interval. Verdicts are decided in this module and nowhere else.

`slower` and `faster` mean that the interval excludes the value of no difference: 1 for a ratio, 0 for a difference.
`same` means that the whole interval is nearer to this value than the smallest effect that matters, even if it
excludes the value. All other comparisons, and comparisons of too few rounds, are `unsure`.
"""

from collections.abc import Sequence
from typing import Literal

import polars as pl

from rqps.numbers import formatted, percent
from rqps.study import ROUNDS_FOR_A_VERDICT

VERDICTS = ("slower", "faster", "same", "unsure")

OCCASIONS_FOR_OTHER_HOURS = 3
"""Minimum number of occasions with which an interval includes the spread between occasions."""
COVERAGE = 0.95
"""Minimum probability that an interval contains the true value."""
FALSE_FINDINGS = 0.05
"""Maximum false discovery rate: the expected share of false differences among the differences that one table calls
significant."""
FALSE_ALARMS = 0.01
"""Maximum share of equal servers that may be called different, even on a page with a single comparison."""
MOST_ROUNDS_WORTH_NAMING = 60
COARSE = 0.05
"""A study whose noise floor of nine in ten steps exceeds this share resolves only large differences."""
DRIFTING = 0.05
"""If a larger share of a study's comparisons drifts, the study is doubted; a single comparison that drifts is never
enough."""
DISTURBED = 0.5
"""If at least this share of a study's rounds is disturbed, the study is doubted. This limit applies only to rounds
that run one server after the other: in a duet, a disturbance affects base and me alike."""
Belief = Literal["believed", "coarse", "doubtful", "unknown"]


def coverage_of_each(comparisons: int, looks: int = 1) -> float:
    """The coverage that each deciding interval needs so that all verdicts of a page hold together at 95 %.

    `comparisons` is the number of comparisons without those that differ significantly, which are no risk to the
    others (Holm, 1979). If a study went on until its verdicts were decided, its `looks` share the probability of an
    error.

    >>> coverage_of_each(1), round(coverage_of_each(20), 4), round(coverage_of_each(20, looks=5), 4)
    (0.99, 0.9975, 0.9995)
    """
    return 1 - min(FALSE_ALARMS, (1 - COVERAGE) / max(comparisons, 1)) / looks


def deciding(compared: pl.DataFrame, null: float = 1.0) -> tuple[int, int]:
    """The number of comparisons with enough rounds for a verdict, and the number of these that differ significantly:
    their deciding interval leaves out `null`, the value of no difference. Comparisons of too few rounds do not count
    in the correction."""
    enough = compared.filter(pl.col("n") >= ROUNDS_FOR_A_VERDICT)
    return enough.height, enough.filter((pl.col("sure_low") > null) | (pl.col("sure_high") < null)).height


def method(comparisons: int, differ: int = 0, looks: int = 1) -> str:
    """A sentence on the interval that decides a page's verdicts. `differ` of the comparisons differ significantly.

    >>> method(20)
    'Verdicts are decided by the interval of 99.75 % of each of 20 comparisons, so that all hold together at 95 %.'
    >>> method(1)
    'The verdict is decided by the interval of 99 % of the one comparison.'
    """
    coverage = f"{formatted(100 * coverage_of_each(comparisons - differ, looks), '.4g')} %"
    if comparisons == 0:
        return "Nothing is compared, so there is no verdict."
    if comparisons == 1:
        return f"The verdict is decided by the interval of {coverage} of the one comparison."
    when = f" in each of {looks} looks" if looks > 1 else ""
    without = f"; the {differ:,} that surely differ are no risk to the others (Holm, 1979)" if differ else ""
    together = f"so that all hold together at {percent(COVERAGE)}{when}{without}"
    return f"Verdicts are decided by the interval of {coverage} of each of {comparisons:,} comparisons, {together}."


def decided(*, near: pl.Expr | float, null: float = 1.0, more_is_better: pl.Expr | bool = True) -> pl.Expr:
    """The verdict on the interval from `sure_low` to `sure_high` of `n` rounds; with too few rounds it is `unsure`.

    `null` is the value of no difference. An interval within `near` of `null` is `same`, even if it leaves out `null`.

    >>> two = pl.DataFrame({"sure_low": [0.60, 0.985], "sure_high": [0.65, 0.995], "n": [4, 4]})
    >>> two.select(verdict=decided(near=0.02))["verdict"].to_list()
    ['slower', 'same']
    """
    low, high = pl.col("sure_low"), pl.col("sure_high")
    outside = (low > null) | (high < null)
    same = (low >= null - near) & (high <= null + near)
    way = pl.when((low > null) == more_is_better).then(pl.lit("faster")).otherwise(pl.lit("slower"))
    undecidable = (pl.col("n") < ROUNDS_FOR_A_VERDICT) | low.is_null() | high.is_null()
    unsure, alike = pl.lit("unsure"), pl.lit("same")
    by_interval = pl.when(same).then(alike).when(outside).then(way).otherwise(unsure)
    return pl.when(undecidable).then(unsure).otherwise(by_interval)


def beyond(near: pl.Expr | float) -> pl.Expr:
    """The verdict on a ratio whose interval differs from 1 by more than `near`; `unsure` for any other ratio.

    >>> two = pl.DataFrame({"sure_low": [0.9, 0.9], "sure_high": [0.97, 0.99], "verdict": ["slower", "slower"]})
    >>> two.select(beyond(0.02))["verdict"].to_list()
    ['slower', 'unsure']
    """
    reaches = pl.max_horizontal(pl.col("sure_low") - 1, 1 - pl.col("sure_high")) > near
    return pl.when(reaches).then("verdict").otherwise(pl.lit("unsure"))


def needs(*, near: pl.Expr | float, null: float = 1.0) -> pl.Expr:
    """The rounds or occasions that would decide an `unsure` comparison, in words; empty for other verdicts."""
    rounds = rounds_needed(null=null, near=near)
    too_few = (pl.col("n") < ROUNDS_FOR_A_VERDICT) | pl.col("sure_low").is_null()
    named = rounds.clip(upper_bound=1e15).cast(pl.Int64)
    more = f"more than {MOST_ROUNDS_WORTH_NAMING} rounds at this spread: longer steps or a quieter machine"
    return (
        pl.when(pl.col("verdict") != "unsure")
        .then(pl.lit(""))
        .when(too_few)
        .then(pl.format(f"{ROUNDS_FOR_A_VERDICT} rounds: there are {{}}", "n"))
        .when(for_other_hours())
        .then(pl.lit("further occasions: it differs from hour to hour"))
        .when(rounds > MOST_ROUNDS_WORTH_NAMING)
        .then(pl.lit(more))
        .otherwise(pl.format("about {} rounds at this spread", named))
    )


def for_other_hours() -> pl.Expr:
    """True for comparisons with enough occasions for an interval that also holds for other hours. Further occasions
    narrow such an interval, further rounds do not."""
    return pl.col("occasions") >= OCCASIONS_FOR_OTHER_HOURS


def holds_for(compared: pl.DataFrame) -> str:
    """Words for the hours to which the confidence intervals of comparisons apply: those of the measurement or, with
    enough occasions for every comparison, other hours of this machine.

    >>> [holds_for(pl.DataFrame({"occasions": [occasions]})) for occasions in (1, 2, 3)]
    ['this hour', 'these 2 hours', 'other hours of this machine']
    """
    occasions = compared["occasions"].min() if "occasions" in compared.columns else 1
    if not isinstance(occasions, int) or occasions < 2:
        return "this hour"
    return "other hours of this machine" if occasions >= OCCASIONS_FOR_OTHER_HOURS else f"these {occasions} hours"


def rounds_needed(*, null: float, near: pl.Expr | float) -> pl.Expr:
    """Number of rounds after which an `unsure` comparison would be decided: the interval narrows with the square root
    of that number."""
    from_, to, middle, n = (pl.col(name) for name in ("sure_low", "sure_high", "estimate", "n"))
    distance = (middle - null).abs()
    enough = pl.max_horizontal(distance, near - distance)
    half_width = pl.max_horizontal(to - middle, middle - from_)
    return (n * (half_width / enough) ** 2).ceil().clip(lower_bound=n + 1)


def false_shares(t: Sequence[float], freedom: Sequence[int]) -> list[float]:
    """The false discovery rate of each difference: the expected share of false differences among all differences that
    are at least as significant (Benjamini and Hochberg, 1995).

    `t` is each difference divided by its standard error, with its degrees of freedom.

    >>> [round(share, 3) for share in false_shares([3.5, 2.0, 0.1], [9, 9, 9])]
    [0.02, 0.115, 0.923]
    """
    from scipy import special

    chances = pl.DataFrame({"chance": 2 * special.stdtr(freedom, [-abs(value) for value in t])})
    of_as_sure = pl.col("chance") * pl.len() / pl.int_range(1, pl.len() + 1)
    share = of_as_sure.cum_min(reverse=True).clip(upper_bound=1)
    return chances.with_row_index().sort("chance").with_columns(share=share).sort("index")["share"].to_list()


def different() -> pl.Expr:
    """For an A/A comparison: true if the interval excludes 1, which is a false difference. Unlike a verdict, this has
    no minimum number of rounds. Null if there is no interval."""
    return (pl.col("sure_low") > 1) | (pl.col("sure_high") < 1)


def drifts(drifting: int, comparisons: int) -> bool:
    """True if so many of a study's comparisons drift that the study is doubted.

    >>> drifts(1, 8), drifts(2, 8), drifts(2, 60)
    (False, True, False)
    """
    return drifting > max(1, DRIFTING * comparisons)


def belief(*, noise_floor: float | None, called: int, drifting: bool, disturbed: float) -> Belief:
    """The degree to which a study's numbers can be believed.

    `noise_floor` is the smallest difference that nine of ten steps resolve. `called` is the number of A/A comparisons
    that call the base different from its twin. `disturbed` is the share of rounds in which a disturbance affected
    base or me, but not both.

    >>> [belief(noise_floor=floor, called=0, drifting=False, disturbed=0) for floor in (0.014, 0.3, None)]
    ['believed', 'coarse', 'unknown']
    >>> belief(noise_floor=0.014, called=1, drifting=False, disturbed=0)
    'doubtful'
    """
    if noise_floor is None and not called:
        return "unknown"
    if called or drifting or disturbed >= DISTURBED:
        return "doubtful"
    return "coarse" if noise_floor is None or noise_floor > COARSE else "believed"
