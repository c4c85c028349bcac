"""The parts that are measured on real servers: what each does, and the table that its results come to."""

import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import polars as pl
import rqps
from measuring import (
    BASE,
    BUILD,
    CLIENT_CPU,
    CPU,
    CPU_BY_SLICES,
    EQUAL,
    HERE,
    ME,
    METRICS,
    SAME,
    STEPS,
    THROUGHPUT,
    USUAL,
    Change,
    Todo,
    busy,
    by_round,
    carry_out,
    collapse,
    huge_mb,
    machine,
    memory_ns,
    one_round,
    opened,
    preloaded,
    ratios,
    read,
    ready_for,
    runs,
    shuffled,
    values,
)
from rqps import stats
from rqps.measure.serve import Serving
from rqps.stats.metrics import COMPARED, COUNTED, instructions_per_operation
from rqps.stats.verdict import COVERAGE
from rqps.study import ROUNDS_FOR_A_VERDICT, PlacementKind
from scipy.stats import beta, chi2

DIFFERENT = ("slower", "faster")
NAMES = {
    THROUGHPUT: "throughput",
    CPU: "CPU/operation",
    CPU_BY_SLICES: "CPU/operation by slices",
    CLIENT_CPU: "client's CPU/operation",
}
CROWDED, COPYING = "crowded", "memory = bytearray(1 << 26)\nwhile True: bytes(memory)"
RANDOM_TRIES, MISSED = 400, 20
"""Of so many tries, so many may miss a slowdown: 95 % have to find it."""
BUDGETS_MIN = {1: 5.0, 2: 2.0, 3: 1.0}
"""Minutes within which a slowdown of so many percent is to be found."""
PUBLISHED = 0.05
"""As seen in published tables: one run a side, and what is farther from 1 than this is a change."""
LENGTHS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
OLD = "my5624.common"
SERVERS = (2, 4, 6, 11)
SET = f"{', '.join(map(str, SERVERS))} servers"
"""A round of each of these numbers of servers, measured in one stretch."""
OTHERS = ("my97.common", "my5534.common", "my5614.common", "my5722.common", "my8012.common", "my8031.common")
OF_TWINS = (2, 4, 8)
OF_SERVERS = ("point-query", "update-index")
TWIN = f"my5624.{ME.partition('.')[2]}"
PLACED: tuple[PlacementKind, ...] = ("free", "by-connection", "split")
COUNTED_IN = "where-did-it-go"
"""The study whose counted instructions stand beside duets and long rounds."""
PLACES = ("first", "second", "third")
CELLS_OF_A_PAGE, ROUNDS_OF_A_PAGE, PAGES = 40, (4, 6, 9, 13, 19), 50
"""Comparisons of a page, numbers of its rounds, and random pages of each."""
JUDGED = {"step": pl.String, "metric": pl.String, "low": pl.Float64, "high": pl.Float64, "verdict": pl.String}


def aa(file: Path, duets: int, seconds: int, beside: int, build: str) -> None:
    """Duets of one build with itself, each from new starts, all steps in one start."""
    asked = by_round(runs(duets, EQUAL[build], steps=STEPS, seconds=seconds))
    ready, base = ready_for(asked[0]), EQUAL[build][0]
    unit = _of_build(f"beside {beside}" if beside else "alone", build)
    todo = [Todo(unit, one[0].round, partial(one_round, one, ready, USUAL, unit, base)) for one in asked]
    carry_out(file, todo, beside)


def _of_build(what: str, build: str) -> str:
    """The name of a measurement; the base of most has no name in it."""
    return what if build == BUILD else f"{what}, {build}"


