"""Tables that are described by lists of columns, and ratios as a table and as plain text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Any

import polars as pl
from great_tables import GT, html, loc, style

from rqps.numbers import change, formatted, ratio
from rqps.show.sentences import steps_of_means
from rqps.show.theme import COLOURS, FONTS, GRID, INK, MUTED, colour_of, ink_on
from rqps.show.words import (
    NOT_COMPARED,
    Nothing,
    Sentences,
    by_host,
    change_interval,
    coverage_of,
    first_of_many,
    groups_of,
    in_order,
    interval_of,
    legend_of,
    medians_of,
    own_warnings,
    reach_of,
    rounds_of,
    signs_of,
)
from rqps.stats import THROUGHPUTS, metric_of
from rqps.stats.metrics import REGISTRY, THROUGHPUT
from rqps.terminal import in_columns

Cell = Mapping[str, Any]
MOST_EXPLAINED = 4
ABSOLUTE = {metric.name: metric.column for metric in REGISTRY if metric.column}
"""Maps metrics to the columns of the table of absolute values, named as in the published tables."""

_STYLE: dict[str, Any] = {
    "table_font_size": "14px",
    "table_font_color": INK,
    "table_margin_left": "0",
    "data_row_padding": "5px",
    "heading_align": "left",
    "table_border_top_style": "none",
    "table_border_bottom_color": GRID,
    "table_body_hlines_color": GRID,
    "column_labels_font_weight": "600",
    "row_group_font_weight": "600",
    "row_group_padding": "7px",
    "source_notes_font_size": "12px",
}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    `form` is a format such as `.2f`, or a function that returns a value's HTML. `colour` returns the background
    colour of a value, or None. Nulls are shown as dashes. Columns with the same text in `under` have it as their
    common heading.
    """

    name: str
    label: str = ""
    form: str | Callable[[Any], str] = ""
    colour: Callable[[Any], str | None] | None = None
    align: str = ""
    note: str = ""
    under: str = ""


def table(
    frame: pl.DataFrame | Sequence[Cell],
    columns: Iterable[Column] | None = None,
    *,
    name: str,
    group: str = "",
    rows: str = "",
    title: str = "",
    note: str = "",
) -> GT:
    """A table of the columns of a frame, in the project's style.

    `name` becomes the id of the table. The column `group` has the headings of groups, the column `rows` the names of
    rows. `note` and the notes of the columns are printed below the table.
    """
    if isinstance(frame, pl.DataFrame):
        values = frame.to_dict(as_series=False)
    else:
        values = {column: [row[column] for row in frame] for column in (frame[0] if frame else ())}
    columns = list(columns) if columns is not None else [Column(column) for column in values]
    heads = filter(None, (group, rows))
    cells = {head: values[head] for head in heads} | {
        column.name: _written(column.form, values[column.name]) for column in columns
    }
    made = GT(
        pl.DataFrame(cells, strict=False), id=f"rqps-{name}", groupname_col=group or None, rowname_col=rows or None
    )
    made = made.opt_table_font(font=list(FONTS)).tab_options(**_STYLE)
    made = made.cols_label({column.name: column.label for column in columns if column.label})
    if written := [column.name for column in columns if column.form]:
        made = made.fmt(lambda value: value or "–", columns=written)
    for align in {column.align for column in columns if column.align}:
        made = made.cols_align(align, columns=[column.name for column in columns if column.align == align])
    for under in in_order(column.under for column in columns if column.under):
        made = made.tab_spanner(under, columns=[column.name for column in columns if column.under == under])
    if rows:
        made = made.tab_style(style.css("white-space: nowrap"), loc.stub())
    for column in columns:
        colours = [column.colour(value) for value in values[column.name]] if column.colour else []
        for colour in in_order(filter(None, colours)):
            at = loc.body(columns=column.name, rows=[row for row, other in enumerate(colours) if other == colour])
            made = made.tab_style([style.fill(colour), style.text(color=ink_on(colour))], at)
    if title:
        made = made.tab_header(title=title)
    notes = " ".join(filter(None, (note, *(column.note for column in columns))))
    return made.tab_source_note(html(f"<div>{escape(notes)}</div>")) if notes else made


