"""A map of steps by dbms, with links from each cell to the parts of its difference and its flame graph."""

from collections.abc import Mapping
from html import escape
from urllib.parse import quote, urlencode

import polars as pl

from rqps.profile.pair import ASSUMED
from rqps.show.flame.frames import tree_of
from rqps.show.flame.graph import Drawing, claim_of, figure_of, folded_of, how_of
from rqps.show.flame.picture import figure, with_error
from rqps.show.theme import VERDICT_COLOURS, colour_of, ink_on
from rqps.show.words import COST_SIGNS, Nothing, Row, by_host, in_order, legend_of, rounds_of, verdict_words

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
MOST_FUNCTIONS = 25
WORDS = verdict_words("cost")
_NUMBER = ' class="number"'


def explorer(
    operations: pl.DataFrame,
    parts: pl.DataFrame,
    functions: pl.DataFrame,
    trees: pl.DataFrame,
    *,
    by: str = "",
    fold_below: float | None = None,
) -> Drawing | Nothing:
    """Put the trees of all cells behind their map: `parts` and `functions` break the same costs down.

    All but the trees are tidy frames of differences; an operation also has its `finding`, a sentence. On a page the
    address can name a cell: `#step=point-query&dbms=my8033.base`. Where a page has two explorers, `&by=` names one;
    `&search=` looks for a function.
    """
    if operations.is_empty():
        return Nothing(["There is nothing to choose from: no step has a profile of a dbms and of its base."])
    operations = by_host(operations)
    base, unit = operations.select("base", "unit").row(0)
    # Where cells have different numbers of rounds, each names its own.
    rounds = rounds_of(operations["n"]) if operations["n"].n_unique() == 1 else ""
    rows = {(row["step"], row["dbms"]): row for row in operations.iter_rows(named=True)}
    frames = [by_host(frame).partition_by("step", "dbms", as_dict=True) for frame in (trees, parts, functions)]
    folded = folded_of(fold_below)
    sections = [_section(row, by, folded, *(frame[cell] for frame in frames)) for cell, row in rows.items()]
    what = "instructions" if unit.startswith("instructions") else "CPU of the server"
    words = {"slower": f"cost more {what}", "faster": f"cost less {what}", "same": "the same", "unsure": "are unsure"}
    count = dict(operations.group_by("verdict").len().rows())
    counts = ", ".join(f"{count[verdict]} {each}" for verdict, each in words.items() if verdict in count)
    claim = f"Of {operations.height} comparison{'s' * (operations.height > 1)} with {base}, {counts}."
    how = how_of(unit, fold_below)
    below = f"Below a difference: base → me{f', means of {rounds}' if rounds else ', and n rounds'}."
    html = (
        f'<div class="rqps-explorer" data-by="{escape(by)}"><style>{STYLE}</style>'
        f"<p><strong>{escape(claim)}</strong> Each cell is a link to the parts of its difference, by component and "
        f"as a flame graph. {below} {legend_of(operations)}</p>"
        f"{_map(rows, unit, by, rounds)}"
        f"<details><summary>How to read a flame graph</summary><p>{escape(how)}</p></details>"
        f'<p class="rqps-note" role="status"></p>{"".join(sections)}</div>'
    )
    return Drawing(claim, how, html)


def address(step: str, dbms: str, by: str = "", base: str = "", host: str = "") -> str:
    """The part of the page's address that names a cell.

    >>> address("range=10", "my8033.base")
    '#step=range%3D10&dbms=my8033.base'
    """
    asked = {"step": step, "dbms": dbms, "base": base, "host": host, "by": by}
    return "#" + urlencode({name: value for name, value in asked.items() if value}, quote_via=quote)


def parts_table(parts: pl.DataFrame, what: str, *, base: str, me: str, unit: str) -> str:
    """One row per part, the greatest difference first, with a bar to either side. `what` is component or function."""
    rows = parts.sort(pl.col("estimate").abs(), descending=True, maintain_order=True)
    most = float(rows["estimate"].abs().max() or 1.0)  # type: ignore[arg-type]
    names = [what, "component"] if what == "function" else [what]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    head += "".join(f'<th scope="col"{_NUMBER}>{escape(name)}</th>' for name in ("difference", "", base, me))
    body = "".join(_row(row, what, most) for row in rows.iter_rows(named=True))
    if what == "component":  # they add up to the operation
        of_base, of_me, error = parts.select("base_measured", "me_measured", "measured_error").row(0)
        sums = (with_error(of_me - of_base, error), "", figure(of_base), figure(of_me))
        body += f"<tr><td><b>all</b></td>{''.join(f'<td{_NUMBER}><b>{each}</b></td>' for each in sums)}<td></td></tr>"
    return (
        '<div class="table" style="overflow-x:auto"><table class="plain rqps-parts">'
        f'<caption style="text-align:left">{escape(unit)}, by {what}</caption>'
        f'<thead><tr>{head}<th scope="col">verdict</th></tr></thead><tbody>{body}</tbody></table></div>'
    )


