"""Two statistics that turn the values of some rounds into one estimate with an interval: the median of measured
values, and the mean of compared values, which decides verdicts.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import polars as pl

from rqps.stats.verdict import COVERAGE, OCCASIONS_FOR_OTHER_HOURS

FEWEST_TO_LEARN_FROM = 3
"""Minimum number of groups needed to estimate how much their variances vary."""
FEWEST_FOR_A_SLOPE = 8
"""Minimum number of groups needed to estimate how the variance between rounds grows with the noise within rounds."""
MOST_FREEDOM = 20.0
"""Maximum degrees of freedom that a group borrows from the other groups. A group borrows more, up to this number, if
their variances are similar."""
OTHERS_COUNT = 1 / 2
"""The share of the borrowed degrees of freedom that is used, since the variances of groups differ in other ways than
the theory assumes: with all borrowed degrees of freedom, 8 of 100 pages of 4 to 6 rounds had a false verdict; with
half of them, 1 to 5 of 100 (benchmarks/verdicts)."""
FEW_FREEDOM, OTHERS_COUNT_FOR_FEW = 5.0, 0.3
"""A group with fewer than 5 degrees of freedom of its own uses only 0.3 of the borrowed degrees of freedom. In
simulations of pages with 141 comparisons by four rounds, whose true spreads differ, 10 % of the pages had a false
verdict with a share of 1/2, and 3 % with 0.3 (benchmarks/verdicts)."""
USUAL_WEIGHS = 4
"""The weight of a spread known beforehand (`usual_spread`), as a number of rounds."""
_TINY = 1e-18
"""Lower bound of a variance, so that identical rounds have a finite weight."""


class Statistic(Protocol):
    """A way to estimate a value of each group, with an interval."""

    def estimates(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> Callable[[float], pl.DataFrame]:
        """Returns a function that gets the coverage of the intervals and returns the frame of estimates."""

    def estimate(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> pl.DataFrame:
        """One row per group, in order: the keys and `n, estimate, low, high, coverage`."""
        return self.estimates(frame, keys, value)(COVERAGE)


class Median(Statistic):
    """The median, with an interval from the k-th smallest value to the k-th largest.

    Each value lies below the true median with probability one half, so the probability that the interval contains the
    true median is a sum of binomial terms. The interval is the narrowest with at least 95 %, or else the widest.

    >>> rounds = pl.DataFrame({"step": "scan", "ratio": [0.60, 0.62, 0.61, 0.65, 0.63, 0.62]})
    >>> MEDIAN.estimate(rounds, ["step"], "ratio").row(0)
    ('scan', 6, 0.62, 0.6, 0.65, 0.96875)
    """

    def estimates(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> Callable[[float], pl.DataFrame]:
        groups = frame.group_by(keys, maintain_order=True).agg(
            pl.len().cast(pl.Int32).alias("n"), pl.col(value).sort().alias("ordered")
        )
        n, k, at = pl.col("n"), pl.col("k"), pl.col("ordered").list.get

        def covering(coverage: float) -> pl.DataFrame:
            ranks = pl.DataFrame(
                [(size, *interval_ranks(size, coverage)) for size in sorted(set(groups["n"]))],
                schema={"n": pl.Int32, "k": pl.Int32, "coverage": pl.Float64},
                orient="row",
            )
            return groups.join(ranks, on="n", how="left", maintain_order="left").select(
                *keys,
                "n",
                ((at((n - 1) // 2) + at(n // 2)) / 2).alias("estimate"),
                pl.when(n > 1).then(at(k - 1)).alias("low"),
                pl.when(n > 1).then(at(n - k)).alias("high"),
                "coverage",
            )

        return covering


class Student(Statistic):
    """The mean, with Student's t interval. Ratios are averaged as logarithms, costs directly, since costs add up.

    Rounds that a duet's cycles measure less exactly (a larger `error`) weigh less: the variance between rounds is
    estimated apart from the variance within rounds, and the weight of a round is the inverse of their sum (Hartung
    and Knapp, 2001).

    If the standard deviation of a value between rounds is known beforehand (`usual_spread`, as a share of the value),
    the known variance counts like `USUAL_WEIGHS` rounds beside the variance of the measured rounds (a moderated t:
    Smyth, 2004), so even a single round has an interval. The variance of a difference is at least the square of its
    `counting_error`.

    Rounds of one occasion share the state of the machine in that hour. With at least three occasions, each occasion
    counts as one value: the mean of its rounds, with the standard error of this mean. The interval is then a
    prediction interval for the value of a further occasion. With fewer occasions, all rounds count alike.

    >>> rounds = pl.DataFrame({"step": "scan", "ratio": [0.60, 0.62, 0.61, 0.65, 0.63, 0.62]})
    >>> [round(number, 3) for number in STUDENT.estimate(rounds, ["step"], "ratio").row(0)[2:]]
    [0.621, 0.604, 0.64, 0.95]
    """

    name = "mean of the rounds, Student's t"
    assumption = (
        "The mean of the rounds, of ratios by their logarithms, with Student's t interval: it assumes that rounds, "
        "each from new starts, are independent and spread normally around the true value."
    )

    def estimates(self, frame: pl.DataFrame, keys: Sequence[str], value: str) -> Callable[[float], pl.DataFrame]:
        is_ratio = value == "ratio"
        y = pl.col(value).log() if is_ratio else pl.col(value)
        mean = pl.col("estimate")
        within = _column(frame, "error" if is_ratio else "counting_error").fill_null(0.0) ** 2
        sides = pl.lit(2.0) if is_ratio else pl.sum_horizontal(_column(frame, "base_value", "me_value") ** 2)
        usual = _column(frame, "usual_spread") ** 2 * sides + within
        # A round with the ratio 0 has no logarithm, and is left out below.
        rows = frame.with_columns(y.alias("_y"), within.alias("_within"), usual.alias("_usual"))
        groups = _over_occasions(rows.filter(pl.col("_y").is_finite()), keys)

        def covering(coverage: float) -> pl.DataFrame:
            # Groups of equally many rounds have the same degrees of freedom, so scipy, which is slow, is called once
            # for them.
            quantiles = {free: self.quantile(free, coverage) for free in groups["freedom"].drop_nulls().unique()}
            quantile = pl.col("freedom").replace_strict(quantiles, default=None, return_dtype=pl.Float64)
            half_width = pl.col("error") * quantile
            intervals = groups.select(
                *keys,
                "n",
                mean,
                (mean - half_width).alias("low"),
                (mean + half_width).alias("high"),
                pl.when(pl.col("freedom") > 0).then(coverage).otherwise(0.0).alias("coverage"),
            )
            return intervals.with_columns(pl.col("estimate", "low", "high").exp()) if is_ratio else intervals

        return covering

    @staticmethod
    @cache
    def quantile(freedom: float, coverage: float = COVERAGE) -> float:
        """Half the width of an interval of this coverage, in standard errors.

        >>> round(STUDENT.quantile(4), 3), round(STUDENT.quantile(30), 3)
        (2.776, 2.042)
        """
        from scipy import special

        return float(special.stdtrit(freedom, (1 + coverage) / 2))


MEDIAN, STUDENT = Median(), Student()


def _over_occasions(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The means of the groups, in their order; for a group with enough occasions, the mean over its occasions, with
    the standard error of the distance between that mean and a further occasion."""
    if "occasion" not in rows.columns:
        return _means(rows, keys)
    several = pl.col("occasion").n_unique().over(keys) >= OCCASIONS_FOR_OTHER_HOURS
    of_one_hour, of_several = rows.filter(~several), rows.filter(several)
    if of_several.is_empty():
        return _means(rows, keys)
    # An occasion with one round does not show how much rounds spread: the other occasions do.
    own = pl.when(pl.col("error").is_finite()).then(pl.col("error") ** 2)
    of_others = (own * pl.col("n")).median().over(keys) / pl.col("n")
    within, unknown = pl.coalesce(own, of_others, 0.0), pl.lit(None, pl.Float64)
    of_occasions = _means(of_several, [*keys, "occasion"]).with_columns(
        pl.col("estimate").alias("_y"), within.alias("_within"), unknown.alias("_usual")
    )
    counts = of_occasions.group_by(keys).agg(pl.col("n").sum())
    over = _means(of_occasions, keys).with_columns(pl.col("error") * (1 + pl.col("n")).sqrt())
    over = over.drop("n").join(counts, on=keys, nulls_equal=True).select("n", pl.exclude("n"))
    order = rows.select(keys).unique(maintain_order=True)
    means = [over, *([] if of_one_hour.is_empty() else [_means(of_one_hour, keys)])]
    return order.join(pl.concat(means, how="diagonal"), on=keys, how="left", maintain_order="left", nulls_equal=True)


