"""The grammar of findings: a subject, a comparison, a number with its interval and rounds, and a place.

`On vm: update-index regressed most: my8033 runs at 0.82x of my5624 (0.80–0.84, 8 rounds).` Every sentence with a
measured number gets its number, interval and rounds here, so that all pages write them in one way.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import polars as pl

from rqps.show.words import MOST_NAMED, Row, in_order, interval_of, ratio, rounds_of
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUTS, TITLES
from rqps.stats.verdict import MOST_ROUNDS_WORTH_NAMING, ROUNDS_FOR_A_VERDICT, VERDICTS
from rqps.terminal import counted

CHANGED = {"slower": "regressed", "faster": "improved"}
_COUNTED = {"same": ("is unchanged", "are unchanged"), "unsure": ("is inconclusive", "are inconclusive")}
_VERBS = {
    CPU: "uses {times} the CPU of {base} per operation",
    INSTRUCTIONS: "executes {times} the instructions of {base} per operation",
}


def finding(*clauses: str, place: str = "") -> str:
    """Clauses as one sentence, after its place if it has one.

    >>> finding("scan regressed", "", "the rest is unchanged", place="vm")
    'On vm: scan regressed; the rest is unchanged.'
    """
    text = "; ".join(filter(None, clauses))
    return f"{f'On {place}: ' * bool(place)}{text if text.endswith('.') else f'{text}.'}"


def comparison(row: Row, subject: str = "", base: str = "") -> str:
    """A row of a compared frame as a clause, by its metric.

    >>> row = {"dbms": "my80.z", "base": "my56.z", "estimate": 0.82, "low": 0.8, "high": 0.84, "n": 8}
    >>> comparison({**row, "metric": "operations_per_s"})
    'my80.z runs at 0.82x of my56.z (0.80–0.84, 8 rounds)'
    >>> comparison({**row, "metric": "server_cpu_us_per_operation"}, "8.0", "5.6")
    '8.0 uses 0.82x the CPU of 5.6 per operation (0.80–0.84, 8 rounds)'
    """
    metric = row["metric"]
    verb = "runs at {times} of {base}" if metric in THROUGHPUTS else _VERBS.get(metric)
    verb = verb or f"has {{times}} the {TITLES.get(metric, metric)} of {{base}}"
    predicate = verb.format(times=f"{ratio(row['estimate'])}x", base=base or row["base"])
    return f"{subject or row['dbms']} {predicate}{brackets(row)}"


def number_of(row: Row, *, rounds: bool = True) -> str:
    """The ratio of a compared row with its interval and rounds.

    >>> number_of({"estimate": 0.62, "low": 0.6, "high": 0.65, "n": 6})
    '0.62x (0.60–0.65, 6 rounds)'
    """
    return f"{ratio(row['estimate'])}x{brackets(row, rounds=rounds)}"


def amount(row: Row, form: str, unit: str = "", of: str = "", *, rounds: bool = False) -> str:
    """An absolute number with its unit and its interval; `of` names its columns where they are not the estimate's.

    >>> amount({"estimate": 8.95, "low": 8.8, "high": 9.1, "n": 8}, "+,.2f", "µs")
    '+8.95 µs (+8.80 to +9.10)'
    """
    number = f"{row[of or 'estimate']:{form}}"
    return f"{number}{f' {unit}' * bool(unit)}{brackets(row, form, of, rounds=rounds)}"


def brackets(
    row: Row, form: str = "", of: str = "", *, before: str = "", after: str = "", rounds: bool = True
) -> str:
    """The interval in brackets, with the rounds, between the words `before` and `after`.

    >>> brackets({"low": 0.8, "high": 0.84, "n": 8}, before="scan", rounds=False)
    ' (scan, 0.80–0.84)'
    """
    parts = (before, interval_of(row, form, of), rounds_of([row["n"]]) if rounds else "", after)
    return f" ({', '.join(filter(None, parts))})"


def listed(parts: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def verdict_counts(verdicts: Iterable[str], what: str = "comparison") -> str:
    """The number of comparisons by verdict.

    >>> verdict_counts(["slower"] * 14 + ["faster"] * 2 + ["unsure"] * 4)
    '14 of 20 comparisons regressed, 2 improved, 4 are inconclusive'
    >>> verdict_counts(["unsure"])
    'the comparison is inconclusive'
    """
    counts = Counter(verdicts)
    total = counts.total()
    parts = [
        (counts[word], CHANGED.get(word) or _COUNTED[word][counts[word] > 1]) for word in VERDICTS if counts[word]
    ]
    if total == 1:
        return f"the {what} {parts[0][1]}"
    (first, says), *others = parts
    return ", ".join([f"{first} of {counted(total, what)} {says}", *(f"{count} {says}" for count, says in others)])


def inconclusive(compared: pl.DataFrame) -> str:
    """The comparisons that are unsure, the first of them by name, and the rounds that would settle them.

    >>> columns = {"dbms": "my80.z", "verdict": "unsure", "needs": "about so many rounds", "n": 6}
    >>> inconclusive(pl.DataFrame({"step": ["a", "b", "c"], "rounds_needed": [7.0, 50.0, 99.0], **columns}))
    '3 of 3 comparisons (a of my80.z, b of my80.z, c of my80.z); 7 to 50 rounds would settle 2, 1 takes more than 60'
    """
    unsure = compared.filter(verdict="unsure")
    if unsure.is_empty():
        return ""
    named = [f"{step} of {dbms}" for step, dbms in unsure.select("step", "dbms").head(MOST_NAMED).iter_rows()]
    more = f" and {unsure.height - MOST_NAMED} more" if unsure.height > MOST_NAMED else ""
    text = f"{unsure.height} of {counted(compared.height, 'comparison')} ({', '.join(named)}{more})"
    too_few = (pl.col("n") < ROUNDS_FOR_A_VERDICT) | pl.col("rounds_needed").is_null()
    takes = [f"a verdict takes {needs}" for needs in in_order(unsure.filter(too_few)["needs"])]
    needed = unsure.filter(~too_few)["rounds_needed"]
    within = [round(rounds) for rounds in needed if rounds <= MOST_ROUNDS_WORTH_NAMING]
    beyond = len(needed) - len(within)
    settled = [f"{rounds_of(within)} would settle {len(within)}"] if within else []
    if beyond:
        rounds = "" if within else " rounds"
        settled.append(f"{beyond} {'takes' if beyond == 1 else 'take'} more than {MOST_ROUNDS_WORTH_NAMING}{rounds}")
    return "; ".join(filter(None, chain([text], takes, [", ".join(settled)])))
