"""The published colours. They know no noise: a verdict stands beside each number that they paint."""

from collections.abc import Sequence

RED, GREY, GREEN = "#FF9A9A", "#D7D7D7", "#81FFA6"
YELLOW, BLUE = "#FFDD81", "#81FFF9"
QUARTER = 0.25
CLOSE = 0.80
LEVELS = 20
"""Of grey, beside white: one for every 5 percent."""

Colour = str | None


def of_throughput(values: Sequence[float], met: Sequence[bool | None]) -> list[Colour]:
    """One column of absolute throughput: red near its least, grey where the rate was missed, green near its most.

    The most is that of those that met the rate. Nothing is red where the least is at least 80 % of the most.

    >>> of_throughput([100, 120, 170, 200], [None] * 4)
    ['#FF9A9A', '#FF9A9A', None, '#81FFA6']
    >>> of_throughput([90, 95, 100], [True, False, True])
    [None, '#D7D7D7', '#81FFA6']
    """
    of_met = [value for value, each in zip(values, met, strict=True) if each is not False]
    least, most = min(values, default=0.0), max(of_met, default=None)
    return [_of_throughput(value, each is False, least, most) for value, each in zip(values, met, strict=True)]


def _of_throughput(value: float, missed: bool, least: float, most: float | None) -> Colour:
    if most is None:
        return GREY
    gap = most - least
    if value <= least + QUARTER * gap and least < CLOSE * most:
        return RED
    if missed:
        return GREY
    return GREEN if value >= most - QUARTER * gap else None


def of_ratio(value: float) -> Colour:
    """Relative throughput.

    >>> of_ratio(0.94), of_ratio(0.95), of_ratio(1.05), of_ratio(1.06)
    ('#FFDD81', None, None, '#81FFF9')
    """
    return YELLOW if value < 0.95 else BLUE if value > 1.05 else None


def of_rate(value: float, target: float) -> Colour:
    """The rate of inserts: red where it was missed.

    >>> of_rate(95, 100), of_rate(94.9, 100)
    (None, '#FF9A9A')
    """
    return RED if value < 0.95 * target else None


def of_share(percent: float) -> str:
    """The grey of a bucket: the darker, the more responses it holds.

    >>> of_share(0), of_share(4.9), of_share(50), of_share(100)
    ('#ffffff', '#ffffff', '#c8c8c8', '#919191')
    """
    level = min(LEVELS, int(percent // (100 / LEVELS)))
    shade = 255 - round(5.5 * level)
    return f"#{shade:02x}{shade:02x}{shade:02x}"


def of_longest(values: Sequence[float]) -> list[Colour]:
    """The column of longest responses: red near the most, and green near the least where they are apart.

    >>> of_longest([0.1, 0.5, 1.0]), of_longest([0.9, 1.0])
    (['#81FFA6', None, '#FF9A9A'], [None, '#FF9A9A'])
    """
    if not values:
        return []
    least, most = min(values), max(values)
    gap = most - least
    return [
        RED
        if value >= most - QUARTER * gap
        else GREEN
        if value <= least + QUARTER * gap and least < CLOSE * most
        else None
        for value in values
    ]
