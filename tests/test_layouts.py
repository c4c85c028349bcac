"""Layouts: the same objects linked with their functions in another order, by gold and lld, and read back by nm."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
import synthetic
import synthetic_duet
import test_making as toys
from child import running_from, until
from executed import Notebook
from pydantic import ValidationError
from rqps import show, stats
from rqps.engines import engine_of, facts_of
from rqps.engines.asked import BuildSpec
from rqps.engines.making import Making, refuse_unlinked
from rqps.engines.making.order import of_layout
from rqps.engines.mysql.engine import PreparedServer
from rqps.errors import RqpsError
from rqps.measure.job import Ready, make_ready
from rqps.report.claimed import frames_of
from rqps.report.first_page import answer
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.show.claims import wrong
from rqps.show.sentences import within_layouts
from rqps.stats.layouts import MEAN
from rqps.store.manifest import Manifest
from rqps.study import RunsFile, builds_of, read_runs_file, unfold
from rqps.workloads import PARAMETERS
from test_making import made, making

pytestmark = pytest.mark.usefixtures("clang", "cache")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = toys.project_in(tmp_path)
    (folder / "sum.c").write_text(toys.SUM.replace("int more", "__attribute__((used)) int more"))
    return folder


def layout(what: Making, number: int | None) -> Making:
    return replace(what, spec=what.spec.with_layout(number))


def order_of(tree: Path) -> list[str]:
    """The functions of the toy in the order in which nm finds them in the program."""
    program = next(path for path in tree.rglob("mysqld"))
    listed = subprocess.run(["nm", "-n", program], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in listed.splitlines()]
    return [name for name in names if name.startswith("more") or name in ("outside", "sum")]


@pytest.mark.parametrize(
    "recipe", ["gcc o2 sections", "gcc o3 nofp lto sections", "clang o2 sections", "clang o2 lto sections"]
)
@pytest.mark.parametrize("system", toys.SYSTEMS)
def test_a_layout_is_the_same_objects_in_another_order(
    project: Path,
    messages: list[str],
    system: str,
    recipe: str,
) -> None:
    what = making(project, recipe, system)
    trees = [made(one, messages) for one in (what, layout(what, 1), layout(what, 2))]
    orders = [order_of(tree) for tree in trees]
    assert len({*map(tuple, orders)}) == 3
    assert len({frozenset(order) for order in orders}) == 1
    compiled_at = {path: path.stat().st_mtime_ns for path in what.work.rglob("*.o")}
    messages.clear()
    third = made(layout(what, 3), messages)
    assert compiled_at == {path: path.stat().st_mtime_ns for path in what.work.rglob("*.o")} != {}
    assert re.fullmatch(
        r"mine: layout 3, [\d.]+ % of \d+ functions follow the function that they should follow", messages[0]
    )
    program = next(path for path in third.rglob("mysqld"))
    assert "Ver 8.0.99" in subprocess.run([program], capture_output=True, text=True).stdout
    assert order_of(trees[0]) == orders[0], "the build itself stays as it was made"


def test_equal_numbers_are_equal_orders(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o2 sections")
    first = order_of(made(layout(what, 7), messages))
    for folder in (what.folder, what.work):
        subprocess.run(["rm", "-r", folder], check=True)
    assert order_of(made(layout(what, 7), messages)) == first


def test_objects_that_are_gone_are_compiled_again(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o2 sections")
    before = order_of(made(what, messages))
    subprocess.run(["rm", "-r", what.work], check=True)
    assert order_of(made(layout(what, 1), messages)) != before
    assert "mine: the objects of its build are gone, and are compiled again" in messages
    assert order_of(what.tree) == before


def test_a_linker_that_ignores_the_order_is_refused(project: Path, messages: list[str]) -> None:
    deaf = {"about": "ignores it", "flags": ["-ffunction-sections"]}
    deaf["of_compiler"] = {"gcc": {"order": "-Wl,--build-id=none", "order_lines": ["{name}"]}}  # type: ignore[assignment]
    what = making(project, "gcc o2 deaf", deaf=deaf)
    what = replace(what, spec=what.spec.model_copy(update={"layout": 1}))
    with pytest.raises(
        RqpsError, match=r"ignored the order of layout 1: [\d.]+ % of 2\d functions .*, and 80 % have to"
    ):
        made(what, messages)
    assert not what.tree.exists()
    made(what.in_first_order, messages)


IN_A_CHILD = """
import sys
from pathlib import Path
import test_layouts as here
try:
    here.made(here.layout(here.making(Path(sys.argv[1]), "gcc o2 sections"), 1), [])
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_while_linking_leaves_no_half_layout(
    project: Path,
    messages: list[str],
    tmp_path: Path,
) -> None:
    what = making(project, "gcc o2 sections")
    made(what, messages)
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "ld.gold").write_text(f"#!/bin/sh\ntouch {slow}/began\nsleep 60\n")
    (slow / "ld.gold").chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "COMPILER_PATH": str(slow)}
    command = [sys.executable, "-c", IN_A_CHILD, str(project)]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    until(lambda: (slow / "began").exists(), patience_s=60)
    running.send_signal(signal.SIGINT)
    assert running.communicate()[0] == "stopped\n"
    until(lambda: not running_from(what.work), patience_s=30)
    assert not layout(what, 1).tree.exists()
    assert order_of(made(layout(what, 1), messages)) != order_of(what.tree)


