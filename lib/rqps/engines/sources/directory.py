"""Somebody's own build: a directory with a server in it."""

from dataclasses import dataclass
from pathlib import Path

from rqps.engines.layout import layout
from rqps.engines.progress import Say
from rqps.errors import RqpsError


@dataclass(frozen=True)
class Directory:
    path: Path

    @property
    def words(self) -> str:
        return f"directory {self.path}"

    def present(self) -> Path | None:
        try:
            return self.path if self.path.is_dir() and layout(self.path) else None
        except PermissionError:
            return None

    def fetch(self, name: str, say: Say) -> Path:  # noqa: ARG002 a directory is there or is not
        if not self.path.is_dir():
            raise RqpsError(
                f"builds.{name}.path: no such directory: {self.path}",
                fix="give the directory of an unpacked server or build",
            )
        if layout(self.path) is None:
            raise RqpsError(
                f"builds.{name}.path: {self.path} has no mysqld that can be run in bin/, sbin/, libexec/, "
                "runtime_output_directory/ or sql/",
                fix="give the directory of an unpacked server, or of a build tree after make",
            )
        return self.path
