"""Bisection: the search on levels of known changes, its list of builds, and its bad input."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from rqps.cli import main
from rqps.errors import RqpsError
from rqps.schedule.bisection import MOST_ROUNDS, ROUNDS, Bisection, bisection
from rqps.schedule.change_search import COVERAGES, Change, Level, Search, likely_range
from rqps.schedule.run_study import LocalRunner
from rqps.schedule.state import this_host
from rqps.store import write_study_card
from rqps.study import read_runs_file
from rqps.workloads import PARAMETERS
from synthetic import Shape, card
from synthetic_duet import write_side

ROOT = Path(__file__).parent.parent
RELEASES = 84


class Probes:
    """Candidates whose true levels change at known places. Probes find these levels, and are as uncertain as their
    number of rounds leaves them: `half` is half the width of the interval after one round."""

    def __init__(
        self, changes: Mapping[int, float], half: float, dead: Sequence[int] = (), candidates: int = RELEASES
    ) -> None:
        self.levels = np.cumsum([math.log1p(changes.get(at, 0.0)) for at in range(candidates)])
        self.half, self.dead, self.last = half, dead, candidates - 1
        self.rounds: dict[int, int] = {}

    def measure(self, at: int, more: bool) -> Level | None:
        if at in self.dead:
            return None
        if at == 0:
            return Level(0.0, 0.0)
        rounds = self.rounds.get(at, 0)
        if rounds >= MOST_ROUNDS and more:
            return None
        if more or not rounds:
            for side in {at, self.last}:  # the bad end takes part in each round
                self.rounds[side] = self.rounds.get(side, 0) + ROUNDS
        return Level(float(self.levels[at]), self.half / math.sqrt(self.rounds[at]))

    def search(self, last: int | None = None) -> list[Change]:
        self.last = last = last or self.last
        search = Search(self.measure, str, print)
        search.settle(last)
        return list(search.changes(0, last, 0.0))


@pytest.mark.parametrize("size", [0.01, -0.02, 0.05])
@pytest.mark.parametrize("candidates", [RELEASES, 2000])
def test_a_change_is_found_at_each_place_with_few_probes(candidates: int, size: float) -> None:
    for at in range(1, candidates, 1 + candidates // RELEASES):
        probes = Probes({at: size}, half=0.012, candidates=candidates)
        (change,) = probes.search()
        assert (change.before, change.after) == (at - 1, at)
        assert len(probes.rounds) <= 1 + math.ceil(math.log2(candidates))


def test_ends_that_do_not_differ_take_no_probe() -> None:
    probes = Probes({}, half=0.012)
    assert probes.search() == []
    assert probes.rounds == {RELEASES - 1: MOST_ROUNDS}


def test_the_largest_change_comes_first_and_then_the_others() -> None:
    changes = Probes({20: -0.02, 60: -0.06}, half=0.002).search()
    assert [(change.before, change.after) for change in changes] == [(59, 60), (19, 20)]
    assert changes[0].size.value == pytest.approx(math.log(0.94))


def test_two_changes_of_opposite_sign_end_at_one_of_the_larger_direction() -> None:
    (change,) = Probes({10: 0.08, 70: -0.03}, half=0.002).search()[:1]
    assert (change.before, change.after) == (9, 10)


def test_what_cannot_be_measured_is_left_out_and_widens_the_pair() -> None:
    probes = Probes({42: -0.05}, half=0.002, dead=(41, 42, 43))
    (change,) = probes.search()
    assert (change.before, change.after) == (40, 44)


def test_a_candidate_that_stays_between_the_ends_is_left_out() -> None:
    probes = Probes({41: -0.02, 42: -0.02}, half=0.02)  # 41 is half way between both
    (change,) = probes.search(last=60)
    assert (change.before, change.after) == (40, 42)
    assert probes.rounds[41] == MOST_ROUNDS


def asked(
    good: str, bad: str, names: Sequence[str] = (), study: str = "rocksdb-reads", step: str = "byrx.readrandom"
) -> Bisection:
    runs_file = read_runs_file(ROOT / "runs.yaml", PARAMETERS)
    how = {"counts": True, "data": Path("data"), "say": print}
    runner = LocalRunner(ROOT / "notebooks", ROOT / "runs.yaml")
    return bisection(runs_file, study, step, (good, bad), names, runner=runner, **how)  # type: ignore[arg-type]


def test_all_of_the_catalogue_between_two_versions_in_order() -> None:
    of = asked("8.0.0", "8.6.7")
    versions = [of.title(at) for at in range(len(of.dbms))]
    assert versions == ["8.0.0", "8.1.1", "8.3.2", "8.3.3", "8.4.4", "8.5.3", "8.5.4", "8.6.7"]
    assert of.spec.base == of.dbms[0]
    assert of.spec.parameters.model_dump()["steps"] == ("readrandom",)
    assert of.probes == 5
    assert "6 builds between 8.0.0 and 8.6.7; at most 5 probes by counts of instructions" in of.plan()


def test_a_newer_good_end_turns_the_list_around() -> None:
    of = asked("8.4.4", "8.1.1")
    assert [of.title(at) for at in range(len(of.dbms))] == ["8.4.4", "8.3.3", "8.3.2", "8.1.1"]


def test_named_builds_and_versions_are_one_list() -> None:
    of = asked("rx602", "rx973", ["7.0.4", "rx867"])
    assert [of.title(at) for at in range(len(of.dbms))] == ["6.0.2", "7.0.4", "8.6.7", "9.7.3"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: asked("8.0.0", "8.0.0"), "are the same build"),
        (lambda: asked("8.0.0", "rx800"), "are the same build"),
        (lambda: asked("rx602", "rx973", ["rx867", "rx704"]), "not in the order of their versions"),
        (lambda: asked("8.0.0", "8.99.1"), "neither a build nor a version of RocksDB"),
        (lambda: asked("8.0.0", "8.6.7", step="byrx.readrandum"), "no step 'byrx.readrandum'"),
        (lambda: asked("8.0.0", "8.6.7", study="rocksdb-raeds"), "unknown study"),
    ],
)
def test_bad_input_says_what_to_write(call: Callable[[], Bisection], words: str) -> None:
    with pytest.raises(RqpsError, match=words) as refused:
        call()
    assert refused.value.fix


def test_two_builds_of_one_version_are_refused(tmp_path: Path) -> None:
    builds = {"a": "", "b": "path: /opt/b, ", "c": "path: /opt/c, ", "d": ""}
    versions = dict(zip(builds, ("8.0.0", "8.1.1", "8.1.1", "8.6.7"), strict=True))
    lines = ["builds:", *(f'  {name}: {{{source}rocksdb: "{versions[name]}"}}' for name, source in builds.items())]
    study = "question: Which?, workload: db-bench, rounds: 4, base: a.none, dbms: [a.none, d.none]"
    lines += ["configs:", "  none: {}", "studies:", f"  s: {{{study}, parameters: {{steps: [fillseq]}}}}", ""]
    (tmp_path / "runs.yaml").write_text("\n".join(lines))
    runs_file = read_runs_file(tmp_path / "runs.yaml", PARAMETERS)
    runner = LocalRunner(ROOT / "notebooks", tmp_path / "runs.yaml")
    with pytest.raises(RqpsError, match=r"b and c are both version 8\.1\.1"):
        bisection(
            runs_file,
            "s",
            "byrx.fillseq",
            ("a", "d"),
            ["b", "c"],
            counts=True,
            data=tmp_path,
            runner=runner,
            say=print,
        )


def test_the_command_refuses_a_step_before_it_measures(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bisect", "rocksdb-reads", "byrx.nothing", "--good", "8.0.0", "--bad", "8.6.7"]
    assert main([*words, "--runs-yaml", str(ROOT / "runs.yaml")]) == 2
    assert "no step 'byrx.nothing'" in capsys.readouterr().err


class Measured:
    """A bisection of four builds, whose rounds are made up."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        builds = "".join(f"  v{number}: {{path: /opt/v{number}}}\n" for number in range(1, 5))
        study = "question: Which?, workload: sysbench, rounds: 4, base: v1.base, dbms: [v1.base, v4.base]"
        study += ", parameters: {steps: [scan]}"
        runs_yaml = place / "runs.yaml"
        runs_yaml.write_text(f"builds:\n{builds}configs:\n  base: {{}}\nstudies:\n  s: {{{study}}}\n")
        runs_file, runner = read_runs_file(runs_yaml, PARAMETERS), LocalRunner(ROOT / "notebooks", runs_yaml)
        how = {"counts": False, "data": place, "runner": runner, "say": [].append}
        self.of = bisection(runs_file, "s", "scan", ("v1", "v4"), ["v2", "v3"], **how)  # type: ignore[arg-type]
        self.folder = place / f"raw/study={self.of.study}"
        self.shape = Shape(dbms=tuple(self.of.dbms), steps=("scan",), rounds=4)
        write_study_card(self.folder, card(self.shape, study=self.of.study, occasions=3))
        self.numbers = count(1)

    def add(self, rounds: int, occasion: int, *candidates: int, slow: float, second: float = 1.0) -> None:
        """Rounds with both ends and these candidates, of which the third and fourth build are slow."""
        for number, _ in zip(self.numbers, range(rounds), strict=False):
            for at in (0, *candidates, 3):
                speeds = {"scan": (1.0, second, slow, slow)[at]}
                write_side(self.folder, self.of.dbms[at], number, occasion, self.shape, speeds, this_host())


