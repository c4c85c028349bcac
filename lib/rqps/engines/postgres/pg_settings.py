"""Translates a config's options for one release. The release's own pg_settings lists its options, so rqps keeps no
table of them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from rqps.engines import Option, preparation
from rqps.engines.preparation import Translated, Value

ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
_BYTES = {"B": Decimal(1), **{f"{letter}B": Decimal(1 << 10 * (n + 1)) for n, letter in enumerate("kMGT")}}
_MS = {"us": "0.001", "ms": "1", "s": "1000", "min": "60000", "h": "3600000", "d": "86400000"}
_TIMES = {name: Decimal(ms) for name, ms in _MS.items()}
_NUMBER = re.compile(r"(-?[\d.]+(?:e-?\d+)?) ?([a-zA-Z]*)")
_UNIT = re.compile(r"(\d*)(\w+)")
SEGMENT_MB = 16


@dataclass(frozen=True)
class Setting:
    """One row of pg_settings."""

    value: str
    unit: str | None
    kind: str
    """The type of the value: bool, enum, integer, real or string."""
    choices: tuple[str, ...] = ()


READ = "SELECT name, setting, unit, vartype, array_to_string(enumvals, ',') FROM pg_settings"


def settings_of(rows: list[tuple[str | None, ...]]) -> dict[str, Setting]:
    """Maps names of settings to settings, from the rows that the query `READ` returns."""
    return {
        str(name): Setting(str(value or ""), unit, str(kind), tuple((choices or "").split(",")) if choices else ())
        for name, value, unit, kind, choices in rows
    }


def _wal_compression(text: str, known: Mapping[str, Setting]) -> tuple[str, str]:
    """Before 15 the option is a switch. Since then it names a method, and `on` means pglz, the method of older
    releases."""
    if known["wal_compression"].kind == "bool":
        return "wal_compression", "on" if text == "pglz" else text
    return "wal_compression", "pglz" if text in ON else text


def _wal_keep_size(text: str, known: Mapping[str, Setting]) -> tuple[str, str]:
    """Before 13 the option is wal_keep_segments, a number of segments."""
    if "wal_keep_size" in known:
        return "wal_keep_size", text
    megabytes = Decimal(canonical(text, Setting("0", "MB", "integer")))
    return "wal_keep_segments", str(int(megabytes / SEGMENT_MB))


def _debug_parallel_query(text: str, known: Mapping[str, Setting]) -> tuple[str, str]:
    """Before 16 the option is called force_parallel_mode."""
    return "debug_parallel_query" if "debug_parallel_query" in known else "force_parallel_mode", text


FORMS: dict[str, Callable[[str, Mapping[str, Setting]], tuple[str, str]]] = {
    "wal_compression": _wal_compression,
    "wal_keep_size": _wal_keep_size,
    "debug_parallel_query": _debug_parallel_query,
}
"""Maps each option that some releases spell differently to the function that translates it."""


def translate(asked: Mapping[str, Option], known: Mapping[str, Setting], *, dbms: str, version: str) -> Translated:
    """Translates the options `asked` for a server whose settings are `known`."""

    def translated(name: str, value: Value) -> Translated | None:
        text = plain(value)
        own_name, text = FORMS[name](text, known) if name in FORMS else (name, text)
        if own_name not in known:
            return None
        canonical(text, known[own_name])  # a ValueError if the setting can't have this value
        return Translated(("-c", f"{own_name}={text}"), {own_name: text})

    return preparation.translate(asked, known, translated, f"{dbms}: PostgreSQL {version} has")


def mismatches(expected: Mapping[str, str], reported: Mapping[str, Setting]) -> list[str]:
    """One line for each setting whose reported value is not the expected one, with both values. A value of -1 is not
    compared: the server then chooses the value itself."""
    wrong = []
    for name, text in expected.items():
        setting = reported.get(name)
        if setting is None:
            wrong.append(f"{name}: asked for {text!r}, the server has no such setting")
        elif text != "-1" and canonical(text, setting) != canonical(setting.value, setting):
            has = f"{setting.value} (in {setting.unit})" if setting.unit else setting.value
            wrong.append(f"{name}: asked for {text!r}, the server has {has!r}")
    return wrong


def canonical(text: str, setting: Setting) -> str:
    """The same spelling for all equal values, with numbers in the setting's own unit; ValueError for a value that the
    setting can't have.

    >>> canonical("1GB", Setting("16384", "8kB", "integer")), canonical("TRUE", Setting("off", None, "bool"))
    ('131072', 'on')
    """
    word = text.strip().lower()
    match setting.kind:
        case "bool":
            if word not in (*ON, *OFF):
                raise ValueError(f"{text!r} is neither on nor off")
            return "on" if word in ON else "off"
        case "enum":
            choices = {choice.lower() for choice in setting.choices} | {setting.value.lower()}
            meant = "on" if word in ON and "on" in choices else "off" if word in OFF and "off" in choices else word
            if meant not in choices:
                raise ValueError(f"{text!r} is none of {', '.join(sorted(choices))}")
            return meant
        case "integer" | "real":
            return _number(text.strip(), setting)
    return text


def _number(text: str, setting: Setting) -> str:
    asked, own = _NUMBER.fullmatch(text), _UNIT.fullmatch(setting.unit or "")
    try:
        amount = Decimal(asked[1] if asked else "")
        if asked and asked[2]:
            amounts = _TIMES if own and own[2] in _TIMES else _BYTES
            amount *= amounts[asked[2]] / (amounts[own[2]] * int(own[1] or 1) if own else 0)
    except (ArithmeticError, KeyError):
        units = ", ".join(_TIMES if (setting.unit or "") in _TIMES else _BYTES)
        hint = f"a number, with one of {units} behind it" if own else "a plain number"
        raise ValueError(f"{text!r} is not {hint}") from None
    return str(int(amount)) if amount == int(amount) else str(amount.normalize())


def plain(value: Value) -> str:
    """The text of a value on a command line."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
