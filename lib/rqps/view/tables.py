"""Tables: the same numbers as in the charts, with interval and count, to be read and copied."""

from html import escape
from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.view.text import Sentences
from rqps.view.theme import (
    FONTS,
    GRID,
    INK,
    MUTED,
    by_host,
    colour_of,
    coverage_of,
    in_order,
    ink_on_colour,
    legend_of,
    rounds_of,
    signs_of,
    told_apart,
)

# As the published tables have them: cost per operation beside throughput.
ABSOLUTE = {
    "operations_per_s": "operations/s",
    "server_cpu_us_per_operation": "server CPU, µs/o",
    "client_cpu_us_per_operation": "client CPU, µs/o",
    "host_context_switches_per_operation": "cs/o",
    "host_reads_per_operation": "r/o",
    "host_read_kb_per_operation": "rKB/o",
    "host_write_kb_per_operation": "wKB/o",
    "server_instructions_per_operation": "server instructions/o",  # of the CPU's own counters, where it has them
    "server_cycles_per_operation": "server cycles/o",
}


def relative_table(summary: pl.DataFrame, metric: str = "operations_per_s") -> GT:
    """Steps by dbms: the median ratio, its interval, rounds and verdict; what to know of a number in the margin."""
    numbers, of_all = told_apart(summary.filter(metric=metric))
    rows = by_host(numbers)
    dbms = in_order(rows["dbms"])
    grouped = ["group"] if len(_groups(rows)) > 1 else []
    cells = rows.with_columns(pl.struct(pl.all()).map_elements(ratio_cell, pl.String).alias("cell"))
    wide = cells.pivot("dbms", index=[*grouped, "step"], values="cell", maintain_order=True)
    groups = {"groupname_col": "group"} if grouped else {}
    table = styled(wide.select(*grouped, "step", *dbms), f"relative-{metric}", **groups)
    table = table.fmt(_as_it_is, columns=dbms).cols_align("center", columns=dbms)
    table = table.tab_style(style.css("white-space: nowrap"), loc.body(columns="step"))
    if metric == "operations_per_s":
        cells = rows.select("step", column="dbms", value="median")
        table = painted(table, cells, wide["step"].to_list())
    notes = f"{rounds_of(rows['n'].to_list())}; {coverage_of(rows['coverage'].to_list())} of the median."
    return table.tab_source_note(
        f"Relative to: {rows['base'][0]}. Median ratio of {notes} {legend_of(metric)}{of_all}"
    )


def painted(table: GT, cells: pl.DataFrame, steps: list[str]) -> GT:
    """The table with its ratios (`step, column, value`) on their colours; `steps` are its rows."""
    place = {step: number for number, step in enumerate(steps)}
    places: dict[tuple[str, str], list[int]] = {}
    for step, column, value in cells.iter_rows():
        places.setdefault((column, colour_of(value)), []).append(place[step])
    for (column, colour), at in places.items():
        paint = [style.fill(colour), style.text(color=ink_on_colour(colour))]
        table = table.tab_style(paint, loc.body(columns=column, rows=at))
    return table


def relative_text(summary: pl.DataFrame, metric: str = "operations_per_s") -> str:
    """The relative table in the form in which such studies are published, with the interval after each ratio."""
    rows = by_host(summary.filter(metric=metric))
    dbms = in_order(rows["dbms"])
    cells = {(row["step"], row["dbms"]): row for row in rows.iter_rows(named=True)}
    lines = [f"Relative to: {rows['base'][0]}"]
    lines += [f"col-{number} : {name}" for number, name in enumerate(dbms, 1)]
    lines += ["", "".join(f"col-{number}".ljust(24) for number in range(1, len(dbms) + 1)) + "step"]
    groups = _groups(rows)
    for number, (group, steps) in enumerate(groups.items()):
        lines += [""] * (number > 0) + [group] * (len(groups) > 1)
        lines += ["".join(_plain(cells.get((step, name))).ljust(24) for name in dbms) + step for step in steps]
    return "\n".join(lines)


def _groups(rows: pl.DataFrame) -> dict[str, list[str]]:
    """The steps of each group; all in one that has no name where there are no groups."""
    if "group" not in rows.columns:
        return {"": in_order(rows["step"])}
    return {str(group): in_order(of["step"]) for (group,), of in rows.group_by("group", maintain_order=True)}


def absolute_table(absolute: pl.DataFrame) -> GT:
    """One row a step and dbms: throughput with its interval, and what an operation costs."""
    rows = by_host(absolute.filter(pl.col("metric").is_in(list(ABSOLUTE))))
    cell = pl.struct("metric", "median", "low", "high").map_elements(_value, pl.String).alias("cell")
    wide = rows.with_columns(cell).pivot("metric", index=["step", "dbms"], values="cell", maintain_order=True)
    shown = [name for name in ABSOLUTE if name in wide.columns]
    rounds = rows.filter(metric="operations_per_s").select("step", "dbms", pl.col("n").alias("rounds"))
    wide = wide.select("step", "dbms", *shown).join(rounds, on=["step", "dbms"], maintain_order="left")
    sure = coverage_of(rows["coverage"].to_list())
    what = f"Medians, below them the {sure}" if rows["n"].max() != 1 else "One round, so there is no interval"
    return (
        styled(wide, "absolute", groupname_col="step", rowname_col="dbms")
        .fmt(_as_it_is, columns=shown)
        .cols_label({name: ABSOLUTE[name] for name in shown})
        .cols_align("right", columns=[*shown, "rounds"])
        .tab_source_note(
            f"{what}. µs/o is CPU time per operation of the process; cs/o, r/o, rKB/o and "
            "wKB/o are the whole host's context switches, disk reads and KB per operation."
        )
    )


