"""A campaign of faults: processes of real studies are killed, stopped or interrupted at random moments, by a seed.

    .venv/bin/python tests/campaign.py --table docs/faults.md

It can be stopped at any time; the same command goes on from there, and so do pieces of it (--minutes 7), also side by
side (--only duet report --folder A --outcomes all.jsonl). After each fault, nothing of it may be left: no process, no
lock, no litter. What was measured before is as it was, to the byte and inode; what was not whole is not seen; and the
same command goes on to the end, with every run once. Only processes that the campaign started are touched, by their
ids.
"""

import argparse
import ctypes
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path

import psutil
import rqps
from child import share_cache, until
from rqps.engines import engine_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import cache_dir, sha256
from rqps.errors import RqpsError
from rqps.measure.notes import noted
from rqps.schedule.state import StudyFolder, as_measured, this_host
from rqps.schedule.tries import file_of_try
from rqps.scratch import IN_USE, PREFIX
from rqps.store.manifest import CARD, check_files, finished
from rqps.study import first_rounds, read_runs_file, unfold
from rqps.workloads import PARAMETERS
from rqps.workloads.insert_benchmark.generator import MEMORY

RUNS_YAML = """\
builds:
  my5624: {mysql: "5.6.24"}
  rx611: {rocksdb: "6.11.4"}
  rx973: {rocksdb: "9.7.3"}
configs:
  base:
    {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 8M, table_definition_cache: 400, log_bin: OFF, ssl: OFF}
  lazy: {extends: base, innodb_flush_log_at_trx_commit: 2}
  small: {write_buffer_size: 100K, target_file_size_base: 100K, max_bytes_for_level_base: 400K}
  crc: {extends: small, checksum_type: 1}
studies:
  duet:
    question: What is left of it?
    workload: sysbench
    dbms: [my5624.base, my5624.lazy]
    base: my5624.base
    rounds: 2
    seed: 1
    parameters: {steps: [update-index], table_rows: 2000, seconds: 1, warmup_seconds: 0}
  rounds: {extends: duet, method: rounds, rounds: 1, parameters: {steps: [point-query]}}
  inserts:
    question: What is left of it?
    workload: insert-benchmark
    dbms: [my5624.base, my5624.lazy]
    base: my5624.base
    rounds: 1
    parameters: {load_rows: 4000, write_rows: 1000, rates: [100], seconds: 1, wait: settled, wait_seconds: 1}
  lookups:
    question: What is left of it?
    workload: point-lookups
    dbms: [my5624.base, my5624.lazy]
    base: my5624.base
    rounds: 1
    method: rounds
    parameters: {engines: [innodb], kinds: [pk, cover-force], clients: [1], table_rows: 2000, queries: 9000}
  db-bench:
    question: What is left of it?
    workload: db-bench
    dbms: [rx973.small, rx973.crc]
    base: rx973.small
    rounds: 1
    parameters: {keys: 20000, cache_mb: 64, seconds: 1, steps: [fillseq, readrandom]}
  probed:
    extends: db-bench
    dbms: [rx611.small, rx973.small]
    base: rx611.small
    parameters: {steps: [readrandom], written_by: "6.11.4", warmup_operations: 1000, counted_operations: 1000}
"""
FILE = "sent/duet.rqps"
TRIED = "mine"
"""The folder of a build that is rebuilt before each try of it."""
SEARCHED = ("--good", "rx611", "--bad", "rx973", "--builds", "8.0.0")
"""Three builds: with all of the catalogue, a bisection counts nine runs in place of three."""
COMMANDS = {
    **{study: ("run", study) for study in ("duet", "rounds", "inserts", "lookups", "db-bench")},
    "report": ("report", "duet"),
    "report of a packed file": ("report", FILE),
    "pack": ("pack", "duet", "--out", FILE),
    "unpack": ("pack", FILE, "--unpack", "--out", "again"),
    "import": ("import", "sent/theirs.csv", "--study", "theirs", "--engine", "mysql"),
    "try": ("try", "--build", f"./{TRIED}", "point-query", "--config", "base", "--rounds", "1"),
    "bisect": ("bisect", "probed", "byrx.readrandom", *SEARCHED, "--count"),
}
MEASURE = ("run", "try", "bisect")
"""The commands whose faults come while they measure."""
KINDS = (
    *("duet", "rounds", "pack", "inserts", "duet", "lookups", "report", "db-bench", "rounds", "unpack"),
    *("try", "inserts", "lookups", "duet", "rounds", "db-bench", "bisect", "lookups", "import"),
    "report of a packed file",
)
"""In the order in which they get a fault, again and again."""
BESIDE = 4
"""The place there of one that somebody else tries to measure beside."""
PHASES = {
    "beginning": 3.0,
    "loading": 2.0,
    "starting": 1.0,
    "warming up": 0.3,
    "a step": 1.5,
    "stopping": 0.5,
    "writing": 0.2,
    "between runs": 0.3,
    "reporting": 12.0,
    "packing": 0.1,
    "importing": 0.5,
}
"""In their order, each with the longest time from its beginning to a fault."""
MEASURING = tuple(PHASES)[:8]
SIGNALS = {"KILL": 6, "TERM": 2, "INT": 2, "HUP": 1, "STOP": 2}
"""With how often each is chosen, in proportion."""
VICTIMS: tuple[str, ...] = (
    *("rqps", "kernel", "keeper", "server", "load generator"),
    *("the kernel's group", "the keeper's group", "everything"),
)
PARTS = {
    "ipykernel_launcher": "kernel",
    "keeper.py guard": "keeper",
    "--datadir=": "server",
    "mysqlslap": "load generator",
    "sysbench": "load generator",
    "rocksdb-driver": "load generator",
}
"""What a process plays, by words of its command line; the first that is there counts."""
PATIENCE_S = 1800.0
ENDS_S = 90.0
"""A keeper gives its server a minute to stop."""
PR_SET_CHILD_SUBREAPER = 36
LATER_S = 2**32
HANGS = 1000
"""In place of the exit code of a command that did not end."""
SHOWN = 1500


