"""What `rqps servers` shows: the builds of a runs.yaml and of the catalogue, and which of them are here already."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rqps.engines.mysql.build import layout, remembered, source
from rqps.engines.sources import Directory, OnPath, Source
from rqps.engines.sources.catalogue import catalogue, look_up
from rqps.engines.sources.clients import size_bytes
from rqps.study import BuildSpec


@dataclass(frozen=True)
class Row:
    name: str
    version: str | None
    """As mysqld said it; as promised where it was not asked yet; None where nothing is promised."""
    source: str
    size_bytes: int | None
    """On this disk where it is here, else of what is fetched, where that is known."""
    fetched: bool


def rows(builds: Mapping[str, BuildSpec]) -> tuple[Row, ...]:
    """A row for each build of `builds`, then for each version of the catalogue."""
    return (*_rows(builds), *_rows({version: BuildSpec(mysql=version) for version in catalogue()}))


def _rows(builds: Mapping[str, BuildSpec]) -> Iterator[Row]:
    for name, spec in builds.items():
        origin = source(name, spec)
        tree = origin.present()
        found = layout(tree) if tree else None
        known = remembered(found.mysqld) if found else None
        yield Row(
            name=name,
            version=known.version if known else spec.mysql,
            source=origin.words,
            size_bytes=_size(name, spec, origin),
            fetched=found is not None,
        )


def _size(name: str, spec: BuildSpec, origin: Source) -> int | None:
    if isinstance(origin, Directory | OnPath):  # not ours, and perhaps all of /usr
        return None
    if tree := origin.present():
        return size_bytes(tree)
    return look_up(name, str(spec.mysql))[1].archive_bytes if spec.source is None else None
