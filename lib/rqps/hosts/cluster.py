"""Opens the Dask cluster of a study: an existing one, or a scheduler in this process with a worker on each host.

In a cluster that rqps starts, scheduler and workers listen on loopback only and connect through SSH tunnels, so a
host needs to be reachable by SSH only. TLS with keys made for the cluster keeps out other users of the machines.
rqps does not use Dask's own SSHCluster, because that listens on the network, puts its settings on command lines that
every user of the host can read, and leaves a worker behind when the connection breaks.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import wait
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import dask
from asyncssh import SSHClientProcess
from distributed import Client, LocalCluster, Security
from distributed.scheduler import KilledWorker

from rqps.engines import Say, engine_of
from rqps.errors import RqpsError
from rqps.hosts import worker
from rqps.hosts.ssh import Looked, connected, explained, in_checkout, look, send_builds
from rqps.hosts.worker import BEAT, BEAT_S, LOOPBACK, QUIET, RUNS, SLOT, Order, Result
from rqps.measure.notes import Notes, noted
from rqps.schedule.run_study import AGAIN, Runner
from rqps.schedule.watch import POLL_S, Stopped, Watcher
from rqps.store.manifest import CARD, MANIFEST, check_files, read_manifest
from rqps.study import HostSpec, Run

SERVE = "import rqps; rqps.save_cpu(); from rqps.hosts.worker import serve; serve()"
PATIENCE_S = 90.0
"""Maximum wait for a worker to end, in seconds: a stopped run gives its server 75 s to shut down."""
LAST_LINES = 5
JOIN = "start the worker there with its keys, in the checkout: "
JOIN += ".venv/bin/dask worker {address} --name {name} --nthreads 1"
JOIN += " --no-nanny --resources {slot}=1"


@dataclass(frozen=True)
class Cluster:
    """A scheduler and the hosts that have joined it."""

    client: Any
    address: str
    security: Any = None
    """The TLS keys of a cluster that rqps starts; None for an existing cluster."""
    _joined: dict[str, Looked] = field(default_factory=dict)

    def runner(self, name: str, spec: HostSpec, watcher: Watcher, order: Order) -> Runner:
        return (SSHRunner if self.security else ClusterRunner)(name, spec, self, watcher, order)

    def join(self, name: str, looked: Looked) -> None:
        """Adds a host; refuses a host that can't measure or is the same machine as another host."""
        looked.refuse()
        for other, looked_at in self._joined.items():
            if looked.same_as(looked_at):
                raise RqpsError(f"is the same machine as {other}", fix="take one of them out of the study's hosts")
        self._joined[name] = looked

    def do(self, task: Coroutine[Any, Any, None], watcher: Watcher | None = None) -> None:
        """Runs a task in the cluster's own thread and waits for its end; cancels it if the watcher is stopped."""
        doing = asyncio.run_coroutine_threadsafe(task, self.client.loop.asyncio_loop)
        while not wait([doing], POLL_S).done:
            if watcher and watcher.stopped_by:
                doing.cancel()
                raise Stopped
        with explained():
            doing.result()


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """Opens the existing cluster at an address; starts a new cluster if the address is empty."""
    dask.config.set(QUIET)
    if address:
        with _client(address) as client:
            yield Cluster(client, address)
        return
    security = Security.temporary()
    given = {"host": LOOPBACK, "protocol": "tls", "security": security, "dashboard_address": None}
    with (
        LocalCluster(n_workers=0, silence_logs=logging.CRITICAL, **given) as ours,
        Client(ours, set_as_default=False) as client,
    ):
        yield Cluster(client, ours.scheduler_address, security)


