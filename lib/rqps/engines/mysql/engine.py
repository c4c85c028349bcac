"""The MySQL engine: translates a config into the options of the build's version, and starts the server with them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rqps.engines import Counted, Say, Start, Watch
from rqps.engines.asked import Asked
from rqps.engines.mysql import events
from rqps.engines.mysql.build import Build, locate, source
from rqps.engines.mysql.data import Origin, origin_of, reread_redo_files
from rqps.engines.mysql.instance import Server, start
from rqps.engines.mysql.options import canonical, mismatches, translate
from rqps.engines.mysql.perf_schema import absent
from rqps.engines.mysql.reports import read_settings, read_variables, schema_rows
from rqps.engines.mysql.scenario import Realised, realise, refuse_too_large
from rqps.engines.preparation import Translated
from rqps.engines.sources.programs import allocator_library, refuse_allocator, refuse_here
from rqps.errors import RqpsError

counted = Counted("dispatch_command(*)", "connection")
"""The function that serves a client's command. The bracket in the pattern excludes `dispatch_command.cold`, a part
that the compiler split off from the function. If the pattern also matched this part, counting would stop at the end
of the part, in the middle of the command."""
BUFFER_POOL = "innodb_buffer_pool_size"
USUAL_BUFFER_POOL_BYTES = 128 << 20
BESIDE_IT_BYTES = 400 << 20
"""The approximate memory of a server without its buffer pool: performance schema, connections, program."""


def memory_bytes(asked: Asked) -> int:
    option = asked.options.get(BUFFER_POOL)
    pool = canonical(option.value) if option else ""
    return BESIDE_IT_BYTES + (int(pool) if pool.isdecimal() else USUAL_BUFFER_POOL_BYTES)


def foresee(asked: Asked) -> None:
    """Raises the errors of `prepare` that can be found without fetching or starting a server: a directory without a
    server, an unknown allocator, or an option that the version does not have. The options of a version are known once
    one of its servers has run on this machine; until then, an option is an error only if no server that has run here,
    of any version, has it."""
    origin = source(asked.build, asked.build_spec)
    refuse_here(asked, origin, locate)
    if "malloc" in asked.options:
        refuse_allocator(str(asked.options["malloc"].value))
    reports, version = Origin.known_before(origin.version or asked.build_spec.version)
    if variables := {name: value for known in reports for name, value in known.variables.items()}:
        translate(asked.options, variables, dbms=asked.dbms, version=version)


def prepare(asked: Asked, say: Say) -> "PreparedServer":
    """Prepares the dbms of a run: fetches its build if needed, and translates its config for the build's version."""
    build = locate(asked.build, asked.build_spec, say)
    origin = origin_of(build, asked.options)
    has = origin.known(say)
    malloc = asked.options.get("malloc")
    allocator = (str(malloc.value), allocator_library(str(malloc.value), say)) if malloc else None
    translated = translate(asked.options, has.variables, dbms=asked.dbms, version=build.version)
    scenario = None
    if asked.scenario is not None:
        if reason := absent(build.version, asked.scenario):
            raise RqpsError(
                f"{asked.dbms}: the scenario {asked.scenario.name} is not in this version: {reason}",
                fix=f'write mysql: "{build.version}" beside the source of {asked.build!r}, to skip these runs',
            )
        scenario = realise(asked.scenario, build, has, config=asked.config)
        refuse_too_large(translated.expected, has, asked.dbms)
        translated = replace(translated, arguments=(*translated.arguments, *scenario.arguments))
    return PreparedServer(asked.dbms, asked.config, build, origin, translated, scenario, allocator)


