"""Fetches Debian packages of any suite with the libraries that they need, and unpacks them in the cache.

apt resolves and downloads the packages. It uses the mirrors, proxies and keys of the system, but rqps gives it
separate package lists and an empty list of installed packages. apt checks signatures as always. Nothing is installed
on the system, so any user can fetch packages.
"""

import hashlib
import platform
import re
import shutil
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from rqps.engines import Say
from rqps.engines.cache import cache_dir, locked, made_once
from rqps.engines.sources.fetching import Progress, run_client
from rqps.errors import RqpsError
from rqps.numbers import megabytes

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = "packages.txt"
LOADER = "ld-linux-x86-64.so.2"
LIBRARIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/pulseaudio",  # libpulse refers to a library here by an absolute path
    "lib/x86_64-linux-gnu",
    "usr/lib",
    "lib",
)
NOT_NEEDED = re.compile(
    # programs and scripts that install packages
    r"perl(-base|-modules-.*)?|libperl5.*|dpkg|tar|debconf|adduser|passwd|init-system-helpers|usrmerge"
    # services and programs of a desktop
    r"|(lib)?systemd-.*|systemd|dbus.*|mount|procps|adwaita-icon-theme|x11-utils|xdg-utils"
    # drivers of graphics cards
    r"|libgl1-mesa-dri|libllvm.*|libz3-.*"
)
"""Pattern of dependencies that are left out, since the programs that rqps starts do not need them. If a needed
library is left out by mistake, the program fails to start."""
NEEDED_AFTER_ALL = {"linux-perf": ("libperl5",)}
"""Maps a package to prefixes of dependencies that it needs although `NOT_NEEDED` fits them: perf is linked with
libperl."""
LIBC = re.compile(r"libc6|libc-gconv-modules-extra|libc-bin")

_SETTINGS = Path(__file__).with_name("apt.conf").read_text()
_OTHER_SUITE = 'Dir::Etc::sourcelist "{tree}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'


class _Package(NamedTuple):
    name: str
    version: str
    size_bytes: int


def unpacked(
    package: str,
    suite: str | None,
    say: Say,
    *,
    files: tuple[str, ...] = (),
    alone: bool = False,
    name: str | None = None,
) -> Path:
    """A private tree with `package` of a Debian suite and all packages that it depends on. The first call fetches
    them.

    Without a suite, the packages come from the machine's own sources, and the program uses the machine's loader and
    libc. `files` are globs of the files to keep in the tree (`*` matches `/`); without globs, all files are kept.
    `alone` leaves out the dependencies.
    """
    name = name or package

    def make(partial: Path) -> None:
        lists = cache_dir() / "apt" / (suite or "own-sources")
        (work := partial / "work").mkdir()
        (tree := partial / "tree").mkdir()
        with locked(lists, lambda: say(f"{name}: waiting for another fetch of Debian packages to end")):
            settings = _fresh_lists(suite, lists, name, say)
            chosen = _closure(package, suite, settings, alone=alone)
            total = sum(one.size_bytes for one in chosen)
            say(f"{name}: fetching {package} and its libraries, {len(chosen)} Debian packages, {megabytes(total)}")
            exact = [f"{one.name}={one.version}" for one in chosen]
            download = ["apt-get", "-c", str(settings), "-q", "download", *exact]
            run_client(download, work, Progress(say, f"{name}: downloading", total))
        for archive in sorted(work.glob("*.deb")):
            run_client(["dpkg-deb", "-x", str(archive), str(tree)], work)
        shutil.rmtree(work)
        if files:
            _remove_others(tree, files)
        (partial / PACKAGES).write_text("".join(f"{line}\n" for line in exact))

    return made_once(place(package, suite, files=files, alone=alone), make, say) / "tree"


def is_newest(package: str, suite: str | None, unpacked_in: Path, say: Say) -> bool:
    """True if the cache has the newest versions of a package and of all packages that it depends on."""
    lists = cache_dir() / "apt" / (suite or "own-sources")
    with locked(lists, lambda: say(f"{package}: waiting for another fetch of Debian packages to end")):
        chosen = _closure(package, suite, _fresh_lists(suite, lists, package, say), alone=False)
    here = (unpacked_in / PACKAGES).read_text().splitlines()
    return here == [f"{one.name}={one.version}" for one in chosen]


def source_package(name: str, package: str, version: str, suite: str, folder: Path, say: Say) -> None:
    """Fetches the files of a source package into a folder: upstream's tarball, and further files with Debian's
    changes."""
    lists = cache_dir() / "apt" / f"{suite}-source"
    with locked(lists, lambda: say(f"{name}: waiting for another fetch of Debian packages to end")):
        settings = _fresh_lists(suite, lists, name, say, kind="deb-src")
        download = ["apt-get", "-c", str(settings), "-q", "source", "--download-only", f"{package}={version}"]
        try:
            run_client(download, folder, Progress(say, f"{name}: downloading {package}"))
        except RqpsError as error:
            if "Unable to find a source package" not in error.message and "Can not find version" not in error.message:
                raise
            fix = f"correct the version; this shows which versions there are: apt-cache showsrc {package}"
            raise RqpsError(f"Debian's {suite} has no source package {package} {version}", fix=fix) from error


def place(package: str, suite: str | None, *, files: tuple[str, ...] = (), alone: bool = False) -> Path:
    """The folder of a package in the cache; the folder exists once the package was fetched."""
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()[:8] if files else ""
    parts = [package, suite, "alone" if alone else "", digest]
    return cache_dir() / "debian" / "-".join(filter(None, parts))


