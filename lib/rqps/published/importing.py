"""Imports, as a study, results that somebody else measured: finds files, reads them, and writes the raw tables."""

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

import polars as pl

from rqps import __version__
from rqps.engines import ENGINES
from rqps.engines.cache import sha256
from rqps.errors import RqpsError, instead
from rqps.numbers import counted
from rqps.published.readers import WORKLOAD, Result, Unread, build_and_config_in, one_line, readers, version_in
from rqps.published.readers.mytools_summaries import without_summaries
from rqps.published.readers.sysbench_text import OTHER_STEPS
from rqps.store import Manifest, Placement, StudyCard, Warning_, write_manifest, write_study_card, write_table
from rqps.store.manifest import CARD, Imported, finished, read_study_card
from rqps.store.schemas import TABLES
from rqps.store.write import atomically
from rqps.study import Dbms
from rqps.study.runs_file import LONGEST_NAME
from rqps.terminal import Terminal
from rqps.workloads.sysbench.steps import in_tables

MOST_FILES = 1_000_000
MOST_SHOWN = 5
MOST_REASONS = 20
ELSEWHERE = "elsewhere"
"""The host of results that name no host."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_NOT_OPENED = "not opened: a link or no regular file"


@dataclass(frozen=True)
class Asked:
    """The arguments of `rqps import`; values of empty fields are derived from the results."""

    folders: Sequence[Path]
    study: str = ""
    question: str = ""
    base: str = ""
    host: str = ""
    engine: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Maps a dbms of the source to its new name, such as the name of the same dbms in a study measured here."""


class Summary(NamedTuple):
    """The folder of the imported study, and a text that says what was imported and what was not read, with the
    reasons."""

    folder: Path
    text: str


def import_study(asked: Asked, data: Path) -> Summary:
    """Writes the study into `raw/` of the data folder. If the same files were imported before, nothing changes."""
    name = asked.study or _plain(asked.folders[0].resolve().name)
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        fix = f"write a name of letters, digits, - and _, with {LONGEST_NAME} characters at most"
        raise RqpsError(f"--study {name!r} is not a valid name", fix=fix)
    if asked.engine and asked.engine not in ENGINES:
        fix = f"name one of {', '.join(ENGINES)}"
        raise RqpsError(f"--engine {asked.engine}: {instead(asked.engine, ENGINES, 'engines')}", fix=fix)
    every, unread = _read(asked)
    checked = list(without_summaries(every))
    results = [result for result in checked if isinstance(result, Result)]
    unread += [result for result in checked if isinstance(result, Unread)]
    results = _of_one_workload(results, unread)
    runs = list(_runs(results, asked, unread))
    if not runs:
        places = ", ".join(map(str, asked.folders))
        reasons = "".join(f"; {place}: {reason}" for place, reason in unread[:MOST_SHOWN])
        titles = ", ".join(reader.TITLE for reader in readers())
        raise RqpsError(f"{places}: no result could be read{reasons}", fix=f"give a folder of {titles}")
    dbms = _order(runs)
    base = asked.base or dbms[0]
    if base not in dbms:
        raise RqpsError(f"--base {base}: {instead(base, dbms, 'dbms')}", fix="name one that was imported")
    folder = data / "raw" / f"study={name}"
    if (folder / CARD).exists():
        _refuse_other(folder, runs, name)
        return Summary(folder, f"{name}: these results are imported already; nothing changed")
    card = _card(asked, name, runs, dbms, base)
    with atomically(folder) as new:
        new.mkdir()
        _write(new, card, runs, asked.engine)
    return Summary(folder, _in_words(card, runs, unread))


@dataclass
class _Run:
    """The results of one dbms in one round on one host."""

    host: str
    named: Dbms
    round: int
    first: Result
    steps: dict[str, Result] = field(default_factory=dict)
    digest: str = ""
    """SHA-256 over the digests of the folders or files from which the run was read."""

    @property
    def dbms(self) -> str:
        return ".".join(self.named)

    @property
    def files(self) -> list[Path]:
        return sorted({path for result in self.steps.values() for path in (result.file, *result.more_files)})


