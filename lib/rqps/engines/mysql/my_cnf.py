"""A my.cnf as a server of a version reads it: the options of its groups, and what becomes of every line.

A config in runs.yaml starts from one by `my_cnf: etc/my.cnf.cz10a`. Files and folders stay those that rqps gives to a
server, and its allocator, which mysqld_safe would set, becomes the option `malloc`.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from rqps.engines import ALLOCATORS, FileLine, option_name

KEY = "my_cnf"
ABOUT = "A file of options beside runs.yaml, such as etc/my.cnf; what the config says itself comes on top."
WRAPPER = "mysqld_safe"
NAMED_SKIP = frozenset(
    f"skip_{name}" for name in ("external_locking", "name_resolve", "networking", "replica_start", "show_database")
)
"""Options whose own names begin with skip_; of all others that switches an option off."""
NOT_EVERYWHERE = frozenset(("default_authentication_plugin",))
"""Options that some versions take and don't report, and others lack: they decide how clients log in, which the
connections of rqps do without."""
_GROUP = re.compile(r"\[\s*([^\]\s]+)\s*\]\s*(?:[#;].*)?")
_OPTION = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)\s*(?:(=)\s*(.*))?")
_QUOTED = re.compile(r"""(['"])(.*)\1\s*(?:#.*)?""")
_SERIES = re.compile(r"mysqld-(\d+\.\d+)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\"}


def read(text: str, ours: frozenset[str]) -> tuple[list[FileLine], list[tuple[int, str]]]:
    """The options in a my.cnf, and its mistakes, both with their lines. rqps sets the options `ours` itself."""
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
    """One option, by the name and with the value that a config has for it."""
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
        return FileLine(number, name, given, optional, series, "is a place, which rqps chooses", taken=False)
    return FileLine(number, name, given, optional, series)


def _value(written: str) -> str:
    """A value without its quotes, or without the comment after it, and with what its escapes stand for."""
    quoted = _QUOTED.fullmatch(written)
    plain = quoted[2] if quoted else re.split(r"\s+#|^#", written)[0].strip()
    return re.sub(r"\\([btnrs\\])", lambda escape: _ESCAPES[escape[1]], plain)


def _allocator(path: str) -> str:
    """The name of an allocator by the file of its library, as mysqld_safe takes it; else the file."""
    file = PurePosixPath(path).name
    return next((name for name in ALLOCATORS if file.startswith((f"lib{name}", name))), path)


def _the_last_counts(lines: list[FileLine]) -> Iterator[FileLine]:
    """The last of the lines that set one option for the same servers counts, as for a server."""
    last = {(line.name, line.series): line.number for line in lines if line.taken}
    for line in lines:
        again = last.get((line.name, line.series), line.number)
        if line.taken and again != line.number:
            yield line._replace(note=f"is set again on line {again}", taken=False)
        else:
            yield line
