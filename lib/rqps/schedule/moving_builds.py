"""Watches a build: measures it whenever its binary was replaced, and names the steps that changed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated

import polars as pl
from pydantic import Field, ValidationError

from rqps.engines import Say, Strict, engine_of
from rqps.errors import RqpsError
from rqps.schedule import rebuilds, tries
from rqps.schedule.commits import Checkout
from rqps.schedule.run_study import Runner, run_study
from rqps.schedule.state import StudyFolder, this_host
from rqps.stats import watched
from rqps.store.read import load
from rqps.store.write import write_text
from rqps.study import ROUNDS_FOR_A_VERDICT, RunsFile, StudySpec, study_of
from rqps.study.document import Problem, all_at_once, parse, read_text

FILE = "acknowledged.yaml"
"""The file beside runs.yaml with the acknowledged changes."""
HEAD = "# Changes that rqps watch has named and somebody has acknowledged.\n"
MOVING = "path: DIRECTORY, on_path: true, debian: PACKAGE, maven: with LATEST as its version, npm: NAME@latest"


class Acknowledged(Strict):
    """A change that a user knows and accepts."""

    study: str
    build: str
    """The first version of the build with the change, such as `mine@7`."""
    step: str
    """The step that changed, or a pattern such as `read-*`."""
    remark: Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Watch:
    """Watches a study in which some builds are rebuilt from time to time at the same path."""

    runs_file: RunsFile
    study: str
    file: Path
    """The file with the acknowledged changes."""
    data: Path

    @cached_property
    def acknowledged(self) -> tuple[Acknowledged, ...]:
        return read_acknowledged(self.file)

    def install(self, checkout: Checkout, branch: str) -> str:
        """Installs the newest commit of a branch at the path of the watched build; returns the commit's title."""
        specs = [self.runs_file.builds[build] for build in rebuilds.moving(self.runs_file, self.study)]
        paths = [Path(str(spec.path)).expanduser() for spec in specs if spec.path]
        if len(paths) != 1:
            what = f"{self.study}: {len(paths)} of its builds have a path"
            raise RqpsError(
                what, fix="watch a study with exactly one build at a path; the branch is installed at that path"
            )
        return checkout.install_newest(branch, paths[0])

    def measure(self, runner: Runner, note: str, say: Say) -> int:
        """Measures the newest version of each watched build on a new occasion and, if a step may have changed, on a
        second occasion with newly loaded tables. Returns the exit code.

        After an interruption, the same occasion is continued, and its finished rounds count.
        """
        with runner.measuring(self.study):  # so that no build is replaced while another process measures the study
            for build in rebuilds.moving(self.runs_file, self.study):
                spec = self.runs_file.builds[build]
                engine_of(spec).source(build, spec).renew(build, say)
        if tries.is_first(self.runs_file, self.study, self.data, note, say):
            say(f"{self.study}: the current build is copied, as the base; it is measured once it is replaced")
            return 0
        code = self._measure(runner, note, another=self._is_new())
        suspected = self.changes().filter(state="suspected") if not code else None
        if suspected is None or suspected.is_empty():
            return code
        steps = ", ".join(suspected["step"].unique(maintain_order=True))
        say(f"{self.study}: {steps} may have changed; measuring again with newly loaded tables")
        return self._measure(runner, note, another=True)

    def _measure(self, runner: Runner, note: str, *, another: bool) -> int:
        how = {"rebuilt": True, "note": note, "another": another}
        return run_study(self.runs_file, self.study, data=self.data, runner=runner, **how)  # type: ignore[arg-type]

    def _is_new(self) -> bool:
        """True if the study has duets, but none with the newest versions of all rebuilt builds: a new occasion then
        begins."""
        folder, host = StudyFolder.of(self.data, self.study), this_host()
        known = rebuilds.known_versions(folder.path, self.runs_file, self.study, host)
        versions = rebuilds.next_versions(known, folder.path, self.runs_file, self.study, host)
        newest = set(rebuilds.with_versions(self.runs_file, self.study, versions).studies[self.study].earlier)
        duets = folder.measured(host).duets.values()
        return bool(duets) and not any(newest <= set(duet.sides) for duet in duets)

    def changes(self) -> pl.DataFrame:
        """All differences that `stats.watched` finds, with the `remark` of acknowledged ones."""
        study = load(self.study, self.data)
        build_of = {version.name: version.build for version in study.card.builds}
        steps = study.steps["step"].unique(maintain_order=True).to_list()
        mine = [one for one in self.acknowledged if one.study == self.study and one.build in build_of]
        known = {
            (build_of[one.build], one.build, step): one.remark
            for one in sorted(mine, key=lambda one: [*build_of].index(one.build))
            for step in steps
            if fnmatchcase(step, one.step)
        }
        seen = watched(study, {(build, step): version for build, version, step in known})
        schema = {"build": pl.String, "step": pl.String, "remark": pl.String}
        remarks = pl.DataFrame(
            [(version, step, remark) for (_, version, step), remark in known.items()], schema, orient="row"
        )
        return seen.join(remarks, on=["build", "step"], how="left", maintain_order="left")

    def open(self) -> pl.DataFrame:
        """The unacknowledged changes. If a build has an unacknowledged change against the version before in a step
        and metric, its change against the base in that step and metric is left out."""
        changes = self.changes().filter(pl.col("remark").is_null(), state="changed")
        alone = changes.filter(against="last").select("build_of", "step", "metric")
        added_up = changes.filter(against="base").join(alone, on=alone.columns, how="anti")
        return pl.concat([changes.filter(against="last"), added_up])

    def acknowledge(self, steps: Sequence[str], remark: str) -> str:
        """Adds the unacknowledged changes of these steps to the file of acknowledged changes; returns, in words, the
        added changes."""
        rows = self.open().select("build", "step").unique(maintain_order=True)
        named = [row for row in rows.to_dicts() if any(fnmatchcase(row["step"], step) for step in steps)]
        if not named:
            known = ", ".join(rows["step"].unique(maintain_order=True)) or "none"
            fix = f"name one of: {known}" if rows.height else f"see the comparisons: rqps show {self.study}"
            raise RqpsError(f"{self.study}: no open change of {', '.join(steps)}", fix=fix)
        entries = [{"study": self.study, **row, "remark": remark} for row in named]
        before = read_text(self.file) if self.file.is_file() else HEAD
        # JSON is valid YAML with all strings in quotes, so that no string is read as a number or a boolean.
        lines = [f"- {json.dumps(entry, ensure_ascii=False)}\n" for entry in entries]
        write_text(self.file, before + "\n" * (not before.endswith("\n")) + "".join(lines))
        return "\n".join(f"{self.file}: {row['step']} of {row['build']} is acknowledged" for row in named)


