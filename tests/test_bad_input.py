"""A first page of a study that is not as one wishes: it answers what it can, and claims nothing that is not so."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import rqps
import synthetic
from rqps import stats
from rqps.report.claimed import frames_of
from rqps.report.first_page import answer
from rqps.show import Clause
from rqps.show.claims import wrong
from rqps.store import read_manifest, read_study_card, write_manifest, write_study_card
from rqps.store.manifest import WhatIf

ALL = ("point-query", "update-index", "insert")
BUILDS = ("my56.base", "my80.base", "my97.base")
Speed = Callable[[str, str, int], float]
"""The throughput of a dbms in a step and round, relative to what it would be."""


def write(
    folder: Path,
    speed: Speed,
    dbms: tuple[str, ...] = BUILDS,
    steps: tuple[str, ...] = ALL,
    rounds: int = 6,
    of_step: Mapping[str, Mapping[str, Any]] | None = None,
    **of_run: Callable[[str], Any],
) -> None:
    """A study in which only speeds differ: throughput by them, CPU per operation by their inverse."""
    shape = synthetic.Shape(dbms=dbms, steps=steps, rounds=rounds, noise=0.002)
    write_study_card(folder, synthetic.card(shape, base=dbms[0]))
    for number in range(1, rounds + 1):
        for name in dbms:
            facts = synthetic.manifest(name, number, shape, **{key: make(name) for key, make in of_run.items()})
            rows = synthetic.tables(facts, shape)
            for place, row in enumerate(rows["steps"]):
                luck = 1 + 0.001 * ((number * (place + 2) + len(name)) % 5 - 2)
                now = 10_000 * speed(name, row["step"], number) * luck
                row |= {"operations_per_s": now, "operations": round(now * row["elapsed_s"])}
                row |= {"server_cpu_s": row["elapsed_s"] * 0.8, "server_cpu_user_s": row["elapsed_s"] * 0.7}
                row |= (of_step or {}).get(row["step"], {})
            synthetic.write_rows(folder, facts, rows)


def sentences(folder: Path) -> tuple[str, ...]:
    """The sentences of the first page, with whole percents; each claim of them is so."""
    study = rqps.load(folder)
    shown = answer(study, *stats.relate(study), []).sentences
    frame = frames_of(study)
    assert [problem for sentence in shown for problem in wrong(sentence, frame)] == []
    assert all(isinstance(sentence, Clause) for sentence in shown)
    return tuple(re.sub(r"\d+\.\d(?= %)", lambda number: f"{float(number[0]):.0f}", sentence) for sentence in shown)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "raw/study=synthetic"


def test_nothing_changed(folder: Path) -> None:
    write(folder, lambda *_: 1.0)
    in_all, counts, *_, last = sentences(folder)
    assert in_all.startswith(
        "Over 3 single-client steps (point-query, update-index, insert) 80.0.0 and 97.0.0 match 56.0.0"
    )
    assert counts == (
        "No change is shown, neither in throughput nor in cost per operation: "
        "6 of 6 comparisons are unchanged (within 2 %)."
    )
    assert last == "All comparisons are conclusive."


def test_everything_is_inconclusive(folder: Path) -> None:
    write(folder, lambda name, _, number: 1 + 0.3 * ((number * int(name[2]) + int(name[3])) % 4))
    in_all, counts, last = sentences(folder)
    assert " are inconclusive against 56.0.0 (" in in_all
    assert counts.endswith("6 of 6 comparisons are inconclusive.")
    assert last.startswith("Inconclusive: 6 of 6 comparisons (point-query of 80.0.0, ")


def test_all_got_faster(folder: Path) -> None:
    write(folder, lambda name, *_: {"my56": 1.0, "my80": 1.1, "my97": 1.3}[name[:4]])
    in_all, most, *others = sentences(folder)
    assert "MySQL 80.0.0 delivers 10 % and 97.0.0 delivers 30 % more throughput than 56.0.0 (" in in_all
    assert " improved most: 97.0.0 +30 % (+" in most
    assert "regressed" not in "".join((in_all, most, *others))


def test_one_step_dominates(folder: Path) -> None:
    """It is named as the one that improved most, and is not the headline of a study that regressed."""
    write(folder, lambda name, step, _: {"my56": 1.0}.get(name[:4], 3.0 if step == "insert" else 0.9))
    in_all, by_work, most, *_ = sentences(folder)
    assert " % more throughput than 56.0.0" in in_all, "as the mean is"
    assert in_all.endswith("; without insert, 97.0.0 is at −10 %.")
    says = "point-query −10 %, writes +64 % (insert alone +200 %)."
    assert by_work == f"By kind of work, the throughput of MySQL 97.0.0: {says}"
    first, second, counts = most.split("; ")
    assert first.split(" regressed most: ")[0] in ("point-query", "update-index")
    assert second.startswith("insert improved most: ")
    assert counts == "4 of 6 comparisons regressed, 2 improved."


def test_steps_have_other_units(folder: Path) -> None:
    """Rows and statements: means are of ratios, which have no unit."""
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8), of_step={"insert": {"unit": "row"}})
    in_all, *_ = sentences(folder)
    assert (
        "MySQL 80.0.0 delivers 20 % and 97.0.0 delivers 20 % less throughput than 56.0.0 (geometric means" in in_all
    )


def test_rated_steps_only(folder: Path) -> None:
    rate = {"unit": "row", "target_per_s": 5000.0, "target_held": True}
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8), of_step=dict.fromkeys(ALL, rate))
    most, *_, last = sentences(folder)
    assert " regressed most: " in most, "without a mean the worst step comes first"
    assert last == "Left out of the means: point-query, update-index and insert, which hold a rate."


def test_one_dbms_failed(folder: Path) -> None:
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8))
    study = rqps.load(folder)
    for run in study.runs.filter(dbms="my97.base")["folder"]:
        facts = read_manifest(Path(run)).model_copy(update={"outcome": "failed", "error": "it ended"})
        Path(run).rename(failed := Path(run).with_name(f"failed-{Path(run).name}"))
        write_manifest(failed, facts)
    in_all, *_, last = sentences(folder)
    assert "MySQL 80.0.0 delivers 20 % less throughput than 56.0.0 (" in in_all
    assert last.startswith("Not measured: my97.base (")


def test_two_engines(folder: Path) -> None:
    engine: dict[str, Any] = {"schema_version": lambda _: 4}
    engine["engine"] = lambda name: "rocksdb" if "97" in name else "mysql"
    engine |= {"unit": lambda name: name, "side": lambda _: None, "twin": lambda _: False}
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8), **engine)
    in_all, *_ = sentences(folder)
    assert "MySQL 80.0.0 delivers 20 % and RocksDB 97.0.0 delivers 20 % less throughput than MySQL 56.0.0 (" in in_all


def test_forty_dbms(folder: Path) -> None:
    names = tuple(f"my{number}.base" for number in range(50, 90))
    write(folder, lambda name, *_: 1.0 - 0.005 * (int(name[2:4]) - 50), names, ("point-query", "insert"), rounds=4)
    in_all, by_release, most, *others = sentences(folder)
    assert len(in_all) < 300
    says = "By release, each since the one measured before: throughput −20 % from 50.0.0 to 89.0.0"
    assert by_release.startswith(says)
    assert re.search(r" \d+ of 39 releases deliver ", in_all)
    assert " regressed most: 89.0.0 −20 % " in most or " regressed most: 89.0.0 −19 % " in most
    assert max(map(len, (by_release, most, *others))) < 500


def test_names_of_versions_are_missing(folder: Path) -> None:
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8), version=lambda _: "")
    in_all, *_ = sentences(folder)
    assert "MySQL my80 delivers 20 % and my97 delivers 20 % less throughput than my56 (" in in_all


def test_one_round_as_of_an_import(folder: Path) -> None:
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8), rounds=1)
    in_all, counts, last = sentences(folder)
    assert in_all.endswith("80.0.0 and 97.0.0 are inconclusive against 56.0.0 (geometric means, 1 round).")
    assert counts.endswith("6 of 6 comparisons are inconclusive.")
    assert last.endswith("a verdict takes 4 rounds: there are 1.")


def test_a_single_step_has_no_mean(folder: Path) -> None:
    write(folder, lambda name, *_: {"my56": 1.0}.get(name[:4], 0.8), steps=("point-query",))
    in_all, *_ = sentences(folder)
    assert in_all.startswith(
        "For point-query MySQL 80.0.0 delivers 20 % and 97.0.0 delivers 20 % less throughput than 56.0.0 (6 "
    )


def test_a_what_if_is_answered_by_its_change(folder: Path) -> None:
    tried = {"study": "asked", "change": "cache_size = 64M"}
    options = {"base": {"cache_size": "16M", "threads": "4"}, "more": {"cache_size": "64M", "threads": "4"}}
    names = ("my80.base", "my80.more")
    of_config = partial(write, options=lambda name: options[name.partition(".")[2]])
    of_config(folder, lambda name, *_: 1.25 if "more" in name else 1.0, names, ("insert",))
    card = read_study_card(folder)
    write_study_card(folder, card.model_copy(update={"what_if": WhatIf(**tried)}))
    head, *others = sentences(folder)
    assert head.startswith(
        "With cache_size = 64M, insert delivers 25 % more throughput than on MySQL 80.0.0, cache_size=16M (+"
    )
    assert head.endswith(" %, 6 rounds), CPU per operation −20 %.")
    assert not any("improved" in other or "geometric" in other for other in others)


def test_a_what_if_may_change_nothing(folder: Path) -> None:
    names = ("my80.base", "my80.more")
    write(folder, lambda *_: 1.0, names, ("insert",), options=lambda name: {"cache_size": name})
    tried = WhatIf(study="asked", change="cache_size = 64M")
    write_study_card(folder, read_study_card(folder).model_copy(update={"what_if": tried}))
    head, *_ = sentences(folder)
    assert head.startswith(
        "With cache_size = 64M, insert is unchanged within 2 % against MySQL 80.0.0, cache_size=my80.base ("
    )


def test_the_base_of_one_build_is_named_by_what_the_others_change(folder: Path) -> None:
    """By its own values; where it has none of its own, by the defaults; not by more than two."""
    options = {"base": {"format": "6"}, "old": {"format": "2"}, "cache": {"format": "6", "cache": "lru"}}
    names = tuple(f"my80.{config}" for config in options)
    of_config = partial(write, options=lambda name: options[name.partition(".")[2]])
    of_config(folder, lambda name, *_: 0.8 if "old" in name else 1.0, names, ("insert",))
    assert dict(stats.names(rqps.load(folder)).select("dbms", "short").iter_rows()) == {
        "my80.base": "format=6",
        "my80.old": "format=2",
        "my80.cache": "cache=lru",
    }
    head, *_ = sentences(folder)
    assert (
        "MySQL 80.0.0, format=2 delivers 20 % less throughput than format=6; cache=lru matches format=6 within"
        in head
    )


def test_the_base_of_one_build_at_its_defaults(folder: Path) -> None:
    names = ("my80.base", "my80.other")
    write(folder, lambda *_: 1.0, names, options=lambda name: {"cache": "lru"} if "other" in name else {})
    assert stats.names(rqps.load(folder))["short"].to_list() == ["cache=its default", "cache=lru"]


def test_one_number_for_a_drift_over_releases(folder: Path) -> None:
    """The release that is last has one number on the page, though a straight line gives it another one."""
    names = tuple(f"my{number}.base" for number in range(50, 58))
    speeds = {name: 1.0 - 0.01 * place - 0.004 * (place == 7) for place, name in enumerate(names)}
    write(folder, lambda name, _, number: speeds[name] * (1 + 0.003 * ((7 * number + int(name[2:4])) % 5 - 2)), names)
    study = rqps.load(folder)
    in_all, by_release, *_ = answer(study, *stats.relate(study), []).sentences
    (last,) = re.findall(r"to (\d+\.\d %) \(57\.0\.0\)", in_all)
    says = f"throughput −{last} from 50.0.0 to 57.0.0, as a drift from release to release."
    assert by_release == f"By release, each since the one measured before: {says}"
