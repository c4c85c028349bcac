"""The job, a file that the run's notebook reads: it describes one run completely, with the paths of builds, the
translated options and the chosen CPUs."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import psutil
from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, TypeAdapter, ValidationInfo

from rqps.engines import Prepared, Say, engine_of, facts_of
from rqps.engines.cache import cache_dir, scratch_dir, short_key
from rqps.engines.making import refuse_unlinked
from rqps.engines.sources.programs import perf, valgrind
from rqps.errors import RqpsError
from rqps.measure import placement
from rqps.measure.machine import nearest_existing
from rqps.measure.notes import Notes
from rqps.measure.recording import sampled_event
from rqps.notebook import LOGS, SOCKET
from rqps.numbers import counted, gigabytes, megabytes
from rqps.scratch import refuse_long, socket_of_any
from rqps.store.manifest import Placement
from rqps.study import Run
from rqps.study.reading import look_beside
from rqps.workloads import PARAMETERS, Workload, workload

JOB = f"{LOGS}/job.json"
"""The name of the job's file in a run's folder."""
LEAST_ROOM_BYTES = 50_000_000
"""Free space, in bytes, that every run needs at least: even the smallest server writes more before its first row."""
TAKEN = ("already in use", "Unable to lock", "Another process with")
"""Parts of server messages about a resource that only one server can use at a time."""


def _read(value: Any, info: ValidationInfo) -> Any:
    kind = engine_of(info.data["run"].build_spec).prepared
    return value if isinstance(value, kind) else TypeAdapter(kind).validate_python(value)


def member_folder(folder: Path, run: Run) -> Path:
    """The folder of one dbms in a duet's folder; the run's folder itself if the run is not a duet."""
    return folder / (run.side or "")


class Job(BaseModel):
    """A run that is ready to be measured: its build is found, its options are translated, its tables are loaded and
    its CPUs are chosen."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    run: Run
    folder: Path
    """The run's folder, which contains one folder per dbms in a duet."""
    prepared: Annotated[
        Prepared,
        PlainValidator(_read),
        PlainSerializer(lambda prepared: TypeAdapter(type(prepared)).dump_python(prepared, mode="json")),
    ]
    """The dbms as its engine has prepared it: with the path of its build and its translated options."""
    data: Path
    """The loaded tables. The run's server works on a copy of them."""
    placements: dict[int, Placement]
    """The placements of the run's steps, by number of clients: steps with equally many clients have one placement."""
    git_revision: str | None
    """The git commit of the folder that contains runs.yaml."""
    runs_yaml_folder: Path | None = None
    """The folder at which relative paths of files start; None if the job was not written by `rqps run`."""
    beside: tuple["Job", ...] = ()
    """The jobs of the duet's other dbms, with the same folder and placements."""
    published_in: Path | None = None
    """The study's folder, if the notebook has to move the finished run there itself; None if `rqps run` moves it."""

    @property
    def members(self) -> tuple["Job", ...]:
        return (self, *self.beside)

    @property
    def tables(self) -> Path:
        """The folder for the raw tables and the manifest of this dbms."""
        return member_folder(self.folder, self.run)

    @property
    def workload(self) -> Workload:
        return workload(self.run.workload)

    @property
    def placement(self) -> Placement:
        """The placement of the whole run, with which its server starts."""
        return placement.of_run(self.placements)

    def placement_of(self, step: str) -> Placement:
        return self.placements[self.workload.clients(step, self.run.parameters)]

    @property
    def logs(self) -> Path:
        return self.tables / LOGS

    @property
    def notes(self) -> Notes:
        return Notes(self.folder)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Puts the name of the dbms before the message of an error in a duet, unless the message has the name already
        (not only as part of a path)."""
        try:
            yield
        except RqpsError as error:
            name = self.run.dbms
            if self.run.side is None or re.search(rf"(?<!/){re.escape(name)}", error.message):
                raise
            message, fix = f"{name}: {error.message}", error.fix
            if any(words in error.message for words in TAKEN):
                message = f"{name} can't run beside the other servers of its duet: {error.message}"
                fix = "take the option with the shared port or file out of the config, or set method: rounds"
            raise RqpsError(message, fix=fix) from error

    def write(self) -> Path:
        """Writes the job into the run's folder and returns the file."""
        for member in self.members:
            member.logs.mkdir(parents=True, exist_ok=True)
        file = self.folder / JOB
        file.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return file


def read_job(file: str | Path) -> Job:
    job = Job.model_validate_json(Path(file).read_text(encoding="utf-8"), context=PARAMETERS)
    if job.runs_yaml_folder:
        look_beside(job.runs_yaml_folder)
    return job


@dataclass(frozen=True)
class Ready:
    """The fields of a job that are equal for all runs of one dbms."""

    prepared: Prepared
    data: Path
    placements: dict[int, dict[int, Placement]]
    """Maps the number of servers that are measured at once to the placements of the steps."""

    def job(self, run: Run, folder: Path, git_revision: str | None, servers: int = 1) -> Job:
        own = {**vars(self), "placements": self.placements[servers]}
        job = Job(run=run, folder=folder, git_revision=git_revision, **own)
        if run.layout is None:
            return job
        build = engine_of(run.build_spec).locate(run.build, run.build_spec, lambda _: None)
        return job.model_copy(update={"prepared": replace(cast(Any, self.prepared), build=build)})


