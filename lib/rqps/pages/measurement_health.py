"""Measurement health: a verdict on the reliability of a study, its reasons, advice, and the doctor's findings on the
hosts."""

from collections.abc import Iterator

import polars as pl
from great_tables import GT

from rqps.measure.finding import HEADINGS, machine_findings
from rqps.pages import Reliability
from rqps.show import Claim, Clause, Column, Sentences, finding, joined, phrase, rounds_of, table
from rqps.show.claims import Reading
from rqps.show.sentences import counted_rows
from rqps.stats import Health, machine_state, verdict
from rqps.stats import health as health_of
from rqps.stats.health import between_occasions
from rqps.stats.metrics import MOST_OUTSIDE, THROUGHPUT
from rqps.store import Manifest, Study
from rqps.study import ROUNDS_FOR_A_VERDICT
from rqps.terminal import counted, percent

FRAME = "health"
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
    """The verdict on a study's numbers, and advice."""
    return Sentences(filter(None, (in_a_sentence(health), advice(health))))


def in_a_sentence(health: Health) -> Clause:
    """A sentence with the verdict on reliability and its reasons, reasons for doubt first."""
    if health.missing:
        return Clause(f"Nothing is measured yet: {health.missing.splitlines()[0]}.")
    reasons = sorted(_reasons(health), key=lambda reason: not reason[0])
    return finding(phrase("{}: {}", HEADS[health.belief], joined("; ", [text for _, text in reasons])))


def facts(study: Study) -> pl.DataFrame:
    """The rows from which the numbers in `in_a_sentence` are recomputed. `kind` names a count in the sentence, `yes`
    is true for the rows that are counted; `estimate` is a ratio, 1 for no difference."""
    health, of_throughput = health_of(study), pl.col("metric") == THROUGHPUT
    half = (pl.col("high") / pl.col("low")).sqrt()
    rows = {
        "different": health.compared.select(yes="different"),
        "itself": health.overall.filter(of_throughput).select("estimate", half=half),
        "resolved": health.steps.filter(of_throughput).select(
            yes=pl.col("noise_floor") <= pl.lit(health.noise_floor, pl.Float64), estimate=1 + pl.col("noise_floor")
        ),
        "drifting": health.drift.group_by("host", "step", "dbms").agg(yes=pl.col("drifting").any()).select("yes"),
        "far": health.by_round.select(yes="far"),
        "disturbed": health.by_round.select(yes="disturbed"),
        "cycles": health.cycles.select("cycles", "disturbed", "left_out"),
    }
    return pl.concat([of_kind.with_columns(kind=pl.lit(kind)) for kind, of_kind in rows.items()], how="diagonal")


def _share(kind: str, ratio: float, column: str = "estimate", reading: Reading = "value") -> Clause:
    """The distance of a ratio from 1 as a percentage, with a claim by which it is checked."""
    written = percent(abs(ratio - 1))
    rows = {"kind": kind, "yes": True} if reading == "highest" else {"kind": kind}
    return Clause(written, [Claim(FRAME, rows, ratio, column, reading, written)])


def _counts(kind: str, some: int, every: int) -> list[Claim]:
    return [counted_rows(FRAME, some, kind=kind, yes=True), counted_rows(FRAME, every, kind=kind)]


