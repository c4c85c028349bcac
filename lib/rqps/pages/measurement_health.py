"""Measurement health: whether a study is reliable, why, what to do, and what the doctor says of its hosts."""

from collections.abc import Iterator

from great_tables import GT

from rqps.measure.finding import HEADINGS, machine_findings
from rqps.pages import Reliability
from rqps.show import Column, Sentences, rounds_of, table
from rqps.stats import Health, verdict
from rqps.stats import health as health_of
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Manifest, Study
from rqps.terminal import counted, percent

HEADS = {
    "believed": "This study is reliable",
    "coarse": "This study is reliable, but not all steps resolve small differences",
    "doubtful": "This study is not reliable",
    "unknown": "There are too few rounds to say if this study is reliable",
}


def reliability(study: Study) -> Reliability:
    """The verdict on the study's numbers, for the first page of a report."""
    health = health_of(study)
    return Reliability(HEADS[health.belief], in_a_sentence(health), health.belief == "doubtful")


def answer(health: Health) -> Sentences:
    """The verdict, and what to do."""
    return Sentences(filter(None, (in_a_sentence(health), advice(health))))


def in_a_sentence(health: Health) -> str:
    """The verdict with its reasons, those against the numbers first."""
    if health.missing:
        return f"Nothing is measured yet: {health.missing.splitlines()[0]}."
    reasons = sorted(_reasons(health), key=lambda reason: not reason[0])
    return f"{HEADS[health.belief]}: {'; '.join(text for _, text in reasons)}."


def advice(health: Health) -> str:
    """The next step if the study is not reliable or resolves little; else nothing."""
    if health.missing:
        return ""
    again = f"rqps run {health.study.card.study}"
    if health.compared["different"].any():
        return (
            "Trust only differences that are larger than that of the base from itself. Look below for rounds and "
            f"steps that stand out, run rqps doctor, and measure again: {again} --archive."
        )
    if health.belief == "doubtful" and verdict.drifts(*health.drifting):
        return f"Give the steps longer warm-ups, let the machine come to rest, and measure again: {again} --archive."
    if health.belief == "doubtful":
        return (
            "Stop what keeps the machine busy (rqps doctor names it) and measure again, or measure duets "
            f"(method: duet), in which a disturbance affects both sides: {again} --archive."
        )
    if health.belief == "unknown":
        return f"Measure {verdict.ROUNDS_FOR_A_VERDICT} rounds or more; {again} measures what is missing."
    if health.belief == "coarse" and health.noise_floor is not None:
        needed = round(max(health.steps["rounds"]) * (health.noise_floor / verdict.COARSE) ** 2)
        more = f"about {needed} rounds would resolve {percent(verdict.COARSE)}, or fewer with"
        start = (
            "More rounds alone are not enough: take"
            if needed > verdict.MOST_ROUNDS_WORTH_NAMING
            else f"To resolve more: {more}"
        )
        duets = "" if health.is_duet else "duets where the steps can be sliced (method: duet), "
        return f"{start} {duets}longer steps or a quieter machine."
    return ""


def _reasons(health: Health) -> Iterator[tuple[bool, str]]:
    """Reasons, each with True where it speaks against the numbers."""
    base = health.study.card.base
    called = int(health.compared["different"].sum() or 0)
    if called:
        yield True, f"{base} is called different from itself in {called} of {health.compared.height} comparisons"
    overall = health.overall.filter(metric=THROUGHPUT).to_dicts()
    for row in overall:
        reach = f" in {rounds_of([row['n']])}"
        if row["low"] is not None:
            reach = f" ± {percent((row['high'] / row['low']) ** 0.5 - 1)}{reach}"
        yield False, f"{base} against itself differs by {percent(abs(row['estimate'] - 1))}{reach}"
    steps = health.steps.filter(metric=THROUGHPUT)
    if health.noise_floor is None:
        rounds = rounds_of(steps["rounds"] if steps.height else [0])
        yield True, f"a verdict takes {verdict.ROUNDS_FOR_A_VERDICT} rounds, and there are {rounds}"
    else:
        hosts = steps["host"].n_unique()
        of_hosts = counted(steps.height, "step") + (f" of {hosts} hosts" if hosts > 1 else "")
        able = int((steps["noise_floor"] <= health.noise_floor).sum())
        floor = percent(health.noise_floor)
        if health.finest is not None and (finest := percent(health.finest)) != floor:
            floor = f"{finest.removesuffix(' %')} to {floor}"  # a comparison that resolves more decides more
        yield False, f"the noise floor is {floor} in {able} of {of_hosts}"
    drifting, comparisons = health.drifting
    if drifting:
        drift = "drift" if drifting > 1 else "drifts"
        against = verdict.drifts(drifting, comparisons)
        yield against, f"{drifting} of {counted(comparisons, 'comparison')} {drift} over the rounds"
    total = health.by_round.height
    if far := int(health.by_round["far"].sum()):
        yield False, f"{counted(far, 'round')} of {total} {'are' if far > 1 else 'is'} far from the others"
    disturbed = int(health.by_round["disturbed"].sum())
    if disturbed:
        against = disturbed >= verdict.DISTURBED * total and not health.is_duet
        alike = ", all sides alike" if health.is_duet else ""
        were = "was" if disturbed == 1 else "were"
        yield against, f"{disturbed} of {counted(total, 'round')} {were} disturbed by other processes{alike}"
    else:
        yield False, "no round was disturbed by other processes"
    if not overall:
        yield False, f"{base} was not measured against itself"


def machine(study: Study) -> GT | Sentences:
    """Findings of the doctor on the machine as the first run of each host found it."""
    rows = []
    for (host,), runs in study.runs.group_by("host", maintain_order=True):
        [text] = study.manifests.filter(folder=runs["folder"][0]).collect()["manifest"]
        first = Manifest.model_validate_json(text)
        cpus = {*first.placement.server_cpus, *first.placement.client_cpus, *first.placement.observer_cpus}
        # A run described itself when it was on its own CPU already.
        allowed = max(first.machine.get("cpus_allowed", 0), len(cpus))
        for finding in machine_findings({**first.machine, "cpus_allowed": allowed}):
            if finding.level != "ok":
                heading = HEADINGS[finding.level].rstrip(":.")
                rows.append({"host": host, "heading": heading, **finding._asdict()})
    if not rows:
        return Sentences(["The machine's description gives no reason to worry."])
    names = ["host"] * (study.runs["host"].n_unique() > 1) + ["name", "observed", "effect", "fix"]
    rows.sort(key=lambda row: -list(HEADINGS).index(row["level"]))
    columns = [Column(name, {"name": " ", "observed": "found"}.get(name, "")) for name in names]
    return table(rows, columns, name="machine", group="heading")
