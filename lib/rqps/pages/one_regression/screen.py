"""The screen: every question of a study behind four lists, of which one is open."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

import polars as pl

from rqps.pages.one_regression.evidence import FOLD_BELOW, Evidence, Question, disturbed
from rqps.pages.one_regression.next_steps import next_steps
from rqps.profile.instructions import COUNTED
from rqps.show import Row, Sentences, brackets, comparison, cut, finding, rounds_of, signs_of, verdict_words
from rqps.show.flame import (
    PARTS_STYLE,
    Drawing,
    Tree,
    claim_of,
    figure_of,
    how_of,
    names_of,
    parts_table,
    shared_names,
    tree_of,
)
from rqps.show.words import on_host, sized
from rqps.stats import THROUGHPUTS
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT
from rqps.stats.status_counters import CERTAIN
from rqps.terminal import counted

TITLES = {
    THROUGHPUT: "throughput, operations/s",
    CPU: "server CPU, µs/operation",
    INSTRUCTIONS: "instructions by the CPU's counters",
    COUNTED: "instructions, counted",
}
"""The measures, in the order in which they are shown."""
STYLE = """
.rqps-questions table.plain { font-size: 12.5px; font-variant-numeric: tabular-nums; margin: 0; }
.rqps-questions table.plain th, .rqps-questions table.plain td { padding: 2px 10px 2px 0; text-align: left; }
.rqps-questions table.plain td:first-child { overflow-wrap: anywhere; min-width: 90px; }
.rqps-questions .table { margin: 2px 0 6px; }
.rqps-questions p { margin: 3px 0; }
.rqps-choose { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; }
.rqps-choose[hidden] { display: none; }
.rqps-choose select { font: inherit; max-width: 260px; }
.rqps-question > summary { font-weight: 600; font-size: 17px; margin: 6px 0; }
.rqps-claim { font-size: 15px; }
"""
_ALIGNED = ", ".join(f".rqps-questions .r{n} :is(td, th):nth-child({n})" for n in range(1, 7))
_ALIGNED += " { text-align: right; white-space: nowrap; }"
MOST_COUNTERS, MOST_FUNCTIONS, FEW_SETTINGS, LONGEST, LONGEST_WARNING = 12, 15, 8, 24, 60
EVENT = "perf_schema/"
"""In front of the names of events, among the status counters of a study with scenarios of the performance schema."""
NO_PROFILE = "No profile of both sides: the stacks of a round that is sampled, or counted instructions, would tell."


def screen(evidence: Evidence) -> Drawing | Sentences:
    """Every question of a study, chosen by step, dbms, base and measure, without a kernel; the first one is open."""
    questions = evidence.questions
    trees = {
        question: tree_of(rows) for question in questions if (rows := evidence.of(question, evidence.trees)).height
    }
    names = names_of(trees.values())
    sections = "".join(
        _section(evidence, question, question == evidence.first, trees.get(question), names) for question in questions
    )
    claim = _claim(evidence, evidence.first)
    how = f"{counted(len(questions), 'question')}: {evidence.study.card.question}"
    html = f'<div class="rqps-questions"><style>{STYLE}{_ALIGNED}{PARTS_STYLE}</style>{_lists(questions, evidence)}'
    html += f"{shared_names(names)}{sections}</div>"
    return Drawing(claim, how, html)


def _lists(questions: Sequence[Question], evidence: Evidence) -> str:
    """The four lists; the program shows them, since without it they can't choose."""
    first = evidence.first
    measures = [name for name in TITLES if name in set(evidence.compared["metric"])]
    choices = {
        "step": [(each, each) for each in dict.fromkeys(each.step for each in questions)],
        "dbms": [(each, each) for each in dict.fromkeys(each.me for each in questions)],
        "base": [(each, each) for each in dict.fromkeys(each.base for each in questions)],
        "measure": [(name, TITLES[name]) for name in measures],
    }
    hosts = list(dict.fromkeys(each.host for each in questions))
    choices |= {"host": [(each, each) for each in hosts]} if len(hosts) > 1 else {}
    chosen = {"step": first.step, "dbms": first.me, "base": first.base, "host": first.host, "measure": measures[0]}
    labels = "".join(
        f'<label>{escape(name)} <select name="{name}">'
        + "".join(
            f'<option value="{escape(value)}"{" selected" * (value == chosen[name])}>{escape(title)}</option>'
            for value, title in every
        )
        + "</select></label>"
        for name, every in choices.items()
    )
    return f'<form class="rqps-choose" hidden>{labels}</form><p class="rqps-note" role="status"></p>'


