"""Starts, verifies and stops servers of the toy. Each connection has a process, which comes and goes."""

import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rqps.engines import Build, Counted, Option, Say, Start, Watch
from rqps.engines.asked import Asked, BuildSpec
from rqps.engines.cache import cache_dir, made_once, sha256
from rqps.engines.server import KeptServer
from rqps.engines.sources import Sought, Source
from rqps.errors import RqpsError

counted = Counted("toy_serve", "connection")
OPTIONS = ("work",)


def source(name: str, spec: BuildSpec) -> Source:  # noqa: ARG001
    return Source(spec, Sought("toyd", lambda tree: tree if (tree / "toyd").is_file() else None, "toyd"))


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    tree = source(name, spec).fetch(name, say)
    program, version = tree / "toyd", known_version(tree)
    if version is None or (spec.version and version != spec.version):
        raise RqpsError(f"builds.{name}.toy: {spec.version} is expected, but {program} is {version}")
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
        options = [f"--{name}={value}" for name, value in self.options.items()]

        def argv(at: Path) -> list[str]:
            return [*asked.under, *self.build.argv, f"--socket={at}", *options]

        return Toy(**vars(ToyServer.begin(self.build, directory, asked, argv)), prepared=self)


prepared = PreparedToy


class _Watch:
    def begin(self) -> Mapping[str, str]:
        return {}

    def end(self, transactions: int) -> Mapping[str, str]:
        return {"requests": str(transactions)}

    def lost(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class ToyServer(KeptServer):
    """A server that answers."""

    SOCKET = "toyd.sock"
    REFUSALS = (OSError,)

    def answers(self, patience_s: float = KeptServer.GREETING_PATIENCE_S) -> bool:
        try:
            return bool(self._reported(patience_s))
        except OSError:
            return False

    def _reported(self, patience_s: float = KeptServer.GREETING_PATIENCE_S) -> list[str]:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(patience_s)
            line.connect(str(self.socket))
            line.sendall(b"v")
            return line.recv(64).decode().split()


@dataclass(frozen=True, kw_only=True)
class Toy(ToyServer):
    """The server of a run."""

    prepared: PreparedToy

    @property
    def name(self) -> str:
        return self.prepared.dbms

    @property
    def version(self) -> str:
        return self._reported()[0]

    @property
    def version_comment(self) -> str:
        return "a toy"

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
