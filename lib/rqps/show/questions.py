"""Selection lists that choose one of many questions, and below them all results for the chosen question. The lists
work in JupyterLab and on a page without a Jupyter kernel."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import polars as pl

from rqps.numbers import sized
from rqps.show.flame import PARTS_STYLE, Drawing, claim_of, figure_of, how_of, parts_table, shared_names, tree_of
from rqps.show.flame.frames import Tree, names_of, packed_json
from rqps.show.table import cut
from rqps.show.words import Row, in_order, on_host
from rqps.stats.metrics import TITLES

STYLE = """
.rqps-questions table.plain { font-size: 12.5px; font-variant-numeric: tabular-nums; margin: 0; }
.rqps-questions table.plain th, .rqps-questions table.plain td { padding: 2px 10px 2px 0; text-align: left; }
.rqps-questions table.plain td:not(.r) { overflow-wrap: anywhere; }
.rqps-questions table.plain td:first-child { min-width: 90px; }
.rqps-questions table.plain .r { text-align: right; white-space: nowrap; }
.rqps-questions .table { margin: 2px 0 6px; overflow-x: auto; }
.rqps-questions p { margin: 3px 0; }
.rqps-questions h4 { margin: 8px 0 2px; }
.rqps-choose { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; }
.rqps-choose[hidden] { display: none; }
.rqps-choose select { font: inherit; max-width: 260px; }
.rqps-head { font-weight: 600; font-size: 17px; }
.rqps-claim { font-size: 15px; }
.rqps-panels { display: grid; gap: 6px 26px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.rqps-panels > section { min-width: 0; }
.rqps-panels > .rqps-wide { grid-column: 1 / -1; }
"""
MOST_ROWS, LONGEST = 12, 160
WIDE = 6
"""Maximum number of columns of a panel that may stand beside another panel; a panel with more columns has a row of
its own."""
KEYS = ["host", "step", "base", "dbms"]


class Question(NamedTuple):
    """A comparison to explain: one step of one dbms against a base."""

    host: str
    step: str
    base: str
    dbms: str

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame that belong to this question."""
        return frame.filter(**{name: value for name, value in self._asdict().items() if name in frame.columns})


def questions(
    answers: pl.DataFrame, panels: Mapping[str, pl.DataFrame], *, first: Question, trees: pl.DataFrame | None = None
) -> Drawing:
    """Selection lists that choose one of the `answers`, and below the lists the sentence and the panels of this
    answer.

    Each frame has the columns `host, step, base, dbms`; an answer is a sentence in the column `answer`. A panel shows
    the other columns of its frame; if the frame has a column `metric`, the panel shows only the rows of the chosen
    measure. If several panels break a cost down into parts, all but the first are folded. `trees` are drawn as flame
    graphs. Without scripts, a page shows the question `first`.
    """
    asked = [Question(*row) for row in answers.select(KEYS).iter_rows()]
    sentences = dict(zip(asked, answers["answer"], strict=True))
    tables = {title: _by_question(frame) for title, frame in panels.items()}
    errors = {
        question: rows["measured_error"][0]
        for of in tables.values()
        for question, rows in of.items()
        if "measured_error" in rows.columns
    }
    trees_of = _by_question(trees) if trees is not None else {}
    drawn = {question: tree_of(rows, errors.get(question)) for question, rows in trees_of.items()}
    names = names_of(drawn.values())
    folded = [title for title, frame in panels.items() if "part" in frame.columns][1:]

    def section(question: Question, *, picture: bool = False) -> str:
        known = {title: of[question] for title, of in tables.items() if question in of}
        html = [_panel(title, rows, question, folded=title in folded) for title, rows in known.items()]
        units = [rows["unit"][0] for rows in known.values() if "part" in rows.columns]
        if question in drawn and units:
            html.append(_flame(drawn[question], question, units[0], names, picture=picture))
        head = f"{question.step}: {question.dbms}{on_host(answers, question.host)} against {question.base}"
        return (
            f'<section class="rqps-question"{_keys(question)}><p class="rqps-head">{escape(head)}</p>'
            f'<p class="rqps-claim"><strong>{escape(sentences[question])}</strong></p>'
            f'<div class="rqps-panels">{"".join(html)}</div></section>'
        )

    packed = "".join(
        f'<script type="application/x-rqps-question"{_keys(question)}>{packed_json(section(question))}</script>'
        for question in asked
    )
    measures = in_order(name for frame in panels.values() if "metric" in frame.columns for name in frame["metric"])
    how = f"One of {len(asked)} questions; the lists choose another."
    html = (
        f'<div class="rqps-questions"><style>{STYLE}{PARTS_STYLE}</style>'
        f"{_lists(asked, first, measures)}{shared_names(names)}"
        f'<div class="rqps-chosen">{section(first, picture=True)}</div>{packed}</div>'
    )
    return Drawing(sentences[first], how, html)


def _by_question(frame: pl.DataFrame) -> dict[Question, pl.DataFrame]:
    """Maps each question to its rows of the frame, without the columns that name the question."""
    if frame.is_empty():
        return {}
    parts = frame.partition_by(KEYS, as_dict=True, include_key=False, maintain_order=True)
    return {Question(*map(str, key)): rows for key, rows in parts.items()}


def _keys(question: Question) -> str:
    return "".join(f' data-{name}="{escape(value)}"' for name, value in question._asdict().items())


def _lists(asked: Sequence[Question], first: Question, measures: list[str]) -> str:
    """The selection lists. They are hidden until the script shows them, since they do nothing without it."""
    choices = {name: in_order(getattr(question, name) for question in asked) for name in ("step", "dbms", "base")}
    hosts = in_order(question.host for question in asked)
    choices |= {"host": hosts} if len(hosts) > 1 else {}
    choices |= {"measure": measures} if measures else {}
    chosen = first._asdict() | {"measure": next(iter(measures), "")}
    labels = "".join(
        f'<label>{name} <select name="{name}">'
        + "".join(
            f'<option value="{escape(value)}"{" selected" * (value == chosen[name])}>'
            f"{escape(TITLES.get(value, value) if name == 'measure' else value)}</option>"
            for value in values
        )
        + "</select></label>"
        for name, values in choices.items()
    )
    chosen_line = '<p class="rqps-line" hidden>For the cells below: <code></code></p>'
    return f'<form class="rqps-choose" hidden>{labels}</form>{chosen_line}<p class="rqps-note" role="status"></p>'


def _panel(title: str, rows: pl.DataFrame, question: Question, *, folded: bool) -> str:
    wide = "part" in rows.columns or rows.width > WIDE
    if "part" in rows.columns:
        what = "layer" if (rows["part"] == rows["component"]).all() else "function"
        html = parts_table(rows, what, base=question.base, me=question.dbms, unit=rows["unit"][0])
    elif "metric" in rows.columns:
        by_measure = rows.partition_by("metric", as_dict=True, maintain_order=True)
        html = "".join(
            f'<div data-measure="{metric}"{" hidden" * bool(number)}>'
            f"<p>{escape(TITLES.get(str(metric), str(metric)))}</p>{_table(of_metric)}</div>"
            for number, ((metric,), of_metric) in enumerate(by_measure.items())
        )
    else:
        html = _table(rows)
    if folded:
        html = f"<details><summary>{escape(title)}</summary>{html}</details>"
        return f'<section class="rqps-wide">{html}</section>'
    return f"<section{' class=rqps-wide' * wide}><h4>{escape(title)}</h4>{html}</section>"


def _table(rows: pl.DataFrame) -> str:
    """A small table; rows after the first `MOST_ROWS` are folded."""
    columns = [name for name in rows.columns if name != "metric" and not rows[name].is_null().all()]
    numeric = {name for name in columns if rows[name].dtype.is_numeric()}
    heads = "".join(
        f'<th scope="col"{_right(name in numeric)}>{escape(name.removesuffix("_value").replace("_", " ").strip())}'
        for name in columns
    )
    lines = [
        "<tr>" + "".join(f"<td{_right(name in numeric)}>{_cell(name, row)}" for name in columns) + "</tr>"
        for row in rows.iter_rows(named=True)
    ]

    def table(part: Iterable[str]) -> str:
        body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(part)}</tbody>"
        return f'<div class="table"><table class="plain">{body}</table></div>'

    if len(lines) <= MOST_ROWS:
        return table(lines)
    rest = f"<details><summary>{len(lines) - MOST_ROWS} more</summary>{table(lines[MOST_ROWS:])}</details>"
    return table(lines[:MOST_ROWS]) + rest


def _right(numeric: bool) -> str:
    return " class=r" if numeric else ""


def _cell(name: str, row: Row) -> str:
    value: Any = row[name]
    if value is None:
        return ""
    if name == "call":
        return f"<code>{escape(value)}</code>"
    return sized(value) if isinstance(value, float) else cut(str(value), LONGEST)


def _flame(tree: Tree, question: Question, unit: str, names: Sequence[str], *, picture: bool) -> str:
    sides = {"base": question.base, "me": question.dbms, "unit": unit}
    how = f"<details><summary>How to read a flame graph</summary><p>{escape(how_of(unit))}</p></details>"
    claim = claim_of(tree, **sides)
    figure = figure_of(tree, "", claim, "", title=question.step, **sides, names=names, picture=picture)
    return f'<section class="rqps-wide">{figure}{how}</section>'
