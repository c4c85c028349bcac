"""Properties of the sample's own profiles: they add up, are whole, belong somewhere, and releases meet."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.pages.flamegraph_breakdown.findings import Profile, profile_of
from rqps.profile import completeness, instruction_costs, stack_costs
from rqps.store.manifest import read_study_card
from rqps.study import Mode

DATA = Path(__file__).parent.parent / "data"
STUDY = "where-did-it-go"
CARD = read_study_card(DATA / f"sample/study={STUDY}")
OTHER_AT_MOST, WHOLE_AT_LEAST, MET_AT_LEAST = 0.05, 0.98, 0.35

MODES: tuple[Mode, ...] = ("stacks", "instructions")


@pytest.fixture(scope="module")
def costs(samples: Path) -> dict[str, pl.DataFrame]:
    sampled, counted = (rqps.load(STUDY, data=samples, mode=mode) for mode in MODES)
    return {
        "stacks": stack_costs(sampled.stacks, sampled.steps),
        "instructions": instruction_costs(counted.instructions, counted.steps),
        "completeness": completeness(sampled.stacks.collect()),
    }


@pytest.fixture(scope="module", params=MODES)
def profile(request: pytest.FixtureRequest, costs: dict[str, pl.DataFrame]) -> Profile:
    return profile_of(costs[request.param], CARD.base, request.param)


def comparisons(parts: pl.DataFrame) -> Iterator[tuple[tuple[str, str], pl.DataFrame]]:
    for (step, dbms), rows in parts.group_by("step", "dbms", maintain_order=True):
        yield (str(step), str(dbms)), rows


def test_parts_add_up_to_what_was_measured_and_their_differences_to_the_difference(profile: Profile) -> None:
    for parts in (profile.components, profile.functions):
        for cell, rows in comparisons(parts):
            base, me = rows["base_measured"][0], rows["me_measured"][0]
            assert rows["base_estimate"].sum() == pytest.approx(base, rel=1e-9), cell
            assert rows["me_estimate"].sum() == pytest.approx(me, rel=1e-9), cell
            assert rows["estimate"].sum() == pytest.approx(me - base, abs=1e-9 * base), cell


def test_next_to_nothing_belongs_nowhere(profile: Profile) -> None:
    for cell, rows in comparisons(profile.components.filter(part="other")):
        for side in ("base", "me"):
            assert rows[f"{side}_estimate"].item() < OTHER_AT_MOST * rows[f"{side}_measured"].item(), cell


def test_every_step_was_profiled_on_both_sides(profile: Profile) -> None:
    assert {cell for cell, _ in comparisons(profile.operations)} == {
        (step, dbms)
        for step in ("point-query", "range-covered-si", "update-index", "insert")
        for dbms in CARD.dbms
        if dbms != CARD.base
    }


def test_paths_of_two_releases_meet(profile: Profile) -> None:
    """Of the base's cost, the share below frames that the other release has as well, down to where they part."""
    for (step, dbms), tree in comparisons(profile.trees):
        parted = {None: False}
        gone = 0.0
        for node, parent, base, me in tree.select("node", "parent", "base_total", "me_total").iter_rows():
            parted[node] = parted[parent] or me == 0
            gone += base if parted[node] and not parted[parent] else 0.0
        assert 1 - gone / tree["base_total"][0] > MET_AT_LEAST, (step, dbms)


def test_stacks_reach_the_roots_of_their_threads(costs: dict[str, pl.DataFrame]) -> None:
    for row in costs["completeness"].to_dicts():
        assert row["root"] + row["repaired"] >= WHOLE_AT_LEAST, row
        assert row["unnamed"] < (0.2 if row["dbms"].startswith("my97") else 0.01), row