def _read(asked: Asked) -> tuple[list[Result], list[Unread]]:
    """All results in the given folders, and the files that could not be read, with the reasons."""
    every, unread, results = readers(), list[Unread](), list[Result]()
    claimed: dict[str, list[Path]] = {reader.TITLE: [] for reader in every}
    terminal, unknown, roots = Terminal(sys.stderr), list[Path](), dict[Path, Path]()
    for folder in asked.folders:
        if not folder.exists():
            raise RqpsError(f"{folder}: no such file or folder", fix="name the files or folders to import")
        if folder.resolve() in roots:
            unread.append(Unread(str(folder), f"the same folder as {roots[folder.resolve()]}"))
        roots.setdefault(folder.resolve(), folder)
    for path in (path for root in roots for path in _files(root, unread)):
        number = len(unknown) + sum(map(len, claimed.values()))
        if number >= MOST_FILES:
            raise RqpsError(f"more than {MOST_FILES:,} files", fix="name the folders that have results")
        if number % 500 == 0:
            terminal.show(f"looking at files: {number:,}")
        try:
            of = next((reader for reader in every if reader.claims(path)), None)
        except OSError as error:
            unread.append(Unread(str(path), f"can't be read: {error.strerror}"))
        else:
            (claimed[of.TITLE] if of else unknown).append(path)
    total = max(sum(map(len, claimed.values())), 1)
    for reader in every:
        for answer in reader.read(claimed[reader.TITLE]):
            if isinstance(answer, Unread):
                unread.append(answer)
                continue
            results.append(answer)
            terminal.show(f"reading {reader.TITLE}: {len(results):,} results", min(len(results) / total, 1.0))
    terminal.close()
    if unknown:
        named = ", ".join(one_line(path.name) for path in unknown[:MOST_SHOWN])
        unread.append(Unread(counted(len(unknown), "file"), f"of no format that is known: {named}"))
    return results, unread


def _of_one_workload(results: list[Result], unread: list[Unread]) -> list[Result]:
    """The results of the workload that has the most results: a study has only one workload."""
    counts = Counter(result.workload for result in results)
    if len(counts) < 2:
        return results
    [(most, _), *others] = counts.most_common()
    for other, count in others:
        unread.append(Unread(counted(count, "result"), f"of {other}: import it by itself, a study has one workload"))
    return [result for result in results if result.workload == most]


def _files(root: Path, unread: list[Unread]) -> Iterator[Path]:
    """The regular files of a folder, in order; links are not followed."""
    if root.is_file():
        yield root
        return
    failed: Callable[[OSError], None] = lambda error: unread.append(  # noqa: E731
        Unread(str(error.filename), f"can't be read: {error.strerror}")
    )
    for place, folders, files in os.walk(root, onerror=failed):
        folders.sort()
        for name in sorted([*files, *(one for one in folders if (Path(place) / one).is_symlink())]):
            path = Path(place) / name
            if path.is_symlink() or not S_ISREG(path.lstat().st_mode):
                unread.append(Unread(str(path), _NOT_OPENED))
            else:
                yield path


def _runs(results: Sequence[Result], asked: Asked, unread: list[Unread]) -> Iterator[_Run]:
    """Groups the results into runs by host, dbms and round. If the source does not number its rounds, the results of
    an origin (a folder or file) go into the first round that has none of their steps. An origin with the same bytes
    as an earlier one is left out."""
    origins: dict[tuple[str, str, Path, int | None], list[Result]] = {}
    several = {result.machine.get("cpus") for result in results} - {None}
    for result in results:
        host = asked.host or result.host or ELSEWHERE
        if len(several) > 1 and (cpus := result.machine.get("cpus")):
            host = f"{host}-{cpus}-cpus"
        origins.setdefault((_plain(host), result.dbms, result.origin, result.round), []).append(result)
    names = _names([dbms for _, dbms, _, _ in origins], asked.renames)
    many_clients = len({result.columns["clients"] for result in results}) > 1
    from_0 = any(result.round == 0 for result in results)
    runs: dict[tuple[str, Dbms, int], _Run] = {}
    digests: dict[tuple[str, str], Path] = {}
    for (host, source, origin, number), own in origins.items():
        files = sorted({path for result in own for path in (result.file, *result.more_files)})
        digest = _digest(files, origin)
        if number is None and (twin := digests.setdefault((source, digest), origin)) != origin:
            unread.append(Unread(str(origin), f"has the same bytes as {twin}, and is counted once"))
            continue
        steps: dict[str, Result] = {}
        for result in own:
            step = f"{result.step}@{result.columns['clients']}" if many_clients else result.step
            if step in steps:
                unread.append(Unread(str(result.file), "the same step of the same dbms and round once more"))
            else:
                steps[step] = result
        free = next(n for n in range(1, 10_000) if _is_free(runs.get((host, names[source], n)), steps))
        free = free if number is None else number + from_0
        run = runs.setdefault((host, names[source], free), _Run(host, names[source], free, own[0]))
        for step in steps.keys() & run.steps.keys():
            why = f"its steps of round {number} were read from {run.steps[step].file}"
            unread.append(Unread(f"{steps[step].file}: {step}", why))
        run.steps |= {step: result for step, result in steps.items() if step not in run.steps}
        run.digest = hashlib.sha256(f"{run.digest}{digest}".encode()).hexdigest()
    yield from runs.values()


