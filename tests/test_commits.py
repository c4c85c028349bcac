"""Commits of a checkout: their order, what builds them, and those that touch a function."""

import subprocess
from pathlib import Path

import pytest
from child import rqps as command
from rqps.errors import RqpsError
from rqps.schedule.commits import INSTALLED, Checkout


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
    with pytest.raises(RqpsError, match=r"main and \w+ are one commit"):
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
    git(folder.parent, "clone", "-q", str(folder), "clone")
    commit(folder, "3", "third")
    clone = checkout(folder.parent / "clone")
    assert clone.install_newest("origin/main", place).endswith(" third"), "what another one has is fetched"


def test_commits_that_touch_what_costs_more_come_first(folder: Path) -> None:
    text = "// one\n\n// two\n\nint Get() {\n  return 1;\n}\nint Put() {\n  return 2;\n}\n"
    first = commit(folder, text, "first")
    commit(folder, text.replace("// one", "// others"), "elsewhere")
    put = commit(folder, text.replace("return 2", "return 4"), "put more")
    get = commit(folder, text.replace("return 1", "return 5").replace("return 2", "return 4"), "get more")
    changes = {"db::Get(int)": 900.0, "Put<int>(int)": -100.0, "db::Delete()": 5000.0}
    found = checkout(folder).touching(first, "main", changes)
    assert [(one.commit, one.weight) for one in found] == [(get[:12], 900.0), (put[:12], 100.0)]
    assert found[0].functions == ("db::Get(int)",)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--checkout", "."), "--checkout and --make go together"),
        (("--make", "make"), "--checkout and --make go together"),
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