def spread(frame: pl.DataFrame, across: str, index: Sequence[str]) -> list[dict[str, Any]]:
    """One row per distinct `index`, with a column for each value of `across`. A cell is the matching row of the frame
    as a dict, or None.

    >>> ratios = pl.DataFrame({"step": ["a", "a"], "dbms": ["x", "y"], "estimate": [1.0, 0.8]})
    >>> spread(ratios, "dbms", ["step"])[0]["y"]["estimate"]
    0.8
    """
    heads = in_order(frame[across])
    wide: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in frame.iter_rows(named=True):
        key = tuple(row[name] for name in index)
        wide.setdefault(key, dict(zip(index, key, strict=True)) | dict.fromkeys(heads))[row[across]] = row
    return list(wide.values())


def pivoted(
    frame: pl.DataFrame,
    across: str,
    rows: str,
    form: Callable[[Cell], str],
    *,
    name: str,
    colour: Callable[[Cell | None], str | None] | None = None,
    group: str = "",
    label: str = "",
    title: str = "",
    note: str = "",
    empty: str = NOT_COMPARED,
    names: Mapping[str, str] = MappingProxyType({}),
) -> GT | Sentences:
    """One row for each value of `rows` (below headings of `group`), one column for each value of `across`. `names`
    maps these values to the names that are shown. If several hosts have the same cell, each host has its own row.

    `form` returns a cell's HTML from the matching row of the frame, `colour` returns its background colour. If the
    frame has no rows, only the sentence `empty` is shown.

    >>> frame = pl.DataFrame({"step": ["a", "b"], "dbms": ["x", "x"], "estimate": [1.0, 0.8]})
    >>> "0.80" in pivoted(frame, "step", "dbms", lambda row: ratio(row["estimate"]), name="ratios").as_raw_html()
    True
    """
    if frame.is_empty():
        return Nothing([empty])
    if "host" in frame.columns and frame.select(*filter(None, [group]), rows, across).is_duplicated().any():
        frame = frame.with_columns(pl.format("{} on {}", pl.col(rows).replace(names), "host").alias(rows))
    columns = [Column(value, names.get(value, ""), form, colour, "center") for value in in_order(frame[across])]
    cells = spread(frame, across, [*filter(None, [group]), rows])
    heads = Column(rows, label, lambda value: escape(names.get(value, value))) if names else Column(rows, label)
    return table(cells, [heads, *columns], name=name, group=group, title=title, note=note)


def two_lines(above: str, below: str, *, muted: bool = False) -> str:
    """The HTML of a cell with two lines, the lower one in smaller type."""
    ink = f"color:{MUTED};" if muted else ""
    return f'{above}<span style="font-size:11px;display:block;{ink}white-space:nowrap">{below}</span>'


def unbroken(name: str) -> str:
    """A name as HTML that does not wrap."""
    return f'<span style="white-space:nowrap">{escape(name)}</span>'


def cut(text: str, longest: int) -> str:
    """A text as HTML, truncated to `longest` characters; the tooltip has the whole text.

    >>> cut("ON", 24), cut("a<b", 2)
    ('ON', '<span title="a&lt;b">a&lt;…</span>')
    """
    return escape(text) if len(text) <= longest else f'<span title="{escape(text)}">{escape(text[:longest])}…</span>'


def whose(row: Cell, cell: str) -> str:
    """The HTML of a cell with its step, dbms and base as attributes, by which a page links the cell to its rounds."""
    names = "".join(f' data-{name}="{escape(row[name])}"' for name in ("step", "dbms", "base") if name in row)
    return f"<span{names}>{cell}</span>"


def ratio_cell(row: Cell) -> str:
    """The table cell of one comparison: the sign of the verdict and the ratio in the first line, the interval and
    the number of rounds in the second."""
    warned = row.get("warned") or ""
    mark = f' <span title="{escape(warned)}">⚠</span>' if warned else ""
    number = f"{signs_of(row['metric']).get(row.get('verdict', ''), '')} {ratio(row['estimate'])}{mark}".lstrip()
    cell = two_lines(f'<b style="white-space:nowrap">{number}</b>', f"{interval_of(row)} · n={row['n']}")
    return whose(row, cell)


