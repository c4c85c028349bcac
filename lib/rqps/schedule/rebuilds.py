"""Builds that are rebuilt at their path: a study keeps the results of all versions, and measures the newest version
together with earlier ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rqps.engines import Say, engine_of
from rqps.engines.asked import BuildSpec
from rqps.engines.sources import digest_of
from rqps.engines.sources.copies import copy_of
from rqps.errors import RqpsError
from rqps.measure.job import git_revision, member_folder
from rqps.numbers import moment
from rqps.store.manifest import CARD, BuildVersion, StudyCard, finished, read_manifest, read_study_card
from rqps.study import Run, RunsFile

Versions = tuple[BuildVersion, ...]
"""Versions of builds on one host; the versions of one build are in order, oldest first."""
CMAKE_CACHE, CMAKE_SOURCE = "CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL="


@dataclass(frozen=True)
class Rebuilt:
    """A build whose binary differs from the binary that was measured last."""

    last: BuildVersion
    digest: str

    def __str__(self) -> str:
        last, program = self.last, Path(self.last.program)
        at = moment(program.stat().st_mtime)
        was = f"had {last.digest[:12]} when it was measured as {last.name}"
        return f"{last.build} was rebuilt ({at}): {program} has sha256 {self.digest[:12]}, and {was}"


def known_versions(folder: Path, runs_file: RunsFile, study: str, host: str) -> Versions:
    """The versions of a study's builds on a host, from the study's card; for a build that is not in the card, from
    the finished runs."""
    known = [version for version in _card_versions(folder) if version.host == host]
    for build, _, program in _at_their_place(runs_file, study):
        runs = [run for _, run in finished(folder) if run.build == build and run.host == host]
        if runs and not any(version.build == build for version in known):
            first = min(runs, key=lambda run: run.started_at)
            known.append(_version(build, 1, host, program, first.build_digest, first.started_at))
    return tuple(known)


def rebuilt(known: Iterable[BuildVersion]) -> tuple[Rebuilt, ...]:
    """The builds that were rebuilt since their last version was measured, except builds whose binary is missing."""
    newest = {version.build: version for version in known}
    now = ((version, digest_of(Path(version.program))) for version in newest.values())
    return tuple(Rebuilt(version, digest) for version, digest in now if digest not in ("", version.digest))


def rebuilt_since(card: StudyCard, host: str) -> tuple[Rebuilt, ...]:
    """The builds of a study that were rebuilt on a host, according to the study's card."""
    return rebuilt(version for version in card.builds if version.host == host)


def refuse_another_program(folder: Path, run: Run, measured: Path) -> None:
    """Refuses a run that was just measured if its binary differs from the binary of earlier runs."""
    for member in run.members:
        if member.build_spec.moves or member.build_spec.made_from is not None:
            now = read_manifest(member_folder(measured, member)).build_digest
            before = {
                one.build_digest
                for _, one in finished(folder)
                if (one.build, one.host, one.layout) == (member.build, run.host, member.layout)
            }
            if other := sorted(before - {now}):
                raise RqpsError(
                    f"{member.build} was rebuilt on {run.host}: its binary has sha256 {now[:12]}, and had "
                    f"{other[0][:12]} in earlier runs of {run.study}",
                    fix="give the current build another name in runs.yaml, or measure all dbms again: "
                    f"rqps run {run.study} --archive",
                )


def refusal(study: str, changed: Iterable[Rebuilt]) -> RqpsError:
    """The error that names the rebuilt builds and the options to measure them."""
    return RqpsError(
        f"{study}: " + "; ".join(map(str, changed)),
        fix=f"rqps run {study} --rebuilt measures the current build together with the earlier version; "
        "--archive sets the earlier results aside",
    )


def next_versions(
    known: Versions, folder: Path, runs_file: RunsFile, study: str, host: str, note: str = ""
) -> Versions:
    """The versions of a study's builds, with a further version for each build whose binary has changed.

    A version that no run has measured is replaced by the next version, except for the first version of a `rqps try`:
    the copy of that version is the base, which is measured together with the next version.
    """
    versions, measured = list(known), {run.build for _, run in finished(folder) if run.host == host}
    of_tries = runs_file.studies[study].against is not None
    for build, _, program in _at_their_place(runs_file, study):
        last = next((version for version in reversed(versions) if version.build == build), None)
        digest = digest_of(program)
        if last and last.digest == digest:
            if note:
                versions[versions.index(last)] = last.model_copy(update={"note": note})
            continue
        if last and last.name not in measured and not (of_tries and last.number == 1):
            versions.remove(last)
            number = last.number
        else:
            number = last.number + 1 if last else 1
        versions.append(_version(build, number, host, program, digest, datetime.now(UTC), note))
    return tuple(versions)


