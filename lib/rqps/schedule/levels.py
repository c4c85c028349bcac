"""Measures the parts of a scenario level by level, each level as a study of its own.

A level splits the parts that cost something in the level before, and measures the base again. If instructions are
counted, the counts decide which parts cost something. From the second level on, costs are too small to show in
throughput, so a study that counts instructions then measures throughput in only one round.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rqps.engines import Say, Scenarios, facts_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import short_key
from rqps.errors import RqpsError
from rqps.stats.scenarios import Patterns, first_parts, next_parts
from rqps.store import load
from rqps.store.manifest import LEVELS
from rqps.store.write import write_text
from rqps.study import RunsFile, read_runs_file
from rqps.study.mistakes import complete
from rqps.study.reading import for_another_folder
from rqps.study.runs_file import LONGEST_NAME
from rqps.study.unfold import MOST_LEVELS
from rqps.workloads import PARAMETERS

NOT_OF_A_LEVEL = ("measure_parts_of",)


def levels_file(data: Path, study: str) -> Path:
    """The file with the configs and studies of all levels of a study."""
    return data / "raw" / f"study={study}" / LEVELS


def file_of_level(data: Path, study: str) -> Path | None:
    """The file that defines `study`, if it is a level of another study; otherwise None."""
    for file in sorted((data / "raw").glob(f"study=*/{LEVELS}")):
        with suppress(RqpsError):  # a file of another study, which needs a file that is gone
            spec = read_runs_file(file, PARAMETERS).studies.get(study)
            if spec and spec.level_of:
                return file
    return None


def run_levels(runs_yaml: Path, study: str, data: Path, run: Callable[[RunsFile, str], int], say: Say) -> int:
    """Measures level by level with `run`: first the levels that are in the study's `levels_file` already, then new
    ones. Stops at the first level that fails."""
    file = levels_file(data, study)
    code, done = 0, 0
    while not code:
        levels = _levels(file, study)
        if done == len(levels):
            added = _write_next(runs_yaml, study, data) if done < MOST_LEVELS else None
            if added is None:
                say(f"{study}: no part is left that costs something and can be divided")
                return 0
            levels = (*levels, added)
        say(f"{study}: the parts that cost something are divided and measured next, as {levels[done]}")
        code = run(read_runs_file(file, PARAMETERS), levels[done])
        done += 1
    return code


def _levels(file: Path, study: str) -> tuple[str, ...]:
    if not file.is_file():
        return ()
    studies = read_runs_file(file, PARAMETERS).studies
    return tuple(name for name, spec in studies.items() if spec.level_of == study)


def _write_next(runs_yaml: Path, study: str, data: Path) -> str | None:
    """Writes the study of the next level and returns its name; None if no part of the scenario is left to measure."""
    file = levels_file(data, study)
    number = 1 + len(_levels(file, study))
    source = file if file.is_file() else runs_yaml
    runs_file = read_runs_file(source, PARAMETERS)
    parts = _parts(runs_file, study, number, data)
    if not parts:
        return None
    described = for_another_folder(source)
    described["studies"] = {
        name: {key: value for key, value in asked.items() if key != "extends"}
        for name, asked in complete(described["studies"]).items()
        if study in (name, asked.get("level_of"))
    }
    first = described["studies"][study]
    spec = runs_file.studies[study]
    build, config = spec.named[spec.base]
    scenarios = facts_of(BuildSpec.model_validate(described["builds"][build]).engine).scenarios
    configs = dict(_config(config, patterns, scenarios) for patterns in parts)
    described["configs"] |= configs
    name = f"{study}-{number}"
    dbms = [spec.base, *(f"{build}.{name_of_config}" for name_of_config in configs)]
    described["studies"][name] = {
        **{key: value for key, value in first.items() if key not in NOT_OF_A_LEVEL},
        **({"rounds": 1} if number > 1 and first.get("instructions_rounds") else {}),
        "level_of": study,
        "dbms": dbms,
        "not_counted": dbms if spec.base in spec.not_counted else [],
    }
    # JSON is valid YAML with all strings in quotes, so that no string is read as a number or a boolean.
    text = json.dumps(described, indent=1, ensure_ascii=False)
    write_text(file, f"# Written by rqps: a study with a level for the parts of its scenario.\n{text}\n")
    return name


def _parts(runs_file: RunsFile, study: str, number: int, data: Path) -> list[Patterns]:
    """The groups of instruments that a level measures, chosen by the results of the level before."""
    spec = runs_file.studies[study]
    if number == 1:
        assert spec.measure_parts_of is not None
        return first_parts(load(study, data), spec.measure_parts_of)
    return next_parts(load(f"{study}-{number - 1}", data))


def _config(base: str, patterns: Patterns, scenarios: Scenarios) -> tuple[str, dict[str, Any]]:
    """The name and options of a config that extends the base's config and records only instruments that match
    `patterns`."""
    more = f"-and-{len(patterns) - 1}-more" if len(patterns) > 1 else ""
    name = "".join(letter if letter.isalnum() or letter == "_" else "-" for letter in patterns[0].removesuffix("/%"))
    name += more
    if len(name) > LONGEST_NAME:
        digest = short_key(name)
        name = f"{name[: LONGEST_NAME - len(digest) - 1]}-{digest}"
    return name, {"extends": base, scenarios.KEY: scenarios.part(patterns)}
