"""A server package of a Debian suite, started through its own loader."""

from dataclasses import dataclass
from pathlib import Path

from rqps.engines import debian
from rqps.engines.layout import layout
from rqps.engines.progress import Say
from rqps.errors import RqpsError


@dataclass(frozen=True)
class Debian:
    package: str
    suite: str
    keep: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"debian {self.suite} {self.package}"

    def present(self) -> Path | None:
        return tree if (tree := debian.place(self.package, self.suite, keep=self.keep) / "tree").is_dir() else None

    def fetch(self, name: str, say: Say) -> Path:
        tree = debian.unpacked(self.package, self.suite, say, keep=self.keep, name=name)
        if layout(tree) is None:
            raise RqpsError(
                f"builds.{name}.debian: {self.package} of {self.suite} has no mysqld in it",
                fix="give the package that holds the server itself, such as mysql-server-core or mariadb-server-core",
            )
        return tree
