"""A study unfolds into runs: every dbms once a round, in an order that is random, recorded and stable."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.schedule.state import StudyFolder
from rqps.study import Option, Run, RunsFile, first_rounds, unfold
from rqps.study.runs_file import LONGEST_NAME
from rqps.study.unfold import Duet, Measured, order
from rqps.workloads import PARAMETERS

seeds = st.integers(min_value=0, max_value=2**32)
a_dbms = st.from_regex(r"[a-z0-9_-]{1,8}\.[a-z0-9_-]{1,8}", fullmatch=True)
some_dbms = st.lists(a_dbms, min_size=1, max_size=8, unique=True)
six = tuple(f"build{n}.base" for n in range(6))


def study(**changes: Any) -> RunsFile:
    """A runs.yaml of one study, as its reader would hand it over."""
    spec = {
        "question": "What did it cost?",
        "workload": "sysbench",
        "dbms": ("old.base", "new.base", "new.ps0"),
        "base": "old.base",
        "rounds": 4,
        "method": "rounds",
        "parameters": {"steps": ["insert"], "seconds": 4},
    }
    return RunsFile.model_validate(
        {
            "builds": {"old": {"mysql": "5.6.24"}, "new": {"mysql": changes.pop("new", "8.0.33")}},
            "configs": {
                "base": {"big_tables": True, "sort-buffer-size": "1M", "query_cache_type?": False},
                "ps0": changes.pop("ps0", {"extends": "base", "sort_buffer_size": "2M"}),
                "again": {"extends": "base"},
            },
            "studies": {"demo": {**spec, **changes}},
        },
        context=PARAMETERS,
    )


def runs_of(dbms: str, runs: tuple[Run, ...]) -> list[Run]:
    return [run for run in runs if run.dbms == dbms]


@given(seed=seeds, dbms=some_dbms, number=st.integers(1, 99))
def test_each_round_holds_each_dbms_exactly_once(seed: int, dbms: list[str], number: int) -> None:
    assert sorted(order(tuple(dbms), seed, number)) == sorted(dbms)


@given(seed=seeds, number=st.integers(1, 99), left_out=st.sampled_from(six))
def test_a_further_dbms_leaves_the_order_of_the_others(seed: int, number: int, left_out: str) -> None:
    fewer = tuple(dbms for dbms in six if dbms != left_out)
    assert order(fewer, seed, number) == tuple(d for d in order(six, seed, number) if d != left_out)


@given(seed=seeds, dbms=st.permutations(six))
def test_the_order_does_not_depend_on_how_the_file_lists_the_dbms(seed: int, dbms: list[str]) -> None:
    assert order(tuple(dbms), seed, 1) == order(six, seed, 1)


def test_over_many_rounds_every_order_is_as_frequent_as_the_others() -> None:
    """3 dbms have 6 orders; in 6000 rounds each has 1000 ± 29, and 5 of those are never passed by chance."""
    orders = [order(("a.x", "b.x", "c.x"), seed=1, number=number) for number in range(6000)]
    assert all(abs(orders.count(one) - 1000) < 5 * 29 for one in set(orders))
    assert len(set(orders)) == 6


def test_a_further_round_keeps_the_earlier_ones() -> None:
    four, five = unfold(study(rounds=4), "demo", "h"), unfold(study(rounds=5), "demo", "h")
    assert five[: len(four)] == four
    assert len(five) == len(four) + 3


def test_a_dbms_that_valgrind_cannot_run_has_its_other_runs() -> None:
    profiled = study(rounds=2, stacks_rounds=1, instructions_rounds=1, not_counted=("new.ps0",))
    runs = unfold(profiled, "demo", "h")
    assert [run.mode for run in runs_of("old.base", runs)] == ["throughput", "throughput", "stacks", "instructions"]
    assert [run.mode for run in runs_of("new.ps0", runs)] == ["throughput", "throughput", "stacks"]


def test_runs_that_are_looked_into_come_after_the_others_and_are_not_taken_for_them() -> None:
    runs = unfold(study(rounds=2, stacks_rounds=1, instructions_rounds=1), "demo", "h")
    assert [run.mode for run in runs] == ["throughput"] * 6 + ["stacks"] * 3 + ["instructions"] * 3
    assert len({run.run for run in runs}) == 12
    assert {run.run for run in runs_of("old.base", runs)} == {
        f"{kind}@old.base@h" for kind in ("r01", "r02", "s01", "i01")
    }


def test_the_order_follows_the_seed_that_is_recorded() -> None:
    by_seed = {tuple(run.run for run in unfold(study(seed=seed), "demo", "h")) for seed in range(5)}
    assert len(by_seed) == 5
    assert all(run.seed == 3 for run in unfold(study(seed=3), "demo", "h"))


def test_the_default_seed_never_changes() -> None:
    """Were it another one, resuming a study would measure it in another order."""
    assert unfold(study(), "demo", "h")[0].seed == 714559852


def test_positions_and_ids_count_through_the_study() -> None:
    runs = unfold(study(), "demo", "box.example")
    assert [run.position for run in runs] == list(range(12))
    assert [run.round for run in runs] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert {run.run for run in runs[:3]} == {
        "r01@old.base@box.example",
        "r01@new.base@box.example",
        "r01@new.ps0@box.example",
    }


def test_the_folder_of_a_run_with_the_longest_names_can_be_made(tmp_path: Path) -> None:
    name = "x" * LONGEST_NAME
    spec = {
        "question": "?",
        "workload": "sysbench",
        "base": f"{name}.{name}",
        "dbms": (f"{name}.{name}",),
        "rounds": 4,
    }
    spec |= {"method": "rounds", "parameters": {"steps": ["insert"]}}
    asked = {"builds": {name: {"mysql": "8.0.33"}}, "configs": {name: {}}, "studies": {name: spec}}
    *_, run = unfold(RunsFile.model_validate(asked, context=PARAMETERS), name, name)
    rebuilt = run.run.replace(f"{name}.", f"{name}@99.")
    folder = StudyFolder(tmp_path / f"study={name}")
    for path in (folder.partial(rebuilt), folder.finished(rebuilt), folder.next_failure(rebuilt)):
        path.mkdir(parents=True)


def test_a_config_takes_over_what_it_extends() -> None:
    (run, *_) = runs_of("new.ps0", unfold(study(), "demo", "h"))
    assert run.options == {
        "big_tables": Option(True),
        "sort_buffer_size": Option("2M"),
        "query_cache_type": Option(False, optional=True),
    }


def test_identity_is_the_same_in_every_round_and_another_for_every_dbms() -> None:
    runs = unfold(study(), "demo", "h")
    by_dbms = {dbms: {run.identity for run in runs_of(dbms, runs)} for dbms in ("old.base", "new.base", "new.ps0")}
    assert all(len(identities) == 1 for identities in by_dbms.values())
    assert len(set.union(*by_dbms.values())) == 3


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({"new": "8.0.34"}, False),
        ({"ps0": {"extends": "base", "sort_buffer_size": "3M"}}, False),
        ({"ps0": {"extends": "base", "sort_buffer_size?": "2M"}}, False),
        ({"parameters": {"steps": ["insert"], "seconds": 5}}, False),
        ({"parameters": {"steps": ["insert"], "seconds": 4, "threads": 2}}, False),
        ({"placement": "free"}, False),
        ({"question": "Another one?"}, True),
        ({"rounds": 9}, True),
        ({"seed": 5}, True),
        ({"ps0": {"sort_buffer_size": "2M", "query_cache_type?": False, "big_tables": True}}, True),
        ({"parameters": {"seconds": 4, "steps": ["insert"], "threads": 1}}, True),
    ],
)
def test_identity_changes_with_what_is_asked_for_and_not_with_its_form(change: dict[str, Any], stays: bool) -> None:
    before, after = (runs_of("new.ps0", unfold(asked, "demo", "h"))[0] for asked in (study(), study(**change)))
    assert (before.identity == after.identity) == stays


def test_the_first_rounds_are_those_of_the_whole_study() -> None:
    complete = unfold(study(), "demo", "h")
    assert unfold(first_rounds(study(), "demo", 2), "demo", "h") == complete[:6]


def test_all_dbms_of_a_duet_s_round_are_one_unit_in_random_order() -> None:
    runs = [run for run in unfold(study(method="duet", rounds=9), "demo", "h") if run.mode == "throughput"]
    assert [run.unit for run in runs] == [f"r{number:02}@h" for number in range(1, 10)]
    assert {member.run for member in runs[0].members} == {
        f"r01@h/{side}" for side in ("old.base", "new.base", "new.ps0", "old.base.again")
    }
    assert len({tuple(member.dbms for member in run.members) for run in runs}) > 1


def test_the_base_has_a_twin_in_each_round_of_a_study_that_can_give_verdicts() -> None:
    def sides(**changes: Any) -> set[tuple[str, ...]]:
        runs = unfold(study(method="duet", **changes), "demo", "h")
        assert {run.mode for run in runs} == {"throughput"}
        return {tuple(sorted(str(member.side) for member in run.members)) for run in runs}

    three = ("new.base", "new.ps0", "old.base")
    assert sides(rounds=4) == sides(rounds=20) == {(*three, "old.base.again")}
    assert sides(rounds=3) == sides(rounds=20, budget="4m") == sides(rounds=20, twin=False) == {three}
    assert sides(dbms=("old.base", "new.base")) == {("new.base", "old.base", "old.base.again")}


def test_a_twin_is_the_base_under_another_name() -> None:
    members = [run.members for run in unfold(study(method="duet", rounds=40), "demo", "h")]
    for sides in members:
        twin, base = (next(run for run in sides if run.side == side) for side in ("old.base.again", "old.base"))
        assert (twin.twin, base.twin, twin.dbms, twin.identity) == (True, False, "old.base", base.identity)
        assert twin.run.endswith("@h/old.base.again")
    assert len({sides.index(next(run for run in sides if run.twin)) for sides in members}) == 4, "it starts anywhere"
    assert members[0][0].who == "3 dbms and a twin in turns"


def test_rounds_with_and_without_a_twin_stay_as_they_are() -> None:
    both = ("old.base", "new.base")
    asked = study(method="duet", rounds=4, dbms=both)
    measured = {("throughput", 1): Duet(1, both), ("throughput", 2): Duet(1, (*both, "old.base.again"))}
    runs = unfold(asked, "demo", "h", Measured(measured))  # type: ignore[arg-type]
    assert [len(run.members) for run in runs] == [2, 3, 3, 3]
    alone = {("throughput", 1): Duet(1, ("old.base", "old.base.again"))}
    runs = unfold(asked, "demo", "h", Measured(alone))  # type: ignore[arg-type]
    assert [run.unit for run in runs] == ["r02@h", "r03@h", "r04@h", "r05@h"], "a base beside its twin is no round"


def test_a_config_may_be_called_as_the_twin_is() -> None:
    runs = unfold(study(method="duet", dbms=("old.again", "new.again"), base="old.again"), "demo", "h")
    sides = {member.run: member.dbms for run in runs for member in run.members}
    assert sides["r01@h/new.again"] == "new.again"
    assert sides["r01@h/old.again"] == sides["r01@h/old.again.again"] == "old.again"


def test_an_occasion_has_the_planned_rounds_whatever_those_before_it_have() -> None:
    both = ("old.base", "new.base")
    asked = study(method="duet", rounds=2, dbms=both)
    measured = {("throughput", number): Duet(1, both) for number in (1, 2, 3)}
    runs = unfold(asked, "demo", "h", Measured(measured, occasion=2))  # type: ignore[arg-type]
    assert [(run.unit, run.occasion) for run in runs if run.mode == "throughput"] == [
        *(("r01@h", 1), ("r02@h", 1), ("r03@h", 1)),
        *(("r04@h", 2), ("r05@h", 2)),
    ]


def test_rounds_one_after_the_other_are_numbered_through_the_occasions() -> None:
    runs = runs_of("new.ps0", unfold(study(rounds=2), "demo", "h", Measured(occasion=3)))
    assert [(run.round, run.occasion) for run in runs] == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)]
