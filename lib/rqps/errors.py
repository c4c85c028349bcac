"""Errors that a user can fix: shown as a message, never as a traceback."""

import difflib
import errno
import os
from collections.abc import Iterable
from itertools import islice

LONGEST_LIST = 1000
"""Maximum number of known names that are compared with an unknown name, to limit the time of the comparison."""
NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class RqpsError(Exception):
    """An error that the user can fix.

    `message` says what is wrong: the file, the key, the bad value. `fix` says what to do next.

    >>> print(RqpsError("runs.yaml: builds.my56: no such directory /opt/my56", fix="unpack a server there"))
    runs.yaml: builds.my56: no such directory /opt/my56
      what to do: unpack a server there
    """

    def __init__(self, message: str, *, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message}\n  what to do: {self.fix}" if self.fix else self.message


def no_room(words: str) -> str:
    """The operating system's message for a full disk, if the text `words` contains one; else empty."""
    return next((word for word in NO_ROOM if word in words), "")


def of_the_system(error: OSError) -> RqpsError:
    """Converts an error of the operating system to an error for the user.

    >>> print(of_the_system(OSError(30, "Read-only file system", "data/report")))
    data/report: Read-only file system
      what to do: take another folder, or let this user write there
    """
    words = error.strerror or str(error)
    fix = "make room there" if no_room(words) else "take another folder, or let this user write there"
    return RqpsError(f"{error.filename or 'a file'}: {words}", fix=fix)


def instead(word: str, known: Iterable[str], kind: str) -> str:
    """Suggests a word to write in place of an unknown word: the most similar known word, or else all known words.

    >>> instead("pat", ["path", "url"], "keys")
    "did you mean 'path'?"
    >>> instead("zzz", ["path", "url"], "keys")
    'the keys are path, url'
    """
    by_lower = {name.lower(): name for name in islice(known, LONGEST_LIST)}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    return f"the {kind} are {', '.join(by_lower.values())}" if by_lower else f"there are no {kind} yet"
