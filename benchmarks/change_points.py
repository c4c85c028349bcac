"""Which change points are named in courses of known changes, on the noise of one build measured against itself.

    python benchmarks/change_points.py --pages 400
    python benchmarks/change_points.py --pages 400 --others /tmp/others/lib/python3.11/site-packages

The noise is that of real duets of one build with itself (benchmarks/verdicts/results/aa.parquet): a page has 24
courses, each with the noise of one of its steps and metrics. `--others` names packages beside ours: ruptures and
apache-otava.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rqps.stats.change_points import courses
from rqps.stats.metrics import CPU, THROUGHPUT

AA = Path(__file__).parent / "verdicts/results/aa.parquet"
CELLS, SEED = 24, 20_241_101
SHAPES = ((6, 4), (10, 6), (20, 4), (84, 2))
"""Releases and rounds of a page."""
SIZES = (1, 2, 5)
"""Changes in percent."""
Changes = dict[int, float]
"""The logarithm of each change, by the release that brought it."""
Named = list[tuple[int, int, int]]
"""The changes of a course: the release that most likely brought each, and the first and last that may have."""
Method = Callable[[Any], list[Named]]
"""From the logarithms of a page, by course, round and release, to the changes of each course."""


@cache
def pools() -> list[Any]:
    """Logarithms of ratios of a build with itself, of each step and metric."""
    rows = pl.read_parquet(AA).filter(pl.col("metric").is_in([THROUGHPUT, CPU]))
    cells = rows.with_columns(pl.col("ratio").log()).partition_by("unit", "step", "metric", maintain_order=True)
    return [cell["ratio"].to_numpy() for cell in cells]


def noise(shape: tuple[int, int], random: np.random.Generator) -> Any:
    """A page of equal releases. A ratio has the noise of two sides, a release that of one; a third of the releases
    has half of the rounds."""
    releases, rounds = shape
    of = pools()
    cells = [random.choice(of[at % len(of)], (rounds, releases)) for at in range(CELLS)]
    values = np.stack(cells) * random.choice([-1.0, 1.0], (CELLS, rounds, releases)) / np.sqrt(2)
    few = random.random(releases) < 1 / 3
    few[0] = False
    values[:, rounds // 2 :, few] = np.nan if rounds > 2 else values[:, rounds // 2 :, few]
    return values


def levels(changes: Changes, releases: int) -> Any:
    jumps = np.zeros(releases)
    for at, size in changes.items():
        jumps[at] = size
    return jumps.cumsum()


def ours(page: Any) -> list[Named]:
    """The library's own, from paired rounds on."""
    names = [f"r{at:03}.z" for at in range(page.shape[2])]
    ratio = np.exp(page - page[:, :, :1])
    cell, round_, release = np.nonzero(np.isfinite(ratio))
    frame = pl.DataFrame(
        {
            "step": cell.astype(str),
            "round": round_,
            "dbms": [names[at] for at in release],
            "ratio": ratio[cell, round_, release],
        }
    ).filter(pl.col("dbms") != names[0])
    frame = frame.with_columns(host=pl.lit("vm"), metric=pl.lit(THROUGHPUT), base=pl.lit(names[0]))
    named: list[Named] = [[] for _ in range(CELLS)]
    for row in courses(frame, names).changes.iter_rows(named=True):
        named[int(row["step"])].append((row["rank"], names.index(row["earliest"]), names.index(row["latest"])))
    return named


def means(page: Any) -> Any:
    """What others take: one value a release, the mean of its ratios to the base."""
    return np.nanmean(page - page[:, :, :1], axis=1)


def beside(places: Iterable[int]) -> Named:
    """Changes of a method that says no range: one release to either side is near enough."""
    return [(at, at - 1, at + 1) for at in map(int, places)]


