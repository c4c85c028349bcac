"""An archive from a Maven repository, through the `mvn` client and its settings (mirrors, proxies)."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from rqps.engines.cache import cache_dir, locked
from rqps.engines.client import find_client, run_client
from rqps.engines.fetching import Archive
from rqps.engines.progress import Progress, Say
from rqps.errors import RqpsError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
ARCHIVES = (".zip", ".jar", ".gz", ".xz", ".tgz")


@dataclass(frozen=True)
class Maven(Archive):
    coordinates: str

    def get(self, name: str, work: Path, say: Say) -> Path:
        """Fetch into a local repository of our own and take the archive out: the user's would keep a second copy."""
        mvn = find_client("mvn", "install Maven (Debian and Ubuntu: apt install maven), or take another source")
        repository = cache_dir() / "maven"
        group, artifact, version, *_ = self.coordinates.split(":")
        arrives = repository / group.replace(".", "/") / artifact / version
        with locked(repository, lambda: say(f"{name}: waiting for another fetch from Maven to end")):
            if not repository.exists():
                say(f"{name}: mvn fetches its own plugins first")
            arrives.mkdir(parents=True, exist_ok=True)
            try:
                self._run(
                    mvn, repository, work, Progress(say, f"{name}: downloading", self.wish.archive_bytes), arrives
                )
                found = [path for path in arrives.glob(f"{artifact}-*") if path.suffix in ARCHIVES]
                if len(found) != 1:
                    raise RqpsError(
                        f"builds.{name}: maven {self.coordinates}: mvn fetched no archive",
                        fix="give the whole coordinates, as in group:artifact:version:zip:linux-x86_64",
                    )
                return found[0].rename(work / found[0].name)
            finally:
                shutil.rmtree(arrives, ignore_errors=True)

    def _run(self, mvn: str, repository: Path, work: Path, progress: Progress, arrives: Path) -> None:
        own = [f"-Dmaven.repo.local={repository}", f"{PLUGIN}:get"]
        wished = [f"-Dartifact={self.coordinates}", "-Dtransitive=false"]
        run_client(
            [mvn, "--quiet", "--batch-mode", "--update-snapshots", *own, *wished],
            work,
            progress,
            grows=arrives,
        )
