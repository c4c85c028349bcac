"""Debian packages beside the system's own: through apt, in a tree of its own, and never unsigned."""

import hashlib
import subprocess
from pathlib import Path

import pytest
from browser import fonts_of
from releases import Site
from rqps.engines.sources import debian
from rqps.errors import RqpsError

pytestmark = pytest.mark.usefixtures("cache")


def sources_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str, more: str = "") -> None:
    """Make apt believe that this machine has other sources, and settings of its user's own."""
    (tmp_path / "machine.list").write_text("".join(f"{line}\n" for line in lines))
    settings = f'Dir::Etc::sourcelist "{tmp_path}/machine.list";\nDir::Etc::sourceparts "/dev/null";\n'
    proxies = 'Acquire::http::Proxy "DIRECT";\nAcquire::Retries "0";\n'
    (tmp_path / "machine.conf").write_text(settings + proxies + more)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "machine.conf"))


def offer_unsigned(site: Site, tmp_path: Path) -> None:
    """A repository with one package in it, as anybody can make one, but without a signature."""
    (tmp_path / "deb/DEBIAN").mkdir(parents=True)
    (tmp_path / "deb/usr/sbin").mkdir(parents=True)
    (tmp_path / "deb/usr/sbin/mysqld").write_text("#!/bin/sh\n")
    control = (
        "Package: evil\nVersion: 1\nArchitecture: amd64\nMaintainer: Nobody <n@example.org>\nDescription: none\n"
    )
    (tmp_path / "deb/DEBIAN/control").write_text(control)
    subprocess.run(["dpkg-deb", "-b", tmp_path / "deb", tmp_path / "evil.deb"], check=True, capture_output=True)
    archive = (tmp_path / "evil.deb").read_bytes()
    digest = hashlib.sha256(archive).hexdigest()
    packages = f"{control}Filename: pool/evil.deb\nSize: {len(archive)}\nSHA256: {digest}\n\n".encode()
    listed = f" {hashlib.sha256(packages).hexdigest()} {len(packages)} main/binary-amd64/Packages\n"
    release = f"Origin: Debian\nSuite: sid\nCodename: sid\nArchitectures: amd64\nComponents: main\nSHA256:\n{listed}"
    site.pages |= {
        "/debian/pool/evil.deb": archive,
        "/debian/dists/sid/main/binary-amd64/Packages": packages,
        "/debian/dists/sid/Release": release.encode(),
    }


def left(cache: Path) -> list[str]:
    folder = cache / "debian"
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"] if folder.exists() else []


def test_unsigned_is_refused(tmp_path: Path, cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    offer_unsigned(site, tmp_path)
    careless = 'Acquire::AllowInsecureRepositories "true";\nAPT::Get::AllowUnauthenticated "true";\n'
    sources_of_this_machine(tmp_path, monkeypatch, f"deb {site.url}/debian sid main", more=careless)
    with pytest.raises(RqpsError, match="not signed"):
        debian.unpacked("evil", "sid", print)
    assert "/debian/dists/sid/Release" in site.asked
    assert "/debian/pool/evil.deb" not in site.asked
    assert left(cache) == []


def test_no_debian_mirror_is_an_error(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources_of_this_machine(tmp_path, monkeypatch, "deb http://127.0.0.1:1/debian-security sid-security main")
    with pytest.raises(RqpsError, match="uses no Debian mirror, so Debian's sid can't be fetched") as caught:
        debian.unpacked("mysql-server-core", "sid", print)
    assert "another source" in caught.value.fix
    assert left(cache) == []


def test_no_network_is_an_error(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources_of_this_machine(tmp_path, monkeypatch, "deb http://127.0.0.1:1/debian sid main")
    with pytest.raises(RqpsError, match=r"apt-get failed(.|\n)*Connection refused") as caught:
        debian.unpacked("mysql-server-core", "sid", print)
    assert "network" in caught.value.fix
    assert left(cache) == []


@pytest.mark.parametrize(
    ("base", "release", "machine", "is_known"),
    [
        ("http://a.example/debian", "bookworm", {"ID": "debian", "VERSION_CODENAME": "bookworm"}, True),
        ("http://a.example/debian", "trixie", {"ID": "ubuntu", "VERSION_CODENAME": "noble"}, True),
        ("http://a.example/deb-proxy", "bookworm", {"ID": "debian", "VERSION_CODENAME": "bookworm"}, True),
        ("http://a.example/deb-proxy", "stable", {"ID": "debian"}, True),
        ("http://a.example/deb-proxy", "nodistro", {"ID": "debian", "VERSION_CODENAME": "bookworm"}, False),
        ("http://a.example/debian-security", "bookworm-security", {"ID": "debian"}, False),
        ("http://a.example/ubuntu", "noble", {"ID": "ubuntu", "VERSION_CODENAME": "noble"}, False),
    ],
)
def test_a_debian_mirror_is_known_among_the_machines_sources(
    base: str, release: str, machine: dict[str, str], is_known: bool
) -> None:
    asked = f"'{base}/dists/{release}/InRelease' x_InRelease 0 \n'{base}/dists/{release}/main/Packages.xz' x 0 \n"
    assert debian.mirrors(asked, machine) == ([base] if is_known else [])


def test_a_loader_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match="has no loader"):
        debian.own_loader(tmp_path, tmp_path / "mysqld")


def test_the_same_package_with_another_choice_is_kept_elsewhere() -> None:
    places = {
        debian.place("libaio1", "bookworm"),
        debian.place("libaio1", "trixie"),
        debian.place("libaio1", None),
        debian.place("libaio1", "bookworm", alone=True),
        debian.place("libaio1", "bookworm", files=("usr/lib/*",)),
    }
    assert len(places) == 5


@pytest.mark.live
def test_no_hook_of_the_machine_runs(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = f'APT::Update::Post-Invoke {{ "touch {tmp_path}/hook-ran"; }};\n'
    (tmp_path / "hooks.conf").write_text(hook)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "hooks.conf"))
    tree = debian.unpacked("libaio1", "bookworm", print, alone=True)
    assert [folder for folder in debian.library_folders(tree) if (folder / "libaio.so.1").exists()]
    assert not list(tree.rglob("libc.so.6"))
    assert not (tmp_path / "hook-ran").exists()
    assert (tree.parent / "packages.txt").read_text().startswith("libaio1=")
    assert left(cache) == ["libaio1-bookworm-alone"]
    monkeypatch.setenv("PATH", str(tmp_path))  # the second call needs no client and no network
    assert debian.unpacked("libaio1", "bookworm", print, alone=True) == tree
    with pytest.raises(RqpsError, match="apt-get is not installed"):
        debian.unpacked("libnuma1", "bookworm", print, alone=True)


@pytest.mark.live
def test_a_package_that_debian_does_not_have_is_named(cache: Path) -> None:
    with pytest.raises(RqpsError, match="Debian's bookworm has no package mysql-server-core-99"):
        debian.unpacked("mysql-server-core-99", "bookworm", print)
    assert left(cache) == []


def test_a_browser_finds_its_fonts_also_where_its_tree_was_seen_through_a_link_that_is_gone(tmp_path: Path) -> None:
    tree, link = tmp_path / "cache/tree", tmp_path / "link"
    tree.mkdir(parents=True)
    link.symlink_to(tmp_path / "cache")
    (tree / "fonts.conf").write_text("<dir>/gone</dir>")
    named = fonts_of(link / "tree")["FONTCONFIG_FILE"]
    assert f"<dir>{tree}/usr/share/fonts</dir>" in Path(named).read_text()