def _means(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The weighted mean of each group of values, with its standard error and degrees of freedom."""
    weight = pl.col("_weight")
    between = (pl.col("_y").var() - pl.col("_within").median()).clip(0).fill_null(0).over(keys)
    squares = (weight * (pl.col("_y") - pl.col("_mean")) ** 2).sum()
    weights = pl.when(pl.col("_usual").is_not_null()).then(1.0).otherwise(1 / (between + pl.col("_within") + _TINY))
    groups = (
        rows.with_columns(weights.alias("_weight"))
        .with_columns(((weight * pl.col("_y")).sum() / weight.sum()).over(keys).alias("_mean"))
        .group_by(keys, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int32).alias("n"),
            pl.col("_mean").first().alias("estimate"),
            pl.col("_within").median(),
            pl.col("_within").mean().alias("_least"),
            pl.col("_usual").mean(),
            squares.alias("_squares"),
            pl.max_horizontal(
                squares / ((pl.len() - 1) * weight.sum()), pl.when(pl.col("_within").max() > 0).then(1 / weight.sum())
            )
            .sqrt()
            .alias("error"),
        )
    )
    return _moderated(groups)


def _moderated(groups: pl.DataFrame) -> pl.DataFrame:
    """The groups with their degrees of freedom (`freedom`), and each standard error (`error`) shrunk towards the
    errors of the other groups of its metric.

    A standard deviation estimated from six rounds may be off by half. All such estimates of a page together show how
    much the true standard deviations of its groups differ: the less they differ, the more degrees of freedom a group
    borrows from the others (Smyth, 2004). Steps that are noisy within rounds, such as steps of many clients, also
    spread more between rounds, so each error is shrunk towards the errors of steps that are as noisy (Sartor and
    others, 2006).
    """
    from scipy import special  # slow to import; scipy.stats and scipy.optimize take three times as long

    freedom = pl.when(pl.col("n") > 1).then(pl.col("n") - 1.0)
    groups = groups.with_columns(freedom.alias("freedom"), (pl.col("_within") > 0).alias("_noisy"))
    groups = groups.with_row_index("_order")
    is_known, own = pl.col("_usual").is_not_null(), USUAL_WEIGHS + pl.col("n") - 1.0
    spread = pl.max_horizontal((USUAL_WEIGHS * pl.col("_usual") + pl.col("_squares")) / own, "_least")
    parts = [groups.filter(is_known).with_columns(error=(spread / pl.col("n")).sqrt(), freedom=own)]
    for part in groups.filter(~is_known).partition_by("_noisy", *({"metric"} & {*groups.columns})):
        known = part.filter(pl.col("error") > 0, pl.col("freedom") > 1)
        if known.height < FEWEST_TO_LEARN_FROM:
            parts.append(part)
            continue
        half = (known["freedom"] / 2).to_numpy()
        spreads = known["error"] ** 2 * known["n"]
        logs = (spreads * half).log().to_numpy() - special.digamma(half)
        slope, learned = 0.0, 1
        if known.height >= FEWEST_FOR_A_SLOPE and known["_noisy"][0] and known["_within"].n_unique() > 1:
            noise = known["_within"].log().to_numpy()
            apart = noise - noise.mean()
            slope, learned = min(max(float(apart @ logs / (apart @ apart)), 0.0), 1.0), 2
            logs -= slope * noise
        more = logs.var(ddof=learned) - special.polygamma(1, half).mean()
        others = min(2 * _inverse_trigamma(more), MOST_FREEDOM) if more > 0 else MOST_FREEDOM
        as_noisy = math.exp(logs.mean() + special.digamma(others / 2) - math.log(others / 2))
        own, usual = pl.col("freedom"), as_noisy * pl.col("_within") ** slope
        borrowed = others * pl.when(own < FEW_FREEDOM).then(OTHERS_COUNT_FOR_FEW).otherwise(OTHERS_COUNT)
        spread = (borrowed * usual + own * pl.col("error") ** 2 * pl.col("n")) / (borrowed + own)
        parts.append(part.with_columns(error=(spread / pl.col("n")).sqrt(), freedom=own + borrowed))
    return pl.concat(parts).sort("_order").drop("_order")


def _column(frame: pl.DataFrame, *names: str) -> pl.Expr:
    """Columns of a frame; null if the frame lacks them."""
    return pl.col(names) if {*names} <= {*frame.columns} else pl.lit(None, pl.Float64)


def _inverse_trigamma(value: float) -> float:
    """The number whose trigamma is `value`.

    >>> from scipy.special import polygamma
    >>> round(float(polygamma(1, _inverse_trigamma(0.3))), 6)
    0.3
    """
    from scipy import special

    x = 0.5 + 1 / value
    for _ in range(20):  # by Newton's method on 1 / trigamma, which is almost linear
        trigamma = special.polygamma(1, x)
        x += trigamma * (1 - trigamma / value) / special.polygamma(2, x)
    return float(x)


def coverage(n: int, k: int) -> float:
    """The probability that the true median lies between the k-th smallest and the k-th largest of n values.

    >>> coverage(6, 1)
    0.96875
    """
    return 1 - sum(math.comb(n, below) for below in range(k)) / float(2 ** (n - 1))


@cache
def interval_ranks(n: int, least: float = COVERAGE) -> tuple[int, float]:
    """The rank k of the interval's ends, counted from either end of n sorted values, and the interval's coverage.

    >>> interval_ranks(6), interval_ranks(20), interval_ranks(1)
    ((1, 0.96875), (6, 0.9586105346679688), (1, 0.0))
    """
    k = max((k for k in range(1, n // 2 + 1) if coverage(n, k) >= least), default=1)
    return k, coverage(n, k)
