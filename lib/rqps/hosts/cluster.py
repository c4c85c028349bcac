"""A Dask cluster for one study: a scheduler in this process, a worker on each host, joined by SSH alone.

Both ends listen on loopback and meet in tunnels of the SSH connection, where TLS with keys of this cluster keeps out
the other users of the two machines. So a host has to be reachable by SSH, and nothing else: Dask's own SSHCluster
would have both ends listen on the network, put its settings on command lines that everybody there can read, and leave
a worker behind when the connection breaks.
"""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import wait
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from rqps.engines import Say, engine_of
from rqps.errors import RqpsError
from rqps.hosts import worker
from rqps.hosts.reach import Looked, connected, in_checkout, look, send_builds
from rqps.hosts.worker import LOOPBACK, QUIET, RUNS, SLOT, Result
from rqps.run.notes import Notes, noted
from rqps.run.run_study import AGAIN
from rqps.run.watch import POLL_S, Stopped, Watcher
from rqps.store.manifest import CARD, MANIFEST, check_files, read_manifest
from rqps.study import HostSpec, Run

if TYPE_CHECKING:
    from asyncssh import SSHClientProcess

SERVE = "from rqps.hosts.worker import serve; serve()"
BEAT_S = 15.0
PATIENCE_S = 90.0
"""A run that is stopped gives its server 75 s to shut down."""
LAST_LINES = 5


class Cluster:
    """The scheduler, while it is entered, and what was found of the hosts that have joined."""

    def __enter__(self) -> Self:
        import dask
        from distributed import Client, LocalCluster, Security

        dask.config.set(QUIET)
        self.security = Security.temporary()
        given = {"host": LOOPBACK, "protocol": "tls", "security": self.security, "dashboard_address": None}
        self._dask = LocalCluster(n_workers=0, silence_logs=logging.CRITICAL, **given)
        self.client = Client(self._dask, set_as_default=False)
        self.joined: dict[str, Looked] = {}
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        self._dask.close()

    @property
    def port(self) -> int:
        return int(urlsplit(self._dask.scheduler_address).port or 0)

    def do(self, task: Coroutine[Any, Any, None], watcher: Watcher | None = None) -> None:
        """Does something in the cluster's own thread, and waits for it as long as the watcher does."""
        import asyncssh

        doing = asyncio.run_coroutine_threadsafe(task, self._dask.loop.asyncio_loop)  # type: ignore[union-attr]
        while not wait([doing], POLL_S).done:
            if watcher and watcher.stopped_by:
                doing.cancel()
                raise Stopped
        try:
            doing.result()
        except asyncssh.ChannelListenError:
            fix = "let its sshd forward ports: AllowTcpForwarding yes"
            raise RqpsError("its SSH server forwards no ports", fix=fix) from None
        except (OSError, asyncssh.Error) as error:
            raise RqpsError(f"the connection broke: {error}", fix=f"rqps hosts; {AGAIN}") from error