def test_an_answer_covers_the_hours_in_which_its_pair_was_measured(tmp_path: Path) -> None:
    """The third build is slower, by 10 % on the first occasion and 5 % on the others. The bad end, which takes part
    in each round, has more of them than a candidate may have."""
    measured, change = Measured(tmp_path), Change(1, 2, Level(0.0, 0.0))
    of = measured.of
    measured.add(12, 1, 1, slow=0.9)
    measured.add(16, 1, 2, slow=0.9)
    assert of.measure(3, False), "28 rounds are more than a candidate gets, and are there"
    assert "hold for this hour; for other hours, add --occasion in 2 other hours" in of.answer([change])
    measured.add(4, 2, 1, 2, slow=0.95)
    assert "hold for these 2 hours; for other hours, add --occasion in 1 other hour" in of.answer([change])
    before = of.measure(2, False)
    measured.add(4, 3, 1, 2, slow=0.95)
    answer = of.answer([change])
    assert "these intervals hold for other hours of this machine\n" in answer
    assert re.search(r"v3 brought −6\.\d\d % \(−2\d\.\d\d to \+\d", answer), "the hours differ more than the rounds"
    assert answer.count("; over all occasions together, no change is certain\n") == 2, "of the ends and of the pair"
    assert of.measure(2, False) == before, "the search stays that of the first occasion"
    assert of.measure(2, True) is None, "and gets no more rounds after it"


