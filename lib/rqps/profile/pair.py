"""The costs of base and me in a step, by stack and round.

The cost of a part of an operation varies for two reasons. The first is sampling: a share of n in N samples has a
multinomial error, which is computed with n + 1, since 0 samples do not prove a share of 0. The second is that a cost
differs between starts of a server, even if it is counted exactly.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from rqps.errors import RqpsError
from rqps.stats.metrics import COUNTED, USUAL_SPREADS

USUAL_SPREAD = 0.02
"""The spread of a part's cost between rounds that is assumed if it was not measured. For comparison, the spread of
server CPU per operation was 2.3 % (median of 135 runs of 15 s)."""
ROUNDING = 1e-9
"""Maximum relative difference between two sums that the order of addition may cause."""
ASSUMED = "With one round, ± is assumed: it is what two starts of the same build usually differ by."
"""The sentence on the interval in a study of one round, whose spread is not known."""

BASE, ME = SIDES = ("base", "me")


@dataclass(frozen=True)
class Pair:
    """Base and me of a comparison: `rows` has one row per stack, with a column for each of the two and each round."""

    rows: pl.DataFrame
    engine: str
    rounds: int
    counted: bool  # the costs are counts of instructions, and not shares of samples
    totals: dict[str, list[float]]  # the cost of an operation in each of the rounds, by side
    samples: dict[str, list[float]]

    @property
    def columns(self) -> list[str]:
        """Columns that are summed over the stacks of a component or function; `by_round` turns the sums into one row
        per round."""
        kinds = ("cost",) if self.counted else ("cost", "samples")
        return [_column(side, kind, round_) for side in SIDES for kind in kinds for round_ in range(self.rounds)]

    def measured(self, side: str) -> float:
        """The cost of the whole operation, the mean of the rounds."""
        return sum(self.totals[side]) / self.rounds

    def scaled(self, costs: Mapping[str, float]) -> "Pair":
        """The pair with its costs scaled, so that the mean of its rounds is `costs`, by side."""
        factors = {side: cost / (self.measured(side) or cost or 1.0) for side, cost in costs.items()}
        columns = [
            pl.col(_column(side, "cost", round_)) * factor
            for side, factor in factors.items()
            for round_ in range(self.rounds)
        ]
        totals = {side: [cost * factors[side] for cost in of_side] for side, of_side in self.totals.items()}
        return replace(self, rows=self.rows.with_columns(columns), totals=totals)

    def mean(self, side: str) -> pl.Expr:
        return pl.mean_horizontal(_column(side, "cost", round_) for round_ in range(self.rounds))

    def by_round(self, parts: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """The paired rounds that `compare` takes, one row per part and round. `parts` has one row per part, with the
        sums of `columns` over its stacks."""
        return pl.concat(self._round(parts, keys, round_) for round_ in range(self.rounds))

    def _round(self, parts: pl.DataFrame, keys: Sequence[str], round_: int) -> pl.DataFrame:
        base, me = (pl.col(_column(side, "cost", round_)) for side in SIDES)
        samples = {
            f"{side}_samples": pl.lit(None, pl.Float64) if self.counted else pl.col(_column(side, "samples", round_))
            for side in SIDES
        }
        return parts.select(
            *keys,
            base_value=base,
            me_value=me,
            difference=pl.when((me - base).abs() > ROUNDING * me).then(me - base).otherwise(0.0),
            counting_error=pl.sum_horizontal(self._from_counts(side, round_) for side in SIDES).sqrt(),
            usual_spread=pl.lit(USUAL_SPREADS[COUNTED.name] if self.counted else USUAL_SPREAD),
            base_whole=pl.lit(self.totals[BASE][round_]),
            me_whole=pl.lit(self.totals[ME][round_]),
            **samples,
        )

    def _from_counts(self, side: str, round_: int) -> pl.Expr:
        if self.counted:
            return pl.lit(0.0)
        total, samples = self.totals[side][round_], self.samples[side][round_]
        if samples == 0:
            return pl.lit(total**2)
        share = (pl.col(_column(side, "samples", round_)) + 1) / (samples + 2)
        return total**2 / samples * share * (1 - share)


def pairs(costs: pl.DataFrame, base: str) -> Iterator[tuple[str, str, str, Pair]]:
    """Yields every host, step and dbms that has a round in common with the base, and its pair."""
    if costs.is_empty():
        return
    if base not in costs["dbms"].unique():
        raise _unknown("base", base, costs["dbms"])
    kinds = costs.partition_by("host", "step", "dbms", as_dict=True, maintain_order=True)
    for (host, step, dbms), of_me in kinds.items():
        of_base = kinds.get((host, step, base))
        if dbms != base and of_base is not None and (pair := _pair(of_base, of_me)):
            yield str(host), str(step), str(dbms), pair


def one_pair(costs: pl.DataFrame, base: str, me: str, step: str) -> Pair:
    """The pair of base and me in one step; raises an error if there is nothing to compare."""
    for column, value in (("dbms", base), ("dbms", me), ("step", step)):
        if value not in set(costs[column]):
            raise _unknown(column, value, costs[column])
    of_step = costs.filter(step=step)
    if (hosts := of_step["host"].unique().sort().to_list())[1:]:
        several = f"the costs of {step} are from several hosts: {', '.join(hosts)}"
        raise RqpsError(several, fix="choose one: costs.filter(host=…)")
    if (pair := _pair(of_step.filter(dbms=base), of_step.filter(dbms=me))) is None:
        nothing = f"no round has both {base} and {me} in {step}: nothing to compare"
        raise RqpsError(nothing, fix="run the study again: it measures what is missing")
    return pair


def _pair(of_base: pl.DataFrame, of_me: pl.DataFrame) -> Pair | None:
    rounds = sorted({*of_base["round"].unique()} & {*of_me["round"].unique()})
    if not rounds:
        return None
    counted = bool(of_base["samples"].null_count() or of_me["samples"].null_count())
    kinds = ("cost",) if counted else ("cost", "samples")
    sums: dict[str, dict[str, list[float]]] = {"cost": {}, "samples": {}}
    halves = []
    for side, frame in ((BASE, of_base), (ME, of_me)):
        shared = frame.filter(pl.col("round").is_in(rounds))
        of_round = shared.group_by("round").agg(pl.col(kinds).sum()).sort("round")
        for kind in kinds:
            sums[kind][side] = of_round[kind].cast(pl.Float64).to_list()
        columns = [
            pl.when(pl.col("round") == round_).then(kind).otherwise(0.0).alias(_column(side, kind, number))
            for kind in kinds
            for number, round_ in enumerate(rounds)
        ]
        halves.append(shared.select("stack", "component", *columns))
    rows = pl.concat(halves, how="diagonal").with_columns(pl.col(pl.Float64).fill_null(0.0))
    return Pair(rows, of_me["engine"][0], len(rounds), counted, sums["cost"], sums["samples"])


def _column(side: str, kind: str, round_: int) -> str:
    return f"{side} {kind} {round_}"


def _unknown(what: str, value: str, names: Iterable[str]) -> RqpsError:
    known = ", ".join(sorted(set(names))) or "none: were any stacks or instructions recorded?"
    return RqpsError(f"there are no costs of the {what} {value!r}", fix=f"choose one of: {known}")
