"""Sentences on results: a subject, a comparison, a number with its interval and rounds, and a place (host or step).

`On vm: update-index regressed most: my8033 runs at 0.82x of my5624 (0.80–0.84, 8 rounds).` Every measured number in a
sentence is formatted here with its interval and rounds, so that all pages write it in one way.

`rqps report --check` and the tests recompute the numbers of sentences from their claims. If a function here gets the
name of a `frame`, its clause has claims about that frame; without a name, its numbers are not checked.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from rqps.numbers import change, counted, digits_of, formatted, in_percent, ratio
from rqps.show.claims import Claim, Clause, joined, phrase
from rqps.show.words import MOST_NAMED, Row, change_interval, in_order, interval_of, rounds_of, smallest_effect
from rqps.stats.layouts import MEAN
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT, THROUGHPUTS, TITLES
from rqps.stats.verdict import MOST_ROUNDS_WORTH_NAMING, VERDICTS
from rqps.study import ROUNDS_FOR_A_VERDICT

CHANGED = {"slower": "regressed", "faster": "improved"}
REGRESSED = {verdict: (word, word) for verdict, word in CHANGED.items()}
DIFFERS = {verdict: (f"is {verdict}", f"are {verdict}") for verdict in CHANGED}
"""Words for a dbms older than the base: it is slower or faster, but did not regress or improve."""
_COUNTED = {"same": ("is unchanged", "are unchanged"), "unsure": ("is inconclusive", "are inconclusive")}
MOST_CHANGES = 7
"""A sentence names at most this number of changes of a course, and gives the sum of the others. If only one would be
left for the sum, that change is named as well."""
LEAST_REST = 0.15
"""If a total change and the sum of its parts differ by at least this number of percentage points, a sentence names
the difference; a smaller difference may be due to rounding."""
CELL = ("host", "step", "base", "dbms", "metric")
"""Columns that name one comparison."""
IN_WORDS = {
    THROUGHPUT: ("deliver", "less throughput", "more throughput"),
    CPU: ("use", "less CPU per operation", "more CPU per operation"),
    INSTRUCTIONS: ("execute", "fewer instructions per operation", "more instructions per operation"),
}
"""Maps metrics to a verb, and to the words for a ratio below 1 and for a ratio above 1."""
_IN_SHORT = {THROUGHPUT: "throughput", CPU: "CPU per operation"}
_VERBS = {
    CPU: "uses {times} the CPU of {base} per operation",
    INSTRUCTIONS: "executes {times} the instructions of {base} per operation",
}


def finding(*clauses: str, place: str = "") -> Clause:
    """Joins clauses to one sentence; `place`, if given, stands before them.

    >>> finding("scan regressed", "", "the rest is unchanged", place="vm")
    'On vm: scan regressed; the rest is unchanged.'
    """
    text = joined("; ", filter(None, clauses))
    return phrase("{}{}{}", f"On {place}: " * bool(place), text, "" if text.endswith(".") else ".")


def claim_of(row: Row, written: str, column: str = "estimate", frame: str = "compared") -> Claim:
    """The claim that this row of the frame has, in a column, the number that the sentence writes as `written`."""
    cell = {name: row[name] for name in CELL if name in row}
    return Claim(frame, cell, float(row[column]), column, written=written)


def comparison(row: Row, subject: str = "", base: str = "", frame: str = "compared") -> Clause:
    """A row of a compared frame as a clause; the metric determines the verb.

    >>> row = {"dbms": "my80.z", "base": "my56.z", "estimate": 0.82, "low": 0.8, "high": 0.84, "n": 8}
    >>> comparison({**row, "metric": "operations_per_s"})
    'my80.z runs at 0.82x of my56.z (0.80–0.84, 8 rounds)'
    >>> comparison({**row, "metric": "server_cpu_us_per_operation"}, "8.0", "5.6")
    '8.0 uses 0.82x the CPU of 5.6 per operation (0.80–0.84, 8 rounds)'
    """
    metric = row["metric"]
    verb = "runs at {times} of {base}" if metric in THROUGHPUTS else _VERBS.get(metric)
    verb = verb or f"has {{times}} the {TITLES.get(metric, metric)} of {{base}}"
    times, layout = f"{ratio(row['estimate'])}x", by_layout_alone(row, frame)
    predicate = verb.format(times=times, base=base or row["base"])
    claims = [claim_of(row, times, frame=frame), *layout.claims]
    return Clause(f"{subject or row['dbms']} {predicate}{brackets(row, after=layout)}", claims)


def by_layout_alone(row: Row, frame: str = "compared") -> Clause:
    """The largest change that another order of functions alone makes, if the row's change is not larger than that;
    otherwise empty.

    >>> row = {"dbms": "my80.z", "metric": "operations_per_s", "by_layout": 1.0401}
    >>> by_layout_alone({**row, "within_layout": True}), by_layout_alone({**row, "within_layout": False})
    ('another order of functions alone: up to ± 4.0 %', '')
    """
    within = row.get("within_layout")
    return phrase("another order of functions alone: up to {}", _by_layout(row, frame)) if within else Clause("")


def _by_layout(row: Row, frame: str) -> Clause:
    written = f"± {in_percent(row['by_layout'] - 1)}"
    return Clause(written, [claim_of(row, written, "by_layout", frame)])


def within_layouts(known: pl.DataFrame, decided: pl.DataFrame, metric: str, names: Mapping[str, str]) -> Clause:
    """A sentence on the size of the change that another order of functions alone makes in a metric, and on the
    study's changes that are not larger. Empty if the effect of the order is not known, or nothing changed. `known` is
    the frame of `stats.known_layouts`; `decided` has one row per comparison, with the metric that decides it."""
    of_metric = known.filter(metric=metric).sort("by_layout", maintain_order=True).to_dicts()
    steps = [row for row in of_metric if row["step"] != MEAN]
    changes = decided.filter(pl.col("verdict").is_in(list(CHANGED))).drop_nulls("by_layout")
    if not steps or changes.is_empty():
        return Clause("")
    ends = [phrase("{} ({})", _by_layout(row, "layouts"), row["step"]) for row in (steps[0], steps[-1])]
    reach = joined(" to ", ends[len(steps) == 1 :])
    means = [_by_layout(row, "layouts") for row in of_metric if row not in steps]
    mean = joined("", [phrase(" and of the mean by up to {}", size) for size in means])
    smaller = changes.filter("within_layout")
    named = _some([f"{step} of {in_one(names[dbms])}" for step, dbms in smaller.select("step", "dbms").iter_rows()])
    is_ = "is" if smaller.height == 1 else "are"
    count = f"{smaller.height or 'none'} of {counted(changes.height, 'change')} in these steps {is_} smaller"
    claims = [counted_rows("decided", smaller.height, within_layout=True)]
    text = "Another order of functions alone changes the {} of a step by up to {}{} (study {}); {}"
    says = Clause(count + f" and may come from the layout: {named}" * bool(named), claims)
    return finding(phrase(text, _IN_SHORT[metric], reach, mean, steps[0]["study"], says))


def number_of(row: Row, *, rounds: bool = True) -> str:
    """The ratio of one comparison with its interval and number of rounds.

    >>> number_of({"estimate": 0.62, "low": 0.6, "high": 0.65, "n": 6})
    '0.62x (0.60–0.65, 6 rounds)'
    """
    return f"{ratio(row['estimate'])}x{brackets(row, rounds=rounds)}"


def amount(row: Row, form: str, unit: str = "", of: str = "", *, rounds: bool = False, frame: str = "") -> Clause:
    """An absolute number with its unit and its interval. `of` names the column of the number if it is not `estimate`.
    With `frame`, the name of a data frame, the number is a claim that is checked against that frame.

    >>> amount({"estimate": 8.95, "low": 8.8, "high": 9.1, "n": 8}, "+,.2f", "µs")
    '+8.95 µs (+8.80 to +9.10)'
    """
    number = f"{formatted(row[of or 'estimate'], form)}{f' {unit}' * bool(unit)}"
    claims = [claim_of(row, number, of or "estimate", frame)] if frame else []
    return Clause(f"{number}{brackets(row, form, of, rounds=rounds)}", claims)


def brackets(row: Row, form: str = "", of: str = "", *, after: str = "", rounds: bool = True) -> str:
    """The interval and the number of rounds in brackets, followed by the words `after`.

    >>> brackets({"low": 0.8, "high": 0.84, "n": 8}, after="scan", rounds=False)
    ' (0.80–0.84, scan)'
    """
    parts = (interval_of(row, form, of), rounds_of([row["n"]]) if rounds else "", after)
    return f" ({', '.join(filter(None, parts))})"


def listed(parts: Sequence[str]) -> Clause:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return joined(" and ", filter(None, [joined(", ", parts[:-1]), *parts[-1:]]))


def verdict_counts(
    verdicts: Iterable[str],
    frame: str = "",
    rows: dict[str, Any] | None = None,
    changed: Mapping[str, tuple[str, str]] = MappingProxyType(REGRESSED),
    within: str = "",
) -> Clause:
    """A clause with the number of comparisons of each verdict. With a `frame`, each number is a claim that as many
    rows of the frame have this verdict and match `rows`. `changed` maps `slower` and `faster` to their words in
    singular and plural; `within` is the smallest effect that matters.

    >>> verdict_counts(["slower"] * 14 + ["same"] * 2 + ["unsure"] * 4, within="2 %")
    '14 of 20 comparisons regressed, 2 are unchanged (within 2 %), 4 are inconclusive'
    >>> verdict_counts(["unsure"])
    'the comparison is inconclusive'
    """
    counts = Counter(verdicts)
    total = counts.total()
    words = {**changed, **_COUNTED}
    if within:
        words["same"] = tuple(f"{words_of} (within {within})" for words_of in words["same"])  # type: ignore[assignment]
    parts = [(counts[word], words[word][counts[word] > 1]) for word in VERDICTS if counts[word]]
    claims = [counted_rows(frame, counts[word], **(rows or {}), verdict=word) for word in VERDICTS] if frame else []
    if total == 0:
        return Clause("nothing was compared", claims)
    if total == 1:
        return Clause(f"the comparison {parts[0][1]}", claims)
    (first, says), *others = parts
    others_say = (f"{count} {says}" for count, says in others)
    return Clause(", ".join([f"{first} of {counted(total, 'comparison')} {says}", *others_say]), claims)


def counted_rows(frame: str, count: int, **rows: Any) -> Claim:
    """The claim that `count` rows of a frame have the values `rows`, which maps columns to values."""
    return Claim(frame, rows, count, reading="count")


def inconclusive(
    compared: pl.DataFrame,
    frame: str = "",
    names: Mapping[str, str] | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
) -> Clause:
    """The number of unsure comparisons, the names of the first few, and the number of rounds that would decide them.
    With a `frame`, the numbers are claims on its rows that match `rows`.

    >>> columns = {"dbms": "my80.z", "verdict": "unsure", "needs": "about so many rounds", "n": 6}
    >>> inconclusive(pl.DataFrame({"step": ["a", "b", "c"], "rounds_needed": [7.0, 50.0, 99.0], **columns}))
    ... # doctest: +NORMALIZE_WHITESPACE
    '3 of 3 comparisons (a of my80.z, b of my80.z and c of my80.z). 7 to 50 rounds in place of 6 would decide 2 of
     them, 1 needs more than 60'
    """
    unsure = compared.filter(verdict="unsure")
    if unsure.is_empty():
        return Clause("")
    names = names or {}
    cells = unsure.select("step", "dbms").head(MOST_NAMED)
    named = [f"{step} of {in_one(names.get(dbms, dbms))}" for step, dbms in cells.iter_rows()]
    named += [f"{unsure.height - MOST_NAMED} more"] * (unsure.height > MOST_NAMED)
    of = [{**rows, "verdict": "unsure"}, rows] if frame else []
    counts = (unsure.height, compared.height)
    claims = [counted_rows(frame, count, **one) for one, count in zip(of, counts, strict=False)]
    text = f"{unsure.height} of {counted(compared.height, 'comparison')} ({listed(named)})"
    too_few = (pl.col("n") < ROUNDS_FOR_A_VERDICT) | pl.col("rounds_needed").is_null()
    takes = [f"a verdict takes {needs}" for needs in in_order(unsure.filter(too_few)["needs"])]
    open_ = unsure.filter(~too_few)
    within = [round(rounds) for rounds in open_["rounds_needed"] if rounds <= MOST_ROUNDS_WORTH_NAMING]
    beyond = open_.height - len(within)
    now = rounds_of(open_["n"]).removesuffix("s").removesuffix(" round")
    which = [f"{len(within)} of them", str(beyond)] if unsure.height > 1 else ["it", "it"]
    decided = [f"{rounds_of(within)} in place of {now} would decide {which[0]}"] if within else []
    if beyond:
        rounds = "" if within else " rounds"
        needs = "needs" if beyond == 1 else "need"
        decided.append(f"{which[1]} {needs} more than {MOST_ROUNDS_WORTH_NAMING}{rounds}")
    text, more = "; ".join([text, *takes]), ", ".join(decided)
    return Clause(f"{text}. {more[0].upper()}{more[1:]}" if more else text, claims)


def few_rounds(counts: Iterable[int]) -> str:
    """A sentence, after a space, if any of these numbers of rounds is too low for a verdict; otherwise empty.

    >>> few_rounds([1, 1]), few_rounds([4])
    (' This is from 1 round and decides nothing: a verdict takes 4.', '')
    """
    few = [count for count in counts if count < ROUNDS_FOR_A_VERDICT]
    return f" This is from {rounds_of(few)} and decides nothing: a verdict takes {ROUNDS_FOR_A_VERDICT}." * bool(few)


def in_one(name: str) -> str:
    """A name without commas, for use in a list: the text after its first comma is put in brackets.

    >>> in_one("8.0, cache off"), in_one("8.0")
    ('8.0 (cache off)', '8.0')
    """
    first, comma, rest = name.partition(", ")
    return f"{first} ({rest})" if comma else name


def change_of(row: Row, frame: str = "") -> Clause:
    """The ratio of one comparison as a change in percent, with its interval. `frame` names the frame that
    the number is checked against; without a name, it is not checked.

    >>> change_of({"estimate": 1.36, "low": 1.35, "high": 1.371})
    '+36.0 % (+35.0 to +37.1 %)'
    """
    written = change(row["estimate"])
    return Clause(f"{written} ({change_interval(row)})", [claim_of(row, written, frame=frame)] if frame else [])


def changes(rows: pl.DataFrame, at: str, frame: str = "") -> Clause:
    """The changes of some comparisons in percent, each followed by the preposition `at` and the row's `place`; then
    the places whose verdict is same, and the places whose verdict is unsure, with their intervals. Without
    verdicts, all changes are listed. `frame` names the frame that the numbers are checked against, if any.

    >>> row = {"estimate": 1.36, "low": 1.35, "high": 1.371, "smallest_effect": 0.02}
    >>> places = [("slower", "scan"), ("same", "insert"), ("unsure", "update"), ("unsure", "delete")]
    >>> changes(pl.DataFrame([{**row, "verdict": verdict, "place": place} for verdict, place in places]), "for")
    ... # doctest: +NORMALIZE_WHITESPACE
    '+36.0 % (+35.0 to +37.1 %) for scan, less than 2 % for insert, inconclusive for update (+35.0 to +37.1 %) and
     delete (+35.0 to +37.1 %)'
    """
    has_verdicts = "verdict" in rows.columns
    decided = rows.filter(pl.col("verdict").is_in(list(CHANGED))) if has_verdicts else rows
    parts = [phrase("{} {} {}", change_of(row, frame), at, row["place"]) for row in decided.to_dicts()]
    for verdict, words in (("same", "less than {}"), ("unsure", "inconclusive")) if has_verdicts else ():
        alike = rows.filter(verdict=verdict).to_dicts()
        cells = ({name: row[name] for name in CELL if name in row} for row in alike)
        claims = [counted_rows(frame, 1, **cell, verdict=verdict) for cell in cells] if frame else []
        if alike:
            reach = [f" ({change_interval(row)})" * (verdict == "unsure") for row in alike]
            places = listed([f"{row['place']}{end}" for row, end in zip(alike, reach, strict=True)])
            before = "for" if at == "by" and verdict == "unsure" else at
            parts.append(Clause(f"{words.format(smallest_effect(rows))} {before} {places}", claims))
    return joined(", ", parts)


def came_from(course: Row, changes: Sequence[Row], names: Mapping[str, str]) -> Clause:
    """A clause on the releases at which a course changed, in order: the difference of each from the release measured
    before it, in percentage points of the base. If there are many changes, the clause names only the largest.

    >>> course = {"metric": "operations_per_s", "base": "a", "first": "a", "last": "d", "course": "steps"}
    >>> course |= {"estimate": 0.76, "points": -24.0}
    >>> changes = [{"dbms": "b", "points": -25.9}, {"dbms": "c", "points": 1.9}]
    >>> names = {"a": "5.6", "b": "8.0.12", "c": "8.0.31", "d": "9.7"}
    >>> came_from(course, changes, names)
    'throughput −24.0 % from 5.6 to 9.7: −25.9 points at 8.0.12, +1.9 at 8.0.31'
    >>> came_from(course | {"base": "b"}, changes[:1], names)
    'throughput −24.0 points of 8.0.12 from 5.6 to 9.7: −25.9 at 8.0.12, +1.9 elsewhere'
    >>> came_from(course | {"course": "drift"}, [], names)
    'throughput −24.0 % from 5.6 to 9.7, as a drift from release to release'
    """
    of_base = course["first"] == course["base"]
    written = change(course["estimate"]) if of_base else formatted(course["points"], "+.1f")
    total = Clause(written, [claim_of(course, written, "estimate" if of_base else "points", "courses")])
    what = {CPU: "CPU per operation", INSTRUCTIONS: "instructions per operation"}.get(course["metric"], "throughput")
    unit = "" if of_base else f" points of {names[course['base']]}"

    def at(row: Row, points: Clause, first: bool) -> Clause:
        return phrase("{}{} at {}", points, " points" * (first and of_base), names[row["dbms"]])

    head = phrase("{} {}{} from {} to {}", what, total, unit, names[course["first"]], names[course["last"]])
    return with_changes(head, course, changes, at)


def with_changes(head: str, course: Row, changes: Sequence[Row], at: Callable[[Row, Clause, bool], str]) -> Clause:
    """The words `head`, which describe a course, followed by the course's changes. `at` returns the words for one
    change; its arguments are the change's row, its points as text, and True for the first change that is named."""
    if course["course"] == "drift":
        return phrase("{}, as a drift from release to release", head)
    many = len(changes) > MOST_CHANGES + 1
    largest = sorted(changes, key=lambda row: -abs(row["points"]))[: MOST_CHANGES if many else None]
    parts: list[str] = []
    for row in (row for row in changes if row in largest):
        points = formatted(row["points"], "+.1f")
        parts.append(at(row, Clause(points, [claim_of(row, points, "points", "changes")]), not parts))
    if many:
        smaller = [row for row in changes if row not in largest]
        points = formatted(sum(row["points"] for row in smaller), "+.1f")
        parts.append(Clause(f"{points} in {len(smaller)} smaller changes"))
    rest = course["points"] - sum(row["points"] for row in changes)
    if abs(rest) >= LEAST_REST:
        parts.append(Clause(f"{formatted(rest, '+.1f')} elsewhere"))
    return phrase("{}: {}", head, joined(", ", parts))


