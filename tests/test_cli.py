"""The command: what it prints, where, and with which exit code."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import synthetic
from child import rqps
from house import House
from pydantic import TypeAdapter
from releases import server_in
from rqps.engines.mysql.reports import Known
from rqps.overview import status_text, summary
from rqps.schedule.state import this_host
from rqps.store import read_study_card, write_study_card
from synthetic import write_study

COMMANDS = ("doctor", "servers", "plan", "run", "status", "show", "report", "investigate", "pack", "watch", "import")
RQPS = (sys.executable, "-m", "rqps.cli")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_s_help_shows_an_example_of_it(command: str, tmp_path: Path) -> None:
    done = rqps(command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert f"  rqps {command}" in done.stdout.partition("examples:")[2]


def test_help_names_every_command_and_waits_for_no_library(tmp_path: Path) -> None:
    script = "import sys; from rqps.cli import main; main([]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all(re.search(rf"\n    {command}\s", done.stderr) for command in COMMANDS)
    assert not {"pydantic", "polars", "papermill", "yaml", "altair"} & set(done.stdout.split())


def test_charts_and_notebooks_make_no_grammar_of_addresses(tmp_path: Path) -> None:
    """That takes longer than all else that a kernel or a command imports. What starts runs needs no tables either."""
    script = "import rqps, sys; rqps.save_cpu(); import altair, nbformat, papermill, rqps.schedule.run_study; "
    script += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert {"jsonschema", "altair"} <= (existing := set(done.stdout.split()))
    assert not {"rfc3987_syntax.syntax_helpers", "lark", "arrow", "boto3", "numpy", "polars"} & existing


def test_no_words_at_all_are_bad_input(tmp_path: Path) -> None:
    assert rqps(cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("plan dmo", "unknown study 'dmo'; did you mean 'demo'?"),
        ("run dmo", "unknown study 'dmo'; did you mean 'demo'?"),
        ("status dmo", "unknown study 'dmo'; did you mean 'demo'?"),
        ("run demo --rounds 2", "2 rounds asked for, and the study has 1"),
        ("plan demo --rounds 0", "0 rounds asked for, and the study has 1"),
        ("plan demo --rounds many", "argument --rounds: invalid int value: 'many'"),
        ("run demo --budget 30m", "demo: a budget needs duets, but the study measures its dbms one after the other"),
        ("plan demo --budget 30m", "demo: a budget needs duets, but the study measures its dbms one after the other"),
        ("run demo --budget 30m --rounds 1", "--rounds and --budget can't be combined"),
        ("plan", "the following arguments are required: STUDY"),
        ("plan demo --data nowhere", "nowhere: there is no such data folder"),
        ("plan demo --runs-yaml none.yaml", "none.yaml: can't be read: No such file"),
        ("report demo", "there is no study 'demo'"),
        ("show demo", "there is no study 'demo'"),
        ("investigate demo", "there is no study 'demo'"),
        ("report demo.rqps", "demo.rqps: there is no study"),
        ("report", "report: 0 studies given"),
        ("report a b c", "report: 3 studies given"),
        ("report a b --single-file", "report: 2 studies given"),
        ("report --check . --with-data", "report: --check makes no pages"),
        ("pack demo", "there is no study 'demo'"),
        ("pack demo.rqps --unpack", "demo.rqps: there is no study"),
        ("servers fetch", "fetch takes the name of one build, or an engine and a version"),
        ("servers fetch my3", "unknown build 'my3'; did you mean"),
        ("servers fetch 8.4.4", "8.4.4 is a version of RocksDB: name the engine, too"),
        ("servers fetch mysql 8.0.34", "unknown mysql version '8.0.34'; did you mean '8.0.33'?"),
        ("servers fetch mysq 8.0.33", "unknown engine 'mysq'; did you mean 'mysql'?"),
        ("servers list my1", "servers list: my1 is not an engine"),
        ("builds make --jobs 4 my1", "my1"),
        ("report --check nothere", "nothere: there is no report, neither here nor in "),
        ("rnu demo", "invalid choice: 'rnu'"),
        ("run demo --archve", "unrecognized arguments: --archve"),
    ],
)
def test_bad_input_is_reported_on_stderr_with_exit_code_2(words: str, text: str, house: House) -> None:
    (house.path / "data").mkdir()
    done = rqps(*words.split(), cwd=house.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_version_that_nobody_has_is_bad_input(command: str, house: House) -> None:
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("{path: /nowhere/my2}", '{mysql: "5.7.44"}'))
    done = rqps(command, "demo", cwd=house.path)
    assert done.returncode == 2
    assert "builds.my2: mysql 5.7.44 is not in the catalogue" in done.stderr


def test_mistakes_in_runs_yaml_are_all_printed_as_file_line_and_path(house: House) -> None:
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("rounds: 1", "rounds: -1").replace("point-query", "point-quary"))
    done = rqps("plan", "demo", cwd=house.path)
    assert done.returncode == 2
    assert [line.rpartition(": ")[0] for line in done.stderr.splitlines()] == [
        "runs.yaml:13: studies.demo.rounds",
        "runs.yaml:16: studies.demo.parameters.steps[0]",
    ]


def test_a_mistake_in_another_study_is_none_of_this_one(house: House) -> None:
    file = house.path / "runs.yaml"
    others = "  b: {extends: demo, parameters: {steps: [point-quary]}}\n  c: {extends: b, rounds: 0x}\n"
    file.write_text(file.read_text() + others)
    assert rqps("status", "demo", cwd=house.path).stdout.endswith("missing\ndemo: 2 runs, 2 missing\n")
    for study in ("b", "c"):
        done = rqps("status", study, cwd=house.path)
        assert (done.returncode, "studies.b.parameters.steps[0]: unknown step 'point-quary'" in done.stderr) == (
            2,
            True,
        )
    file.write_text(file.read_text().replace("builds:", "builds:\n  my3: {}"))
    assert "builds.my3" in rqps("status", "demo", cwd=house.path).stderr


def test_plan_shows_order_options_and_time_and_writes_nothing(house: House) -> None:
    house.ask(rounds=3, seconds=30)
    done = rqps("plan", "demo", cwd=house.path)
    assert done.returncode == 1  # its builds are not there, which `rqps run` would end with
    assert f"2 dbms × 3 rounds = 6 runs on {this_host()}; base is my1.base" in done.stdout
    assert "sysbench: point-query\n  tables 1, table_rows 100000, " in done.stdout
    assert "threads 1, seconds 30" in done.stdout
    assert "  my1.base, my2.base:\n    max_connections = 100\n" in done.stdout
    for round_ in (1, 2, 3):
        line = next(line for line in done.stdout.splitlines() if line.startswith(f"  round {round_} "))
        assert sorted(line.split()[2:]) == ["my1.base", "my2.base"]
    assert done.stdout.startswith(
        "demo: 6 runs, 6 missing\n  about 4 min 0 s for the runs that are not done, 3 min 0 s of it"
    )
    assert not (house.path / "data").exists()


def test_plan_says_what_each_host_takes_and_all_of_them(house: House) -> None:
    house.ask(rounds=3, seconds=30)
    file = house.path / "runs.yaml"
    hosts = "hosts:\n  slow: {ssh: slow, parameters: {sysbench: {seconds: 60}}}\n  fast: {ssh: fast}\nstudies:"
    named = "    base: my1.base\n    hosts: [slow, fast]\n"
    file.write_text(file.read_text().replace("studies:", hosts).replace("    base: my1.base\n", named))
    output = rqps("plan", "demo", cwd=house.path).stdout
    assert "2 dbms × 3 rounds = 6 runs on slow; base is my1.base" in output
    assert "2 dbms × 3 rounds = 6 runs on fast; base is my1.base" in output
    for left in ("7 min 0 s", "4 min 0 s"):
        assert output.count(f"about {left} for the runs that are not done") == 1
    assert output.endswith("demo: all 2 hosts at once, about 7 min 0 s\n")


def test_plan_finds_every_mistake_that_run_would_end_with(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is not there, and options that the version asked here before does not have."""
    monkeypatch.setenv("RQPS_CACHE", str(house.path / "cache"))
    known = house.path / "cache/data/x-8.0.33-0/initialised"
    known.mkdir(parents=True)
    facts = Known(instruments={}, consumers={}, variables={"max_connections": "151"})
    (known / "known.json").write_bytes(TypeAdapter(Known).dump_json(facts))
    file = house.path / "runs.yaml"
    file.write_text(
        file.read_text()
        .replace("{path: /nowhere/my2}", '{mysql: "8.0.33"}')
        .replace("{max_connections: 100}", '{max_connections: 100, max_conections: 1, "other?": 1}')
    )
    done = rqps("plan", "demo", cwd=house.path)
    assert done.returncode == 1
    result = done.stdout.partition("mistakes that would stop `rqps run`\n")[2].partition("\n\n")[0]
    assert "builds.my1.path: no such directory: /nowhere/my1" in result
    assert "my2.base: MySQL 8.0.33 has no option max_conections (did you mean max_connections?)" in result
    assert not (house.path / "data").exists()


