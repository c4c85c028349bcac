"""A study's folder with its finished runs, and estimates of the time for the missing runs."""

import json
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rqps.errors import RqpsError
from rqps.notebook import LOGS
from rqps.schedule.rebuilds import known_versions, with_versions
from rqps.store.manifest import (
    ASKED,
    CARD,
    MANIFEST,
    PACKED_RUNS,
    Manifest,
    check_files,
    finished,
    leaves,
    read_manifest,
    read_study_card,
)
from rqps.study import Duet, Measured, Run, RunsFile, on_host, study_of, unfold
from rqps.study.unfold import scenario_asked

PARTIAL = ".partial"
FAILURE = "failure.json"
FIRST_GUESS_S = 10.0


def this_host() -> str:
    """This host's short name; other characters than letters, digits, _ and - are replaced by a hyphen."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0]) or "localhost"


@dataclass(frozen=True)
class StudyFolder:
    """`data/raw/study=S`: a folder for each run, hidden until the run is complete, and folders of failed attempts."""

    path: Path

    @classmethod
    def of(cls, data: Path, study: str) -> "StudyFolder":
        folder = cls(data / "raw" / f"study={study}")
        if (folder.path / PACKED_RUNS).is_file():
            raise RqpsError(
                f"{folder.path}: this study is packed, and no run can be added to a packed study",
                fix=f"unpack it first: rqps pack {folder.path} --unpack",
            )
        return folder

    def finished(self, run: str) -> Path:
        return self.path / f"run={run}"

    def partial(self, run: str) -> Path:
        return self.path / f".run={run}{PARTIAL}"

    def partials(self) -> tuple[Path, ...]:
        return tuple(sorted(self.path.glob(f".run=*{PARTIAL}")))

    def measured(self, host: str, occasion: int | None = None) -> Measured:
        """The complete duets of a host, and the number of its current occasion: the given `occasion` or, if none is
        given, the latest that has a finished run."""
        sides: dict[Path, list[Manifest]] = {}
        latest = 1
        for path, manifest in finished(self.path):
            if manifest.host == host:
                latest = max(latest, manifest.occasion)
                if manifest.side is not None:
                    sides.setdefault(path.parent, []).append(manifest)
        duets = {
            (manifests[0].mode, manifests[0].round): Duet(
                manifests[0].occasion, tuple(str(manifest.side) for manifest in manifests)
            )
            for unit, manifests in sides.items()
            if len(manifests) == sum(_is_of_a_side(path) for path in unit.iterdir())
        }
        return Measured(duets, occasion or latest)

    def ended_at(self, host: str, occasion: int) -> float:
        """The Unix time at which the last run of an occasion ended; 0 if there is no such run."""
        of_host = (manifest for _, manifest in finished(self.path) if manifest.host == host)
        return max((one.ended_at.timestamp() for one in of_host if one.occasion == occasion), default=0.0)

    def failures(self, run: str) -> tuple[Path, ...]:
        """The failed attempts of a run, oldest first."""
        attempts = (self.path / "failed").glob(f"run={run}.[0-9]*")
        # Shorter names come first, so that attempt 10 follows attempt 9.
        return tuple(sorted(attempts, key=lambda path: (len(path.name), path.name)))

    def failure_of(self, dbms: str) -> Path | None:
        """The latest failed attempt with this dbms."""
        took_part = []
        for record in (self.path / "failed").glob(f"run=*.*/{FAILURE}"):
            with suppress(OSError, ValueError, KeyError):
                failure = json.loads(record.read_text(encoding="utf-8"))
                if dbms in failure["members"]:
                    took_part.append((str(failure["failed_at"]), record.parent))
        return max(took_part)[1] if took_part else None

    def next_failure(self, run: str) -> Path:
        failed = self.path / "failed"
        names = (failed / f"run={run}.{number}" for number in count(len(self.failures(run)) + 1))
        return next(folder for folder in names if not folder.exists())


@dataclass(frozen=True)
class RunState:
    """The state of one run of a study. A run in state `other` was measured under other conditions than runs.yaml now
    requests. A run in state `absent` is never measured, since the version of its build lacks a requested feature."""

    run: Run
    state: Literal["done", "failed", "missing", "other", "absent"]
    attempts: int = 0
    """Number of failed attempts."""
    last_error: str | None = None


def state(
    runs_file: RunsFile, study: str, data: Path, host: str | None = None, *, thorough: bool = False
) -> tuple[RunState, ...]:
    """The state of every run of a study, in the order of the runs. Refuses files that changed since they were
    measured: compares every byte if `thorough`, otherwise only those files whose modification time differs."""
    folder = StudyFolder.of(data, study)
    if (folder.path / CARD).is_file():
        read_study_card(folder.path)
    check_files(finished(folder.path), thorough=thorough)
    hosts = (host,) if host else study_of(runs_file, study).hosts or (this_host(),)
    asked_of_hosts = ((as_measured(folder, runs_file, study, host), host) for host in hosts)
    runs = chain.from_iterable(unfold(asked, study, host, folder.measured(host)) for asked, host in asked_of_hosts)
    return tuple(run_state(folder, run) for run in runs)


def _is_of_a_side(path: Path) -> bool:
    """True for the folder of one server of a duet. JupyterLab makes hidden folders beside a notebook."""
    return path.is_dir() and path.name != LOGS and not path.name.startswith(".")


def as_measured(folder: StudyFolder, runs_file: RunsFile, study: str, host: str) -> RunsFile:
    """A study as a host measures it: with the parameters of the host and the known versions of builds."""
    own = on_host(runs_file, study, host)
    return with_versions(own, study, known_versions(folder.path, own, study, host))


def error_in(failure: Path) -> str:
    """The first line of the error that ended a failed attempt."""
    with suppress(OSError, ValueError, KeyError):
        if (record := failure / FAILURE).is_file():  # reading a named pipe would block
            return str(json.loads(record.read_text(encoding="utf-8"))["error"]).strip().splitlines()[0]
    return f"not recorded, see {failure}"


def run_state(folder: StudyFolder, run: Run) -> RunState:
    failures = folder.failures(run.unit)
    error = error_in(failures[-1]) if failures else None
    if all((folder.finished(member.run) / MANIFEST).is_file() for member in run.members):
        same = all(read_manifest(folder.finished(member.run)).identity == member.identity for member in run.members)
        return RunState(run, "done" if same else "other", len(failures), error)
    if run.absent:
        return RunState(run, "absent")
    return RunState(run, "failed" if failures else "missing", len(failures), error)


def refuse_mixture(folder: StudyFolder, runs: Sequence[Run], elsewhere: Collection[str] = ()) -> None:
    """Refuses to add runs to a study that has runs under other conditions, on any host. Hosts in `elsewhere`, which
    may have parameters of their own, are not compared."""
    asked = {member.dbms: member for run in runs for member in run.members}
    changed: dict[str, tuple[str, ...]] = {}
    count = 0
    ways = ("one after the other", "in turns")
    ordinary = [run for run in runs if run.mode == "throughput"]
    in_turns = any(run.side is not None for run in ordinary)
    check_files(runs_here := finished(folder.path))
    for path, manifest in runs_here:
        run = asked.get(manifest.dbms) if manifest.host not in elsewhere else None
        if run and manifest.identity != run.identity:
            count += 1
            changed[manifest.dbms] = _differences(path, run) or ("other conditions, not recorded which",)
        elif run and ordinary and manifest.mode == "throughput" and (manifest.side is not None) != in_turns:
            count += 1
            changed[manifest.dbms] = (f"method: was measured {ways[not in_turns]}, is now {ways[in_turns]}",)
    if not count:
        return
    lines = [f"  {dbms}: {'; '.join(how)}" for dbms, how in changed.items()]
    raise RqpsError(
        f"{folder.path}: {count} {'run was' if count == 1 else 'runs were'} measured under other conditions "
        "than runs.yaml asks for now:\n" + "\n".join(lines),
        fix="set the measured runs aside with --archive, or undo the change in runs.yaml, "
        "or give the changed study another name",
    )


def write_asked(folder: Path, run: Run) -> None:
    """Stores the requested values of a run in its folder. If runs.yaml changes later, `refuse_mixture` compares the
    stored values with it, and its error names those that differ."""
    (folder / ASKED).write_text(json.dumps(_asked(run), indent=2) + "\n", encoding="utf-8")


def _asked(run: Run) -> dict[str, Any]:
    """All requested values of a run that its identity depends on, as JSON values."""
    return scenario_asked(run.build_spec, run.scenario) | {
        "build": run.build_spec.model_dump(mode="json", exclude_none=True),
        "options": {
            name: f"{option.value} where there is one" if option.optional else option.value
            for name, option in sorted(run.options.items())
        },
        "workload": run.workload,
        "parameters": run.parameters.model_dump(mode="json"),
        "placement": run.placement or "chosen for the host",
    }


def _differences(folder: Path, run: Run) -> tuple[str, ...]:
    """Describes the requested values that have changed since the run was measured."""
    try:
        then = json.loads((folder / ASKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    before, now = dict(leaves(then)), dict(leaves(_asked(run)))

    def word(values: dict[str, Any], name: str) -> str:
        return json.dumps(values[name]) if name in values else "not set"

    changed = sorted(name for name in before | now if before.get(name) != now.get(name))
    return tuple(f"{name} was {word(before, name)}, is now {word(now, name)}" for name in changed)


@dataclass
class Estimate:
    """The time left for runs. A run's expected time is its time under load plus the mean overhead of earlier runs of
    its mode or, without such runs, of any mode. One mean is used for any number of servers, since most of the
    overhead does not depend on the number of servers."""

    planned: Sequence[float]
    """Seconds under load of each run."""
    modes: Sequence[str] = ()
    """The mode of each run; if empty, all runs have the same mode."""
    overheads_s: dict[str, list[float]] = field(default_factory=dict)
    """The overheads of finished runs by mode: their time in addition to the time under load, in seconds."""
    done_s: float = 0.0
    done: int = 0

    def finished(self, elapsed_s: float, ok: bool) -> None:
        if ok:
            self.overheads_s.setdefault(self._mode(self.done), []).append(elapsed_s - self.planned[self.done])
        self.done_s += elapsed_s
        self.done += 1

    def overhead_s(self, mode: str = "") -> float:
        known = self.overheads_s.get(mode) or [
            seconds for of_mode in self.overheads_s.values() for seconds in of_mode
        ]
        return sum(known) / len(known) if known else FIRST_GUESS_S

    def _mode(self, at: int) -> str:
        return self.modes[at] if self.modes else ""

    @classmethod
    def of(cls, runs: Sequence[Run], overheads_s: Mapping[str, list[float]] = MappingProxyType({})) -> "Estimate":
        return cls([run.estimated_seconds for run in runs], [run.mode for run in runs], dict(overheads_s))

    def left_s(self, elapsed_s: float = 0.0) -> float:
        """Seconds left when the run under way has taken `elapsed_s`. If it takes longer than expected, only the
        runs after it count."""
        due = range(self.done, len(self.planned))
        expected = [max(self.planned[at] + self.overhead_s(self._mode(at)), 0.0) for at in due]
        return max(expected[0] - elapsed_s, 0.0) + sum(expected[1:]) if expected else 0.0

    def share(self, elapsed_s: float = 0.0) -> float:
        """The share of the total time that has passed: from 0 to 1, and 1 only when all runs have ended."""
        spent = self.done_s + elapsed_s
        total_s = spent + self.left_s(elapsed_s)
        if self.done >= len(self.planned):
            return 1.0
        return min(spent / total_s, 0.99) if total_s else 0.0
