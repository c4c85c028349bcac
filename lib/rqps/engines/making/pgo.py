"""The fit of a PGO profile: the number of functions in it, and the number that differ in the build that uses it."""

import re
from array import array
from itertools import pairwise
from pathlib import Path

ALL_WARNINGS = {"CCC_OVERRIDE_OPTIONS": "# x-Wno-backend-plugin"}
"""A variable that removes a flag from all commands of clang. The flag hides the warnings of functions that differ:
configure would take these warnings for failed tests, but rqps needs them from the compilation."""
_OF_GCC = re.compile(r"^(.+?): warning: .*function [‘'](.+)[’'] (?:does not match its|not found in) profile", re.M)
_OF_CLANG = re.compile(r"^warning: (.+): function control flow change detected.* (\S+) Hash = ", re.I | re.M)
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


def misfits_of_clang(shown: str, log: str, work: Path) -> tuple[int, int]:
    """The number of functions in clang's profile, which llvm-profdata shows, and the number of them that differ in
    the build: functions with another control flow, and static functions of files outside the folder `work` of the
    build, since a profile names a static function by the path of its file. A function that is compiled more than once
    differs if one of its versions does.

    >>> shown = "  main:\\n    Hash: 1\\n  /old/a.c:part:\\n    Hash: 2\\n  /new/a.c:other:\\n    Hash: 3\\n"
    >>> misfits_of_clang(shown, "", Path("/new"))
    (3, 1)
    >>> warning = "warning: /new/a.c: function control flow change detected (hash mismatch) other Hash = 4"
    >>> misfits_of_clang(shown, warning, Path("/new"))
    (3, 2)
    """
    warned, roots = {*_OF_CLANG.findall(log)}, (work, work.resolve())
    changed = {function for _, function in warned}

    def differs(file: str, function: str) -> bool:
        if not file:
            return function in changed
        elsewhere = file.startswith("/") and not any(Path(file).is_relative_to(root) for root in roots)
        return elsewhere or (file, function) in warned

    # From LLVM 18 on, a semicolon separates a static function from its file.
    names = [name.replace(";", ":").rpartition(":") for name in _NAME.findall(shown)]
    return len(names), sum(differs(file, function) for file, _, function in names)