def test_a_source_that_changed_is_another_build_whose_layouts_are_missing(project: Path, messages: list[str]) -> None:
    spec = BuildSpec(mysql="8.0.99", source={"path": str(project)}, recipe=["gcc", "o2", "sections"], layout=3)
    before = Making.of("mine", spec)
    before.tree.mkdir(parents=True)
    refuse_unlinked([("mine", spec)], "demo")
    (project / "sum.c").write_text(toys.SUM + "int one_more(void) { return 1; }\n")
    after = Making.of("mine", spec)
    assert of_layout("abcdefgh", after.key, 3) != of_layout("abcdefgh", before.key, 3)
    with pytest.raises(RqpsError, match=r"^builds\.mine: not linked yet: layout 3, 4\n") as error:
        refuse_unlinked([("mine", spec), ("mine", spec.with_layout(4)), ("mine", spec.with_layout(None))], "demo")
    assert error.value.fix == "rqps run demo --make"
    source = engine_of(spec).source("mine", spec)
    with pytest.raises(RqpsError, match="its layout 3 is not made from its source yet"):
        source.fetch("mine", messages.append)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"path": "/opt/mine"}, "its path is a finished program; write source and recipe in its place"),
        ({}, "its version is a finished program"),
        (
            {"source": {"path": "/x"}, "recipe": ["gcc", "o2"]},
            r"its recipe lacks 'sections'; write \[gcc, o2, sections\]",
        ),
    ],
)
def test_a_layout_needs_a_source_and_sections(described: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BuildSpec.model_validate_json(json.dumps({**described, "postgres": "15.18", "layout": 1}))


RUNS = """
builds:
  bought: {mysql: "8.0.33"}
  mine: {mysql: "8.0.99", source: &source {path: /x}, recipe: &recipe [gcc, o2, sections]}
  again: {mysql: "8.0.99", source: *source, recipe: *recipe, layout: 101}
  plain: {mysql: "8.0.99", source: *source, recipe: [gcc, o2]}
configs:
  c: {}
studies:
  demo:
    question: Which?
    workload: sysbench
    dbms: [mine.c, DBMS]
    base: mine.c
    rounds: 5
    layouts: LAYOUTS
    parameters: {steps: [point-query], table_rows: 1000, seconds: 1}
"""


def runs_file(tmp_path: Path, dbms: str, layouts: str, source: Path = Path("/x")) -> RunsFile:
    text = RUNS.replace("DBMS", dbms).replace("LAYOUTS", layouts).replace("/x", str(source))
    (path := tmp_path / "runs.yaml").write_text(text)
    return read_runs_file(path, PARAMETERS)


@pytest.mark.parametrize(
    ("dbms", "layouts", "message"),
    [
        ("bought.c", "3", "studies.demo.layouts: bought can't be linked again: its version is a finished program"),
        ("plain.c", "3", "studies.demo.layouts: plain can't be linked again: its recipe lacks 'sections'"),
        ("again.c", "0", "studies.demo.layouts: is 0; it has to be at least 2"),
        ("again.c", "1", "studies.demo.layouts: is 1; it has to be at least 2"),
        ("again.c", "many", "studies.demo.layouts: is 'many'; a whole number is due"),
    ],
)
def test_layouts_that_cannot_be_linked_are_a_mistake(tmp_path: Path, dbms: str, layouts: str, message: str) -> None:
    with pytest.raises(RqpsError) as error:
        runs_file(tmp_path, dbms, layouts)
    assert message in error.value.message


def test_each_round_takes_the_next_layout_of_each_build(tmp_path: Path) -> None:
    asked = runs_file(tmp_path, "again.c", "3")
    runs = [member for run in unfold(asked, "demo", "here") for member in run.members]
    rounds = {
        side: [run.layout for run in runs if run.side == side] for side in ("mine.c", "mine.c.again", "again.c")
    }
    assert rounds == {
        "mine.c": [1, 2, 3, 1, 2],
        "mine.c.again": [1, 2, 3, 1, 2],
        "again.c": [101, 102, 103, 101, 102],
    }
    for dbms in ("mine.c", "again.c"):
        assert len({run.identity for run in runs if run.dbms == dbms}) == 1
    layouts = [(name, spec.layout) for name, spec in builds_of(asked, "demo")]
    assert layouts == [
        *(("again", number) for number in (101, 102, 103)),
        *(("mine", number) for number in (1, 2, 3)),
    ]


def test_a_run_has_the_program_of_its_layout(tmp_path: Path, project: Path, messages: list[str]) -> None:
    asked = runs_file(tmp_path, "again.c", "3", project)
    first, *others = unfold(asked, "demo", "here")
    with pytest.raises(
        RqpsError, match=r"again: not linked yet: layout 101, 102, 103\nbuilds\.mine: .* 1, 2, 3\n"
    ) as error:
        make_ready([first, *others], messages.append)
    assert error.value.fix == "rqps run demo --make"
    toy = making(project, "gcc o2 sections")
    for number in (None, 1, 101):
        made_as = Making.of("mine", asked.builds["mine"].with_layout(number)).tree
        made_as.parent.mkdir(parents=True, exist_ok=True)
        made(layout(toy, number), messages).rename(made_as)
        if number is None:
            shutil.copytree(made_as, toy.tree)
    of_first = asked.builds["mine"]
    build: Any = engine_of(of_first).locate("mine", of_first, messages.append)
    nothing: Any = None
    prepared = PreparedServer("mine.c", "c", build, nothing, nothing, nothing)
    ready = Ready(prepared, tmp_path, {len(first.members): {}})
    jobs = {run.side: ready.job(run, tmp_path, None, len(first.members)) for run in first.members}
    programs = {side: job.prepared.build.program for side, job in jobs.items()}
    assert programs["mine.c"] == programs["mine.c.again"] != build.program
    assert {program.parents[2].name for program in programs.values()} == {"layout-1", "layout-101"}
    assert len({job.prepared.build.digest for job in jobs.values()} | {build.digest}) == 3


BASE, ME = "my1.base", "my2.base"
SPEEDS: dict[str, float] = {}


def linked_anew(*asked: Any, **facts: Any) -> Manifest:
    """A run whose layout is its round's number; the layouts of one side are by turns 3 % faster and slower."""
    made = synthetic.manifest(*asked, **facts)
    SPEEDS[ME] = math.exp(0.03 * (-1) ** made.round)
    return made.model_copy(update={"layout": made.round, "build_digest": f"{made.build} {made.round}"})


def test_each_layout_is_one_binary_and_the_page_shows_their_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_duet, "manifest", linked_anew)
    monkeypatch.setattr(synthetic_duet, "SPEED", SPEEDS)
    shape = synthetic.Shape(dbms=(BASE, ME), rounds=8)
    study = rqps.load("synthetic", data=synthetic_duet.write_duets(tmp_path, shape, health=0, luck=0.002, twin=True))
    assert set(study.runs.filter(dbms=ME)["layout"]) == {*range(1, 9)}
    stats.comparable(study.runs)
    assert set(stats.builds(study.runs, study.conditions)["sha256"]) == {"8 layouts"}
    assert applies(NOTEBOOKS / "compiler_builds.ipynb", study.runs, study)
    luck = Notebook("compiler_builds", study)["luck"].filter(metric="operations_per_s")
    assert set(luck["step"]) == set(shape.steps)
    for row in luck.to_dicts():
        assert (row["layouts"], row["rounds"]) == (8, 8)
        assert row["noise"] < 1 < row["low"] < row["two_layouts"] < row["high"]
        assert row["two_layouts"] == pytest.approx(3.2, abs=0.5)  # eight values of 3 % and -3 %
    mixed = study.runs.with_columns(layout=pl.lit(1, pl.Int32))
    with pytest.raises(RqpsError, match="runs with different build_digest can't be in one comparison"):
        stats.comparable(mixed)