def ruptures_pelt(page: Any) -> list[Named]:
    """PELT of ruptures with the penalty of its manual, by the noise that differences of neighbours show."""
    import ruptures  # type: ignore[import-not-found]

    named = []
    for values in means(page):
        sigma = np.median(np.abs(np.diff(values))) / 0.6745 / np.sqrt(2)
        fitted = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(values)
        named.append(beside(fitted.predict(pen=2 * sigma**2 * np.log(len(values)))[:-1]))
    return named


def otava(page: Any) -> list[Named]:
    """Apache Otava with its usual settings: E-divisive with Student's t, p < 0.001, and no least size."""
    from otava.analysis import compute_change_points  # type: ignore[import-not-found]

    series = (np.exp(values).tolist() for values in means(page))
    return [beside(point.index for point in compute_change_points(values, 50, 0.001, 0.0)[0]) for values in series]


def successive(page: Any) -> list[Named]:
    """As rustc-perf: a change against the release before that is beyond the third quartile of such changes by three
    times their interquartile range."""
    named = []
    for values in means(page):
        sizes = np.abs(np.diff(values))
        low, high = np.quantile(sizes, (0.25, 0.75))
        named.append(beside(1 + np.flatnonzero(sizes > high + 3 * (high - low))))
    return named


METHODS: dict[str, Method] = {"rqps": ours, "ruptures": ruptures_pelt, "Otava": otava, "rustc-perf": successive}


def places(shape: tuple[int, int], kind: str, random: np.random.Generator) -> Changes:
    """The true changes of a course, at places of its own."""
    releases, _ = shape
    at, after = sorted(random.choice(np.arange(1, releases), 2, replace=False).tolist())
    name, _, percent = kind.partition(" ")
    size = np.log1p(-float(percent or 0) / 100)
    return {"none": {}, "one": {at: size}, "two": {at: size, after: -size}, "drift": {}}[name]


def tries(pages: int, shape: tuple[int, int], kind: str, methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """One row a method: pages with a change that is none, and the share of true changes that were named."""
    random = np.random.default_rng([SEED, *shape, sum(map(ord, kind))])
    counts = {name: dict.fromkeys(("false", "true", "named", "exact"), 0) for name in methods}
    for _ in range(pages):
        page = noise(shape, random)
        truth = [places(shape, kind, random) if cell % 4 == 0 else {} for cell in range(CELLS)]
        page += np.stack([levels(changes, shape[0]) for changes in truth])[:, None]
        if kind.startswith("drift"):
            page += np.linspace(0, -float(kind.split()[1]) / 100, shape[0])
        for name in methods:
            count, false = counts[name], False
            for named, true in zip(METHODS[name](page), truth, strict=True):
                false |= any(not any(low <= at <= high for at in true) for _, low, high in named)
                count["true"] += len(true)
                count["named"] += sum(any(low <= at <= high for _, low, high in named) for at in true)
                count["exact"] += len({at for at, _, _ in named} & {*true})
            count["false"] += false
    for name, count in counts.items():
        row = {"releases": shape[0], "rounds": shape[1], "changes": kind, "method": name}
        row["pages with a false one"] = f"{count['false'] / pages:.0%}"
        shares = {"named": "named", "at its release": "exact"}
        yield row | {of: f"{count[what] / count['true']:.0%}" if count["true"] else "" for of, what in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--others", help="the folder of packages that has ruptures and otava")
    arguments = parser.parse_args()
    methods = ["rqps", "rustc-perf"]
    if arguments.others:
        sys.path.append(arguments.others)
        logging.disable(logging.WARNING)
        methods = list(METHODS)
    kinds = ["none", *(f"one {size}" for size in SIZES), *(f"two {size}" for size in SIZES[1:]), "drift 3"]
    print("| releases | rounds | changes | method | pages with a false one | named | at its release |")
    print("|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        for kind in kinds:
            for row in tries(arguments.pages, shape, kind, methods):
                print("| " + " | ".join(map(str, row.values())) + " |", flush=True)


if __name__ == "__main__":
    main()
