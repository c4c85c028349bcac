"""Text for a terminal: tables in columns, a progress line, and occasional plain lines in a log."""

import io
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn, TextIO

SHARE_IN_A_LOG = 0.005
GAP = "  "
"""The space between two columns of a table."""
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters: a terminal acts on them instead of showing them."""


class Terminal:
    """Lines that remain (`say`) and one progress line that is overwritten (`show`). A log gets a progress line
    every few seconds, at most two hundred times in all."""

    def __init__(self, stream: TextIO | None = None, plain_every_s: float = 15.0, line: int = 0) -> None:
        self.stream = stream or sys.stdout
        show_what_it_can(self.stream)
        is_terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        # A notebook can overwrite a line, as a terminal can.
        self.is_live = is_terminal or type(self.stream).__module__.startswith("ipykernel")
        self._plain_every_s = plain_every_s
        self._shown_at = time.monotonic()
        self._share = -SHARE_IN_A_LOG  # so that a log gets the first line, whose share is 0
        from tqdm import tqdm  # imported late: the text functions below do not need it

        self._tqdm = tqdm
        tqdm.monitor_interval = 0  # otherwise tqdm starts a thread that wakes up while a run is measured
        # Makes tqdm create its lock now: if tqdm created it later, a signal at that time would end in a traceback.
        tqdm.get_lock()  # type: ignore[no-untyped-call]
        self._line, self._lines = line, 0
        self._bar: tqdm[NoReturn] | None = None

    def another(self) -> "Terminal":
        """Returns a new terminal, whose progress line is below the existing ones. From then on, the terminal on
        which `another` was called must not show a progress line."""
        self._lines += 1
        return Terminal(self.stream, self._plain_every_s, self._lines - 1)

    def say(self, text: str) -> None:
        """Prints a line that remains."""
        with self._tqdm.external_write_mode(self.stream):
            self.stream.write(f"{printable(text)}\n")
            self.stream.flush()

    def show(self, text: str, share: float = 0.0, *, at_once: bool = False) -> None:
        """Shows the progress. With `at_once`, a log gets this line now, however short the time since the last one."""
        now = time.monotonic()
        if self.is_live:
            self._bar = self._bar or self._tqdm(
                total=1.0,
                file=self.stream,
                leave=False,
                dynamic_ncols=True,
                position=self._line,
                bar_format="{desc}  {bar:20}",  # a narrow terminal cuts off the bar first
            )
            self._bar.n = share
            self._bar.set_description_str(printable(text))
        elif at_once or (now - self._shown_at >= self._plain_every_s and share >= self._share + SHARE_IN_A_LOG):
            self._shown_at, self._share = now, share
            self.say(text)

    def close(self) -> None:
        """Removes the progress line."""
        if self._bar:
            self._bar.close()


def show_what_it_can(stream: TextIO) -> None:
    """Makes a stream write a question mark for a character that its encoding lacks, instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def printable(text: str) -> str:
    """Replaces control characters in a text by question marks: names and questions may come from anybody.

    >>> printable("a \x1b[31mred\x07 name\\n")
    'a ?[31mred? name\\n'
    """
    return _OBEYED.sub("?", text)


def in_columns(lines: Sequence[Sequence[str]], width: int = 0, align: str = ">") -> Iterator[str]:
    """The lines of a text table. The first column is left-aligned, all others right-aligned unless `align` is `<`. A
    line of one cell is a heading above the lines that follow. Columns that exceed `width` characters continue in
    another block below; 0 means no limit.

    >>> list(in_columns([["step", "n"], ["all rounds"], ["scan", "12"]]))
    ['step   n', 'all rounds', 'scan  12']
    """
    widths = [max(map(len, column)) for column in zip(*(line for line in lines if len(line) > 1), strict=True)]
    for number, columns in enumerate(_blocks(widths, width)):
        if number:
            yield ""
        for line in lines:
            cells = (f"{line[at]:{align if at else '<'}{widths[at]}}" for at in columns)
            yield line[0] if len(line) == 1 else GAP.join(cells).rstrip()


def _blocks(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Blocks of columns that fit into the width; each block repeats the first column.

    >>> list(_blocks([4, 5, 5, 5], 18)), list(_blocks([4, 5, 5, 5], 0))
    ([[0, 1, 2], [0, 3]], [[0, 1, 2, 3]])
    """
    block, taken = [0], widths[0]
    for at, own in enumerate(widths[1:], start=1):
        if width and len(block) > 1 and taken + len(GAP) + own > width:
            yield block
            block, taken = [0], widths[0]
        block.append(at)
        taken += len(GAP) + own
    yield block
