"""Reads result folders of mytools for sysbench: `x.BUILD.CONFIG.pkN`, with files of each step, gzipped or not.

`sb.o.STEP` has the command line and sysbench's output, `sb.met.STEP` the averages of iostat and vmstat, my.cnf the
options.
"""

import configparser
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rqps.published.readers import Result, Unread, name_of, number, one_line, text_of, version_in
from rqps.published.readers.sysbench_text import ENGINE_OF_DRIVER, Report, report_in, step_columns

TITLE = "folders of mytools with results of sysbench"
KB_PER_MB = 1024
_FILE = re.compile(
    r"sb\.o\.(?P<kind>[\w-]+)(?P<moment>\.\w+)?\.range(?P<range>\d{1,9})\.pk\d\.dop(?P<clients>\d{1,6})"
)
_FOLDER = re.compile(r"x\.(?P<dbms>.+?)\.pk\d")
_OPTIONS = "my.cnf"
_UNUSED = ("o.ini", "o.ini.gz")


def claims(path: Path) -> bool:
    """True for the files of a result folder, including the output of other tools, which `read` skips."""
    name = name_of(path)
    return name.startswith("sb.") or (
        name in (_OPTIONS, *_UNUSED) and _FOLDER.fullmatch(path.parent.name) is not None
    )


def read(files: Sequence[Path]) -> Iterator[Result | Unread]:
    """A result for each step whose output is complete."""
    by_name = {(path.parent, name_of(path)): path for path in files}
    options: dict[Path, dict[str, str]] = {}
    for (folder, name), path in by_name.items():
        if not name.startswith("sb.o."):
            continue
        if folder not in options:
            options[folder] = _options(by_name.get((folder, _OPTIONS)))
        match = _FILE.fullmatch(name)
        if not match:
            yield Unread(str(path), "the name has not the form sb.o.STEP.rangeR.pkP.dopT")
            continue
        met = by_name.get((folder, name.replace("sb.o.", "sb.met.", 1)))
        try:
            report = report_in(text_of(path))
            if report.figures.get("threads", int(match["clients"])) != int(match["clients"]):
                raise ValueError(f"its name says {match['clients']} clients, its text {report.figures['threads']:g}")
            columns = _columns(report, match)
            costs = _costs(met, report) if met else {}
        except ValueError as error:
            yield Unread(str(path), str(error))
            continue
        named = _FOLDER.fullmatch(folder.name)
        dbms = named["dbms"] if named else folder.name
        yield Result(
            file=path,
            origin=folder,
            dbms=one_line(dbms),
            step=step_of(match["kind"], match["moment"] or "", match["range"]),
            columns={**columns, **costs},
            engine=ENGINE_OF_DRIVER.get(report.call.get("db-driver", ""), ""),
            version=version_in(dbms),
            parameters=report.parameters(),
            machine=report.machine(),
            options=options[folder],
            tools={"sysbench": report.version} if report.version else {},
            more_files=(met,) if met else (),
        )


def step_of(kind: str, moment: str, size: str) -> str:
    """The published name of a step.

    >>> step_of("point-query", ".pre", "100")
    'point-query.pre_range=100'
    """
    return f"{kind}{moment}_range={size}"


def _columns(report: Report, match: re.Match[str]) -> dict[str, Any]:
    """Columns of `steps`. For a step that reads whole tables, an operation is a row, and `elapsed_s` is the mean
    time that a client spent in transactions."""
    columns = report.columns() | step_columns(match["kind"], match["moment"] or "", int(match["range"]))
    rows = report.parameters().get("table_rows")
    if columns["unit"] == "row":
        if not rows or not report.figures.get("sum_ms"):
            raise ValueError("the rows of a table or the time of all events are missing")
        elapsed_s = report.figures["sum_ms"] / 1000 / columns["clients"]
        operations = columns["transactions"] * rows
        columns |= {"operations": operations, "elapsed_s": elapsed_s, "operations_per_s": operations / elapsed_s}
    return columns


def _costs(path: Path, report: Report) -> dict[str, Any]:
    """Totals of the host's counters over a step, from averages per second. `host_cpu_user_s` includes the system's
    CPU time, since the source does not separate them."""
    averages: dict[str, float] = {}
    lines = [line.split() for line in text_of(path).splitlines()]
    for head, values in itertools.pairwise(lines):
        if head[:1] == ["samp"] and len(values) == len(head):
            averages |= {name: number(value) for name, value in zip(head[1:], values[1:], strict=True)}
    seconds = report.figures["elapsed_s"]
    sums: Mapping[str, float] = {name: value * seconds for name, value in averages.items() if name.endswith("/s")}
    costs: dict[str, Any] = {
        column: round(sums[name])
        for column, name in (("host_context_switches", "cs/s"), ("host_reads", "r/s"), ("host_writes", "w/s"))
        if name in sums
    }
    costs |= {
        column: sums[name] * KB_PER_MB
        for column, name in (("host_read_kb", "rMB/s"), ("host_write_kb", "wMB/s"))
        if name in sums
    }
    if "cpu/s" in sums and report.cpus:
        costs |= {"host_cpu_user_s": sums["cpu/s"] / 100 * report.cpus, "host_cpu_system_s": 0.0}
    return costs


def _options(path: Path | None) -> dict[str, str]:
    """The options of the server in a my.cnf, without passwords and paths."""
    if path is None:
        return {}
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False, comment_prefixes=("#", ";", "!"))
    try:
        parser.read_string(text_of(path))
        items = parser.items("mysqld")
    except (ValueError, configparser.Error):
        return {}
    options = {name.replace("-", "_"): one_line(value or "ON") for name, value in items}
    return {name: value for name, value in options.items() if "password" not in name and "/" not in value}
