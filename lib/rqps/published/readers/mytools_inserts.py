"""Reads the insert benchmark of mytools: `mrg.STEP` with a row for each dbms, and the output of clients in one folder
per step.

`mrg.STEP` has the 21 columns of the published report, with the dbms in the last column. `STEP/o.ib.dopD.N` is the
output of one client: a header and a line for each second.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rqps.published.readers import Result, Unread, name_of, number, one_line, text_of, version_in
from rqps.published.readers.mytools_summaries import ENGINES
from rqps.workloads.insert_benchmark.steps import GROUPS, NAME

TITLE = "the insert benchmark of mytools"
WORKLOAD = "insert-benchmark"
_SUMMARY = re.compile(r"mrg\.(?P<step>(?:l|q)[\w.]*?)(?:\.L\d+)?")
_CLIENT = re.compile(r"o\.ib\.dop(?P<clients>\d{1,5})\.(?P<number>\d{1,5})")
_REPEATED = re.compile(r"\.L\d+$")
_CLIENTS = re.compile(r"dop(\d{1,5})")
_KINDS = {
    "insert": ("i_ips", "t_ins", "max_i"),
    "delete": ("i_dps", "t_del", "max_d"),
    "query": ("i_qps", "t_query", "max_q"),
}


def claims(path: Path) -> bool:
    """True for a summary of a step, and for the output of a client."""
    name = name_of(path)
    return bool(_SUMMARY.fullmatch(name)) or name.startswith("o.ib.dop")


def read(files: Sequence[Path]) -> Iterator[Result | Unread]:
    """A result for each step and dbms."""
    clients: dict[tuple[Path, int], list[Path]] = defaultdict(list)
    for path in files:
        if match := _SUMMARY.fullmatch(name_of(path)):
            yield from _of_summary(path, match["step"])
        elif match := _CLIENT.fullmatch(name_of(path)):
            clients[path.parent, int(match["clients"])].append(path)
        else:
            yield Unread(str(path), "the name has not the form o.ib.dopD.N")
    for (folder, number_of_clients), outputs in clients.items():
        yield from _of_clients(folder, number_of_clients, outputs)


def _of_summary(path: Path, step: str) -> Iterator[Result | Unread]:
    try:
        lines = [(at, line.split()) for at, line in enumerate(text_of(path).splitlines(), start=1)]
    except ValueError as error:
        yield Unread(str(path), str(error))
        return
    lines = [(at, words) for at, words in lines if words and words != ["-"]]
    heads = lines[0][1] if lines else []
    if not {"ips", "qps", "maxop"} < {*heads} or heads[-1] != "tag":
        yield Unread(str(path), "its first line lacks the columns ips, qps and maxop, or does not end with tag")
        return
    for at, words in lines[1:]:
        row = dict(zip(heads, words, strict=False))
        clients = _CLIENTS.findall("/".join((*path.resolve().parent.parts, words[-1])))
        try:
            if len(words) != len(heads):
                raise ValueError(f"has {len(words)} columns, the first line {len(heads)}")
            rate = number(row["qps" if step.startswith("q") else "ips"], decimal_comma=False)
            if rate <= 0:
                raise ValueError(f"{rate:g} is no rate")
            longest_us = 1e6 * number(row["maxop"], decimal_comma=False)
        except ValueError as error:
            yield Unread(f"{path}, line {at}", one_line(str(error)))
            continue
        columns = {
            "clients": int(clients[-1]) if clients else 1,
            "operations_per_s": rate,
            "latency_max_us": longest_us,
        }
        yield _result(path, path, row["tag"], step, columns, summary=True)


def _of_clients(folder: Path, clients: int, outputs: Sequence[Path]) -> Iterator[Result | Unread]:
    """The result of one step: the operations of all clients, divided by the time of the slowest client."""
    rows: list[Mapping[str, float]] = []
    ends: list[Mapping[str, float]] = []
    try:
        if len(outputs) != clients:
            raise ValueError(f"has the output of {len(outputs)} of {clients} clients")
        for path in outputs:
            of_client = list(_seconds(text_of(path)))
            if not of_client:
                raise ValueError(f"{path.name} has no line for a second")
            rows, ends = [*rows, *of_client], [*ends, of_client[-1]]
        kind = "query" if folder.name.startswith("q") else "insert"
        operations, elapsed_s = sum(end[_KINDS[kind][1]] for end in ends), max(end["t_sec"] for end in ends)
        if operations <= 0 or elapsed_s <= 0:
            raise ValueError(f"no {kind} was done")
    except ValueError as error:
        yield Unread(str(folder), one_line(str(error)))
        return
    columns = {
        "clients": clients,
        "elapsed_s": elapsed_s,
        "operations": int(operations),
        "transactions": int(operations),
        "operations_per_s": operations / elapsed_s,
        "latency_max_us": max(row[_KINDS[kind][2]] for row in rows),
    }
    step = _REPEATED.sub("", one_line(folder.name))
    files = tuple(outputs[1:])
    yield _result(
        outputs[0], folder.parent, folder.parent.name, step, columns, intervals=_intervals(step, rows), more=files
    )


def _seconds(text: str) -> Iterator[dict[str, float]]:
    """Yields each line of a client's output as numbers by column; ValueError if columns are missing."""
    heads: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["i_sec"]:
            heads = words
            if lacking := {"t_sec", *chain(*_KINDS.values())}.difference(heads):
                raise ValueError(f"its header lacks {', '.join(sorted(lacking))}")
        elif heads and len(words) == len(heads):
            try:
                yield {name: number(word, decimal_comma=False) for name, word in zip(heads, words, strict=True)}
            except ValueError:
                return  # not a per-second line: the per-second lines have ended


def _intervals(step: str, rows: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for each second and kind of operation, over all clients; no rows if the clients report less often than
    every second."""
    if any(row["i_sec"] > 1.5 for row in rows):
        return []
    done: dict[tuple[str, int], float] = defaultdict(float)
    longest: dict[tuple[str, int], float] = defaultdict(float)
    for row in rows:
        for kind, (rate, _, most) in _KINDS.items():
            key = kind, round(row["t_sec"]) - 1
            done[key] += row[rate] * row["i_sec"]
            longest[key] = max(longest[key], row[most])
    used = {kind for (kind, _), operations in done.items() if operations}
    return [
        {
            "step": step,
            "kind": kind,
            "second": second,
            "operations": round(operations),
            "latency_max_us": longest[kind, second],
        }
        for (kind, second), operations in sorted(done.items())
        if kind in used
    ]


def _result(
    file: Path,
    origin: Path,
    name: str,
    step: str,
    columns: Mapping[str, Any],
    *,
    summary: bool = False,
    intervals: Sequence[Mapping[str, Any]] = (),
    more: tuple[Path, ...] = (),
) -> Result:
    unit = "query" if step.startswith("q") else "row"
    match = NAME.fullmatch(step)
    of_step = {"kind": match["kind"] if match else step, "range": None, "unit": unit, "group": GROUPS[unit]}
    return Result(
        file=file,
        origin=origin,
        dbms=one_line(name.removeprefix("x.")),
        step=step,
        columns={**of_step, "writes": True, "errors": 0, **columns},
        engine=ENGINES.get(name.removeprefix("x.")[:2], ""),
        version=version_in(name.removeprefix("x.")),
        workload=WORKLOAD,
        intervals=intervals,
        more_files=more,
        summary=summary,
    )