def _section(evidence: Evidence, question: Question, is_first: bool, tree: Tree | None, names: list[str]) -> str:
    compared = evidence.of(question, evidence.compared)
    flame = _flame(evidence, question, tree, names, picture=is_first) if tree else ""
    is_event = pl.col("name").str.starts_with(EVENT)
    changed = evidence.of(question, evidence.status)
    counts, levels = (changed.filter(~is_event, kind=kind) for kind in ("count", "gauge"))
    events = changed.filter(is_event, pl.col("base_value") != pl.col("me_value"))
    events = events.with_columns(pl.col("name").str.strip_prefix(EVENT))
    steps = "".join(f"<p>{each}</p>" for each in next_steps(evidence, question))
    panels = [
        _panel("The verdict", _measures(compared), wide=True),
        _panel("What it is made of", _made_of(evidence, question) + flame, wide=True),
        _panel("What if", _what_ifs(evidence, question) + steps, wide=True),
        _panel("Round by round", _rounds(evidence, question)),
        _panel("This step in every dbms", _course(evidence, question)),
        _panel("Status counters per operation, the most unlikely change first", _counters(counts)),
        _panel("Levels at the end of the step, the most unlikely change first", _counters(levels)),
        _panel("Settings that differ", _settings(evidence, question)),
        *([_panel("Waits, stages and other events per operation", _counters(events))] if events.height else []),
    ]
    head = f"{question.step}: {question.me}{on_host(evidence.compared, question.host)} against {question.base}"
    keyed = {"step": question.step, "dbms": question.me, "base": question.base, "host": question.host}
    keys = "".join(f' data-{name}="{escape(value)}"' for name, value in keyed.items())
    return (
        f'<details class="rqps-question"{keys}{" open" * is_first}><summary>{escape(head)}</summary>'
        f'<p class="rqps-claim"><strong>{escape(_claim(evidence, question))}</strong></p>'
        f'<div class="rqps-panels" style="display:grid;gap:6px 26px;'
        f'grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))">{"".join(panels)}</div></details>'
    )


def _claim(evidence: Evidence, question: Question) -> str:
    rows = evidence.of(question, evidence.compared)
    row = rows.filter(pl.col("metric").is_in(THROUGHPUTS)).row(0, named=True)
    word = verdict_words(row["metric"])[row["verdict"]]
    needs = f"; it takes {row['needs']}" if row["needs"] else ""
    place = question.host if evidence.compared["host"].n_unique() > 1 else ""
    return finding(f"{question.step}: {comparison(row)}: {word}{needs}", place=place)


def _panel(title: str, html: str, *, wide: bool = False) -> str:
    style = f"min-width:0{';grid-column:1/-1' * wide}"
    return f'<section style="{style}"><h4 style="margin:8px 0 2px">{escape(title)}</h4>{html}</section>'


def _plain(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), more: str = ""
) -> str:
    """A small table; its cells are HTML."""
    aligned = "".join(f" r{place + 1}" for place in numbers)
    head = "".join(f'<th scope="col">{escape(title)}' for title in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}' for cell in row)}" for row in rows)
    below = f"<p><small>{escape(more)}</small></p>" if more else ""
    return (
        f'<div class="table" style="overflow-x:auto"><table class="plain{aligned}"><thead><tr>{head}</thead>'
        f"<tbody>{body}</tbody></table></div>{below}"
    )


def _ratio(row: Row) -> str:
    assumed = "assumed" if row["n"] == 1 and row["low"] is not None else ""  # see profile.pair.ASSUMED
    return f"{row['estimate']:.3f}{brackets(row, '.3f', after=assumed, rounds=False)}"


def _verdict(row: Row) -> str:
    metric = row["metric"]
    return f"{signs_of(metric)[row['verdict']]} {verdict_words(metric)[row['verdict']]}"


def _measures(compared: pl.DataFrame) -> str:
    rows = {row["metric"]: row for row in compared.iter_rows(named=True)}
    cells = [
        (
            escape(TITLES[name]),
            sized(rows[name]["base_estimate"]),
            sized(rows[name]["me_estimate"]),
            _ratio(rows[name]),
            _verdict(rows[name]),
            str(rows[name]["n"]),
        )
        for name in TITLES
        if name in rows
    ]
    kinds = sorted({kind for row in rows.values() for kind in row["warnings"] or []})
    warned = f" ⚠ Warnings of these runs: {', '.join(kinds)}." if kinds else ""
    heads = ("measure", "base", "me", "me / base, 95 %", "verdict", "rounds")
    more = f"Base and me: medians of the rounds; me / base: the mean of their ratios.{warned}"
    return _plain(heads, cells, numbers=(1, 2, 3, 5), more=more)


def _rounds(evidence: Evidence, question: Question) -> str:
    def cells(row: Row) -> Sequence[str]:
        text = disturbed(evidence, question, row)
        values = (sized(row["base_value"]), sized(row["me_value"]), f"{row['ratio']:.4f}")
        return str(row["round"]), *values, f"⚠ {cut(text, LONGEST_WARNING)}" if text else ""

    found = evidence.of(question, evidence.rounds).sort("round")
    heads = ("round", "base", "me", "me / base", "disturbed by")
    return _by_measure(found, heads, cells, numbers=(0, 1, 2, 3), titled=True)