def _client(address: str) -> Any:
    """Opens a client of an existing scheduler, with the keys that Dask's configuration names."""
    if not address.startswith("tls://"):
        fix = "start the scheduler with --protocol tls and keys, and write tls://NAME:PORT"
        raise RqpsError(f"--scheduler {address}: rqps uses only a scheduler with TLS", fix=fix)
    security: Any = Security(require_encryption=True)
    if not (security.tls_ca_file and security.tls_client_key and security.tls_client_cert):
        fix = "name ca-file, client.key and client.cert below distributed.comm.tls in ~/.config/dask/distributed.yaml"
        raise RqpsError(f"--scheduler {address}: Dask's configuration names no TLS key and certificates", fix=fix)
    try:
        client: Any = Client(address, security=security, timeout=BEAT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        fix = "see that the scheduler is up, and that its keys and yours are signed by the same authority"
        raise RqpsError(f"--scheduler {address} is not reachable: {error}", fix=fix) from None
    scheduler_version, here = (
        client.get_versions()[side]["packages"]["distributed"] for side in ("scheduler", "client")
    )
    if scheduler_version != here:
        client.close()
        fix = "start the scheduler in the environment of this checkout"
        raise RqpsError(
            f"--scheduler {address} has version {scheduler_version} of distributed, this machine has {here}", fix=fix
        )
    return client


class ClusterRunner(Runner):
    """Measures on another host, whose worker has joined the scheduler under the host's name: each run is a task of
    the worker, and the run's folder is copied back."""

    def __init__(self, name: str, spec: HostSpec, cluster: Cluster, watcher: Watcher, order: Order) -> None:
        self._name, self._spec, self._cluster, self._watcher, self._order = name, spec, cluster, watcher, order
        self._doing = "starting"
        self._lost = ""
        """The reason why the worker is gone; empty while the worker runs."""

    def check(self, runs: Sequence[Run]) -> None:
        """Does nothing, since the worker on the host checks its runs itself."""

    @contextmanager
    def measuring(self, study: str) -> Iterator[None]:  # noqa: ARG002 `self._order` names the study
        client, address = self._cluster.client, self._cluster.address
        # Not client.scheduler_info(): the client's heartbeat may replace its answer by one without workers.
        every = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        named = {str(worker_info["name"]): at for at, worker_info in every.items()}
        fix = JOIN.format(address=address, name=self._name, slot=SLOT)
        if self._name not in named:
            names = ", ".join(sorted(named)) or "none"
            raise RqpsError(f"{address} has no worker {self._name}; its workers are: {names}", fix=fix)
        joined = every[named[self._name]]
        if joined["resources"].get(SLOT) != 1 or joined["nthreads"] != 1:
            raise RqpsError(f"the worker {self._name} of {address} may run other tasks at the same time", fix=fix)
        facts = self._ask("before it reported its versions and CPUs", lambda _: None, worker.facts)
        self._cluster.join(self._name, Looked.of(self._name, self._spec, facts))
        client.subscribe_topic(self._order.topic, self._hear)
        try:
            yield
        finally:
            with suppress(OSError, ValueError):  # raised if the worker is lost
                client.run(worker.stop, self._order, workers=[named[self._name]])

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:  # noqa: ARG002 the host's messages arrive as events
        self._ask("while it prepared its runs", lambda _: None, worker.make_ready, self._order, _written(runs))

    def measure(self, run: Run, folder: Path, watcher: Watcher) -> str | None:
        self._doing = "starting"
        card = (folder.parent / CARD).read_text(encoding="utf-8")

        def show(what: str) -> None:
            if noted(folder) != what:
                Notes(folder).doing(what)  # for `rqps status` in another terminal
            watcher.doing(what)

        when = f"in the middle of {run.words}"
        result: Result = self._ask(when, show, worker.measure, self._order, _written([run]), card)
        result.write(folder)
        finished_runs = [path.parent for path in folder.rglob(MANIFEST)]
        check_files([(path, read_manifest(path)) for path in finished_runs], thorough=True)
        return result.error

    def _ask(self, when: str, show: Say, task: Callable[..., Any], *given: object) -> Any:
        """Sends a task to this host only and returns its result. Shows the host's activity meanwhile."""
        key = f"{task.__name__}-{self._name}-{uuid4()}"
        only = {"workers": [self._name], "allow_other_workers": False, "resources": {SLOT: 1}, "retries": 0}
        future, ended = self._cluster.client.submit(task, *given, key=key, pure=False, **only), Event()
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(POLL_S) and not self._lost:
            if self._watcher.stopped_by:
                self._watcher.say(f"stopping, {self._doing}")
                raise Stopped
            show(self._doing)
        try:
            if future.status == "finished":
                return future.result()
            if future.status == "error" and not isinstance(future.exception(), KilledWorker):
                return future.result()  # raises the error that the task raised on the host
        finally:
            future.release()
        raise RqpsError(f"was lost {when}: {self._why_lost()}", fix=f"see what rqps hosts says, {AGAIN}")

    def _why_lost(self) -> str:
        return self._lost or "Dask lost its worker"

    async def _hear(self, event: tuple[float, dict[str, str]]) -> None:
        _, words = event
        self._doing = words.get("doing", self._doing)
        if "say" in words:
            self._watcher.say(words["say"])


def _written(runs: Sequence[Run]) -> str:
    return RUNS.dump_json(tuple(runs)).decode()


class SSHRunner(ClusterRunner):
    """Measures on a host whose worker is started through SSH when the study begins, and ends when the study ends."""

    _kept: asyncio.Task[None] | None = None

    @contextmanager
    def measuring(self, study: str) -> Iterator[None]:  # noqa: ARG002 `self._order` names the study
        self._open = AsyncExitStack()
        try:
            self._cluster.do(self._start(), self._watcher)
            self._cluster.client.subscribe_topic(self._order.topic, self._hear)
            yield
        finally:
            self._cluster.do(self._let_go())

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:
        builds = {member.build: member.build_spec for run in runs for member in run.members}
        sources = (engine_of(spec).source(name, spec) for name, spec in builds.items())
        trees = [tree for source in sources if (tree := source.present())]
        self._cluster.do(send_builds(self._spec, self._connection, trees, say), self._watcher)
        super().make_ready(runs, say)

    async def _start(self) -> None:
        self._connection = connection = await self._open.enter_async_context(connected(self._spec))
        self._cluster.join(self._name, await look(self._name, self._spec, connection))
        port = urlsplit(self._cluster.address).port
        back = await connection.forward_remote_port(LOOPBACK, 0, LOOPBACK, port or 0)
        self._process = await connection.create_process(in_checkout(self._spec, SERVE))
        self._kept = asyncio.create_task(self._keep(self._process))
        listens = await self._next_message()
        tunnel = await connection.forward_local_port(LOOPBACK, 0, LOOPBACK, listens["port"])
        security = self._cluster.security
        order = {
            "host": self._name,
            "scheduler": f"tls://{LOOPBACK}:{back.get_port()}",
            "contact": f"tls://{LOOPBACK}:{tunnel.get_port()}",
            "keys": {name: getattr(security, name) for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key")},
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        await self._next_message()

    async def _next_message(self) -> dict[str, Any]:
        """Waits for the next message of the worker's process; raises an error if the process ended."""
        line = await self._process.stdout.readline()
        if not line:
            await self._hear_the_last()
            raise RqpsError(
                f"no worker could be started: {super()._why_lost()}", fix="see what `rqps hosts` says about this host"
            )
        facts: dict[str, Any] = json.loads(line)
        return facts

    async def _keep(self, process: SSHClientProcess[str]) -> None:
        """Tells the worker regularly that it is still needed, and records why its process ended."""
        ended = asyncio.create_task(process.wait_closed())
        while not (await asyncio.wait([ended], timeout=BEAT_S))[0]:
            with suppress(OSError):
                process.stdin.write(BEAT)
        last = "\n".join(str(process.collect_output()[1]).strip().splitlines()[-LAST_LINES:])
        killed = f"was ended by SIG{process.exit_signal[0]}" if process.exit_signal else "ended"
        problem = f"its worker {killed}" + f"; its last words:\n{last}" * bool(last)
        self._lost = problem if process.exit_status is not None else "the connection broke"

    def _why_lost(self) -> str:
        self._cluster.do(self._hear_the_last())
        return super()._why_lost()

    async def _hear_the_last(self) -> None:
        if self._kept:
            await asyncio.wait([self._kept], timeout=BEAT_S)

    async def _let_go(self) -> None:
        """Ends the worker and waits until it has shut down cleanly. A worker without a connection ends by itself."""
        if self._kept:
            with suppress(OSError):
                self._process.stdin.write_eof()
            if (await asyncio.wait([self._kept], timeout=PATIENCE_S))[1]:
                self._watcher.say("its worker has not ended yet; it will end by itself")
        await self._open.aclose()
