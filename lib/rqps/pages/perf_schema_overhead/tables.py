"""What each scenario costs, as a table to read and copy."""

from typing import Any

import polars as pl
from great_tables import GT

from rqps.view.tables import styled
from rqps.view.text import Sentences
from rqps.view.theme import COST_SIGNS, SIGNS, coverage_of, rounds_of

_SMALL = "font-size:11px;white-space:nowrap"


def scenario_table(costs: pl.DataFrame) -> GT | Sentences:
    """A row a scenario, by step: throughput lost, CPU added in µs and in percent, each with interval and verdict.

    In the order in which they come, which ranks nothing that is unsure.
    """
    if costs.is_empty():
        return Sentences(["This study has no two scenarios of the performance schema of one build."])
    several = costs["build"].n_unique() > 1
    group = pl.format("{} on {}", "step", "build") if several else pl.col("step")
    cells = costs.select(
        group.alias("step"),
        "scenario",
        pl.struct(pl.all()).map_elements(_throughput, pl.String).alias("throughput"),
        pl.struct(pl.all()).map_elements(_cpu, pl.String).alias("cpu"),
        pl.struct(pl.all()).map_elements(_share, pl.String).alias("share"),
        "needs",
        "n",
    )
    shown = ["throughput", "cpu", "share"]
    names = {"throughput": "throughput", "cpu": "server CPU added, µs/o", "share": "of the CPU without it"}
    table = styled(cells, "scenarios", groupname_col="step", rowname_col="scenario")
    table = table.fmt(_as_it_is, columns=shown).cols_align("center", columns=shown)
    table = table.cols_label({**names, "needs": "what it would take", "n": "rounds"})
    sure = coverage_of(costs["coverage"].to_list())
    return table.tab_source_note(
        f"Against {costs['against'][0]} of the same build and round; median of "
        f"{rounds_of(costs['n'].to_list())}, {sure}. Throughput: ▼ slower, ▲ faster; CPU: ▲ dearer, ▼ cheaper; "
        "= the same within 2 %, ? the rounds can't tell. µs/o is CPU time per operation."
    )


def scenario_text(costs: pl.DataFrame) -> str:
    """The same as lines: CPU added in percent with its interval and verdict, then µs, then throughput."""
    if costs.is_empty():
        return "This study has no two scenarios of the performance schema of one build."
    lines = [f"Against: {costs['against'][0]}", "CPU/o".ljust(30) + "added, µs/o".ljust(14) + "throughput".ljust(13)]
    lines[-1] += "scenario"
    for (step, build), of_step in costs.group_by("step", "build", maintain_order=True):
        lines += ["", f"{step} on {build}"]
        lines += [_line(row) for row in of_step.to_dicts()]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    low, high = row["cpu_low"], row["cpu_high"]
    reach = "no interval" if low is None else f"{low - 1:+.1%} to {high - 1:+.1%}"
    cpu = f"{COST_SIGNS[row['verdict']]} {row['cpu_ratio'] - 1:+.1%} ({reach})"
    throughput = "–" if row["share"] is None else f"{-row['share']:+.1%}"
    return f"{cpu:30}{row['added_us']:+,.2f}".ljust(44) + f"{throughput:13}{row['scenario']}, n={row['n']}"


def instructions_of_scenarios(counted: pl.DataFrame) -> GT | Sentences:
    """A row a scenario, by step: instructions that it adds to an operation."""
    if counted.is_empty():
        return Sentences(["No run of this study had its instructions counted."])
    several = counted["build"].n_unique() > 1
    group = pl.format("{} on {}", "step", "build") if several else pl.col("step")
    rows = counted.select(
        group.alias("step"),
        "scenario",
        "added_instructions",
        share=pl.col("instructions") - 1,
        of="base_instructions",
    )
    table = styled(rows, "ps-instructions", groupname_col="step", rowname_col="scenario")
    table = table.fmt_number(columns=["added_instructions", "of"], decimals=0)
    table = table.fmt_percent(columns="share", decimals=1, force_sign=True)
    names: dict[str, Any] = {
        "added_instructions": "instructions added",
        "share": "more",
        "of": "instructions without it",
    }
    return table.cols_label(names).tab_source_note(
        f"Instructions of the server's own code for one operation, against {counted['against'][0]}; "
        f"{rounds_of(counted['counted_rounds'].to_list())}. The same statements on every server; two starts of one "
        "server differ by 0.3 % of an operation."
    )


def events_table(costs: pl.DataFrame) -> GT | Sentences:
    """A row a scenario: how many events it records of a statement, and what one of them takes."""
    if costs.is_empty():
        return Sentences(["The runs of this study do not tell what the performance schema recorded."])
    several = costs["build"].n_unique() > 1
    group = pl.format("{} on {}", "step", "build") if several else pl.col("step")
    rows = costs.select(group.alias("step"), "scenario", "kinds", "per_statement", "added_us", "each_ns")
    table = styled(rows, "ps-events", groupname_col="step", rowname_col="scenario")
    table = table.fmt_number(columns=["per_statement", "added_us"], decimals=2).fmt_number(
        columns=["each_ns"], decimals=0
    )
    table = table.sub_missing(columns=["each_ns"], missing_text="?")
    names = {"kinds": "kinds", "per_statement": "events a statement", "added_us": "CPU added, µs/o"}
    return table.cols_label({**names, "each_ns": "ns an event"}).tab_source_note(
        "Events that the server counted of the load's own connections, for each statement; the CPU that the scenario "
        f"adds to {costs['against'][0]}, shared out among them. ? where the rounds can't tell the cost from nothing."
    )


def memory_table(memory: pl.DataFrame) -> GT | Sentences:
    """What the performance schema and the whole server have in memory."""
    if memory.is_empty():
        return Sentences(["The runs of this study do not tell what memory the performance schema took."])
    rows = memory.select("build", "scenario", "perf_schema_mb", "server_mb")
    table = styled(rows, "ps-memory", groupname_col="build", rowname_col="scenario")
    table = table.fmt_number(columns=["perf_schema_mb", "server_mb"], decimals=0)
    names: dict[str, Any] = {"perf_schema_mb": "performance schema, MB", "server_mb": "server in memory, MB"}
    return table.cols_label(names).tab_source_note(
        "As the server tells of its performance schema after each step, and the most that its process had in memory."
    )


def _as_it_is(value: str | None) -> str:
    # Only for the cells that are made below, from numbers.
    return value or "–"


def _throughput(row: dict[str, Any]) -> str:
    if row["share"] is None:
        return "–"
    low, high = row["share_low"], row["share_high"]
    reach = "no interval" if low is None else f"{-high:+.1%} to {-low:+.1%}"
    return f'<b>{SIGNS[row["share_verdict"]]} {-row["share"]:+.1%}</b><br><span style="{_SMALL}">{reach}</span>'


def _cpu(row: dict[str, Any]) -> str:
    low, high = row["added_low_us"], row["added_high_us"]
    reach = "no interval" if low is None else f"{low:+,.2f} to {high:+,.2f}"
    return f'<b>{row["added_us"]:+,.2f}</b><br><span style="{_SMALL}">{reach}</span>'


def _share(row: dict[str, Any]) -> str:
    low, high = row["cpu_low"], row["cpu_high"]
    reach = "no interval" if low is None else f"{low - 1:+.1%} to {high - 1:+.1%}"
    sign = COST_SIGNS[row["verdict"]]
    return f'<b>{sign} {row["cpu_ratio"] - 1:+.1%}</b><br><span style="{_SMALL}">{reach}</span>'