def test_plan_sees_another_version_and_a_socket_s_path_that_is_too_long(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_in(house.path / "own", version="8.0.40")
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("{path: /nowhere/my1}", f'{{path: {house.path}/own, mysql: "8.0.33"}}'))
    monkeypatch.setattr(tempfile, "tempdir", f"/tmp/{'x' * 90}")
    done = rqps("plan", "demo", cwd=house.path)
    assert done.returncode == 1
    assert f"builds.my1.mysql: 8.0.33 is expected, but directory {house.path}/own is 8.0.40" in done.stdout
    assert "a socket's path may have 107 characters, this one has 1" in done.stdout


def test_plan_says_what_further_occasions_take(house: House) -> None:
    house.ask(rounds=2, method="duet", more="\n    occasions: 3\n    apart: 1h")
    lines = rqps("plan", "demo", cwd=house.path).stdout.splitlines()
    assert lines[1].startswith("  about 24 s for the runs that are not done")
    assert lines[2] == (
        "  this is occasion 1 of 3; 2 more occasions from newly loaded tables take 24 s each, 1 h 0 min apart: "
        "2 h 0 min after this one"
    )


def test_one_round_of_one_dbms_is_said_in_the_singular(house: House) -> None:
    house.ask(builds=1)
    output = rqps("plan", "demo", cwd=house.path).stdout
    assert "1 dbms × 1 round = 1 run on" in output
    assert output.startswith("demo: 1 run, 1 missing\n")