def _by_measure(
    rows: pl.DataFrame,
    heads: Sequence[str],
    cells: Callable[[Row], Sequence[str]],
    *,
    numbers: Sequence[int],
    titled: bool = False,
) -> str:
    """A table for each measure, of which the program shows the one that is chosen."""
    tables: list[str] = []
    for name in (each for each in TITLES if each in set(rows["metric"])):
        table = _plain(heads, map(cells, rows.filter(metric=name).to_dicts()), numbers=numbers)
        title = f"<p>{escape(TITLES[name])}</p>" * titled
        tables.append(f'<div data-measure="{name}"{" hidden" * bool(tables)}>{title}{table}</div>')
    return "".join(tables)


def _made_of(evidence: Evidence, question: Question) -> str:
    layers, components, functions = (
        evidence.of(question, frame) for frame in (evidence.layers, evidence.components, evidence.functions)
    )
    if layers.is_empty():
        return f"<p>{NO_PROFILE}</p>"
    sides = {"base": question.base, "me": question.me, "unit": layers["unit"][0]}
    most = functions.top_k(MOST_FUNCTIONS, by=pl.col("estimate").abs())
    folded = {
        "components": parts_table(components, "component", **sides),
        f"the {most.height} functions that changed most": parts_table(most, "function", **sides),
    }
    below = "".join(f"<details><summary>{escape(title)}</summary>{html}</details>" for title, html in folded.items())
    return parts_table(layers, "component", **sides) + below


def _flame(evidence: Evidence, question: Question, tree: Tree, names: list[str], *, picture: bool) -> str:
    unit = evidence.of(question, evidence.layers)["unit"][0]
    sides = {"base": question.base, "me": question.me, "unit": unit}
    how = f"<details><summary>How to read a flame graph</summary><p>{escape(how_of(unit, FOLD_BELOW))}</p></details>"
    claim = claim_of(tree, **sides)
    return figure_of(tree, "", claim, "", title=question.step, **sides, names=names, picture=picture) + how


def _course(evidence: Evidence, question: Question) -> str:
    """The step in every dbms against the study's base."""
    own = evidence.study.card.base

    def cells(row: Row) -> Sequence[str]:
        label = escape(row["dbms"])
        is_me = row["dbms"] in (question.me, question.base)
        return f"<b>{label}</b>" if is_me else label, _ratio(row), _verdict(row)

    rows = evidence.compared.filter(host=question.host, step=question.step, base=own)
    return _by_measure(rows, ("dbms", f"/ {own}", "verdict"), cells, numbers=(1,))


def _counters(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return "<p>One round, or none with counters, says nothing of chance.</p>"
    changed = rows.filter(pl.col("base_value") != pl.col("me_value"))
    cells = [
        (escape(row["name"]), sized(row["base_value"]), sized(row["me_value"]), _chance(row["chance"]))
        for row in changed.head(MOST_COUNTERS).iter_rows(named=True)
    ]
    more = f"{len(cells)} of {changed.height} that changed; means of {rounds_of(rows['n'])}. The frame has them all."
    return _plain(("counter", "base", "me", "chance"), cells, numbers=(1, 2, 3), more=more)


def _chance(share: float) -> str:
    return f"< {CERTAIN:.2%}" if share < CERTAIN else f"{share:.2%}" if share < 0.1 else f"{share:.0%}"


def _settings(evidence: Evidence, question: Question) -> str:
    rows = evidence.settings.filter(host=question.host, base=question.base, dbms=question.me)
    if rows.is_empty():
        return "<p>None of those that both servers have.</p>"
    cells = [
        (escape(row["name"]), *_values(row["base_value"], row["value"]), "asked for" if row["asked"] else "")
        for row in rows.iter_rows(named=True)
    ]
    heads = ("variable", "base", "me", "")
    if len(cells) <= FEW_SETTINGS:
        return _plain(heads, cells)
    rest = (
        f"<details><summary>{len(cells) - FEW_SETTINGS} more</summary>{_plain(heads, cells[FEW_SETTINGS:])}</details>"
    )
    return _plain(heads, cells[:FEW_SETTINGS]) + rest


def _values(base: str, me: str) -> Iterator[str]:
    """Two values as HTML; of lists of flags, such as optimizer_switch, those that differ."""
    flags = [each.split(",") for each in (base, me)]
    if all("=" in part for each in flags for part in each):
        only = [[part for part in each if part not in other] for each, other in (flags, flags[::-1])]
        base, me = (", ".join(each) or "–" for each in only)
    for value in (base, me):
        shown = f'<span style="overflow-wrap:anywhere">{cut(value, LONGEST)}</span>'
        yield shown if value else "(empty)"


def _what_ifs(evidence: Evidence, question: Question) -> str:
    found = evidence.what_ifs
    if found.is_empty():
        return "<p>Nothing was tried yet.</p>"
    asked = found.filter(pl.col("base").is_in([question.base, question.me]), step=question.step)
    asked = asked.filter(pl.col("metric").is_in(list(TITLES)))
    cells = [
        (escape(row["change"]), escape(TITLES[row["metric"]]), _ratio(row), _verdict(row), str(row["n"]))
        for row in asked.iter_rows(named=True)
    ]
    if not cells:
        return "<p>Nothing was tried for this step yet.</p>"
    return _plain(("change", "measure", "changed / unchanged", "verdict", "rounds"), cells, numbers=(2, 4))
