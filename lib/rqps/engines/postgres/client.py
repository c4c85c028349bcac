"""Connections for control, never for load: the simple query protocol over a socket, which is the same in all
releases."""

import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Self

USER = DATABASE = "rqps"
"""The name of the superuser and of the database that rqps makes. The server's search path begins with a schema of
this name."""
PROTOCOL = 3 << 16
Row = tuple[str | None, ...]


class StatementError(Exception):
    """The server's refusal of a statement or a connection."""

    def __init__(self, severity: str, code: str, message: str) -> None:
        super().__init__(f"{severity}: {message} ({code})")
        self.code = code


class Connection:
    """A connection to a server's socket. All values are text. At the end of a `with` block the connection is
    closed. If a list `reusable` is given, `close` adds the connection to this list for reuse and does not end it."""

    def __init__(
        self,
        path: Path,
        patience_s: float,
        database: str = DATABASE,
        schema: str | None = None,
        reusable: "list[Connection] | None" = None,
    ) -> None:
        self._reusable = reusable
        self._line = socket.socket(socket.AF_UNIX)
        self._line.settimeout(patience_s)
        try:
            self._line.connect(str(path))
            self._in = self._line.makefile("rb")
            words = {"user": USER, "database": database, "application_name": "rqps", "client_encoding": "UTF8"}
            words |= {"search_path": schema} if schema else {}
            text = b"".join(word.encode() + b"\0" for pair in words.items() for word in pair) + b"\0"
            self._line.sendall(struct.pack("!II", len(text) + 8, PROTOCOL) + text)
            list(self._rows())
        except BaseException:
            self._line.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def query(self, sql: str) -> list[Row]:
        """The rows of a statement, or of several statements with ; between them."""
        self._send(b"Q", sql.encode(errors="surrogateescape") + b"\0")
        return list(self._rows())

    def copy_in(self, sql: str, lines: Iterable[str]) -> None:
        """Runs a COPY statement that reads its rows from `lines`."""
        self._send(b"Q", sql.encode() + b"\0")
        kind, body = self._message()
        if kind == b"E":
            list(self._rows())
            raise _error(body)
        for line in lines:
            self._send(b"d", line.encode(errors="surrogateescape"))
        self._send(b"c", b"")
        list(self._rows())

    @property
    def dialect(self) -> ModuleType:
        """The module with the functions for the server's SQL."""
        return import_module("rqps.engines.postgres.dialect")

    def wait_at_most(self, patience_s: float) -> Self:
        """This connection, with another maximum wait for an answer."""
        self._line.settimeout(patience_s)
        return self

    def close(self) -> None:
        """Ends the connection and waits until the server has closed it, so that no step includes that work. A
        reusable connection is reset and kept instead."""
        if self._reusable is not None:
            with suppress(StatementError, OSError):
                self.query("DISCARD ALL")
                self._reusable.append(self)
                return
        self.end()

    def end(self, patience_s: float | None = None) -> None:
        """Ends the connection, even a reusable one. The wait for the server is limited by `patience_s`, or else by
        the connection's own timeout."""
        try:
            if patience_s is not None:
                self._line.settimeout(patience_s)
            self._line.sendall(b"X" + struct.pack("!I", 4))
            while self._in.read(1024):
                pass
        except OSError:  # the server is gone already
            pass
        finally:
            self._in.close()
            self._line.close()

    def _rows(self) -> Iterator[Row]:
        """Yields rows until the server is ready for the next statement, then raises the server's error, if any. An
        error that ends the connection is raised at once."""
        refusal: StatementError | None = None
        while True:
            kind, body = self._message()
            match kind:
                case b"D":
                    yield _row(body)
                case b"E":
                    refusal = _error(body)
                    if refusal.code.startswith(("57P", "28", "3D", "53")):  # errors that end the connection
                        raise refusal
                case b"Z":
                    if refusal:
                        raise refusal
                    return

    def _send(self, kind: bytes, body: bytes) -> None:
        self._line.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def _message(self) -> tuple[bytes, bytes]:
        head = self._in.read(5)
        if len(head) < 5:
            raise ConnectionResetError("the server closed the connection")
        kind, length = struct.unpack("!cI", head)
        return kind, self._in.read(length - 4)


def _row(body: bytes) -> Row:
    (count,), at = struct.unpack_from("!H", body), 2
    values: list[str | None] = []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if length < 0 else body[at : at + length].decode())
        at += max(0, length)
    return tuple(values)


def _error(body: bytes) -> StatementError:
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return StatementError(fields.get(b"S", "ERROR"), fields.get(b"C", ""), fields.get(b"M", ""))
