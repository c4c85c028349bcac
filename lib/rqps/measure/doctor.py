"""The doctor: checks if this machine is fit to measure on, and says what makes measurements less exact and how to fix
it."""

import os
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from rqps.engines import facts_of_all
from rqps.engines.cache import cache_dir, scratch_dir
from rqps.engines.sources import debian
from rqps.finding import KB_PER_GB, Finding, Level, machine_findings
from rqps.measure.activity import activity_findings
from rqps.measure.machine import can_reflink, describe_machine, device_of, mount_of, nearest_existing
from rqps.measure.perf_events import ALLOW, INSTRUCTIONS, NO_PERMISSION, refusal, sampling_refused, switches_refused
from rqps.notebook import SOCKET
from rqps.numbers import gigabytes
from rqps.scratch import SOCKET_PATH_LIMIT, socket_of_any

LEAST_DISK_GB, ENOUGH_DISK_GB = 3, 10
FILES_OF_A_SERVER = 5000


def examine(directory: Path, say: Callable[[str], None] = lambda _: None) -> list[Finding]:
    """Returns all findings; `directory` is where data will be written. `say` announces checks that take seconds."""
    return [
        *activity_findings(say),
        *machine_findings(describe_machine(directory)),
        disk_room("disk, data", directory),
        disk_room("disk, cache", cache_dir()),
        *([disk_room("disk, scratch", scratch_dir())] if scratch_dir() != cache_dir() else []),
        file_system(scratch_dir()),
        open_files(*resource.getrlimit(resource.RLIMIT_NOFILE)),
        socket_path(Path(tempfile.gettempdir())),
        hardware_counters(),
        stack_sampling(),
        waits_recording(),
        *program_findings(),
    ]


def disk_room(
    name: str, directory: Path, least_gb: float = LEAST_DISK_GB, enough_gb: float = ENOUGH_DISK_GB
) -> Finding:
    free_gb = psutil.disk_usage(str(nearest_existing(directory))).free / 1024 / KB_PER_GB
    return Finding(
        name,
        "bad" if free_gb < least_gb else "warn" if free_gb < enough_gb else "ok",
        f"{'only ' if free_gb < least_gb else ''}{gigabytes(free_gb)} free in {directory}",
        "unpacking a server takes 1 to 2 GB, and every round of a dbms needs a copy of its loaded tables",
        "make room, or set RQPS_CACHE and RQPS_DATA to folders on a larger disk",
    )


def file_system(directory: Path) -> Finding:
    """Checks the file system of the folder in which servers' data directories are copied for every round."""
    place = nearest_existing(directory)
    mount, reflink = mount_of(place), can_reflink(place)
    kind = mount.fstype if mount else "unknown"
    if reflink is None:
        effect, fix = "nothing can be fetched or loaded", f"set {_variable()} to a folder that you may write to"
        return Finding("file system", "bad", f"{directory} can't be written to", effect, fix)
    if kind in ("tmpfs", "ramfs") or device_of(place) is None:
        words = f"{kind}: no block device below {directory}"
        effect = "reads and writes of the disk can't be counted, and the cost of a flush is unknown or nothing"
        return Finding(
            *("file system", "warn", words, effect),
            f"set {_variable()} to a folder on a local disk (ext4, xfs, btrfs)",
        )
    effect = "tables are copied byte by byte before each round: slower to set up, the same numbers"
    fix = "use xfs or btrfs, which clone files without copying their blocks"
    words = f"{kind}, {'with' if reflink else 'without'} reflink"
    return Finding("file system", "ok" if reflink else "note", words, effect, fix)


def _variable() -> str:
    """The environment variable that sets the folder for the copies of tables."""
    return "RQPS_SCRATCH" if os.environ.get("RQPS_SCRATCH") else "RQPS_CACHE"


def open_files(soft: int, hard: int) -> Finding:
    unlimited = hard == resource.RLIM_INFINITY
    return Finding(
        "open files",
        "ok" if unlimited or hard >= FILES_OF_A_SERVER else "warn",
        f"{soft} now, {'no limit' if unlimited else hard} at most",
        "a server that may open few files makes its table cache smaller than its setting says",
        f"raise the hard limit: ulimit -Hn {FILES_OF_A_SERVER * 2}, or /etc/security/limits.conf",
    )


