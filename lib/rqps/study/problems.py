"""What is wrong in a runs.yaml: one value per mistake, so that all are told at once."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rqps.errors import RqpsError

Place = tuple[str | int, ...]
"""Where something stands: `("studies", "demo", "dbms", 2)`."""


@dataclass(frozen=True)
class Problem:
    place: Place
    text: str
    line: int | None = None
    """Where it is known better than by `place`."""


def dotted(place: Place) -> str:
    """A place as people write it.

    >>> dotted(("studies", "demo", "dbms", 2))
    'studies.demo.dbms[2]'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def line_of(place: Place, lines: Mapping[Place, int]) -> int:
    """The line of a place, or of the nearest thing around it that stands in the file."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def all_at_once(file: str, problems: Iterable[Problem], lines: Mapping[Place, int]) -> RqpsError:
    """One error that lists every problem in the order of the file."""
    located = sorted({(p.line or line_of(p.place, lines), dotted(p.place), p.text) for p in problems})
    return RqpsError(
        "\n".join(f"{file}:{line}: {f'{where}: ' if where else ''}{text}" for line, where, text in located)
    )


def instead(word: str, known: Iterable[str], kind: str) -> str:
    """What to write in place of an unknown word: the nearest known one, or all there are.

    >>> instead("mysq", ["mysql", "path"], "keys")
    "did you mean 'mysql'?"
    >>> instead("zzz", ["mysql", "path"], "keys")
    'the keys are mysql, path'
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    return f"the {kind} are {', '.join(by_lower.values())}" if by_lower else f"there are no {kind} yet"
