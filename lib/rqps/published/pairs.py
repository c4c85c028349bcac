"""Which of our comparisons comes nearest to a published one: by the versions of me and base, and by nothing else."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rqps.published.labels import short

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Server:
    """A server by its release, and what its name says beyond it: `adv`, `-O3`, options."""

    name: str
    version: str
    words: str = ""

    @property
    def place(self) -> int:
        """Releases on one line: 8.0.28 is 80028."""
        found = _VERSION.match(self.version)
        major, minor, patch = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
        return 10_000 * major + 100 * minor + patch


@dataclass(frozen=True)
class Pair:
    """A comparison."""

    base: Server
    me: Server

    def __str__(self) -> str:
        return f"{self.me.version} against {self.base.version}"

    def distance(self, other: "Pair") -> int:
        return abs(self.base.place - other.base.place) + abs(self.me.place - other.me.place)

    def is_same(self, other: "Pair") -> bool:
        """Of the same two releases, and nothing is said of either that is not said of the other."""
        return all(
            (mine.version, mine.words) == (theirs.version, theirs.words)
            for mine, theirs in ((self.base, other.base), (self.me, other.me))
        )


def server(name: str, version: str = "") -> Server:
    """A server by the name of its build, where that is as the published ones are, else by the version that it told.

    >>> server("my8040adv_rel_o2nofp"), server("my8033", "8.0.33-debug").version
    (Server(name='my8040adv_rel_o2nofp', version='8.0.40', words='adv'), '8.0.33')
    """
    told = short(name)
    if told == name and version:
        return Server(name, version.split("-")[0])
    release, _, words = told.partition(" ")
    return Server(name, release, words)


def pairs_of(servers: Iterable[Server]) -> list[Pair]:
    """Every later release against every earlier one."""
    each = list(servers)
    return [Pair(base, me) for base in each for me in each if base.place < me.place]


def nearest(ours: Iterable[Pair], theirs: Iterable[Pair]) -> Pair | None:
    """The one of ours that is nearest to any of theirs; where several are, the one with the latest release."""
    others = list(theirs)

    def distance(pair: Pair) -> tuple[bool, int, int, str]:
        same = any(pair.is_same(other) for other in others)
        return not same, min(pair.distance(other) for other in others), -pair.me.place, pair.me.words

    return min(ours, key=distance, default=None)
