"""Copies builds that users rebuild at the same path, so that an earlier version of a build can be measured from its
copy."""

import shutil
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from rqps.engines.cache import cache_dir, made_once, sha256
from rqps.errors import RqpsError
from rqps.numbers import megabytes

LEFT_BY_COMPILERS = ("*.o", "*.a", "*CMakeFiles/*", "*.git/*")
MOST_COPIES, MOST_BYTES = 10, 4_000_000_000
"""The maximum number of copies, and the maximum size of one copy in bytes. If there are more copies, the least
recently used ones are removed."""


def copy_of(digest: str) -> Path:
    """The folder of the copy of a build whose program has this digest."""
    return cache_dir() / "copies" / digest[:16] / "tree"


def copy_build(tree: Path, needed: tuple[str, ...], program_in: Callable[[Path], Path | None], digest: str) -> None:
    """Copies those files of a tree that its program needs. There is one copy for each digest of the program."""

    def make(folder: Path) -> None:
        (copied := folder / "tree").mkdir()
        left = MOST_BYTES
        for path in tree.rglob("*"):
            place = path.relative_to(tree)
            if not _is_needed(str(place), needed) or not (path.is_symlink() or path.is_file()):
                continue
            left -= path.lstat().st_size
            if left < 0:
                raise RqpsError(f"{tree} has more than {megabytes(MOST_BYTES)} of files that a server needs")
            (copied / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copied / place, follow_symlinks=False)
        program = program_in(copied)
        if program is None or sha256(program) != digest:
            raise RqpsError(
                f"{tree} was changed while it was copied", fix="run the command again when the build has ended"
            )

    made_once(copy_of(digest).parent, make)
    copies = sorted(copy_of(digest).parents[1].glob("[0-9a-f]*"), key=lambda copy: copy.stat().st_mtime)
    for unused in copies[:-MOST_COPIES]:
        shutil.rmtree(unused)


def _is_needed(place: str, needed: tuple[str, ...]) -> bool:
    return any(fnmatchcase(place, glob) for glob in needed) and not any(
        fnmatchcase(place, glob) for glob in LEFT_BY_COMPILERS
    )
