"""The health of a study: A/A comparisons of its base, the spread of its rounds, the drift of its ratios from round to
round, and the rounds that other processes or other guests of the machine disturbed."""

import math
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from rqps.errors import RqpsError
from rqps.stats import verdict
from rqps.stats.comparison import compare, in_tables, relate
from rqps.stats.metrics import CPU, THROUGHPUT, disturbed_cycles, measured
from rqps.stats.pairing import rounds
from rqps.store.read import Study, load
from rqps.store.schemas import Columns
from rqps.study import ROUNDS_FOR_A_VERDICT, TWIN

METRICS = (THROUGHPUT, CPU)
DISTURBANCES = ("others", "steal")
WORTH_NAMING = 0.1
"""A round counts as disturbed if more than this share of its steps has a warning of one of the kinds
`DISTURBANCES`."""
FAR = 3.0
"""A round is far off if its deviation `off` is more than this many times the median of `off` over the host's
rounds."""
NINE_OF_TEN = 0.9

_CELL = ["host", "step", "metric", "base", "dbms"]
_LOG = pl.col("ratio").log()
_HALF = (pl.col("sure_high") / pl.col("sure_low")).sqrt() - 1
_FLOOR = pl.when(pl.col("n") >= ROUNDS_FOR_A_VERDICT).then(_HALF).alias("noise_floor")
_WORDS = ("host", "step", "kind", "group", "metric", "base", "dbms", "build", "config", "base_run", "run", "duet")
_COUNTS: Columns = {"position": pl.Int32, "table_position": pl.Int32, "range": pl.Int64, "clients": pl.Int32}
_COUNTS |= {"occasion": pl.Int32, "round": pl.Int32, "cycles": pl.Int32, "looks": pl.Int32}
_VALUES = ("base_value", "me_value", "ratio", "difference", "error", "smallest_effect")
_NONE = pl.DataFrame(schema=dict.fromkeys(_WORDS, pl.String) | _COUNTS | dict.fromkeys(_VALUES, pl.Float64))


