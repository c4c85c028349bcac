"""Starts, verifies and stops servers of the toy. Each connection has a process, which comes and goes."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rqps import keeper
from rqps.engines import Build, Counted, Option, Say, Start, Watch
from rqps.engines.asked import Asked, BuildSpec
from rqps.engines.cache import cache_dir, made_once, sha256
from rqps.engines.sources import Sought, Source
from rqps.errors import RqpsError
from rqps.scratch import Scratch

counted = Counted("toy_serve", "connection")
OPTIONS = ("work",)
PATIENCE_S = 20.0


def source(name: str, spec: BuildSpec) -> Source:  # noqa: ARG001
    return Source(spec, Sought("toyd", lambda tree: tree if (tree / "toyd").is_file() else None, "toyd"))


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    tree = source(name, spec).fetch(name, say)
    program, version = tree / "toyd", known_version(tree)
    if version is None or (spec.version and version != spec.version):
        raise RqpsError(f"builds.{name}.toy: {spec.version} was promised, but {program} is {version}")
    return Build(name, version, f"directory {tree}", tree, program, (str(program),), sha256(program))


def known_version(tree: Path) -> str | None:
    answer = subprocess.run([str(tree / "toyd"), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split()[-1]


def memory_bytes(asked: Asked) -> int:  # noqa: ARG001
    return 1 << 20


def foresee(asked: Asked) -> None:
    for name in asked.options:
        if name not in OPTIONS:
            raise RqpsError(f"{asked.dbms}: toyd has no option {name!r}", fix=f"its options are {', '.join(OPTIONS)}")


def prepare(asked: Asked, say: Say) -> "PreparedToy":
    foresee(asked)
    return PreparedToy(asked.dbms, locate(asked.build, asked.build_spec, say), _texts(asked.options))


def _texts(options: Mapping[str, Option]) -> dict[str, str]:
    return {name: str(option.value) for name, option in options.items()}


@dataclass(frozen=True)
class PreparedToy:
    dbms: str
    build: Build
    options: Mapping[str, str]

    @property
    def in_words(self) -> Mapping[str, str]:
        return {"connections": "a process each"}

    def loaded(self, name: str, load: Callable[[Any], None], say: Say) -> Path:  # noqa: ARG002 it keeps no data
        return made_once(cache_dir() / "data" / f"toy-{name}", lambda work: (work / "data").mkdir(), say) / "data"

    def open(self, directory: Path, asked: Start) -> "Toy":
        private = Scratch()
        at = private.socket("toyd.sock")
        options = [f"--{name}={value}" for name, value in self.options.items()]
        process = subprocess.Popen(
            keeper.command(
                "guard",
                [*asked.under, *self.build.argv, f"--socket={at}", *options],
                cpus=asked.cpus,
                scratch=tuple(map(str, (private.path, *asked.scratch))),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=asked.log.open("ab"),
            bufsize=0,
            start_new_session=True,
        )
        asked.started(process.pid)
        assert process.stdout is not None
        toy = Toy(self, int(process.stdout.readline().split()[1]), at, directory, process, private)
        deadline = time.monotonic() + PATIENCE_S
        while not toy.answers():
            if time.monotonic() > deadline or toy.ended():
                toy.close()
                raise RqpsError(f"{self.dbms}: toyd does not answer", fix=f"see {asked.log}")
            time.sleep(0.02)
        return toy


prepared = PreparedToy


class _Watch:
    def begin(self) -> Mapping[str, str]:
        return {}

    def end(self, transactions: int) -> Mapping[str, str]:
        return {"requests": str(transactions)}

    def lost(self) -> tuple[str, ...]:
        return ()


@dataclass
class Toy:
    """A server of the toy that answers."""

    prepared: PreparedToy
    pid: int
    socket: Path
    directory: Path
    keeper: "subprocess.Popen[bytes]"
    private: Scratch

    @property
    def build(self) -> Build:
        return self.prepared.build

    @property
    def name(self) -> str:
        return self.prepared.dbms

    @property
    def pids(self) -> tuple[int, ...]:
        try:
            return (self.pid, *(child.pid for child in psutil.Process(self.pid).children()))
        except psutil.NoSuchProcess:
            return (self.pid,)

    @property
    def version(self) -> str:
        return self._reported()[0]

    @property
    def version_comment(self) -> str:
        return "a toy"

    @property
    def places(self) -> Mapping[str, str]:
        return {str(self.private.path): "<private>"}

    def _reported(self) -> list[str]:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.socket))
            line.sendall(b"v")
            return line.recv(64).decode().split()

    def answers(self) -> bool:
        try:
            return bool(self._reported())
        except OSError:
            return False

    def ended(self, within_s: float = 0) -> bool:
        try:
            self.keeper.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end_of(self, what: str) -> RqpsError:
        return RqpsError(f"{what}: the server {self.name} ended in the middle of it", fix="see its log")

    def verify(self) -> list[tuple[str, str, str]]:
        reported = self._reported()[1]
        wanted = self.prepared.options.get("work", reported)
        if reported != wanted:
            raise RqpsError(f"{self.name}: asked for work={wanted}, the server has {reported}")
        return [("work", wanted, reported)]

    def settings(self) -> list[dict[str, Any]]:
        return [{"kind": "variable", "name": "work", "value": self._reported()[1], "timed": None}]

    def thread_names(self) -> Mapping[int, str]:
        return {}

    @contextmanager
    def watching(self, step: str) -> Iterator[Watch]:  # noqa: ARG002
        yield _Watch()

    def explaining(self, step: str) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def close(self) -> str:
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()
        self.keeper.wait()
        self.private.remove()
        return ""
