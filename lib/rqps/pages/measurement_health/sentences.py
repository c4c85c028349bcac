"""The verdict on a study in a sentence, and what to do about it in another."""

from collections.abc import Iterator

from rqps.pages.measurement_health.tables import all_steps
from rqps.show import Sentences, rounds_of
from rqps.stats import Health, verdict
from rqps.stats.metrics import THROUGHPUT
from rqps.terminal import counted, percent

HEADS = {
    "believed": "This study is reliable",
    "coarse": "This study is reliable, but resolves only large differences",
    "doubtful": "This study is not reliable",
    "unknown": "There are too few rounds to say if this study is reliable",
}


def answer(found: Health) -> Sentences:
    """The verdict, and what to do."""
    return Sentences(filter(None, (in_a_sentence(found), advice(found))))


def in_a_sentence(found: Health) -> str:
    """The verdict with its reasons, those against the numbers first."""
    if found.missing:
        return f"Nothing is measured yet: {found.missing.splitlines()[0]}."
    reasons = sorted(_reasons(found), key=lambda reason: not reason[0])
    return f"{HEADS[found.belief]}: {'; '.join(text for _, text in reasons)}."


def advice(found: Health) -> str:
    """The next step if the study is not reliable or resolves little; else nothing."""
    if found.missing:
        return ""
    again = f"rqps run {found.study.card.study}"
    if found.compared["different"].any():
        return (
            "Trust only differences that are larger than that of the base from itself. Look below for rounds and "
            f"steps that stand out, run rqps doctor, and measure again: {again} --archive."
        )
    if found.belief == "doubtful" and verdict.drifts(*found.drifting):
        return f"Give the steps longer warm-ups, let the machine come to rest, and measure again: {again} --archive."
    if found.belief == "doubtful":
        return (
            "Stop what keeps the machine busy (rqps doctor names it) and measure again, or measure duets "
            f"(method: duet), in which a disturbance affects both sides: {again} --archive."
        )
    if found.belief == "unknown":
        return f"Measure {verdict.ROUNDS_FOR_A_VERDICT} rounds or more; {again} measures what is missing."
    if found.belief == "coarse" and found.noise_floor is not None:
        needed = round(max(found.steps["rounds"]) * (found.noise_floor / verdict.COARSE) ** 2)
        more = f"about {needed} rounds would resolve {percent(verdict.COARSE)}, or fewer with"
        start = (
            "More rounds alone are not enough: take"
            if needed > verdict.MOST_ROUNDS_WORTH_NAMING
            else f"To resolve more: {more}"
        )
        duets = "" if found.is_duet else "duets where the steps can be sliced (method: duet), "
        return f"{start} {duets}longer steps or a quieter machine."
    return ""


def _reasons(found: Health) -> Iterator[tuple[bool, str]]:
    """Reasons, each with True where it speaks against the numbers."""
    base = found.study.card.base
    called = int(found.compared["different"].sum() or 0)
    if called:
        yield True, f"{base} is called different from itself in {called} of {found.compared.height} comparisons"
    overall = found.overall.filter(metric=THROUGHPUT).to_dicts()
    for row in overall:
        reach = f" in {rounds_of([row['n']])}"
        if row["low"] is not None:
            reach = f" ± {percent((row['high'] / row['low']) ** 0.5 - 1)}{reach}"
        yield False, f"{base} against itself differs by {percent(abs(row['estimate'] - 1))}{reach}"
    steps = found.steps.filter(metric=THROUGHPUT)
    if found.noise_floor is None:
        there = rounds_of(steps["rounds"] if steps.height else [0])
        yield True, f"a verdict takes {verdict.ROUNDS_FOR_A_VERDICT} rounds, and there are {there}"
    else:
        able = int((steps["noise_floor"] <= found.noise_floor).sum())
        yield False, f"the noise floor is {percent(found.noise_floor)} in {able} of {all_steps(steps)}"
    drifting, comparisons = found.drifting
    if drifting:
        drift = "drift" if drifting > 1 else "drifts"
        against = verdict.drifts(drifting, comparisons)
        yield against, f"{drifting} of {counted(comparisons, 'comparison')} {drift} over the rounds"
    rounds = found.by_round.height
    if far := int(found.by_round["far"].sum()):
        yield False, f"{counted(far, 'round')} of {rounds} {'are' if far > 1 else 'is'} far from the others"
    disturbed = int(found.by_round["disturbed"].sum())
    if disturbed:
        against = disturbed >= verdict.DISTURBED * rounds and not found.is_duet
        alike = ", all sides alike" if found.is_duet else ""
        were = "was" if disturbed == 1 else "were"
        yield against, f"{disturbed} of {counted(rounds, 'round')} {were} disturbed by other processes{alike}"
    else:
        yield False, "no round was disturbed by other processes"
    if not overall:
        yield False, f"{base} was not measured against itself"
