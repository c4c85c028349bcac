"""Errors that a user can fix: shown as a message, never as a traceback."""


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
