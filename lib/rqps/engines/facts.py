"""What a mysqld says of itself, and its digest: found out once and kept, since 200 MB take a while to read."""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rqps.engines.archive import sha256
from rqps.engines.asking import SECONDS_TO_ANSWER, ask
from rqps.engines.cache import cache_dir, disk_trouble_told
from rqps.errors import RqpsError

_VERSION = re.compile(r"\bVer (\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Facts:
    version: str
    digest: str


@dataclass(frozen=True)
class _Remembered:
    mysqld: str
    size_bytes: int
    modified_ns: int
    version: str
    digest: str


def facts(mysqld: Path, argv: tuple[str, ...], environment: Mapping[str, str]) -> Facts:
    """Version and digest of a mysqld, remembered for as long as the file does not change."""
    known = remembered(mysqld)
    if known is None:
        known = Facts(_ask_version(argv, environment), sha256(mysqld))
        with disk_trouble_told(cache_dir()):
            _remember(mysqld, known)
    return known


def remembered(mysqld: Path) -> Facts | None:
    """What was found out about this very file before, if it was."""
    try:
        note = _Remembered(**json.loads(_note(mysqld).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    now = mysqld.stat()
    if (note.mysqld, note.size_bytes, note.modified_ns) != (str(mysqld), now.st_size, now.st_mtime_ns):
        return None
    return Facts(note.version, note.digest)


def _remember(mysqld: Path, known: Facts) -> None:
    now, note = mysqld.stat(), _note(mysqld)
    note.parent.mkdir(parents=True, exist_ok=True)
    partial = note.with_suffix(f".{os.getpid()}")
    content = _Remembered(str(mysqld), now.st_size, now.st_mtime_ns, known.version, known.digest)
    partial.write_text(json.dumps(asdict(content), indent=1))
    partial.replace(note)


def _note(mysqld: Path) -> Path:
    return cache_dir() / "facts" / f"{hashlib.sha256(str(mysqld).encode()).hexdigest()[:16]}.json"


def _ask_version(argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
    command = [*argv, "--no-defaults", "--version"]
    try:
        answer = ask(command, {**os.environ, **environment})
    except OSError as error:
        raise RqpsError(
            f"{argv[-1]} can't be run: {error.strerror}", fix="give a mysqld for this machine (Linux, x86-64)"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RqpsError(
            f"{argv[-1]} did not tell its version within {SECONDS_TO_ANSWER} s",
            fix="try it by hand: mysqld --version",
        ) from error
    found = _VERSION.search(answer.stdout)
    if answer.returncode != 0 or found is None:
        raise RqpsError(
            f"{argv[-1]} does not tell its version (exit status {answer.returncode}): {answer.stdout.strip()[-400:]}",
            fix=f"make this work first: {' '.join(command)}",
        )
    return found[1]
