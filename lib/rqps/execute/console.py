"""Where progress is shown: one live line in a terminal, plain lines elsewhere."""

import os
import shutil
import sys
from typing import TextIO


class Console:
    """Lines that stay (`say`) and, in a terminal, one that is drawn over (`show`)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    @property
    def width(self) -> int:
        if not self.terminal:
            return 100
        return shutil.get_terminal_size().columns

    @property
    def blocks(self) -> bool:
        """Whether the stream can carry `█`."""
        return (self.stream.encoding or "").lower().replace("-", "") == "utf8"

    def say(self, text: str) -> None:
        self.clear()
        self.stream.write(self._fit(text) + "\n")
        self.stream.flush()

    def show(self, line: str) -> None:
        self.stream.write("\r\x1b[K" + self._fit(line))
        self.stream.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self.stream.write("\r\x1b[K")
            self._shown = False

    def _fit(self, text: str) -> str:
        encoding = self.stream.encoding or "utf-8"
        return text.encode(encoding, "replace").decode(encoding)
