"""Shared libraries that a program needs and this machine does not have: made available to that program alone."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from rqps.engines.cache import cache_dir
from rqps.engines.sources import debian
from rqps.engines.sources.clients import Say
from rqps.errors import RqpsError

PACKAGES = {"libaio.so.1": "libaio1", "libnuma.so.1": "libnuma1", "libcrypt.so.1": "libcrypt1"}
"""The Debian package of each, in a suite old enough for every machine's libc."""
SUITE = "bookworm"
LOADER = "/lib64/ld-linux-x86-64.so.2"
SAME_BY_ANOTHER_NAME = {"libaio.so.1": "libaio.so.1t64"}
"""Renamed by Debian and Ubuntu for 32-bit machines; on x86-64 nothing else about it changed."""


def missing(program: Path, environment: Mapping[str, str]) -> list[str]:
    """The libraries that the system's loader does not find for a program. The program itself is not run."""
    try:
        listed = subprocess.run(
            [LOADER, str(program)],
            env={**os.environ, **environment, "LD_TRACE_LOADED_OBJECTS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:  # a system of another kind: the program itself shows whether it runs there
        return []
    return [line.split()[0] for line in listed.stdout.splitlines() if line.endswith("=> not found")]


def call(
    name: str, tree: Path, program: Path, say: Say, *, own_loader: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The call of a program in a tree, and the environment in which its libraries are found."""
    if own_loader:
        return debian.own_loader(tree, program), {}
    beside = [program.parent] if any(program.parent.glob("lib*.so.*")) else []
    environment = _search(beside)
    if lacking := missing(program, environment):
        environment = _search([*beside, *provide(name, lacking, say)])
    return (str(program),), environment


def _search(folders: Iterable[Path]) -> dict[str, str]:
    found = ":".join(map(str, folders))
    return {"LD_LIBRARY_PATH": found} if found else {}


def provide(name: str, libraries: Iterable[str], say: Say) -> list[Path]:
    """Folders to put on LD_LIBRARY_PATH so that `libraries` are found."""
    folders = {_folder(name, library, say) for library in libraries}
    return sorted(folders)


def _folder(name: str, library: str, say: Say) -> Path:
    if other := _of_the_machine(SAME_BY_ANOTHER_NAME.get(library)):
        folder = cache_dir() / "libraries"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / library).exists():
            (folder / library).unlink(missing_ok=True)
            (folder / library).symlink_to(other)
        return folder
    package = PACKAGES.get(library)
    if package is None:
        raise RqpsError(
            f"builds.{name}: its program needs {library}, which this machine does not have",
            fix="install the package that holds it, or put it beside the program and set LD_LIBRARY_PATH",
        )
    try:
        tree = debian.unpacked(package, SUITE, say, alone=True)
    except RqpsError as error:
        raise RqpsError(
            f"builds.{name}: its program needs {library}, which this machine does not have: {error.message}",
            fix=f"install {package} (Debian and Ubuntu: apt install {package}), then do the same again",
        ) from error
    return next(folder for folder in debian.library_folders(tree) if (folder / library).exists())


def _of_the_machine(library: str | None) -> Path | None:
    """Where the system's loader finds a library, if it does."""
    if library is None:
        return None
    known = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, errors="replace").stdout
    for line in known.splitlines():
        words = line.split()
        if words and words[0] == library and "x86-64" in line:
            return Path(words[-1])
    return None
