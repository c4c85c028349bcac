"""One run at a time on a host: two measurements at once would both be wrong."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rqps.engines.cache import cache_dir, locked
from rqps.errors import RqpsError


@contextmanager
def measuring(study: str) -> Iterator[None]:
    """Hold this host's lock, or say who does."""
    # A home directory may be shared between hosts.
    path = cache_dir() / f"measuring-{socket.gethostname()}.lock"

    def refuse() -> None:
        raise RqpsError(
            f"another rqps run ({_holder(path)}) is measuring on this host",
            fix="wait until it has ended, or stop it with Ctrl-C in its terminal; then run this again",
        )

    with locked(path, refuse):
        since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        path.write_text(json.dumps({"pid": os.getpid(), "study": study, "since": since}), encoding="utf-8")
        yield


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # it has only just taken the lock
        return "just started"
    return f"pid {told['pid']}, study {told['study']}, since {told['since']}"
