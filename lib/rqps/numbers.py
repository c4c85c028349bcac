"""Numbers as text: one way to write each kind of number, on pages, in the terminal and in errors.

A ratio is written by `ratio`, or by `change` as a gain or a loss in percent; a share by `percent`, or by `in_percent`
with one decimal; the size of a difference by `difference`. `counted` writes a number of things, `megabytes`,
`gigabytes` and `memory` an amount of data, `duration` and `duration_us` a time, and `sized` any other number.
`formatted` writes a number in a given format. All other modules write numbers by these functions.
"""

import math
import re
from datetime import datetime

NEAR_1 = 0.05
"""A ratio that differs from 1 by less than this is written with three decimals instead of two."""


def formatted(value: float, form: str) -> str:
    """A number in a format, with a minus sign as wide as a plus; a number that rounds to zero has no sign.

    >>> formatted(1234.56, "+,.1f"), formatted(-0.25, "+.2f"), formatted(-0.01, "+.1f")
    ('+1,234.6', '−0.25', '0.0')
    """
    text = f"{value:{form}}".replace("-", "−")
    return text if re.search("[1-9]", text) else text.lstrip("+−")


def sized(value: float) -> str:
    """A number of any size with about three significant digits.

    >>> sized(1234.5), sized(12.345), sized(0.012345), sized(0)
    ('1,234', '12.3', '0.0123', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"


def counted(number: int, word: str) -> str:
    """
    >>> counted(1, "run"), counted(1600, "run")
    ('1 run', '1,600 runs')
    """
    return f"{number:,} {word}{'s' * (number != 1)}"


def ratio(value: float) -> str:
    """A ratio as text with two decimals, near 1 with three: 0.996 would otherwise be shown as 1.00.

    >>> ratio(0.996), ratio(0.62), ratio(1.25)
    ('0.996', '0.62', '1.25')
    """
    return f"{value:{form_of_ratio(value)}}"


def form_of_ratio(value: float) -> str:
    """The format in which `ratio` writes this ratio; the ends of its interval are written in the same format."""
    return ".3f" if abs(value - 1) < NEAR_1 else ".2f"


def change(value: float) -> str:
    """A ratio as a change in percent.

    >>> change(1.359), change(0.9831)
    ('+35.9 %', '−1.7 %')
    """
    return f"{formatted(100 * (value - 1), '+.1f')} %"


def percent(share: float) -> str:
    """A share in percent: without decimals from 10 % on, with at most one decimal below.

    >>> percent(0.0034), percent(0.02), percent(0.123), percent(1.4)
    ('0.3 %', '2 %', '12 %', '140 %')
    """
    return f"{100 * share:.{0 if share >= 0.0995 else 1}f}".removesuffix(".0") + " %"


def in_percent(share: float) -> str:
    """A share in percent with one decimal, except `0 %` and `100 %`.

    >>> in_percent(1.0), in_percent(0.9837)
    ('100 %', '98.4 %')
    """
    return f"{100 * share:.4g} %" if round(share, 4) in (0, 1) else f"{100 * share:.1f} %"


def difference(share: float) -> str:
    """The size of a difference: a percentage, or a factor if it is large.

    >>> difference(0.0034), difference(0.123), difference(1.4)
    ('0.3 %', '12 %', 'a factor of 2.4')
    """
    if share >= 1:
        return f"a factor of {1 + share:.1f}" if share < 100 else "a factor of more than 100"
    return percent(share)


def digits_of(error: float) -> int:
    """Number of decimals that an error justifies: one significant digit of the error, or two if the first is 1 or 2.

    >>> [digits_of(error) for error in (26.1, 3.4, 1.1, 0.31, 0.29, 0.0)]
    [0, 0, 1, 1, 2, 3]
    """
    return min(3, max(0, -math.floor(math.log10(max(error, 1e-9) / 3) + 0.0001)))


def megabytes(size_bytes: int) -> str:
    """
    >>> megabytes(553508711), megabytes(40_000)
    ('554 MB', '0.04 MB')
    """
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e6:.2g} MB"


def gigabytes(size_gb: float) -> str:
    """
    >>> gigabytes(3), gigabytes(23.54)
    ('3.0 GB', '23.5 GB')
    """
    return f"{size_gb:.1f} GB"


def memory(size_kb: int) -> str:
    """The memory of a machine, in GB of 1024³ bytes without decimals.

    >>> memory(24684084)
    '24 GB'
    """
    return f"{size_kb / 1024**2:.0f} GB"


def duration_us(value: float) -> str:
    """
    >>> duration_us(87.4), duration_us(1234.0), duration_us(1234567.0)
    ('87.4 µs', '1.23 ms', '1.23 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} µs"


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