def test_show_has_a_row_a_dbms_where_dbms_are_many_and_steps_few(tmp_path: Path) -> None:
    shape = synthetic.Shape(dbms=tuple(f"my{number}.base" for number in range(1, 9)), steps=("point-query", "scan"))
    data = write_study(tmp_path / "data", shape=shape)
    _, columns, base, *rows = rqps("show", "synthetic", "--data", str(data), cwd=tmp_path).stdout.splitlines()
    assert re.split(" {2,}", columns) == ["dbms", "point-query", "scan", "geometric mean of 2 steps"]
    assert re.fullmatch(r"my1\.base  MySQL 1\.0\.0 +[\d,]+ +[\d,]+", base)
    number = r" +. \d\.\d{3} ± \d\.\d{3}"
    assert [bool(re.fullmatch(rf"my\d\.base  MySQL \d\.0\.0{3 * number}", row)) for row in rows] == [True] * 7


def test_show_has_a_row_a_step_and_a_column_a_dbms(tmp_path: Path) -> None:
    data = write_study(tmp_path / "data")
    done = rqps("show", "synthetic", "--data", str(data), cwd=tmp_path)
    assert done.returncode == 0
    legend, table = done.stdout.split("\n\n")
    assert legend.splitlines()[1:] == ["my2.base  MySQL 2.0.0", "my2.ps0   MySQL 2.0.0, performance schema off"]
    head, columns, *rows, means = table.splitlines()
    assert head.startswith(
        "operations/s relative to my1.base: means of 6 rounds, ± half the width of 95 % intervals for this hour; "
    )
    assert columns.split() == ["step", "my1.base", "my2.base", "my2.ps0"]
    number = r"▼ 0\.\d{3} ± 0\.\d{3}"
    steps = [re.fullmatch(rf"(\S+) +[\d,]+  {number}  {number}", row) for row in rows]
    assert [step and step[1] for step in steps] == ["point-query", "update-index"]
    assert re.fullmatch(rf"geometric mean of 2 steps +{number}  {number}", means)
    markdown = rqps("show", "synthetic", "--markdown", "--data", str(data), cwd=tmp_path).stdout.splitlines()
    assert markdown[6:8] == ["| step | my1.base | my2.base | my2.ps0 |", "|---|--:|--:|--:|"]
    assert [len(re.split(r"(?<!\\)\|", line)) for line in markdown[6:]] == [6] * 5
    every = rqps("show", "synthetic", "--all", "--steps", "point-*", "--data", str(data), cwd=tmp_path).stdout
    assert "update-index" not in every
    assert re.search(r"\npoint-query .*▲ 1\.4", every.partition("\nCPU per operation relative to my1.base")[2])
    wrong = rqps("show", "synthetic", "--steps", "point-quary", "--data", str(data), cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no step 'point-quary'; did you mean 'point-query'?" in wrong.stderr


def test_a_misspelt_study_is_told_the_near_one(tmp_path: Path) -> None:
    data = write_study(tmp_path / "data")
    for command in ("show", "report", "investigate"):
        done = rqps(command, "synthtic", "--data", str(data), cwd=tmp_path)
        assert done.returncode == 2
        assert "there is no study 'synthtic'; did you mean 'synthetic'?" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [("rqps sh", ["show "]), ("rqps show ", ["demo", "synthetic"]), ("rqps run syn", ["synthetic "])],
)
def test_a_shell_completes_commands_and_studies(line: str, words: list[str], house: House) -> None:
    write_study(house.path / "data")
    text = house.path / "said"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
    asked["_ARGCOMPLETE_STDOUT_FILENAME"] = str(text)
    subprocess.run(RQPS, cwd=house.path, env=os.environ | asked)
    assert [word for word in text.read_text().split("\n") if not word.startswith("-")] == words


