"""Bisection: the search on levels of known changes, its list of builds, and its bad input."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from rqps.cli import main
from rqps.errors import RqpsError
from rqps.schedule.bisection import MOST_ROUNDS, ROUNDS, Bisection, bisection
from rqps.schedule.change_search import Change, Level, Search
from rqps.schedule.run_study import LocalRunner
from rqps.schedule.state import this_host
from rqps.stats.verdict import COVERAGE
from rqps.store import write_study_card
from rqps.study import read_runs_file
from rqps.workloads import PARAMETERS
from synthetic import Shape, card
from synthetic_duet import write_side

ROOT = Path(__file__).parent.parent
RELEASES = 84


class Probes:
    """Candidates whose true levels change at known places, as probes of so many rounds measure them."""

    def __init__(
        self,
        changes: Mapping[int, float],
        noise: float,
        seed: int = 0,
        dead: Sequence[int] = (),
        candidates: int = RELEASES,
    ) -> None:
        self.levels = np.cumsum([math.log1p(changes.get(at, 0.0)) for at in range(candidates)])
        self.noise, self.dead = noise, dead
        probes = 2 + math.ceil(math.log2(candidates - 1))
        self.reach = NormalDist().inv_cdf(1 - (1 - COVERAGE) / probes / 2)  # each interval holds for all probes
        self.random = np.random.default_rng(seed)
        self.rounds: dict[int, list[float]] = {}
        self.log: list[str] = []
        self.last = candidates - 1

    def measure(self, at: int, more: bool) -> Level | None:
        if at in self.dead:
            return None
        if at == 0:
            return Level(0.0, 0.0)
        values = self.rounds.setdefault(at, [])
        if len(values) >= MOST_ROUNDS and more:
            return None
        if more or not values:
            for side in {at, self.last}:  # the bad end takes part in each round
                lucks = self.random.normal(0, self.noise, ROUNDS)
                self.rounds.setdefault(side, []).extend((self.levels[side] + lucks).tolist())
        return Level(float(np.mean(values)), self.reach * self.noise / math.sqrt(len(values)))

    def search(self, last: int | None = None) -> list[Change]:
        self.last = last = last or self.last
        search = Search(self.measure, str, self.log.append)
        search.settle(last)
        return list(search.changes(0, last, 0.0))


@pytest.mark.parametrize("size", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("candidates", [RELEASES, 2000])
def test_a_change_is_found_at_its_place_as_often_as_promised(candidates: int, size: float) -> None:
    placed, wide = 0, 0
    for seed in range(200):
        at = 1 + seed * 37 % (candidates - 1)
        probes = Probes({at: size}, noise=0.005, seed=seed, candidates=candidates)
        found = probes.search()
        assert found, (seed, at)
        placed += found[0].before < at <= found[0].after
        wide += found[0].after - found[0].before > 1
        assert len(probes.rounds) <= 2 + math.ceil(math.log2(candidates)) + 2 * len(found)
    assert placed >= 190
    assert wide <= (100 if size == 0.01 else 2)  # a half per cent of noise leaves some pairs of 1 % wide


def test_ends_that_do_not_differ_take_no_probe() -> None:
    probes = Probes({}, noise=0.005)
    assert probes.search() == []
    assert list(probes.rounds) == [RELEASES - 1]
    assert len(probes.rounds[RELEASES - 1]) == MOST_ROUNDS


def test_the_largest_change_comes_first_and_then_the_others() -> None:
    found = Probes({20: -0.02, 60: -0.06}, noise=0.002).search()
    assert [(change.before, change.after) for change in found] == [(59, 60), (19, 20)]
    assert found[0].size.log == pytest.approx(math.log(0.94), abs=0.006)


def test_two_changes_of_opposite_sign_end_at_one_of_the_larger_direction() -> None:
    (found,) = Probes({10: 0.08, 70: -0.03}, noise=0.002).search()[:1]
    assert (found.before, found.after) == (9, 10)


def test_what_cannot_be_measured_is_left_out_and_widens_the_pair() -> None:
    probes = Probes({42: -0.05}, noise=0.002, dead=(41, 42, 43))
    (found,) = probes.search()
    assert (found.before, found.after) == (40, 44)


def test_a_candidate_that_stays_between_the_ends_is_left_out() -> None:
    probes = Probes({41: -0.02, 42: -0.02}, noise=0.02)  # 41 is half way between both
    found = probes.search(last=60)
    assert found[0].before < 41 < found[0].after or found[0].after - found[0].before == 1


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


def test_an_answer_covers_the_hours_in_which_its_pair_was_measured(tmp_path: Path) -> None:
    """The good end and three builds at paths; the third one is slower, by 10 % on the first occasion and 5 % on the
    others. The bad end, which takes part in each round, has more of them than a candidate may have."""
    builds = "".join(f"  v{number}: {{path: /opt/v{number}}}\n" for number in range(1, 5))
    study = "question: Which?, workload: sysbench, rounds: 4, base: v1.base, dbms: [v1.base, v4.base]"
    study += ", parameters: {steps: [scan]}"
    runs_yaml = tmp_path / "runs.yaml"
    runs_yaml.write_text(f"builds:\n{builds}configs:\n  base: {{}}\nstudies:\n  s: {{{study}}}\n")
    runs_file, runner = read_runs_file(runs_yaml, PARAMETERS), LocalRunner(ROOT / "notebooks", runs_yaml)
    how = {"counts": False, "data": tmp_path, "runner": runner, "say": [].append}
    of = bisection(runs_file, "s", "scan", ("v1", "v4"), ["v2", "v3"], **how)  # type: ignore[arg-type]
    folder, shape = tmp_path / f"raw/study={of.study}", Shape(dbms=tuple(of.dbms), steps=("scan",), rounds=4)
    write_study_card(folder, card(shape, study=of.study, occasions=3))
    numbers = count(1)

    def measured(rounds: int, occasion: int, *candidates: int, slow: float) -> None:
        for number, _ in zip(numbers, range(rounds), strict=False):
            for at in (0, *candidates, 3):
                speeds = {"scan": slow if at > 1 else 1.0}
                write_side(folder, of.dbms[at], number, occasion, shape, speeds, this_host())

    measured(12, 1, 1, slow=0.9)
    measured(16, 1, 2, slow=0.9)
    assert of.measure(3, False), "28 rounds are more than a candidate gets, and are there"
    change = Change(1, 2, Level(0.0, 0.0))
    assert "hold for this hour; for other hours, add --occasion in 2 other hours" in of.answer([change])
    measured(4, 2, 1, 2, slow=0.95)
    assert "hold for these 2 hours; for other hours, add --occasion in 1 other hour" in of.answer([change])
    before = of.measure(2, False)
    measured(4, 3, 1, 2, slow=0.95)
    answer = of.answer([change])
    assert "these intervals hold for other hours of this machine\n" in answer
    assert re.search(r"v3 brought −6\.\d\d % \(−2\d\.\d\d to \+\d", answer), "the hours differ more than the rounds"
    assert "; over all occasions together, no change is certain" in answer
    assert of.measure(2, False) == before, "the search stays that of the first occasion"
    assert of.measure(2, True) is None, "and gets no more rounds after it"
