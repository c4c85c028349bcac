"""The builds that a bisection searches, in order: named builds, or all versions of the catalogue between two
builds."""

from collections.abc import Sequence
from itertools import pairwise

from rqps.engines import facts_of
from rqps.engines.asked import BuildSpec
from rqps.engines.sources import catalogue
from rqps.errors import RqpsError, instead


def in_order(builds: dict[str, BuildSpec], engine: str, ends: tuple[str, str], names: Sequence[str]) -> list[str]:
    """The names of the builds from the good end to the bad one. Releases that are only in the catalogue are added to
    `builds`."""
    ordered = [_added(builds, engine, name) for name in (ends[0], *names, ends[1])]
    if ordered[0] == ordered[-1]:
        raise RqpsError(f"{ends[0]} and {ends[1]} are the same build", fix="name two ends: --good NAME --bad NAME")
    if not names:
        ordered = [ordered[0], *_between(builds, engine, ordered[0], ordered[-1]), ordered[-1]]
    _refuse_disorder(builds, ordered)
    return ordered


def _added(builds: dict[str, BuildSpec], engine: str, name: str) -> str:
    """Returns the name of a build in `builds`: `name` itself or, if `name` is a version, the build of this version.
    If no build has this version, adds a build that rqps fetches by the catalogue."""
    if name in builds:
        return name
    known = {spec.version: other for other, spec in builds.items() if spec.engine == engine and spec.source is None}
    if name in known:
        return known[name]
    if name not in catalogue(engine):
        near = instead(name, [*builds, *catalogue(engine)], "builds and versions")
        fix = "name a build of runs.yaml, or a version that `rqps servers list` has"
        raise RqpsError(f"{name!r} is neither a build nor a version of {facts_of(engine).title}; {near}", fix=fix)
    new = f"v{name.replace('.', '-')}"
    builds[new] = BuildSpec.model_validate({engine: name})
    return new


def _number(spec: BuildSpec) -> tuple[int, ...]:
    return tuple(int(part) for part in (spec.version or "").split(".") if part)


def _between(builds: dict[str, BuildSpec], engine: str, good: str, bad: str) -> list[str]:
    """The versions of the catalogue between two builds, from the good one to the bad one."""
    numbers = {name: _number(builds[name]) for name in (good, bad)}
    if unknown := [name for name, number in numbers.items() if not number]:
        fix = "name all builds in order: --builds NAME NAME …"
        what = f"{unknown[0]} has no version in runs.yaml, so its place in the catalogue is unknown"
        raise RqpsError(what, fix=fix)
    low, high = sorted(numbers.values())
    versions = {version: tuple(map(int, version.split("."))) for version in catalogue(engine)}
    inside = sorted((version for version in versions if low < versions[version] < high), key=versions.__getitem__)
    names = [_added(builds, engine, version) for version in inside]
    return names if numbers[good] == low else names[::-1]


def _refuse_disorder(builds: dict[str, BuildSpec], ordered: Sequence[str]) -> None:
    """Refuses a list that is not in the order of its versions, or has two builds of the same version."""
    numbered = [(number, name) for name in ordered if (number := _number(builds[name]))]
    numbers = [number for number, _ in numbered]
    for (number, name), (after, other) in pairwise(numbered):
        if number == after:
            fix = "remove one of them: a bisection needs versions in order"
            raise RqpsError(f"{name} and {other} are both version {builds[name].version}", fix=fix)
    if numbers not in (sorted(numbers), sorted(numbers, reverse=True)):
        by_version = " ".join(name for _, name in sorted(numbered))
        raise RqpsError("these builds are not in the order of their versions", fix=f"--builds in order: {by_version}")