def test_status_says_what_can_be_reported(house: House) -> None:
    write_study(house.path / "data")
    shutil.copytree(house.path / "data/raw/study=synthetic", house.path / "data/sample/study=there")
    text = rqps("status", cwd=house.path).stdout
    assert text == (
        "demo: 2 runs, 2 missing\n"
        "studies that `rqps show` and `rqps report` can use now\n"
        "  measured here: synthetic\n"
        "  samples: there\n"
    )


def test_plan_says_what_a_budget_buys(house: House) -> None:
    house.ask(rounds=6, seconds=10, builds=3, method="duet")
    output = rqps("plan", "demo", "--budget", "20m", cwd=house.path).stdout
    assert f"3 dbms in turns, within a budget, on {this_host()}; base is my1.base" in output
    buys = (
        "20 min 0 s are enough for about 24 rounds of 3 dbms and a twin in turns, which resolve 2 % in 1 of 1 steps"
    )
    assert output.startswith(f"demo: 1 run, 1 missing\n  {buys}")
    too_short = rqps("plan", "demo", "--budget", "20s", cwd=house.path)
    assert (too_short.returncode, too_short.stdout) == (2, "")
    assert "a round of 3 dbms in turns takes about 40 s, and the budget is 20 s" in too_short.stderr
    assert rqps("run", "demo", "--budget", "20s", cwd=house.path).returncode == 2
    soon = rqps("plan", "demo", "--budget", "soon", cwd=house.path)
    assert (soon.returncode, "--budget: 'soon' is not a time" in soon.stderr) == (2, True)


