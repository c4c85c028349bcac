"""Builds that are on the machine already, and what is made of them: directories, the mysqld on PATH."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from releases import digest, find, server_in
from rqps.engines import sources
from rqps.engines.cache import cache_dir
from rqps.engines.postgres import build as postgres
from rqps.errors import RqpsError
from rqps.study import BuildSpec

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    "place", ["bin", "sbin", "libexec", "runtime_output_directory", "runtime_output_directory/bin", "sql"]
)
def test_a_directory_is_searched_where_servers_are(tmp_path: Path, messages: list[str], place: str) -> None:
    mysqld = server_in(tmp_path / "own", place)
    build = find(messages, path=str(tmp_path / "own"), mysql="8.0.40")
    assert (build.program, build.argv, build.version) == (mysqld, (str(mysqld),), "8.0.40")
    assert (build.directory, build.number) == (tmp_path / "own", (8, 0, 40))
    assert build.digest == digest(mysqld.read_bytes())


def test_messages_and_plugins_beside_a_server_are_pointed_to(tmp_path: Path, messages: list[str]) -> None:
    server_in(tmp_path)
    (tmp_path / "share/mysql/english").mkdir(parents=True)
    (tmp_path / "share/mysql/english/errmsg.sys").touch()
    (tmp_path / "lib/plugin").mkdir(parents=True)
    options = find(messages, path=str(tmp_path)).options
    assert options == (f"--lc-messages-dir={tmp_path}/share/mysql", f"--plugin-dir={tmp_path}/lib/plugin")


def test_a_home_directory(tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    mysqld = server_in(tmp_path / "own")
    assert find(messages, path="~/own").program == mysqld


def test_a_missing_directory_is_named(tmp_path: Path, messages: list[str]) -> None:
    with pytest.raises(RqpsError, match=re.escape(f"builds.mine.path: no such directory: {tmp_path}/nothing")):
        find(messages, path=f"{tmp_path}/nothing")
    mysqld = server_in(tmp_path, "bin")
    with pytest.raises(RqpsError, match=re.escape(f"builds.mine.path: is a file, not a directory: {mysqld}")):
        find(messages, path=str(mysqld))


def test_a_directory_without_mysqld_is_an_error(tmp_path: Path, messages: list[str]) -> None:
    server_in(tmp_path, "bin").chmod(0o644)  # there, but it can't be run
    with pytest.raises(RqpsError, match="has no executable mysqld"):
        find(messages, path=str(tmp_path))


def test_a_build_tree_of_postgresql_has_to_be_installed(tmp_path: Path) -> None:
    for place in ("src/backend/postgres", "src/bin/initdb/initdb"):
        program = tmp_path / place
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    with pytest.raises(RqpsError, match=r"has no executable postgres(.|\n)*what make install left"):
        postgres.locate("mine", BuildSpec(path=str(tmp_path), postgres="15.18"), print)


def test_a_version_other_than_promised_is_an_error_with_both(tmp_path: Path, messages: list[str]) -> None:
    server_in(tmp_path, version="8.0.40")
    with pytest.raises(RqpsError, match=r"builds\.mine\.mysql: 8\.0\.41 is expected, but directory .* is 8\.0\.40"):
        find(messages, path=str(tmp_path), mysql="8.0.41")


@pytest.mark.parametrize(("promise", "version", "holds"), [("9.7", "9.7.4", True), ("9.7", "9.70.1", False)])
def test_a_short_version_promises_any_patch_level(
    tmp_path: Path, messages: list[str], promise: str, version: str, holds: bool
) -> None:
    server_in(tmp_path, version=version)
    if holds:
        assert find(messages, path=str(tmp_path), mysql=promise).version == version
    else:
        with pytest.raises(RqpsError, match="is expected"):
            find(messages, path=str(tmp_path), mysql=promise)


def test_mysqld_is_asked_and_read_again_only_after_a_change(tmp_path: Path, messages: list[str]) -> None:
    mysqld, calls = server_in(tmp_path / "own"), tmp_path / "calls"
    mysqld.write_text(f"#!/bin/sh\necho called >> {calls}\necho 'mysqld  Ver 8.0.40 for Linux'\n")
    first = find(messages, path=str(tmp_path / "own"))
    assert find(messages, path=str(tmp_path / "own")) == first
    assert calls.read_text().count("called") == 1
    mysqld.write_text(mysqld.read_text().replace("8.0.40", "8.0.41"))
    changed = find(messages, path=str(tmp_path / "own"))
    assert (changed.version, changed.digest) == ("8.0.41", digest(mysqld.read_bytes()))
    assert calls.read_text().count("called") == 2


def test_a_mysqld_that_does_not_run_shows_what_it_said(tmp_path: Path, messages: list[str]) -> None:
    server_in(tmp_path).write_text("#!/bin/sh\necho out of order\nexit 7\n")
    with pytest.raises(RqpsError, match=r"exit status 7\): out of order"):
        find(messages, path=str(tmp_path))


def test_a_mysqld_for_another_machine_is_an_error(tmp_path: Path, messages: list[str]) -> None:
    server_in(tmp_path).write_bytes(b"\x7fELF\x01\x01\x01" + bytes(100))
    with pytest.raises(RqpsError, match=r"can't be run: .*Exec format error"):
        find(messages, path=str(tmp_path))


def test_a_library_that_nobody_has_is_named(tmp_path: Path, messages: list[str]) -> None:
    program = Path("/bin/true").read_bytes()
    server_in(tmp_path).write_bytes(program.replace(b"libc.so.6\0", b"libx.so.9\0"))
    with pytest.raises(RqpsError, match=r"needs libx\.so\.9, which this machine does not have"):
        find(messages, path=str(tmp_path))


def test_the_mysqld_on_path_is_found(tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mysqld = server_in(tmp_path / "usr", "bin", "8.4.2")
    monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin:{os.environ['PATH']}")
    build = find(messages, on_path=True)
    assert (build.program, build.version, build.source) == (mysqld, "8.4.2", "mysqld on PATH")


def test_a_directory_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    """As an ordinary user, which root becomes for it."""
    server_in(tmp_path / "secret")
    (tmp_path / "secret").chmod(0)
    code = (
        "import os, sys\n"
        "from rqps.errors import RqpsError\n"
        "from rqps.engines.mysql.build import locate\n"
        "from rqps.study import BuildSpec\n"
        "os.geteuid() or os.seteuid(65534)\n"
        "try: locate('mine', BuildSpec(path=sys.argv[1]), print)\n"
        "except RqpsError as error: sys.exit(str(error))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "secret"], capture_output=True, text=True)
    (tmp_path / "secret").chmod(0o755)
    assert "can't be read by this user" in done.stderr


def test_no_mysqld_on_path_is_an_error(tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sources, "BESIDE_PATH", ())
    with pytest.raises(RqpsError, match="no mysqld on PATH"):
        find(messages, on_path=True)


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


def test_the_cache_is_the_users_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("RQPS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/caches")
    assert cache_dir() == Path("/var/tmp/caches/rqps")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_dir() == Path("/home/somebody/.cache/rqps")
    monkeypatch.setenv("RQPS_CACHE", "/tmp/a:b")
    with pytest.raises(RqpsError, match="so no library loads from it"):
        cache_dir()