def with_versions(runs_file: RunsFile, study: str, versions: Versions) -> RunsFile:
    """Adds the versions of a study's builds to the builds and the dbms of `runs_file`. Earlier versions of a build
    are measured from copies of their binaries."""
    spec, builds = runs_file.studies[study], dict(runs_file.builds)
    names: dict[str, list[str]] = {}
    for version in versions:
        names.setdefault(version.build, []).append(version.name)
        if version.build in runs_file.builds:
            builds[version.name] = runs_file.builds[version.build]
    newest = {of_build[-1] for of_build in names.values()}
    for version in versions:
        copy = copy_of(version.digest)
        if version.name not in newest and version.name in builds and copy.is_dir():
            builds[version.name] = builds[version.name].copied_to(copy)
    dbms: list[str] = []
    earlier: dict[str, tuple[str, ...]] = {}
    for name in spec.dbms:
        build, config = spec.named[name]
        of_config = [f"{one}.{config}" for one in names.get(build, [build])]
        dbms += of_config
        if len(of_config) > 1:
            earlier[of_config[-1]] = tuple(reversed(of_config[:-1]))
    return runs_file.with_study(study, {"dbms": tuple(dict.fromkeys(dbms)), "earlier": earlier}, builds=builds)


def refuse_unmeasurable(runs_file: RunsFile, study: str) -> None:
    """Refuses a study in which one round can't measure the newest version of a build together with the versions that
    it is compared with."""
    spec = runs_file.studies[study]
    base = runs_file.builds[spec.named[spec.base].build]
    if spec.earlier and not spec.duet:
        raise RqpsError(
            f"{study}: a build was rebuilt, and the dbms of this study are measured one after the other, hours apart",
            fix=f"rqps run {study} --archive measures all dbms again; or set `method: duet` in the study",
        )
    if any(spec.base in others for others in spec.earlier.values()) and not base.copied:
        raise RqpsError(
            f"{study}: the base {spec.base} was rebuilt, and there is no copy of the measured version",
            fix=f"rqps run {study} --archive measures all dbms again",
        )


def copy_newest(runs_file: RunsFile, study: str, versions: Versions, say: Say) -> None:
    """Copies the current builds, to measure them again when the next version has replaced them."""
    digests = {version.build: version.digest for version in versions}
    for build, spec, _ in _at_their_place(runs_file, study):
        if spec.source == "path" and not copy_of(digests[build]).is_dir():
            try:
                engine_of(spec).source(build, spec).copy(digests[build])
            except RqpsError as error:
                say(f"{build}: no copy is kept for a comparison with the next version: {error}")


def moving(runs_file: RunsFile, study: str) -> tuple[str, ...]:
    """The builds of a study whose binary may be replaced at any time."""
    return tuple(build for build in runs_file.studies[study].builds if runs_file.builds[build].moves)


def _at_their_place(runs_file: RunsFile, study: str) -> Iterator[tuple[str, BuildSpec, Path]]:
    """Yields the existing builds of a study that may be rebuilt, with their binaries. Yields nothing for a study with
    hosts: builds on a host are checked after each run there."""
    if runs_file.studies[study].hosts:
        return
    for build in runs_file.studies[study].builds:
        spec = runs_file.builds[build]
        if spec.moves and not spec.copied and (program := engine_of(spec).source(build, spec).program):
            yield build, spec, program


def _card_versions(folder: Path) -> Versions:
    return read_study_card(folder).builds if (folder / CARD).is_file() else ()


def _version(
    build: str, number: int, host: str, program: Path, digest: str, since: datetime, note: str = ""
) -> BuildVersion:
    name = build if number == 1 else f"{build}@{number}"
    return BuildVersion(
        build=build,
        number=number,
        name=name,
        host=host,
        program=str(program),
        digest=digest,
        since=since,
        revision=source_revision(program),
        note=note,
    )


def source_revision(program: Path) -> str | None:
    """The git commit of the source tree in which, or from which, a binary was built."""
    for folder in program.resolve().parents:
        if (cache := folder / CMAKE_CACHE).is_file():
            lines = cache.read_text(encoding="utf-8", errors="replace").splitlines()
            source = next((line.removeprefix(CMAKE_SOURCE) for line in lines if line.startswith(CMAKE_SOURCE)), "")
            return git_revision(Path(source)) if source else None
    return git_revision(program.parent)
