"""Text for a terminal: sizes, shares and durations in words, a progress line, and occasional plain lines in a log."""

import io
import os
import re
import sys
import time
from datetime import datetime
from typing import NoReturn, TextIO

SHARE_IN_A_LOG = 0.005
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
        # tqdm creates its lock here: a signal that arrives while it is created later would end in a traceback.
        tqdm.get_lock()  # type: ignore[no-untyped-call]
        self._line, self._lines = line, 0
        self._bar: tqdm[NoReturn] | None = None

    def another(self) -> "Terminal":
        """A terminal with its own progress line, below the existing ones. This terminal must not show a progress line
        afterwards."""
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


def megabytes(size_bytes: int) -> str:
    """
    >>> megabytes(553508711), megabytes(40_000)
    ('554 MB', '0.04 MB')
    """
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e6:.2g} MB"


def counted(number: int, word: str) -> str:
    """
    >>> counted(1, "run"), counted(1600, "run")
    ('1 run', '1,600 runs')
    """
    return f"{number:,} {word}{'s' * (number != 1)}"


def percent(share: float) -> str:
    """A difference in words.

    >>> percent(0.0034), percent(0.02), percent(0.123), percent(1.4)
    ('0.3 %', '2 %', '12 %', 'a factor of 2.4')
    """
    if share >= 1:
        return f"a factor of {1 + share:.1f}" if share < 100 else "a factor of more than 100"
    return f"{100 * share:.{0 if share >= 0.0995 else 1}f}".removesuffix(".0") + " %"


def formatted(value: float, form: str) -> str:
    """A number in a format, with a minus sign as wide as a plus; a number that rounds to zero has no sign.

    >>> formatted(1234.56, "+,.1f"), formatted(-0.25, "+.2f"), formatted(-0.01, "+.1f")
    ('+1,234.6', '−0.25', '0.0')
    """
    text = f"{value:{form}}".replace("-", "−")
    return text if re.search("[1-9]", text) else text.lstrip("+−")


def seconds(text: str) -> int:
    """Reads a duration of hours, minutes and seconds.

    >>> seconds("30m"), seconds("1h30m"), seconds("90s")
    (1800, 5400, 90)
    """
    match = re.fullmatch(r"(?:(\d{1,3})h)?(?:(\d{1,4})m)?(?:(\d{1,5})s)?", text)
    hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + rest
    if not total:
        raise ValueError(f"{text!r} is not a time; write one such as 30m, 2h or 1h30m")
    return total


def moment(unix_s: float) -> str:
    """The weekday and local time of a Unix time: `Mon 06:00`."""
    return datetime.fromtimestamp(unix_s).astimezone().strftime("%a %H:%M")


def duration(seconds: float) -> str:
    """A duration in its two largest units.

    >>> duration(12.3), duration(200), duration(8040), duration(570_000)
    ('12 s', '3 min 20 s', '2 h 14 min', '6 d 14 h')
    """
    left = round(seconds)
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
