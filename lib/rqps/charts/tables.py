"""Tables: the same numbers as in the charts, with interval and count, to be read and copied."""

from html import escape
from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.charts.text import Sentences
from rqps.charts.theme import (
    FONTS,
    GRID,
    INK,
    MUTED,
    by_host,
    colour_of,
    coverage_of,
    in_order,
    ink_on,
    legend_of,
    rounds_of,
    signs_of,
    told_apart,
)

LONGEST_VALUE = 24

# As the published tables have them: cost per operation beside throughput.
ABSOLUTE = {
    "operations_per_s": "operations/s",
    "server_cpu_us_per_operation": "server CPU, µs/o",
    "client_cpu_us_per_operation": "client CPU, µs/o",
    "host_context_switches_per_operation": "cs/o",
    "host_reads_per_operation": "r/o",
    "host_read_kb_per_operation": "rKB/o",
    "host_write_kb_per_operation": "wKB/o",
}


def relative_table(summary: pl.DataFrame, metric: str = "operations_per_s") -> GT:
    """Steps by dbms: the median ratio, its interval, rounds and verdict; what to know of a number in the margin."""
    numbers, of_all = told_apart(summary.filter(metric=metric))
    rows = by_host(numbers)
    dbms = in_order(rows["dbms"])
    wide = pl.DataFrame({"step": in_order(rows["step"])})
    for name in dbms:
        cell = rows.filter(dbms=name).select("step", pl.struct(pl.all()).map_elements(_cell, pl.String).alias(name))
        wide = wide.join(cell, on="step", how="left", maintain_order="left")
    table = _styled(wide, f"relative-{metric}").fmt(_as_it_is, columns=dbms).cols_align("center", columns=dbms)
    table = table.tab_style(style.css("white-space: nowrap"), loc.body(columns="step"))
    for row in rows.iter_rows(named=True):
        at = loc.body(columns=row["dbms"], rows=pl.col("step") == row["step"])
        if metric == "operations_per_s":
            paint = [style.fill(colour_of(row["median"])), style.text(color=ink_on(row["median"]))]
            table = table.tab_style(paint, at)
    notes = f"{rounds_of(rows['n'].to_list())}; {coverage_of(rows['coverage'].to_list())} of the median."
    return table.tab_source_note(
        f"Relative to: {rows['base'][0]}. Median ratio of {notes} {legend_of(metric)}{of_all}"
    )


def relative_text(summary: pl.DataFrame, metric: str = "operations_per_s") -> str:
    """The relative table in the form in which such studies are published, with the interval after each ratio."""
    rows = by_host(summary.filter(metric=metric))
    dbms, steps = in_order(rows["dbms"]), in_order(rows["step"])
    cells = {(row["step"], row["dbms"]): row for row in rows.iter_rows(named=True)}
    lines = [f"Relative to: {rows['base'][0]}"]
    lines += [f"col-{number} : {name}" for number, name in enumerate(dbms, 1)]
    lines += ["", "".join(f"col-{number}".ljust(24) for number in range(1, len(dbms) + 1)) + "step"]
    for step in steps:
        lines.append("".join(_plain(cells.get((step, name))).ljust(24) for name in dbms) + step)
    return "\n".join(lines)


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
        _styled(wide, "absolute", groupname_col="step", rowname_col="dbms")
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
    cell = pl.struct(pl.all()).map_elements(_cell, pl.String).alias("cell")
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
    table = _styled(rows.select(pair.alias("pair"), "step", *shown), "config", groupname_col="pair")
    table = table.cols_label(dict(named)).fmt(_as_it_is, columns=shown).cols_align("center", columns=shown)
    sure = coverage_of(effects["coverage"].to_list())
    return table.tab_source_note(
        f"Median of {rounds_of(effects['n'].to_list())}, {sure}. Throughput: {legend_of('operations_per_s')} "
        "CPU/o: ▲ dearer, ▼ cheaper. Given back: how much higher rQPS against the study's base is, round by round."
    )


def plain_table(frame: pl.DataFrame, name: str, note: str = "", **labels: str) -> GT:
    """Any small frame as a table."""
    table = _styled(frame, name).cols_label(dict(labels))
    return table.tab_source_note(note) if note else table


def builds_table(builds: pl.DataFrame) -> GT:
    """The servers that answered."""
    named = {"version_comment": "calls itself", "build_source": "source", "options": "options that differ"}
    note = "sha256: the first 12 digits of the digest of the mysqld file. Options that all have alike stand below."
    return plain_table(builds, "builds", note, **named)


def differences_table(differences: pl.DataFrame) -> GT | Sentences:
    """One row a setting, one column a dbms; where a dbms has the base's value its cell is empty."""
    if differences.is_empty():
        return Sentences(["None: all settings that no config asks for are alike."])
    rows = by_host(differences).with_columns(pl.col("base_value", "value").map_elements(_short, pl.String))
    base = str(rows["base"][0])
    wide = rows.pivot("dbms", index=["name", "base_value"], values="value", maintain_order=True).sort("name")
    shown = [name for name in wide.columns if name != "name"]
    note = f"An empty cell: the same as {base}. Hover over a value that is cut off."
    return (
        _styled(wide, "differences")
        .cols_label({"base_value": base})
        .fmt(_as_told, columns=shown)
        .tab_source_note(note)
    )


def warnings_table(warnings: pl.DataFrame) -> GT:
    """One row a warning: what is the matter, and whom it concerns; the same thing is said once."""
    keys = ["kind", "host", "dbms", "step", "text"]
    rounds = pl.col("round").drop_nulls().unique().sort().cast(pl.String).str.join(", ")
    rows = warnings.group_by(keys, maintain_order=True).agg(rounds.alias("rounds")).sort("kind", maintain_order=True)
    rows = rows.with_columns(pl.col("dbms", "step").fill_null("all"), pl.col("rounds").replace("", "all"))
    if rows.is_empty():
        rows = pl.DataFrame({"kind": ["none"], "text": ["No run gave a warning."]})
    return _styled(rows.select("kind", *[name for name in rows.columns if name != "kind"]), "warnings")


def conditions_table(conditions: pl.DataFrame) -> GT:
    """What all runs of a host had in common, grouped by what it is about."""
    rows = conditions.with_columns(pl.col("value").fill_null("not known"))
    if rows["host"].n_unique() < 2:
        rows = rows.drop("host")
    return _styled(rows, "conditions", groupname_col="kind", rowname_col="name")


def _styled(frame: pl.DataFrame, name: str, **groups: Any) -> GT:
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


def _as_told(value: str | None) -> str:
    return value or ""


def _short(value: str) -> str:
    """A value as text, cut where it is longer than a cell should be."""
    if len(value) <= LONGEST_VALUE:
        return escape(value) or "(empty)"
    return f'<span title="{escape(value)}">{escape(value[:LONGEST_VALUE])}…</span>'


def _cell(row: dict[str, Any]) -> str:
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
