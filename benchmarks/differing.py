"""How fast do two profiles become a difference, and does it lose anything? 13,000 distinct stacks a side.

From raw stacks to costs per operation, to the tree of both sides, to the breakdown. Goals: 0.2 s for the
difference, sums kept to 1e-9. Then a million distinct stacks a side, in a process of its own, with
its peak of memory.

For a comparison: `--difffolded` is FlameGraph's difffolded.pl or inferno's inferno-diff-folded (`cargo install
inferno --root DIR`). They are run on the same stacks as folded text, once as they are and once with -n, which brings
base to the total of me in whole numbers.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import polars as pl
from rqps.profile import breakdown, flame_tree, stack_costs
from rqps.store.schemas import IDENTITY, STACKS, STEPS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # where the made-up stacks are

from synthetic_stacks import steps_of, whose  # noqa: E402
from synthetic_tree import large_stacks  # noqa: E402

BASE, ME, STEP = "my1.base", "my2.base", "point-query"
NS_A_SAMPLE = 1_001_001
MILLION = 1_000_000
T = TypeVar("T")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--stacks", type=int, default=13_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--difffolded", type=Path, nargs="*", default=[], help="programs to compare with")
    options.add_argument("--only", action="store_true", help="leave the million out")
    asked = options.parse_args()
    stacks, steps = profiles(asked.stacks)
    measure(stacks, steps, asked.rounds)
    for program in asked.difffolded:
        compare(program, stacks, asked.rounds)
    if asked.stacks != MILLION:
        print(f"peak of memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, all of it")
        if not asked.only:
            again = [sys.executable, __file__, f"--stacks={MILLION}", "--rounds=1"]
            subprocess.run(again, check=True)
    else:
        print(f"peak of memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def profiles(many: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stacks of both sides as they are stored, and the steps that they are from."""
    paths = large_stacks(many)
    frames = [list(path) for path in paths]
    parts = []
    for number, dbms in enumerate((BASE, ME)):
        samples = [round(1000 * costs[number]) for costs in paths.values()]
        rows: dict[str, Any] = {
            "step": STEP,
            "role": "connection",
            "frames": pl.Series([["start_thread", *path] for path in frames], dtype=pl.List(pl.String)),
            "modules": pl.Series([["libc.so.6"] + ["mysqld"] * len(path) for path in frames]),
            "event": "cpu-clock",
            "samples": samples,
            "weight": [count * NS_A_SAMPLE for count in samples],
        }
        identity = [pl.lit(value, IDENTITY[name]).alias(name) for name, value in whose(dbms, 1).items()]
        parts.append(pl.DataFrame(rows, schema=STACKS).select(*identity, pl.all()).filter(pl.col("samples") > 0))
    steps = pl.concat([steps_of(BASE, 1, 20.0), steps_of(ME, 1, 25.0)])
    assert dict(steps.schema) == {**IDENTITY, **STEPS}
    return pl.concat(parts), steps


def measure(stacks: pl.DataFrame, steps: pl.DataFrame, rounds: int) -> None:
    sides = ", ".join(f"{rows.height:,}" for rows in stacks.partition_by("dbms"))
    depth = stacks.select(pl.col("frames").list.len().mean()).item()
    print(f"{sides} distinct stacks, {depth:.0f} frames deep on average")
    costs = timed("stacks to costs, names and components", rounds, lambda: stack_costs(stacks, steps))
    tree = timed("costs to the tree of both sides", rounds, lambda: flame_tree(costs, BASE, ME, STEP))
    unfolded = timed("the same, no frame folded", rounds, lambda: flame_tree(costs, BASE, ME, STEP, fold_below=0.0))
    parts = timed("costs to the breakdown by component", rounds, lambda: breakdown(costs, BASE))
    by_function = timed("costs to the breakdown by function", rounds, lambda: breakdown(costs, BASE, "function"))
    for side, measured in (("base", 20.0), ("me", 25.0)):
        sums = {
            "costs": costs.filter(dbms=BASE if side == "base" else ME)["cost"].sum(),
            f"tree of {tree.height:,}": tree[f"{side}_self"].sum(),
            f"tree of {unfolded.height:,}": unfolded[f"{side}_self"].sum(),
            "components": parts[f"{side}_estimate"].sum(),
            "functions": by_function[f"{side}_estimate"].sum(),
        }
        lost = max(abs(float(total) - measured) for total in sums.values())
        print(f"{side}: {measured} µs measured, and of {', '.join(sums)} none differs by more than {lost:.0e}")


def compare(program: Path, stacks: pl.DataFrame, rounds: int) -> None:
    """Another tool's difference of the same stacks, and what is left of the base in it."""
    with tempfile.TemporaryDirectory(prefix="rqps-differing-") as name:
        files = []
        for dbms in (BASE, ME):
            rows = stacks.filter(dbms=dbms).select(pl.col("frames").list.join(";"), pl.col("samples").cast(pl.String))
            files.append(Path(name) / dbms)
            files[-1].write_text("\n".join(f"{path} {count}" for path, count in rows.iter_rows()) + "\n")
        counts = {dbms: stacks.filter(dbms=dbms)["samples"].sum() for dbms in (BASE, ME)}
        for flags, wanted in (([], counts[BASE]), (["-n"], counts[ME])):
            command = [str(program), *flags, *map(str, files)]
            words = timed(
                " ".join([program.name, *flags]),
                rounds,
                lambda: subprocess.run(command, check=True, capture_output=True, text=True).stdout,  # noqa: B023
            )
            samples = sum(int(line.rsplit(None, 2)[1]) for line in words.splitlines())
            print(f"  of the base {samples:,} of {wanted:,} are left: {1 - samples / wanted:.1%} lost")


def timed(what: str, rounds: int, work: Callable[[], T]) -> T:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    print(f"{what:42} {median(seconds):7.3f} s ({min(seconds):.3f} to {max(seconds):.3f})", flush=True)
    return result


if __name__ == "__main__":
    main()
