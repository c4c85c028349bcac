"""Programs that are not servers: sysbench, which puts the load, and a browser, which looks at pages.

The machine's own is taken where it is good enough; else the package of this machine's distribution is unpacked in the
cache and run from there. Nothing is installed.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rqps.errors import RqpsError
from rqps.servers import debian
from rqps.servers.progress import Say

OLDEST_SYSBENCH = (1, 0, 18)
BROWSERS = ("chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser")
BROWSER_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
"""No sandbox, since it needs root's setuid bit or user namespaces, and only pages of our own are looked at."""

_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{tree}/usr/share/fonts</dir>
  <include ignore_missing="yes">{tree}/etc/fonts/conf.d</include>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


@dataclass(frozen=True)
class Tool:
    """A program that is ready to run."""

    argv: tuple[str, ...]
    version: str
    environment: dict[str, str] = field(default_factory=dict)
    """What to add to the environment."""


def sysbench(say: Say = print) -> Tool:
    """sysbench with MySQL support: the one on PATH if it is recent enough, else one of our own."""
    fix = f"install sysbench {'.'.join(map(str, OLDEST_SYSBENCH))} or newer (apt install sysbench) and try again"
    if found := shutil.which("sysbench"):
        version = _version((found,), {})
        if version and _numbers(version) >= OLDEST_SYSBENCH and "mysql" in _said((found, "--help"), {}):
            return Tool((found,), version)
    tree = _private("sysbench", say, fix)
    plugins = [str(folder) for folder in tree.glob("usr/lib/*/libmariadb*/plugin")]
    environment = {
        **_libraries(tree),
        "LUA_PATH": f"{tree}/usr/share/sysbench/?.lua;;",
        "MARIADB_PLUGIN_DIR": plugins[0] if plugins else "",
    }
    return _checked((str(tree / "usr/bin/sysbench"),), environment, fix)


def chromium(say: Say = print) -> Tool:
    """A browser without a window, for looking at pages of our own: the machine's, or one of our own."""
    fix = "install Chromium or Chrome (Debian: apt install chromium) and try again"
    for name in BROWSERS:
        # Ubuntu's chromium-browser is only a script that wants to install something else.
        if (found := shutil.which(name)) and (version := _version((found,), {})):
            return Tool((found, *BROWSER_FLAGS), version)
    tree = _private("chromium", say, fix)
    fonts = tree / "fonts.conf"
    if not fonts.exists():
        fonts.write_text(_FONTS.format(tree=tree))
    environment = {**_libraries(tree), "FONTCONFIG_FILE": str(fonts)}
    program = str(tree / "usr/lib/chromium/chromium")
    return Tool((program, *BROWSER_FLAGS), _checked((program,), environment, fix).version, environment)


def _private(package: str, say: Say, fix: str) -> Path:
    try:
        return debian.unpacked(package, None, say)
    except RqpsError as error:
        raise RqpsError(f"{package} is missing here, and fetching it failed: {error.message}", fix=fix) from error


def _libraries(tree: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": ":".join(map(str, debian.library_folders(tree)))}


def _checked(argv: tuple[str, ...], environment: dict[str, str], fix: str) -> Tool:
    if version := _version(argv, environment):
        return Tool(argv, version, environment)
    said = _said((*argv, "--version"), environment).strip()
    raise RqpsError(f"{argv[0]} does not run: {said[-400:] or 'it says nothing'}", fix=fix)


def _version(argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    found = re.search(r"(?:sysbench|Chromium|Chrome)\D* (\d+(?:\.\d+)+)", _said((*argv, "--version"), environment))
    return found[1] if found else None


def _said(command: tuple[str, ...], environment: Mapping[str, str]) -> str:
    try:
        return subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=60,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
