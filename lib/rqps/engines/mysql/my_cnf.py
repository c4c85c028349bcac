"""Reads a my.cnf as the server does: its options by group, and for each line whether rqps accepts it.

A config in runs.yaml starts from such a file by `my_cnf: etc/my.cnf.cz10a`. Options for files and folders are
ignored, since rqps sets these; the allocator, which mysqld_safe would set, becomes the option `malloc`.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from rqps.engines import ALLOCATORS, FileLine, option_name

KEY = "my_cnf"
ABOUT = "An option file beside runs.yaml, such as etc/my.cnf. The config's own options override those of the file."
WRAPPER = "mysqld_safe"
NAMED_SKIP = frozenset(
    f"skip_{name}"
    for name in ("external_locking", "name_resolve", "networking", "replica_start", "show_database", "slave_start")
)
"""Options whose own names begin with `skip_`. In all other names, the prefix `skip_` switches the option off."""
NOT_EVERYWHERE = frozenset(("default_authentication_plugin", "skip_slave_start"))
"""Options that some versions accept but do not report, and that others lack. They decide how clients log in, and
whether replication starts; rqps needs neither, so they are optional."""
_GROUP = re.compile(r"\[\s*([^\]\s]+)\s*\]\s*(?:[#;].*)?")
_OPTION = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)\s*(?:(=)\s*(.*)|#.*)?")
_QUOTED = re.compile(r"""(['"])(.*)\1\s*(?:#.*)?""")
_SERIES = re.compile(r"mysqld-(\d+\.\d+)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\"}


def read(text: str, ours: frozenset[str]) -> tuple[list[FileLine], list[tuple[int, str]]]:
    """Returns the options in a my.cnf, and its mistakes, both with line numbers. Options in `ours` are not accepted,
    since rqps sets them."""
    lines: list[FileLine] = []
    problems: list[tuple[int, str]] = []
    group = ""
    for number, line in enumerate(text.splitlines(), 1):
        written = line.strip()
        if not written or written[0] in "#;":
            continue
        if written.startswith("!"):
            problems.append((number, f"{written.split()[0]} is refused: a config is one file; put its options here"))
        elif written.startswith("["):
            if (heading := _GROUP.fullmatch(written)) is None:
                problems.append((number, f"{written!r} is not a group; write one such as [mysqld]"))
            group = heading[1] if heading else group
        elif (option := _OPTION.fullmatch(written)) is None:
            problems.append((number, f"{written!r} is not an option; write name=value"))
        elif not group:
            problems.append((number, f"{option[1]!r} stands before the first group; write [mysqld] above it"))
        else:
            value = _value(option[3] or "") if option[2] else None
            lines.append(_line(number, group, option_name(option[1]).lower(), value, ours))
    return list(_the_last_counts(lines)), problems


def _line(number: int, group: str, name: str, value: str | None, ours: frozenset[str]) -> FileLine:
    """One option, with the name and the value that a config in runs.yaml would have for it."""
    if group == WRAPPER and name == "malloc_lib" and value:
        return FileLine(number, "malloc", _allocator(value))
    match = _SERIES.fullmatch(group)
    if group not in ("mysqld", "server") and not match:
        return FileLine(number, name, value or "", note=f"is of [{group}], which no server reads", taken=False)
    series = match[1] if match else ""
    optional = name.startswith("loose_") or name in NOT_EVERYWHERE
    name = name.removeprefix("loose_")
    for prefix, switch in (("skip_", "OFF"), ("disable_", "OFF"), ("enable_", "ON")):
        if name.startswith(prefix) and name not in NAMED_SKIP and name not in ours:
            name, value = name.removeprefix(prefix), switch
    given = "ON" if value is None else value
    if name in ours:
        return FileLine(number, name, given, optional, series, "is set by rqps for every server", taken=False)
    if name == "log_bin" and given not in ("ON", "OFF"):
        return FileLine(number, name, "ON", optional, series, "has its files where rqps puts them")
    if given.startswith(("/", "~/", "./")):
        return FileLine(number, name, given, optional, series, "is a path, which rqps chooses", taken=False)
    return FileLine(number, name, given, optional, series)


def _value(written: str) -> str:
    """A value without its quotes, or without the comment after it, and with its escape sequences replaced."""
    quoted = _QUOTED.fullmatch(written)
    plain = quoted[2] if quoted else re.split(r"\s+#|^#", written)[0].strip()
    return re.sub(r"\\([btnrs\\])", lambda escape: _ESCAPES[escape[1]], plain)


def _allocator(path: str) -> str:
    """The name of a known allocator if the library's file name begins with this name, or with `lib` and this name;
    else the path itself."""
    file = PurePosixPath(path).name
    return next((name for name in ALLOCATORS if file.startswith((f"lib{name}", name))), path)


def _the_last_counts(lines: list[FileLine]) -> Iterator[FileLine]:
    """If several lines set one option for the same releases, only the last line is accepted, as a server would do.
    The earlier lines get a note."""
    last = {(line.name, line.series): line.number for line in lines if line.taken}
    for line in lines:
        again = last.get((line.name, line.series), line.number)
        if line.taken and again != line.number:
            yield line._replace(note=f"is set again on line {again}", taken=False)
        else:
            yield line
