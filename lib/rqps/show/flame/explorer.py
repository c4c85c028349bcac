"""A heat map of steps by dbms: each cell is a link to the parts of its difference and to its flame graph."""

from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from urllib.parse import quote, urlencode

import polars as pl

from rqps.profile.breakdown import INSTRUCTIONS
from rqps.profile.pair import ASSUMED
from rqps.show.flame.frames import Tree, names_of, tree_of
from rqps.show.flame.graph import Drawing, claim_of, figure_of, folded_of, how_of, shared_names
from rqps.show.flame.picture import figure, with_error
from rqps.show.theme import VERDICT_COLOURS, colour_of, ink_on
from rqps.show.words import COST_SIGNS, Nothing, Row, by_host, in_order, legend_of, rounds_of, verdict_words

PARTS_STYLE = """
.rqps-parts caption { text-align: left; }
.rqps-parts td, .rqps-parts th { text-align: right; }
.rqps-parts td:first-child { min-width: 118px; }
.rqps-parts :is(td, th):is(:first-child, :last-child), .rqps-function td:nth-child(2) { text-align: left; }
.rqps-parts i { display: block; height: 12px; width: var(--w); background: var(--more); margin-left: 60px; }
.rqps-parts i.l { margin-left: calc(60px - var(--w)); }
.rqps-parts td:has(> i) { min-width: 120px; }
"""
"""Style of the tables of parts: each row has a bar of length `--w`, which points left if the part costs less."""
STYLE = """
.rqps-map { border-collapse: separate; border-spacing: 2px; font-size: 13px; font-variant-numeric: tabular-nums; }
.rqps-map th { font-weight: normal; text-align: left; padding: 2px 6px 2px 0; }
.rqps-map th[scope=row] { position: sticky; left: 0; background: #fff; }
.rqps-map td { padding: 0; text-align: center; }
.rqps-map a { display: block; padding: 4px 5px; text-decoration: none; white-space: nowrap; }
.rqps-map a:hover { text-decoration: underline; }
.rqps-map a[aria-current=true] { outline: 3px solid #0b5c8a; }
.rqps-map small { display: block; font-size: 11px; }
.rqps-cell { scroll-margin-top: 12px; }
.rqps-cell > div { scroll-margin-top: 56px; }
.rqps-cell > summary { font-weight: 600; font-size: 17px; margin: 14px 0 4px; }
"""
BAR_PX = 60
MOST_PARTS, MOST_FUNCTIONS = 8, 6
MANY_CELLS, MOST_OF_MANY = 60, 4
"""With more than `MANY_CELLS` cells, each cell's table has at most `MOST_OF_MANY` rows: more would slow a browser."""
WORDS = verdict_words("cost")


