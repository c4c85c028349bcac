"""Commits of a checkout: their order, what builds them, and those that touch a function."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from child import rqps as command
from house import House
from rqps.engines.compiled import how_compiled
from rqps.engines.making import Making
from rqps.errors import RqpsError
from rqps.schedule.bisection import bisection
from rqps.schedule.commits import INSTALLED, Checkout
from rqps.schedule.run_study import LocalRunner
from rqps.study import RunsFile, read_runs_file
from rqps.workloads import PARAMETERS
from test_making import MAIN, SUM

RUNS_YAML = Path(__file__).parent.parent / "runs.yaml"


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
    done = subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str, subject: str) -> str:
    (folder / "get.cc").write_text(text)
    git(folder, "add", "get.cc")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    (made := tmp_path / "checkout").mkdir()
    git(made, "init", "-q", "-b", "main")
    return made


def checkout(folder: Path, make: str = "cp get.cc $PREFIX", log: list[str] | None = None) -> Checkout:
    return Checkout(folder, make, (log if log is not None else []).append)


def test_a_merge_is_one_commit_and_the_ends_are_in_order(folder: Path) -> None:
    first = commit(folder, "1", "first")
    git(folder, "checkout", "-q", "-b", "topic")
    commit(folder, "2", "on a branch")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge topic", "topic")
    last = commit(folder, "3", "last")
    log: list[str] = []
    listed = checkout(folder, log=log).between(first, "main")
    assert [git(folder, "log", "-1", "--format=%s", one) for one in listed] == ["first", "merge topic", "last"]
    assert log == []
    assert listed[-1] == last
    with pytest.raises(RqpsError, match="no ancestor") as refused:
        checkout(folder).between("main", first)
    assert f"--good {first} --bad main" in refused.value.fix
    with pytest.raises(RqpsError, match=r"main and \w+ are the same commit"):
        checkout(folder).between("main", last)
    with pytest.raises(RqpsError, match="has no revision 'mian'"):
        checkout(folder).between("mian", first)


def test_a_dirty_checkout_stays_as_it_is_and_is_in_no_build(folder: Path) -> None:
    first, last = commit(folder, "1", "first"), commit(folder, "2", "last")
    (folder / "get.cc").write_text("changed")
    log: list[str] = []
    of = checkout(folder, log=log)
    of.between(first, last)
    assert "1 changed file(s) are in no commit" in log[0]
    of.build(first, folder.parent / "one")
    of.build(last, folder.parent / "two")
    assert [(folder.parent / name / "get.cc").read_text() for name in ("one", "two")] == ["1", "2"]
    assert (folder / "get.cc").read_text() == "changed"
    assert git(folder, "rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_a_commit_that_does_not_build_says_why_and_leaves_nothing(folder: Path) -> None:
    only = commit(folder, "1", "only")
    of = checkout(folder, "echo get.cc:7: no such thing; exit 3")
    with pytest.raises(RqpsError, match=r"only does not build:\n  get.cc:7: no such thing"):
        of.built(only)
    assert not (of.work / only[:12] / INSTALLED).exists()


def test_a_branch_is_installed_once_for_each_commit(folder: Path) -> None:
    commit(folder, "1", "first")
    place, log = folder.parent / "installed", list[str]()
    of = checkout(folder, log=log)
    assert of.install_newest("main", place).endswith(" first")
    of.install_newest("main", place)
    assert len(log) == 1, "built once"
    commit(folder, "2", "second")
    assert of.install_newest("main", place).endswith(" second")
    assert (place / "get.cc").read_text() == "2"
    shutil.rmtree(place)
    of.install_newest("main", place)
    assert (place / "get.cc").read_text() == "2", "built again, since somebody removed it"
    checkout(folder, make="echo other > $PREFIX/get.cc").install_newest("main", place)
    of.install_newest("main", place)
    assert (place / "get.cc").read_text() == "2", "another command had built there"
    git(folder.parent, "clone", "-q", str(folder), "clone")
    commit(folder, "3", "third")
    clone = checkout(folder.parent / "clone")
    assert clone.install_newest("origin/main", place).endswith(" third"), "what another one has is fetched"


CONFIGURE = """#!/bin/sh
# Makes what the recipes of PostgreSQL call.
for word in "$@"; do
  case "$word" in
    --prefix=*) prefix=${word#--prefix=} ;;
    [A-Z]*=*) eval "${word%%=*}=\\${word#*=}" ;;
  esac
