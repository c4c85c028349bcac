"""A watch: what its occasions call changed, what somebody has acknowledged, and its bad input."""

import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
import rqps
from child import rqps as command
from rqps import show, stats
from rqps.errors import RqpsError
from rqps.schedule.moving_builds import Watch, read_acknowledged, watch_of
from rqps.schedule.run_folder import measuring
from rqps.stats.conditions import missing_rounds
from rqps.store import read_study_card, write_study_card
from rqps.store.manifest import BuildVersion
from rqps.study import read_runs_file
from rqps.workloads import PARAMETERS
from synthetic import START, Shape, card
from synthetic_duet import write_side
from test_commits import commit, git

BASE = "my1.base"
STEPS = ("point-query", "update-index", "scan")
Looks = Mapping[tuple[str, int], Mapping[str, float]]
"""By version and occasion: the speed of each step while that version was the newest, relative to the base."""


def name_of(number: int) -> str:
    return "mine" if number == 1 else f"mine@{number}"


def write_watch(
    data: Path, levels: Mapping[int, Mapping[str, float]], twice: Mapping[int, Mapping[str, float]]
) -> Path:
    """A made-up study of a build in versions: on each occasion the base, the version before and the newest are up for
    four rounds. `twice` has the speeds on second occasions, where there was one."""
    folder = data / "raw/study=synthetic"
    names = [name_of(number) for number in levels]
    shape = Shape(dbms=(BASE, *(f"{name}.base" for name in names)), steps=STEPS, rounds=4)
    versions = [
        BuildVersion(
            build="mine",
            number=number,
            name=name,
            host="here",
            program="/opt/mine/mysqld",
            digest=f"{number:064}",
            since=START + timedelta(days=number),
            note=f"change {number}",
        )
        for number, name in zip(levels, names, strict=True)
    ]
    write_study_card(folder, card(shape, builds=tuple(versions), occasions=len(levels) + len(twice)))
    unit, occasion = 0, 0
    for number, level in levels.items():
        for speeds in (level, *([twice[number]] if number in twice else [])):
            occasion += 1
            for _ in range(4):
                unit += 1
                sides = {BASE: {}, f"{name_of(number)}.base": speeds}
                if number > 1:
                    sides[f"{name_of(number - 1)}.base"] = levels[number - 1]
                for dbms, of_steps in sides.items():
                    write_side(folder, dbms, unit, occasion, shape, of_steps)
    return data


def watched(data: Path) -> Watch:
    runs_yaml = data.parent / "runs.yaml"
    runs_yaml.write_text(
        'builds:\n  my1: {mysql: "5.6.24"}\n  mine: {path: /opt/mine}\nconfigs:\n  base: {}\nstudies:\n'
        "  synthetic: {question: What?, workload: sysbench, dbms: [my1.base, mine.base], base: my1.base, rounds: 4}\n"
    )
    return watch_of(read_runs_file(runs_yaml, PARAMETERS), "synthetic", data.parent / "acknowledged.yaml", data)


def states(data: Path) -> list[tuple[str, str, str, str | None]]:
    rows = stats.watched(rqps.load("synthetic", data)).filter(metric="operations_per_s")
    return rows.select("build", "step", "against", "state").filter(pl.col("state").is_not_null()).rows()


def test_a_change_that_one_occasion_shows_is_suspected_and_confirmed_by_the_second(tmp_path: Path) -> None:
    slow = {"scan": 0.9}
    once = write_watch(tmp_path / "once/data", {1: {}, 2: {}, 3: slow}, {})
    assert states(once) == [("mine@3", "scan", "last", "suspected"), ("mine@3", "scan", "base", "suspected")]
    again = write_watch(tmp_path / "again/data", {1: {}, 2: {}, 3: slow}, {3: slow})
    assert states(again) == [("mine@3", "scan", "last", "changed"), ("mine@3", "scan", "base", "changed")]


def test_a_change_that_the_second_occasion_does_not_show_is_none(tmp_path: Path) -> None:
    assert states(write_watch(tmp_path / "data", {1: {}, 2: {"scan": 0.9}}, {2: {}})) == []