def config_table(effects: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame) -> GT | Sentences:
    """Within a build: what another config does of the first one's throughput and CPU, and gives back of rQPS."""
    if effects.is_empty():
        return Sentences(["No build of this study ran with two configs."])
    keys = ["host", "step", "dbms", "base"]
    cell = pl.struct(pl.all()).map_elements(ratio_cell, pl.String).alias("cell")
    wide = effects.with_columns(cell).pivot("metric", index=keys, values="cell", maintain_order=True)
    gained = gains.filter(metric="operations_per_s").select(
        "host", "step", "dbms", pl.struct(pl.all()).map_elements(_gain, pl.String).alias("gain"), base="instead_of"
    )
    what = changes.rename({"instead_of": "base"})
    rows = wide.join(gained, on=keys, how="left", maintain_order="left")
    rows = by_host(rows.join(what, on=["dbms", "base"], how="left", maintain_order="left"))
    pair = pl.format("{} ({}) against {}", "dbms", pl.col("change").fill_null("same options"), "base")
    shown = ["operations_per_s", "server_cpu_us_per_operation", "gain"]
    named = {
        "operations_per_s": "throughput",
        "server_cpu_us_per_operation": "server CPU/o",
        "gain": "rQPS given back",
    }
    table = styled(rows.select(pair.alias("pair"), "step", *shown), "config", groupname_col="pair")
    table = table.cols_label(dict(named)).fmt(_as_it_is, columns=shown).cols_align("center", columns=shown)
    sure = coverage_of(effects["coverage"].to_list())
    return table.tab_source_note(
        f"Median of {rounds_of(effects['n'].to_list())}, {sure}. Throughput: {legend_of('operations_per_s')} "
        "CPU/o: ▲ dearer, ▼ cheaper. Given back: how much higher rQPS against the study's base is, round by round."
    )


def plain_table(frame: pl.DataFrame, name: str, note: str = "", **labels: str) -> GT:
    """Any small frame as a table."""
    table = styled(frame, name).cols_label(dict(labels))
    return table.tab_source_note(note) if note else table


def styled(frame: pl.DataFrame, name: str, **groups: Any) -> GT:
    """A frame as a table in our style. `name` makes its id; `groups` are great_tables' words for group and stub."""
    return (
        GT(frame, id=f"rqps-{name}", **groups)
        .opt_table_font(font=list(FONTS))
        .tab_options(
            table_font_size="14px",
            table_font_color=INK,
            table_margin_left="0",
            data_row_padding="5px",
            heading_align="left",
            table_border_top_style="none",
            table_border_bottom_color=GRID,
            table_body_hlines_color=GRID,
            column_labels_font_weight="600",
            row_group_font_weight="600",
            row_group_padding="7px",
            source_notes_font_size="12px",
        )
    )


def _as_it_is(value: str | None) -> str:
    # Only for the cells that are made below, from numbers.
    return value or "–"


def ratio_cell(row: dict[str, Any]) -> str:
    warned = row.get("warned") or ""
    mark = f' <span title="{escape(warned)}">⚠</span>' if warned else ""
    small = "font-size:11px;white-space:nowrap"
    return (
        f'<b style="white-space:nowrap">{signs_of(row["metric"])[row["verdict"]]} {row["median"]:.2f}{mark}</b><br>'
        f'<span style="{small}">{_interval(row, ".2f")} · n={row["n"]}</span>'
    )


def _gain(row: dict[str, Any]) -> str:
    reach = "no interval" if row["low"] is None else f"{row['low']:+.2f} to {row['high']:+.2f}"
    small = "font-size:11px;white-space:nowrap"
    return f'<b>{row["median"]:+.2f}</b><br><span style="{small}">{reach} · n={row["n"]}</span>'


def _plain(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    return f"{row['median']:.2f} ({_interval(row, '.2f')}) {signs_of(row['metric'])[row['verdict']]} n={row['n']}"


def _value(row: dict[str, Any]) -> str:
    form = ",.0f" if row["metric"] == "operations_per_s" else ",.2f" if row["median"] < 100 else ",.0f"
    if row["low"] is None:
        return f"{row['median']:{form}}"
    small = f"font-size:11px;color:{MUTED};white-space:nowrap"
    return f'{row["median"]:{form}}<br><span style="{small}">{_interval(row, form)}</span>'


def _interval(row: dict[str, Any], form: str) -> str:
    return "no interval" if row["low"] is None else f"{row['low']:{form}}–{row['high']:{form}}"