def _difference(row: Row) -> str:
    return with_error(row["estimate"], (row["high"] - row["low"]) / 2)


def _row(row: Row, what: str, most: float) -> str:
    cells = [f'<td class="rqps-{what}" style="min-width:118px">{escape(row["part"])}</td>']
    if what == "function":
        cells.append(f"<td>{escape(row['component'])}</td>")
    wide = BAR_PX * abs(row["estimate"]) / most
    left = BAR_PX - wide if row["estimate"] < 0 else BAR_PX
    look = f"width:{wide:.0f}px;height:12px;margin:0 {2 * BAR_PX - left - wide:.0f}px 0 {left:.0f}px"
    bar = f'<div style="{look};background:{VERDICT_COLOURS[row["verdict"]]}"></div>'
    unbroken = _difference(row).replace(" ", "\u00a0")
    cells.append(f"<td{_NUMBER}>{unbroken}</td><td>{bar}</td>")
    cells += [f"<td{_NUMBER}>{figure(row[side])}</td>" for side in ("base_estimate", "me_estimate")]
    return f"<tr>{''.join(cells)}<td>{COST_SIGNS[row['verdict']]} {WORDS[row['verdict']]}</td></tr>"


def _map(rows: Mapping[tuple[str, str], Row], unit: str, by: str, rounds: str) -> str:
    first = max(rows.values(), key=lambda row: abs(row["estimate"]) / (row["base_estimate"] or 1.0))
    dbms = in_order(name for _, name in rows)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (unit, *dbms))
    body = ""
    for step in in_order(step for step, _ in rows):
        of_step = (rows.get((step, name)) for name in dbms)
        cells = (_cell(row, row is first, by, rounds) if row else "<td>–</td>" for row in of_step)
        body += f'<tr><th scope="row">{escape(step)}</th>{"".join(cells)}</tr>'
    table = f'<table class="rqps-map"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" style="overflow-x:auto">{table}</div>'


def _cell(row: Row, is_first: bool, by: str, rounds: str) -> str:
    # The colours of the heatmap, as if nothing but this cost made rQPS.
    as_ratio = row["base_estimate"] / row["me_estimate"] if row["me_estimate"] else 1.0
    marks = "rqps-to rqps-first" if is_first else "rqps-to"
    count = "" if rounds else f" · n={row['n']}"
    paper, href = colour_of(as_ratio, row["verdict"]), escape(address(row["step"], row["dbms"], by))
    return (
        f'<td style="background:{paper}">'
        # Inline, since JupyterLab has a colour of its own for links.
        f'<a class="{marks}" style="color:{ink_on(paper)}" href="{href}">'
        f"<b>{COST_SIGNS[row['verdict']]} {_difference(row)}</b>"
        f"<small>{figure(row['base_estimate'])} → {figure(row['me_estimate'])}{count}</small></a></td>"
    )


def _section(row: Row, by: str, folded: str, tree: pl.DataFrame, parts: pl.DataFrame, functions: pl.DataFrame) -> str:
    where = address(row["step"], row["dbms"], by)
    sides = {"base": row["base"], "me": row["dbms"], "unit": row["unit"]}
    read = tree_of(tree)
    too_few = row["verdict"] == "unsure" and (row["low"] > 0 or row["high"] < 0)
    few = ", too few for a verdict" if too_few else ""
    rounds = f"Mean of {rounds_of([row['n']])}{few}.{f' {ASSUMED}' * (row['n'] == 1)} {folded}".rstrip()
    most = functions.top_k(MOST_FUNCTIONS, by=pl.col("estimate").abs())
    of_all = f"{most.height} of {functions.height} " if functions.height > most.height else ""
    table = (
        f"<details><summary>The {of_all}functions whose own cost changed most, as a table</summary>"
        f"{parts_table(most, 'function', **sides)}</details>"
    )
    drawn = figure_of(read, table, claim_of(read, **sides), rounds, title=row["step"], **sides)
    # Without scripts the address leads to this id, and the browser opens what it is in.
    return (
        f'<details class="rqps-cell" data-key="{escape(where)}">'
        f"<summary>{escape(row['step'])}: {escape(row['dbms'])} against {escape(row['base'])}</summary>"
        f'<div id="{escape(where[1:])}"><p>{escape(row["finding"])}</p>'
        f"{parts_table(parts, 'component', **sides)}{drawn}</div></details>"
    )
