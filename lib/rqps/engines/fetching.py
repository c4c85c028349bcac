"""From an archive to a tree in the cache: room on the disk, digest, unpacking, and what went wrong said plainly."""

import hashlib
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from rqps.engines.archive import check_digest, unpack
from rqps.engines.cache import cache_dir, disk_trouble_told, made_once
from rqps.engines.layout import layout
from rqps.engines.progress import Progress, Say, megabytes
from rqps.errors import RqpsError

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


@dataclass(frozen=True)
class Wish:
    """An archive that is to become a tree: where it comes from in words, its promises, and what of it to keep."""

    words: str
    sha256: str | None = None
    keep: Sequence[str] = ()
    archive_bytes: int | None = None
    kept_bytes: int | None = None

    @property
    def folder(self) -> Path:
        """Its place in the cache: another source, digest or choice is another place."""
        described = json.dumps([self.words, self.sha256, list(self.keep)])
        key = hashlib.sha256(described.encode()).hexdigest()[:12]
        name = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in self.words)
        return cache_dir() / "builds" / f"{name[-60:].strip('-')}-{key}"

    def wanted(self, place: PurePosixPath) -> bool:
        if self.keep:
            return any(fnmatchcase(str(place), glob) for glob in self.keep)
        return not any(fnmatchcase(str(place), glob) for glob in NEVER_NEEDED)


def made_from_archive(name: str, wish: Wish, get: Callable[[Path], Path], say: Say) -> Path:
    """The tree of a wish. `get` fetches the archive into the work folder that it is given."""

    def make(partial: Path) -> None:
        need_room(wish)
        work, tree = partial / "work", partial / "tree"
        work.mkdir()
        tree.mkdir()
        size = f", {megabytes(wish.archive_bytes)}" if wish.archive_bytes else ""
        say(f"{name}: fetching {wish.words}{size}")
        archive = get(work)
        if wish.sha256:
            check_digest(archive, wish.sha256, Progress(say, f"{name}: checking", archive.stat().st_size).update)
        unpack(archive, tree, wish.wanted, Progress(say, f"{name}: unpacking", wish.kept_bytes).update)
        shutil.rmtree(work)
        if layout(tree) is None:
            raise RqpsError(
                f"{name}: {wish.words} has no mysqld in it",
                fix="give the archive of a server: bin/mysqld must be in it",
            )

    with disk_trouble_told(cache_dir()):
        made_once(wish.folder, make, lambda: say(f"{name}: another rqps is fetching {wish.words}: waiting for it"))
    return wish.folder / "tree"


@dataclass(frozen=True)
class Archive(ABC):
    """A source whose server comes in an archive."""

    wish: Wish

    @property
    def words(self) -> str:
        return self.wish.words

    def present(self) -> Path | None:
        return tree if (tree := self.wish.folder / "tree").is_dir() else None

    def fetch(self, name: str, say: Say) -> Path:
        return made_from_archive(name, self.wish, lambda work: self.get(name, work, say), say)

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
