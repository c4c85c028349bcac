"""The mysqld on PATH: what the machine itself has installed."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rqps.engines.progress import Say
from rqps.errors import RqpsError

BESIDE_PATH = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")


@dataclass(frozen=True)
class OnPath:
    @property
    def words(self) -> str:
        return "mysqld on PATH"

    def present(self) -> Path | None:
        """The folder around the one that holds mysqld. Ordinary users have no sbin on PATH, so we look there too."""
        found = shutil.which("mysqld", path=os.pathsep.join([os.environ.get("PATH", os.defpath), *BESIDE_PATH]))
        return Path(found).resolve().parent.parent if found else None

    def fetch(self, name: str, say: Say) -> Path:  # noqa: ARG002 it is installed or is not
        if tree := self.present():
            return tree
        raise RqpsError(
            f"builds.{name}.on_path: there is no mysqld on PATH",
            fix='install one (Debian and Ubuntu: apt install mysql-server-core), or write mysql: "8.0.33" instead',
        )
