"""Translates a config, which uses the current names of options, into the options of one version.

The server's own `SHOW GLOBAL VARIABLES` lists the options of a version, so rqps knows the options of your own
builds, too. This module lists only options that some versions name or write differently.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from rqps.engines import Option, preparation
from rqps.engines.preparation import Translated, Value


def _log_bin(value: Value, _known: Mapping[str, str]) -> Translated | None:
    if is_on(value):
        return Translated(("--log-bin=binlog",), {"log_bin": "ON"})
    return Translated(("--skip-log-bin",), {"log_bin": "OFF"})


def _ssl(value: Value, known: Mapping[str, str]) -> Translated | None:
    if is_on(value):
        return None
    if "tls_version" in known:  # preferred to skip-ssl, which 8.4 lacks
        return Translated(("--tls-version=",), {"tls_version": ""})
    return Translated(("--skip-ssl",), {"have_ssl": "NO" if known.get("have_ssl") == "NO" else "DISABLED"})


def _redo_log_capacity(value: Value, known: Mapping[str, str]) -> Translated | None:
    """Translates the capacity for releases before 8.0.30, whose options are the number of redo log files and the
    size of each file. The result is two files, each with half of the capacity."""
    if "innodb_redo_log_capacity" in known:
        return None
    file_bytes = int(canonical(value)) // 2
    return Translated(
        (f"--innodb-log-file-size={file_bytes}", "--innodb-log-files-in-group=2"),
        {"innodb_log_file_size": str(file_bytes), "innodb_log_files_in_group": "2"},
    )


def _malloc(_value: Value, _known: Mapping[str, str]) -> Translated | None:
    """Returns no option of mysqld for the allocator, which is a library that is preloaded at the server's start."""
    return Translated()


FORMS: dict[str, Callable[[Value, Mapping[str, str]], Translated | None]] = {
    "log_bin": _log_bin,
    "ssl": _ssl,
    "innodb_redo_log_capacity": _redo_log_capacity,
    "malloc": _malloc,
}
"""Maps each option that some versions name or write differently to the function that translates it. The function
returns None if the given server takes the option as the config has it."""

LOG_FILES = ("innodb_log_file_size", "innodb_log_files_in_group")


def _with_capacity(asked: Mapping[str, Option], known: Mapping[str, str]) -> dict[str, Option]:
    """Replaces the size and number of redo log files by the total capacity, if the version has only that option."""
    size, files = (asked.get(name) for name in LOG_FILES)
    if size is None or "innodb_redo_log_capacity" not in known or LOG_FILES[0] in known:
        return dict(asked)
    number = int(canonical(files.value)) if files else 2
    capacity = replace(size, value=int(canonical(size.value)) * number)
    others = {name: option for name, option in asked.items() if name not in LOG_FILES}
    return {"innodb_redo_log_capacity": capacity, **others}


_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def translate(asked: Mapping[str, Option], known: Mapping[str, str], *, dbms: str, version: str) -> Translated:
    """Translates the options `asked` for a server whose variables are `known`."""

    def translated(name: str, value: Value) -> Translated | None:
        if name in FORMS and (special := FORMS[name](value, known)):
            return special
        option = f"--{name.replace('_', '-')}={argument(value, version)}"
        return Translated((option,), {name: plain(value)}) if name in known else None

    return preparation.translate(_with_capacity(asked, known), known, translated, f"{dbms}: MySQL {version} has")


def mismatches(expected: Mapping[str, str], reported: Mapping[str, str]) -> list[str]:
    """One line for each variable whose reported value is not the expected one, with both values."""
    return [
        f"{name}: asked for {value!r}, the server has {reported.get(name, 'no such variable')!r}"
        for name, value in expected.items()
        if name not in reported or not _has(reported[name], value)
    ]


def _has(reported: str, asked: str) -> bool:
    """True if a reported value is the one that a config asks for. Of flags, such as those of optimizer_switch, the
    server reports all, and a config names only some."""
    has, wanted = _of_any_order(reported), _of_any_order(asked)
    return has == wanted or (all("=" in item for item in wanted) and {*wanted} <= {*has})


def _of_any_order(value: str) -> list[str]:
    """The items of a list such as sql_mode, sorted, since the server reports them in an order of its own."""
    return sorted(map(canonical, value.split(",")))


def canonical(value: Value) -> str:
    """One spelling for values that are equal: `256M` and `268435456`, `ON` and `1`, `0.50` and `0.5`."""
    text = str(value).strip().lower()
    if text in ("on", "true", "yes"):
        return "1"
    if text in ("off", "false", "no"):
        return "0"
    if text[:-1].isdigit() and text[-1] in _SIZES:
        return str(int(text[:-1]) * _SIZES[text[-1]])
    if text.removeprefix("-").isdecimal():
        return str(int(text))
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else str(number)


def argument(value: Value, version: str) -> str:
    """A value in the form of the command line. For 5.5 a boolean is 1 or 0: InnoDB of 5.5 rejects ON as invalid, and
    ignores the option."""
    return canonical(value) if isinstance(value, bool) and version.startswith("5.5.") else plain(value)


def plain(value: Value) -> str:
    """A value in the form in which the server reports it."""
    return {True: "ON", False: "OFF"}[value] if isinstance(value, bool) else str(value)


def is_on(value: Value) -> bool:
    return canonical(value) == "1"
