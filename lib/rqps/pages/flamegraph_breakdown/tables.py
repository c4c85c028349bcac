"""Tables of instructions beside CPU time, of the map as text, and of how far a profile can be trusted."""

from typing import Any

import polars as pl
from great_tables import GT

from rqps import profile as profile_room
from rqps import show
from rqps.pages.flamegraph_breakdown.findings import Profile, changed_parts
from rqps.profile.pair import ASSUMED
from rqps.show import Row
from rqps.show.flame import figure, with_error
from rqps.show.table import cut
from rqps.stats import compare, measured, relate, rounds, usable
from rqps.stats.metrics import USER_CPU, with_counts
from rqps.store.read import Study

NOT_COUNTED = (
    "Instructions are those of the server's own code while it works on a statement. What they do not show: what an "
    "instruction costs (caches missed, memory waited for), waits for a lock or a disk, clients that hinder each "
    "other, and the kernel's work. CPU time is the whole server's: it also holds the kernel's work for it "
    "and that of its threads in the background, which flush, purge and write the redo log."
)
WHOLE_ENOUGH = 0.98
MOST_STEPS, MOST_FUNCTIONS, LONGEST_NAME = 12, 4, 40
_BESIDE = {
    "cpu": "server CPU",
    "user_cpu": "without kernel",
    "per_instruction": "CPU per instruction",
    "throughput": "rQPS",
}
_TIMES = {
    "response_us": "response time",
    "server_cpu_us": "server CPU",
    "client_cpu_us": "client CPU",
    "neither_us": "neither",
}


def counted_beside(counted: Study, timed: Study) -> pl.DataFrame:
    """Ratios of counted instructions beside those of throughput and CPU time of the ordinary runs, as a frame."""
    base = timed.card.base
    if base not in set(counted.runs["dbms"]) or counted.runs["dbms"].n_unique() < 2:
        return pl.DataFrame()
    if base in set(timed.runs["dbms"]):
        _, compared = relate(timed)
        of_user = compare(rounds(measured(timed, [USER_CPU]), timed.runs, base))
    else:
        compared = compare(rounds(with_counts(measured(timed, ()), timed), counted.runs, base))
        of_user = compared.clear()
    return profile_room.instructions_beside(pl.concat([compared, of_user], how="diagonal"))


def beside(counted: Study, timed: Study) -> GT | show.Sentences:
    """One row per step and dbms: instructions per operation, their ratio to the base's, and that of CPU time."""
    found = counted_beside(counted, timed)
    if found.is_empty():
        return show.Nothing(["No instructions of a dbms and of its base were counted."])
    names = ("counted", "ratio", *_BESIDE, "together")
    rows = [dict.fromkeys(names, row) | row for row in show.by_host(found).iter_rows(named=True)]
    means = f"Instructions: {show.rounds_of(found['n'])}."
    if not (measured_too := found.filter(pl.col("cpu_estimate").is_not_null())).is_empty():
        sure = show.coverage_of(measured_too["cpu_coverage"])
        means = f"{means} CPU time and rQPS: mean of {show.rounds_of(measured_too['cpu_n'])}, {sure}."

    def counts(row: Row) -> str:
        return show.two_lines(f"{row['me_estimate']:,.0f}", f"base {row['base_estimate']:,.0f}", muted=True)

    return show.table(
        rows,
        [
            show.Column("counted", "instructions/o", counts, align="right"),
            show.Column("ratio", "instructions", _exact, align="right"),
            *(show.Column(name, label, _with_interval(name), align="right") for name, label in _BESIDE.items()),
            show.Column("together", form=lambda row: row["agreement"] or "–"),
        ],
        name="instructions",
        group="step",
        rows="dbms",
        note=f"Relative to: {found['base'][0]}. {means} {NOT_COUNTED}",
    )


def changed_functions(study: Study, compared: pl.DataFrame) -> GT | None:
    """One row per step, of the dbms that changed most in it: components and functions that make the difference."""
    size = pl.col("estimate").log().abs()
    most = compared.sort(pl.col("verdict") == "unsure", size, descending=[False, True], maintain_order=True)
    most = most.unique(["host", "step"], keep="first", maintain_order=True).head(MOST_STEPS)
    found = changed_parts(study, most.select("step", "dbms").rows())
    if found is None:
        return None
    components, functions = (frame.filter(pl.col("verdict").is_in(["slower", "faster"])) for frame in found)
    rows = []
    for row in found[0].unique(["host", "step", "dbms"], keep="first", maintain_order=True).to_dicts():
        of_row = {name: row[name] for name in ("host", "step", "dbms")}
        whole = with_error(row["me_measured"] - row["base_measured"], row["measured_error"])
        both = f"{figure(row['base_measured'])} → {figure(row['me_measured'])}"
        parts = {
            name: _largest(frame.filter(**of_row)) for name, frame in (("part", components), ("function", functions))
        }
        rows.append({**of_row, "whole": show.two_lines(f"<b>{whole}</b>", both, muted=True), **parts})
    unit, errors = found[0]["unit"][0], show.rounds_of(found[0]["n"])
    return show.table(
        rows,
        [
            show.Column("step"),
            show.Column("dbms"),
            show.Column("whole", unit, form=str, align="right"),
            show.Column("part", "components that differ", form=str),
            show.Column("function", "functions that differ, by themselves", form=str),
        ],
        name="changed-functions",
        note=f"Of each step the dbms whose throughput, or else CPU, changed most, against {study.card.base}: "
        f"{errors}, ± their interval. Only differences that are more than chance, the {MOST_FUNCTIONS} largest; a "
        "function by itself. "
        f"{ASSUMED * (found[0]['n'].min() == 1)}",
    )


