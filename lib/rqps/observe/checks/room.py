"""Room for what is fetched, measured and opened: disk, reflink, files, a socket's path."""

import resource
import tempfile
from pathlib import Path

from rqps.engines.cache import cache_dir
from rqps.engines.instance import SOCKET_PATH_LIMIT
from rqps.observe import machine_disk as disk
from rqps.observe.checks.finding import Finding
from rqps.observe.host_counters import device_of

KB_PER_GB = 1 << 20
LEAST_GB = 3
ENOUGH_GB = 10
FILES_A_SERVER_WANTS = 5000
PRIVATE_SOCKET = "rqps-abcdefgh/mysqld.sock"


def room_findings(directory: Path) -> list[Finding]:
    cache = cache_dir()
    return [
        disk_room("disk, data", directory),
        disk_room("disk, cache", cache),
        file_system(cache),
        open_files(*resource.getrlimit(resource.RLIMIT_NOFILE)),
        socket_path(Path(tempfile.gettempdir())),
    ]


def disk_room(name: str, directory: Path, least_gb: float = LEAST_GB, enough_gb: float = ENOUGH_GB) -> Finding:
    place = disk.nearest_existing(directory)
    free_gb = (disk.free_kb(place) or 0) / KB_PER_GB
    found = f"{free_gb:.1f} GB free in {directory}"
    effect = "a server takes 1 to 2 GB while it is unpacked, each loaded table its own size for every round"
    fix = "make room, or set RQPS_CACHE and RQPS_DATA to folders on a larger disk"
    if free_gb < least_gb:
        return Finding(name, "bad", f"only {found}", effect, fix)
    return Finding(name, "warn", found, effect, fix) if free_gb < enough_gb else Finding(name, "ok", found)


def file_system(directory: Path) -> Finding:
    """Where the servers' data directories are copied for every round."""
    place = disk.nearest_existing(directory)
    kind, reflink = disk.file_system(place) or "unknown", disk.can_reflink(place)
    if reflink is None:
        effect, fix = "nothing can be fetched or loaded", "set RQPS_CACHE to a folder that you may write to"
        return Finding("file system", "bad", f"{directory} can't be written to", effect, fix)
    if kind in ("tmpfs", "ramfs") or device_of(place) is None:
        return Finding(
            "file system",
            "warn",
            f"{kind}: no block device below {directory}",
            "reads and writes of the disk can't be counted, and a flush costs nothing or the unknown",
            "set RQPS_CACHE to a folder on a local disk (ext4, xfs, btrfs)",
        )
    if not reflink:
        found = f"{kind}, without reflink"
        effect = "tables are copied byte by byte before each round: slower to set up, the same numbers"
        return Finding("file system", "note", found, effect, "xfs and btrfs can copy without copying the blocks")
    return Finding("file system", "ok", f"{kind}, with reflink")


def open_files(soft: int, hard: int) -> Finding:
    most = hard if hard != resource.RLIM_INFINITY else FILES_A_SERVER_WANTS
    found = f"{soft} now, {'no limit' if hard == resource.RLIM_INFINITY else hard} at most"
    if most < FILES_A_SERVER_WANTS:
        effect = "a server that may open few files makes its table cache smaller than its setting says"
        fix = f"raise the hard limit: ulimit -Hn {FILES_A_SERVER_WANTS * 2}, or /etc/security/limits.conf"
        return Finding("open files", "warn", found, effect, fix)
    return Finding("open files", "ok", found)


def socket_path(folder: Path) -> Finding:
    length = len(str(folder / PRIVATE_SOCKET))
    found = f"{length} of {SOCKET_PATH_LIMIT} characters, in {folder}"
    if length > SOCKET_PATH_LIMIT:
        effect = "no server can be started"
        return Finding("socket path", "bad", found, effect, "set TMPDIR to a shorter directory, such as /tmp")
    return Finding("socket path", "ok", found)