def test_what_no_version_shows_alone_adds_up_against_the_base(tmp_path: Path) -> None:
    """Seven versions each lose so little that it is the same, and 5 % together."""
    levels = {number: {"scan": 0.993 ** (number - 1)} for number in range(1, 9)}
    data = write_watch(tmp_path / "data", levels, {8: levels[8]})
    of_base = [row for row in states(data) if row[2] == "base"]
    assert of_base == [("mine@8", "scan", "base", "changed")]


def test_an_acknowledged_change_is_known_from_then_on(tmp_path: Path) -> None:
    slow = {"scan": 0.9, "update-index": 1.1}
    data = write_watch(tmp_path / "data", {1: {}, 2: slow, 3: slow}, {2: slow})
    watch = watched(data)
    rows = watch.open().filter(metric="operations_per_s").select("build", "step", "against", "seen").rows()
    assert rows == [("mine@2", "update-index", "last", "faster"), ("mine@2", "scan", "last", "slower")]
    text = show.watch_text("synthetic", watch.changes(), watch.open())
    assert text.startswith("synthetic: 4 changes not acknowledged\n\nNewest: mine@3: change 3; 3 steps against ")
    assert "mine.base" in next(line for line in text.splitlines() if line.startswith("scan"))
    assert watch.acknowledge(["scan"], 'it checks each "page"').endswith("scan of mine@2 is acknowledged")
    again = watched(data)
    assert again.open()["step"].unique().to_list() == ["update-index"]
    assert 'it checks each "page"' in show.watch_text("synthetic", again.changes(), again.open())
    again.acknowledge(["update-*"], "wanted")
    assert watched(data).open().is_empty(), "the level against the base is the acknowledged one"
    with pytest.raises(RqpsError, match="no open change of scan"):
        watched(data).acknowledge(["scan"], "once more")


def test_a_loss_that_came_back_is_seen_against_the_level_that_was_acknowledged(tmp_path: Path) -> None:
    slow, slower = {"scan": 0.9}, {"scan": 0.84}
    data = write_watch(tmp_path / "data", {1: {}, 2: slow, 3: slower}, {2: slow, 3: slower})
    watch = watched(data)
    assert watch.open().filter(metric="operations_per_s")["build"].to_list() == ["mine@2", "mine@3"]
    watch.file.write_text('- {study: synthetic, build: mine@2, step: "*", remark: wanted}\n')
    (row,) = watched(data).changes().filter(metric="operations_per_s", step="scan", against="base").to_dicts()
    assert (row["level_of"], row["state"]) == ("mine@2", "changed")
    assert row["estimate"] == pytest.approx(0.84 / 0.9, abs=0.01)


