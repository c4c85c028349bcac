"""The source of a build: a directory, a tarball, a commit of a git repository, or a Debian source package."""

import shutil
import subprocess
from pathlib import Path

from rqps.engines import Say
from rqps.engines.asked import SourceTree
from rqps.engines.cache import cache_dir, made_once, short_key
from rqps.engines.sources import debian
from rqps.engines.sources.archives import check_digest, unpack
from rqps.engines.sources.fetching import Progress, by_url, run_client
from rqps.errors import RqpsError

NOT_SOURCE = {".git", "__pycache__"}


def identity(name: str, source: SourceTree) -> str:
    """A text that changes with the source. For a directory this is the commit; if files have uncommitted changes or
    there is no commit, it is a hash of the names, sizes and times of all files."""
    if source.path is None:
        return source.words
    folder = _directory(name, source)
    commit = _git(folder, "rev-parse", "HEAD")
    if commit and not _git(folder, "status", "--porcelain"):
        return f"commit {commit.strip()}"
    return f"files {short_key(sorted(_files(folder)))}"


def changed(source: SourceTree) -> str:
    """The commit of a directory in words, with a remark if files have uncommitted changes; empty if the directory is
    not the root of a repository."""
    folder = Path(str(source.path)).expanduser()
    if source.path is None or not (commit := _git(folder, "rev-parse", "--short", "HEAD").strip()):
        return ""
    return f"commit {commit}" + ", with changes of its own" * bool(_git(folder, "status", "--porcelain"))


def put_into(name: str, source: SourceTree, target: Path, say: Say) -> None:
    """Copies the source to `target`, which must not exist yet. Archives are fetched once."""
    if source.path is not None:
        shutil.copytree(
            _directory(name, source), target, symlinks=True, ignore=lambda _, names: NOT_SOURCE & {*names}
        )
        return
    say(f"{name}: unpacking {source.words}")
    (partial := target.with_name("unpacked")).mkdir()
    if source.git is not None:
        _check_out(name, source, partial, say)
    else:
        unpack(_archive(name, source, say), partial)
    inside = list(partial.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        inside[0].rename(target)
        partial.rmdir()
    else:
        partial.rename(target)


def _directory(name: str, source: SourceTree) -> Path:
    folder = Path(str(source.path)).expanduser()
    if not folder.is_dir():
        raise RqpsError(
            f"builds.{name}.source.path: no such directory: {folder}", fix="give the root of a source tree"
        )
    return folder


def _files(folder: Path) -> list[tuple[str, int, int]]:
    paths = (path for path in folder.rglob("*") if not NOT_SOURCE & {*path.parts} and path.is_file())
    return [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]


def _git(folder: Path, *words: str) -> str:
    """git's output for a folder that is the root of a repository; empty for other folders, and if git is missing."""
    if not (folder / ".git").exists() or shutil.which("git") is None:
        return ""
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True).stdout


def _check_out(name: str, source: SourceTree, folder: Path, say: Say) -> None:
    say(f"{name}: git fetches {source.words}")
    for words in (["init", "-q"], ["fetch", "-q", "--depth=1", str(source.git), str(source.commit)]):
        _run_git(name, folder, words)
    _run_git(name, folder, ["checkout", "-q", "FETCH_HEAD"])


def _run_git(name: str, folder: Path, words: list[str]) -> None:
    try:
        run_client(["git", "-C", str(folder), *words], folder.parent)
    except RqpsError as error:
        fix = "give the URL or path of a repository, and a whole commit that its server hands out"
        raise RqpsError(f"builds.{name}.source.git: {error.message}", fix=fix) from error


def _archive(name: str, source: SourceTree, say: Say) -> Path:
    """The tarball of the source, fetched if needed. A tarball by URL must have the digest that runs.yaml states."""

    def make(folder: Path) -> None:
        say(f"{name}: fetching {source.words}")
        progress = Progress(say, f"{name}: downloading")
        if source.url is not None:
            archive = by_url(name, source.url, folder, progress)
            check_digest(archive, str(source.sha256))
        else:
            debian.source_package(name, str(source.debian), str(source.version), str(source.suite), folder, say)

    folder = made_once(cache_dir() / "sources" / short_key(source.words, source.sha256), make, say)
    archives = [path for path in folder.iterdir() if path.suffix in (".gz", ".xz", ".bz2", ".tgz", ".zip")]
    archives = [path for path in archives if ".debian." not in path.name]
    if len(archives) != 1:
        what = f"builds.{name}.source: {source.words} has {len(archives)} archives, not one"
        raise RqpsError(what, fix="take another source")
    return archives[0]
