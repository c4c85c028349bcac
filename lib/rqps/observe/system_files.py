"""Small texts of /proc and /sys, any of which a machine may not have."""

from pathlib import Path


def text(path: Path) -> str | None:
    """What a file says, without the white space around it; None where there is none or it says nothing."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:  # missing, not permitted, or a device that can't answer
        return None


def number(path: Path) -> int | None:
    found = text(path)
    return int(found) if found is not None and found.lstrip("-").isdigit() else None


def chosen(path: Path) -> str | None:
    """The word in brackets of a file that lists what could be chosen: `always [madvise] never`."""
    found = text(path)
    if found is None:
        return None
    return found.partition("[")[2].partition("]")[0] or found


def field(path: Path, name: str) -> str | None:
    """The first `name: value` or `name=value` of a file."""
    for line in (text(path) or "").splitlines():
        for sign in ":=":
            key, found, value = line.partition(sign)
            if found and key.strip() == name:
                return value.strip().strip('"')
    return None


def common(paths: list[Path]) -> str | None:
    """What files of several CPUs say: one word if they agree, else all of them."""
    said = sorted({found for path in paths if (found := text(path)) is not None})
    return ", ".join(said) or None
