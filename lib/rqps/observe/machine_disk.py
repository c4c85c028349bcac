"""Facts about the disk below a directory, each None where the machine does not tell."""

import errno
import fcntl
import os
import tempfile
from pathlib import Path

from rqps.observe.host_counters import device_of, mount_of
from rqps.observe.system_files import chosen, number, text

FICLONE = 0x40049409  # of <linux/fs.h>: let one file share the blocks of another
NO_REFLINK = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def nearest_existing(path: Path) -> Path:
    """The path itself or the nearest folder above it that is there."""
    whole = path.absolute()
    return next(place for place in (whole, *whole.parents) if place.exists())


def file_system(directory: Path) -> str | None:
    mount = mount_of(directory)
    return mount.kind if mount else None


def mount_options(directory: Path) -> list[str] | None:
    """Without those that hold paths, which belong to nobody but the machine's owner."""
    mount = mount_of(directory)
    return sorted({each for each in mount.options.split(",") if "/" not in each}) if mount else None


def device(directory: Path) -> str | None:
    return device_of(directory)


def _of_disk(directory: Path, name: str) -> Path | None:
    """A file in /sys about the whole disk; a partition has its own folder inside the disk's."""
    held_by = device_of(directory)
    if held_by is None:
        return None
    here = Path("/sys/class/block", held_by).resolve()
    return next((place / name for place in (here, here.parent) if (place / name).exists()), None)


def model(directory: Path) -> str | None:
    path = _of_disk(directory, "device/model")
    return text(path) if path else None


def rotational(directory: Path) -> bool | None:
    path = _of_disk(directory, "queue/rotational")
    found = number(path) if path else None
    return None if found is None else found == 1


def io_scheduler(directory: Path) -> str | None:
    path = _of_disk(directory, "queue/scheduler")
    return chosen(path) if path else None


def write_cache(directory: Path) -> str | None:
    path = _of_disk(directory, "queue/write_cache")
    return text(path) if path else None


def can_reflink(directory: Path) -> bool | None:
    """Tried with two files that have no name; None where nothing may be written."""
    try:
        with tempfile.TemporaryFile(dir=directory) as source, tempfile.TemporaryFile(dir=directory) as copy:
            source.write(bytes(4096))
            source.flush()
            fcntl.ioctl(copy.fileno(), FICLONE, source.fileno())
    except OSError as error:
        return False if error.errno in NO_REFLINK else None
    return True


def free_kb(directory: Path) -> int | None:
    about = os.statvfs(directory)
    return about.f_bavail * about.f_frsize // 1024
