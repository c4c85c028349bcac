"""A study that takes its scenario apart: level after level, each a study of its own beside the first one.

What is in a level follows from what the one before it measured: a part that costs nothing is not taken apart. So that
base and part of a round are neighbours in time, every level measures its base anew. Where instructions are counted,
they decide: what is below a kind is too small for time to show, and has one round for its events alone. Configs and
studies of the levels are written beside the first level's data.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rqps.profile.instructions import instructions_per_operation
from rqps.stats.perf_schema_parts import Patterns, first_parts, next_parts
from rqps.store import load
from rqps.study import RunsFile, read_runs_file
from rqps.study.document import parse
from rqps.study.mistakes import complete
from rqps.study.perf_schema import class_of, classes
from rqps.workloads import PARAMETERS

FILE = "levels.yaml"
MOST_LEVELS = 5


def levels_file(data: Path, study: str) -> Path:
    """Where the levels of a study are written down."""
    return data / "raw" / f"study={study}" / FILE


def file_of_level(data: Path, study: str) -> Path | None:
    """The file that has a study which is a level of another one; None if it is none."""
    first = study.rpartition("-")[0]
    file = levels_file(data, first)
    return file if first and study in _levels(file, first) else None


def run_levels(
    runs_yaml: Path, study: str, data: Path, run: Callable[[RunsFile, str], int], say: Callable[[str], None]
) -> int:
    """Measures level after level with `run`, those already written down first; ends with the first that fails."""
    file = levels_file(data, study)
    code, done = 0, 0
    while not code:
        levels = _levels(file, study)
        if done == len(levels):
            added = _write_next(runs_yaml, study, data) if done < MOST_LEVELS else None
            if added is None:
                say(f"{study}: nothing is left that is shown to cost something and has parts")
                return 0
            levels = (*levels, added)
        say(f"{study}: what costs something is taken apart, as {levels[done]}")
        code = run(read_runs_file(file, PARAMETERS), levels[done])
        done += 1
    return code


def _levels(file: Path, study: str) -> tuple[str, ...]:
    """The levels that are written down, in their order."""
    if not file.is_file():
        return ()
    numbered = re.compile(rf"{re.escape(study)}-[0-9]+")
    return tuple(name for name in read_runs_file(file, PARAMETERS).studies if numbered.fullmatch(name))


def _write_next(runs_yaml: Path, study: str, data: Path) -> str | None:
    """Writes down the level that follows the last one and gives its name; None where there is nothing to put in."""
    file = levels_file(data, study)
    number = 1 + len(_levels(file, study))
    parts = _parts(read_runs_file(runs_yaml, PARAMETERS), study, number, data)
    if not parts:
        return None
    described = _described(file if file.is_file() else runs_yaml)
    first = described["studies"][study]
    build, _, config = str(first["base"]).partition(".")
    configs = dict(_config(config, patterns) for patterns in parts)
    described["configs"] |= configs
    name = f"{study}-{number}"
    described["studies"][name] = {
        **{key: value for key, value in first.items() if key not in ("take_apart", "extends")},
        **({"rounds": 1} if number > 1 and first.get("instructions_rounds") else {}),
        "dbms": [first["base"], *(f"{build}.{each}" for each in configs)],
    }
    file.write_text(_text(described), encoding="utf-8")
    return name


def _parts(runs_file: RunsFile, study: str, number: int, data: Path) -> list[Patterns]:
    """The parts that the level of that number consists of, by the measurements of the level before it."""
    spec = runs_file.studies[study]
    if number == 1:
        assert spec.take_apart is not None
        return first_parts(load(study, data), spec.take_apart)
    before = f"{study}-{number - 1}"
    counted = load(before, data, mode="instructions")
    instructions = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    return next_parts(load(before, data), spec.base, instructions)


def _config(base: str, patterns: Patterns) -> tuple[str, dict[str, Any]]:
    """A config that enables these instruments and the consumers of their kinds, and otherwise is that of the base."""
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := class_of(pattern)))
    counted = ("memory", "error")
    instruments = {each: "counted" if each.split("/")[0] in counted else "timed" for each in patterns}
    consumers = {name: True for kind in kinds for name in classes().instruments[kind].consumers}
    more = f"-and-{len(patterns) - 1}-more" if len(patterns) > 1 else ""
    name = "".join(letter if letter.isalnum() or letter == "_" else "-" for letter in patterns[0].removesuffix("/%"))
    return name + more, {"extends": base, "perf_schema": {"instruments": instruments, "consumers": consumers}}


def _described(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = parse(file.read_text(encoding="utf-8")).value
    return value | {"studies": complete(value["studies"])}


class _Dumper(yaml.SafeDumper):
    """Writes every text in quotes, so that none is taken for a number or a switch."""


_Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def _text(described: dict[str, Any]) -> str:
    return "# Written by rqps: the levels of a study that takes its scenario apart.\n" + yaml.dump(
        described, Dumper=_Dumper, sort_keys=False, width=118
    )