def make_ready(runs: Sequence[Run], say: Say) -> dict[str, Ready]:
    """Fetches each build, loads each table and translates each config once, so that a mistake shows before the
    first run. Returns one result per dbms. It holds for all layouts of the build, since all layouts use the tables
    that the build in the linker's own order of functions has loaded. All `runs` must belong to one study."""
    refuse_without_memory(runs)
    refuse_without_room(runs)
    one, modes = runs[0], {run.mode for run in runs}
    refuse_unlinked(((member.build, member.build_spec) for unit in runs for member in unit.members), one.study)
    load = workload(one.workload)
    for servers in {len(run.members) for run in runs}:
        load.tools(one.parameters, servers)  # fetches them, or fails, before anything is measured
    if "stacks" in modes:
        perf(say)
        sampled_event()
    if "waits" in modes:
        from rqps.measure.sampled_waits import waits_are_sampled  # imports polars, which other runs do not need yet

        if not waits_are_sampled():
            perf(say)
    if "instructions" in modes:
        valgrind(say)
    refuse_uncountable(runs)
    cpus = {len(run.members): cpus_of(run) for run in runs}
    ready = {}
    for dbms, run in {member.dbms: member for unit in runs for member in unit.members}.items():
        prepared = engine_of(run.build_spec).prepare(replace(run, build_spec=run.build_spec.with_layout(None)), say)
        ready[dbms] = Ready(prepared, loaded_data(run, prepared, say), cpus)
    return ready


def foresee(runs: Sequence[Run]) -> list[RqpsError]:
    """The errors that `make_ready` would raise and that can be found without fetching or starting anything."""
    if not runs:
        return []
    dbms = [*{run.dbms: run for unit in runs for run in unit.members}.values()]
    checks: list[Callable[[], object]] = [
        partial(check, runs) for check in (refuse_without_memory, refuse_without_room, refuse_uncountable)
    ]
    sockets = {SOCKET, *(facts_of(run.build_spec.engine).socket for run in dbms)}
    checks.append(partial(refuse_long, socket_of_any(max(sockets, key=len))))
    by_servers = {len(run.members): run for run in runs}
    checks += [partial(cpus_of, run) for run in by_servers.values()]
    checks += [partial(engine_of(run.build_spec).foresee, run) for run in dbms]
    errors: list[RqpsError] = []
    for check in checks:
        try:
            check()
        except RqpsError as error:
            if str(error) not in map(str, errors):
                errors.append(error)
    return errors


def cpus_of(run: Run) -> dict[int, Placement]:
    """The placements of the run's steps, by number of clients: steps with equally many clients have one placement."""
    load = workload(run.workload)
    clients = [load.clients(step, run.parameters) for step in load.steps(run.parameters)]
    return placement.by_clients(run.placement, clients, load.places_connections(len(run.members)))


def refuse_uncountable(runs: Sequence[Run]) -> None:
    """Refuses to count instructions in steps that can't run a fixed number of operations."""
    run = next((run for run in runs if run.mode == "instructions"), None)
    if run and (steps := workload(run.workload).uncountable(run.parameters)):
        raise RqpsError(
            f"{run.workload}: instructions can't be counted in steps without a fixed number of operations: "
            f"{', '.join(steps)}",
            fix=f"name other steps in study {run.study!r}, or set its instructions_rounds to 0",
        )


def refuse_without_memory(runs: Sequence[Run]) -> None:
    """Refuses runs whose servers do not fit into memory, all servers of a duet together: they would swap while they
    are measured."""
    together = [run.members for run in runs]
    memory = [(sum(engine_of(run.build_spec).memory_bytes(run) for run in some), len(some)) for some in together]
    needed, servers = max(memory, default=(0, 0))
    if needed > (available := psutil.virtual_memory().available):
        raise RqpsError(
            f"{runs[0].study}: {counted(servers, 'server')} at once take about {gigabytes(needed / 1e9)} of memory, "
            f"and {gigabytes(available / 1e9)} are available here",
            fix="write `method: rounds` in runs.yaml to run one server at a time, or name fewer dbms, or smaller "
            "buffer pools"
            if servers > 1
            else "write smaller buffer pools, or measure on a host with more memory",
        )


def refuse_without_room(runs: Sequence[Run]) -> None:
    """Refuses runs whose data do not fit on the disks where they are loaded and copied."""
    needed = max(LEAST_ROOM_BYTES, *(run.parameters.disk_bytes * len(run.members) for run in runs))
    for place, variable in {scratch_dir(): "RQPS_SCRATCH", cache_dir(): "RQPS_CACHE"}.items():
        if needed > (free := shutil.disk_usage(nearest_existing(place)).free):
            raise RqpsError(
                f"{place}: its disk has {megabytes(free)} left, and a run needs {megabytes(needed)} or more there",
                fix=f"make room there, or set {variable} to a folder on a larger disk",
            )


def loaded_data(run: Run, prepared: Prepared, say: Say) -> Path:
    """The loaded data directory; every round of this dbms in an occasion starts from a copy of it. The first
    occasion uses tables that all studies share. A later occasion loads its own tables, and the tables of the
    occasion before are removed.
    """
    load = workload(run.workload)
    name = load.data_name(run.parameters)
    # Keys have equal lengths, so no other study's folder begins with this name.
    of_study = f"{name}-of-{short_key(run.study)}-"
    if run.occasion > 1:
        name = f"{of_study}{run.occasion}"
    data = prepared.loaded(name, lambda server: load.load(server, run.parameters), say)
    for loaded in data.parent.parent.glob(f"{of_study}*"):
        # An embedded engine has a folder for each format of its files. The log of a failed load is a file.
        occasion = loaded.name.removeprefix(of_study).partition("-")[0]
        if occasion != str(run.occasion) and loaded.is_dir():
            shutil.rmtree(loaded)
    return data


def git_revision(folder: Path) -> str | None:
    """The commit that is checked out, with a + if files have been changed since; None without git or a commit."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
