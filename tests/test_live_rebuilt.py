"""A build that was rebuilt at its path: noticed by every command, kept, and measured beside what it was."""

import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from child import Done
from child import rqps as command
from executed import Notebook
from live_study import OLD_AND_SMALL, Place
from rqps.engines import engine_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import sha256
from rqps.schedule.tries import StatementTry, study_of_statement
from rqps.store.manifest import read_study_card
from rqps.workloads.sysbench.parameters import SysbenchParameters

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

STUDY = """\
studies:
  small:
    question: What did the last change do?
    workload: sysbench
    dbms: [my5624.base, mine.base]
    base: my5624.base
    rounds: 1
    seed: 1
    parameters: {steps: [point-query], table_rows: 2000, seconds: 1, warmup_seconds: 0}
"""


def rebuild(program: Path) -> str:
    """Another binary that does the same, in a file of its own, as linkers make it; the digest of the one before."""
    before, made = sha256(program), program.with_suffix(".made")
    shutil.copy(program, made)
    with made.open("ab") as file:
        file.write(b"x")
    made.replace(program)
    return before


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A study of a release and of a copy of it that is about to be worked on."""
    path = tmp_path_factory.mktemp("rebuilt")
    spec = BuildSpec.model_validate({"mysql": "5.6.24"})
    shutil.copytree(engine_of(spec).locate("my5624", spec, print).directory, path / "mine")
    build = f'  mine: {{path: {path / "mine"}, mysql: "5.6.24"}}\nconfigs:'
    place = Place(path, OLD_AND_SMALL.replace("configs:", build) + STUDY)
    place.run()
    return place


def rqps_in(place: Place, *words: str) -> Done:
    return command(*words, cwd=place.path)


def test_a_rebuilt_build_is_noticed_kept_and_measured_beside_what_it_was(place: Place) -> None:
    program = place.path / "mine/mysqld"
    before = {path: sha256(path) for path in place.study.glob("run=*/**/*") if path.is_file()}
    assert "0 runs measured" in place.run()
    was = rebuild(program)
    now = sha256(program)
    for name, code in (("run", 1), ("plan", 1), ("status", 0), ("show", 0)):
        done = rqps_in(place, name, "small")
        assert done.returncode == code, done.stdout + done.stderr
        words = done.stdout + done.stderr
        assert f"{program} has sha256 {now[:12]}, and had {was[:12]} when it was measured as mine" in words, name
        assert "rqps run small --rebuilt" in words
    done = rqps_in(place, "run", "small", "--rebuilt", "--note", "one byte more")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"mine@2: one byte more  .*\n\nmine@2.base against mine.base: point-query .* n=1\)", done.stdout)
    assert {path: sha256(path) for path in before} == before, "what was measured stays as it was"

    study = rqps.load("small", place.path / "data")
    digests = dict(study.runs.group_by("dbms").agg(pl.col("build_digest").unique()).iter_rows())
    assert digests["mine.base"] == [was]
    assert digests["mine@2.base"] == [now]
    together = study.runs.filter(round=2)["dbms"].to_list()
    assert sorted(together) == ["mine.base", "mine@2.base", "my5624.base"], "the earlier one from its copy"
    page = Notebook("relative_throughput", study)
    assert re.search(r">mine@2<.*>one byte more<.*>point-query<", page.html, re.DOTALL)
    assert page["drawn_versions"].select("build", "note", "step").rows()[-1] == (
        "mine@2",
        "one byte more",
        "point-query",
    )
    first, second = read_study_card(place.study).builds
    assert (first.digest, second.digest, second.note) == (was, now, "one byte more")
    assert "0 runs measured" in place.run()
    assert "0 runs measured" in rqps_in(place, "run", "small", "--rebuilt").stdout


def test_a_build_that_is_rebuilt_in_the_middle_ends_the_study(place: Place) -> None:
    place.ask((place.path / "runs.yaml").read_text().replace("rounds: 1", "rounds: 2"))
    before = {path.name for path in place.study.glob("run=*")}
    process = place.start()
    place.wait("a step", lambda: "point-query" in place.doing(), process)
    rebuild(place.path / "mine/mysqld")
    words, _ = process.communicate(timeout=600)
    assert process.returncode == 1, words
    assert re.search(r"mysqld was rebuilt while round \d with \d dbms in turns of small was measured", words)
    assert {path.name for path in place.study.glob("run=*")} == before
    assert not place.servers()


def tried(place: Place, *words: str) -> str:
    done = rqps_in(place, "try", "--build", "./mine", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def versions(place: Place, study: str) -> list[tuple[str, str]]:
    folder = place.path / f"data/raw/study={study}"
    return [(version.name, version.note) for version in read_study_card(folder).builds]


def test_a_course_of_tries(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first version, which is kept, to a verdict on each further one, with the next one's steps its own."""
    for name, least in {"table_rows": 2000, "seconds": 1}.items():
        monkeypatch.setitem(SysbenchParameters.of_a_try, name, least)
    # A statement that was tried on this build is no try of the build, and its file of tables may be gone.
    (tables := place.path / "t.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\n")
    of_statement = StatementTry("SELECT 1", tables, ("my5624.base", "mine.base"))
    study_of_statement(of_statement, place.path / "runs.yaml", place.path / "data")
    tables.unlink()
    asked = ("point-query", "--config", "base", "--rounds", "1")
    study, _, words = tried(place, *asked).partition(": ")
    assert words == "the current build is copied, as the base; next: rebuild it, then run the same command again\n"
    assert tried(place, *asked).endswith(words), "nothing has changed yet"
    rebuild(place.path / "mine/mysqld")
    assert "mine@2: one byte more" in tried(place, "--rounds", "1", "--note", "one byte more")
    rebuild(place.path / "mine/mysqld")
    assert "mine@3.base against mine@2.base: point-query" in tried(place, "--rounds", "1", "--note", "two")
    assert "0 runs measured" in tried(place, "--rounds", "1")
    assert versions(place, study) == [("mine", ""), ("mine@2", "one byte more"), ("mine@3", "two")]
    runs = rqps.load(study, place.path / "data").runs
    sides = runs.sort("dbms").group_by("round").agg("dbms").sort("round")["dbms"].to_list()
    assert sides == [["mine.base", "mine@2.base"], ["mine.base", "mine@2.base", "mine@3.base"]]
    assert runs["build_digest"].n_unique() == 3

    def studies() -> set[str]:
        return {path.name.removeprefix("study=") for path in place.study.parent.glob("study=try-*")}

    before = studies()
    tried(place, "update-index", "--rounds", "1", "--against", "base")
    (other,) = studies() - before
    assert [name for name, _ in versions(place, other)] == ["mine", "mine@2", "mine@3"], "the copies are there"
    assert set(rqps.load(other, place.path / "data").runs["dbms"]) == {"mine.base", "mine@3.base"}
    assert rqps_in(place, "status", other).stdout.startswith("r01@")


