"""Finds the releases of published builds, and the measured comparison that is nearest to a published comparison."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_BUILD = re.compile(r"my(\d)(\d)(\d+)(adv)?_rel(?:_o2nofp)?(.*)")


class Server(NamedTuple):
    """A server's name, its release, and the other words of the name, such as `adv`, `-O3` or options."""

    name: str
    version: str
    words: str = ""

    @property
    def place(self) -> int:
        """The release as a number: 8.0.28 is 80028."""
        numbers = map(int, re.findall(r"\d+", self.version))
        return sum(number * weight for number, weight in zip(numbers, (10_000, 100, 1), strict=False))


class Pair(NamedTuple):
    base: Server
    me: Server

    def __str__(self) -> str:
        return f"{self.me.version} against {self.base.version}"

    def distance(self, other: "Pair") -> int:
        return abs(self.base.place - other.base.place) + abs(self.me.place - other.me.place)

    def is_same(self, other: "Pair") -> bool:
        """True if both pairs have the same two releases and the rest of the names is equal, too."""
        sides = ((self.base, other.base), (self.me, other.me))
        return all((one.version, one.words) == (two.version, two.words) for one, two in sides)


def short(build: str) -> str:
    """A short form of a build's name, for the heading of a column.

    >>> short("my8040_rel_o2nofp"), short("my8040adv_rel_o2nofp"), short("my8040_rel_o2nofp_norndfast+nops+spin5")
    ('8.0.40', '8.0.40 adv', '8.0.40 norndfast nops spin5')
    >>> short("my8040_rel"), short("5.7.5")
    ('8.0.40 -O3', '5.7.5')
    """
    if not (match := _BUILD.fullmatch(build)):
        return build
    major, minor, patch, advanced, rest = match.groups()
    words = [f"{major}.{minor}.{int(patch)}", "adv" if advanced else "", *re.split(r"[_+]", rest)]
    words += [] if "_o2nofp" in build else ["-O3"]
    return " ".join(word for word in words if word)


def server(name: str, version: str = "") -> Server:
    """Parses the name of a build if it is written as in the published studies; otherwise uses the given `version`.

    >>> server("my8040adv_rel_o2nofp"), server("my8033", "8.0.33-debug").version
    (Server(name='my8040adv_rel_o2nofp', version='8.0.40', words='adv'), '8.0.33')
    """
    words = short(name)
    if words == name and version:
        return Server(name, version.split("-")[0])
    release, _, rest = words.partition(" ")
    return Server(name, release, rest)


def pairs_of(servers: Sequence[Server]) -> list[Pair]:
    """One pair for each two servers of different releases; the earlier release is the base."""
    return [Pair(base, me) for base in servers for me in servers if base.place < me.place]


def nearest(ours: Sequence[Pair], theirs: Sequence[Pair]) -> Pair | None:
    """The comparison in `ours` whose releases are nearest to the releases of any comparison in `theirs`; if several
    are equally near, the one with the latest release."""

    def distance(pair: Pair) -> tuple[bool, int, int, str]:
        same = any(pair.is_same(other) for other in theirs)
        return not same, min(pair.distance(other) for other in theirs), -pair.me.place, pair.me.words

    return min(ours, key=distance, default=None)
