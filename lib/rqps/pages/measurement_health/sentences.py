"""The verdict on a study in a sentence, and what to do about it in another."""

from collections.abc import Iterator

from rqps.pages.measurement_health.tables import all_steps
from rqps.show import Sentences, rounds_of
from rqps.stats import Health, verdict
from rqps.stats.metrics import THROUGHPUT
from rqps.terminal import counted, percent

HEADS = {
    "believed": "These numbers can be believed",
    "coarse": "These numbers can be believed, but only large differences can be told",
    "doubtful": "These numbers can't be believed",
    "unknown": "These rounds are too few to say if their numbers can be believed",
}


def answer(found: Health) -> Sentences:
    """The verdict, and what to do."""
    return Sentences(filter(None, (in_a_sentence(found), advice(found))))


def in_a_sentence(found: Health) -> str:
    """The verdict with its reasons, those against the numbers first."""
    if found.missing:
        return f"There is nothing to believe yet: {found.missing.splitlines()[0]}."
    reasons = sorted(_reasons(found), key=lambda reason: not reason[0])
    return f"{HEADS[found.belief]}: {'; '.join(text for _, text in reasons)}."


def advice(found: Health) -> str:
    """The next step where the numbers can't be believed or tell little; empty where they can."""
    if found.missing:
        return ""
    again = f"rqps run {found.study.card.study}"
    if found.compared["different"].any():
        return (
            "Believe no difference that is not larger than that of the base from itself. Look below for rounds and "
            f"steps that stand out, ask rqps doctor what makes starts unlike, and measure again: {again} --archive."
        )
    if found.belief == "doubtful" and verdict.drifts(*found.drifting):
        return f"Give the steps longer warm-ups, let the machine come to rest, and measure again: {again} --archive."
    if found.belief == "doubtful":
        return (
            "End what keeps the machine busy (rqps doctor names it) and measure again, or measure duets "
            f"(method: duet), in which a disturbance meets both sides: {again} --archive."
        )
    if found.belief == "unknown":
        return f"Measure {verdict.ROUNDS_FOR_A_VERDICT} rounds or more; {again} measures what is missing."
    if found.belief == "coarse" and found.told is not None:
        needed = round(max(found.steps["rounds"]) * (found.told / verdict.COARSE) ** 2)
        more = f"about {needed} rounds would tell {percent(verdict.COARSE)}, or fewer with"
        start = (
            "More rounds alone won't do: take" if needed > verdict.MOST_ROUNDS_WORTH_NAMING else f"For more: {more}"
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
    if found.told is None:
        there = rounds_of(steps["rounds"] if steps.height else [0])
        yield True, f"it takes {verdict.ROUNDS_FOR_A_VERDICT} rounds to tell anything, and there are {there}"
    else:
        able = int((steps["told"] <= found.told).sum())
        yield False, f"{percent(found.told)} can be told in {able} of {all_steps(steps)}"
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
        alike = ", which met all sides alike" if found.is_duet else ""
        were = "was" if disturbed == 1 else "were"
        yield against, f"{disturbed} of {counted(rounds, 'round')} {were} disturbed by others{alike}"
    else:
        yield False, "no round was disturbed by others"
    if not overall:
        yield False, f"{base} was not measured against itself"