done
for folder in src/backend src/bin/initdb src/include src/timezone src/backend/snowball src/pl/plpgsql/src; do
  mkdir -p $folder
  echo install: > $folder/Makefile
done
cat > src/backend/Makefile <<END
generated-headers:
install:
\tmkdir -p $prefix/bin
\t$CC $CFLAGS -x c $(dirname $0)/get.cc $(dirname $0)/sum.c $LDFLAGS -o $prefix/bin/postgres
\tcp $prefix/bin/postgres $prefix/bin/initdb
END
"""


def server(version: str) -> str:
    return MAIN.replace("  Ver 8.0.99 for Linux", f" (PostgreSQL) {version}")


@pytest.fixture
def sources(folder: Path) -> Path:
    """A checkout whose commits are small servers."""
    (folder / "sum.c").write_text(SUM)
    (folder / "configure").write_text(CONFIGURE)
    (folder / "configure").chmod(0o755)
    git(folder, "add", "-A")
    return folder


@pytest.fixture
def house(sources: Path, tmp_path: Path) -> Iterator[House]:
    """A study of two builds of one source. Its notebook starts no servers."""
    commit(sources, server("15.18"), "first")
    house, source = House(tmp_path / "house"), f'postgres: "15.18", source: {{path: {sources}}}'
    file = house.path / "runs.yaml"
    text = file.read_text().replace("path: /nowhere/my1", f"{source}, recipe: [gcc, o2]")
    file.write_text(text.replace("path: /nowhere/my2", f"{source}, recipe: [gcc, o3]"))
    before = signal.getsignal(signal.SIGTERM)  # `rqps builds make` sets another
    yield house
    signal.signal(signal.SIGTERM, before)


def test_builds_make_says_first_what_it_takes(house: House, sources: Path, cache: Path, tmp_path: Path) -> None:
    configure = sources / "configure"
    configure.write_text(CONFIGURE.replace("#!/bin/sh", f"#!/bin/sh\nnice > {tmp_path}/niceness\n"))
    listed = command("builds", "list", "my1", cwd=house.path).stdout
    assert listed.endswith("  not made\n")
    done = command("builds", "make", "my1", "--jobs", "1", "--nice", "3", cwd=house.path)
    assert (done.returncode, done.stdout) == (0, "")
    announced = listed.removesuffix("  not made\n")
    assert done.stderr.startswith(announced)
    first, parts, flags, room = announced.splitlines()
    assert first.startswith(f"my1: PostgreSQL from directory {sources}, commit ")
    assert first.endswith(", with changes of its own")
    assert parts == "  compiled by gcc; -O2 with frame pointers"
    assert re.fullmatch(r"  gcc \S.* -O2 -fno-omit-frame-pointer", flags)
    assert room == f"  up to 500 MB in {cache}; the time left is known after the first steps"
    assert int((tmp_path / "niceness").read_text()) == min(os.nice(0) + 3, 19)
    states = command("builds", cwd=house.path).stdout.splitlines()
    assert [line.partition(";")[0] for line in states] == ["my1: made", "my2: not made"]
    servers = command("servers", cwd=house.path).stdout
    assert re.search(r"^my1 .*  gcc \d[\d.]+, -O2, frame pointers *$", servers, re.MULTILINE), servers
    assert "unknown build 'my3'; did you mean" in command("builds", "make", "my3", cwd=house.path).stderr


def test_run_makes_the_builds_that_are_missing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = command("plan", "demo", cwd=house.path).stdout
    assert plan.count("to be made in up to 500 MB: run --make") == 2

    def measure(runs_file: RunsFile, study: str, **_: Any) -> int:
        assert study == "demo"
        return sum(not Making.of(name, spec).tree.is_dir() for name, spec in runs_file.builds.items())

    monkeypatch.setattr("rqps.schedule.run_study.run_study", measure)
    assert command("run", "demo", cwd=house.path).returncode == 2, "two are missing"
    assert command("run", "demo", "--make", cwd=house.path).returncode == 0


def test_a_training_that_fails_names_its_study_and_can_be_repeated(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("recipe: [gcc, o3]", "recipe: [gcc, o3, pgo], training: demo"))
    codes = [1, 0]

    def run(runs_file: RunsFile, study: str, **_: Any) -> int:
        (name, spec), asked = next(iter(runs_file.builds.items())), runs_file.studies[study]
        assert (name, study, asked.dbms, asked.rounds) == ("my2", "demo", ("my2.base",), 1)
        subprocess.run([f"{spec.path}/bin/postgres"], check=True, stdout=subprocess.DEVNULL)
        return codes.pop(0)

    monkeypatch.setattr("rqps.schedule.training.run_study", run)
    done = command("builds", "make", "my2", cwd=house.path)
    assert done.returncode == 1
    assert "builds.my2: the training under demo failed" in done.stderr
    assert "rqps run demo" in done.stderr
    again = command("builds", "make", "my2", cwd=house.path)
    assert again.returncode == 0, again.stderr
    assert "-O3, no frame pointers, PGO" in again.stderr


def by_recipe(folder: Path, recipe: str = "gcc o2", log: list[str] | None = None) -> Checkout:
    return Checkout(folder, "", (log if log is not None else []).append, tuple(recipe.split()), "postgres")


def test_a_recipe_builds_a_commit_once_whatever_its_version(sources: Path) -> None:
    first, last = commit(sources, server("15.18"), "first"), commit(sources, server("16.2"), "last")
    log = list[str]()
    builds = [by_recipe(sources, log=log).built(one[:12]) for one in (first, last)]
    assert [spec.version for spec in builds] == ["15.18", "16.2"]
    facts = how_compiled(Path(str(builds[0].path)) / "bin/postgres")
    assert (facts["optimization"], facts["frame_pointers"]) == ("-O2", "yes")
    assert [line for line in log if line.startswith("building")] == [
        f"building {first[:12]} first",
        f"building {last[:12]} last",
    ]
    assert any(line.startswith(f"c{first[:12]}: gcc ") and "-O2, frame pointers" in line for line in log)
    log.clear()
    assert by_recipe(sources, log=log).built(last) == builds[1]
    assert log == []
    assert by_recipe(sources, "gcc o3").built(last) != builds[1]


def test_a_commit_that_a_recipe_does_not_build_says_why(sources: Path) -> None:
    broken = commit(sources, server("15.18").replace("int main", "in main"), "broken")
    (sources / "configure").write_text(CONFIGURE.replace("$CFLAGS -x", "$CFLAGS -O1 -x"))
    git(sources, "add", "configure")
    worse = commit(sources, server("15.18"), "worse")
    of = by_recipe(sources)
    with pytest.raises(RqpsError, match=rf"(?s){broken[:12]} broken does not build: install failed .*: unknown type"):
        of.built(broken)
    with pytest.raises(RqpsError, match=rf"(?s){worse[:12]} worse does not build: .*has to be -O2, and it shows -O1"):
        of.built(worse)


def test_a_branch_is_built_by_a_recipe_and_linked_where_its_build_is(sources: Path, tmp_path: Path) -> None:
    commit(sources, server("15.18"), "first")
    (place := tmp_path / "taken").mkdir()
    with pytest.raises(RqpsError, match="taken exists, and is no link") as refused:
        by_recipe(sources).install_newest("main", place)
    assert "remove it" in refused.value.fix
    place, log = tmp_path / "new/installed", list[str]()
    assert by_recipe(sources, log=log).install_newest("main", place).endswith(" first")
    first = subprocess.run([place / "bin/postgres"], capture_output=True, text=True, check=True).stdout
    commit(sources, server("16.2"), "second")
    assert by_recipe(sources, log=log).install_newest("main", place).endswith(" second")
    second = subprocess.run([place / "bin/postgres"], capture_output=True, text=True, check=True).stdout
    assert ("15.18" in first, "16.2" in second) == (True, True)
    log.clear()
    by_recipe(sources, log=log).install_newest("main", place)
    assert log == [], "built once"
    assert [path.name for path in place.parent.iterdir()] == ["installed"]
    built = (place / "bin").resolve()
    checkout(sources).install_newest("main", place)
    assert [path.name for path in place.iterdir()] == ["get.cc"], "a command installs a directory, not into the cache"
    assert {path.name for path in built.iterdir()} == {"postgres", "initdb"}


def test_another_command_or_recipe_is_another_bisection(folder: Path) -> None:
    first, _ = commit(folder, "1", "first"), commit(folder, "2", "last")
    runs_file = read_runs_file(RUNS_YAML, PARAMETERS)
    how = {"counts": True, "data": folder, "runner": LocalRunner(folder, RUNS_YAML), "say": print}
    asked = partial(bisection, runs_file, "rocksdb-reads", "byrx.readrandom", (first, "main"), **how)  # type: ignore[arg-type]
    ways = [checkout(folder, make) for make in ("make", "make -j", "make")]
    ways += [by_recipe(folder, recipe) for recipe in ("gcc o2", "gcc o3")]
    studies = [asked(checkout=way).study for way in ways]
    assert studies[0] == studies[2]
    assert len({*studies}) == 4


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ("gcc o2 ltoo", "--recipe: unknown part 'ltoo'; did you mean 'lto'?"),
        ("gcc 11", "--recipe: unknown part '11'; the parts are gcc, clang, o2, o3, "),
        ("o2", "--recipe: names 0 compilers"),
        ("gcc o3 pgo", "--recipe: pgo is not for commits: each would be trained anew"),
    ],
)
def test_a_recipe_that_builds_no_commits_is_refused(folder: Path, recipe: str, says: str) -> None:
    with pytest.raises(RqpsError) as refused:
        by_recipe(folder, recipe)
    assert says in refused.value.message


def test_commits_that_touch_what_costs_more_come_first(folder: Path) -> None:
    text = "// one\n\n// two\n\nint Get() {\n  return 1;\n}\nint Put() {\n  return 2;\n}\n"
    first = commit(folder, text, "first")
    commit(folder, text.replace("// one", "// others"), "elsewhere")
    (folder / "words.txt").write_bytes("größer\n".encode("latin1"))
    git(folder, "add", "words.txt")
    git(folder, "commit", "-q", "-m", "words in another encoding")
    put = commit(folder, text.replace("return 2", "return 4"), "put more")
    get = commit(folder, text.replace("return 1", "return 5").replace("return 2", "return 4"), "get more")
    changes = {"db::Get(int)": 900.0, "Put<int>(int)": -100.0, "db::Delete()": 5000.0}
    result = checkout(folder).touching(first, "main", changes)
    assert [(one.commit, one.weight) for one in result] == [(get[:12], 900.0), (put[:12], 100.0)]
    assert result[0].functions == ("db::Get(int)",)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--checkout", "."), "--checkout goes with either --make or --recipe"),
        (("--make", "make"), "--checkout goes with either --make or --recipe"),
        (("--recipe", "gcc", "o2"), "--checkout goes with either --make or --recipe"),
        (("--checkout", ".", "--make", "make", "--recipe", "gcc"), "--checkout goes with either --make or --recipe"),
        (("--checkout", "data", "--make", "make"), "no git repository"),
        (("--checkout", ".", "--make", "make", "--builds", "rx704"), "give one of them"),
        (("--every", "0"), "must be 1 or more"),
        (("--count", "--occasion"), "counts are the same at any hour"),
    ],
)
def test_bad_input_is_refused_before_anything_is_built(words: tuple[str, ...], says: str) -> None:
    root = Path(__file__).parent.parent
    done = command(
        "bisect", "rocksdb-reads", "byrx.readrandom", "--good", "8.0.0", "--bad", "8.6.7", *words, cwd=root
    )
    assert done.returncode == 2
    assert says in done.stderr