def test_a_try_that_can_t_be_made_says_why(place: Place) -> None:
    for words, why in (
        (("--build", "./none"), "no such directory"),
        (("--build", "my5624"), "no such build"),
        (("--build", "./mine", "point-qery"), "did you mean 'point-query'?"),
        (("--build", "./mine", "--base", "my5624.bse"), "--base my5624.bse: runs.yaml has no config 'bse'"),
        (("--build", "./mine", "--config", "bse"), "did you mean 'base'?"),
    ):
        done = rqps_in(place, "try", *words)
        assert done.returncode == 2, words
        assert why in done.stderr


def test_a_what_if_of_a_rebuilt_build_is_measured_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqps.experiment.SECONDS", 1)
    monkeypatch.setattr("rqps.experiment.BUDGET_S", 20)  # for a round of three
    data, runs_yaml = place.path / "data", place.path / "runs.yaml"
    how: Any = {"step": "point-query", "build": str(place.path / "mine"), "data": data, "runs_yaml": runs_yaml}
    first = rqps.what_if("small", **how)
    was = rebuild(place.path / "mine/mysqld")
    second = rqps.what_if("small", **how)
    name = str(first).partition("(")[2].partition(")")[0]
    digests = rqps.load(name, data).runs.filter(pl.col("dbms") != "my5624.base").select("dbms", "build_digest")
    assert dict(digests.unique().iter_rows()) == {"mine.base": was, "mine@2.base": sha256(place.path / "mine/mysqld")}
    assert "mine@2.base against mine.base: point-query" in str(second)