def test_a_change_that_three_occasions_show_may_be_none_on_the_next(tmp_path: Path) -> None:
    measured, change = Measured(tmp_path), Change(1, 2, Level(0.0, 0.0))
    for occasion, slow in enumerate((0.9, 0.93, 0.94), start=1):
        measured.add(4, occasion, 1, 2, slow=slow)
    line = next(line for line in measured.of.answer([change]).splitlines() if "v3 brought" in line)
    assert line.endswith("; the change and its builds are certain, but another occasion may show none")


def test_only_three_occasions_call_builds_certain(tmp_path: Path) -> None:
    """In the hour of the search the second build is nearly half the way from end to end, later at the first one."""
    (steady, slow), change = [Measured(tmp_path / name) for name in ("steady", "slow")], Change(1, 2, Level(0.0, 0.0))
    for occasion, of_bad in enumerate((0.95, 0.95, 0.95), start=1):
        for measured, second in ((steady, 1.0), (slow, 0.98 if occasion == 1 else 1.0)):
            measured.add(4, occasion, 1, 2, slow=of_bad, second=second)
        answers = [measured.of.answer([change]) for measured in (steady, slow)]
        assert ["one of v2 to v4 brought it, with a probability of 95 %" in answer for answer in answers] == [
            False,
            occasion == 1,
        ]
        assert ["these intervals and builds hold for" in answer for answer in answers] == 2 * [occasion < 3]
        assert ["the change and its builds are certain" in answer for answer in answers] == 2 * [occasion == 3]


