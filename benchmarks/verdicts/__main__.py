"""The proof of the verdicts: how often they are false, how soon they find a real slowdown, and what duets rest on.

Each part keeps its results in a file and goes on where it was stopped, or where `--minutes` ended it; `tables` writes
those of all parts into README.md beside this file. Leave the machine alone while a part measures.
"""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import measured
import measuring
import polars as pl
from measuring import HERE, read, write
from picture import draw
from rqps.terminal import Terminal
from simulated import KINDS, ROUNDS, simulate

Table = Callable[[pl.DataFrame], pl.DataFrame]
TABLES: dict[str, Table] = {
    "aa": measured.aa_table,
    "power": measured.power_table,
    "page": measured.page_table,
    "footprint": measured.footprint_table,
    "coverage": lambda rows: rows,
    "slices": measured.slices_table,
    "writes": measured.writes_table,
    "robin": measured.robin_table,
    "clients": measured.clients_table,
    "servers": measured.servers_table,
    "twins": measured.twins_table,
    "starts": measured.starts_table,
    "agreement": measured.agreement_table,
    "occasion": measured.occasion_table,
    "fourth": measured.fourth_table,
    "base": measured.base_table,
}
OTHER_FILES = {"fourth": "occasion", "base": "occasion", "page": "power"}
"""The parts whose results the tables of other names are made of."""
NOT_YET = "*Not measured yet.*"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/verdicts", description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the results")
    minutes = "end with the round under way after so long; the next call goes on from there"
    parser.add_argument("--minutes", type=float, default=math.inf, help=minutes)
    parts = parser.add_subparsers(dest="part", required=True)

    def part(name: str, help: str, **numbers: int) -> argparse.ArgumentParser:
        added = parts.add_parser(name, help=help, description=help)
        for option, usual in numbers.items():
            added.add_argument(f"--{option}", type=int, default=usual, help=f"{usual} if not given")
        return added

    aa = part("aa", "one build with itself: how often is it called different?", duets=150, seconds=2, beside=0)
    power = part("power", "a slowdown of known size: how soon is it found?", rounds=60, published=6, seconds=2)
    power.add_argument(
        "--size", type=int, action="append", choices=measured.BUDGETS_MIN, help="percent; all if not given"
    )
    power.add_argument("--step", default="point-query", choices=measured.OF_SERVERS, help="the step that is slowed")
    for of_one_build in (aa, power):
        of_one_build.add_argument("--build", default=measuring.BUILD, choices=measuring.EQUAL, help="of runs.yaml")
    walks = "a server that walks some KB for each statement, quiet and crowded: what it costs, and if it is found"
    footprint = part("footprint", walks, rounds=12, seconds=2)
    footprint.add_argument("--kb", type=int, action="append", help="powers of two; 4, 16 and 64 if not given")
    part("coverage", "simulated noise: does an interval hold the truth?", pages=500)
    slices = part("slices", "ratio and spread against the length of a slice", rounds=12, seconds=10)
    slices.add_argument("--length", type=int, action="append", help="milliseconds; 1 to 1000 if not given")
    part("writes", "updates and inserts in a duet, and each server by itself", rounds=4, seconds=8)
    part("robin", "four servers in one round robin, or pairs?", rounds=30, seconds=3)
    part("clients", "where to place several clients and the threads that serve them?", rounds=6, seconds=2)
    part("servers", "does a ratio depend on how many servers share the round?", rounds=8, seconds=4)
    part("twins", "pages of a base and its twin in rounds of 2, 4 and 8 servers", pages=20, seconds=2)
    part("starts", "the spread between starts: pages and addresses", rounds=20, seconds=3)
    agree = "releases beside 8.0 by duets, by long rounds and by counted instructions: do they agree?"
    part("agreement", agree, rounds=6, seconds=20)
    part("occasion", "releases on this machine in this hour: does a ratio repeat elsewhere?", rounds=6, seconds=2)
    picture = part("picture", "draw the picture of a duet for docs/verdicts.md")
    picture.add_argument("--study", default="releases", help="a study measured by duets")
    picture.add_argument("--dbms", help="the one that is compared with the base; the first other one if not given")
    picture.add_argument("--step", default="point-query")
    picture.add_argument("--data", type=Path)
    picture.add_argument("--to", type=Path, default=HERE.parent.parent / "docs/duet.svg")
    part("tables", "write the tables of all results into README.md")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    measuring.ends = time.monotonic() + 60 * asked.minutes
    file: Path = asked.results / f"{asked.part}.parquet"
    match asked.part:
        case "aa":
            measured.aa(file, asked.duets, asked.seconds, asked.beside, asked.build)
        case "power":
            sizes = asked.size or list(measured.BUDGETS_MIN)
            measured.power(file, sizes, asked.rounds, asked.published, asked.seconds, asked.step, asked.build)
        case "footprint":
            measured.footprint(file, asked.rounds, asked.seconds, asked.kb or (4, 16, 64))
        case "coverage":
            coverage(file, asked.pages)
        case "slices":
            measured.slices(file, asked.rounds, asked.seconds, asked.length or measured.LENGTHS_MS)
        case "writes":
            measured.writes(file, asked.rounds, asked.seconds)
        case "robin":
            measured.robin(file, asked.rounds, asked.seconds)
        case "clients":
            measured.clients(file, asked.rounds, asked.seconds)
        case "servers":
            measured.servers(file, asked.rounds, asked.seconds)
        case "twins":
            measured.twins(file, asked.pages, asked.seconds)
        case "starts":
            measured.starts(file, asked.rounds, asked.seconds)
        case "agreement":
            measured.agreement(file, asked.rounds, asked.seconds)
        case "occasion":
            measured.occasion(file, asked.rounds, asked.seconds)
        case "picture":
            draw(asked.study, asked.dbms, asked.step, asked.data, asked.to)
        case "tables":
            write_tables(asked.results)
    if asked.part in TABLES:
        print(markdown(TABLES[asked.part](read(file))))


def coverage(file: Path, pages: int) -> None:
    """Simulates each kind of noise with each number of rounds, one row of the file after the other."""
    rows = pl.read_parquet(file) if file.exists() else None
    existing = set() if rows is None else set(rows.select("noise", "rounds").rows())
    todo = [(kind, rounds) for kind in KINDS for rounds in ROUNDS if (kind, rounds) not in existing]
    terminal = Terminal()
    for number, (kind, rounds) in enumerate(todo):
        if time.monotonic() > measuring.ends:
            break
        terminal.show(f"{kind}, {rounds} rounds: {number + 1} of {len(todo)}", number / len(todo), at_once=True)
        row = pl.DataFrame([simulate(pages, kind, rounds)])
        rows = row if rows is None else pl.concat([rows, row])
        write(file, rows)
    terminal.close()


def write_tables(results: Path) -> None:
    """Puts each table between its two marks in README.md."""
    readme = HERE / "README.md"
    text = readme.read_text()
    for name, table in TABLES.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->\n")
        file = results / f"{OTHER_FILES.get(name, name)}.parquet"
        text = before + begin + (markdown(table(read(file))) if file.exists() else NOT_YET) + "\n" + end + after
    readme.write_text(text)


def markdown(table: pl.DataFrame) -> str:
    """A table as Markdown; shares in percent."""

    def cell(value: object) -> str:
        if value is None:
            return ""
        return f"{value:.1%}" if isinstance(value, float) else str(value)

    lines = [table.columns, ["---"] * table.width, *([cell(value) for value in row] for row in table.iter_rows())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
