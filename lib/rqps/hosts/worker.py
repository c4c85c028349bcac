"""The Dask worker on a host: it measures one run at a time, and shuts down cleanly when it is no longer needed.

`serve` is started through SSH. It reads the scheduler's address and keys from its standard input, so that they are in
no file, command line or environment that others could read; then it listens on loopback only. A line on its standard
input at regular intervals means that the worker is still needed; silence, or the end of the input, means that the
worker has to end.
"""

import asyncio
import hashlib
import json
import logging
import os
import platform
import signal
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import TypeAdapter

import rqps
from rqps.engines.cache import cache_dir, sha256
from rqps.errors import RqpsError, no_room, of_the_system
from rqps.measure import placement
from rqps.measure.doctor import examine
from rqps.measure.machine import text
from rqps.notebook import PIDS
from rqps.schedule import run_folder
from rqps.schedule.run_study import LocalRunner
from rqps.schedule.state import StudyFolder
from rqps.schedule.watch import STOPPING, Watcher
from rqps.store.manifest import CARD
from rqps.study import Run
from rqps.workloads import PARAMETERS

LOOPBACK = "127.0.0.1"
SLOT = "run"
"""The name of the Dask resource that each task needs. A worker has one unit of this resource, so it runs one task at
a time."""
PATIENCE_S = 60
"""Maximum wait for the scheduler's answer, in seconds; without a limit a worker would retry for ever."""
BEAT, BEAT_S = "{}\n", 15.0
"""The line that `rqps run` sends to a worker that is still needed, and the seconds between two such lines. The
worker's heartbeat to the scheduler has the same interval: at Dask's default it would wake up twice a second."""
SILENCE_S = 120.0
"""Seconds without a line from `rqps run`, after which a worker takes the connection for broken and ends."""
QUIET = {
    "distributed.scheduler.allowed-failures": 0,  # if a worker dies, no other worker gets its run
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.http.routes": [],  # no web pages, which anybody could read
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,  # the profiler would wake up a hundred times a second
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.diagnostics.nvml": False,
}
"""Settings of Dask for scheduler and workers, so that Dask stays idle while a step is measured."""
CHECKOUT = Path(rqps.__file__).parents[2]
PARTS = ("lib", "notebooks/run", "Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE")
"""Files and folders of the checkout that a host needs."""
MADE = {"__pycache__", ".ipynb_checkpoints", "rqps.egg-info"}
RUNS = TypeAdapter(tuple[Run, ...])


def checkout_files() -> list[str]:
    paths = (path for part in PARTS for path in (CHECKOUT / part, *(CHECKOUT / part).rglob("*")))
    return sorted(str(path.relative_to(CHECKOUT)) for path in paths if path.is_file() and not MADE & {*path.parts})


def versions() -> dict[str, str]:
    """The versions that must be equal here and on the host: of rqps and its files, of its packages, and of Python."""
    digests = {name: sha256(CHECKOUT / name) for name in checkout_files()}
    lock = digests.get("requirements.lock", "none")
    code = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
    python = ".".join(platform.python_version_tuple()[:2])
    return {"rqps": f"{rqps.__version__} ({code[:8]})", "lock": lock[:8], "Python": python}


def facts(thorough: bool = False) -> dict[str, Any]:
    """The facts about this host that other machines need; `thorough` adds the doctor's findings. Also used as a Dask
    task."""
    return {
        "versions": versions(),
        "machine": text(Path("/proc/sys/kernel/random/boot_id")),
        "cpus": sorted(os.sched_getaffinity(0)),
        "memory_gb": psutil.virtual_memory().total / 2**30,
        "doctor": examine(cache_dir()) if thorough else [],
    }