def _largest(parts: pl.DataFrame) -> str:
    named = parts.filter(~pl.col("part").str.starts_with("["))  # not [unknown], of a stripped server
    rows = named.sort(pl.col("estimate").abs(), descending=True).head(MOST_FUNCTIONS).to_dicts()
    sizes = (with_error(row["estimate"], (row["high"] - row["low"]) / 2) for row in rows)
    lines = (f"{cut(row['part'], LONGEST_NAME)} {size}" for row, size in zip(rows, sizes, strict=True))
    return f'<div style="white-space:nowrap">{"<br>".join(lines)}</div>'


def completeness(stacks: pl.LazyFrame) -> GT | show.Sentences:
    """One row per step and dbms: the number of samples, and how their stacks end."""
    found = profile_room.completeness(stacks.collect())
    if found.is_empty():
        return show.Nothing(["No stacks were sampled."])
    rows = show.by_host(found)
    least = rows.with_columns(whole=pl.col("root") + pl.col("repaired")).sort("whole").row(0, named=True)
    note = f"At least {least['whole']:.1%} of the samples of every step are under the root of their thread."
    if least["whole"] < WHOLE_ENOUGH:
        note = f"Of {least['step']} in {least['dbms']} only {least['whole']:.1%} are under the root of their thread."
    shares = [show.Column(name, form=".1%", align="right") for name in ("root", "repaired", "broken", "unnamed")]
    columns = [show.Column("samples", form=",", align="right"), *shares]
    return show.table(rows, columns, name="completeness", group="step", rows="dbms", note=note)


def explained(steps: pl.DataFrame) -> GT | show.Sentences:
    """One row per step and dbms: a client's time per operation, and the part of it that CPU time explains.

    Threads in the background take CPU time beside the clients: where they are busy, the rest may be below 0.
    """
    keys, operations = ["host", "position", "step", "dbms"], pl.col("operations")
    server, client = (1e6 * pl.col(f"{who}_cpu_s") / operations for who in ("server", "client"))
    response = 1e6 * pl.col("elapsed_s") * pl.col("clients") / operations
    parts = (response, server, client, response - server - client, server / response)
    times = usable(steps).select(*keys, **dict(zip((*_TIMES, "explained"), parts, strict=True)))
    found = (
        times.group_by(keys, maintain_order=True)
        .agg(pl.col(*_TIMES, "explained").median(), pl.len().alias("rounds"))
        .sort("host", "position", maintain_order=True)
    )
    if found.is_empty():
        return show.Sentences(["No step gave a number."])
    shares: list[float] = found["explained"].drop_nulls().to_list()
    columns = [show.Column(name, f"{words}, µs/o", figure, align="right") for name, words in _TIMES.items()]
    columns += [show.Column("explained", form=".0%", align="right"), show.Column("rounds", align="right")]
    note = (
        f"Medians of {show.rounds_of(found['rounds'])}. Explained: server CPU of the response time, from "
        f"{min(shares):.0%} to {max(shares):.0%}. Neither: waiting for a lock, a disk, the network, or for a CPU."
    )
    return show.table(show.by_host(found), columns, name="explained", group="step", rows="dbms", note=note)


def check(sampled: Study, profile: Profile) -> GT | show.Sentences:
    """The rounds behind one number, the surest great difference of a component."""
    if profile.components.is_empty():
        return show.Sentences(["There is no profile, so there is no number to check."])
    sure = (pl.col("estimate").abs() - (pl.col("high") - pl.col("low")) / 2) / pl.col("base_measured")
    ordered = profile.components.sort(sure, descending=True, maintain_order=True)
    step, dbms, part = ordered.select("step", "dbms", "part").row(0)
    base, keys = sampled.card.base, ["dbms", "round"]
    # Its samples of all samples, times what the step measured.
    whole = profile.costs.filter(pl.col("dbms").is_in([base, dbms]), step=step)
    sums = whole.group_by(*keys, maintain_order=True).agg(
        pl.col("samples", "cost").filter(pl.col("component") == part).sum().name.prefix("its_"),
        pl.col("samples", "cost").sum().name.prefix("all_"),
    )
    traced = sums.join(sampled.steps.filter(step=step), on=keys, how="left", maintain_order="left").select(
        "run", "operations", "server_cpu_s", "its_samples", "all_samples", "its_cost", "all_cost"
    )
    exact = ("its_cost", "all_cost", "server_cpu_s")
    columns = [show.Column(name, form=",.3f" if name in exact else "", align="right") for name in traced.columns[1:]]
    note = f"{part} in {step}: {dbms}, and {base}, to which it is compared"
    return show.table(traced, [show.Column("run"), *columns], name="part", note=note)


def _exact(row: Row) -> str:
    return show.two_lines(f"<b>{row['estimate']:.3f}</b>", show.interval_of(row, ".3f"), muted=True)


def _with_interval(name: str) -> Any:
    def written(row: Row) -> str:
        if row[f"{name}_estimate"] is None:
            return "–"
        return show.two_lines(show.ratio(row[f"{name}_estimate"]), show.interval_of(row, of=name), muted=True)

    return written