@dataclass(frozen=True)
class Fault:
    """Something that is done to a process of a command in a phase of it."""

    number: int
    kind: str
    phase: str
    victim: str
    signal: str
    after_s: float
    stopped_s: float
    at_once: bool
    """The next command follows at once, as people do it, whatever still ends."""

    def __str__(self) -> str:
        return f"{self.number}: SIG{self.signal} to {self.victim} of {' '.join(COMMANDS[self.kind])}, {self.phase}"


def faults(count: int, seed: int) -> Iterator[Fault]:
    """The same ones for the same seed."""
    for number, kind in enumerate(islice(cycle(KINDS), count)):
        chance = random.Random(f"{seed} {number}")
        phase = MEASURING[(number + number // len(KINDS)) % len(MEASURING)]
        victims = VICTIMS
        if COMMANDS[kind][0] not in MEASURE:
            phase, victims = f"{COMMANDS[kind][0]}ing", ("rqps", "kernel", "the kernel's group", "everything")
        yield Fault(
            number=number,
            kind=kind,
            phase=phase,
            victim=chance.choice(victims),
            signal=chance.choices(list(SIGNALS), list(SIGNALS.values()))[0],
            after_s=chance.uniform(0, PHASES[phase]),
            stopped_s=chance.uniform(0.5, 4),
            at_once=chance.random() < 1 / 3,
        )


@dataclass
class Outcome:
    number: int
    fault: str
    hit: str
    """The victim, or the one in its place where it was not there."""
    phase: str
    """The one that it was hit in."""
    ended: str
    wrong: list[str] = field(default_factory=list)


class Campaign:
    """A folder with studies of its own, and all that their processes write: data, cache, temporary files."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print) -> None:
        self.folder, self.say = folder.resolve(), say
        # Orphans become ours, as they become those of systemd in a session of its own: so we know all of them.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.raw, self.cache, self.temporary = (self.folder / name for name in ("data/raw", "cache", "t"))
        for value in (self.raw, self.cache, self.temporary, self.folder / "sent"):
            value.mkdir(parents=True, exist_ok=True)
        (self.folder / "runs.yaml").write_text(RUNS_YAML)
        # The page of published results is the same for all studies, and is made where it is older than one of them.
        (published := self.folder / "data/report/published_results.html").parent.mkdir(parents=True, exist_ok=True)
        published.touch()
        os.utime(published, (LATER_S, LATER_S))
        share_cache(self.cache, cache_dir())
        lines = [f"my{8 + n // 250}.base,step-{n % 250},{n % 5 + 1},{100 + n}" for n in range(2500)]
        (self.folder / "sent/theirs.csv").write_text("\n".join(["dbms,step,round,operations_per_s", *lines]))
        if not (self.folder / TRIED).exists():
            spec = BuildSpec.model_validate({"mysql": "5.6.24"})
            shutil.copytree(engine_of(spec).locate("my5624", spec, say).directory, self.folder / TRIED)

    def do(self, fault: Fault) -> Outcome:
        """One fault, and whatever follows until all is whole again."""
        self._take_away(fault)
        began, before = time.monotonic(), self.digests()
        made = [path for path in (self.folder / "data/report/duet/index.html", self.folder / FILE) if path.is_file()]
        command, existing = COMMANDS[fault.kind], set(self.study(fault.kind).glob("run=*"))
        process = self.start(command)
        phase = self._wait_for(fault, process)
        beside = []
        if fault.number % len(KINDS) == BESIDE and process.poll() is None:
            beside = self._not_refused(fault.kind)
            phase = self._doing(self.study(fault.kind), existing)
        hit = self._strike(fault, process)
        code = self.end_of(process)
        outcome = Outcome(fault.number, str(fault), hit, phase, ended(code, self.words()))
        wrong = self._wrong_words(code) + beside
        if not fault.at_once:
            wrong += self._still_running()
        between, changed = self._compared(before)
        wrong += changed + self._seen() + [f"gone: {path}" for path in made if not path.is_file()]
        if fault.kind == "unpack":  # folders of runs are never replaced
            shutil.rmtree(self.folder / "again/study=duet", ignore_errors=True)
        shared = [path for path in MEMORY.glob(f"{PREFIX}*") if not is_locked(path / IN_USE)]
        code = self.end_of(self.start(command))
        if code:
            wrong.append(f"the next rqps {' '.join(command)} ended with {code}: {self.words()[-SHOWN:]}")
        wrong += self._still_running() + self._compared(before | between)[1] + self._seen() + self._litter()
        swept = fault.kind == "inserts"
        wrong += [f"left: {path}" for path in shared if swept and path.exists() and not is_locked(path / IN_USE)]
        wrong += self._incomplete(fault.kind)
        outcome.wrong += [line.replace(str(self.folder), "…") for line in wrong]
        took = f"in {time.monotonic() - began:.0f} s"
        self.say("\n  WRONG: ".join([f"{fault}: {phase}, {hit}: {outcome.ended}, {took}", *outcome.wrong]))
        return outcome

    def _not_refused(self, study: str) -> list[str]:
        """Somebody with a cache and data of his own starts to measure as well, and has to be refused."""
        (other := self.folder / "other").joinpath("data").mkdir(parents=True, exist_ok=True)
        process = self.start(
            COMMANDS[study], data=other / "data", words=other.with_suffix(".txt"), RQPS_CACHE=str(other)
        )
        code, words = self.end_of(process), other.with_suffix(".txt").read_text(errors="replace")
        return (
            [] if code == 1 and "is measuring on this host" in words else [f"not refused: {code}: {words[-SHOWN:]}"]
        )

    def start(
        self, command: Sequence[str], data: Path | None = None, words: Path | None = None, **more: str
    ) -> "subprocess.Popen[str]":
        environment = {name: value for name, value in os.environ.items() if name not in ("RQPS_DATA", "RQPS_SCRATCH")}
        environment |= {"RQPS_CACHE": str(self.cache), "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"}
        environment["RQPS_HOST_LOCK"] = f"rqps-campaign-{os.getpid()}"  # campaigns go on side by side
        with (words or self.folder / "words.txt").open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "rqps.cli", *command, "--data", str(data or self.folder / "data")],
                cwd=self.folder,
                env=environment | more,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def end_of(self, process: "subprocess.Popen[str]") -> int:
        """The exit code; of one that does not end, after all that it started were killed."""
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            for one in ours(process.pid):
                send(one, signal.SIGKILL)
            process.wait()
            return HANGS

    def words(self) -> str:
        return (self.folder / "words.txt").read_text(errors="replace")

    def study(self, name: str) -> Path:
        own = self.raw.glob({"try": "study=try-*", "bisect": "study=probed-bisect-*"}.get(name, "none"))
        return next(iter(own), self.raw / f"study={name}")

    def digests(self) -> dict[Path, tuple[int, str]]:
        """The inode and digest of every file of the finished runs."""
        runs = (folder for study in self.raw.iterdir() for folder, _ in finished(study))
        files = (path for folder in runs for path in folder.rglob("*") if path.is_file())
        return {path: (path.stat().st_ino, sha256(path)) for path in files}

    def _take_away(self, fault: Fault) -> None:
        """Takes away some of what the fault's command makes. A report or a packed study has to stay until there is a
        new one."""
        command, name = COMMANDS[fault.kind][0], fault.kind
        if command in ("run", "bisect"):
            shutil.rmtree(self.study(name) / "failed", ignore_errors=True)
            existing = sorted(self.study(name).glob("run=*"))
            gone = 2 if fault.phase == "between runs" else 1
            for run in random.Random(fault.number).sample(existing, min(gone, len(existing))):
                shutil.rmtree(run)
            if fault.phase == "loading":  # the tables of its workload alone, or what all tables are loaded into, too
                studies = read_runs_file(self.folder / "runs.yaml", PARAMETERS).studies
                workload = studies["probed" if command == "bisect" else name].workload
                for made in list(self.cache.glob(f"data/*/{'' if fault.number % 3 == 0 else workload}*")):
                    shutil.rmtree(made, ignore_errors=True)
            return
        if command == "try":
            if not self.study(name).exists():  # the first one keeps the build as it is
                assert self.end_of(self.start(COMMANDS[name])) == 0, self.words()
            made = Path(shutil.copy(self.folder / TRIED / "mysqld", self.folder / TRIED / "made"))
            with made.open("ab") as program:
                program.write(b"x")
            made.replace(self.folder / TRIED / "mysqld")
            return
        if command == "import":
            shutil.rmtree(self.study("theirs"), ignore_errors=True)
            return
        shutil.rmtree(self.folder / "again", ignore_errors=True)
        for needed, made_of_it in (("duet", self.study("duet")), ("pack", self.folder / FILE)):
            if needed != name and not made_of_it.exists():
                code = self.end_of(self.start(COMMANDS[needed]))
                assert code == 0, self.words()

    def _wait_for(self, fault: Fault, process: "subprocess.Popen[str]") -> str:
        """Waits for a phase, or a later one where it is missed; the phase that it is in a while later."""
        if fault.phase == "reporting":
            until(lambda: process.poll() is not None or "kernel" in self.processes(process.pid), PATIENCE_S)
        elif fault.phase in ("packing", "importing"):
            places = [f"[as]*/{PREFIX}*", f"data/raw/{PREFIX}*"]
            until(
                lambda: process.poll() is not None or any([*self.folder.glob(place)] for place in places), PATIENCE_S
            )
        else:
            order, existing = list(PHASES), set(self.study(fault.kind).glob("run=*"))

            def doing() -> str:
                return self._doing(self.study(fault.kind), existing)

            until(lambda: process.poll() is not None or order.index(doing()) >= order.index(fault.phase), PATIENCE_S)
            time.sleep(fault.after_s)
            return doing()
        time.sleep(fault.after_s)
        return fault.phase

    def _doing(self, study: Path, before: set[Path]) -> str:
        """The phase that `rqps run` is in."""
        for partial in study.glob(".run=*.partial"):
            text = noted(partial)
            named = (phase for phase in ("starting", "warming up", "stopping", "writing") if text.startswith(phase))
            return next(named, "a step")
        if list(self.cache.glob(f"data/*/{PREFIX}*")) or list(self.cache.glob(f"data/{PREFIX}*")):
            return "loading"
        return "between runs" if set(study.glob("run=*")) - before else "beginning"

    def _strike(self, fault: Fault, process: "subprocess.Popen[str]") -> str:
        """Sends the signal; the victim, or another one where it is not there."""
        if process.poll() is not None:
            return "nobody, it had ended"
        processes_now = self.processes(process.pid)
        victims = (fault.victim, "server", "load generator", "kernel", "rqps")
        hit = next(victim for victim in victims if victim == "everything" or part_in(victim) in processes_now)
        if hit == "everything":
            chosen = [one for some in processes_now.values() for one in some]
        else:
            chosen = [random.Random(fault.number).choice(processes_now[part_in(hit)])]
            if hit != part_in(hit):
                chosen = [child for child in ours(process.pid) if group_of(child) == group_of(chosen[0])]
        number = signal.Signals[f"SIG{fault.signal}"]
        for one in chosen:
            send(one, number)
        if number == signal.SIGSTOP:
            time.sleep(fault.stopped_s)
            for one in chosen:
                send(one, signal.SIGCONT)
        return hit

    def processes(self, rqps_pid: int) -> dict[str, list[psutil.Process]]:
        """Those that we started, and those that they started, by the part that they play."""
        by_kind: dict[str, list[psutil.Process]] = {}
        for process in ours(rqps_pid):
            with suppress(psutil.NoSuchProcess):
                words = " ".join(process.cmdline())
                part = next((part for name, part in PARTS.items() if name in words), "helper")
                by_kind.setdefault("rqps" if process.pid == rqps_pid else part, []).append(process)
        return by_kind

    def _still_running(self) -> list[str]:
        """Processes that have not ended, and locks that are held by somebody."""
        try:
            until(lambda: not ours(), patience_s=ENDS_S)
        except AssertionError:
            return [f"still running: {process}" for process in ours()]
        locks = (*self.folder.rglob("*.lock"), *self.folder.rglob(IN_USE))
        return [f"still locked: {path}" for path in locks if is_locked(path)]

    def _compared(self, before: dict[Path, tuple[int, str]]) -> tuple[dict[Path, tuple[int, str]], list[str]]:
        """Files as they are now, and the names of those that should be as they were."""
        now = self.digests()
        return now, [f"changed: {path}" for path, was in before.items() if now.get(path) != was]

    def _seen(self) -> list[str]:
        """Whatever a reader sees has to be whole, and so has what was packed or unpacked."""
        wrong = []
        for place in (*self.raw.iterdir(), *self.folder.glob("again/study=*"), *self.folder.glob(FILE)):
            try:
                wrong += self._seen_at(place) if place.is_file() or (place / CARD).exists() else []
            except RqpsError as error:
                wrong.append(str(error))
        return wrong

    def _seen_at(self, place: Path) -> list[str]:
        if place.is_dir():
            check_files(finished(place), thorough=True)
        seen = rqps.load(place, mode=None)
        return [] if place.parent == self.raw else unlike(self._due("duet"), seen)

    def _wrong_words(self, code: int) -> list[str]:
        words = self.words()
        results = {
            # An INT in a callback of the garbage collector: Python says so, and goes on.
            "a traceback": "Traceback" in re.sub(r"Exception ignored in.*\nTraceback", "", words),
            "did not end": code == HANGS,
            "nothing was said": code > 0 and not words.strip(),
            "rows were printed": "VALUES (" in words,
        }
        return [f"{what}: {words[-SHOWN:]}" for what, is_so in results.items() if is_so]

    def _litter(self) -> list[str]:
        """Whatever should have gone: temporary files, copies of data, hidden files but for locks, logs of loading."""
        temporary = [*self.temporary.rglob("*"), *(self.cache / "scratch").glob("*")]
        hidden = self.folder.rglob(".*")
        logs = self.cache.glob("data/*/*.err")
        return [f"left: {path}" for path in sorted({*temporary, *hidden, *logs}) if path.suffix != ".lock"]

    def _incomplete(self, kind: str) -> list[str]:
        """The runs that a study lacks or has too many of, after all."""
        if kind == "bisect":  # its answer says which probes it took
            runs = rqps.load(self.study(kind), mode=None).runs["run"]
            return [] if " brought " in self.words() and runs.is_unique().all() else [f"no answer: {self.words()}"]
        if COMMANDS[kind][0] not in ("run", "try"):
            made = {"report": "data/report/duet/index.html", "pack": FILE, "unpack": f"again/study=duet/{CARD}"}
            made["import"] = f"data/raw/study=theirs/{CARD}"
            path = self.folder / made[kind.partition(" ")[0]]
            return [] if path.is_file() else [f"missing: {path}"]
        return unlike(self._due(kind), rqps.load(self.study(kind), mode=None))

    def _due(self, study: str) -> set[str]:
        """All runs of a study."""
        folder, host = StudyFolder(self.study(study)), this_host()
        study = folder.path.name.removeprefix("study=")
        file = file_of_try(self.folder / "data", study) or self.folder / "runs.yaml"
        runs_file = as_measured(folder, read_runs_file(file, PARAMETERS), study, host)
        runs_file = first_rounds(runs_file, study, 1) if study.startswith("try-") else runs_file
        runs = unfold(runs_file, study, host, folder.measured(host))
        return {member.run for run in runs for member in run.members}


def unlike(due: set[str], study: rqps.Study) -> list[str]:
    """The runs that are not there once."""
    results = Counter(study.runs["run"])
    runs = sorted(due | results.keys())
    return [f"{study.place}: {run} is there {results[run]} times" for run in runs if results[run] != (run in due)]


def ours(waited_for: int = 0) -> list[psutil.Process]:
    """The processes that are below us; those that have ended are gone then, but the one that somebody waits for."""
    processes = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, ChildProcessError):
            if process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
            elif process.pid != waited_for and process.ppid() == os.getpid():
                os.waitpid(process.pid, os.WNOHANG)
    return processes


def is_locked(path: Path) -> bool:
    with suppress(FileNotFoundError), path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def part_in(victim: str) -> str:
    return victim.removeprefix("the ").removesuffix("'s group")


def group_of(process: psutil.Process) -> int:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return 0


def send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def ended(code: int, words: str) -> str:
    """The end of the command that had the fault, in words."""
    if code == HANGS:
        return "did not end"
    if code == 0:
        return "went on to its end"
    if code < 0:
        return "was killed"
    if code > 128:
        return "stopped in order"
    return "kept a failed run, and said why" if " failed" in words else "said why, and ended"


def table(outcomes: Sequence[Outcome], seed: int) -> str:
    """The outcomes by victim and phase, as a table in Markdown."""
    phases = [phase for phase in PHASES if any(outcome.phase == phase for outcome in outcomes)]
    rows = {(outcome.hit, outcome.ended) for outcome in outcomes}
    counts = Counter((outcome.hit, outcome.ended, outcome.phase) for outcome in outcomes)
    order = [*VICTIMS, *sorted({outcome.hit for outcome in outcomes} - {*VICTIMS})]
    lines = [
        f"| {hit} | {how} | {' | '.join(str(counts[hit, how, phase] or '') for phase in phases)} |"
        for hit, how in sorted(rows, key=lambda row: (order.index(row[0]), row[1]))
    ]
    bad = sum(bool(outcome.wrong) for outcome in outcomes)
    head = f"{len(outcomes)} faults (seed {seed}); after {bad} of them a check failed."
    heading = f"| victim | the command | {' | '.join(phases)} |"
    return "\n".join([head, "", heading, "|---|---|" + "---:|" * len(phases), *lines])


def read(file: Path) -> dict[int, Outcome]:
    """The outcomes in a file, by the numbers of their faults."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {result.number: result for result in (Outcome(**json.loads(line)) for line in lines)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=COMMANDS, help="of these, to share them out")
    parser.add_argument("--folder", type=Path, help="where it works; rqps-campaign-SEED in $TMPDIR if not given")
    parser.add_argument("--outcomes", type=Path, help="the file that keeps the outcomes; in the folder if not given")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begins no further fault after these")
    parser.add_argument("--table", type=Path, help="the page that gets the table in place of the one that it has")
    asked = parser.parse_args(argv)
    rqps.save_cpu()
    folder = asked.folder or Path(tempfile.gettempdir()) / f"rqps-campaign-{asked.seed}"
    campaign, saved = Campaign(folder), asked.outcomes or folder / f"outcomes-{asked.seed}.jsonl"
    stops = time.monotonic() + 60 * asked.minutes
    for fault in faults(asked.faults, asked.seed):
        if fault.number not in read(saved) and fault.kind in asked.only and time.monotonic() < stops:
            outcome = campaign.do(fault)
            with saved.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    outcomes = read(saved)
    text = table([outcomes[number] for number in sorted(outcomes)], asked.seed)
    print(text)
    if asked.table:
        before, _, _ = asked.table.read_text().partition("\n<!-- the table -->\n")
        asked.table.write_text(f"{before}\n<!-- the table -->\n\n{text}\n")
    return int(any(one.wrong for one in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