class Health(NamedTuple):
    """The health of a study. If no rounds can be compared, frames are empty and `missing` has the reason."""

    study: Study
    rounds: pl.DataFrame
    """The rounds of each dbms against the base, for throughput and CPU per operation."""
    itself: pl.DataFrame
    """Rounds of the base against its twin: a second server of the same dbms."""
    compared: pl.DataFrame
    """The tidy frame of the base against its twin. `different` is true if the interval that decides verdicts excludes
    1."""
    overall: pl.DataFrame
    """The geometric mean over all steps of the twin's ratios to the base, one row per metric: `n, estimate, low,
    high`."""
    steps: pl.DataFrame
    """One row per host, step and metric: the number of `rounds`; the standard deviations of the base's values
    (`alone`), of ratios `between` rounds, and of ratios `within` rounds; and `noise_floor`, the smallest difference
    that an interval resolves, null with too few rounds."""
    by_round: pl.DataFrame
    """One row per host and round: `off`, the median of the deviations of its ratios from their medians over all
    rounds; `far`, true if `off` is unusually large; `others` and `steal`, the numbers of steps that other processes
    or other guests of the machine disturbed; and `disturbed`, true if one of these numbers exceeds the share
    `WORTH_NAMING` of all steps."""
    cycles: pl.DataFrame
    """One row per duet and step: the numbers of its `cycles`, of those `disturbed` by other processes or guests, and
    of those `left_out` for that reason. No cycle is left out if most cycles of the step were disturbed: the
    disturbance is then the normal state of the machine. Empty for runs in which the disturbance of cycles was not
    measured."""
    drift: pl.DataFrame
    """One row per comparison: the `change` of its ratio from the first round of an occasion to the last, by a fitted
    straight line, and `drifting`, true if that change is significant and large enough to matter."""
    is_duet: bool
    """True if servers take turns within a round, so that a disturbance affects all of them."""
    belief: verdict.Belief
    noise_floor: float | None
    """The noise floor of throughput: nine of ten steps resolve this difference."""
    finest: float | None
    """The noise floor of the most exact comparison of throughput: no comparison resolves a smaller difference."""
    missing: str = ""

    @property
    def drifting(self) -> tuple[int, int]:
        """Number of comparisons that drift (in throughput or CPU), and the total."""
        return _drifting(self.drift)

    @property
    def facts(self) -> pl.DataFrame:
        """The rows behind the numbers in the reasons for `belief`. A count in a reason is the number of rows of one
        `kind` in which `yes` is true; rows of the kinds `itself` and `cycles` have no `yes`. The kinds are:

        - `different`: one row per A/A comparison; `yes` if the base and its twin differ.
        - `itself`: one row for the twin's throughput relative to the base's, as the mean over all steps. `estimate`
          is this ratio, `n` the number of rounds, and `half` is 1 plus half the width of the interval: 1.02 is ±2 %.
        - `resolved`: one row per host and step; `yes` if the step resolves a difference as small as the study's noise
          floor. `estimate` is 1 plus the step's own noise floor.
        - `drifting`: one row per host, step and dbms; `yes` if throughput or CPU per operation drifts.
        - `far` and `disturbed`: one row per host and round; `yes` if the round is far off, or was disturbed.
        - `cycles`: one row per duet and step, with the numbers of `cycles`, of `disturbed` and of `left_out` cycles.
        """
        of_throughput, half = pl.col("metric") == THROUGHPUT, (pl.col("high") / pl.col("low")).sqrt()
        noise_floor, of_dbms = pl.col("noise_floor"), self.drift.group_by("host", "step", "dbms")
        resolved = noise_floor <= pl.lit(self.noise_floor, pl.Float64)
        rows = {
            "different": self.compared.select(yes="different"),
            "itself": self.overall.filter(of_throughput).select("estimate", "n", half=half),
            "resolved": self.steps.filter(of_throughput).select(yes=resolved, estimate=1 + noise_floor),
            "drifting": of_dbms.agg(yes=pl.col("drifting").any()).select("yes"),
            "far": self.by_round.select(yes="far"),
            "disturbed": self.by_round.select(yes="disturbed"),
            "cycles": self.cycles.select("cycles", "disturbed", "left_out"),
        }
        return pl.concat([of_kind.with_columns(kind=pl.lit(kind)) for kind, of_kind in rows.items()], how="diagonal")


def health(study: Study) -> Health:
    """Judges a study by its rounds, its warnings and, if the study has any, its A/A comparisons of the base."""
    try:
        of_duets = rounds(measured(study, METRICS), study.runs, study.card.base)
        missing = "no round has both its base and another dbms finished without errors" if of_duets.is_empty() else ""
        resolved = relate(study)[1].filter(pl.col("n") >= ROUNDS_FOR_A_VERDICT, metric=THROUGHPUT)
        finest = resolved.select((1 - (pl.col("sure_low") / pl.col("sure_high")).sqrt()).min()).item()
    except RqpsError as error:
        of_duets, missing, finest = _NONE, str(error), None
    itself = _itself(study)
    both = pl.concat([of_duets, itself], how="diagonal").select(of_duets.columns)
    # There are few rounds of base against twin: their spread is estimated from the study's other rounds, too.
    compared = in_tables(compare(both))
    is_itself = pl.col("dbms") == TWIN.format(study.card.base)
    equal = compared.filter(is_itself).with_columns(verdict.different().alias("different"))
    steps, by_round, drift = (
        _steps(of_duets, compared.filter(~is_itself)),
        _by_round(study, of_duets),
        fitted_drift(of_duets),
    )
    most = _nine_of_ten(steps.filter(metric=METRICS[0])["noise_floor"])
    counts = (pl.len().alias("cycles"), pl.col("disturbed", "left_out").sum())
    cycles = disturbed_cycles(study).group_by("unit", "step").agg(*counts).sort("unit", "step").collect()
    is_duet = study.runs["side"].is_not_null().any()
    belief = verdict.belief(
        noise_floor=most,
        called=int(equal["different"].sum() or 0),
        drifting=verdict.drifts(*_drifting(drift)),
        disturbed=0.0 if is_duet else _share(by_round["disturbed"]),
    )
    overall = _overall(equal)
    frames = (of_duets, itself, equal, overall, steps, by_round, cycles, drift)
    return Health(study, *frames, is_duet, belief, most, finest, missing)


