"""Measures how fast the disk below a folder reads and writes past the page cache (O_DIRECT), in a few seconds."""

import mmap
import os
import random
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from rqps.errors import RqpsError
from rqps.measure.machine import mount_of, nearest_existing
from rqps.study import DeviceSpeed

FILE_BYTES, PIECE_BYTES, PAGE_BYTES = 128 << 20, 1 << 20, 16 << 10
"""Sizes of the file, of the pieces in which it is written first, and of a page that is read or written at random."""
SECONDS = 1.0
"""Seconds for which random pages are read, and then written; also the maximum for writing the file before."""
MEMORY = ("tmpfs", "ramfs")
"""File systems without a disk. Since Linux 6.6, tmpfs accepts O_DIRECT nevertheless."""


def measure_device(folder: Path, seconds: float = SECONDS) -> DeviceSpeed:
    """Writes a file past the page cache, then reads and writes single pages of it at random, and removes it. Raises
    RqpsError if the folder is in memory, or its file system has no O_DIRECT."""
    place = nearest_existing(folder)
    if (kind := getattr(mount_of(place), "fstype", "")) in MEMORY:
        raise _refused(place, f"{kind} is in memory, without a disk below it")
    try:
        with tempfile.NamedTemporaryFile(prefix=".rqps-device-", dir=place) as file:
            direct = os.open(file.name, os.O_RDWR | os.O_DIRECT)
            try:
                return _measured(direct, seconds)
            finally:
                os.close(direct)
    except OSError as error:
        raise _refused(place, f"no file there can be read and written with O_DIRECT: {error.strerror}") from error


def _measured(file: int, seconds: float) -> DeviceSpeed:
    with mmap.mmap(-1, PIECE_BYTES) as piece, mmap.mmap(-1, PAGE_BYTES) as page:  # O_DIRECT needs aligned memory
        piece.write(os.urandom(PIECE_BYTES))
        page.write(os.urandom(PAGE_BYTES))
        begun, pieces = time.monotonic(), 0
        for pieces, at in enumerate(range(0, FILE_BYTES, PIECE_BYTES), 1):
            os.pwritev(file, [piece], at)
            if time.monotonic() - begun > seconds and pieces > 1:  # a slow disk: a smaller file is enough
                break
        os.fdatasync(file)
        written = pieces * PIECE_BYTES
        bytes_per_s = written / (time.monotonic() - begun)
        choice = random.Random(0)
        places = [PAGE_BYTES * choice.randrange(written // PAGE_BYTES) for _ in range(FILE_BYTES // PAGE_BYTES)]
        read_s = _per_page(lambda at: os.preadv(file, [page], at), places, seconds)
        write_s = _per_page(lambda at: os.pwritev(file, [page], at), places, seconds)
    return DeviceSpeed(read_s, write_s, bytes_per_s)


def _per_page(transfer: Callable[[int], int], places: list[int], seconds: float) -> float:
    """The mean time of one transfer in seconds. Transfers are repeated, at all `places` in turn, for `seconds`."""
    begun = time.monotonic()
    for count, at in enumerate(cycle(places), 1):
        transfer(at)
        if (elapsed_s := time.monotonic() - begun) >= seconds:
            return elapsed_s / count
    raise AssertionError("no place in the file")


def _refused(folder: Path, why: str) -> RqpsError:
    return RqpsError(f"{folder}: {why}", fix="set RQPS_SCRATCH to a folder on a disk whose file system has O_DIRECT")
