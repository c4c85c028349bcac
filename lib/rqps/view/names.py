"""Names as short as they may be where there is room for little, and still told apart."""

import re
from collections import defaultdict
from collections.abc import Iterable

_RANGE = re.compile(r"^(?P<rest>.*)_range=(?P<size>\d+)$")


def short_steps(steps: Iterable[str], between: str = " ") -> dict[str, str]:
    """Steps without their range where all of their kind have the same; else with `between` before it.

    >>> short_steps(["scan_range=100", "read-only_range=10", "read-only_range=100", "read-only.pre_range=10"])
    ... # doctest: +NORMALIZE_WHITESPACE
    {'scan_range=100': 'scan', 'read-only_range=10': 'read-only 10', 'read-only_range=100': 'read-only 100',
     'read-only.pre_range=10': 'read-only.pre 10'}
    """
    names = list(dict.fromkeys(steps))
    sizes = defaultdict(set)
    for name in names:
        rest, size = _parts(name)
        sizes[rest.replace(".pre", "")].add(size)
    return {name: _short(name, between, len(sizes[_parts(name)[0].replace(".pre", "")])) for name in names}


def _parts(name: str) -> tuple[str, str]:
    found = _RANGE.match(name)
    return (found["rest"], found["size"]) if found else (name, "")


def _short(name: str, between: str, sizes: int) -> str:
    rest, size = _parts(name)
    return f"{rest}{between}{size}" if sizes > 1 and size else rest


def short_dbms(dbms: Iterable[str]) -> tuple[dict[str, str], str]:
    """Dbms without the end that all of them have, which is given too: whole words of it only.

    >>> short_dbms(["my8028_rel_o2nofp.z11a", "my8040_rel_o2nofp.z11a", "my8040adv_rel_o2nofp.z11a"])[1]
    '_rel_o2nofp.z11a'
    >>> short_dbms(["my5624.base", "my8033.base", "my8033.ps0"])[0]["my8033.base"]
    'my8033.base'
    """
    names = list(dict.fromkeys(dbms))
    words = [re.findall(r"^[^._ ]*|[._ ][^._ ]*", name) for name in names]
    end: list[str] = []
    while len(names) > 1 and all(len(each) > 1 for each in words) and len({each[-1] for each in words}) == 1:
        end.insert(0, words[0][-1])
        words = [each[:-1] for each in words]
    return {name: "".join(each) for name, each in zip(names, words, strict=True)}, "".join(end)