def facts(study: Study) -> pl.DataFrame:
    """The facts on a study's reliability, such as the rounds (`kind` far) and whether each is far off (`yes`).
    Numbers in sentences are checked against this frame."""
    return health(study).facts


def _nine_of_ten(noise_floor: pl.Series) -> float | None:
    known, enough = noise_floor.drop_nulls().sort(), math.ceil(NINE_OF_TEN * len(noise_floor))
    return float(known[enough - 1]) if 0 < enough <= len(known) else None


def _itself(study: Study) -> pl.DataFrame:
    """Rounds of the base against its twin. The twin is renamed here, since in the runs it has the base's name."""
    try:
        alone = load(study.place, mode="health")
        name = pl.when("twin").then(pl.format(TWIN, "dbms")).otherwise("dbms").alias("dbms")
        twins = alone.runs.select("run", "twin")
        runs = alone.runs.with_columns(name)
        steps = alone.steps.join(twins, on="run", maintain_order="left").with_columns(name).drop("twin")
        return rounds(measured(replace(alone, runs=runs, steps=steps), METRICS), runs, study.card.base)
    except RqpsError:
        return _NONE


def _overall(equal: pl.DataFrame) -> pl.DataFrame:
    """The geometric means over all steps of the estimates and of the ends of their intervals. The interval is not
    narrowed: all steps of a round share one start of the server, so averaging over the steps does not reduce the
    random error of that start."""
    middle = pl.col("estimate", "low", "high").log().mean().exp()
    return equal.group_by("metric", maintain_order=True).agg(pl.col("n").max(), middle)


