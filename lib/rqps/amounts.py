"""Bytes and durations in words."""


def megabytes(size_bytes: int) -> str:
    """
    >>> megabytes(553508711), megabytes(40_000)
    ('554 MB', '0.04 MB')
    """
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e6:.2g} MB"


def duration(seconds: float) -> str:
    """In the two units that matter.

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