def _remove_others(tree: Path, files: tuple[str, ...]) -> None:
    for path in list(tree.rglob("*")):
        is_folder = path.is_dir() and not path.is_symlink()
        if not is_folder and not any(fnmatchcase(str(path.relative_to(tree)), glob) for glob in files):
            path.unlink()


def library_folders(tree: Path) -> list[Path]:
    """The folders of a tree that hold shared libraries."""
    return [tree / folder for folder in LIBRARIES if any((tree / folder).glob("*.so*"))]


def own_loader(tree: Path, program: Path) -> tuple[str, ...]:
    """The command line that runs a program with the loader and the libraries of its tree, not with those of the
    machine."""
    folders = library_folders(tree)
    loader = next((folder / LOADER for folder in folders if (folder / LOADER).is_file()), None)
    if loader is None:
        raise RqpsError(f"{tree} has no loader {LOADER}", fix=f"remove {tree.parent} and run the command again")
    return (str(loader), "--library-path", ":".join(map(str, folders)), str(program))


def _fresh_lists(suite: str | None, lists: Path, name: str, say: Say, kind: str = "deb") -> Path:
    """Updates the package lists in the folder `lists`, and returns the file with apt's settings for this folder. The
    caller must hold the lock of `lists`."""
    (lists / "archives/partial").mkdir(parents=True, exist_ok=True)
    (lists / "status").touch()
    settings = lists / "apt.conf"
    settings.write_text((_SETTINGS + (_OTHER_SUITE if suite else "")).format(tree=lists))
    say(f"{name}: reading the list of Debian packages of {suite or 'this machine'}")
    update = ["apt-get", "-c", str(settings), "-q", "update"]
    failures = []
    for source in _sources(suite, lists, kind) if suite else [""]:
        (lists / "sources.list").write_text(source)
        (lists / "lists/partial").mkdir(parents=True, exist_ok=True)
        try:
            run_client(update, lists, Progress(say, f"{name}: package lists"), lists / "lists")
        except RqpsError as error:
            shutil.rmtree(lists / "lists", ignore_errors=True)  # a partial list is of no use and may fill the disk
            failures.append(error)
        else:
            return settings
    raise failures[0]


def _sources(suite: str, lists: Path, kind: str) -> list[str]:
    """A line for sources.list for each Debian mirror that this machine uses."""
    asked = run_client(["apt-get", "update", "--print-uris"], lists)
    mirrors_here = mirrors(asked, platform.freedesktop_os_release())
    if not mirrors_here:
        raise RqpsError(
            f"this machine uses no Debian mirror, so Debian's {suite} can't be fetched",
            fix="add one to /etc/apt/sources.list.d (Ubuntu: with the package debian-archive-keyring), or take "
            "another source for this build: path, url, maven or npm",
        )
    signed = f"signed-by={KEYRING} " if KEYRING.exists() else ""
    return [f"{kind} [arch=amd64 {signed}] {mirror} {suite} main\n" for mirror in mirrors_here]


def mirrors(asked: str, machine: Mapping[str, str]) -> list[str]:
    """The Debian mirrors among the addresses that apt would fetch on an update: addresses that end with `/debian`,
    and on a Debian machine also those that serve a known release.

    This works even if no list was ever fetched, as in a fresh container, where apt's own `indextargets` is empty.

    >>> mirrors("'http://a.example/apt/dists/stable/InRelease' x 0", {"ID": "debian"})
    ['http://a.example/apt']
    """
    own = {"stable", "oldstable", "testing", "unstable", "sid", machine.get("VERSION_CODENAME", "")}
    served = re.findall(r"^'(\S+)/dists/(\S+)/InRelease' ", asked, flags=re.MULTILINE)
    debian = [
        mirror
        for mirror, release in served
        if mirror.endswith("/debian") or (machine.get("ID") == "debian" and release in own)
    ]
    return list(dict.fromkeys(debian))


def _closure(package: str, suite: str | None, settings: Path, *, alone: bool) -> list[_Package]:
    """The packages to fetch: `package` and all packages that it depends on, except those that match `NOT_NEEDED` and,
    without a suite, libc."""
    options = ["--no-install-recommends", "--print-uris", "-qq", "-y"]
    command = ["apt-get", "-c", str(settings), "install", *options, package]
    try:
        output = run_client(command, settings.parent)
    except RqpsError as error:
        if "Unable to locate package" not in error.message and "no installation candidate" not in error.message:
            raise
        where = f"Debian's {suite}" if suite else "this machine's package sources"
        raise RqpsError(f"{where} has no package {package}", fix="correct the package or the suite") from error
    packages = [_package(line) for line in output.splitlines() if line.startswith("'")]
    if alone:
        return [one for one in packages if one.name == package]
    after_all = NEEDED_AFTER_ALL.get(package, ())
    needed = [one for one in packages if one.name.startswith(after_all) or not NOT_NEEDED.fullmatch(one.name)]
    return needed if suite else [one for one in needed if not LIBC.fullmatch(one.name)]


def _package(line: str) -> _Package:
    """
    >>> _package("'http://mirror/libcrypt1.deb' libcrypt1_1%3a4.5.2-1_amd64.deb 100216 SHA256:abc")
    _Package(name='libcrypt1', version='1:4.5.2-1', size_bytes=100216)
    """
    _, file, size, *_ = line.split()
    name, version, _ = file.split("_")
    return _Package(name, unquote(version), int(size))
