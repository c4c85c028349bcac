"""Tables of a study's health: the base against itself, steps, rounds, drift, and the machine."""

from collections.abc import Iterator
from typing import Any

import polars as pl
from great_tables import GT

from rqps.measure.finding import HEADINGS, machine_findings
from rqps.show import Column, Row, Sentences, dots, interval_of, rounds_of, smallest_effect, spread, table, two_lines
from rqps.stats import Health
from rqps.stats.metrics import CPU, THROUGHPUT
from rqps.store import Manifest, Study
from rqps.terminal import counted, percent

METRICS = {THROUGHPUT: "throughput", CPU: "server CPU/o"}
_TOO_FEW = "–"


def itself(found: Health) -> Iterator[Any]:
    """The base against itself: one row per step, with its interval and what it would be called; and all rounds."""
    if found.compared.is_empty():
        wants = (
            "rqps run measures about one for ten pairs" if found.is_duet else "only duets (method: duet) have them"
        )
        guess = "What equal servers differ by can only be guessed here, from the spread of the rounds below."
        yield Sentences([f"There are no rounds of the base against itself: {wants}. {guess}"])
        return

    def cell(row: Row) -> str:
        called = "different" if row["different"] else "the same" if row["verdict"] == "same" else "not different"
        below = f"{interval_of(row, '.3f', 'sure')}<br>{called}, n={row['n']}"
        return two_lines(f"<b>{row['estimate']:.3f}</b>", below)

    yield table(
        spread(on_hosts(found.compared), "metric", ["step"]),
        [Column("step"), *(Column(name, label, cell, align="center") for name, label in METRICS.items())],
        name="itself",
        note=f"The second {found.study.card.base} of a round relative to the first: mean of "
        f"{rounds_of(found.compared['n'])}, below it the interval that decides. The same: within "
        f"{smallest_effect(found.compared)}.",
    )
    yield dots(found.itself, found.compared)


def step_table(found: Health) -> GT | Sentences:
    """One row per step: the spread of the base alone, of ratios between and within rounds, and the noise floor."""
    if found.steps.is_empty():
        return Sentences([found.missing or "There are no rounds."])
    columns = [Column("step"), Column("rounds"), Column("alone", "base alone", percent, align="right")]
    rows = spread(on_hosts(found.steps), "metric", ["step"])
    for row in rows:
        for name in METRICS:
            row |= {f"{part} {name}": (row[name] or {}).get(part) for part in ("between", "within", "noise_floor")}
        row |= {part: next(row[name][part] for name in METRICS if row[name]) for part in ("rounds", "alone")}
    for name, label in METRICS.items():
        columns += [
            Column(f"{part} {name}", part, percent, align="right", under=label)
            for part in ("between", "within", "noise_floor")
        ]
    return table(
        rows,
        columns,
        name="steps",
        note="Standard deviations, and the smallest difference that is more than the interval that decides: a true "
        "difference of that size is found every second time, one of half as much again nine times of ten. "
        f"Within a round is known of duets only. {_TOO_FEW}: too few rounds.",
    )


def round_table(found: Health) -> GT | Sentences:
    """One row per round: its distance from the others, and what disturbed it."""
    if found.by_round.is_empty():
        return Sentences(["No round has finished."])
    noted = pl.concat_list(
        pl.when(which).then(pl.lit(what)) for which, what in (("far", "far from the others"), ("disturbed",) * 2)
    )
    rows = found.by_round.with_columns(
        pl.col("started_at").dt.strftime("%Y-%m-%d %H:%M").alias("began"),
        noted.list.drop_nulls().list.join(", ").alias("noted"),
    )
    columns = [Column("round"), Column("began"), Column("ratios"), Column("off", form=percent, align="right")]
    labels = {"steps": "measured", "others": "others", "steal": "stolen"}
    columns += [*(Column(name, label, under="steps") for name, label in labels.items()), Column("noted", " ")]
    return table(
        rows,
        [Column("host")] * (rows["host"].n_unique() > 1) + columns,
        name="rounds",
        note="Off: how far half of the ratios are from the middle of their comparison. Others, stolen: steps with a "
        "warning that other processes kept the CPUs busy, or that other guests of the hardware took CPU time.",
    )


def drift_table(found: Health) -> GT | Sentences:
    """Comparisons that change over the rounds, the surest first."""
    drifting = found.drift.filter("drifting").sort(pl.col("t").abs(), descending=True)
    if found.drift.is_empty():
        return Sentences(["Too few rounds to see a drift."])
    if drifting.is_empty():
        return Sentences([f"None of {found.drift.height} comparisons is shown to drift over the rounds."])
    rows = on_hosts(drifting).with_columns(pl.col("metric").replace(METRICS))
    change = Column("change", "from first to last round", lambda value: f"{100 * value:+.1f} %")
    columns = [Column("step"), Column("dbms"), Column("metric"), Column("n", "rounds"), change]
    note = "By a straight line through the logarithms of the rounds; one in twenty of these may be chance."
    return table(rows, columns, name="drift", note=note)


def machine(study: Study) -> GT | Sentences:
    """Findings of the doctor on the machine as the first run of each host found it, without those that are fine."""
    rows = []
    for (host,), runs in study.runs.group_by("host", maintain_order=True):
        [text] = study.manifests.filter(folder=runs["folder"][0]).collect()["manifest"]
        first = Manifest.model_validate_json(text)
        cpus = {*first.placement.server_cpus, *first.placement.client_cpus, *first.placement.observer_cpus}
        # A run described itself when it was on its own CPU already.
        allowed = max(first.machine.get("cpus_allowed", 0), len(cpus))
        for each in machine_findings({**first.machine, "cpus_allowed": allowed}):
            if each.level != "ok":
                rows.append({"host": host, "heading": HEADINGS[each.level].rstrip(":."), **each._asdict()})
    if not rows:
        return Sentences(["The machine's description gives no reason to worry."])
    names = ["host"] * (study.runs["host"].n_unique() > 1) + ["name", "observed", "effect", "fix"]
    rows.sort(key=lambda row: -list(HEADINGS).index(row["level"]))
    return table(
        rows,
        [Column(name, {"name": " ", "observed": "found"}.get(name, "")) for name in names],
        name="machine",
        group="heading",
    )


def all_steps(steps: pl.DataFrame) -> str:
    """The number of steps in words, and of their hosts, where there is more than one."""
    hosts = steps["host"].n_unique()
    return counted(steps.height, "step") + (f" of {hosts} hosts" if hosts > 1 else "")


def on_hosts(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the host in the name of each step, where there is more than one host."""
    if frame["host"].n_unique() < 2:
        return frame
    return frame.with_columns(pl.format("{} on {}", "step", "host").alias("step"))