def watch_of(runs_file: RunsFile, study: str, file: Path, data: Path) -> Watch:
    """The watch of a study. Refuses a study without a fixed number of at least 4 rounds, with hosts, without duets,
    or in which no build can get a new version."""
    spec = study_of(runs_file, study)
    if refused := _refusal(runs_file, study, spec):
        what, fix = refused
        raise RqpsError(f"{study}: {what}", fix=fix)
    once = spec.model_copy(update={"occasions": 1})  # `measure` begins a new occasion for each version
    watch = Watch(runs_file.model_copy(update={"studies": {**runs_file.studies, study: once}}), study, file, data)
    _ = watch.acknowledged
    return watch


def _refusal(runs_file: RunsFile, study: str, spec: StudySpec) -> tuple[str, str] | None:
    if spec.budget is not None or not spec.rounds or spec.rounds < ROUNDS_FOR_A_VERDICT:
        fewest = f"rounds: {ROUNDS_FOR_A_VERDICT}"
        return "a watch needs a number of rounds, and verdicts need at least 4", f"write {fewest} or more, no budget"
    if spec.hosts:
        return "a host has its own builds, which only a watch on this host can see", "run rqps watch on the host"
    if spec.method == "rounds" or spec.parameters.not_sliced:
        return "its dbms are measured one after the other, but a watch needs duets", "set `method: duet` in the study"
    if not rebuilds.moving(runs_file, study):
        return "none of its builds can be replaced", f"give a build that is rebuilt or renewed: {MOVING}"
    return None


def read_acknowledged(file: Path) -> tuple[Acknowledged, ...]:
    """The acknowledged changes of a file; empty without a file. Raises an RqpsError that lists all mistakes."""
    if not file.is_file():
        return ()
    document = parse(read_text(file))
    problems, entries = list(document.problems), []
    values = document.value if isinstance(document.value, list) else [document.value]
    for at, value in enumerate(values if document.value is not None else ()):
        try:
            entries.append(Acknowledged.model_validate(value))
        except ValidationError as error:
            problems += [Problem((at, *detail["loc"]), detail["msg"]) for detail in error.errors()]
    if problems:
        example = '- {study: nightly, build: mine@7, step: point-query, remark: "checks each page"}'
        raise RqpsError(all_at_once(str(file), problems, document).message, fix=f"write entries such as {example}")
    return tuple(entries)
