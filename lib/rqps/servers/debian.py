"""Debian packages of any suite, unpacked in the cache with the libraries they need, beside the system's own.

apt does it, in a tree of its own (lists, state, an empty list of installed packages), with the machine's mirrors,
proxies and keys: signatures are checked as always, nothing is installed, and an ordinary user can do it.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from rqps.errors import RqpsError
from rqps.servers.cache import cache_dir, locked, made_once
from rqps.servers.client import find_client, run_client
from rqps.servers.fetching import full_disk_told
from rqps.servers.progress import Progress, Say, megabytes

_NO_APT = "this works on Debian and Ubuntu; elsewhere take another source"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LOADER = "ld-linux-x86-64.so.2"
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib")
FOR_INSTALLING_ONLY = re.compile(
    r"perl(-base|-modules-.*)?|libperl5.*|debconf|cdebconf|dpkg|adduser|passwd|init-system-helpers"
)
"""What only the scripts that install a package use. That nothing else needs it is seen when a program starts."""

_SETTINGS = """\
#clear APT::Update;
#clear APT::Default-Release;
#clear APT::Architectures;
#clear DPkg;
#clear Acquire::IndexTargets;
Acquire::IndexTargets::deb::Packages {{
  MetaKey "$(COMPONENT)/binary-$(ARCHITECTURE)/Packages"; flatMetaKey "Packages"; ShortDescription "Packages";
  Description "$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Packages"; flatDescription "$(RELEASE) Packages";
  Optional "false";
}};
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::Retries "2";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "root";
Dir::State "{tree}";
Dir::State::lists "{tree}/lists";
Dir::State::status "{tree}/status";
Dir::State::extended_states "{tree}/extended_states";
Dir::Cache "{tree}";
Dir::Cache::archives "{tree}/archives";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"""
_OTHER_SUITE = """\
Dir::Etc::sourcelist "{tree}/sources.list";
Dir::Etc::sourceparts "/dev/null";
"""


@dataclass(frozen=True)
class _Package:
    name: str
    version: str
    size_bytes: int


def unpacked(package: str, suite: str | None, say: Say, *, alone: bool = False, name: str | None = None) -> Path:
    """A private tree with `package` of a Debian suite (None: of this machine's own sources) and what it depends on.

    `alone` leaves out what it depends on. The first call fetches, later ones only look.
    """
    folder = place(package, suite, alone=alone)
    name = name or package

    def make(partial: Path) -> None:
        find_client("dpkg-deb", _NO_APT)
        settings = _fresh_lists(suite, name, say)
        chosen = _closure(package, suite, settings, alone=alone)
        work = partial / "work"
        work.mkdir()
        total = sum(each.size_bytes for each in chosen)
        say(f"{name}: fetching Debian packages, {len(chosen)} of them, {megabytes(total)}")
        exact = [f"{each.name}={each.version}" for each in chosen]
        apt = find_client("apt-get", _NO_APT)
        run_client(
            [apt, "-c", str(settings), "-q", "download", *exact], work, Progress(say, f"{name}: downloading", total)
        )
        (partial / "tree").mkdir()
        for archive in sorted(work.glob("*.deb")):
            run_client(["dpkg-deb", "-x", str(archive), str(partial / "tree")], work)
        shutil.rmtree(work)
        (partial / "packages.txt").write_text("".join(f"{line}\n" for line in exact))

    with full_disk_told(cache_dir()):
        made_once(folder, make, lambda: say(f"{name}: another rqps is fetching {package}: waiting for it"))
    return folder / "tree"


def place(package: str, suite: str | None, *, alone: bool = False) -> Path:
    """Where the tree of a package is kept; it is there when it was fetched."""
    return cache_dir() / "debian" / f"{package}-{suite or 'this-machine'}{'-alone' if alone else ''}"


def library_folders(tree: Path) -> list[Path]:
    """The folders of a tree that hold shared libraries."""
    return [tree / folder for folder in LIBRARIES if any((tree / folder).glob("*.so*"))]


def own_loader(tree: Path, program: Path) -> tuple[str, ...]:
    """How a program of a tree is called with the tree's own loader and libraries, whatever the machine's are."""
    folders = library_folders(tree)
    loader = next((folder / LOADER for folder in folders if (folder / LOADER).is_file()), None)
    if loader is None:
        raise RqpsError(f"{tree} has no loader {LOADER}", fix=f"remove {tree.parent} and do the same again")
    return (str(loader), "--library-path", ":".join(map(str, folders)), str(program))


def _fresh_lists(suite: str | None, name: str, say: Say) -> Path:
    """apt's settings for a private tree whose package lists are up to date."""
    apt = find_client("apt-get", _NO_APT)
    tree = cache_dir() / "apt" / (suite or "this-machine")
    with locked(tree):
        for folder in ("lists/partial", "archives/partial"):
            (tree / folder).mkdir(parents=True, exist_ok=True)
        (tree / "status").touch()
        settings = tree / "apt.conf"
        text = _SETTINGS + (_OTHER_SUITE if suite else "")
        settings.write_text(text.format(tree=tree))
        say(f"{name}: reading Debian's list of packages{f' of {suite}' if suite else ''}")
        failures = []
        for source in _sources(suite, tree) if suite else [None]:
            if source is not None:
                (tree / "sources.list").write_text(source)
            try:
                run_client(
                    [apt, "-c", str(settings), "-q", "update"], tree, Progress(say, f"{name}: package lists", None)
                )
            except RqpsError as error:
                failures.append(error)
            else:
                return settings
    raise failures[0]


def _sources(suite: str, tree: Path) -> list[str]:
    """One line for sources.list for every Debian mirror that this machine uses."""
    signed = f"signed-by={KEYRING} " if KEYRING.exists() else ""
    return [f"deb [arch=amd64 {signed}] {mirror} {suite} main\n" for mirror in _mirrors(suite, tree)]


def _mirrors(suite: str, tree: Path) -> list[str]:
    apt = find_client("apt-get", _NO_APT)
    said = run_client(
        [apt, "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN)", "Created-By: Packages"], tree
    )
    mirrors: list[str] = []
    for line in said.splitlines():
        mirror, release, origin = line.split(maxsplit=2)
        # Where the machine's own lists were never read, apt knows no origin yet and shows the name itself.
        if origin in ("Debian", "$(ORIGIN)") and "-security" not in release and mirror not in mirrors:
            mirrors.append(mirror)
    if not mirrors:
        raise RqpsError(
            f"this machine uses no Debian mirror, so Debian's {suite} can't be fetched",
            fix="add one to /etc/apt/sources.list.d (Ubuntu: with the package debian-archive-keyring), or take "
            "another source for this build: path, url, maven or npm",
        )
    return mirrors


def _closure(package: str, suite: str | None, settings: Path, *, alone: bool) -> list[_Package]:
    """The packages to fetch: `package` and all that it depends on, but for what only installing needs."""
    apt = find_client("apt-get", _NO_APT)
    command = [apt, "-c", str(settings), "install", "--no-install-recommends", "--print-uris", "-qq", "-y", package]
    try:
        said = run_client(command, settings.parent)
    except RqpsError as error:
        if "Unable to locate package" not in error.message and "no installation candidate" not in error.message:
            raise
        where = f"Debian's {suite}" if suite else "this machine's package sources"
        raise RqpsError(f"{where} has no package {package}", fix="correct the package or the suite") from error
    found = [_package(line) for line in said.splitlines() if line.startswith("'")]
    if alone:
        return [each for each in found if each.name == package]
    return [each for each in found if not FOR_INSTALLING_ONLY.fullmatch(each.name)]


def _package(line: str) -> _Package:
    """
    >>> _package("'http://mirror/libcrypt1.deb' libcrypt1_1%3a4.5.2-1_amd64.deb 100216 SHA256:abc")
    _Package(name='libcrypt1', version='1:4.5.2-1', size_bytes=100216)
    """
    _, file, size, *_ = line.split()
    name, version, _ = file.split("_")
    return _Package(name, unquote(version), int(size))