def aa_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By step and metric: the ratio of all duets, and in how many pages of four rounds the interval holds 1, and two
    alike are called different."""
    keys = ("step", "metric")
    counts = (
        pl.len().alias("cells"),
        pl.lit(1).is_between("low", "high").sum().alias("held"),
        pl.col("verdict").is_in(DIFFERENT).sum().alias("called"),
    )
    results = []
    for (unit,), of_unit in rows.filter(pl.col("metric").is_in(COMPARED)).group_by("unit", maintain_order=True):
        cells = _judged(of_unit)
        table = _spreads(of_unit, keys).join(
            cells.group_by(keys).agg(counts), on=keys, how="left", maintain_order="left"
        )
        everything = cells.select(pl.lit("all").alias("step"), *counts)
        table = pl.concat([table, everything], how="diagonal_relaxed")
        results.append(table.select(pl.lit(unit).alias("measured"), pl.all()))
    return pl.concat(results).select(
        "measured",
        "step",
        pl.col("metric").replace(NAMES),
        pl.col("n").alias("duets"),
        *_interval(),
        _percent("spread"),
        pl.col("cells"),
        pl.col("held").alias("intervals hold 1"),
        pl.col("called").alias("called different"),
        pl.struct("called", "cells")
        .map_elements(lambda row: f"{at_most(row['called'], row['cells']):.1%}", pl.String)
        .alias("at most"),
    )


def _judged(rows: pl.DataFrame) -> pl.DataFrame:
    """Intervals and verdicts of pages of four rounds in a row, as of a study of four rounds; a page cut short counts
    for nothing."""
    pages = rows.with_columns((pl.col("round") - 1) // ROUNDS_FOR_A_VERDICT).partition_by("round")
    complete = [
        page for page in pages if page.height == ROUNDS_FOR_A_VERDICT * page.select("step", "metric").n_unique()
    ]
    return pl.concat([pl.DataFrame(schema=JUDGED), *(stats.compare(page).select(*JUDGED) for page in complete)])


def power(file: Path, sizes: Sequence[int], rounds: int, published: int, seconds: int, name: str, build: str) -> None:
    """A server that burns a known part of the CPU of a step, found by duets, rounds and one run a side."""
    step: dict[str, Any] = {"steps": (name,)}
    two, of = EQUAL[build], _of_build(name, build)
    duets = by_round(runs(rounds, two, seconds=seconds, **step))
    in_turn = by_round(runs(rounds, two, "rounds", seconds=seconds, **step))
    ready = ready_for(duets[0])
    report = file.parent / ".burnt"

    def measured(one: Sequence[Any], size: int, unit: str) -> pl.DataFrame:
        change = burning(report, two[1], RQPS_BURN_LOOPS=loops_of(file, size, of))
        rows = one_round(one, ready, change, unit, two[0])
        return rows.with_columns(pl.lit(json.dumps(burnt(report))).alias("note"))

    reports(report)
    carry_out(
        file, [Todo(f"calibration of {of}", n, partial(measured, duets[n], 0, "0 %")) for n in range(min(3, rounds))]
    )
    todo = []
    for number in range(rounds):
        both = [("duet", size, duets[number]) for size in sizes] + [
            ("rounds", size, in_turn[number]) for size in sizes
        ]
        for method, size, one in shuffled(both, number):
            unit = f"{method}, {size} % of {of}"
            todo.append(Todo(unit, number + 1, partial(measured, one, size, unit)))
    for size in sizes:
        unit, budget_s = f"published, {size} % of {of}", 60 * BUDGETS_MIN[size]
        once = by_round(runs(max(published, 1), two, "rounds", seconds=round(budget_s / 2), **step))
        todo += [Todo(unit, n + 1, partial(measured, once[n], size, unit)) for n in range(published)]
    carry_out(file, todo)


def burning(report: Path, me: str = ME, **asked: int) -> Change:
    """Preloads burn.c into both servers; `asked` is what it does in one of them, `me`."""
    library = str(preloaded("burn"))

    def environment(dbms: str) -> dict[str, str]:
        wanted = {name: str(amount if dbms == me else 0) for name, amount in asked.items()}
        return {"LD_PRELOAD": library, "RQPS_BURN_REPORT": str(report.absolute()), **wanted}

    return Change(environment)


def burnt(report: Path) -> dict[str, float]:
    """What burn.c reports of the server that burnt or walked, and how much longer that took than in the other one. A
    server of many processes has a report of each that read packets."""
    parts = pl.DataFrame(reports(report))
    mean_ns = (pl.col("ns_of_a_packet") * pl.col("packets")).sum() / pl.col("packets").sum()
    of_servers = parts.group_by("loops", "walked_kb").agg(pl.col("ns_of_a_loop").min(), ns_of_a_packet=mean_ns)
    if of_servers.height == 1:  # neither of the two burns or walks
        return {**of_servers.row(0, named=True), "burnt_us": 0.0}
    none, some = of_servers.sort("loops", "walked_kb").iter_rows(named=True)
    return {**some, "burnt_us": (some["ns_of_a_packet"] - none["ns_of_a_packet"]) / 1e3}


def reports(report: Path) -> list[dict[str, float]]:
    """The reports of all processes that have ended, which are removed."""
    report.parent.mkdir(parents=True, exist_ok=True)  # servers write into no folder that is missing
    left = list(report.parent.glob(f"{report.name}.*"))
    results = [json.loads(path.read_text()) for path in left]
    for path in left:
        path.unlink()
    return results


def loops_of(file: Path, size: int, of: str) -> int:
    """Loops that take so many percent of the server CPU of a step's operation, by the calibration."""
    known = read(file).filter(unit=f"calibration of {of}", metric=CPU)
    if not size or known.is_empty():
        return 0
    ns_of_a_loop: float = min(json.loads(note)["ns_of_a_loop"] for note in known["note"])
    cpu_us: float = statistics.median([*known["base_value"], *known["me_value"]])
    return int(size / 100 * cpu_us * 1e3 / ns_of_a_loop)


