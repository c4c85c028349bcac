"""Tables of instructions beside CPU time, of the map as text, and of how far a profile can be trusted."""

from typing import Any

import polars as pl
from great_tables import GT

from rqps import profile as profile_room
from rqps.pages.flamegraph_breakdown.findings import Profile, most_changed_part, rounds_of_part
from rqps.profile.instructions import (
    CPU,
    THROUGHPUT,
    USER_CPU,
    instruction_ratios,
    instructions_beside,
    instructions_per_operation,
)
from rqps.stats.comparison import compare
from rqps.stats.metrics import measured, usable
from rqps.stats.pairing import rounds
from rqps.store.read import Study
from rqps.view.flame import figure, with_error
from rqps.view.tables import plain_table, styled
from rqps.view.text import Sentences
from rqps.view.theme import COST_SIGNS, MUTED, by_host, coverage_of, in_order, rounds_of

NOT_COUNTED = (
    "Instructions are those of the server's own code while it works on a statement. What they do not show: what an "
    "instruction costs (caches missed, memory waited for), waits for a lock or a disk, clients that hinder each "
    "other, and the kernel's work. CPU time is the whole server's: it also holds the kernel's work for it "
    "and that of its threads in the background, which flush, purge and write the redo log."
)
WHOLE_ENOUGH = 0.98
COLUMN = 25
_SMALL = f"font-size:11px;color:{MUTED};white-space:nowrap"
_SIGNS = {"agree": "= agree", "CPU grew more": "▲ CPU grew more", "CPU grew less": "▼ CPU grew less"}
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


def beside(counted: Study, timed: Study) -> GT | Sentences:
    """One row per step and dbms: instructions per operation, and their ratio to the base's beside that of CPU time."""
    found = counted_beside(counted, timed)
    if found.is_empty():
        return Sentences(["No instructions of a dbms and of its base were counted, so nothing stands beside them."])
    rows = by_host(found)
    cells = {
        "counted": pl.struct("me_median", "base_median").map_elements(_counts, pl.String),
        "ratio": pl.struct("median", "spread").map_elements(_exact, pl.String),
        **{
            name: pl.struct(ratio=f"{name}_median", low=f"{name}_low", high=f"{name}_high").map_elements(
                _with_interval, pl.String
            )
            for name in _BESIDE
        },
        "together": pl.col("agreement").replace(_SIGNS).fill_null("–"),
    }
    shown = rows.select("step", "dbms", *(cell.alias(name) for name, cell in cells.items()))
    note = f"Relative to: {rows['base'][0]}. {_rounds(rows)} {NOT_COUNTED}"
    return (
        styled(shown, "instructions", groupname_col="step", rowname_col="dbms")
        .tab_source_note(note)
        .fmt(lambda cell: cell or "–", columns=list(cells))  # made below, from numbers
        .cols_align("right", columns=[name for name in cells if name != "together"])
        .cols_label(counted="instructions/o", ratio="instructions", **_BESIDE)
    )


def counted_beside(counted: Study, timed: Study) -> pl.DataFrame:
    """Ratios of counted instructions beside those of throughput and CPU time of the ordinary runs, as a frame."""
    base = timed.card.base
    values = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    if base not in set(values["dbms"]) or values["dbms"].n_unique() < 2:
        return pl.DataFrame()
    compared = None
    if base in set(timed.runs["dbms"]):
        metrics = measured(timed.steps, timed.runs, (THROUGHPUT, CPU, USER_CPU))
        compared = compare(rounds(metrics, timed.runs, base))
    return instructions_beside(instruction_ratios(values, counted.runs, base), compared)


def counted_table(counted: pl.DataFrame) -> GT:
    """Instructions per operation as they were counted: one row per step, dbms and round."""
    shown = by_host(counted).select("step", "dbms", "round", "value")
    return plain_table(shown, "counted", NOT_COUNTED, value="instructions/operation").fmt_integer("value")


def most_expensive_table(functions: pl.DataFrame) -> GT:
    """Functions by their own instructions."""
    shown, what = functions.drop("run"), "Own instructions, without those of the functions that it calls."
    return (
        plain_table(shown, "most-expensive", what)
        .tab_stub(rowname_col="function", groupname_col="step")
        .cols_label(instructions_per_operation="instructions/operation", calls_per_operation="calls/operation")
        .fmt_integer("instructions_per_operation")
        .fmt_percent("share", decimals=1)
        .fmt_number("calls_per_operation", decimals=1)
    )


def completeness(stacks: pl.LazyFrame) -> GT | Sentences:
    """One row per step and dbms: the number of samples, and how their stacks end."""
    found = profile_room.completeness(stacks.collect())
    if found.is_empty():
        return Sentences(["No stacks were sampled."])
    shares = ["root", "repaired", "broken", "unnamed"]
    rows = by_host(found).select("step", "dbms", "samples", *shares)
    least = rows.with_columns(whole=pl.col("root") + pl.col("repaired")).sort("whole").row(0, named=True)
    note = f"At least {least['whole']:.1%} of the samples of every step are under the root of their thread."
    if least["whole"] < WHOLE_ENOUGH:
        note = f"Of {least['step']} in {least['dbms']} only {least['whole']:.1%} are under the root of their thread."
    return (
        styled(rows, "completeness", groupname_col="step", rowname_col="dbms")
        .fmt_percent(columns=shares, decimals=1)
        .fmt_integer(columns="samples")
        .tab_source_note(note)
    )


