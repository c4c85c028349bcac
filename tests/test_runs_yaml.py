"""runs.yaml: every mistake is reported at once, with its line, its path and what to write instead."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.store.manifest import read_study_card
from rqps.study import RunsFile, read_runs_file
from rqps.study.runs_file import schema_text
from rqps.study.unfold import unfold
from rqps.workloads import PARAMETERS

ROOT = Path(__file__).parents[1]

GOOD = """\
builds:
  old: {mysql: "5.6.24"}
  new: {mysql: "8.0.33"}
configs:
  base:
    innodb_buffer_pool_size: 1G
    performance_schema: on
  ps0: {extends: base, performance_schema: off}
studies:
  demo:
    question: What did it cost?
    workload: sysbench
    dbms: [old.base, new.base, new.ps0]
    base: old.base
    rounds: 6
    parameters: {steps: [point-query, insert], table_rows: 1000}
"""


WITH_A_SCENARIO = GOOD.replace(
    "performance_schema: on",
    'perf_schema: {extends: default, instruments: {"memory/%?": "off"}, consumers: {events_waits_current: on}}',
).replace("performance_schema: off", "perf_schema: off")


def read(text: str, tmp_path: Path) -> RunsFile:
    file = tmp_path / "runs.yaml"
    file.write_text(text)
    return read_runs_file(file, PARAMETERS)


def refusal(text: str, tmp_path: Path) -> list[str]:
    """The lines of the error, without the folder in front."""
    with pytest.raises(RqpsError) as caught:
        read(text, tmp_path)
    return caught.value.message.replace(f"{tmp_path}/", "").splitlines()


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_a_study_takes_over_what_it_does_not_say(tmp_path: Path) -> None:
    big = read(GOOD + "  big: {extends: demo, rounds: 9, parameters: {table_rows: 5000}}\n", tmp_path).studies["big"]
    assert (big.question, big.rounds, big.base) == ("What did it cost?", 9, "old.base")
    asked = big.parameters.model_dump(mode="json", exclude_unset=True)
    assert asked == {"steps": ["point-query", "insert"], "table_rows": 5000}


def test_a_mistake_in_a_study_is_not_one_of_those_that_extend_it(tmp_path: Path) -> None:
    wrong = changed("base: old.base", "base: older.base") + "  big: {extends: demo, rounds: -1}\n"
    lines = refusal(wrong, tmp_path)
    assert [line.split(": ")[1] for line in lines] == ["studies.demo.base", "studies.big.rounds"]


def test_as_many_threads_as_each_of_its_configs_admits_connections(tmp_path: Path) -> None:
    many = changed("table_rows: 1000", "table_rows: 1000, threads: [1, 64, 149]")
    assert read(many, tmp_path)  # 151 by default
    fewer = many.replace("extends: base,", "extends: base, max_connections: 100,")
    tables = "{steps: [scan.warm, insert], threads: 4, tables: 200}"
    wider = f"  wide: {{extends: demo, dbms: [old.base], parameters: {tables}}}\n"
    assert [line.split(": ", 1)[1] for line in refusal(fewer + wider, tmp_path)] == [
        "studies.demo.parameters.threads: 149 threads and 2 for control take 151 connections, and max_connections is "
        "100 in configs.ps0; set 151 or more there, or ask for fewer",
        "studies.wide.parameters.tables: 200 tables and 2 for control take 202 connections, and max_connections is "
        "151 by default in configs.base; set 202 or more there, or ask for fewer",
    ]
    assert read(fewer.replace("max_connections: 100", "max_connections: 1K"), tmp_path)  # only the server can tell


def test_duets_are_for_steps_that_can_be_sliced(tmp_path: Path) -> None:
    def of(workload: str, method: str = "") -> str:
        text = GOOD.replace("sysbench", workload).replace("{steps: [point-query, insert], table_rows: 1000}", "{}")
        return text.replace("rounds: 6", f"rounds: 6\n    method: {method}") if method else text

    assert read(of("insert-benchmark"), tmp_path).studies["demo"].duet
    old = of("insert-benchmark").replace("8.0.33", "5.5.34")
    (line,) = refusal(old, tmp_path)
    assert "can't take turns: MySQL 5.5 loses its connections" in line
    assert read(old.replace("rounds: 6", "rounds: 6\n    method: rounds"), tmp_path)
    assert read(of("point-lookups"), tmp_path).studies["demo"].duet
    assert not read(of("point-lookups", "rounds"), tmp_path).studies["demo"].duet
    asked = read(GOOD.replace("rounds: 6", "budget: 1h30m"), tmp_path).studies["demo"]
    assert (asked.duet, asked.rounds, asked.budget_s) == (True, None, 5400)


@pytest.mark.parametrize(
    ("written", "share"), [("", 0.02), ("smallest_effect: 0.5%", 0.005), ("smallest_effect: 3 %", 0.03)]
)
def test_the_smallest_effect_that_matters_is_a_percentage(written: str, share: float, tmp_path: Path) -> None:
    study = read(changed("rounds: 6", f"rounds: 6\n    {written}"), tmp_path).studies["demo"]
    assert study.smallest_effect == pytest.approx(share)


def mistakes() -> list[tuple[str, ...]]:
    text = (Path(__file__).parent / "runs_yaml_mistakes.txt").read_text()
    blocks = [block.splitlines() for block in text.split("\n\n") if not block.startswith("#")]
    return [tuple(line[2:].encode().decode("unicode_escape") for line in block) for block in blocks]


def test_a_good_file_becomes_values(tmp_path: Path) -> None:
    runs_file = read(GOOD, tmp_path)
    assert runs_file.builds["old"].mysql == "5.6.24"
    assert runs_file.configs["ps0"].extends == "base"
    assert runs_file.configs["base"].options == {"innodb_buffer_pool_size": "1G", "performance_schema": True}
    assert runs_file.configs["ps0"].options == {"performance_schema": False}
    study = runs_file.studies["demo"]
    assert study.dbms == ("old.base", "new.base", "new.ps0")
    assert study.parameters.model_dump()["table_rows"] == 1000
    assert study.placement is None
    assert study.seed is None


@pytest.mark.parametrize(("old", "new", "line"), mistakes())
def test_a_mistake_has_its_line_and_the_remedy(old: str, new: str, line: str, tmp_path: Path) -> None:
    lines = refusal(changed(old, new), tmp_path)
    assert any(one.startswith(line) for one in lines), lines


def test_a_number_that_is_too_large_gets_one_answer(tmp_path: Path) -> None:
    [line] = refusal(changed("table_rows: 1000", f"table_rows: {10**20}"), tmp_path)
    assert line.startswith(f"runs.yaml:16: studies.demo.parameters.table_rows: {10**20} is too large; numbers are")


def test_all_mistakes_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        GOOD.replace('"5.6.24"', "5.6")
        .replace("rounds: 6", "rounds: -1\n    rounds: 3")
        .replace("new.ps0", "nw.ps0")
        .replace("extends: base", "extends: bse")
        .replace("insert", "insrt")
    )
    lines = [re.match(r"runs.yaml:(\d+): ([^ ]+):", line) for line in refusal(text, tmp_path)]
    assert [(int(m[1]), m[2]) for m in lines if m] == [
        (2, "builds.old.mysql"),
        (8, "configs.ps0.extends"),
        (13, "studies.demo.dbms[2]"),
        (15, "studies.demo.rounds"),
        (16, "studies.demo.rounds"),
        (17, "studies.demo.parameters.steps[1]"),
    ]


def test_a_circle_is_reported_at_the_configs_in_it_only(tmp_path: Path) -> None:
    text = changed("  base:\n", "  a: {extends: b}\n  b: {extends: a}\n  c: {extends: a}\n  base:\n")
    assert refusal(text, tmp_path) == [
        "runs.yaml:5: configs.a.extends: goes in a circle: a -> b -> a; a config can't extend itself",
        "runs.yaml:6: configs.b.extends: goes in a circle: b -> a -> b; a config can't extend itself",
    ]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_is_refused_with_what_it_needs(text: str, tmp_path: Path) -> None:
    assert any("builds" in line and "studies" in line for line in refusal(text, tmp_path))


def test_a_scenario_decides_whether_the_performance_schema_is_on(tmp_path: Path) -> None:
    runs = {run.dbms: run for run in unfold(read(WITH_A_SCENARIO, tmp_path), "demo", "host")}
    on, off = runs["new.base"], runs["new.ps0"]
    assert on.scenario is not None
    assert on.scenario.name == "default, memory/% off, events_waits_current on"
    assert on.options["performance_schema"].value is True
    assert off.scenario is not None
    assert (off.scenario.name, off.options["performance_schema"].value) == ("off", False)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "can't be read")):
        with pytest.raises(RqpsError, match=words) as caught:
            read_runs_file(path, PARAMETERS)
        assert str(path) in caught.value.message
        assert caught.value.fix


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.yaml").write_bytes(b"builds: {\xff}")
    with pytest.raises(RqpsError, match="byte 9 is not UTF-8 text"):
        read_runs_file(tmp_path / "runs.yaml", PARAMETERS)


@st.composite
def spoilt_files(draw: st.DrawFn) -> str:
    """A good file in which some place holds anything at all."""
    value = yaml.safe_load(draw(st.sampled_from([GOOD, WITH_A_SCENARIO])))
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=4,
    )
    here: Any = value
    while True:
        key = draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        if not isinstance(here[key], dict | list) or draw(st.booleans()):
            here[key] = draw(anything)
            return yaml.safe_dump(value, default_flow_style=draw(st.booleans()))
        here = here[key]


@settings(max_examples=300)
@given(text=spoilt_files())
def test_whatever_the_file_holds_it_is_read_or_explained(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "spoilt.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        read_runs_file(file, PARAMETERS)
    except RqpsError as error:
        explained = error.message
    else:
        return
    assert re.match(rf"{re.escape(str(file))}:\d+: .", explained)


def test_the_repository_s_own_file_is_good_and_its_studies_unfold() -> None:
    runs_file = read_runs_file(ROOT / "runs.yaml", PARAMETERS)
    assert {"demo", "releases", "defaults"} <= set(runs_file.studies)
    for study in runs_file.studies:
        assert unfold(runs_file, study, "host")


def test_the_defaults_study_sets_no_option_at_all() -> None:
    runs_file = read_runs_file(ROOT / "runs.yaml", PARAMETERS)
    assert all(not run.options for run in unfold(runs_file, "defaults", "host"))


def test_no_question_asks_for_yes_or_no() -> None:
    """First pages answer with numbers; a sample has the question of its study."""
    studies = read_runs_file(ROOT / "runs.yaml", PARAMETERS).studies
    verbs = re.compile(r"(?:Did|Does|Do|Is|Are|Was|Were|Has|Have|Can)\b|.*\band (?:is|does|did) ")
    assert [name for name, study in studies.items() if verbs.match(study.question)] == []
    cards = [read_study_card(folder) for folder in (ROOT / "data/sample").iterdir()]
    asked = {card.study: (card.question, card.asks) for card in cards if card.study in studies}
    assert len(asked) > 20
    assert asked == {name: (studies[name].question, studies[name].asks) for name in asked}


def test_editors_get_the_schema_of_the_models() -> None:
    first_line = (ROOT / "runs.yaml").read_text().splitlines()[0]
    assert first_line == "# yaml-language-server: $schema=runs.schema.json"
    assert (ROOT / "runs.schema.json").read_text() == schema_text(PARAMETERS), "the models have changed: make schema"


def test_the_schema_completes_steps_and_refuses_unknown_keys() -> None:
    definitions = json.loads(schema_text(PARAMETERS))["$defs"]
    offered, of_any_range = definitions["SysbenchParameters"]["properties"]["steps"]["items"]["anyOf"]
    assert {"point-query", "scan_range=100", "published-2024", "flush"} <= set(offered["enum"])
    assert re.match(of_any_range["pattern"], "random-points_range=50")
    assert not re.match(of_any_range["pattern"], "random-point")
    assert definitions["StudySpec"]["additionalProperties"] is False
    assert definitions["StudySpec"]["properties"]["workload"]["enum"] == [
        "db-bench",
        "insert-benchmark",
        "own",
        "point-lookups",
        "sysbench",
    ]
    lookups = definitions["PointLookupsParameters"]["properties"]
    kinds = ["pk", "pk-force", "cover-noforce", "nocover-force", "cover-force", "nocover-noforce"]
    assert lookups["kinds"]["items"]["enum"] == kinds
    assert re.match(lookups["mysqlslap"]["anyOf"][0]["pattern"], "8.0.33")
    assert not re.match(lookups["mysqlslap"]["anyOf"][0]["pattern"], "newest")


def including(tmp_path: Path, more: str, names: str = "[more.yaml]") -> str:
    """The text of a file that includes another one, which is written beside it."""
    (tmp_path / "more.yaml").write_text(more)
    return f"include: {names}\n{GOOD}"


def test_an_included_file_adds_its_builds_configs_and_studies(tmp_path: Path) -> None:
    more = """\