def _is_free(run: _Run | None, steps: Mapping[str, Result]) -> bool:
    return run is None or run.steps.keys().isdisjoint(steps)


def _names(sources: Iterable[str], renames: Mapping[str, str]) -> dict[str, Dbms]:
    """Maps each dbms of the source to a build and a config. If several dbms would get the same names, their builds
    are numbered."""
    names: dict[str, Dbms] = {}
    if unknown := sorted(set(renames) - {*sources}):
        known = sorted({*sources})
        fix = "write it as SOURCE=BUILD.CONFIG, with its name in the source"
        raise RqpsError(f"--as {unknown[0]}: {instead(unknown[0], known, 'dbms')}", fix=fix)
    for source in sorted({*sources}):
        build, config = build_and_config_in(renames.get(source, source))
        names[source] = Dbms(build[:LONGEST_NAME], config[:LONGEST_NAME])
    counts, used = Counter(names.values()), Counter[Dbms]()
    for source, named in names.items():
        if counts[named] > 1:
            used[named] += 1
            names[source] = named._replace(build=f"{named.build[: LONGEST_NAME - 6]}-{used[named]}")
    return names


def _plain(text: str) -> str:
    """Replaces the characters that a name may not have by hyphens."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:LONGEST_NAME] or "imported"


def _digest(files: Sequence[Path], origin: Path) -> str:
    """A digest of the files' bytes and of their paths relative to the origin."""
    parts = [f"{path.relative_to(origin) if path != origin else ''} {sha256(path)}" for path in files]
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def _order(runs: Sequence[_Run]) -> list[str]:
    """The dbms, older versions first; those without a version last, by name."""
    versions = {run.dbms: _version(run) for run in runs}

    def place(dbms: str) -> tuple[bool, list[int], str]:
        numbers = [int(part) for part in re.findall(r"\d+", versions[dbms])]
        return not numbers, numbers, dbms

    return sorted(versions, key=place)


def _version(run: _Run) -> str:
    return run.first.version or version_in(run.first.dbms)


def _refuse_other(folder: Path, runs: Sequence[_Run], name: str) -> None:
    """Refuses to import other results under the name of a study that exists."""
    before = [manifest.imported for _, manifest in finished(folder)]
    if None in before or not read_study_card(folder).imported:
        raise RqpsError(f"{folder}: this study was measured here", fix="give another name with --study")
    if {one.digest for one in before if one} != {run.digest for run in runs}:
        what = f"{folder}: {name} was imported from other files, or from these before they changed"
        raise RqpsError(what, fix="give another name with --study, or move that folder away")


def _card(asked: Asked, name: str, runs: Sequence[_Run], dbms: list[str], base: str) -> StudyCard:
    others = f"{len(dbms)} dbms relative to {base}" if len(dbms) > 2 else " and ".join(dbms)
    return StudyCard(
        study=name,
        question=asked.question or f"What do the imported results {name} show of {others}?",
        imported=True,
        workload=runs[0].first.workload,
        base=base,
        dbms=tuple(dbms),
        rounds=max(run.round for run in runs),
        parameters=_in_common([run.first.parameters for run in runs]),
    )


def _in_common(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in every[0].items() if all(one.get(name) == value for one in every)}


def _write(folder: Path, card: StudyCard, runs: Sequence[_Run], engine: str) -> None:
    order = _in_tables(runs)
    with_progress = Terminal(sys.stderr)
    for position, run in enumerate(sorted(runs, key=lambda run: (run.round, card.dbms.index(run.dbms), run.host))):
        with_progress.show(f"writing {run.dbms}", position / len(runs))
        own = folder / f"run=r{run.round:02}@{run.dbms}@{run.host}"
        steps = sorted(run.steps, key=order.index)
        rows = [
            {
                **dict.fromkeys(TABLES["steps"].names()),
                **run.steps[step].columns,
                "step": step,
                "position": at,
                "table_position": order.index(step),
            }
            for at, step in enumerate(steps)
        ]
        write_table(own, "steps", pl.DataFrame(rows, schema=TABLES["steps"]))
        seconds = [{**row, "step": step} for step in steps for row in run.steps[step].intervals]
        if seconds:
            blank = dict.fromkeys(TABLES["intervals"].names())
            frame = pl.DataFrame([blank | row for row in seconds], schema=TABLES["intervals"])
            write_table(own, "intervals", frame)
        write_manifest(own, _manifest(card, run, position, engine))
    write_study_card(folder, card)
    with_progress.close()


