"""A runs.yaml with too much of something, of depth, values, digits or letters, gets an error and not our time."""

import subprocess
import sys
from pathlib import Path

import pytest
from rqps.study.document import DEEPEST, LONGEST_PROBLEM, MOST_BYTES, MOST_PROBLEMS, parse
from rqps.study.mistakes import LONGEST_CHAIN
from rqps.study.runs_file import LONGEST_NAME
from test_runs_yaml import GOOD, changed, read, refusal

MOST_CPU_S, MOST_BYTES_OF_MEMORY = 60, 500_000_000
"""For a whole command with all its libraries, where an expanded alias would take for ever, or all memory. The seconds
that it does take are in benchmarks/README.md."""


def planned(file: Path) -> str:
    """The words of `rqps plan` on a file, which has a limit of CPU time and memory."""
    limited = ["prlimit", f"--cpu={MOST_CPU_S}", f"--data={MOST_BYTES_OF_MEMORY}"]
    command = [*limited, sys.executable, "-m", "rqps.cli", "plan", "demo", "--runs-yaml", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 2 * MOST_PROBLEMS * LONGEST_PROBLEM
    return done.stderr


BOMBS = {
    "nine levels of nine aliases": "\n".join(
        ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    ),
    "forty chained mappings": "\n".join(
        ["c0: &c0 {x: 1}"] + [f"c{n}: &c{n} {{p: *c{n - 1}, q: *c{n - 1}}}" for n in range(1, 41)]
    ),
    "nested 600 deep": "a: " + "[" * 600 + "]" * 600,
    "nested 100,000 deep, and never closed": "[" * 100_000,
    "indented 600 deep": "\n".join(" " * n + "a:" for n in range(600)),
    "a number of 5,000 digits": changed("rounds: 6", f"rounds: {'9' * 5000}"),
    "5,000 digits in another base": changed("rounds: 6", f"rounds: 0x{'f' * 5000}"),
    "larger than any number": changed("rounds: 6", "rounds: 1.0e+999"),
    "a number that is none": changed("1G", ".nan"),
    "a key of 100,000 letters": changed("rounds: 6", f"{'r' * 100_000}: 6"),
    "10,000 studies": GOOD + "".join(f"  s{n}: {{extends: demo}}\n" for n in range(10_000)),
    "4,000 mistakes": GOOD + "".join(f"  s{n}: {{extends: nothing{n}}}\n" for n in range(4_000)),
    "4,000 studies in a row": GOOD + "".join(f"  s{n}: {{extends: s{n + 1}}}\n" for n in range(4_000)),
    "2,000 steps": changed("steps: [", f"steps: [{'point-qery, ' * 2_000}"),
    "900 steps": changed("steps: [", f"steps: [{'point-qery, ' * 900}"),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_file_that_stands_for_too_much_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "runs.yaml").write_text(BOMBS[kind])
    assert f"{tmp_path}/runs.yaml:" in planned(tmp_path / "runs.yaml")


def test_ten_megabytes_and_a_file_without_an_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.yaml").write_text(GOOD + f"# {'x' * 10 * MOST_BYTES}\n")
    for file in (tmp_path / "runs.yaml", Path("/dev/zero")):
        assert f"{file}: is larger than 1 MB" in planned(file)


def test_an_alias_may_be_used_as_often_as_people_do(tmp_path: Path) -> None:
    studies = "".join(f"  s{n}: {{extends: demo, parameters: *p}}\n" for n in range(100))
    text = changed("parameters: {steps", "parameters: &p {steps")
    assert len(read(text + studies, tmp_path).studies) == 101
    assert parse("[" * DEEPEST + "]" * DEEPEST).problems == []


@pytest.mark.parametrize("old", ["  new:", "  ps0:", "  demo:"])
def test_a_name_has_to_fit_in_every_folder_made_of_it(tmp_path: Path, old: str) -> None:
    (line,) = [one for one in refusal(changed(old, f"  {'n' * 247}:"), tmp_path) if "characters" in one]
    assert line.endswith("has 247 characters; 76 are the most that fit in a folder's name")


def test_the_longest_names_fit(tmp_path: Path) -> None:
    name = "n" * LONGEST_NAME
    for made in (f"study={name}.until-20260105-120000", f".run=r001@{name}.{name}@{'h' * 64}.partial"):
        (tmp_path / made).mkdir()


def test_a_chain_of_studies_has_an_end(tmp_path: Path) -> None:
    rows = [f"  s{n}: {{extends: {f's{n - 1}' if n else 'demo'}}}\n" for n in range(LONGEST_CHAIN)]
    assert read(GOOD + "".join(rows[:-1]), tmp_path)
    assert f"{LONGEST_CHAIN} are the most in a row" in refusal(GOOD + "".join(rows), tmp_path)[0]