def test_the_known_layouts_are_those_of_the_sample(samples: Path) -> None:
    """Two builds of equal code differ by less than twice the spread of two layouts in 19 of 20 cases."""
    known, measured = facts_of("postgres").table("layouts"), rqps.load("pg-layouts", samples)
    luck = Notebook("compiler_builds", measured)["luck"].filter(pl.col("two_layouts") > 0)
    assert known["steps"] == measured.card.parameters["steps"]
    percent = {(row["step"], row["metric"]): round(2 * row["two_layouts"], 1) for row in luck.to_dicts()}
    assert {(step, name): size for step, of in known["percent"].items() for name, size in of.items()} == percent
    judged, rounds = stats.health(measured), ["metric", "round"]
    ratios, twins = (
        frame.group_by(rounds).agg(pl.col("ratio").log().mean()).group_by("metric").agg(pl.col("ratio").var())
        for frame in (judged.rounds, judged.itself)
    )
    both = ratios.join(twins, on="metric").with_columns(of=200 * (pl.col("ratio") - pl.col("ratio_right")).sqrt())
    assert known["percent_of_mean"] == dict(both.select("metric", pl.col("of").round(1)).iter_rows())
    assert stats.known_layouts(measured).is_empty(), "its own intervals include the layouts"


def test_a_change_that_a_layout_alone_can_make_says_so_wherever_it_stands(samples: Path) -> None:
    """One occasion decides smaller changes than three."""
    study = rqps.load("pg-compiler-builds", samples)
    study = replace(study, runs=study.runs.filter(occasion=1))
    _, compared = stats.relate(study)
    known = stats.known_layouts(study)
    assert set(known["step"]) <= {*study.steps["step"], MEAN}
    size = pl.col("estimate").log().abs() <= pl.col("by_layout").log()
    expected = compared.filter(pl.col("verdict").is_in(["slower", "faster"]), size)
    smaller = compared.filter("within_layout")
    assert 0 < smaller.height == expected.height < compared.height
    for row in smaller.to_dicts():
        assert "layout" in row["warnings"]
        written = f"another order of functions alone: up to ± {100 * (row['by_layout'] - 1):.1f} %"
        assert show.comparison(row).endswith(f", {written})")
    assert not compared.filter(~pl.col("within_layout"))["warnings"].list.contains("layout").any()
    decided = stats.deciding(compared)
    text = within_layouts(known, decided, "operations_per_s", stats.short_names(study))
    number, changes = decided["within_layout"].sum(), decided.filter(pl.col("by_layout") > 1)
    changes = changes.filter(pl.col("verdict").is_in(["slower", "faster"]))
    assert f"(study pg-layouts); {number} of {changes.height} changes in these steps are smaller" in text
    frames = frames_of(study, analysis_notebooks(NOTEBOOKS))
    assert wrong(text, frames) == []
    assert answer(study, *stats.relate(study), ()).sentences.count(text) == 1


@pytest.mark.parametrize("name", ["releases", "pg-history", "pg-lookups", "ps-scenarios"])
def test_nothing_is_said_of_layouts_where_nothing_is_known_or_timed(name: str, samples: Path) -> None:
    study = rqps.load(name, samples)
    rounds, compared = stats.relate(study)
    assert not compared["within_layout"].any()
    assert not [text for text in answer(study, rounds, compared, ()).sentences if "order of functions" in text]
