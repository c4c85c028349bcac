"""The fit of a PGO profile: the number of functions in it, and the number that differ in the build that uses it."""

import re
from array import array
from itertools import pairwise
from pathlib import Path

ALL_WARNINGS = {
    "CCC_OVERRIDE_OPTIONS": "# x-Wno-backend-plugin +-mllvm +-pgo-warn-missing-function +-Qunused-arguments"
}
"""The environment of the build that uses a profile. It makes clang warn of functions that the profile does not fit.
The flags can't ask for that: configure would take each warning for a failed test."""
_OF_GCC = re.compile(r"^(.+?): warning: .*function [‘'](.+)[’'] (?:does not match its|not found in) profile", re.M)
_OF_CLANG = re.compile(r"^warning: (.+): (function control flow change|no profile data).* (\S+) Hash = ", re.I | re.M)
_NAME = re.compile(r"^ +(\S.*):\n +Hash:", re.M)
_FUNCTION_TAG, _FUNCTION_SIZES = 0x01000000, (3, 12)
"""The tag of a function in a .gcda file, and the length of its record: in words, from gcc 12 on in bytes."""


def misfits_of_gcc(folder: Path, log: str) -> tuple[int, int]:
    """The number of functions in gcc's profile, and the number that differ in the build: functions with another
    control flow, or functions that the profile of their file lacks."""
    number = 0
    for file in folder.rglob("*.gcda"):
        words = array("I", (content := file.read_bytes())[: len(content) // 4 * 4])
        number += sum(tag == _FUNCTION_TAG and size in _FUNCTION_SIZES for tag, size in pairwise(words))
    return number, len({*_OF_GCC.findall(log)})


def misfits_of_clang(shown: str, log: str) -> tuple[int, int]:
    """The number of functions in clang's profile, which llvm-profdata shows, and the number of them that differ in
    the build: functions with another control flow, or static functions, whose names in a profile contain the path of
    their file, with another path. A function that is compiled more than once differs if one of its versions does.

    >>> misfits_of_clang("  main:\\n    Hash: 1\\n  /old/a.c:part:\\n    Hash: 2\\n", '''
    ... warning: /new/a.c: no profile data available for function part Hash = 2 [-Wbackend-plugin]
    ... warning: /new/a.c: no profile data available for function never_run Hash = 3 [-Wbackend-plugin]
    ... ''')
    (2, 1)
    """
    warned = set()
    for file, kind, function in _OF_CLANG.findall(log):
        warned |= {f"{Path(file).name}:{function}"} | ({function} if kind[:2].lower() == "fu" else set())
    # From LLVM 18 on, a semicolon separates a static function from its file.
    names = [name.rpartition("/")[2].replace(";", ":") for name in _NAME.findall(shown)]
    return len(names), sum(name in warned for name in names)