@dataclass(frozen=True)
class PreparedServer:
    """A dbms whose build is on this machine and whose config is translated for the build's version."""

    dbms: str
    config: str
    build: Build
    origin: Origin
    translated: Translated
    scenario: Realised | None
    allocator: tuple[str, Path] | None = None
    """The memory allocator that the config asks for in place of the build's own: its name and its library."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options with the values that the server has to report. The scenario and the allocator are listed as if
        they were options."""
        scenario = {"perf_schema": self.scenario.scenario.name} if self.scenario else {}
        malloc = {"malloc": self.allocator[0]} if self.allocator else {}
        return {**self.translated.expected, **scenario, **malloc}

    @property
    def in_words(self) -> Mapping[str, str]:
        scenario = self.scenario.in_words if self.scenario else "as its options set it"
        left_out = ", ".join(self.translated.left_out)
        return {"options left out": left_out or "none", "performance schema": scenario}

    def loaded(self, name: str, load: Callable[[Server], None], say: Say) -> Path:
        return self.origin.loaded(name, load, say)

    def open(self, directory: Path, asked: Start) -> "MeasuredServer":
        preload = ("/usr/bin/env", f"LD_PRELOAD={self.allocator[1]}") if self.allocator else ()
        asked = replace(asked, under=(*preload, *asked.under))
        server = start(self.build, directory, asked, self.translated.arguments)
        reread_redo_files(directory)
        return MeasuredServer(**vars(server), prepared=self)


prepared = PreparedServer


@dataclass(frozen=True, kw_only=True)
class MeasuredServer(Server):
    """The server of a run. Its settings are compared with the config at the start, and the settings of the
    performance schema also before and after each step."""

    prepared: PreparedServer

    @property
    def name(self) -> str:
        return self.prepared.dbms

    @property
    def version(self) -> str:
        return self._variable("version")

    @property
    def version_comment(self) -> str:
        return self._variable("version_comment")

    def verify(self) -> list[tuple[str, str, str]]:
        asked, version = self.prepared.translated.expected, self.build.version
        with closing(self.connect()) as connection:
            reported = read_variables(connection)
        wrong = mismatches(asked, reported)
        if not reported["version"].startswith(version):
            wrong.insert(0, f"version: asked for {version}, the server has {reported['version']}")
        self.refuse(wrong, self.prepared.config)
        verified = [(name, value, reported[name]) for name, value in asked.items()]
        verified += [self._verified_allocator(*self.prepared.allocator)] if self.prepared.allocator else []
        if self.prepared.scenario is None:
            return verified
        with events.unrecorded(self) as connection:
            return [*verified, *events.set_up(connection, self.prepared.scenario, self.prepared.dbms)]

    def _verified_allocator(self, name: str, library: Path) -> tuple[str, str, str]:
        """Verifies that the server's process has mapped the allocator's library; returns a row for `verify`."""
        maps = Path(f"/proc/{self.pid}/maps").read_text()
        if str(library) not in maps:
            raise RqpsError(
                f"{self.prepared.dbms}: malloc: {name}: the server has not loaded {library}",
                fix=f"see the loader's message in {self.error_log}; take another library for this build",
            )
        return "malloc", name, name

    def settings(self) -> list[dict[str, Any]]:
        with closing(self.connect()) as connection:
            return read_settings(connection)

    def thread_names(self) -> dict[int, str]:
        """Maps the operating system's thread ids to the performance schema's names of the threads. Empty before 5.7,
        whose performance schema does not know these ids."""
        with closing(self.connect()) as connection:
            rows = schema_rows(connection, "threads")
        return {int(row["thread_os_id"]): str(row["name"]) for row in rows if row.get("thread_os_id")}

    @contextmanager
    def watching(self, step: str) -> Iterator[Watch]:
        """A watch that verifies the scenario before and after the step, over a connection whose events are not
        recorded."""
        scenario = self.prepared.scenario
        with events.unrecorded(self) if scenario else closing(self.connect()) as connection:
            yield events.StepWatch(connection, scenario, step, self)

    def _variable(self, name: str) -> str:
        with closing(self.connect()) as connection:
            return read_variables(connection, name).get(name, "")
