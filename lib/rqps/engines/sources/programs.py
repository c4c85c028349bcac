"""Finds programs that help to measure (sysbench, perf, Valgrind), and the libraries that a program needs.

The program on PATH is taken if it runs and is recent enough. Otherwise the package of this machine's distribution is
unpacked in the cache, and the program is run from there. Nothing is installed.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rqps.engines import ALLOCATORS, Build, Say
from rqps.engines.asked import Asked, BuildSpec
from rqps.engines.cache import cache_dir, made_once, sha256, short_key
from rqps.engines.sources import Source, asked_once, debian, how_compiled, refuse_other_version
from rqps.errors import RqpsError, instead

SECONDS_TO_ANSWER = 60
Locate = Callable[[str, BuildSpec, Say], object]
Located = TypeVar("Located", bound=Build)
OLDEST_SYSBENCH = (1, 0, 18)
COMPILERS = ("cc", "gcc", "clang")

_VERSION = re.compile(r"(?:perf version |valgrind-|LLVM version |(?:sysbench|Chromium|Chrome)\D* )(\d+(?:\.\d+)+)")


def ask(command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end and reads stdout and stderr as one text. The program gets the environment of rqps,
    with the variables in `environment` added."""
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS_TO_ANSWER,
    )


def version_of(
    argv: Sequence[str], environment: Mapping[str, str], options: Sequence[str], pattern: re.Pattern[str]
) -> dict[str, str]:
    """The version that a server prints when it is called with `options`, as a mapping with the key `version`. The
    first group of `pattern` matches the version in the output."""
    try:
        answer = ask([*argv, *options], environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "give a build for this machine (Linux, x86-64)"
        raise RqpsError(f"{argv[-1]} can't be run: {error}", fix=fix) from error
    version = pattern.search(answer.stdout)
    if answer.returncode != 0 or version is None:
        raise RqpsError(
            f"{argv[-1]} does not report its version (exit status {answer.returncode}): {answer.stdout[-400:]}",
            fix=f"make this work first: {' '.join([*argv, *options])}",
        )
    return {"version": version[1]}


def answer_of(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The output of a program, or the reason why the program can't be run."""
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
    """Variables to add to the environment."""


def sysbench(say: Say = print) -> Tool:
    """sysbench with MySQL support: the program on PATH if it is recent enough, else one in the cache."""
    fix = f"install sysbench {'.'.join(map(str, OLDEST_SYSBENCH))} or newer (apt install sysbench) and try again"

    def good(tool: Tool) -> bool:
        recent = tuple(map(int, tool.version.split("."))) >= OLDEST_SYSBENCH
        return recent and "mysql" in answer_of((*tool.argv, "--help"), {})

    def environment(tree: Path) -> dict[str, str]:
        plugins = next(tree.glob("usr/lib/*/libmariadb*/plugin"), "")
        return {"LUA_PATH": f"{tree}/usr/share/sysbench/?.lua;;", "MARIADB_PLUGIN_DIR": str(plugins)}

    return installed("sysbench", good=good) or private("sysbench", "usr/bin/sysbench", say, fix, environment)


def perf(say: Say = print) -> Tool:
    """perf: the program on PATH if it runs, else one in the cache, whose version may differ from the kernel's."""
    fix = "install perf and try again: linux-perf on Debian, linux-tools-generic on Ubuntu, perf on Fedora"
    # Ubuntu's perf is a script that fails unless the perf of exactly the kernel's version is installed.
    return installed("perf") or private("linux-perf", "usr/bin/perf*", say, fix)


def symbolizer() -> Tool | None:
    """llvm-symbolizer, if it is on PATH. It is hundreds of times as fast as addr2line, which perf calls."""
    return installed("llvm-symbolizer", *(f"llvm-symbolizer-{version}" for version in range(30, 10, -1)))


def valgrind(say: Say = print) -> Tool:
    """Valgrind with callgrind and vgdb: the program on PATH if it has both, else one in the cache."""
    fix = "install Valgrind (apt install valgrind) and try again"

    def good(tool: Tool) -> bool:
        orders = Path(tool.argv[0]).with_name("vgdb").is_file()
        return orders and "user options for Callgrind" in answer_of((*tool.argv, "--tool=callgrind", "--help"), {})

    def environment(tree: Path) -> dict[str, str]:
        return {"VALGRIND_LIB": str(next(tree.glob("usr/lib*/**/callgrind-amd64-linux"), tree).parent)}

    # valgrind.bin is tried first: Debian's valgrind is a script that would add a folder to the server's
    # LD_LIBRARY_PATH.
    if tool := installed("valgrind.bin", "valgrind", good=good):
        return tool
    return private("valgrind", "usr/bin/valgrind.bin", say, fix, environment, alone=True)


def compiled(source: Path, flags: Sequence[str] = ("-O2",), libraries: Sequence[str] = (), say: Say = print) -> Path:
    """A C program of rqps, compiled once by this machine's compiler."""
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise RqpsError(
            f"{source.name} is a program in C, and this machine has no C compiler ({', '.join(COMPILERS)})",
            fix="install one (Debian and Ubuntu: apt install gcc libc6-dev)",
        )
    version = ask([compiler, "--version"], {}).stdout.partition("\n")[0]
    key = short_key(sha256(source), version, flags, libraries)

    def make(folder: Path) -> None:
        say(f"compiling {source.name} by {version}")
        shutil.copy(source, folder)  # debuggers look for the source beside the program
        command = [compiler, *flags, "-o", source.stem, source.name, *libraries]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RqpsError(
                f"{source.name} can't be compiled by {version}:\n{done.stderr[-1000:].strip()}",
                fix="install the C library's headers (Debian and Ubuntu: apt install libc6-dev)",
            )

    return made_once(cache_dir() / "tools" / f"{source.parent.name}-{source.stem}-{key}", make, say) / source.stem


def installed(*names: str, good: Callable[[Tool], bool] = lambda _: True) -> Tool | None:
    """The first of these programs on PATH that reports its version and for which `good` returns True."""
    for name in names:
        path = shutil.which(name)
        if path and (version := _VERSION.search(answer_of((path, "--version"), {}))):
            tool = Tool((path,), version[1])
            if good(tool):
                return tool
    return None


def private(
    package: str,
    program: str,
    say: Say,
    fix: str,
    environment: Callable[[Path], dict[str, str]] = lambda _: {},
    *,
    alone: bool = False,
) -> Tool:
    """A program of this machine's distribution, unpacked in the cache. With `alone`, the packages that it depends on
    are not fetched, and no search path for libraries is set."""
    try:
        tree = debian.unpacked(package, None, say, alone=alone)
    except RqpsError as error:
        raise RqpsError(f"{package} is missing here, and fetching it failed: {error.message}", fix=fix) from error
    programs = (path for path in sorted(tree.glob(program)) if path.read_bytes()[:4] == b"\x7fELF")
    argv = (str(next(programs, tree / program)),)
    given = {**({} if alone else _search(debian.library_folders(tree))), **environment(tree)}
    answer = answer_of((*argv, "--version"), given)
    if version := _VERSION.search(answer):
        return Tool(argv, version[1], given)
    raise RqpsError(f"{argv[0]} does not run: {answer.strip()[-400:] or 'it prints nothing'}", fix=fix)


LIBRARY_PACKAGES = {
    "libaio.so.1": "libaio1",
    "libnuma.so.1": "libnuma1",
    "libcrypt.so.1": "libcrypt1",
    "libgflags.so.2.2": "libgflags2.2",
    "libjemalloc.so.2": "libjemalloc2",
    "libtcmalloc_minimal.so.4": "libtcmalloc-minimal4",
}
"""Maps each library to its Debian package. Packages are taken from a suite so old that its libraries run with the
libc of any machine."""
LIBRARY_SUITE = "bookworm"
SYSTEM_LOADER = "/lib64/ld-linux-x86-64.so.2"
SAME_BY_ANOTHER_NAME = {"libaio.so.1": "libaio.so.1t64"}
"""Maps the name of a library to its new name in Debian and Ubuntu. The library was renamed because its interface
changed on 32-bit machines; on x86-64 only the name changed."""


def missing_libraries(program: Path, environment: Mapping[str, str]) -> list[str]:
    """The libraries that a program needs and the system's loader does not find. The loader lists them without
    running the program."""
    try:
        # A server does not inherit the LD_LIBRARY_PATH of the user.
        alone = {"LD_LIBRARY_PATH": "", **environment, "LD_TRACE_LOADED_OBJECTS": "1"}
        listed = ask([SYSTEM_LOADER, str(program)], alone).stdout
    except FileNotFoundError:  # the loader is elsewhere: missing libraries show when the program starts
        return []
    return [line.split()[0] for line in listed.splitlines() if line.endswith("=> not found")]


def refuse_here(asked: Asked, origin: Source, locate: Locate) -> None:
    """Refuses a path without a build, and a build on this machine whose version is not the one that runs.yaml states.
    The version is checked only if all libraries of the program are on this machine, so that nothing is fetched."""
    if origin.kind in ("path", "on_path"):
        origin.fetch(asked.build, lambda _: None)
    if (program := origin.program) and not missing_libraries(program, _search(_beside(program))):
        locate(asked.build, asked.build_spec, lambda _: None)


def located(
    kind: type[Located],
    name: str,
    origin: Source,
    asked: BuildSpec,
    ask: Callable[[Sequence[str], Mapping[str, str]], Mapping[str, Any]],
    say: Say,
    argv: Callable[[Path], tuple[str, ...]] | None = None,
) -> Located:
    """The build of a source, fetched if needed. Fails if its version is not the one that runs.yaml states. `ask`
    reads facts about the program, including `version`. `argv` returns the beginning of the program's command line:
    by default the program's path; for a Debian package, the loader among the package's libraries comes before the
    path."""
    tree = origin.fetch(name, say)
    program = origin.sought.in_tree(tree)
    assert program is not None  # without a program, fetching would have failed
    own_loader = argv is None and origin.kind == "debian"
    command = argv(program) if argv else debian.own_loader(tree, program) if own_loader else (str(program),)
    environment = library_environment(name, program, say) if command == (str(program),) else {}
    facts = asked_once(program, lambda: ask(command, environment), say)
    refuse_other_version(name, asked, origin, facts["version"])
    return kind(
        name=name,
        version=facts["version"],
        source=origin.words,
        directory=tree,
        program=program,
        argv=command,
        digest=facts["digest"],
        environment=environment,
        compiled=how_compiled(program, origin.sought),
    )


def allocator_library(name: str, say: Say) -> Path:
    """The library of a memory allocator, given by its name or its path. The library of a known name is fetched if
    this machine lacks it."""
    refuse_allocator(name)
    if name not in ALLOCATORS:
        return Path(name).expanduser().resolve()
    library = ALLOCATORS[name]
    return Path(_of_the_machine(library) or folder_with(f"malloc: {name}", library, say) / library).resolve()


def refuse_allocator(name: str) -> None:
    """Refuses an allocator that is neither known to rqps nor the path of a library on this machine."""
    known = " or ".join(ALLOCATORS)
    if name.startswith(("/", "~/")):
        if not Path(name).expanduser().is_file():
            fix = f"install the library, or write {known}, which rqps fetches"
            raise RqpsError(f"malloc: {name}: this machine has no such library", fix=fix)
    elif name not in ALLOCATORS:
        hint = instead(name, ALLOCATORS, "allocators")
        fix = f"write {known}, or the path of a library"
        raise RqpsError(f"malloc: unknown allocator {name!r}; {hint}", fix=fix)


def _beside(program: Path) -> list[Path]:
    """A list with the program's folder, if this folder contains libraries; else an empty list."""
    return [program.parent] if any(program.parent.glob("lib*.so.*")) else []


def library_environment(name: str, program: Path, say: Say) -> dict[str, str]:
    """The environment in which a build's program finds its libraries. Missing libraries are taken from the folders in
    the user's LD_LIBRARY_PATH, or else fetched."""
    beside = _beside(program)
    environment = _search(beside)
    if lacking := missing_libraries(program, environment):
        users = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        given = {
            next((folder for folder in users if (folder / library).exists()), None)
            or folder_with(f"builds.{name}: its program", library, say)
            for library in lacking
        }
        environment = _search([*beside, *sorted(given)])
    return environment


def _search(folders: Iterable[Path]) -> dict[str, str]:
    paths = ":".join(map(str, folders))
    return {"LD_LIBRARY_PATH": paths} if paths else {}


def folder_with(name: str, library: str, say: Say) -> Path:
    """A folder with a library, for LD_LIBRARY_PATH; the library is fetched if needed. In messages, `name` says what
    needs the library: a key in runs.yaml."""
    if other := _of_the_machine(SAME_BY_ANOTHER_NAME.get(library)):
        return made_once(
            cache_dir() / "renamed-libraries" / library, lambda folder: (folder / library).symlink_to(other), say
        )
    needed = f"{name} needs {library}, which this machine does not have"
    package = LIBRARY_PACKAGES.get(library)
    if package is None:
        fix = "install the package that holds it, or put it beside the program and set LD_LIBRARY_PATH"
        raise RqpsError(needed, fix=fix)
    try:
        tree = debian.unpacked(package, LIBRARY_SUITE, say, alone=True)
    except RqpsError as error:
        raise RqpsError(f"{needed}: {error.message}", fix=f"install {package}, then run the command again") from error
    return next(folder for folder in debian.library_folders(tree) if (folder / library).exists())


def _of_the_machine(library: str | None) -> str | None:
    """The path to which the dynamic loader resolves a library's name; None if the system does not have it."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, errors="replace").stdout
    lines = (line.split() for line in known.splitlines() if "x86-64" in line)
    return next((words[-1] for words in lines if words[0] == library), None)