def advice(health: Health) -> str:
    """Advice on the next step if the study is not reliable or its noise floor is high; else an empty text."""
    if health.missing:
        return ""
    again = f"rqps run {health.study.card.study}"
    if health.compared["different"].any():
        return (
            "Trust only differences that are larger than the base's from itself. Look below for rounds and "
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
        return f"Measure {ROUNDS_FOR_A_VERDICT} rounds or more; {again} measures what is missing."
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


def _reasons(health: Health) -> Iterator[tuple[bool, Clause]]:
    """The reasons of the verdict, each with True if it is a reason for doubt."""
    called, comparisons = int(health.compared["different"].sum() or 0), health.compared.height
    if called:
        text = f"the base is called different from itself in {called} of {counted(comparisons, 'comparison')}"
        yield True, Clause(text, _counts("different", called, comparisons))
    overall = health.overall.filter(metric=THROUGHPUT).to_dicts()
    for row in overall:
        within = Clause("")
        if row["low"] is not None:
            within = phrase(" ± {}", _share("itself", (row["high"] / row["low"]) ** 0.5, "half"))
        by = _share("itself", row["estimate"])
        yield False, phrase("the base against itself differs by {}{} in {}", by, within, rounds_of([row["n"]]))
    steps = health.steps.filter(metric=THROUGHPUT)
    if health.noise_floor is None:
        rounds = rounds_of(steps["rounds"] if steps.height else [0])
        yield True, Clause(f"a verdict takes {ROUNDS_FOR_A_VERDICT} rounds, and there are {rounds}")
    else:
        hosts = steps["host"].n_unique()
        of_hosts = counted(steps.height, "step") + (f" of {hosts} hosts" if hosts > 1 else "")
        able = int((steps["noise_floor"] <= health.noise_floor).sum())
        floor = _share("resolved", 1 + health.noise_floor, reading="highest")
        finest = "" if health.finest is None else percent(health.finest)
        least = f" ({finest} in the comparison that resolves most)" * (finest not in ("", floor))
        where = Clause(f"{able} of {of_hosts}", _counts("resolved", able, steps.height))
        yield False, phrase("the noise floor is {} in {}{}", floor, where, least)
    drifting, comparisons = health.drifting
    if drifting:
        drift = "drift" if drifting > 1 else "drifts"
        text = f"{drifting} of {counted(comparisons, 'comparison')} {drift} over the rounds"
        yield verdict.drifts(drifting, comparisons), Clause(text, _counts("drifting", drifting, comparisons))
    total = health.by_round.height
    if far := int(health.by_round["far"].sum()):
        text = f"{counted(far, 'round')} of {total} {'are' if far > 1 else 'is'} far from the others"
        yield False, Clause(text, _counts("far", far, total))
    disturbed = int(health.by_round["disturbed"].sum())
    of_rounds = _counts("disturbed", disturbed, total)
    if disturbed:
        against = disturbed >= verdict.DISTURBED * total and not health.is_duet
        alike = ", all sides alike" if health.is_duet else ""
        were = "was" if disturbed == 1 else "were"
        text = f"{disturbed} of {counted(total, 'round')} {were} disturbed by other processes{alike}"
        yield against, Clause(text, of_rounds)
    else:
        yield False, Clause("no round was disturbed by other processes", of_rounds)
    yield from _cycles(health.cycles)
    if not overall:
        yield False, Clause("the base was not measured against itself")


def _cycles(cycles: pl.DataFrame) -> Iterator[tuple[bool, Clause]]:
    """A reason with the number of disturbed cycles: those that were left out, and those that count nevertheless."""
    total, disturbed, left_out = cycles.sum().select("cycles", "disturbed", "left_out").row(0)
    numbers = {"cycles": total, "left_out": left_out, "disturbed": disturbed}
    claims = [Claim(FRAME, {"kind": "cycles"}, number, name, "sum") for name, number in numbers.items()]
    if disturbed:
        text = f"other processes or guests had more than {percent(MOST_OUTSIDE)} of the CPUs in {disturbed:,} of "
        text += f"{counted(total, 'cycle')}, of which {left_out:,} were left out for all sides"
        text += "; where most cycles of a step were like that, they count" * (left_out < disturbed)
        yield False, Clause(text, claims)


def state(health: Health) -> Sentences:
    """The state of the machine while the study was measured, and how much of the spread between occasions is the
    machine's, in words."""
    read = machine_state(health.study)
    words = f"By the median of all readings, this machine had {read}: other guests of the CPU have the rest."
    sentences = [words if read else "The state of the machine was not recorded in this study."]
    for row in between_occasions(health.rounds).filter(metric=THROUGHPUT).to_dicts():
        between, within = (percent(row[name]) for name in ("between", "within"))
        sentences.append(
            f"Between its {row['occasions']} occasions, ratios of throughput differ by {between} more than rounds of "
            f"one hour explain ({within} from round to round): that is the machine's."
        )
    return Sentences(sentences)


def machine(study: Study) -> GT | Sentences:
    """A table of the doctor's findings on each host, from the description of the machine in the host's first run."""
    rows = []
    for (host,), runs in study.runs.group_by("host", maintain_order=True):
        [text] = study.manifests.filter(folder=runs["folder"][0]).collect()["manifest"]
        first = Manifest.model_validate_json(text)
        cpus = {*first.placement.server_cpus, *first.placement.client_cpus, *first.placement.observer_cpus}
        # The run recorded `cpus_allowed` after it was bound to one CPU: its placement shows that more were allowed.
        allowed = max(first.machine.get("cpus_allowed", 0), len(cpus))
        for noted in machine_findings({**first.machine, "cpus_allowed": allowed}):
            if noted.level != "ok":
                heading = HEADINGS[noted.level].rstrip(":.")
                rows.append({"host": host, "heading": heading, **noted._asdict()})
    if not rows:
        return Sentences(["The machine's description gives no reason to worry."])
    names = ["host"] * (study.runs["host"].n_unique() > 1) + ["name", "observed", "effect", "fix"]
    rows.sort(key=lambda row: -list(HEADINGS).index(row["level"]))
    columns = [Column(name, {"name": " ", "observed": "found"}.get(name, "")) for name in names]
    return table(rows, columns, name="machine", group="heading")
