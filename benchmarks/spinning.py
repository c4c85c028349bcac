"""The work that InnoDB does between two looks at a lock that is taken: the time of its random numbers and pauses on
this CPU, beside the published ones, and which of the generators each server binary has.

python benchmarks/spinning.py
python benchmarks/spinning.py --path 8.0.40=~/mysql/my8040
"""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from rqps.engines.asked import BuildSpec
from rqps.engines.mysql.build import locate
from rqps.engines.sources import catalogue

PUBLISHED = Path(__file__).parent.parent / "data/published"
SPINS = "rw_lock_s_lock_spin"
FUNCTIONS = {
    "multiplied": ("5.5 to 8.0.28", "ut_rnd_interval"),
    "looked_up": ("8.0.30 to 8.0.33", None),
    "crc32": ("8.0.34 to 8.0.40, where not _fast", "ut::random_from_interval"),
    "time_stamp_of_8.0.34": ("8.0.34 to 8.0.40", "ut::random_from_interval_fast"),
    "time_stamp_of_8.0.44": ("8.0.44, 9.7", None),
}
"""Maps the generators of spinning.c to the releases that spin with them, and to their published name."""
SIGNS = {
    "multiplications": r"imul +\$0x901dfa9",
    "table look-ups": r"shl +\$0x6,",
    "crc32": "crc32",
    "time stamp counter": r"shr +\$0x5,",
}
"""Maps each generator to what only its code has."""


def measured() -> dict[str, list[list[str]]]:
    """The lines that the program prints, without their first word, by that word."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "spinning"
        source = Path(__file__).with_name("spinning.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    lines: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        first, *words = line.split()
        lines.setdefault(first, []).append(words)
    return lines


def generators(lines: dict[str, list[list[str]]]) -> pl.DataFrame:
    """Nanoseconds of a random number, those published for builds at -O2, and the values for a delay of 6."""
    drawn = [(name, int(value)) for name, value, count in lines["range"] if count != "0"]
    values = (
        pl.DataFrame(drawn, schema=["generator", "value"], orient="row")
        .group_by("generator")
        .agg(pl.format("{} to {}", pl.col("value").min(), pl.col("value").max()).alias("values for a delay of 6"))
    )
    published = pl.read_csv(PUBLISHED / "busy_wait.csv").filter(compiled="O2").unique(["host", "function"])
    beside = published.pivot("host", index="function", values="value", sort_columns=True)
    rows = [(name, *FUNCTIONS[name], float(ns)) for name, ns in lines["ns"]]
    ours = pl.DataFrame(rows, schema=["generator", "releases", "function", "ns"], orient="row")
    return ours.join(values, on="generator", maintain_order="left").join(
        beside, on="function", how="left", maintain_order="left"
    )


def histogram(lines: dict[str, list[list[str]]]) -> pl.DataFrame:
    """The percentage of each value among the numbers drawn with a delay of 6."""
    rows = [(name, int(value), int(count)) for name, value, count in lines["range"]]
    drawn = pl.DataFrame(rows, schema=["generator", "value", "count"], orient="row")
    percent = 100 * pl.col("count") / pl.col("count").sum().over("generator")
    return drawn.with_columns(count=percent.round(1)).pivot("value", index="generator", values="count")


def delays(lines: dict[str, list[list[str]]]) -> pl.DataFrame:
    """Microseconds of ut_delay(N), beside those published for 8.0.40."""
    published = pl.read_csv(PUBLISHED / "ut_delay.csv").filter(version="8.0.40")
    beside = published.pivot("host", index="x", values="value", sort_columns=True)
    ours = pl.DataFrame([(int(x), float(us)) for x, us in lines["us"]], schema=["x", "us"], orient="row")
    return ours.join(beside, on="x", how="left", maintain_order="left")


def spin_code(binary: Path) -> str:
    """The machine code of the loop in which a thread waits for a shared lock; empty without its symbol."""
    for table in ("--defined-only", "--dynamic"):
        symbols = subprocess.run(["nm", "-S", table, binary], capture_output=True, text=True).stdout
        symbol = re.search(rf"^([0-9a-f]+) ([0-9a-f]+) [tTwW] \S*{SPINS}P?\w*$", symbols, re.MULTILINE)
        if symbol:
            begin, size = (int(number, 16) for number in symbol.groups())
            ends = [f"--start-address={begin:#x}", f"--stop-address={begin + size:#x}"]
            options = ["--disassemble", "--demangle", "--no-show-raw-insn", *ends]
            return subprocess.run(["objdump", *options, str(binary)], capture_output=True, text=True).stdout
    return ""


def read(spec: BuildSpec) -> dict[str, str]:
    """The generator in the spin loop of a build, fetched if needed, and the values that a delay of 6 gives: the upper
    end can come if 1 is added to what the number is divided by."""
    build = locate(f"mysql-{spec.version}", spec, print)
    code = spin_code(build.program)
    before_pause = code.partition("ut_delay")[0]
    has = [generator for generator, sign in SIGNS.items() if re.search(sign, before_pause)]
    divisor = re.findall(r"div +(%\w+)", before_pause)[-1:]
    adds_one = divisor and re.search(rf"add +\$0x1,{divisor[0]}\b|lea +0x1\(%\w+\),{divisor[0]}\b", before_pause)
    return {
        "release": build.version,
        "random numbers by": ", ".join(has) or ("unknown" if code else "no symbol"),
        "values for a delay of 6": f"0 to {6 if adds_one else 5}" if has and divisor else "",
    }


def markdown(table: pl.DataFrame) -> str:
    with pl.Config(
        tbl_formatting="MARKDOWN", tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True
    ) as config:
        config.set_tbl_rows(50).set_tbl_cols(20).set_tbl_width_chars(200).set_fmt_str_lengths(80)
        return str(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    path_help = "a further build; those of the catalogue are read in any case"
    parser.add_argument("--path", action="append", default=[], metavar="VERSION=FOLDER", help=path_help)
    asked = parser.parse_args(arguments)
    lines = measured()
    for table in (generators(lines), histogram(lines), delays(lines)):
        print(markdown(table), end="\n\n")
    paths = dict(path.split("=", 1) for path in asked.path)
    specs = [BuildSpec(mysql=version, path=folder) for version, folder in paths.items()]
    specs += [BuildSpec(mysql=version) for version in catalogue("mysql")]
    print(markdown(pl.DataFrame([read(spec) for spec in specs])))


if __name__ == "__main__":
    main()