@pytest.mark.parametrize(("size", "luck"), [(0.02, 0.008), (0.05, 0.008), (0.05, 0.0025)])
def test_a_range_holds_its_change_as_often_as_promised(size: float, luck: float) -> None:
    """Each server is faster or slower by chance on each occasion, so the search may go the wrong way."""
    random, ranges, certain = np.random.default_rng(36), [], []
    for _ in range(300):
        culprit = int(random.integers(1, RELEASES))
        occasions: list[dict[int, float]] = []
        for _ in range(3):
            speeds = random.normal(0, luck, RELEASES) + size * (np.arange(RELEASES) >= culprit)
            if not occasions:
                before, after = 0, RELEASES - 1
                probed = {before, after}
                while after - before > 1:
                    probed.add(middle := (before + after) // 2)
                    away, way = speeds[middle] - (speeds[before] + speeds[after]) / 2, speeds[after] - speeds[before]
                    before, after = (before, middle) if (away > 0) == (way > 0) else (middle, after)
                pair = (before, after)
            measured = {*pair, 0, RELEASES - 1} if occasions else probed
            occasions.append({at: float(speeds[at] - speeds[0]) for at in measured})
        likely, surely = (likely_range(occasions, [], pair, coverage) for coverage in COVERAGES)
        assert surely[0] <= likely[0] <= pair[0] < pair[1] <= likely[1] <= surely[1]
        ranges.append(likely[0] < culprit <= likely[1])
        if surely == pair:
            certain.append(ranges[-1])
    assert np.mean(ranges) >= COVERAGES[0] - 0.01
    assert certain.count(False) <= 1 + 0.02 * len(certain)
    assert len(certain) >= 10 if size < 0.05 else 200


def test_a_range_ends_at_larger_changes_on_both_sides_of_it() -> None:
    levels = {0: 0.0, 10: 0.001, 11: -0.05, 20: -0.05, 21: -0.07, 30: -0.069, 31: -0.1, 40: -0.1}
    larger = [(10, 11), (30, 31)]
    assert likely_range([levels] * 3, larger, (20, 21), COVERAGES[1]) == (20, 21)
    assert likely_range([levels | {21: -0.06}], larger, (20, 21), COVERAGES[0]) == (11, 30)


def test_an_occasion_of_more_rounds_is_no_more_precise_than_the_next_one(tmp_path: Path) -> None:
    """The first occasion has more rounds than the others have, and than the one has that the interval should hold."""
    measured, change = Measured(tmp_path), Change(1, 2, Level(0.0, 0.0))
    for occasion, slow in enumerate((0.9, 0.93, 0.94), start=1):
        measured.add(4, occasion, 1, 2, slow=slow)
    equal = measured.of.answer([change])
    measured.add(12, 1, 1, 2, slow=0.93)
    assert measured.of.answer([change]) == equal


def test_a_search_that_goes_on_in_another_hour_names_the_same_change(tmp_path: Path) -> None:
    """The slow builds lose 10 % in the hour in which the ends and the second build are measured, and 2 % when the
    search goes on with the third. That is nearer to the good end than the bad end was on average."""
    measured = Measured(tmp_path)
    measured.add(4, 1, slow=0.9)
    measured.add(20, 1, 1, slow=0.9)
    measured.add(8, 1, 2, slow=0.98)
    (change,) = Search(measured.of.measure, measured.of.title, print).changes(0, 3, 0.0)
    assert (change.before, change.after) == (1, 2)