def added(row: Row) -> str:
    """A difference with its interval, with as many digits as the width of the interval justifies.

    >>> added({"estimate": 1.404, "low": 0.301, "high": 2.499})
    '+1.4 (+0.3 to +2.5)'
    """
    return amount(row, f"+,.{digits_of((row['high'] - row['low']) / 2)}f")


def steps_of_means(means: pl.DataFrame, left_out: Mapping[str, Sequence[str]]) -> str:
    """Sentences on the steps that the geometric means are taken over, and on the steps left out, with the reason.

    >>> mean = {"metric": "operations_per_s", "dbms": "my80.z", "over": ["scan", "insert"], "incomplete": 0}
    >>> steps_of_means(pl.DataFrame([{**mean, "missing": []}]), {})
    'The geometric mean is over all 2 steps (scan and insert).'
    >>> steps_of_means(pl.DataFrame([{**mean, "missing": ["load"]}]), {"hold a rate": ["q100"]})
    ... # doctest: +NORMALIZE_WHITESPACE
    'The geometric mean is over 2 steps (scan and insert). It leaves out steps that hold a rate (q100); load, in which
     my80.z was not compared.'
    """
    sentences = []
    alike = means.unique(["over", "missing", "incomplete"], maintain_order=True)
    for row in alike.to_dicts():
        over, missing = row["over"], row["missing"]
        reasons = [f"steps that {reason} ({_some(steps)})" for reason, steps in left_out.items()]
        reasons += [f"{_some(missing)}, in which {row['dbms']} was not compared"] * bool(missing)
        whose = f" of {row['dbms']}" * (alike.height > 1)
        every = "all " * (not left_out and not missing)
        sentences.append(f"The geometric mean{whose} is over {every}{counted(len(over), 'step')} ({_some(over)}).")
        sentences += [f"It leaves out {'; '.join(reasons)}."] * bool(reasons)
        rounds = f"{counted(row['incomplete'], 'round')} without one of the steps"
        sentences += [f"Its interval leaves out {rounds}."] * bool(row["incomplete"])
    return " ".join(sentences)


def _some(names: Sequence[str]) -> str:
    """All names, or if there are many, the first few and the number of the others."""
    if len(names) <= 2 * MOST_NAMED:
        return listed(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"


def other_plans(changes: pl.DataFrame, names: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Sentences on query plans that differ from the base's, one per step and plan. `changes` is the frame of
    `stats.plan_changes`."""
    together = changes.group_by("step", "base", "base_plan", "plan", maintain_order=True).agg("dbms")
    text = "{step}: {others} by another plan than {base}, so a difference is no regression of code alone: {plan}, in "
    text += "place of {base_plan}."
    return [
        Clause(
            text.format(
                **row | {"base": names.get(row["base"], row["base"])},
                others=listed([names.get(dbms, dbms) for dbms in row["dbms"]]),
            ),
            [Claim("plans", row, len(row["dbms"]), reading="count")],
        )
        for row in together.to_dicts()
    ]
