"""Which block device holds a directory."""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    number: str
    """Major and minor number, as in `254:0`; 0 for a file system without a device of its own."""
    path: str
    kind: str
    source: str
    options: str


def parse_mounts(text: str) -> list[Mount]:
    r"""The mounts of a mountinfo text, in order.

    >>> parse_mounts(r"36 35 98:0 / /my\040data rw - ext4 /dev/sda1 rw,discard")
    [Mount(number='98:0', path='/my data', kind='ext4', source='/dev/sda1', options='rw,rw,discard')]
    """
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, kind_source_options = before.split(), after.split(" ")
        kind, source = kind_source_options[0], _unescape(kind_source_options[1])
        options = ",".join([words[5], *kind_source_options[2:]])
        mounts.append(Mount(words[2], _unescape(words[4]), kind, source, options))
    return mounts


def _unescape(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def mount_of(path: Path) -> Mount | None:
    """The mount that holds a path: the last one over the longest matching directory."""
    real = path.resolve()
    holding = [
        mount
        for mount in parse_mounts(Path("/proc/self/mountinfo").read_text())
        if real == Path(mount.path) or Path(mount.path) in real.parents
    ]
    longest = max((len(mount.path) for mount in holding), default=0)
    return next((mount for mount in reversed(holding) if len(mount.path) == longest), None)


def device_of(path: Path) -> str | None:
    """The name in /proc/diskstats of the device or partition that holds a path; None where there is none.

    btrfs and the like give their files a made-up device, so the one they were mounted from is taken.
    """
    number = path.stat().st_dev
    if os.major(number) == 0:
        mount = mount_of(path)
        source = Path(mount.source) if mount else None
        if source is None or not source.is_absolute() or not source.exists():
            return None
        about = source.stat()
        if not stat.S_ISBLK(about.st_mode):
            return None
        number = about.st_rdev
    known = {(words[0], words[1]): words[2] for words in map(str.split, _diskstats_lines())}
    return known.get((str(os.major(number)), str(os.minor(number))))


def _diskstats_lines() -> list[str]:
    return Path("/proc/diskstats").read_text().splitlines()
