"""Reads summaries of mytools, `qps.abs.*.tsv`: one row per step and one column per dbms, below the names of the dbms.

mytools joins the columns by position, so if a dbms lacks a step, the later numbers in its column are beside the wrong
steps. A summary is used if the result folders no longer exist; otherwise it is only compared with them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rqps.numbers import sized
from rqps.published.readers import Result, Unread, name_of, number, one_line, text_of, version_in
from rqps.published.readers.mytools_sysbench import step_of
from rqps.published.readers.sysbench_text import step_columns

TITLE = "summaries of mytools"
PER_ROW = 1000
"""For steps that read whole tables, a summary gives the rate in units of this many rows per second."""
TOLERANCE = 0.01
"""Maximum relative difference between a number in a summary and the same number in the result folder. The error of
rounding is allowed in addition."""
FEWEST_SHIFTED = 2
"""A summary is called shifted if at least this many rows have the numbers of a neighbouring step."""
ENGINES = {"my": "mysql", "pg": "postgres"}
_NAMED = re.compile(r"col-(\d+) : (?:x\.)?(\S.*?)(?:\.pk\d)?")
_STEP = re.compile(r"(?P<kind>[\w-]+)(?P<moment>\.\w+)?_range=(?P<range>\d{1,9})")
_CLIENTS = re.compile(r"dop(\d{1,6})")


def claims(path: Path) -> bool:
    """True for a summary of any kind."""
    return name_of(path).startswith(("qps.abs.", "qps.rel.", "o.met."))


def read(files: Sequence[Path]) -> Iterator[Result | Unread]:
    """A result for each step and dbms of a summary with absolute numbers."""
    for path in files:
        name = name_of(path)
        if not (name.startswith("qps.abs.") and name.endswith(".tsv")):
            yield Unread(str(path), "a summary without names or absolute numbers: qps.abs.*.tsv has them")
            continue
        try:
            text = text_of(path)
        except ValueError as error:
            yield Unread(str(path), str(error))
            continue
        clients = _CLIENTS.findall("/".join((*path.resolve().parent.parts, name)))
        if not clients:
            yield Unread(str(path), "no folder above it is named dopN, after the number of clients")
            continue
        names = {int(match[1]): match[2] for line in text.splitlines() if (match := _NAMED.fullmatch(line.strip()))}
        for line, words in enumerate(text.splitlines(), start=1):
            *values, label = words.split() or [""]
            if match := _STEP.fullmatch(label):
                yield from _of_line(path, line, match, values, names, int(clients[-1]))


def _of_line(
    path: Path, line: int, match: re.Match[str], values: list[str], names: Mapping[int, str], clients: int
) -> Iterator[Result | Unread]:
    """The results of one line. A line with too few or too many numbers is not read: its numbers may belong to any
    dbms."""
    if len(values) != len(names):
        yield Unread(f"{path}, line {line}", f"has {len(values)} numbers, of {len(names)} dbms")
        return
    columns = step_columns(match["kind"], match["moment"] or "", int(match["range"]))
    factor = PER_ROW if columns.get("unit") == "row" else 1
    for column, text in enumerate(values, start=1):
        dbms = names.get(column, "")
        try:
            rate = number(text) * factor
            if not dbms or rate <= 0:
                raise ValueError(f"{text!r} is not a rate, or its dbms has no name")
        except ValueError as error:
            yield Unread(f"{path}, line {line}", one_line(str(error)))
            continue
        yield Result(
            file=path,
            origin=path,
            dbms=one_line(dbms),
            step=step_of(match["kind"], match["moment"] or "", match["range"]),
            columns={"unit": "query", "errors": 0, **columns, "clients": clients, "operations_per_s": rate},
            engine=ENGINES.get(dbms[:2], ""),
            version=version_in(dbms),
            summary=True,
        )


def without_summaries(results: Sequence[Result]) -> Iterator[Result | Unread]:
    """Yields the results, but no summary of a dbms that has other results: for such a summary, only an `Unread` if
    it contradicts the other results."""
    measured = {
        (r.dbms, r.columns["clients"], r.step): r.columns["operations_per_s"] for r in results if not r.summary
    }
    known = {(dbms, clients) for dbms, clients, _ in measured}
    checked: dict[tuple[Path, str], list[Result]] = {}
    for result in results:
        if result.summary and (result.dbms, result.columns["clients"]) in known:
            checked.setdefault((result.file, result.dbms), []).append(result)
        else:
            yield result
    for (path, dbms), rows in checked.items():
        summed = [(row.step, row.columns["operations_per_s"]) for row in rows]
        of_folder = {step: measured.get((dbms, rows[0].columns["clients"], step)) for step, _ in summed}
        if words := _contradiction(summed, of_folder):
            yield Unread(f"{path}, {dbms}", words)


def _contradiction(rows: Sequence[tuple[str, float]], folder: Mapping[str, float | None]) -> str:
    """A sentence that says how a summary's column contradicts the dbms's result folder; empty if both agree."""
    wrong = [at for at, (step, rate) in enumerate(rows) if not _is_alike(rate, folder[step])]
    if not wrong:
        return ""
    first, rate = rows[wrong[0]]
    for neighbour, where in ((1, "below"), (-1, "above")):
        moved = [
            at
            for at in wrong
            if 0 <= at + neighbour < len(rows) and _is_alike(rows[at][1], folder[rows[at + neighbour][0]])
        ]
        if len(moved) >= FEWEST_SHIFTED and moved[0] == wrong[0]:
            return f"its rows are shifted from {first} on: they have the numbers of the step {where}"
    was = folder[first]
    says = f"{sized(rate)}, and its folder {sized(was) if was else 'has no such step'}"
    return f"contradicts its folder in {len(wrong)} of {len(rows)} steps, first {first}: the summary says {says}"


def _is_alike(rate: float, other: float | None) -> bool:
    return other is not None and abs(rate - other) <= max(TOLERANCE * other, PER_ROW if other > 1e6 else 1.0)
