"""A clang for tests of builds: packages of Debian, unpacked in the cache as the browser is, copied to one folder."""

import shutil
from pathlib import Path

from rqps.engines.sources import debian

PACKAGES = (
    "clang-14",
    "libclang-cpp14",
    "libllvm14",
    "libclang-common-14-dev",
    "libclang-rt-14-dev",
    "lld-14",
    "llvm-14",
)
PROGRAMS = ("clang", "clang++", "ld.lld", "llvm-profdata")
ROOT = "usr/lib/llvm-14"
LIBRARIES = (f"{ROOT}/lib", "usr/lib/x86_64-linux-gnu")


def clang_in(folder: Path) -> Path:
    """A folder with clang, its linker and its profile's tool, to put on PATH."""
    for package in PACKAGES:
        tree = debian.unpacked(package, None, print, alone=True)
        shutil.copytree(tree, folder, symlinks=True, dirs_exist_ok=True)
    (programs := folder / "programs").mkdir()
    libraries = ":".join(str(folder / place) for place in LIBRARIES)
    for name in PROGRAMS:
        (script := programs / name).write_text(
            f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {folder}/{ROOT}/bin/{name} "$@"\n'
        )
        script.chmod(0o755)
    return programs
