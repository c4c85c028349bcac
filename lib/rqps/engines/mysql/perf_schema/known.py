"""What the performance schema of a build has, and how the release sets it: asked of the build once, and kept."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rqps.engines import Say
from rqps.engines.cache import copy_folder, made_once
from rqps.engines.mysql import data
from rqps.engines.mysql.data import Origin
from rqps.engines.mysql.instance import Connection, query, running
from rqps.engines.mysql.perf_schema.tables import read_setup
from rqps.study.perf_schema import State

FILE = "perf_schema.json"
_BYTES = re.compile(r"(?P<table>\w+)\.(.*\.)?memory")


@dataclass(frozen=True)
class Known:
    """Of a build, with its performance schema on and nothing else said."""

    instruments: Mapping[str, State] = field(default_factory=dict)
    consumers: Mapping[str, bool] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Whom and what it watches besides: rows of setup_actors, setup_objects and setup_timers, in words."""
    watches_threads: bool = False
    """Whether thread classes are switched like instruments, as they are since 8.0."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Its variables that are sizes."""
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """What its tables take at those sizes, by table."""


def known(source: Origin, say: Say) -> Known:
    """What a build has; nothing where it was compiled without a performance schema."""
    if "performance_schema" not in data.variables(source, say):
        return Known()

    def make(work: Path) -> None:
        say(f"{source.build.name}: asking what its performance schema has")
        copy_folder(source.folder / "empty" / "data", work / "data")
        arguments = ("--performance-schema=ON",)
        with running(source.build, work / "data", arguments=arguments, log=work / "asked.err") as server:
            connection = server.connect()
            (work / FILE).write_text(json.dumps(asdict(_ask(connection)), indent=1))
            connection.close()
        shutil.rmtree(work / "data")

    folder = made_once(source.folder / "perf-schema", make)
    kept = json.loads((folder / FILE).read_text())
    return Known(**{**kept, "others": tuple(kept["others"])})


def _ask(connection: Connection) -> Known:
    found = read_setup(connection)
    variables = query(connection, "SHOW GLOBAL VARIABLES LIKE 'performance_schema%'")
    return Known(
        instruments=found.instruments,
        consumers=found.consumers,
        others=found.others,
        watches_threads=bool(found.thread_classes),
        sizes={str(name).lower(): int(value) for name, value in variables if str(value).lstrip("-").isdecimal()},
        memory_bytes=dict(_memory_by_table(connection)),
    )


def _memory_by_table(connection: Connection) -> Iterator[tuple[str, int]]:
    """A table can have more than one part: its rows, and the texts of its statements."""
    by_table: dict[str, int] = {}
    for _, name, value in query(connection, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS"):
        if part := _BYTES.fullmatch(str(name)):
            by_table[part["table"]] = by_table.get(part["table"], 0) + int(value)
    yield from by_table.items()