def test_plan_shows_a_config_as_its_difference_to_another(house: House) -> None:
    file = house.path / "runs.yaml"
    ps0 = '{extends: base, performance_schema: off, "gtid_mode?": on}'
    text = file.read_text().replace("  base: {max", f"  ps0: {ps0}\n  base: {{max")
    file.write_text(text.replace("[my1.base, my2.base]", "[my1.base, my2.base, my2.ps0]"))
    done = rqps("plan", "demo", cwd=house.path)
    assert "  my1.base, my2.base:\n    max_connections = 100\n" in done.stdout
    assert "  my2.ps0: as base, but\n    gtid_mode? = ON\n    performance_schema = OFF\n\n" in done.stdout


def test_plan_with_fewer_rounds_shows_those_only(house: House) -> None:
    house.ask(rounds=3)
    done = rqps("plan", "demo", "--rounds", "1", cwd=house.path)
    assert "  round 1 " in done.stdout
    assert "  round  2" not in done.stdout
    assert "2 runs, 2 missing" in done.stdout


def test_runs_yaml_is_found_from_a_folder_below(house: House) -> None:
    below = house.path / "notebooks/run"
    assert rqps("status", cwd=below).stdout == "demo: 2 runs, 2 missing\n"


def test_status_shows_what_is_done_and_why_a_run_failed(house: House) -> None:
    house.ask(rounds=2)
    house.script({house.first(): "raise"})
    house.run()
    states = house.states()
    lines = status_text(states).splitlines()
    assert lines[0].startswith(f"{states[0].run.run}  failed once: ")
    assert lines[0].split("once: ")[1] == states[0].last_error
    assert [line.split()[1] for line in lines[1:4]] == ["done", "done", "done"]
    assert lines[4] == summary(states) == "demo: 4 runs, 3 done, 1 failed"


def test_status_waits_for_no_pipe_in_a_study_s_folder(house: House) -> None:
    failed = house.study / f"failed/run=r01@my1.base@{this_host()}.1"
    failed.mkdir(parents=True)
    os.mkfifo(failed / "failure.json")
    os.mkfifo(house.study / ".under-way.json")
    words = rqps("status", "demo", cwd=house.path).stdout
    assert f"r01@my1.base@{this_host()}  failed once: not recorded, see {failed}\n" in words


def test_status_says_when_data_is_of_other_conditions(house: House) -> None:
    house.run()
    house.ask(rounds=2, seconds=2)
    assert summary(house.states()) == "demo: 4 runs, 2 missing, 2 measured under other conditions"


def test_a_failing_command_ends_with_exit_code_1(house: House) -> None:
    done = rqps("servers", "fetch", "my1", cwd=house.path)
    assert done.returncode == 1
    assert "/nowhere/my1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_its_servers_ends_with_exit_code_1_and_leaves_no_half_run(house: House) -> None:
    done = rqps("run", "demo", cwd=house.path, RQPS_CACHE=str(house.path / "cache"))
    assert done.returncode == 1
    assert "/nowhere/my" in done.stderr
    assert "Traceback" not in done.stderr
    assert house.folders() == house.partials() == []


