"""Shows progress: one live line in a terminal, plain lines now and then elsewhere."""

import io
import os
import sys
import time
from typing import TextIO

from tqdm import tqdm

PLAIN_EVERY_S = 15.0


class Terminal:
    """Lines that stay (`say`) and one that is drawn over (`show`); a log gets that one every few seconds at most."""

    def __init__(self, stream: TextIO | None = None, plain_every_s: float = PLAIN_EVERY_S) -> None:
        self.stream = stream or sys.stdout
        if isinstance(self.stream, io.TextIOWrapper):
            self.stream.reconfigure(errors="replace")  # a word that it can't write is no reason to end
        self.is_live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._plain_every_s = plain_every_s
        self._shown_at = time.monotonic()
        tqdm.monitor_interval = 0  # or it starts a thread that wakes up while a run is measured
        self._bar = tqdm(
            total=1.0,
            file=self.stream,
            disable=not self.is_live,
            leave=False,
            dynamic_ncols=True,
            bar_format="{desc}  {bar:20}",  # of a narrow terminal's line, the bar is cut off first
        )

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        with tqdm.external_write_mode(self.stream):
            self.stream.write(f"{text}\n")
            self.stream.flush()

    def show(self, text: str, share: float = 0.0, *, at_once: bool = False) -> None:
        """Shows how far the work is; `at_once` in a log, too."""
        now = time.monotonic()
        if self.is_live:
            self._bar.n = share
            self._bar.set_description_str(text)
        elif at_once or now - self._shown_at >= self._plain_every_s:
            self._shown_at = now
            self.say(text)

    def close(self) -> None:
        """Takes the live line away for good."""
        self._bar.close()