def explorer(
    operations: pl.DataFrame,
    parts: pl.DataFrame,
    functions: pl.DataFrame,
    trees: pl.DataFrame,
    *,
    by: str = "",
    what: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
    fold_below: float | None = None,
) -> Drawing | Nothing:
    """A heat map of all `operations`, and for each cell its flame graph and tables of its `parts` and `functions`.

    `operations`, `parts` and `functions` are tidy frames of differences; `operations` also has the column `finding`,
    a sentence. The fragment of a page's address can name a cell: `#step=point-query&dbms=my8033.base`. If a page has
    two explorers, each has a name `by`, and `&by=` chooses one; `&search=` searches for a function.
    `what` names a cost other than CPU and instructions; `names` maps dbms to the names that are shown.
    """
    if operations.is_empty():
        return Nothing(["There is nothing to choose from: no step has a profile of a dbms and of its base."])
    operations = by_host(operations)
    base, unit = operations.select("base", "unit").row(0)
    # If not all comparisons have the same number of rounds, each cell shows the number of its rounds.
    rounds = rounds_of(operations["n"]) if operations["n"].n_unique() == 1 else ""
    rows = {(row["step"], row["dbms"]): row for row in operations.iter_rows(named=True)}
    frames = [by_host(frame).partition_by("step", "dbms", as_dict=True) for frame in (trees, parts, functions)]
    folded = folded_of(fold_below)
    first = max(rows.values(), key=lambda row: abs(row["estimate"]) / (row["base_estimate"] or 1.0))
    trees_of = {cell: tree_of(frames[0][cell], (row["high"] - row["low"]) / 2) for cell, row in rows.items()}
    functions_of, at_most = names_of(trees_of.values()), MOST_OF_MANY if len(rows) > MANY_CELLS else MOST_PARTS
    sections = [
        _section(
            row,
            by,
            folded,
            names,
            functions_of,
            trees_of[cell],
            *(frame[cell] for frame in frames[1:]),
            at_most=at_most,
            picture=row is first,
        )
        for cell, row in rows.items()
    ]
    what = what or ("instructions" if unit == INSTRUCTIONS else "CPU")
    words = {"slower": f"cost more {what}", "faster": f"cost less {what}", "same": "the same", "unsure": "are unsure"}
    count = dict(operations.group_by("verdict").len().rows())
    counts = ", ".join(f"{count[verdict]} {word}" for verdict, word in words.items() if verdict in count)
    claim = f"Of {operations.height} comparison{'s' * (operations.height > 1)} with "
    claim += f"{names.get(base, base)}, {counts}."
    how = how_of(unit, fold_below)
    below = f"Below a difference: base → me{f', means of {rounds}' if rounds else ', and n rounds'}."
    html = (
        f'<div class="rqps-explorer" data-by="{escape(by)}"><style>{STYLE}{PARTS_STYLE}</style>'
        f"<p><strong>{escape(claim)}</strong> Each cell is a link to the parts of its difference, by component and "
        f"as a flame graph. {below} {legend_of(operations)}</p>"
        f"{_map(rows, first, unit, by, rounds, names)}{shared_names(functions_of)}"
        f"<details><summary>How to read a flame graph</summary><p>{escape(how)}</p></details>"
        f'<p class="rqps-note" role="status"></p>{"".join(sections)}</div>'
    )
    return Drawing(claim, how, html)


def address(step: str, dbms: str, by: str = "", base: str = "", host: str = "") -> str:
    """The fragment of the page's address that names a cell.

    >>> address("range=10", "my8033.base")
    '#step=range%3D10&dbms=my8033.base'
    """
    asked = {"step": step, "dbms": dbms, "base": base, "host": host, "by": by}
    return "#" + urlencode({name: value for name, value in asked.items() if value}, quote_via=quote)