builds:
  newest: {mysql: "9.7"}
configs:
  small: {extends: base, innodb_buffer_pool_size: 16M}
studies:
  wider: {extends: demo, dbms: [old.base, newest.small]}
"""
    runs_file = read(including(tmp_path, more), tmp_path)
    assert list(runs_file.studies) == ["demo", "wider"]
    assert runs_file.studies["wider"].dbms == ("old.base", "newest.small")
    assert runs_file.builds["newest"].version == "9.7"


def test_a_mistake_in_an_included_file_has_its_name_and_line(tmp_path: Path) -> None:
    more = "studies:\n  wider:\n    extends: demo\n    rounds: none\n  demo: {extends: wider}\nservers: {}\n"
    assert refusal(including(tmp_path, more), tmp_path) == [
        "more.yaml:4: studies.wider.rounds: is 'none'; a whole number is due",
        "more.yaml:5: studies.demo: 'demo' is here again, first in the file that includes this one:11; keep one",
        "more.yaml:6: servers: 'servers' like this is refused; an included file has builds, configs, hosts, studies, "
        "each by name",
    ]


@pytest.mark.parametrize(
    ("names", "explained"),
    [
        ("[absent.yaml]", "runs.yaml:1: include[0]: there is no file 'absent.yaml' beside runs.yaml"),
        ("[../x.yaml]", "runs.yaml:1: include[0]: '../x.yaml' is not a file in the same folder or below it; "),
        ("more.yaml", "runs.yaml:1: include: a list of at most 20 files is due, such as [published.yaml]"),
    ],
)
def test_an_include_that_leads_nowhere_is_named(names: str, explained: str, tmp_path: Path) -> None:
    assert refusal(including(tmp_path, "builds: {}\n", names), tmp_path)[0].startswith(explained)


def test_an_included_file_is_yaml_and_includes_no_other(tmp_path: Path) -> None:
    assert refusal(including(tmp_path, "builds: [\n"), tmp_path)[0].startswith("more.yaml:2: not YAML: ")
    assert refusal(including(tmp_path, "include: [a.yaml]\n"), tmp_path)[0].startswith("more.yaml:1: include: ")
    assert refusal(including(tmp_path, ""), tmp_path)[0].startswith("more.yaml:1: is empty; ")