def socket_path(folder: Path) -> Finding:
    longest = max((SOCKET, *(facts.socket for facts in facts_of_all())), key=len)
    length = len(str(socket_of_any(longest, folder)))
    words = f"{length} of {SOCKET_PATH_LIMIT} characters, in {folder}"
    level: Level = "bad" if length > SOCKET_PATH_LIMIT else "ok"
    fix = "set TMPDIR to a shorter directory, such as /tmp"
    return Finding("socket path", level, words, "no server can be started", fix)


def hardware_counters() -> Finding:
    """Checks if this user may count instructions, by asking the kernel for a counter of instructions."""
    error = refusal(INSTRUCTIONS, whole_cpu=False)
    if error == 0:
        return Finding("hardware counters", "ok", "instructions can be counted")
    if error in NO_PERMISSION:
        words = "no permission to count instructions"
        return Finding("hardware counters", "note", words, "instructions per operation stay unknown", ALLOW)
    effect = "instructions per operation can't be counted; CPU time still is"
    fix = "virtual machines seldom have them: use a real machine, or valgrind's callgrind"
    return Finding("hardware counters", "note", f"none here ({os.strerror(error)})", effect, fix)


def stack_sampling() -> Finding:
    """Checks if this user may sample stacks of whole CPUs: to sample only one process would slow it by a fifth."""
    if refused := sampling_refused():
        words, fix = refused
        return Finding("stack sampling", "warn", words, "throughput is measured, but not explained by function", fix)
    return Finding("stack sampling", "ok", "whole CPUs can be sampled")


def waits_recording() -> Finding:
    """Checks if this user may record context switches."""
    if refused := switches_refused():
        words, fix = refused
        effect = "waits of threads (waits_rounds) are sampled, without the server's functions"
        return Finding("waits", "note", words, effect, fix)
    return Finding("waits", "ok", "switches of threads can be recorded")


class Program(NamedTuple):
    """A program that rqps calls. If `package` names a Debian package, rqps can fetch the program with apt-get."""

    name: str
    level: Level
    effect: str
    fix: str
    package: str = ""


def _that_fetch() -> list[Program]:
    """The programs with which rqps downloads builds, such as mvn; each is listed once, even if several engines need
    it."""
    by_name: dict[str, list[str]] = {}
    installs = {}
    for facts in facts_of_all():
        for name, builds, install in facts.fetched_with:
            by_name.setdefault(name, []).append(builds)
            installs[name] = install
    return [
        Program(name, "note", f"{' and '.join(builds)} can't be fetched", installs[name])
        for name, builds in by_name.items()
    ]


PROGRAMS = (
    Program(
        "sysbench",
        "bad",
        "no load can be put on a server",
        "install sysbench 1.0.20 (sysbench on Debian and Fedora)",
        package="sysbench",
    ),
    Program(
        "perf",
        "note",
        "throughput is measured, but not explained by function",
        "install perf: linux-perf on Debian, linux-tools-generic on Ubuntu, perf on Fedora",
        package="linux-perf",
    ),
    *_that_fetch(),
    Program(
        "apt-get",
        "note",
        "packages of Debian can't be fetched: servers, sysbench, perf",
        "use Debian or Ubuntu, or a path",
    ),
    Program("git", "note", "runs don't record the revision that measured them", "install git"),
)


def program_findings() -> list[Finding]:
    root = os.geteuid() == 0
    user = "root: servers are started with --user=root" if root else "an ordinary user: servers run as the same one"
    findings = [Finding("user", "ok", user)]
    for program in PROGRAMS:
        level, where = program.level, "not installed"
        if path := shutil.which(program.name):
            level, where = "ok", path
        elif program.package and (tree := debian.place(program.package, None)).is_dir():
            level, where = "ok", f"Debian's, in {tree}"
        elif program.package and shutil.which("apt-get"):
            level, where = "ok", "not installed, fetched with apt-get when it is needed"
        elif program.package:
            where = "not installed, and no apt-get to fetch it with"
        findings.append(Finding(program.name, level, where, program.effect, program.fix))
    return findings
