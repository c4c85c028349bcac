"""Errors that a user can fix: shown as a message, never as a traceback."""

import errno
import os

NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class RqpsError(Exception):
    """Something that the user can put right.

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
    """The system's words for a full disk, where somebody's words have them."""
    return next((each for each in NO_ROOM if each in words), "")


def of_the_system(error: OSError) -> RqpsError:
    """The operating system's refusal as an error for the user.

    >>> print(of_the_system(OSError(30, "Read-only file system", "data/report")))
    data/report: Read-only file system
      what to do: take another folder, or let this user write there
    """
    words = error.strerror or str(error)
    fix = "make room there" if no_room(words) else "take another folder, or let this user write there"
    return RqpsError(f"{error.filename or 'a file'}: {words}", fix=fix)