def power_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By slowdown, metric and method: what is true, what was measured, how often and after how long it is found."""
    burnt = pl.col("note").str.json_path_match("$.burnt_us").cast(pl.Float64)
    extra = burnt / pl.when(metric=CPU).then(pl.col("base_value")).otherwise(1e6 / pl.col("base_value"))
    calibrating = pl.col("unit").str.starts_with("calibration")
    rows = rows.filter(pl.col("metric").is_in(METRICS), ~calibrating).with_columns(
        pl.when(metric=CPU).then(1 + extra).otherwise(1 / (1 + extra)).alias("true")
    )
    results = []
    for (unit, metric), own in rows.group_by("unit", "metric", maintain_order=True):
        method, _, size = str(unit).partition(", ")
        percent = int(size.split()[0])
        page = rows.filter(unit=unit)
        row: dict[str, Any] = {"slower by": size, "metric": NAMES[str(metric)], "method": method}
        row |= {"true": _number(own["true"].median()), "measured": _number(own["ratio"].log().mean(), exp=True)}
        row |= {"rounds": own.height, "each, s": round(float(own["seconds"].median()))}  # type: ignore[arg-type]
        if method == "published":
            hits = (
                (own["ratio"] < 1 - PUBLISHED).sum() if metric == THROUGHPUT else (own["ratio"] > 1 + PUBLISHED).sum()
            )
            tries = own.height
        else:
            parts = list(tries_of(page, 60 * BUDGETS_MIN[percent]))
            tries, hits = len(parts), sum(is_found(part, str(metric), percent) for part in parts)
            judged = _judged(page).filter(metric=metric)
            held = judged.filter(pl.lit(own["true"].median()).is_between("low", "high")).height
            row["intervals of 4 rounds hold it"] = f"{held} of {judged.height}"
            row["95 % find it in"] = minutes_until_found(page, str(metric), percent)
        row[f"found in {'/'.join(f'{minutes:g}' for minutes in BUDGETS_MIN.values())} min"] = f"{hits} of {tries}"
        results.append(row)
    return pl.DataFrame(results).sort("slower by", "metric", "method")


def page_table(rows: pl.DataFrame) -> pl.DataFrame:
    """A slowdown of one step on a page of twenty steps whose others are equal, with the default smallest effect: how
    often it is called slower and how often the same. The rounds are random choices from those of `power`, the equal
    steps from those of `aa`."""
    equal = read(HERE / "results/aa.parquet").filter(pl.col("metric").is_in(METRICS), unit="alone")
    starts = sorted(set(equal["round"]))
    asked = rows.filter(pl.col("metric").is_in(METRICS), pl.col("unit").str.starts_with("duet"), base=BASE)
    table = []
    for (unit,), slowed in asked.group_by("unit", maintain_order=True):
        round_min = slowed.select("round", "seconds").unique()["seconds"].mean() / 60  # type: ignore[operator]
        for size in ROUNDS_OF_A_PAGE:
            called = []
            for number in range(PAGES):
                chosen = shuffled(sorted(set(slowed["round"])), 1000 * size + number)[:size]
                of_equal = shuffled(starts, number)[: len(starts) // size * size]
                parts = [at % (len(of_equal) // size) for at in range(len(of_equal))]
                whose = pl.DataFrame({"round": of_equal, "part": parts}, schema_overrides={"round": pl.Int32})
                others = equal.join(whose, on="round").with_columns(step=pl.format("{} {}", "step", "part"))
                steps = shuffled(sorted(set(others["step"])), number)[: CELLS_OF_A_PAGE // len(METRICS) - 1]
                page = [
                    slowed.filter(pl.col("round").is_in(chosen)),
                    others.filter(pl.col("step").is_in(steps)).drop("part"),
                ]
                called.append(stats.compare(pl.concat(page, how="diagonal")).select("step", "metric", "verdict"))
            verdicts = pl.concat(called)
            of_step = pl.col("step") == slowed["step"][0]
            false = verdicts.filter(~of_step, pl.col("verdict").is_in(DIFFERENT)).height
            for metric in METRICS:
                own = verdicts.filter(of_step, metric=metric)
                row: dict[str, Any] = {"slower by": str(unit).partition(", ")[2], "metric": NAMES[metric]}
                row |= {"rounds": size, "minutes": f"{size * round_min:.1f}"}
                row |= {word: own.filter(verdict=word).height / PAGES for word in ("slower", "same", "unsure")}
                table.append(row | {"others called different": f"{false} of {verdicts.filter(~of_step).height}"})
    return pl.DataFrame(table).sort("slower by", "metric", "rounds", descending=[False, True, False])


def footprint(file: Path, rounds: int, seconds: int, sizes: Sequence[int]) -> None:
    """A server that walks so many kilobytes for each statement, beside one that walks none: quiet, and while a
    program on another CPU copies 64 MB again and again."""
    duets = by_round(runs(rounds, (BASE, ME), steps=OF_SERVERS, seconds=seconds))
    ready, report = ready_for(duets[0]), file.parent / ".walked"

    def measured(one: Sequence[Any], kb: int, unit: str) -> pl.DataFrame:
        with busy(int(unit.startswith(CROWDED)), COPYING, (min(os.sched_getaffinity(0)),)):
            (run,) = one
            with opened(run, ready, burning(report, RQPS_WALK_KB=kb)) as servings:
                result, state = values(servings), memory_ns(servings[0].job.placement.server_cpus)
        return ratios(result, BASE, unit, **burnt(report), memory_ns=state)

    reports(report)
    every = [(f"{state}, {kb} KB", kb) for state in ("quiet", CROWDED) for kb in sizes]
    carry_out(
        file,
        [
            Todo(unit, number + 1, partial(measured, one, kb, unit))
            for number, one in enumerate(duets)
            for unit, kb in shuffled(every, number)
        ],
    )


def footprint_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By state of the machine, kilobytes, step and metric: the ratio that the walk alone would give by its own time,
    the measured one, and how often pages of four rounds call it slower."""
    walk, value = pl.col("note").str.json_path_match("$.burnt_us").cast(pl.Float64), pl.col("base_value")
    extra = walk / pl.when(metric=CPU).then(value).otherwise(1e6 / value)
    rows = rows.filter(pl.col("metric").is_in(METRICS)).with_columns(
        walk.alias("walk_us"),
        pl.when(metric=CPU).then(1 + extra).otherwise(1 / (1 + extra)).alias("alone"),
        load_ns=pl.col("note").str.json_path_match("$.memory_ns['8192']").cast(pl.Float64),
    )
    table = []
    for (unit, step, metric), own in rows.group_by("unit", "step", "metric", maintain_order=True):
        state, _, kb = str(unit).partition(", ")
        pages = _judged(rows.filter(unit=unit)).filter(step=step, metric=metric)
        row: dict[str, Any] = {"machine": state, "walks": kb, "step": step, "metric": NAMES[str(metric)]}
        load_ns, walk_us = (statistics.median(own[name]) for name in ("load_ns", "walk_us"))
        row |= {"a load in 8 MB": f"{load_ns:.0f} ns", "walk": f"{walk_us:.2f} µs"}
        row |= {"by its time": _number(own["alone"].median()), "rounds": own.height}
        row |= {"measured": _number(own["ratio"].log().mean(), exp=True)}
        slower = pages.filter(verdict="slower").height
        table.append(row | {"called slower": f"{slower} of {pages.height}"})
    return pl.DataFrame(table).sort("machine", "step", "metric", pl.col("walks").str.extract(r"(\d+)").cast(pl.Int64))