def change_cell(row: Cell) -> str:
    """The table cell of one comparison: the sign of the verdict and the change in percent in the first line, the
    interval in the second. The tooltip is the column `needs` of `row`, if there is one: the rounds or occasions
    that would decide an unsure comparison.

    >>> row = {"metric": "operations_per_s", "verdict": "faster", "estimate": 1.1, "low": 1.08, "high": 1.12, "n": 4}
    >>> "+10.0 %" in change_cell(row)
    True
    """
    number = f"{signs_of(row['metric'])[row['verdict']]} {change(row['estimate'])}"
    return whose(row, two_lines(f'<b title="{escape(row.get("needs") or "")}">{number}</b>', change_interval(row)))


def ratio_colour(row: Cell | None) -> str | None:
    """The heat map's colour for a comparison, orange if slower or more expensive; None if it has no verdict."""
    if not row or "verdict" not in row:
        return None
    colours = COLOURS if row["metric"] in THROUGHPUTS else COLOURS[::-1]
    return colour_of(row["estimate"], row["verdict"], colours)


def ratio_table(
    compared: pl.DataFrame,
    metric: str = "",
    means: pl.DataFrame | None = None,
    left_out: Mapping[str, Sequence[str]] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """One row per step, one column per dbms: the ratio, its interval, rounds and verdict. The last row has the
    `means` over the steps, which exclude the steps `left_out`. `names` maps dbms to the column heads."""
    metric = metric or metric_of(compared)
    if metric not in set(compared["metric"]):
        return Sentences([NOT_COMPARED])
    numbers, of_all = own_warnings(compared.filter(metric=metric))
    rows = by_host(numbers)
    group = "group" if len(groups_of(rows)) > 1 else ""
    colour = ratio_colour if metric == THROUGHPUT else None
    columns = [Column(dbms, names.get(dbms, ""), ratio_cell, colour, "center") for dbms in in_order(rows["dbms"])]
    base = names.get(rows["base"][0], rows["base"][0])
    notes = f"{rounds_of(rows['n'])}; {coverage_of(rows['coverage'])} of the mean."
    marked = [
        f"⚠ {row['step']}, {names.get(row['dbms'], row['dbms'])}: {row['warned']}."
        for row in rows.filter(pl.col("warned") != "").to_dicts()
    ]
    more = f" ⚠ {len(marked) - MOST_EXPLAINED} more stand under the warnings." if len(marked) > MOST_EXPLAINED else ""
    cells = spread(rows, "dbms", [*filter(None, [group]), "step"])
    if last := means_of(means, metric):
        cells.append(dict.fromkeys(cells[0]) | {"group": "Over the steps", "step": "geometric mean", **last})
    over = steps_of_means(means.filter(metric=metric), left_out) if means is not None and last else ""
    return table(
        cells,
        [Column("step", form=unbroken), *columns],
        name=f"relative-{metric}",
        group=group,
        note=f"Relative to: {base}. Mean ratio of {notes} {legend_of(rows)}{of_all} "
        f"{' '.join(marked[:MOST_EXPLAINED])}{more} {over}".strip(),
    )


def means_of(means: pl.DataFrame | None, metric: str) -> dict[str, Cell]:
    """Maps each dbms to its row in the frame of geometric means; empty if there is no such frame."""
    rows = [] if means is None else by_host(means.filter(metric=metric)).to_dicts()
    return {row["dbms"]: row for row in rows}


def ratio_text(compared: pl.DataFrame, metric: str = "") -> str:
    """Ratios as plain text in the layout of the published studies, each with interval, verdict and rounds."""
    metric = metric or metric_of(compared)
    if metric not in set(compared["metric"]):
        return NOT_COMPARED
    rows = by_host(compared.filter(metric=metric))
    dbms, signs = in_order(rows["dbms"]), signs_of(metric)
    cells = {
        (row["step"], row["dbms"]): " ".join(
            filter(
                None, [ratio(row["estimate"]), f"({interval_of(row)})", signs.get(row["verdict"]), f"n={row['n']}"]
            )
        )
        for row in rows.iter_rows(named=True)
    }
    columns = {f"col-{number}": name for number, name in enumerate(dbms, 1)}
    legend = [f"Relative to: {rows['base'][0]}", *(f"{column} : {name}" for column, name in columns.items()), ""]
    lines, groups = [[*columns, "step"]], groups_of(rows)
    for number, (group, steps) in enumerate(groups.items()):
        lines += [[""]] * (number > 0) + [[group]] * (len(groups) > 1)
        lines += [[*(cells.get((step, name), "-") for name in dbms), step] for step in steps]
    return "\n".join([*legend, *in_columns(lines, align="<")])


def absolute_table(absolute: pl.DataFrame) -> GT:
    """One row per step and dbms: throughput and the costs per operation, with their intervals."""
    rows = by_host(absolute.filter(pl.col("metric").is_in(list(ABSOLUTE))))
    of_steps = rows.filter(metric=THROUGHPUT).group_by("step", maintain_order=True)
    rows, left_out = first_of_many(rows, of_steps.agg(pl.col("estimate").max() / pl.col("estimate").min()))
    measured = set(rows["metric"])
    cells = spread(rows, "metric", ["step", "dbms"])
    for row in cells:
        row["rounds"] = (row.get(THROUGHPUT) or {}).get("n")

    def cell(row: Cell) -> str:
        form = ",.0f" if row["metric"] == THROUGHPUT or row["estimate"] >= 100 else ",.2f"
        number = formatted(row["estimate"], form)
        return number if row["low"] is None else two_lines(number, interval_of(row, form), muted=True)

    what = f"Medians, below them the {coverage_of(rows['coverage'])}"
    if rows["n"].max() == 1:
        what = "One round, so there is no interval"
    metrics = [Column(name, label, cell, align="right") for name, label in ABSOLUTE.items() if name in measured]
    return table(
        cells,
        [*metrics, Column("rounds")],
        name="absolute",
        group="step",
        rows="dbms",
        note=f"{what}. µs/o is CPU time per operation of the process; cs/o, r/o, rKB/o and wKB/o are the whole "
        f"host's context switches, disk reads and KB per operation; ms/r and ms/w are the time of one read and one "
        f"write by the disk; disk wait is the part of the time in which something waits for a disk.{left_out}",
    )


def numbers_table(
    numbers: pl.DataFrame,
    forms: Mapping[str, Callable[[float], str]],
    base: str,
    *,
    name: str,
    title: str = "",
    by: str = "step",
) -> GT | Sentences:
    """One row per step and dbms, one column per metric of the tidy frame: each number with its interval. `forms` maps
    metrics to their format functions. Rows are grouped `by` step or by dbms; in both cases the base comes first.
    """
    rows = numbers.filter(pl.col("metric").is_in(list(forms)))
    if rows.is_empty():
        return Nothing(["No step of this study has such a number."])
    is_me = pl.col("dbms") != base
    listed = pl.col("dbms").cast(pl.Enum(in_order(rows["dbms"])))
    order: list[Any] = ["position", is_me] if by == "step" else [is_me, listed, "position"]
    wide = spread(by_host(rows.sort("host", *order, maintain_order=True)), "metric", ["step", "dbms"])
    shown = [Column(metric, "", with_interval(form), align="right") for metric, form in forms.items()]
    shown = [column for column in shown if column.name in wide[0]]
    of_row = "dbms" if by == "step" else "step"
    return table(wide, shown, name=name, group=by, rows=of_row, title=title, note=medians_of(rows))


def with_interval(form: Callable[[float], str]) -> Callable[[Cell], str]:
    """A function that returns the HTML of a cell: the median, formatted by `form`, above its interval."""

    def cell(row: Cell) -> str:
        return two_lines(form(row["estimate"]), reach_of(row, form), muted=True)

    return cell


def _written(form: str | Callable[[Any], str], values: list[Any]) -> list[Any]:
    write = form if callable(form) else lambda value: formatted(value, form)
    return ["–" if value is None else write(value) for value in values] if form else values
