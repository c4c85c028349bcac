"""A tarball or zip by URL."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from rqps import __version__
from rqps.engines.archive import CHUNK_BYTES, MOST_BYTES
from rqps.engines.fetching import Archive
from rqps.engines.progress import Progress, Say
from rqps.errors import RqpsError

SECONDS_OF_SILENCE = 60


class Url(Archive):
    def get(self, name: str, work: Path, say: Say) -> Path:
        return download(self.wish.words, work, name, say)


def download(url: str, work: Path, name: str, say: Say) -> Path:
    """Fetch `url` into the folder `work`."""
    target = work / (PurePosixPath(unquote(urlsplit(url).path)).name or "archive")
    request = urllib.request.Request(url, headers={"User-Agent": f"rqps/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_OF_SILENCE) as answer:
            _copy(answer, target, Progress(say, f"{name}: downloading", answer.length))
    except urllib.error.HTTPError as error:
        raise RqpsError(
            f"builds.{name}: {url} is answered with {error.code} {error.reason}",
            fix="open it in a browser; correct the url",
        ) from error
    except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise RqpsError(
            f"builds.{name}: {url} can't be fetched: {reason}",
            fix="see whether the network, or the proxy in https_proxy, works; then do the same again",
        ) from error
    return target


def _copy(answer: http.client.HTTPResponse, target: Path, progress: Progress) -> None:
    promised, done = answer.length, 0
    with target.open("xb") as file:
        for piece in _pieces(answer):
            file.write(piece)
            done += len(piece)
            progress.update(done)
            if done > MOST_BYTES:
                raise RqpsError(
                    f"{answer.url} does not end: {MOST_BYTES / 1e9:.0f} GB and more", fix="correct the url"
                )
    if promised is not None and done != promised:
        raise urllib.error.URLError(f"it was cut off after {done} of {promised} bytes")


def _pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """What comes over the network; trouble with it is told apart from trouble with the disk."""
    while True:
        try:
            piece = answer.read(CHUNK_BYTES)
        except OSError as error:
            raise urllib.error.URLError(error) from error
        if not piece:
            return
        yield piece
