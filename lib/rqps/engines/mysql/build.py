"""A MySQL build: finds mysqld in a tree, provides the libraries that it needs, and asks it for its version."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rqps import engines
from rqps.engines import Say, sources
from rqps.engines.asked import BuildSpec
from rqps.engines.compiled import Elf, how_compiled
from rqps.engines.mysql.perf_schema import classes
from rqps.engines.sources import Sought, Source
from rqps.engines.sources.programs import located, version_of

BINARIES = (
    *("bin", "sbin", "libexec", "usr/sbin", "usr/bin"),
    *("runtime_output_directory", "runtime_output_directory/bin", "sql", "."),
)
MESSAGES = ("share", "share/mysql", "sql/share")
PLUGINS = ("lib/plugin", "lib64/mysql/plugin", "lib/mysql/plugin", "plugin_output_directory")
EMPTY_DATA = "data/mysql"
NEEDED = (
    *("*mysqld", "*.so*", "*share/english/*", "*share/charsets/*"),
    *("*share/*.sql", "*share/mysql*/*", "*scripts/*.sql"),
    f"*{EMPTY_DATA}/*",
)
"""Globs of the files in a tree that a server uses when it starts and runs."""
DEBIAN_OPTIONS = ("--secure-file-priv=", "--loose-mysqlx=OFF")
"""Options for Debian's server: its compiled-in secure_file_priv directory does not exist here, and the X plugin would
listen on a port."""
_VERSION = re.compile(r"\bVer (\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Build(engines.Build):
    """A server binary on this machine."""

    options: tuple[str, ...] = ()
    """Options without which a server from the build's package does not start, such as `--lc-messages-dir=…`."""
    empty_data: Path | None = None
    """The initialised data directory that the package ships, which is copied in place of `mysqld --initialize`;
    None if the package has none."""


def source(name: str, spec: BuildSpec) -> Source:
    return sources.source_of(name, spec, Sought("mysqld", mysqld_in, "mysql-server-core", NEEDED, mysqld_compiled))


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    asking, origin = ["--no-defaults", "--version"], source(name, spec)
    ask = partial(version_of, options=asking, pattern=_VERSION)
    build = located(Build, name, origin, spec, ask, say)
    base, _ = layout(build.directory) or (build.directory, None)
    return replace(
        build,
        directory=base,
        options=(*_folder_options(base), *(DEBIAN_OPTIONS if origin.kind == "debian" else ())),
        empty_data=base / EMPTY_DATA if (base / EMPTY_DATA / "ibdata1").is_file() else None,
    )


def layout(tree: Path) -> tuple[Path, Path] | None:
    """The basedir and the mysqld of an unpacked release, a Debian package or a build tree; None if it has no
    mysqld."""
    # An archive may have all files in one folder, such as mysql-8.0.40-linux/ or package/server/.
    places = [tree]
    while len(places) < 3 and len(inside := [path for path in places[-1].iterdir() if path.is_dir()]) == 1:
        places += inside
    for place in places:
        for binaries in BINARIES:
            mysqld = place / binaries / "mysqld"
            if mysqld.is_file() and mysqld.stat().st_mode & 0o111:
                return place / "usr" if binaries.startswith("usr/") else place, mysqld
    return None


def mysqld_in(tree: Path) -> Path | None:
    folders = layout(tree)
    return folders[1] if folders else None


def mysqld_compiled(program: Path) -> dict[str, str]:
    return how_compiled(program, left_out)


def left_out(elf: Elf) -> dict[str, str]:
    """Facts about what was left out of a mysqld when it was compiled: statement profiling, and kinds of performance
    schema instruments. A kind was left out if the program's constants contain the name of the kind's table, but not
    the name of one of its instruments."""
    constants = elf.section(".rodata")
    names = classes().in_program.items()
    kinds = {kind: instrument for kind, (table, instrument) in names if f"{table}\0".encode() in constants}
    lacking = [kind for kind, instrument in kinds.items() if f"{instrument}\0".encode() not in constants]
    some = f"no instruments of {', '.join(lacking)}" if lacking else "all"
    return {
        "profiling": "yes" if elf.has_symbol(b"_ZN9PROFILING") else "no",
        "instruments": "no performance schema" if not kinds else "none" if len(lacking) == len(kinds) else some,
    }


def _folder_options(base: Path) -> tuple[str, ...]:
    """The options that name the folders of messages and plugins. Without them, an unpacked mysqld may look for these
    folders at the paths of its original installation."""
    messages = (base / name for name in MESSAGES if (base / name / "english/errmsg.sys").is_file())
    plugins = (base / name for name in PLUGINS if (base / name).is_dir())
    options = {"lc-messages-dir": next(messages, None), "plugin-dir": next(plugins, None)}
    return tuple(f"--{option}={folder}" for option, folder in options.items() if folder)