def _steps(of_duets: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    within = (pl.col("error") ** 2).median()
    spreads = of_duets.group_by(_CELL).agg(
        pl.col("base_value").log().std().alias("alone"),
        (_LOG.var() - within.fill_null(0)).clip(0).alias("between"),
        within.alias("within"),
    )
    noise_floor = pl.col("noise_floor")
    return (
        compared.with_columns(_FLOOR)
        .join(spreads, on=_CELL, how="left", maintain_order="left")
        .group_by("host", "group", "step", "metric", maintain_order=True)
        .agg(
            pl.col("n").min().alias("rounds"),
            pl.col("alone").mean(),
            *(pl.col(name).mean().sqrt() for name in ("between", "within")),
            # A step has the noise floor of its noisiest dbms, or none if one of its dbms has none.
            pl.when(noise_floor.null_count() == 0).then(noise_floor.max()).alias("noise_floor"),
        )
    )


def _by_round(study: Study, of_duets: pl.DataFrame) -> pl.DataFrame:
    off = deviations(of_duets)["off"].abs()
    of_rounds = (
        of_duets.with_columns(off).group_by("host", "round").agg(pl.len().alias("ratios"), pl.col("off").median())
    )
    usual = pl.col("off").median().over("host")
    warned = study.warnings.filter(pl.col("kind").is_in(DISTURBANCES)).unique(["run", "step", "kind"])
    counts = [warned.filter(kind=kind).group_by("host", "round").agg(pl.len().alias(kind)) for kind in DISTURBANCES]
    steps = study.steps.group_by("host", "round").agg(pl.len().alias("steps"))
    started = study.runs.group_by("host", "round").agg(pl.col("started_at").min())
    joined = started.join(steps, on=["host", "round"], how="left").join(of_rounds, on=["host", "round"], how="left")
    for frame in counts:
        joined = joined.join(frame, on=["host", "round"], how="left")
    is_far = (pl.col("off") > FAR * usual) & (pl.col("off") > study.card.smallest_effect)
    return joined.sort("host", "round").with_columns(
        pl.col(*DISTURBANCES).fill_null(0),
        (pl.max_horizontal(*DISTURBANCES) > WORTH_NAMING * pl.col("steps")).fill_null(False).alias("disturbed"),
        is_far.fill_null(False).alias("far"),
    )


def deviations(of_duets: pl.DataFrame) -> pl.DataFrame:
    """Each round's deviation from the median of its comparison's rounds, in logarithms: `off` for the ratio,
    `base_off` for the base's value alone."""
    base = pl.col("base_value").log()
    return of_duets.with_columns(
        (_LOG - _LOG.median().over(_CELL)).alias("off"), (base - base.median().over(_CELL)).alias("base_off")
    )


def between_occasions(of_duets: pl.DataFrame) -> pl.DataFrame:
    """One row per metric: the standard deviations of a comparison's ratios `within` an occasion and `between`
    occasions, as medians over the comparisons with enough occasions. `between` shows how much the state of the
    machine changes ratios: the spread that the rounds alone would cause is subtracted."""
    of_occasions = (
        _by_occasion(of_duets).group_by(*_CELL, "occasion").agg(_LOG.mean().alias("mean"), _LOG.var(), pl.len())
    )
    left = (pl.col("mean").var() - (pl.col("ratio") / pl.col("len")).mean()).clip(0)
    return (
        of_occasions.group_by(_CELL)
        .agg(pl.len().alias("occasions"), pl.col("ratio").mean().alias("within"), left.alias("between"))
        .filter(pl.col("occasions") >= verdict.OCCASIONS_FOR_OTHER_HOURS)
        .group_by("metric")
        .agg(pl.col("occasions").max(), pl.col("within", "between").median().sqrt())
        .sort("metric")
    )


def _by_occasion(of_duets: pl.DataFrame) -> pl.DataFrame:
    return of_duets if "occasion" in of_duets.columns else of_duets.with_columns(occasion=pl.lit(1))


def fitted_drift(of_duets: pl.DataFrame) -> pl.DataFrame:
    """Fits one line to all rounds of a comparison. The means of each occasion are subtracted from its ratios and
    round numbers, so that a change between occasions does not count as drift: the intervals for other hours contain
    such changes."""
    occasion, at = [*_CELL, "base", "occasion"], pl.col("round")
    n, xy = pl.len(), (pl.col("at") * pl.col("log")).sum()
    xx, yy = (pl.col("at") ** 2).sum(), (pl.col("log") ** 2).sum()
    r, left = xy / (xx * yy).sqrt(), pl.col("n") - pl.col("occasions") - 1
    lines = (
        _by_occasion(of_duets)
        .with_columns(
            (at - at.mean()).over(occasion).alias("at"),
            (_LOG - _LOG.mean()).over(occasion).alias("log"),
            (at.max() - at.min()).over(occasion).alias("rounds"),
        )
        .group_by("host", "group", "step", "metric", "base", "dbms", maintain_order=True)
        .agg(
            n.alias("n"),
            pl.col("occasion").n_unique().alias("occasions"),
            ((xy / xx * pl.col("rounds").max()).exp() - 1).alias("change"),
            r.alias("r"),
            pl.col("smallest_effect").first(),
        )
        .with_columns(left.alias("left"))
        .with_columns(t=pl.col("r") * (pl.col("left") / (1 - pl.col("r") ** 2)).sqrt())
        .filter(pl.col("n") >= ROUNDS_FOR_A_VERDICT, pl.col("left") > 0, pl.col("t").is_finite())
    )
    chance = pl.Series(verdict.false_shares(lines["t"].to_list(), lines["left"].to_list()), dtype=pl.Float64)
    matters = pl.col("change").abs() > pl.col("smallest_effect")
    return lines.with_columns(drifting=(chance <= verdict.FALSE_FINDINGS) & matters)


def _drifting(drift: pl.DataFrame) -> tuple[int, int]:
    of_dbms = drift.group_by("host", "step", "dbms").agg(pl.col("drifting").any())
    return int(of_dbms["drifting"].sum()), of_dbms.height


def _share(which: pl.Series) -> float:
    return float(which.mean() or 0)  # type: ignore[arg-type]