def parts_table(parts: pl.DataFrame, what: str, *, base: str, me: str, unit: str, at_most: int = MOST_PARTS) -> str:
    """One row per part, the largest difference first, with a bar for the difference. The parts after the first
    `at_most` share one row. `what` is layer, component or function.

    The table needs `PARTS_STYLE`, once per page.
    """
    rows = parts.sort(pl.col("estimate").abs(), descending=True, maintain_order=True)
    most = float(rows["estimate"].abs().max() or 1.0)  # type: ignore[arg-type]
    names = (what, *(["component"] if what == "function" else []), "difference", "", base, me, "verdict")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(_row(row, what, most) for row in rows.head(at_most).iter_rows(named=True))
    if (others := rows.slice(at_most)).height:
        more, *sides = others.select(pl.col("estimate", "base_estimate", "me_estimate").sum()).row(0)
        cells = [f"{others.height} others", *[""] * (what == "function"), figure(more, signed=True), ""]
        body += f"<tr>{''.join(f'<td>{text}' for text in (*cells, *map(figure, sides), ''))}</tr>"
    # Layers and components add up to the whole operation; functions without a large difference are not in the table.
    if what != "function":
        of_base, of_me, error = parts.select("base_measured", "me_measured", "measured_error").row(0)
        sums = ("all", with_error(of_me - of_base, error), "", figure(of_base), figure(of_me), "")
        body += f"<tr>{''.join(f'<td><b>{text}</b></td>' if text else '<td></td>' for text in sums)}</tr>"
    return (
        f'<div class="table" style="overflow-x:auto"><table class="plain rqps-parts rqps-{what}">'
        f"<caption>{escape(unit)}, by {what}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def difference_of(row: Row) -> str:
    """The difference of one part as text, with half the width of its interval."""
    return with_error(row["estimate"], (row["high"] - row["low"]) / 2)


def _row(row: Row, what: str, most: float) -> str:
    names = [row["part"], *([row["component"]] if what == "function" else [])]
    wide = round(BAR_PX * abs(row["estimate"]) / most)
    less, colour = " class=l" * (row["estimate"] < 0), VERDICT_COLOURS[row["verdict"]]
    bar = f'<i{less} style="--w:{wide}px;--more:{colour}"></i>' if wide else ""
    unbroken = difference_of(row).replace(" ", "\u00a0")
    sides = (figure(row[side]) for side in ("base_estimate", "me_estimate"))
    verdict = f"{COST_SIGNS[row['verdict']]} {WORDS[row['verdict']]}"
    return f"<tr>{''.join(f'<td>{cell}' for cell in (*map(escape, names), unbroken, bar, *sides, verdict))}</tr>"


def _map(
    rows: Mapping[tuple[str, str], Row], first: Row, unit: str, by: str, rounds: str, names: Mapping[str, str]
) -> str:
    dbms = in_order(name for _, name in rows)
    heads = (unit, *(names.get(name, name) for name in dbms))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = ""
    for step in in_order(step for step, _ in rows):
        of_step = (rows.get((step, name)) for name in dbms)
        cells = (_cell(row, row is first, by, rounds) if row else "<td>–</td>" for row in of_step)
        body += f'<tr><th scope="row">{escape(step)}</th>{"".join(cells)}</tr>'
    table = f'<table class="rqps-map"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" style="overflow-x:auto">{table}</div>'


def _cell(row: Row, is_first: bool, by: str, rounds: str) -> str:
    # The cell has the colour of the rQPS that would result if throughput depended on this cost alone.
    as_ratio = row["base_estimate"] / row["me_estimate"] if row["me_estimate"] else 1.0
    marks = "rqps-to rqps-first" if is_first else "rqps-to"
    count = "" if rounds else f" · n={row['n']}"
    paper, href = colour_of(as_ratio, row["verdict"]), escape(address(row["step"], row["dbms"], by))
    return (
        f'<td style="background:{paper}">'
        # The colour is inline, since JupyterLab sets its own colour for links.
        f'<a class="{marks}" style="color:{ink_on(paper)}" href="{href}">'
        f"<b>{COST_SIGNS[row['verdict']]} {difference_of(row)}</b>"
        f"<small>{figure(row['base_estimate'])} → {figure(row['me_estimate'])}{count}</small></a></td>"
    )


def _section(
    row: Row,
    by: str,
    folded: str,
    names: Mapping[str, str],
    functions_of: list[str],
    read: Tree,
    parts: pl.DataFrame,
    functions: pl.DataFrame,
    *,
    at_most: int,
    picture: bool,
) -> str:
    where = address(row["step"], row["dbms"], by)
    base, me = (names.get(row[side], row[side]) for side in ("base", "dbms"))
    sides = {"base": base, "me": me, "unit": row["unit"]}
    too_few = row["verdict"] == "unsure" and (row["low"] > 0 or row["high"] < 0)
    few = ", too few for a verdict" if too_few else ""
    divided = "" if {*parts["n"]} == {row["n"]} else f", divided as in {rounds_of(parts['n'])} of profiles"
    rounds = f"Mean of {rounds_of([row['n']])}{few}{divided}.{f' {ASSUMED}' * (row['n'] == 1)} {folded}".rstrip()
    most = functions.top_k(min(MOST_FUNCTIONS, at_most), by=pl.col("estimate").abs())
    of_all = f"{most.height} of {functions.height} " if functions.height > most.height else ""
    table = (
        f"<details><summary>The {of_all}functions whose own cost changed most, as a table</summary>"
        f"{parts_table(most, 'function', **sides)}</details>"
    )
    claim = claim_of(read, **sides)
    drawn = figure_of(read, table, claim, rounds, title=row["step"], **sides, names=functions_of, picture=picture)
    # Without scripts, the browser follows the address's fragment to this id and opens the `details` around it.
    return (
        f'<details class="rqps-cell" data-key="{escape(where)}">'
        f"<summary>{escape(row['step'])}: {escape(me)} against {escape(base)}</summary>"
        f'<div id="{escape(where[1:])}"><p>{escape(row["finding"])}</p>'
        f"{parts_table(parts, 'component', **sides, at_most=at_most)}{drawn}</div></details>"
    )