def explained(steps: pl.DataFrame) -> GT | Sentences:
    """One row per step and dbms: a client's time per operation, and the part of it that CPU time explains."""
    found = explained_times(steps)
    if found.is_empty():
        return Sentences(["No step gave a number."])
    rows = by_host(found).select("step", "dbms", *_TIMES, "explained", pl.col("n").alias("rounds"))
    shares: list[float] = rows["explained"].drop_nulls().to_list()
    return (
        styled(rows, "explained", groupname_col="step", rowname_col="dbms")
        .cols_label({name: f"{words}, µs/o" for name, words in _TIMES.items()})
        .fmt(figure, columns=list(_TIMES))
        .fmt_percent(columns="explained", decimals=0)
        .cols_align("right", columns=[*_TIMES, "explained", "rounds"])
        .tab_source_note(
            f"Medians of {rounds_of(found['n'].to_list())}. Explained: server CPU of the response time, from "
            f"{min(shares):.0%} to {max(shares):.0%}. Neither: waiting for a lock, a disk, the network, or for a CPU."
        )
    )


def explained_times(steps: pl.DataFrame) -> pl.DataFrame:
    """A client's time per operation, one row per step and dbms, and the CPU time of server and client in it.

    `neither_us` is the rest: for a lock, a disk, the network, or until a CPU is free or awake. Threads in the
    background take CPU time beside the clients, so where they are busy it comes out too small, or below 0. Medians of
    the rounds.
    """
    keys, operations = ["host", "position", "step", "dbms"], pl.col("operations")
    times = usable(steps).select(
        *keys,
        (1e6 * pl.col("elapsed_s") * pl.col("clients") / operations).alias("response_us"),
        (1e6 * pl.col("server_cpu_s") / operations).alias("server_cpu_us"),
        (1e6 * pl.col("client_cpu_s") / operations).alias("client_cpu_us"),
    )
    parts = times.with_columns(
        (pl.col("response_us") - pl.col("server_cpu_us") - pl.col("client_cpu_us")).alias("neither_us"),
        (pl.col("server_cpu_us") / pl.col("response_us")).alias("explained"),
    )
    medians = parts.group_by(keys, maintain_order=True).agg(
        pl.col(*_TIMES, "explained").median(), pl.len().cast(pl.Int32).alias("n")
    )
    return medians.sort("host", "position", maintain_order=True).drop("position")


def as_text(profile: Profile) -> str:
    """The map of steps by dbms as text: the cost, the sign of the verdict, and the difference to the base with its error."""
    operations = profile.operations
    if operations.is_empty():
        return "No operation was profiled on both sides."
    rows = by_host(operations)
    cells = {(row["step"], row["dbms"]): row for row in rows.iter_rows(named=True)}
    dbms, base = in_order(rows["dbms"]), rows["base"][0]
    lines = [f"{rows['unit'][0]}, and the difference to {base}", f"col-1 : {base}"]
    lines += [f"col-{number} : {name}" for number, name in enumerate(dbms, 2)]
    steps = in_order(rows["step"])
    first = max(len(step) for step in ("step", *steps)) + 2
    head = "".join(f"col-{number}".ljust(COLUMN) for number in range(2, len(dbms) + 2))
    lines += ["", f"{'step'.ljust(first)}{'col-1'.ljust(10)}{head}".rstrip()]
    for step in steps:
        of_step = [cells.get((step, name)) for name in dbms]
        of_base = next(figure(row["base_median"]) for row in of_step if row)
        line = step.ljust(first) + of_base.ljust(10) + "".join(_plain(row).ljust(COLUMN) for row in of_step)
        lines.append(line.rstrip())
    return "\n".join(lines)


def check(sampled: Study, profile: Profile) -> GT | Sentences:
    """The rounds behind one number, the surest great difference of a component."""
    step, dbms, part = most_changed_part(profile.components)
    base = sampled.card.base
    traced = rounds_of_part(profile.costs, sampled, step, (base, dbms), part)
    if traced.is_empty():
        return Sentences(["There is no profile, so there is no number to check."])
    note = f"{part} in {step}: {dbms}, and {base}, to which it is compared"
    return plain_table(traced, "part", note).fmt_number(columns=["its_cost", "all_cost", "server_cpu_s"], decimals=3)


def _plain(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    by = with_error(row["median"], (row["high"] - row["low"]) / 2)
    return f"{figure(row['me_median'])} {COST_SIGNS[row['verdict']]} {by} n={row['n']}"


def _rounds(beside: pl.DataFrame) -> str:
    counted = f"Instructions: {rounds_of(beside['n'].to_list())}."
    timed = beside.filter(pl.col("cpu_median").is_not_null())
    if timed.is_empty():
        return counted
    sure = coverage_of(timed["cpu_coverage"].to_list())
    return f"{counted} CPU time and rQPS: median of {rounds_of(timed['cpu_n'].to_list())}, {sure}."


def _counts(row: dict[str, Any]) -> str:
    return f'{row["me_median"]:,.0f}<br><span style="{_SMALL}">base {row["base_median"]:,.0f}</span>'


def _exact(row: dict[str, Any]) -> str:
    rounds = f"±{row['spread']:.2%}" if row["spread"] is not None else "1 round"
    return f'<b>{row["median"]:.3f}</b><br><span style="{_SMALL}">{rounds}</span>'


def _with_interval(row: dict[str, Any]) -> str:
    if row["ratio"] is None:
        return "–"
    reach = "no interval" if row["low"] is None else f"{row['low']:.2f}–{row['high']:.2f}"
    return f'{row["ratio"]:.2f}<br><span style="{_SMALL}">{reach}</span>'