def _in_tables(runs: Sequence[_Run]) -> list[str]:
    """The steps of all runs in the order in which tables show them: known steps by group and kind, then all others
    by kind."""
    results = {step: result for run in runs for step, result in run.steps.items()}
    columns = {step: result.columns for step, result in results.items()}
    kinds = {step: own.get("kind_after_writes") or own["kind"] for step, own in columns.items()}
    of_sysbench = {step: one.columns["group"] for step, one in results.items() if one.workload == WORKLOAD}
    known = in_tables({kinds[step] for step, group in of_sysbench.items() if group != OTHER_STEPS})

    def place(step: str) -> tuple[bool, int, str, int, bool, list[int], int]:
        own, kind = columns[step], kinds[step]
        at = known.index(kind) if kind in known else len(known)
        numbers = [int(number) for number in re.findall(r"\d+", step)]
        return kind not in known, at, kind, own.get("range") or 0, kind != own["kind"], numbers, own["clients"]

    return sorted(columns, key=place)


def _manifest(card: StudyCard, run: _Run, position: int, engine: str) -> Manifest:
    first = run.first
    times = [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in run.files]
    measured_s = sum(result.columns.get("elapsed_s") or 0.0 for result in run.steps.values())
    return Manifest(
        study=card.study,
        run=f"r{run.round:02}@{run.dbms}@{run.host}",
        unit=f"r{run.round:02}@{run.dbms}@{run.host}",
        side=None,
        twin=False,
        host=run.host,
        dbms=run.dbms,
        engine=_engine(run, engine),
        build=run.named.build,
        config=run.named.config,
        occasion=1,
        round=run.round,
        position=position,
        seed=0,
        workload=card.workload,
        identity=hashlib.sha256(repr((run.dbms, sorted(first.options.items()))).encode()).hexdigest()[:16],
        version=_version(run),
        version_comment="as its name says; imported",
        build_source=f"imported: {one_line(first.dbms)}",
        build_digest="",
        options=dict(first.options),
        parameters=card.parameters,
        placement=Placement(kind="not known", server_cpus=(), client_cpus=(), observer_cpus=()),
        rqps_version=__version__,
        git_revision=None,
        tools=dict(first.tools),
        machine=dict(first.machine),
        started_at=min(times),
        ended_at=max(times),
        elapsed_s=measured_s,
        measured_s=measured_s,
        outcome="ok",
        warnings=(Warning_(kind="imported", text="measured by somebody else: state of the machine not known"),),
        imported=Imported(source=one_line(str(first.origin)), files=len(run.files), digest=run.digest),
    )


def _engine(run: _Run, otherwise: str) -> str:
    engine = next((result.engine for result in run.steps.values() if result.engine), "")
    engine = engine if engine in ENGINES else otherwise or engine
    if engine not in ENGINES:
        what = f"{engine!r}, which is none of {', '.join(ENGINES)}" if engine else "not known"
        raise RqpsError(f"{run.first.file}: the engine of {run.dbms} is {what}", fix="name it with --engine")
    return engine


def _in_words(card: StudyCard, runs: Sequence[_Run], unread: Sequence[Unread]) -> str:
    """A summary of the imported study and of what was not read."""
    steps = {step for run in runs for step in run.steps}
    rounds = f"{min(Counter((run.host, run.dbms) for run in runs).values())} to {card.rounds}"
    several = counted(card.rounds or 1, "round") if rounds.startswith(f"{card.rounds} ") else f"{rounds} rounds"
    lines = [f"{card.study}: {len(card.dbms)} dbms, {counted(len(steps), 'step')}, {several}; base is {card.base}"]
    for run in runs:
        if missing := steps - run.steps.keys():
            named = ", ".join(sorted(missing)[:MOST_SHOWN])
            more = f" and {len(missing) - MOST_SHOWN} more" if len(missing) > MOST_SHOWN else ""
            lines.append(f"{run.dbms}, round {run.round}: lacks {named}{more}")
    by_reason: dict[str, list[str]] = {}
    for place, reason in unread:
        by_reason.setdefault(reason, []).append(place)
    for reason, places in list(by_reason.items())[:MOST_REASONS]:
        more = f" and {len(places) - MOST_SHOWN} more" if len(places) > MOST_SHOWN else ""
        lines.append(f"not read, {reason}: {', '.join(places[:MOST_SHOWN])}{more}")
    return "\n".join(lines)