class There:
    """Measures on another host: each run is a task of the worker there, and its folder comes back."""

    def __init__(
        self, name: str, spec: HostSpec, cluster: Cluster, watcher: Watcher, git_revision: str | None
    ) -> None:
        self._name, self._spec, self._cluster, self._watcher = name, spec, cluster, watcher
        self._git_revision = git_revision
        self._open = AsyncExitStack()
        self._process: SSHClientProcess[str] | None = None
        self._doing = "starting"
        self._lost = ""
        self._last_words: deque[str] = deque(maxlen=LAST_LINES)
        self._tasks: list[asyncio.Task[None]] = []

    def check(self, runs: Sequence[Run]) -> None:
        """The host does that itself."""

    @contextmanager
    def measuring(self, study: str) -> Iterator[None]:
        try:
            self._cluster.do(self._join(study), self._watcher)
            yield
        finally:
            self._cluster.do(self._part())

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:
        builds = {each.build: each.build_spec for run in runs for each in run.members}
        sources = (engine_of(spec).source(name, spec) for name, spec in builds.items())
        trees = [tree for source in sources if (tree := source.present())]
        self._cluster.do(send_builds(self._spec, self._connection, trees, say), self._watcher)
        self._ask(worker.make_ready, runs, "while it made ready", lambda _: None)

    def measure(self, run: Run, folder: Path, watcher: Watcher) -> str | None:
        self._doing = "starting"
        card = (folder.parent / CARD).read_text(encoding="utf-8")

        def show(what: str) -> None:
            if noted(folder) != what:
                Notes(folder).doing(what)  # for `rqps status` in another terminal
            watcher.doing(what)

        result: Result = self._ask(worker.measure, [run], f"in the middle of {run.words}", show, card)
        result.write(folder)
        whole = [path.parent for path in folder.rglob(MANIFEST)]
        check_files([(path, read_manifest(path)) for path in whole], thorough=True)
        return result.error

    def _ask(self, task: Callable[..., Any], runs: Sequence[Run], when: str, show: Say, *more: str) -> Any:
        """The answer to a task that only this host may do; what the host is doing shows meanwhile."""
        from distributed.scheduler import KilledWorker

        future = self._cluster.client.submit(
            task,
            RUNS.dump_json(tuple(runs)).decode(),
            *more,
            key=f"{task.__name__}-{self._name}-{uuid4()}",
            workers=[self._name],
            allow_other_workers=False,
            resources={SLOT: 1},
            retries=0,
            pure=False,
        )
        while not future.done() and not self._lost:
            if self._watcher.stopped_by:
                self._watcher.say(f"stopping, {self._doing}")
                raise Stopped
            show(self._doing)
            time.sleep(POLL_S)
        try:
            if future.status == "finished":
                return future.result()
            if future.status == "error" and not isinstance(future.exception(), KilledWorker):
                return future.result()  # raises what the host raised
        finally:
            future.release()
        self._cluster.do(self._hear_the_last())
        raise RqpsError(f"was lost {when}: {self._lost}", fix=f"rqps hosts; {AGAIN}")

    async def _join(self, study: str) -> None:
        self._connection = connection = await self._open.enter_async_context(connected(self._spec))
        looked = await look(self._name, self._spec, connection)
        looked.refuse()
        for other, found in self._cluster.joined.items():
            if looked.same_as(found):
                fix = "take one of them out of the study's hosts"
                raise RqpsError(f"is the same machine as {other}", fix=fix)
        self._cluster.joined[self._name] = looked
        back = await connection.forward_remote_port(LOOPBACK, 0, LOOPBACK, self._cluster.port)
        self._process = await connection.create_process(in_checkout(self._spec, SERVE))
        self._tasks.append(asyncio.ensure_future(self._listen()))
        port = (await self._told())["port"]
        there = await connection.forward_local_port(LOOPBACK, 0, LOOPBACK, port)
        topic = f"rqps-{self._name}"
        self._cluster.client.subscribe_topic(topic, self._hear)
        security = self._cluster.security
        keys = {name: getattr(security, name) for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key")}
        order = {
            "host": self._name,
            "study": study,
            "git_revision": self._git_revision,
            "topic": topic,
            "scheduler": f"tls://{LOOPBACK}:{back.get_port()}",
            "contact": f"tls://{LOOPBACK}:{there.get_port()}",
            "keys": keys,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        told = await self._told()
        if "refused" in told:
            raise RqpsError(told["refused"], fix=told["fix"])
        self._tasks.append(asyncio.ensure_future(self._beat()))

    async def _told(self) -> dict[str, Any]:
        """The next that the worker's process says of itself."""
        assert self._process is not None
        line = await self._process.stdout.readline()
        if not line:
            await self._hear_the_last()
            raise RqpsError(f"no worker could be started: {self._lost}", fix="rqps hosts says more")
        told: dict[str, Any] = json.loads(line)
        return told

    async def _hear(self, event: tuple[float, dict[str, str]]) -> None:
        _, words = event
        self._doing = words.get("doing", self._doing)
        if "say" in words:
            self._watcher.say(words["say"])

    async def _beat(self) -> None:
        """Lets the worker know that somebody wants it."""
        assert self._process is not None
        while True:
            await asyncio.sleep(BEAT_S)
            self._process.stdin.write("\n")

    async def _listen(self) -> None:
        """Keeps the last words of the worker's process, and notes its end."""
        import asyncssh

        assert self._process is not None
        with suppress(OSError, asyncssh.Error):  # the connection broke
            async for line in self._process.stderr:
                self._last_words.append(line.strip())
        await self._process.wait_closed()
        killed = f"was ended by SIG{self._process.exit_signal[0]}" if self._process.exit_signal else "ended"
        said = "; its last words:\n" + "\n".join(self._last_words) if self._last_words else ""
        self._lost = f"its worker {killed}{said}" if self._process.exit_status is not None else "the connection broke"

    async def _hear_the_last(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tasks[0]), BEAT_S)
        self._lost = self._lost or "Dask lost its worker"

    async def _part(self) -> None:
        """Lets the worker go, and waits until it has ended in order. What a lost one leaves ends by itself."""
        if self._process is not None and not self._lost:
            with suppress(OSError):
                self._process.stdin.write_eof()
            try:
                await asyncio.wait_for(self._process.wait_closed(), PATIENCE_S)
            except TimeoutError:
                self._watcher.say("its worker has not ended yet; it goes on stopping by itself")
        for task in self._tasks:
            task.cancel()
        await self._open.aclose()
