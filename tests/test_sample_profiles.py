"""Properties of the sample's own profiles: they add up, are whole, belong somewhere, and releases meet."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import rqps
from executed import Notebook
from rqps.pages.flamegraph_breakdown import findings
from rqps.profile import Profile, completeness, flame_trees, profile_of, profiled_costs
from rqps.profile.components import Patterns, components
from rqps.report.claimed import frames_of
from rqps.show import claims_of, joined
from rqps.show.claims import wrong
from rqps.show.cost_parts import on_parts
from rqps.show.flame import Drawing, explorer
from rqps.stats import relate
from rqps.stats.metrics import CPU, INSTRUCTIONS
from rqps.store import Study
from rqps.store.manifest import read_study_card
from rqps.store.packing import unpack
from rqps.study import Mode

DATA = Path(__file__).parent.parent / "data"
PAGE = DATA.parent / "notebooks/analysis/flamegraph_breakdown.ipynb"
STUDY = "where-did-it-go"
CARD = read_study_card(DATA / f"sample/study={STUDY}")
OTHER_AT_MOST, WHOLE_AT_LEAST, MET_AT_LEAST = 0.05, 0.98, 0.35

MODES: tuple[Mode, ...] = ("stacks", "instructions")


@pytest.fixture(scope="module")
def study(samples: Path) -> Study:
    return rqps.load(STUDY, data=samples)


@pytest.fixture(scope="module", params=MODES)
def profile(request: pytest.FixtureRequest, study: Study) -> Profile:
    return profile_of(study, request.param)


def comparisons(parts: pl.DataFrame) -> Iterator[tuple[tuple[str, str], pl.DataFrame]]:
    for (step, dbms), rows in parts.group_by("step", "dbms", maintain_order=True):
        yield (str(step), str(dbms)), rows


def test_parts_add_up_to_what_was_measured_and_their_differences_to_the_difference(profile: Profile) -> None:
    for _, parts in profile.parts.group_by("by"):
        for cell, rows in comparisons(parts):
            base, me = rows["base_measured"][0], rows["me_measured"][0]
            assert rows["base_estimate"].sum() == pytest.approx(base, rel=1e-9), cell
            assert rows["me_estimate"].sum() == pytest.approx(me, rel=1e-9), cell
            assert rows["estimate"].sum() == pytest.approx(me - base, abs=1e-9 * base), cell


def test_a_cell_has_one_cost_and_one_verdict_on_all_pages(profile: Profile, study: Study) -> None:
    keys = ["host", "step", "base", "dbms"]
    sampled = profile.operations["unit"][0].startswith("µs")
    of_metric = relate(study)[1].filter(metric=CPU if sampled else INSTRUCTIONS)
    of_steps = dict(of_metric.select("step", "group").iter_rows())
    for frame in (profile.operations, profile.parts):
        assert dict(frame.select("step", "group").iter_rows()) == of_steps
    both = profile.operations.join(of_metric, on=keys, suffix="_elsewhere")
    assert both.height == profile.operations.height
    assert both["verdict"].equals(both["verdict_elsewhere"])
    ratios = both["me_estimate"] / both["base_estimate"]
    assert ratios.to_list() == pytest.approx(both["estimate_elsewhere"].to_list())
    assert both["base_estimate"].to_list() == pytest.approx(both["base_estimate_elsewhere"].to_list())


def test_both_explorers_of_a_page_are_at_most_20_000_nodes(study: Study) -> None:
    nodes = 0
    for mode in MODES:
        profile = profile_of(study, mode)
        components, functions = (profile.parts.filter(by=kind) for kind in ("component", "function"))
        operations = profile.operations.with_columns(finding=pl.lit("It costs more."))
        drawing = explorer(operations, components, functions, flame_trees(profile.costs, CARD.base))
        assert isinstance(drawing, Drawing)
        nodes += len(re.findall(r"<[a-z]", drawing.html))
    assert nodes < 17_000, "the rest of the page has some"


def test_every_number_of_a_sentence_is_that_of_its_frame(study: Study) -> None:
    frame = frames_of(study, [PAGE])
    for mode in MODES:
        profile = profile_of(study, mode)
        texts = findings(study, mode, profile.operations).sentences
        every = [joined(" ", on_parts(profile, row, {})) for row in profile.operations.to_dicts()]
        assert [problem for text in (*texts, *every) for problem in wrong(text, frame)] == []
        assert len(claims_of(*texts)) > 20
        least = profile.operations.filter(pl.col("verdict") == "slower").height
        assert len([claim for claim in claims_of(*every) if claim.reading == "sum"]) > least / 2


def test_next_to_nothing_belongs_nowhere(profile: Profile) -> None:
    for cell, rows in comparisons(profile.parts.filter(by="component", part="other")):
        for side in ("base", "me"):
            assert rows[f"{side}_estimate"].item() < OTHER_AT_MOST * rows[f"{side}_measured"].item(), cell


def test_a_function_of_postgres_has_one_component_and_a_statement_all_parts_of_the_server(samples: Path) -> None:
    costs = profiled_costs(rqps.load("pg-releases", samples), "instructions")
    patterns = [(pattern, one.name) for one in components("postgres") for pattern in (*one.server, *one.library)]
    first, last = Patterns(patterns), Patterns(reversed(patterns))
    functions = costs["stack"].explode().unique()
    assert [name for name in functions if first.find(name) != last.find(name)] == []
    parts = {one.name for one in components("postgres") if one.server and not one.last_resort}
    of_steps = dict(costs.group_by("step").agg(pl.col("component").unique()).iter_rows())
    assert set(of_steps["update-index"]) == {*parts, "allocator"}
    assert "PostgreSQL WAL" not in of_steps["point-query"]


def test_every_step_was_profiled_on_both_sides(profile: Profile) -> None:
    assert {cell for cell, _ in comparisons(profile.operations)} == {
        (step, dbms)
        for step in ("point-query", "range-covered-si", "update-index", "insert")
        for dbms in CARD.dbms
        if dbms != CARD.base
    }


def test_paths_of_two_releases_meet(profile: Profile) -> None:
    """Of the base's cost, the share below frames that the other release has as well, down to where they part."""
    for (step, dbms), tree in comparisons(flame_trees(profile.costs, CARD.base)):
        parted = {None: False}
        gone = 0.0
        for node, parent, base, me in tree.select("node", "parent", "base_total", "me_total").iter_rows():
            parted[node] = parted[parent] or me == 0
            gone += base if parted[node] and not parted[parent] else 0.0
        assert 1 - gone / tree["base_total"][0] > MET_AT_LEAST, (step, dbms)


def test_stacks_reach_the_roots_of_their_threads(study: Study) -> None:
    sampled = rqps.load(study.place, mode="stacks")
    for row in completeness(sampled.stacks.collect()).to_dicts():
        assert row["root"] + row["repaired"] >= WHOLE_AT_LEAST, row
        assert row["unnamed"] < (0.2 if row["dbms"].startswith("my97") else 0.01), row


def test_a_study_whose_base_was_profiled_and_not_timed_has_a_page(tmp_path: Path) -> None:
    study, *_ = unpack(str(DATA / f"sample/study={STUDY}"), tmp_path / "raw")
    for side in study.glob(f"run=r*/{CARD.base}"):
        shutil.rmtree(side)
    page = Notebook("flamegraph_breakdown", rqps.load(STUDY, tmp_path))
    assert page["by_time"].operations["n"].max() == page["sampled"].runs["round"].n_unique()
    assert "my8033.common" in page.shown("instructions")