def test_the_doctor_looks_at_this_machine(tmp_path: Path) -> None:
    done = subprocess.run([*RQPS, "doctor"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == int("Fix this first" in done.stdout)
    assert "  disk, data: " in done.stdout


MYSQL = ["5.5.34", "5.6.14", "5.6.24", "5.7.22", "8.0.12", "8.0.15", "8.0.31", "8.0.33", "9.7"]


def test_the_catalogue_is_listed_without_any_runs_yaml(tmp_path: Path) -> None:
    done = rqps("servers", cwd=tmp_path, RQPS_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0
    assert f"MySQL, {len(MYSQL)} versions of the catalogue, 0 fetched (*)\n  {', '.join(MYSQL)}\n" in done.stdout
    done = rqps("servers", "list", "mysql", cwd=tmp_path, RQPS_CACHE=str(tmp_path / "cache"))
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["NAME", "ENGINE", "VERSION", "FETCHED", "SIZE", "SOURCE", "COMPILED"]
    assert [row[0] for row in rows] == MYSQL
    assert {row[3] for row in rows} == {"no"}


def test_ctrl_c_ends_with_exit_code_130_and_a_word(house: House) -> None:
    """In the middle of a fetch from a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mysql.tar.gz"
        file = house.path / "runs.yaml"
        file.write_text(file.read_text().replace("{path: /nowhere/my1}", f'{{url: "{url}", sha256: "{"0" * 64}"}}'))
        command = subprocess.Popen(
            [*RQPS, "servers", "fetch", "my1"],
            cwd=house.path,
            env=os.environ | {"RQPS_CACHE": str(house.path / "cache")},
            text=True,
            stderr=subprocess.PIPE,
        )
        silent.accept()
        command.send_signal(signal.SIGINT)
        _, words = command.communicate(timeout=240)
    assert command.returncode == 130
    assert words.splitlines()[-1] == "stopped"
    assert "Traceback" not in words


def test_a_terminal_of_few_characters_gets_those_and_obeys_none(house: House) -> None:
    """A question, or a name in data of somebody else's, may have escape sequences in it."""
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("Does it hold?", '"Is it \\x1b]0;mine\\a × 2?"'))
    command = subprocess.run(
        [*RQPS, "plan", "demo"], cwd=house.path, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True
    )
    assert command.returncode == 1  # its builds are not there
    assert b"demo: Is it ?]0;mine? ? 2?\n" in command.stdout
    data = write_study(house.path / "data", rounds=1)
    card = read_study_card(data / "raw/study=synthetic")
    write_study_card(data / "raw/study=synthetic", card.model_copy(update={"base": "\x1b[2Jmy1"}))
    shown = rqps("show", "synthetic", cwd=house.path)
    assert "no finished run of the base '\\x1b[2Jmy1'" in shown.stderr


def test_before_any_run_the_next_step_is_named(house: House) -> None:
    folder = house.path / "data/raw/study=synthetic"
    write_study_card(folder, synthetic.card(synthetic.Shape()))
    done = rqps("show", "synthetic", cwd=house.path)
    assert (done.returncode, "what to do: measure it first: rqps run STUDY" in done.stderr) == (1, True)
    done = rqps("pack", str(folder), cwd=house.path)
    assert (done.returncode, "what to do: rqps run synthetic\n" in done.stderr) == (1, True)


def test_a_closed_pipe_ends_it_quietly(house: House) -> None:
    house.ask(rounds=999, builds=12)  # more than a pipe holds, so that it is still writing
    command = subprocess.Popen(
        [*RQPS, "plan", "demo"], cwd=house.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.readline()
    command.stdout.close()
    assert command.stderr.read() == ""
    command.stderr.close()
    assert command.wait(timeout=240) == 141


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("report synthetic --out /proc/nowhere", "/proc/nowhere: No such file or directory"),
        ("report synthetic --out README", "README: File exists"),
        (f"report {'n' * 300}", "File name too long"),
    ],
)
def test_what_the_system_refuses_is_no_traceback(words: str, text: str, tmp_path: Path) -> None:
    write_study(tmp_path / "data", rounds=1)
    (tmp_path / "README").touch()
    done = rqps(*words.split(), cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert text in done.stderr
    assert "what to do: " in done.stderr
    assert "Traceback" not in done.stderr
