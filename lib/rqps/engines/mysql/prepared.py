"""A run's config in the form of its build's version, and the server that is opened with it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql

from rqps.engines import Say, Start, Watch
from rqps.engines.mysql import data, perf_schema
from rqps.engines.mysql.build import Build, locate
from rqps.engines.mysql.data import Origin
from rqps.engines.mysql.instance import Server, start
from rqps.engines.mysql.options import Translated, mismatches, translate
from rqps.engines.mysql.perf_schema import Realised
from rqps.engines.mysql.reports import read_settings, read_variables
from rqps.errors import RqpsError
from rqps.study import Run
from rqps.study.perf_schema import absent


def prepare(run: Run, say: Say) -> "PreparedServer":
    """The dbms of a run, its build fetched if need be, its config in the form of that version."""
    build = locate(run.build, run.build_spec, say)
    origin = data.origin(build, run.options)
    translated = translate(run.options, data.variables(origin, say), dbms=run.dbms, version=build.version)
    scenario = _scenario(run, origin, translated, say)
    if scenario:
        translated = replace(translated, arguments=(*translated.arguments, *scenario.arguments))
    return PreparedServer(run.dbms, run.config, build, origin, translated, scenario)


def _scenario(run: Run, origin: Origin, translated: Translated, say: Say) -> Realised | None:
    """The scenario of a run in the form of its build; RqpsError with all that the build can't do."""
    if run.perf_schema is None:
        return None
    version = origin.build.version
    if reason := absent(version, run.perf_schema):
        raise RqpsError(
            f"{run.dbms}: the scenario {run.perf_schema.name} is not in this version: {reason}",
            fix=f'write mysql: "{version}" beside the source of build {run.build!r}, and its runs are left out',
        )
    known = perf_schema.known(origin, say)
    realised = perf_schema.realise(run.perf_schema, origin.build, known, config=run.config)
    perf_schema.refuse_too_large(translated.expected, known, run.dbms)
    return realised


@dataclass(frozen=True)
class PreparedServer:
    """A dbms whose build is here, with its config in the form of that version."""

    dbms: str
    config: str
    build: Build
    origin: Origin
    translated: Translated
    scenario: Realised | None

    @property
    def options(self) -> Mapping[str, str]:
        """As the server has to report them; a scenario stands among them as if it were an option."""
        scenario = {"perf_schema": self.scenario.scenario.name} if self.scenario else {}
        return {**self.translated.expected, **scenario}

    @property
    def in_words(self) -> Mapping[str, str]:
        scenario = "as its options have it"
        if self.scenario:
            scenario = self.scenario.scenario.name
            scenario += f", set {self.scenario.by}" if self.scenario.scenario.kind == "on" else ""
        return {
            "options left out": ", ".join(self.translated.left_out) or "none",
            "performance schema": scenario,
        }

    def loaded(self, name: str, load: Callable[[Server], None], say: Say) -> Path:
        return data.loaded(self.origin, name, load, say)

    def open(self, directory: Path, asked: Start) -> "MeasuredServer":
        server = start(self.build, directory, asked, self.translated.arguments)
        return MeasuredServer(**vars(server), prepared=self)


@dataclass(frozen=True, kw_only=True)
class MeasuredServer(Server):
    """The server of a run, which has to be as its config asks and to stay so."""

    prepared: PreparedServer

    @property
    def version(self) -> str:
        return self._variable("version")

    @property
    def version_comment(self) -> str:
        return self._variable("version_comment")

    @property
    def places(self) -> Mapping[str, str]:
        return {
            str(self.data.parent): "<scratch>",
            str(self.socket.parent): "<private>",
            str(self.build.directory): "<build>",
        }

    def verify(self) -> list[tuple[str, str, str]]:
        asked, version = self.prepared.translated.expected, self.build.version
        with closing(self.connect()) as connection:
            reported = read_variables(connection)
        wrong = mismatches(asked, reported)
        if not reported["version"].startswith(version):
            wrong.insert(0, f"version: asked for {version}, the server has {reported['version']}")
        if wrong:
            raise RqpsError(
                f"{self.prepared.dbms}: the server does not have what was asked for:\n  " + "\n  ".join(wrong),
                fix=f"change config {self.prepared.config!r} in runs.yaml to what this server and host can do",
            )
        return [*((name, value, reported[name]) for name, value in asked.items()), *self._verify_scenario()]

    def _verify_scenario(self) -> list[tuple[str, str, str]]:
        """Sets what could not be set at the start, and verifies all of it."""
        asked = self.prepared.scenario
        if asked is None:
            return []
        with perf_schema.unrecorded(self) as connection:
            perf_schema.apply(connection, asked)
            found = perf_schema.verify(connection, asked, self.prepared.dbms)
        wanted, there = (perf_schema.in_short(each.instruments, each.consumers) for each in (asked, found))
        return [(what, wanted.get(what, "none"), there.get(what, "none")) for what in {**wanted, **there}]

    def settings(self) -> list[dict[str, Any]]:
        with closing(self.connect()) as connection:
            return read_settings(connection)

    @contextmanager
    def watching(self, step: str) -> Iterator[Watch]:
        """Verifies before and after the step what is set, on a connection whose events are not recorded."""
        if self.prepared.scenario is None:
            yield perf_schema.StatusWatch(self)
            return
        with perf_schema.unrecorded(self) as connection:
            yield perf_schema.Watch(self, connection, self.prepared.scenario, step)

    @contextmanager
    def explaining(self, step: str) -> Iterator[None]:
        try:
            yield
        except pymysql.err.Error:
            if self.ended(within_s=1):
                raise self.end_of(step) from None
            raise

    def _variable(self, name: str) -> str:
        with closing(self.connect()) as connection:
            return read_variables(connection, name).get(name, "")
