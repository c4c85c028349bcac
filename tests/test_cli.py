"""The command: what it prints, where, and with which exit code."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from house import House
from rqps.overview import status_text, summary
from rqps.run.state import this_host
from synthetic import write_study

COMMANDS = ("doctor", "servers", "plan", "run", "status", "report")
RQPS = (sys.executable, "-m", "rqps.cli")


def rqps(*words: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    env = {key: value for key, value in os.environ.items() if key != "RQPS_DATA"} | environment
    return subprocess.run([*RQPS, *words], cwd=cwd, env=env, text=True, capture_output=True, timeout=120, check=False)


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
    assert all(f"\n    {command} " in done.stderr for command in COMMANDS)
    assert not {"pydantic", "polars", "papermill", "yaml", "altair"} & set(done.stdout.split())


def test_no_words_at_all_are_bad_input(tmp_path: Path) -> None:
    assert rqps(cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan dmo", "unknown study 'dmo'; did you mean 'demo'?"),
        ("run dmo", "unknown study 'dmo'; did you mean 'demo'?"),
        ("status dmo", "unknown study 'dmo'; did you mean 'demo'?"),
        ("run demo --rounds 2", "2 rounds asked for, and the study has 1"),
        ("plan demo --rounds 0", "0 rounds asked for, and the study has 1"),
        ("plan demo --rounds many", "argument --rounds: invalid int value: 'many'"),
        ("run demo --budget 30m", "demo: a budget is for duets, and its dbms are measured one after the other"),
        ("run demo --budget 30m --rounds 1", "--rounds and --budget are two ways to say how long"),
        ("plan", "the following arguments are required: STUDY"),
        ("plan demo --data nowhere", "nowhere: there is no such data folder"),
        ("plan demo --runs-yaml none.yaml", "none.yaml: can't be read: No such file"),
        ("report demo", "there is no study 'demo'"),
        ("servers fetch", "fetch takes the name of one build or version"),
        ("servers fetch my3", "unknown build 'my3'; did you mean"),
        ("servers list my1", "list takes none"),
        ("rnu demo", "invalid choice: 'rnu'"),
        ("run demo --archve", "unrecognized arguments: --archve"),
    ],
)
def test_bad_input_is_reported_on_stderr_with_exit_code_2(words: str, said: str, house: House) -> None:
    (house.path / "data").mkdir()
    done = rqps(*words.split(), cwd=house.path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_version_that_nobody_has_is_bad_input(command: str, house: House) -> None:
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("{path: /nowhere/my2}", '{mysql: "5.7.44"}'))
    done = rqps(command, "demo", cwd=house.path)
    assert done.returncode == 2
    assert "builds.my2: mysql 5.7.44 is not in the catalogue" in done.stderr


def test_mistakes_in_runs_yaml_are_all_printed_as_file_line_and_path(house: House) -> None:
    file = house.path / "runs.yaml"
    file.write_text(file.read_text().replace("rounds: 1", "rounds: 0").replace("point-query", "point-quary"))
    done = rqps("plan", "demo", cwd=house.path)
    assert done.returncode == 2
    assert [line.rpartition(": ")[0] for line in done.stderr.splitlines()] == [
        "runs.yaml:13: studies.demo.rounds",
        "runs.yaml:16: studies.demo.parameters.steps[0]",
    ]


def test_plan_shows_order_options_and_time_and_writes_nothing(house: House) -> None:
    house.ask(rounds=3, seconds=30)
    done = rqps("plan", "demo", cwd=house.path)
    assert done.returncode == 0
    assert f"2 dbms × 3 rounds = 6 runs on {this_host()}; base is my1.base" in done.stdout
    assert "sysbench: point-query\n  tables 1, table_rows 100000, " in done.stdout
    assert "threads 1, seconds 30" in done.stdout
    assert "  my1.base, my2.base:\n    max_connections = 100\n" in done.stdout
    for round_ in (1, 2, 3):
        line = next(line for line in done.stdout.splitlines() if line.startswith(f"  round {round_} "))
        assert sorted(line.split()[2:]) == ["my1.base", "my2.base"]
    assert "demo: 6 runs, 6 missing\n  about 4 min 0 s for what is not done, 3 min 0 s of it" in done.stdout
    assert not (house.path / "data").exists()


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
    done = rqps("doctor", cwd=tmp_path)
    assert done.returncode == int("Fix this first" in done.stdout)
    assert "  disk, data: " in done.stdout


def test_the_catalogue_is_listed_without_any_runs_yaml(tmp_path: Path) -> None:
    done = rqps("servers", cwd=tmp_path, RQPS_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["NAME", "VERSION", "FETCHED", "SIZE", "SOURCE"]
    assert {"5.5.34", "5.6.14", "5.6.24", "8.0.33", "9.7"} <= {row[0] for row in rows}
    assert {row[2] for row in rows} == {"no"}


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
        _, words = command.communicate(timeout=60)
    assert command.returncode == 130
    assert words.splitlines()[-1] == "stopped"
    assert "Traceback" not in words


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
    assert command.wait(timeout=60) == 141


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("report synthetic --out /proc/nowhere", "/proc/nowhere: No such file or directory"),
        ("report synthetic --out README", "README: File exists"),
        (f"report {'n' * 300}", "File name too long"),
    ],
)
def test_what_the_system_refuses_is_no_traceback(words: str, said: str, tmp_path: Path) -> None:
    write_study(tmp_path / "data", rounds=1)
    (tmp_path / "README").touch()
    done = rqps(*words.split(), cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "what to do: " in done.stderr
    assert "Traceback" not in done.stderr