@dataclass(frozen=True)
class Result:
    """The folder of a run as the worker returns it: each file with its modification time."""

    files: Mapping[str, tuple[int, bytes]]
    digest: str
    error: str | None

    @classmethod
    def of(cls, folder: Path, error: str | None) -> "Result":
        paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
        ours = (path for path in paths if path.name != PIDS and not path.name.startswith("owner-"))
        files = {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in ours}
        return cls(files, cls.digest_of(files), error)

    @staticmethod
    def digest_of(files: Mapping[str, tuple[int, bytes]]) -> str:
        digests = {name: [at_ns, hashlib.sha256(content).hexdigest()] for name, (at_ns, content) in files.items()}
        return hashlib.sha256(json.dumps(digests).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Writes the files into a folder; refuses files that changed during the transfer."""
        if self.digest_of(self.files) != self.digest:
            raise RqpsError(
                "the files that came back differ from those that the worker sent (checksum)",
                fix="run the same command again",
            )
        for name, (modified_ns, content) in self.files.items():
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                raise RqpsError(
                    f"{name}: a file outside of the run's folder came back", fix="see who controls that host"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, ns=(modified_ns, modified_ns))


@dataclass(frozen=True)
class Order:
    """Identifies the `rqps run` that sends a task."""

    study: str
    git_revision: str | None
    topic: str
    """The Dask topic for messages to this `rqps run`; no other `rqps run` uses it."""


class Host(Watcher):
    """Measures on this host for an `rqps run` on another machine, one run at a time, and reports to it."""

    def __init__(self, order: Order) -> None:
        from distributed import get_worker

        super().__init__()
        self._order, self._worker, self._last = order, get_worker(), ""
        self._task: Any = None
        """Dask's key of the current task; None if no task is under way."""
        self._preparing = False
        self._runner = LocalRunner(CHECKOUT / "notebooks", CHECKOUT / "runs.yaml", order.git_revision)
        self._study = StudyFolder.of(cache_dir().parent / "data", order.study)

    @property
    def stopped_by(self) -> signal.Signals | None:
        """The signal that stops the current task. Also set if nobody waits for this task any more, since its
        `rqps run` or the scheduler has ended."""
        if self._task is not None and self._stopped_by is None:
            task = self._worker.state.tasks.get(self._task)
            if task is None or task.state != "executing":
                self._stopped_by = signal.SIGTERM
        return self._stopped_by

    def say(self, text: str) -> None:
        self._worker.log_event(self._order.topic, {"say": text})

    def doing(self, what: str, *, at_once: bool = False) -> None:  # noqa: ARG002 every change is sent immediately
        if what != self._last:
            self._last = what
            self._worker.log_event(self._order.topic, {"doing": what})

    @contextmanager
    def _at_work(self, preparing: bool = False) -> Iterator[None]:
        self._task, self._preparing = self._worker.get_current_task(), preparing
        try:
            with run_folder.measuring(self._order.study):
                yield
        except OSError as error:
            raise of_the_system(error) from error
        finally:
            self._task = None

    def make_ready(self, runs: Sequence[Run]) -> None:
        with self._at_work(preparing=True):
            run_folder.clear_stale(self._study, self.say)
            self._runner.check(runs)
            self._runner.make_ready(runs, self.say)

    def measure(self, run: Run, card: str) -> Result:
        with self._at_work():
            self._study.path.mkdir(parents=True, exist_ok=True)
            (self._study.path / CARD).write_text(card, encoding="utf-8")  # the run's notebook reads this file
            partial, before = run_folder.begin(self._study, run), os.sched_getaffinity(0)
            try:
                _keep_to(self._runner.observer_cpus(run))
                error = self._runner.measure(run, partial, self)
                if no_room(error or ""):
                    raise RqpsError(f"{run.words}: {error}", fix=f"make room for {cache_dir().parent} on the host")
                return Result.of(partial, error)
            finally:
                run_folder.remove(partial)
                _keep_to(before)

    async def stop(self) -> None:
        """Shuts the current task down cleanly and waits for its end."""
        self._stopped_by = signal.SIGTERM
        while self._task is not None:
            for child in psutil.Process().children() if self._preparing else ():
                child.terminate()  # stops a download, or makes a keeper shut its server down cleanly
            await asyncio.sleep(0.2)


_ours = [os.getpid()]
"""The processes that move to the observer's CPUs during a run: this one, and the SSH server that it talks to."""
_hosts: dict[Order, Host] = {}


def _keep_to(cpus: Collection[int]) -> None:
    for pid in _ours:
        placement.apply(pid, cpus)


def _host(order: Order) -> Host:
    return _hosts.get(order) or _hosts.setdefault(order, Host(order))


def make_ready(order: Order, runs: str) -> None:
    """A Dask task: prepares all runs of a study; `runs` is their JSON text, as `RUNS` writes it."""
    _host(order).make_ready(RUNS.validate_json(runs, context=PARAMETERS))


def measure(order: Order, run: str, card: str) -> Result:
    """A Dask task: measures one run of the study; `card` is the text of its `study.json`."""
    (only,) = RUNS.validate_json(run, context=PARAMETERS)
    return _host(order).measure(only, card)


async def stop(*orders: Order) -> None:
    """Stops the work for these orders; if no order is given, all work."""
    for order in orders or tuple(_hosts):
        if host := _hosts.pop(order, None):
            await host.stop()


def serve() -> None:
    """Runs a worker until it is no longer needed. This is the main function of the worker's process."""
    asyncio.run(_serve())


async def _serve() -> None:
    heard = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(heard), sys.stdin)
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    _tell(port=port)
    while not (order := json.loads(await heard.readline())):
        pass
    import dask
    from distributed import Security, Worker

    class Still(Worker):
        async def heartbeat(self) -> None:
            await super().heartbeat()
            self.periodic_callbacks["heartbeat"].callback_time = 1000 * BEAT_S

    dask.config.set(QUIET)
    with suppress(OSError):  # raised if the SSH server belongs to another user
        os.sched_setaffinity(os.getppid(), os.sched_getaffinity(os.getppid()))
        _ours.append(os.getppid())
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # `rqps run` reports the errors
    worker = Still(
        order["scheduler"],
        name=order["host"],
        nthreads=1,
        resources={SLOT: 1},
        memory_limit=0,
        host=LOOPBACK,
        port=port,
        protocol="tls",
        contact_address=order["contact"],
        security=Security(require_encryption=True, **order["keys"]),
        local_directory=str(cache_dir().parent / "worker"),
        death_timeout=PATIENCE_S,
    )
    async with worker:
        _tell(ready=True)
        ended = asyncio.ensure_future(worker.finished())  # type: ignore[no-untyped-call]
        for number in STOPPING:
            asyncio.get_running_loop().add_signal_handler(number, ended.cancel)
        while not ended.done():
            line = asyncio.ensure_future(heard.readline())
            await asyncio.wait((line, ended), timeout=SILENCE_S, return_when=asyncio.FIRST_COMPLETED)
            if not line.done() or not line.result():
                break
        await stop()


def _tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)
