"""The mysqlslap that puts the load: one binary for all servers of a study, so that the client does not differ."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rqps.engines import locate
from rqps.engines.mysql.instance import Server
from rqps.engines.sources import catalogue
from rqps.engines.sources.archives import sha256
from rqps.engines.sources.programs import call, said
from rqps.errors import RqpsError
from rqps.study import BuildSpec

SSL_MODE_SINCE = (5, 7, 11)
_VERSION = re.compile(r"\b(?:mysqlslap|mariadb-slap)\b.*\b(?:Ver|Distrib) (\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Slap:
    """A mysqlslap that runs."""

    path: Path
    version: str
    without_tls: str
    """The option that this one has for it."""
    digest: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Its version, and its digest, since two of one version need not be the same client."""
        return f"{self.version} (sha256 {self.digest[:12]})"

    def argv(self, server: Server, database: str, query: str, clients: int, queries: int) -> list[str]:
        """The command line for so many queries of each client. It creates nothing and drops nothing.

        What mysqlslap calls --number-of-queries is the number of all clients together: it divides it among them.
        """
        options = {
            "socket": server.socket,
            "user": "root",
            "create-schema": database,  # where the clients work; created only together with --create
            "concurrency": clients,
            "number-of-queries": clients * queries,
            "query": query,
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return [str(self.path), "--no-defaults", self.without_tls, "--no-drop", "--csv", *given]


@cache
def mysqlslap(asked: str) -> Slap:
    """The one of a version in the catalogue, fetched if need be, or the one at a path."""
    path = Path(asked).expanduser() if asked.startswith(("/", "~")) else _of_version(asked)
    if not path.is_file():
        raise RqpsError(
            f"mysqlslap: there is no {path}", fix=f"give the path of one, or one of the versions {_versions()}"
        )
    _, environment = call("mysqlslap", path.parent, path, print, own_loader=False)
    version, of_mariadb = _version(path, environment)
    numbers = tuple(map(int, version.split(".")))
    has_ssl_mode = numbers >= SSL_MODE_SINCE and not of_mariadb
    return Slap(path, version, "--ssl-mode=DISABLED" if has_ssl_mode else "--skip-ssl", sha256(path), environment)


def with_mysqlslap() -> list[str]:
    """Versions of the catalogue that bring one."""
    return [version for version, entry in catalogue().items() if "bin/mysqlslap" in entry.files]


def _versions() -> str:
    return ", ".join(with_mysqlslap())


def _of_version(version: str) -> Path:
    if version not in with_mysqlslap():
        raise RqpsError(
            f"mysqlslap: the catalogue has none of version {version}",
            fix=f"give one of {_versions()}, or the path of a mysqlslap",
        )
    return locate("mysqlslap", BuildSpec(mysql=version), print).directory / "bin/mysqlslap"


def _version(path: Path, environment: Mapping[str, str]) -> tuple[str, bool]:
    """Its version, and whether it is MariaDB's."""
    answer = said([str(path), "--no-defaults", "--version"], {"PATH": "/usr/bin:/bin", **environment})
    found = _VERSION.search(answer)
    if not found:
        raise RqpsError(
            f"{path} does not report its version as a mysqlslap does: {answer.strip()[-400:] or 'it says nothing'}",
            fix=f"give the path of a mysqlslap that runs here, or one of the versions {_versions()}",
        )
    return found[1], "MariaDB" in answer
