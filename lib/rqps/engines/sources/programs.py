"""Programs that help to measure (sysbench, perf, Valgrind, a browser), and the libraries that a program needs.

The machine's own is taken where it is good enough; else the package of this machine's distribution is unpacked in the
cache and run from there. Nothing is installed.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rqps.engines import Say
from rqps.engines.cache import cache_dir
from rqps.engines.sources import debian
from rqps.errors import RqpsError

OLDEST_SYSBENCH = (1, 0, 18)
BROWSERS = ("chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser")
BROWSER_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
"""No sandbox, since it needs root's setuid bit or user namespaces, and only pages of our own are looked at."""

_VERSION = re.compile(r"(?:perf version |valgrind-|(?:sysbench|Chromium|Chrome)\D* )(\d+(?:\.\d+)+)")
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{tree}/usr/share/fonts</dir>
  <include ignore_missing="yes">{tree}/etc/fonts/conf.d</include>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


SECONDS_TO_ANSWER = 60


def ask(command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end, its two streams in one. `environment` is all that it gets."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS_TO_ANSWER,
    )


def said(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The program's answer, or why there is none."""
    try:
        return ask(command, environment).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


@dataclass(frozen=True)
class Tool:
    """A program that is ready to run."""

    argv: tuple[str, ...]
    version: str
    environment: dict[str, str] = field(default_factory=dict)
    """To be added to the environment."""


def sysbench(say: Say = print) -> Tool:
    """sysbench with MySQL support: the one on PATH if it is recent enough, else one of our own."""
    fix = f"install sysbench {'.'.join(map(str, OLDEST_SYSBENCH))} or newer (apt install sysbench) and try again"
    if found := shutil.which("sysbench"):
        version = _version((found,), {})
        if version and _numbers(version) >= OLDEST_SYSBENCH and "mysql" in _said((found, "--help"), {}):
            return Tool((found,), version)
    tree = _private("sysbench", say, fix)
    plugins = [str(folder) for folder in tree.glob("usr/lib/*/libmariadb*/plugin")]
    environment = {
        **_libraries(tree),
        "LUA_PATH": f"{tree}/usr/share/sysbench/?.lua;;",
        "MARIADB_PLUGIN_DIR": plugins[0] if plugins else "",
    }
    return _checked((str(tree / "usr/bin/sysbench"),), environment, fix)


def perf(say: Say = print) -> Tool:
    """perf: the one on PATH if it runs, else one of our own, which need not be of the kernel's version."""
    fix = "install perf and try again: linux-perf on Debian, linux-tools-generic on Ubuntu, perf on Fedora"
    # Ubuntu's is a script that wants to have the very version of the kernel.
    if (found := shutil.which("perf")) and (version := _version((found,), {})):
        return Tool((found,), version)
    tree = _private("linux-perf", say, fix)
    programs = sorted(path for path in tree.glob("usr/bin/perf*") if path.read_bytes()[:4] == b"\x7fELF")
    return _checked((str(programs[0]) if programs else f"{tree}/usr/bin/perf",), _libraries(tree), fix)


def valgrind(say: Say = print) -> Tool:
    """Valgrind with callgrind and vgdb: the one on PATH if it is whole, else one of our own."""
    fix = "install Valgrind (apt install valgrind) and try again"
    if found := shutil.which("valgrind"):
        # Debian's is a script that puts a folder of its own on the server's LD_LIBRARY_PATH.
        program = next((each for each in (f"{found}.bin", found) if Path(each).is_file()), found)
        orders = Path(program).with_name("vgdb").is_file()
        tool = "user options for Callgrind" in _said((program, "--tool=callgrind", "--help"), {})
        if orders and tool and (version := _version((program,), {})):
            return Tool((program,), version)
    tree = _private("valgrind", say, fix, alone=True)
    libraries = [file.parent for file in tree.glob("usr/lib*/**/callgrind-amd64-linux")]
    environment = {"VALGRIND_LIB": str(libraries[0])} if libraries else {}
    return _checked((str(tree / "usr/bin/valgrind.bin"),), environment, fix)


def chromium(say: Say = print) -> Tool:
    """A browser without a window, for looking at pages of our own: the machine's, or one of our own."""
    fix = "install Chromium or Chrome (Debian: apt install chromium) and try again"
    for name in BROWSERS:
        # Ubuntu's chromium-browser is only a script that wants to install something else.
        if (found := shutil.which(name)) and (version := _version((found,), {})):
            return Tool((found, *BROWSER_FLAGS), version)
    tree = _private("chromium", say, fix)
    fonts = tree / "fonts.conf"
    if not fonts.exists():
        fonts.write_text(_FONTS.format(tree=tree))
    environment = {**_libraries(tree), "FONTCONFIG_FILE": str(fonts)}
    program = str(tree / "usr/lib/chromium/chromium")
    return Tool((program, *BROWSER_FLAGS), _checked((program,), environment, fix).version, environment)


def _private(package: str, say: Say, fix: str, *, alone: bool = False) -> Path:
    try:
        return debian.unpacked(package, None, say, alone=alone)
    except RqpsError as error:
        raise RqpsError(f"{package} is missing here, and fetching it failed: {error.message}", fix=fix) from error


def _libraries(tree: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": ":".join(map(str, debian.library_folders(tree)))}


def _checked(argv: tuple[str, ...], environment: dict[str, str], fix: str) -> Tool:
    if version := _version(argv, environment):
        return Tool(argv, version, environment)
    answer = _said((*argv, "--version"), environment).strip()
    raise RqpsError(f"{argv[0]} does not run: {answer[-400:] or 'it says nothing'}", fix=fix)


def _version(argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    found = _VERSION.search(_said((*argv, "--version"), environment))
    return found[1] if found else None


def _said(command: tuple[str, ...], environment: Mapping[str, str]) -> str:
    return said(command, {**os.environ, **environment})


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


LIBRARY_PACKAGES = {"libaio.so.1": "libaio1", "libnuma.so.1": "libnuma1", "libcrypt.so.1": "libcrypt1"}
"""The Debian package of each, in a suite old enough for every machine's libc."""
LIBRARY_SUITE = "bookworm"
SYSTEM_LOADER = "/lib64/ld-linux-x86-64.so.2"
SAME_BY_ANOTHER_NAME = {"libaio.so.1": "libaio.so.1t64"}
"""Renamed by Debian and Ubuntu for 32-bit machines; on x86-64 nothing else about it changed."""


def missing_libraries(program: Path, environment: Mapping[str, str]) -> list[str]:
    """The libraries that the system's loader does not find for a program. The program itself is not run."""
    try:
        listed = subprocess.run(
            [SYSTEM_LOADER, str(program)],
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
    if lacking := missing_libraries(program, environment):
        environment = _search([*beside, *provide_libraries(name, lacking, say)])
    return (str(program),), environment


def _search(folders: Iterable[Path]) -> dict[str, str]:
    found = ":".join(map(str, folders))
    return {"LD_LIBRARY_PATH": found} if found else {}


def provide_libraries(name: str, libraries: Iterable[str], say: Say) -> list[Path]:
    """Folders to put on LD_LIBRARY_PATH so that `libraries` are found."""
    folders = {_folder_with(name, library, say) for library in libraries}
    return sorted(folders)


def _folder_with(name: str, library: str, say: Say) -> Path:
    if other := _of_the_machine(SAME_BY_ANOTHER_NAME.get(library)):
        folder = cache_dir() / "libraries"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / library).exists():
            (folder / library).unlink(missing_ok=True)
            (folder / library).symlink_to(other)
        return folder
    package = LIBRARY_PACKAGES.get(library)
    if package is None:
        raise RqpsError(
            f"builds.{name}: its program needs {library}, which this machine does not have",
            fix="install the package that holds it, or put it beside the program and set LD_LIBRARY_PATH",
        )
    try:
        tree = debian.unpacked(package, LIBRARY_SUITE, say, alone=True)
    except RqpsError as error:
        raise RqpsError(
            f"builds.{name}: its program needs {library}, which this machine does not have: {error.message}",
            fix=f"install {package} (Debian and Ubuntu: apt install {package}), then do the same again",
        ) from error
    return next(folder for folder in debian.library_folders(tree) if (folder / library).exists())


def _of_the_machine(library: str | None) -> Path | None:
    """The place where the system's loader finds a library, if it does."""
    if library is None:
        return None
    known = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, errors="replace").stdout
    for line in known.splitlines():
        words = line.split()
        if words and words[0] == library and "x86-64" in line:
            return Path(words[-1])
    return None