def tries_of(page: pl.DataFrame, budget_s: float) -> Iterator[pl.DataFrame]:
    """The rounds in their order, as many in each try as the time allows."""
    used, numbers = 0.0, list[int]()
    for number, seconds in page.select("round", "seconds").unique().sort("round").rows():
        if used + seconds > budget_s:
            if numbers:
                yield page.filter(pl.col("round").is_in(numbers))
            used, numbers = 0.0, []
        used, numbers = used + seconds, [*numbers, number]


def is_found(page: pl.DataFrame, metric: str, percent: int) -> bool:
    """The rule calls a page's server slower, where half of the slowdown is the smallest effect that matters."""
    asked = page.with_columns(smallest_effect=pl.lit(percent / 200))
    [verdict] = stats.compare(asked).filter(metric=metric)["verdict"]
    return bool(verdict == "slower")


def minutes_until_found(page: pl.DataFrame, metric: str, percent: int) -> str:
    """Minutes, starts included, after which 95 % of random choices from all rounds find it."""
    numbers = sorted(set(page["round"]))
    each_s = page.select("round", "seconds").unique()["seconds"].mean()
    assert isinstance(each_s, float)
    for size in range(ROUNDS_FOR_A_VERDICT, len(numbers) // 2 + 1):
        chosen = (shuffled(numbers, 1000 * size + number)[:size] for number in range(RANDOM_TRIES))
        missed = (few for few in chosen if not is_found(page.filter(pl.col("round").is_in(few)), metric, percent))
        if len(list(islice(missed, MISSED + 1))) <= MISSED:
            return f"{size * each_s / 60:.1f} min"
    return f"more than {len(numbers) // 2 * each_s / 60:.0f} min"


def slices(file: Path, rounds: int, seconds: int, lengths: Sequence[int]) -> None:
    """All lengths of a slice in each start: of the performance schema's cost, and of one build with itself."""
    steps = ("point-query", "update-index")
    asked = by_round(runs(rounds, (BASE, "my8033.ps0", ME), steps=steps, seconds=seconds))
    ready = ready_for(asked[0])

    def measured(run: Any) -> pl.DataFrame:
        results = []
        with opened(run, ready, USUAL) as servings:
            for length in shuffled(lengths, run.round):
                by_length = [with_parameters(serving, slice_ms=length) for serving in servings]
                results.append(ratios(values(by_length), condition=f"{length} ms"))
        return pl.concat(results)

    carry_out(file, [Todo("slices", one.round, partial(measured, one)) for [one] in asked])


def with_parameters(serving: Serving, **parameters: Any) -> Serving:
    """An open server that is measured with other parameters."""
    run = serving.job.run
    changed = replace(run, parameters=run.parameters.model_copy(update=parameters))
    return replace(serving, job=serving.job.model_copy(update={"run": changed}))


def slices_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By comparison, step, metric and length: ratio, spread between starts, and the error that the cycles have."""
    keys = ("dbms", "step", "metric", "condition")
    order = pl.col("condition").str.extract(r"(\d+)").cast(pl.Int64)
    table = _spreads(rows.filter(pl.col("metric").is_in([*METRICS, CPU_BY_SLICES])), keys)
    within = rows.group_by(keys).agg(pl.col("error").median().alias("within"))
    table = table.join(within, on=keys, how="left").sort("dbms", "step", "metric", order)
    against = pl.col("dbms").replace({ME: "itself", "my8033.ps0": "without the performance schema"})
    named = pl.col("metric").replace(NAMES)
    return table.select(
        against.alias("8.0 against"),
        "step",
        named,
        pl.col("condition").alias("slice"),
        pl.col("n").alias("starts"),
        *_interval(),
        _percent("spread"),
        _percent("within").alias("within a start"),
    )


def writes(file: Path, rounds: int, seconds: int) -> None:
    """Updates and inserts of 5.6 and 8.0, in duets of three lengths of a slice, and each server by itself."""
    asked = partial(runs, rounds, (OLD, BASE), steps=("update-index", "insert"), seconds=seconds)
    duets, alone = by_round(asked()), by_round(asked("rounds"))
    ready = ready_for(duets[0])

    def measured(run: Any) -> pl.DataFrame:
        results = []
        with opened(run, ready, USUAL) as servings:
            for place, length in zip(PLACES, shuffled((20, 200, 2000), run.round), strict=True):
                by_length = [with_parameters(serving, slice_ms=length) for serving in servings]
                results.append(ratios(values(by_length), OLD, f"a duet, {place} in its start", slice_ms=length))
        return pl.concat(results)

    todo = []
    for [duet], one in zip(duets, alone, strict=True):
        todo.append(Todo("duet", duet.round, partial(measured, duet)))
        todo.append(Todo("alone", duet.round, partial(one_round, one, ready, USUAL, "alone", base=OLD)))
    carry_out(file, todo)


def writes_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By step and metric: the ratio alone, and in a duet by how much was written before."""
    table = _spreads(rows.filter(pl.col("metric").is_in(METRICS)), ("step", "metric", "condition"))
    return table.sort("step", "metric", "condition", descending=[False, True, False]).select(
        "step",
        pl.col("metric").replace(NAMES),
        pl.col("condition").alias("measured"),
        pl.col("n").alias("ratios"),
        *_interval(),
        _percent("spread"),
    )


def robin(file: Path, rounds: int, seconds: int) -> None:
    """Four equal servers in one round robin, and the same comparisons as pairs."""
    ask: Callable[..., Any] = partial(runs, rounds, steps=STEPS, seconds=seconds)
    together, pairs = by_round(ask((BASE, *SAME))), by_round(ask((BASE, ME)))
    ready = ready_for(together[0])
    todo = []
    for number in range(rounds):
        for unit, value in shuffled([("four at once", together[number]), ("a pair", pairs[number])], number):
            todo.append(Todo(unit, number + 1, partial(one_round, value, ready, USUAL, unit)))
    carry_out(file, todo)


def robin_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By step and metric: spread of a ratio, and width of its interval at equal time for three comparisons."""
    keys = ("step", "metric", "condition")
    rows = rows.filter(pl.col("metric").is_in(METRICS))
    spread = _spreads(rows, keys).join(rows.group_by(keys).agg(pl.col("seconds").median()), on=keys)
    comparisons = pl.when(condition="a pair").then(len(SAME)).otherwise(1)
    width = pl.col("spread") * (pl.col("seconds") * comparisons / 3600).sqrt()
    return spread.sort(keys).select(
        "step",
        pl.col("metric").replace(NAMES),
        pl.col("condition").alias("measured"),
        pl.col("n").alias("ratios"),
        pl.col("seconds").round(0).cast(pl.Int64).alias("a round, s"),
        _percent("spread"),
        (pl.format("±{} %", (100 * width).round(3))).alias("standard error after an hour for three"),
    )


def clients(file: Path, rounds: int, seconds: int) -> None:
    """One build with itself and with 5.6, from 4 and 32 clients, in each placement."""
    ask = partial(runs, rounds, (BASE, ME, OLD), steps=("point-query",), threads=(4, 32), seconds=seconds)
    asked = {kind: by_round(ask(placed=kind)) for kind in PLACED}
    ready = {kind: ready_for(item[0]) for kind, item in asked.items()}
    todo = [
        Todo(kind, number + 1, partial(one_round, asked[kind][number], ready[kind], USUAL, kind))
        for number in range(rounds)
        for kind in shuffled(PLACED, number)
    ]
    carry_out(file, todo)


def clients_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By comparison, number of clients, metric and placement: ratio, spread, and throughput of the base."""
    keys = ("dbms", "step", "metric", "condition")
    known = rows.filter(pl.col("metric").is_in(METRICS))
    base = known.group_by(keys).agg(pl.col("base_value").median(), pl.col("error").median().alias("within"))
    table = _spreads(known, keys).join(base, on=keys).sort("dbms", "step", "metric", "condition", descending=True)
    return table.select(
        pl.col("dbms").replace({ME: "itself", OLD: "5.6"}).alias("beside 8.0"),
        pl.col("step").str.extract(r"@(\d+)").alias("clients"),
        pl.col("metric").replace(NAMES),
        pl.col("condition").alias("placement"),
        pl.col("n").alias("rounds"),
        *_interval(),
        _percent("spread"),
        _percent("within").alias("within a round"),
        pl.when(metric=THROUGHPUT).then(pl.col("base_value").round(0).cast(pl.Int64)).alias("8.0 does, per s"),
    )


def starts(file: Path, rounds: int, seconds: int) -> None:
    """The spread between starts, with each way to take a start's luck away."""
    asked = by_round(runs(rounds, (BASE, ME), steps=("point-query", "update-index"), seconds=seconds))
    ready = ready_for(asked[0])
    library = str(preloaded("huge"))
    ways = {
        "plain pages": USUAL,
        "collapsed into huge pages": Change(warm=collapse),
        "malloc's huge pages": Change(lambda _: {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
        "large mappings in huge pages": Change(lambda _: {"LD_PRELOAD": library}),
        "addresses not randomized": Change(under=("/usr/bin/setarch", "-R")),
        "collapsed, not randomized": Change(under=("/usr/bin/setarch", "-R"), warm=collapse),
    }

    def measured(run: Any, way: str) -> pl.DataFrame:
        with opened(run, ready, ways[way]) as servings:
            huge = [huge_mb(serving.server.pids[0]) for serving in servings]
            return ratios(values(servings), condition=way, huge_mb=sum(huge) / len(huge))

    todo = [
        Todo(way, one.round, partial(measured, one, way))
        for [one] in asked
        for way in shuffled(list(ways), one.round)
    ]
    carry_out(file, todo)


def starts_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By step, metric and way: the spread between starts with its interval, and the memory that is in huge pages."""
    keys = ("step", "metric", "condition")
    rows = rows.filter(pl.col("metric").is_in(METRICS))
    huge = pl.col("note").str.json_path_match("$.huge_mb").cast(pl.Float64).median()
    table = _spreads(rows, keys).join(rows.group_by(keys).agg(huge.round(0).cast(pl.Int64).alias("huge")), on=keys)

    def reach(row: dict[str, Any]) -> str:
        free = row["n"] - 1
        if not free or row["spread"] is None:
            return ""
        low, high = (row["spread"] * (free / chi2.ppf((1 + side * COVERAGE) / 2, free)) ** 0.5 for side in (1, -1))
        return f"{low:.2%} – {high:.2%}"

    return table.sort("step", "metric", "spread").select(
        "step",
        pl.col("metric").replace(NAMES),
        pl.col("condition").alias("servers"),
        pl.col("n").alias("starts"),
        pl.col("huge").alias("MB in huge pages"),
        _percent("spread"),
        pl.struct("n", "spread").map_elements(reach, pl.String).alias("95 %"),
        *_interval(),
    )


def servers(file: Path, rounds: int, seconds: int) -> None:
    """8.0 beside 5.6 in rounds of two to eleven servers. Each set has a round of all numbers, so that a further
    sitting, on any machine, adds sets."""
    others = (SAME[0], OTHERS[0], *SAME[1:], *OTHERS[1:])
    asked = {
        count: by_round(runs(rounds, (OLD, BASE, *others[: count - 2]), steps=OF_SERVERS, seconds=seconds))
        for count in SERVERS
    }
    ready, whose = ready_for(asked[max(SERVERS)][0]), machine()

    def measured(number: int) -> pl.DataFrame:
        return pl.concat(
            one_round(asked[count][number], ready, USUAL, f"{count} servers", OLD, machine=whose)
            for count in shuffled(SERVERS, number)
        )

    carry_out(file, [Todo(SET, number + 1, partial(measured, number)) for number in range(rounds)])


def servers_table(rows: pl.DataFrame) -> pl.DataFrame:
    """8.0 / 5.6 by the number of servers that share a round, and the quotient of the ratios by most and by fewest
    servers, set by set. An older result has no sets, but rounds of two, four and six servers of one hour."""
    keys, in_a_set = ("measured", "step", "metric"), pl.col("condition") != ""
    asked = rows.filter(pl.col("metric").is_in(METRICS), dbms=BASE).with_columns(
        count=pl.when(in_a_set).then("condition").otherwise("unit"),
        measured=pl.when(in_a_set).then("unit").otherwise(pl.lit("2, 4, 6 servers")),
    )
    ratio, interval = _interval()
    shown = pl.format("{} ({})", ratio, interval).fill_null(ratio)
    wide = stats.STUDENT.estimate(asked, (*keys, "count"), "ratio").select(*keys, "count", shown.alias("shown"))
    by_count = pl.col("ratio").sort_by(pl.col("count").str.extract(r"(\d+)").cast(pl.Int64))
    every = pl.col("count").n_unique().over(*keys, "round") == pl.col("count").n_unique().over(keys)
    of_rounds = asked.filter(every).group_by(*keys, "round", maintain_order=True)
    apart = of_rounds.agg(ratio=by_count.last() / by_count.first())
    ends = stats.STUDENT.estimate(apart, keys, "ratio").select(*keys, rounds="n", ends=shown)
    named = wide.pivot(on="count", index=keys, values="shown").join(ends, on=keys, maintain_order="left")
    columns = [name for count in SERVERS if (name := f"{count} servers") in named.columns]
    return named.sort("measured", "step", "metric").select(
        "measured", "step", pl.col("metric").replace(NAMES), "rounds", *columns, pl.col("ends").alias("most / fewest")
    )


def twins(file: Path, pages: int, seconds: int) -> None:
    """Pages of four rounds of 8.0 and its twin, alone and beside releases. A page is measured in one stretch, so that
    a further sitting, on any machine, adds pages."""
    asked = {
        count: by_round(
            runs(ROUNDS_FOR_A_VERDICT * pages, (BASE, ME, OLD, *OTHERS)[:count], steps=OF_SERVERS, seconds=seconds)
        )
        for count in OF_TWINS
    }
    ready, whose = ready_for(asked[max(OF_TWINS)][0]), machine()

    def measured(count: int, page: int) -> pl.DataFrame:
        first = ROUNDS_FOR_A_VERDICT * page
        of_page = asked[count][first : first + ROUNDS_FOR_A_VERDICT]
        return pl.concat(one_round(one, ready, machine=whose) for one in of_page)

    numbered = [(page, count) for page in range(pages) for count in shuffled(OF_TWINS, page)]
    carry_out(file, [Todo(f"{count} servers", page + 1, partial(measured, count, page)) for page, count in numbered])


def twins_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By number of servers and metric: how often the twin's 95 % interval holds 1, and how often the interval that
    decides the page's verdicts leaves 1 out, also where it lies within the smallest effect."""
    asked = rows.filter(pl.col("metric").is_in(METRICS))
    pages = [
        stats.compare(page).filter(dbms=ME).with_columns(unit=pl.lit(unit), page=pl.lit(number))
        for (unit, number), page in asked.group_by("unit", "round", maintain_order=True)
    ]
    cells = pl.concat(pages).with_columns(different=(pl.col("sure_low") > 1) | (pl.col("sure_high") < 1))
    held = pl.lit(1).is_between("low", "high").mean()
    counts = (
        pl.col("page").n_unique().alias("pages"),
        pl.len().alias("cells"),
        held.alias("95 % intervals hold 1"),
        pl.col("different").sum(),
        pl.col("page").filter("different").n_unique().alias("pages with one"),
    )
    named, cells = pl.col("metric").replace(NAMES), cells.with_columns(pl.col("page").cast(pl.String))
    both = cells.with_columns(metric=pl.lit("both"))
    of_all = both.with_columns(unit=pl.lit("all"), page=pl.format("{} {}", "unit", "page"))
    table = pl.concat(
        part.group_by(pl.col("unit").alias("a round of"), named, maintain_order=True).agg(counts)
        for part in (cells, both, of_all)
    )
    share = pl.struct("pages with one", "pages").map_elements(
        lambda one: f"{at_most(one['pages with one'], one['pages']):.1%}", pl.String
    )
    return table.with_columns(share.alias("at most"))


def agreement(file: Path, rounds: int, seconds: int) -> None:
    """A point query of releases beside 8.0: by duets, by long rounds, and by instructions counted in a study."""
    others = ("my5534.common", OLD, "my97.common")
    ask = partial(runs, rounds, (BASE, *others), steps=("point-query",))
    ways = {"duets": by_round(ask()), "long rounds": by_round(ask("rounds", seconds=seconds))}
    ready = ready_for(ways["duets"][0])

    def counted() -> pl.DataFrame:
        study = rqps.load(COUNTED_IN, mode="instructions")
        counts = instructions_per_operation(study.instructions, study.steps, study.runs)
        return ratios(counts.filter(pl.col("dbms").is_in([BASE, *others]), step="point-query"))

    todo = [Todo("instructions", 1, counted)]
    for number in range(rounds):
        for way in shuffled(list(ways), number):
            todo.append(Todo(way, number + 1, partial(one_round, ways[way][number], ready)))
    carry_out(file, todo)


def agreement_table(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per release: what each way says of it."""
    shown = rows.filter(pl.col("metric").is_in([*METRICS, COUNTED.name]))
    table = stats.STUDENT.estimate(shown, ("dbms", "metric", "unit"), "ratio")
    ratio, reach = _interval()
    way = (
        pl.when(metric=COUNTED.name)
        .then("unit")
        .otherwise(pl.format("{} by {}", pl.col("metric").replace(NAMES), "unit"))
    )
    reported = table.select(pl.col("dbms").alias("beside 8.0"), way.alias("way"), ratio, reach).select(
        "beside 8.0",
        "way",
        pl.when(pl.col("95 % of it").is_null())
        .then("ratio")
        .otherwise(pl.format("{} ({})", "ratio", "95 % of it"))
        .alias("said"),
    )
    return reported.pivot(on="way", index="beside 8.0", values="said").sort("beside 8.0")


def occasion(file: Path, rounds: int, seconds: int) -> None:
    """Releases and a twin of the base in one stretch, with the state of the machine around each round."""
    releases = ("my5534.common", OLD, BASE, "my97.common", TWIN)
    asked = by_round(runs(rounds, releases, steps=STEPS, seconds=seconds))
    ready = ready_for(asked[0])
    began, whose = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", machine()

    def measured(run: Any) -> pl.DataFrame:
        with opened(run, ready, USUAL) as servings:
            cpus = servings[0].job.placement.server_cpus
            before = memory_ns(cpus)
            result = values(servings)
            return ratios(result, OLD, began, machine=whose, before=before, after=memory_ns(cpus))

    carry_out(file, [Todo(began, one.round, partial(measured, one)) for [one] in asked])


def occasion_table(rows: pl.DataFrame) -> pl.DataFrame:
    """By CPU, dbms, step and metric: the ratios of all occasions, beside the interval that one of them gives."""
    keys = ("cpu", "dbms", "step", "metric")
    asked = _with_cpu(rows).filter(pl.col("metric").is_in((*METRICS, CLIENT_CPU)))
    own = stats.STUDENT.estimate(asked, (*keys, "unit"), "ratio")
    half_width = (pl.col("high") / pl.col("low")).log().median() / 2
    of_all = own.group_by(keys, maintain_order=True).agg(
        pl.len().alias("occasions"),
        pl.col("estimate").log().mean().exp().alias("mean"),
        pl.col("estimate").min().alias("lowest"),
        pl.col("estimate").max().alias("highest"),
        half_width.alias("width"),
    )
    return of_all.sort("cpu", "metric", "step", "dbms", descending=[False, True, False, False]).select(
        "cpu",
        pl.col("dbms").replace({TWIN: "5.6.24 again"}).alias("beside 5.6.24"),
        "step",
        pl.col("metric").replace(NAMES),
        "occasions",
        *(pl.col(name).map_elements(_number, pl.String) for name in ("mean", "lowest", "highest")),
        pl.col("width").map_elements(lambda share: f"± {share:.2%}", pl.String).alias("95 % this hour"),
    )


def fourth_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Of all choices of three occasions and a fourth: how often what the fourth finds lies in the interval of one of
    the three, and in that of all three together. On one type of CPU, and on all types together."""
    rows = _with_cpu(rows).filter(pl.col("metric").is_in(METRICS)).with_columns(occasion="unit")
    keys = ["dbms", "step", "metric"]
    single = {unit: stats.STUDENT.estimate(rows.filter(unit=unit), keys, "ratio") for unit in rows["unit"].unique()}
    intervals = {"one": "_of_one", "three": ""}
    held = {
        f"held by {name}": pl.col("fourth").is_between(f"low{suffix}", f"high{suffix}").mean()
        for name, suffix in intervals.items()
    }
    # The interval of the mean of three values is half as wide as that of a fourth.
    distance = (pl.col("fourth") / pl.col("estimate")).log().abs()
    held["held by the mean of three"] = (distance <= (pl.col("high") / pl.col("low")).log() / 4).mean()
    half_width = {
        f"half width of {name}": (pl.col(f"high{suffix}") / pl.col(f"low{suffix}")).log().median() / 2
        for name, suffix in intervals.items()
    }
    tables = []
    for cpu in [*rows["cpu"].unique().sort(), "all types"]:
        of_cpu = rows if cpu == "all types" else rows.filter(cpu=cpu)
        units = sorted(of_cpu["unit"].unique())
        trials = []
        for three in combinations(units, 3):
            of_three = stats.STUDENT.estimate(of_cpu.filter(pl.col("unit").is_in(three)), keys, "ratio")
            with_one = of_three.join(single[three[-1]], on=keys, suffix="_of_one")
            fourths = (single[unit].select(*keys, fourth="estimate") for unit in units if unit not in three)
            trials += [with_one.join(fourth, on=keys) for fourth in fourths]
        if trials:
            table = pl.concat(trials).group_by(pl.col("metric").replace(NAMES)).agg(**held, **half_width)
            about = {"cpu": cpu, "occasions": len(units), "trials": len(trials)}
            named = [pl.lit(value).alias(name) for name, value in about.items()]
            tables.append(table.sort("metric", descending=True).select(*named, pl.all()))
    return pl.concat(tables)


def base_table(rows: pl.DataFrame) -> pl.DataFrame:
    """What the mean of base and twin would be as the base's value: by step and metric, the spread of ratios between
    the rounds of an occasion and between occasions on one type of CPU, with the base alone and with both."""
    keys, log = ["cpu", "unit", "step", "metric"], pl.col("ratio").log()
    asked = _with_cpu(rows).filter(pl.col("metric").is_in(METRICS))
    twin = asked.filter(dbms=TWIN).select(*keys, "round", twin=log)
    ratios = asked.filter(pl.col("dbms") != TWIN).join(twin, on=[*keys, "round"])
    values = ratios.with_columns(alone=log, both=log - pl.col("twin") / 2)
    sides = pl.col("alone", "both")
    of_occasions = values.group_by(*keys, "dbms").agg(sides.mean(), within=pl.struct(sides.var()))
    within = of_occasions.select("step", "metric", pl.col("within").struct.unnest())
    several = pl.col("unit").n_unique().over("cpu") > 2
    between = of_occasions.filter(several).group_by("cpu", "dbms", "step", "metric").agg(sides.var())
    table = []
    for (step, metric), own in within.sort("step", "metric").group_by("step", "metric", maintain_order=True):
        row: dict[str, Any] = {"step": step, "metric": NAMES[str(metric)]}
        for name, frame in (("rounds", own), ("occasions", between.filter(step=step, metric=metric))):
            spreads = frame.select(sides.median().sqrt()).row(0)
            row |= {f"{name}, base alone": spreads[0], f"{name}, both": spreads[1]}
        table.append(row)
    return pl.DataFrame(table)


def _with_cpu(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the type of CPU that they were measured on, `cpu`."""
    of_machine = [
        pl.col("note").str.json_path_match(f"$.machine['{name}']") for name in ("model name", "cpu family", "model")
    ]
    return rows.with_columns(pl.format("{}, family {}, model {}", *of_machine).alias("cpu"))


def at_most(called: int, cells: int | None) -> float:
    """The upper end of the 95 % interval of a share (Clopper and Pearson, 1934).

    >>> round(at_most(0, 200), 4), round(at_most(2, 200), 4)
    (0.0183, 0.0357)
    """
    return float(beta.ppf((1 + COVERAGE) / 2, called + 1, cells - called)) if cells and cells > called else 1.0


def _spreads(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Ratios of all rounds, each weighing alike, with their spread in logarithms."""
    alike = rows.with_columns(pl.lit(None, pl.Float64).alias("error"))
    spread = rows.group_by(keys).agg(pl.col("ratio").log().std().alias("spread"))
    return stats.STUDENT.estimate(alike, keys, "ratio").join(spread, on=list(keys), how="left", maintain_order="left")


def _interval() -> tuple[pl.Expr, pl.Expr]:
    shown = [
        pl.col(name).map_elements(lambda number: f"{number:.4f}", pl.String) for name in ("estimate", "low", "high")
    ]
    return shown[0].alias("ratio"), pl.format("{} – {}", shown[1], shown[2]).alias("95 % of it")


def _percent(name: str) -> pl.Expr:
    return pl.col(name).map_elements(lambda share: f"{share:.2%}", pl.String)


def _number(value: Any, exp: bool = False) -> str:
    return f"{math.exp(value) if exp else value:.4f}"
