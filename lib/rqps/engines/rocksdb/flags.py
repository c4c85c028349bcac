"""The flags of db_bench, which configs and steps use, and their translation to RocksDB's own options."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from rqps.engines import Build, Option, table
from rqps.errors import RqpsError, instead

UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
OF_THE_STUDY = {
    **dict.fromkeys(("num", "writes"), "keys in the study's parameters"),
    "threads": "threads in the study's parameters",
    "duration": "seconds in the study's parameters",
    "seed": "the study's seed",
}
"""Maps the flags that no config can set to what sets them in a study."""
_DIGITS = {"true": "1", "false": "0"}
_SIZE = re.compile(r"(\d+)([KMGT])")
Flags = Mapping[str, str]


@dataclass(frozen=True)
class Flag:
    """A flag of db_bench, the RocksDB option that it sets, and the releases that have it."""

    option: str | None = None
    table: str | None = None
    cache: str | None = None
    driver: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    since: str = "0"
    new: str = "0"
    default: str | None = None

    def first(self, db_bench: bool) -> str | None:
        """The first release whose db_bench, or whose library, has the flag. None for the library if only db_bench has
        the flag."""
        if db_bench:
            return self.since
        return self.new if self.option or self.table or self.cache or self.driver else None

    def is_in(self, number: tuple[int, ...], db_bench: bool) -> bool:
        first = self.first(db_bench)
        return first is not None and tuple(map(int, first.split("."))) <= number


@cache
def known() -> Mapping[str, Flag]:
    """All flags by name, as flags.yaml describes them."""
    return {name: Flag(**described) for name, described in table(__package__, "flags").items()}


def plain(value: str | int | float | bool) -> str:
    """A value in the form that db_bench takes.

    >>> plain("16M"), plain(True), plain("OFF"), plain(0.5)
    ('16777216', 'true', 'false', '0.5')
    """
    text = str(value)
    if size := _SIZE.fullmatch(text):
        return str(int(size[1]) << UNITS[size[2]])
    return {"true": "true", "on": "true", "false": "false", "off": "false"}.get(text.lower(), text)


def flag_of(name: str, dbms: str) -> Flag:
    if name not in known():
        raise RqpsError(
            f"{dbms}: unknown flag {name!r}; {instead(name, known(), 'flags')}",
            fix="correct the flag, or take it out of the config: configs of RocksDB have the flags of db_bench",
        )
    return known()[name]


def checked(asked: Mapping[str, Option], build: Build, dbms: str, db_bench: bool) -> tuple[dict[str, str], list[str]]:
    """The flags of a config that a build has, and the names of the flags that are left out. A flag that the build
    lacks is left out if it is optional or has its default value; otherwise the config is refused."""
    flags, left_out = {}, []
    for name, option in asked.items():
        flag, value = flag_of(name, dbms), plain(option.value)
        if name in OF_THE_STUDY:
            fix = f"take it out of the config, and set {OF_THE_STUDY[name]}"
            raise RqpsError(f"{dbms}: {name} can't be set by a config", fix=fix)
        if name == "cache_size" and not value.isdecimal():
            fix = "write bytes, or a whole number with K, M, G or T, such as 64M"
            raise RqpsError(f"{dbms}: cache_size: {option.value!r} is not a size", fix=fix)
        if flag.words and value not in flag.words:
            fix = "take one of these"
            raise RqpsError(f"{dbms}: {name}: {instead(value, flag.words, 'values')}, not {value!r}", fix=fix)
        if flag.is_in(build.number, db_bench):
            flags[name] = value
        elif option.optional or value == flag.default:
            left_out.append(name)
        else:
            first, whose = flag.first(db_bench), "db_bench" if db_bench else "library"
            since = f"which exists since {first}" if first else "which only db_bench has"
            raise RqpsError(
                f"{dbms}: the {whose} of {build.version} does not have {name}, {since}",
                fix=f"take it out of the config, or write {name}? to leave it out where a release lacks it",
            )
    return flags, left_out


def options_text(flags: Flags) -> str:
    """Translates flags to RocksDB's options, as one text that every release reads.

    >>> options_text({"write_buffer_size": "1000", "bloom_bits": "10", "format_version": "4", "cache_size": "64"})
    'write_buffer_size=1000;block_based_table_factory={filter_policy=bloomfilter:10:false;format_version=4;block_cache={capacity=64;};};'
    """
    parts: dict[str, list[str]] = {"option": [], "table": [], "cache": []}
    for name, value in flags.items():
        flag = known()[name]
        words = written(name, value, flags)
        for kind, those in parts.items():
            if words is not None and (called := getattr(flag, kind)):
                those.append(f"{called}={words}")
    if parts["cache"] and flags.get("cache_type", "lru_cache") == "lru_cache":
        parts["table"].append(f"block_cache={{{';'.join(parts['cache'])};}}")
    if parts["table"]:
        parts["option"].append(f"block_based_table_factory={{{';'.join(parts['table'])};}}")
    return "".join(f"{option};" for option in parts["option"])


def written(name: str, value: str, flags: Flags) -> str | None:
    """A value in RocksDB's spelling; None if the value means the same as leaving the flag out."""
    if name == "bloom_bits":
        return f"bloomfilter:{value}:false" if value != "0" else None
    if name != "min_level_to_compress":
        return known()[name].words.get(value, value)
    if value == "-1" or "num_levels" not in flags:
        return None
    words = known()["compression_type"].words
    below = words[flags.get("compression_type", "none")]
    return ":".join(words["none"] if level < int(value) else below for level in range(int(flags["num_levels"])))


def driver_arguments(flags: Flags, number: tuple[int, ...]) -> Iterator[str]:
    """The arguments of the driver for these flags. Flags that are newer than the release are left out."""
    flags = {name: value for name, value in flags.items() if known()[name].is_in(number, db_bench=False)}
    yield f"options={options_text(flags)}"
    for name, value in flags.items():
        if called := known()[name].driver:
            yield f"{called}={_DIGITS.get(value, value)}"


def db_bench_arguments(flags: Flags, number: tuple[int, ...]) -> Iterator[str]:
    """The arguments of a release's db_bench. Flags that are newer than this db_bench are left out."""
    for name, value in flags.items():
        if known()[name].is_in(number, db_bench=True):
            yield f"--{name}={value}"
