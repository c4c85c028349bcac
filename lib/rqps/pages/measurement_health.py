"""Measurement health: a verdict on the reliability of a study, its reasons, and advice."""

from collections.abc import Iterator

import polars as pl

from rqps.numbers import counted, difference, percent
from rqps.pages import Reliability
from rqps.show import Claim, Clause, Sentences, finding, joined, phrase, rounds_of
from rqps.show.claims import Reading
from rqps.show.sentences import counted_rows
from rqps.stats import Health, verdict
from rqps.stats import health as health_of
from rqps.stats.metrics import MOST_OUTSIDE, THROUGHPUT
from rqps.store import Study
from rqps.study import ROUNDS_FOR_A_VERDICT

FRAME = "health"
HEADS = {
    "believed": "This study is reliable",
    "coarse": "This study is reliable, but not all steps resolve small differences",
    "doubtful": "This study is not reliable",
    "unknown": "There are too few rounds to say if this study is reliable",
}


def reliability(study: Study) -> Reliability:
    """The verdict on the reliability of a study, for the first page of a report."""
    health = health_of(study)
    return Reliability(HEADS[health.belief], in_a_sentence(health), health.belief == "doubtful")


def answer(health: Health) -> Sentences:
    """The verdict on the reliability of a study, and advice."""
    return Sentences(filter(None, (in_a_sentence(health), advice(health))))


def in_a_sentence(health: Health) -> Clause:
    """A sentence with the verdict on reliability and its reasons, reasons for doubt first."""
    if health.missing:
        return Clause(f"Nothing is measured yet: {health.missing.splitlines()[0]}.")
    reasons = sorted(_reasons(health), key=lambda reason: not reason[0])
    return finding(phrase("{}: {}", HEADS[health.belief], joined("; ", [text for _, text in reasons])))


def _share(kind: str, ratio: float, column: str = "estimate", reading: Reading = "value") -> Clause:
    """The distance of a ratio from 1 as a percentage, with a claim by which the percentage is checked."""
    written = difference(abs(ratio - 1))
    rows = {"kind": kind, "yes": True} if reading == "highest" else {"kind": kind}
    return Clause(written, [Claim(FRAME, rows, ratio, column, reading, written)])


def _counts(health: Health, kind: str) -> tuple[int, int, list[Claim]]:
    """Counts the rows of one kind in the frame `facts`: those in which `yes` is true, and all. Also returns the
    claims on both counts."""
    rows = health.facts.filter(kind=kind)
    some, every = int(rows["yes"].sum() or 0), rows.height
    return some, every, [counted_rows(FRAME, some, kind=kind, yes=True), counted_rows(FRAME, every, kind=kind)]


def advice(health: Health) -> str:
    """Advice on the next step if the study is not reliable or its noise floor is high; else an empty text."""
    if health.missing:
        return ""
    again = f"rqps run {health.study.card.study}"
    if health.belief == "doubtful":
        if health.compared["different"].any():
            what = "Trust only differences that are larger than the base's from itself. Look below for rounds and "
            what += "steps that stand out, run rqps doctor, and measure again"
        elif verdict.drifts(*health.drifting):
            what = "Give the steps longer warm-ups, let the machine come to rest, and measure again"
        else:
            what = "Stop what keeps the machine busy (rqps doctor names it) and measure again, or measure duets "
            what += "(method: duet), in which a disturbance affects both sides"
        return f"{what}: {again} --archive."
    if health.belief == "unknown":
        return f"Measure {ROUNDS_FOR_A_VERDICT} rounds or more; {again} measures what is missing."
    if health.belief == "coarse" and health.noise_floor is not None:
        needed = round(max(health.steps["rounds"]) * (health.noise_floor / verdict.COARSE) ** 2)
        start = f"To resolve more: about {needed} rounds would resolve {difference(verdict.COARSE)}, or fewer with"
        if needed > verdict.MOST_ROUNDS_WORTH_NAMING:
            start = "More rounds alone are not enough: take"
        duets = "" if health.is_duet else "duets where the steps can be sliced (method: duet), "
        return f"{start} {duets}longer steps or a quieter machine."
    return ""


def _reasons(health: Health) -> Iterator[tuple[bool, Clause]]:
    """The reasons of the verdict, each with True if it is a reason for doubt."""
    called, comparisons, claims = _counts(health, "different")
    if called:
        text = f"the base is called different from itself in {called} of {counted(comparisons, 'comparison')}"
        yield True, Clause(text, claims)
    itself = health.facts.filter(kind="itself").to_dicts()
    for row in itself:
        by, half = _share("itself", row["estimate"]), row["half"]
        within = phrase(" ± {}", _share("itself", half, "half")) if half else ""
        yield False, phrase("the base against itself differs by {}{} in {}", by, within, rounds_of([row["n"]]))
    steps = health.steps.filter(metric=THROUGHPUT)
    if health.noise_floor is None:
        rounds = rounds_of(steps["rounds"] if steps.height else [0])
        yield True, Clause(f"a verdict takes {ROUNDS_FOR_A_VERDICT} rounds, and there are {rounds}")
    else:
        hosts = steps["host"].n_unique()
        of_hosts = counted(steps.height, "step") + (f" of {hosts} hosts" if hosts > 1 else "")
        able, _, claims = _counts(health, "resolved")
        floor = _share("resolved", 1 + health.noise_floor, reading="highest")
        finest = "" if health.finest is None else difference(health.finest)
        least = f" ({finest} in the comparison that resolves most)" * (finest not in ("", floor))
        where = Clause(f"{able} of {of_hosts}", claims)
        yield False, phrase("the noise floor is {} in {}{}", floor, where, least)
    drifting, comparisons, claims = _counts(health, "drifting")
    if drifting:
        drift = "drift" if drifting > 1 else "drifts"
        of_occasion = " of an occasion" * (health.drift["occasions"].max() != 1)
        text = f"{drifting} of {counted(comparisons, 'comparison')} {drift} over the rounds{of_occasion}"
        yield verdict.drifts(drifting, comparisons), Clause(text, claims)
    far, total, claims = _counts(health, "far")
    if far:
        text = f"{counted(far, 'round')} of {total} {'are' if far > 1 else 'is'} far from the others"
        yield False, Clause(text, claims)
    disturbed, total, claims = _counts(health, "disturbed")
    text = "no round was disturbed by other processes"
    if disturbed:
        were, alike = "was" if disturbed == 1 else "were", ", all sides alike" * health.is_duet
        text = f"{disturbed} of {counted(total, 'round')} {were} disturbed by other processes{alike}"
    yield disturbed >= max(1, verdict.DISTURBED * total) and not health.is_duet, Clause(text, claims)
    yield from _cycles(health.cycles)
    if not itself:
        yield False, Clause("the base was not measured against itself")


def _cycles(cycles: pl.DataFrame) -> Iterator[tuple[bool, Clause]]:
    """A reason with the numbers of all cycles, of disturbed cycles and of cycles that were left out. No reason if
    no cycle was disturbed."""
    total, disturbed, left_out = cycles.sum().select("cycles", "disturbed", "left_out").row(0)
    numbers = {"cycles": total, "left_out": left_out, "disturbed": disturbed}
    claims = [Claim(FRAME, {"kind": "cycles"}, number, name, "sum") for name, number in numbers.items()]
    if disturbed:
        text = f"other processes or guests had more than {percent(MOST_OUTSIDE)} of the CPUs in {disturbed:,} of "
        text += f"{counted(total, 'cycle')}, of which {left_out:,} were left out for all sides"
        text += "; where most cycles of a step were like that, they count" * (left_out < disturbed)
        yield False, Clause(text, claims)