def test_the_answer_in_markdown_is_a_table(tmp_path: Path) -> None:
    slow = {"scan": 0.9}
    watch = watched(write_watch(tmp_path / "data", {1: {}, 2: slow}, {2: slow}))
    first, _, third, _, head, rule, *lines = show.watch_text(
        "synthetic", watch.changes(), watch.open(), markdown=True
    ).splitlines()
    assert first == "### synthetic: 2 changes not acknowledged"
    assert third == "Newest: mine@2: change 2; 3 steps against mine.base"
    assert head == "| step | measure | build | relative to | ratio | verdict |"
    assert rule.startswith("|---|--:|")
    assert lines[0].startswith("| scan | ")
    assert "slower" in lines[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("study: a", "build: Field required"),
        ("- {study: a, build: b, step: c}", "[0].remark: Field required"),
        ('- {study: a, build: b, step: c, remark: ""}', "[0].remark: String should have at least 1"),
        ("- {study: a, build: b, step: c, remark: d, who: e}", "[0].who: Extra inputs"),
        ("- {", "not YAML"),
        ("- {study: a, study: b}", "key 'study' is here twice"),
    ],
)
def test_a_mistake_in_the_acknowledged_changes_names_its_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "acknowledged.yaml"
    file.write_text(text)
    with pytest.raises(RqpsError) as refused:
        read_acknowledged(file)
    assert words in refused.value.message
    assert refused.value.message.startswith(f"{file}:")
    assert "remark" in refused.value.fix


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rounds: 4": "rounds: 3"}, "verdicts need at least 4"),
        ({"rounds: 4": "budget: 9m"}, "a watch needs a number of rounds"),
        ({"rounds: 4": "rounds: 4, method: rounds"}, "a watch needs duets"),
        ({"{path: /opt/mine}": '{mysql: "8.0.33"}'}, "none of its builds can be replaced"),
    ],
)
def test_a_study_that_can_t_be_watched_says_why(tmp_path: Path, changed: Mapping[str, str], words: str) -> None:
    watched(write_watch(tmp_path / "data", {1: {}}, {}))
    runs_yaml = tmp_path / "runs.yaml"
    for before, now in changed.items():
        runs_yaml.write_text(runs_yaml.read_text().replace(before, now))
    done = command("watch", "synthetic", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "what to do" in done.stderr


def test_a_remark_and_its_steps_go_together(tmp_path: Path) -> None:
    watched(write_watch(tmp_path / "data", {1: {}}, {}))
    assert "go together" in command("watch", "synthetic", "--acknowledge", "scan", cwd=tmp_path).stderr


def test_a_branch_needs_its_checkout_and_what_builds_it(tmp_path: Path) -> None:
    watched(write_watch(tmp_path / "data", {1: {}}, {}))
    branch = ("watch", "synthetic", "--branch", "main")
    assert "--branch and --checkout go together" in command(*branch, cwd=tmp_path).stderr
    without = command(*branch, "--checkout", ".", cwd=tmp_path).stderr
    assert "--checkout goes with either --make or --recipe" in without


def test_the_history_has_each_version_of_a_build_that_moves(tmp_path: Path) -> None:
    levels = {number: {"scan": 1.0 if number < 5 else 0.9} for number in range(1, 9)}
    study = rqps.load("synthetic", write_watch(tmp_path / "data", levels, {}))
    assert stats.releases(study) == [BASE, *(f"{name_of(number)}.base" for number in levels)]
    (change,) = stats.courses_of(study).changes.filter(metric="operations_per_s", step="scan").to_dicts()
    assert (change["before"], change["dbms"]) == ("mine@4.base", "mine@5.base")


def test_no_version_lacks_the_rounds_of_nights_before_it_was_built(tmp_path: Path) -> None:
    data = write_watch(tmp_path / "data", {1: {}, 2: {}, 3: {}}, {})
    assert missing_rounds(rqps.load("synthetic", data)).is_empty()
    for run in (data / "raw/study=synthetic").glob("run=r12@*"):
        shutil.rmtree(run)
    warned = missing_rounds(rqps.load("synthetic", data)).filter(dbms=f"{name_of(3)}.base")
    assert warned["text"].to_list() == ["3 of 4 rounds have finished"]


def test_two_watches_never_measure_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    watched(write_watch(tmp_path / "data", {1: {}, 2: {}}, {}))
    with measuring("another"):
        done = command("watch", "synthetic", cwd=tmp_path)
    assert done.returncode == 1
    assert "study another" in done.stderr


def test_a_watch_builds_nothing_while_another_process_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    watched(write_watch(tmp_path / "data", {1: {}, 2: {}}, {}))
    (checkout := tmp_path / "checkout").mkdir()
    git(checkout, "init", "-q", "-b", "main")
    commit(checkout, "1", "first")
    make = f"touch {tmp_path / 'made'}"
    with measuring("another"):
        words = ("--checkout", str(checkout), "--branch", "main", "--make", make)
        done = command("watch", "synthetic", *words, cwd=tmp_path)
    assert (done.returncode, "study another" in done.stderr) == (1, True)
    assert not (tmp_path / "made").exists()


def test_versions_are_in_the_order_of_their_numbers_whatever_the_clock_was(tmp_path: Path) -> None:
    """A month without a watch, and a clock that was set back."""
    slow = {"scan": 0.9}
    data = write_watch(tmp_path / "data", {1: {}, 2: {}, 3: slow}, {3: slow})
    folder = data / "raw/study=synthetic"
    before = read_study_card(folder)
    days = (31, 0, 400)
    builds = [
        version.model_copy(update={"since": START - timedelta(days=day)})
        for day, version in zip(days, before.builds, strict=True)
    ]
    write_study_card(folder, before.model_copy(update={"builds": tuple(builds)}))
    assert [row[:2] for row in states(data)] == [("mine@3", "scan")] * 2
    assert stats.releases(rqps.load("synthetic", data))[-1] == "mine@3.base"
