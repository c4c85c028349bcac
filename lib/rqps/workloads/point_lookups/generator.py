"""Runs mysqlslap, which waits before its clients start and after they have ended, so that rqps can read counters.

The same mysqlslap binary runs the load on all servers of a study. Its report gives the duration; the server's
counters give the number of queries.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from rqps.engines import engine_of
from rqps.engines.cache import sha256
from rqps.engines.mysql.instance import Server, query
from rqps.engines.sources import catalogue
from rqps.engines.sources.programs import answer_of, library_environment
from rqps.errors import RqpsError
from rqps.numbers import formatted, sized
from rqps.store.manifest import Warning_
from rqps.study import BuildSpec
from rqps.workloads import Answer, How
from rqps.workloads.load_generator import LoadGenerator, run_to_its_end
from rqps.workloads.point_lookups.steps import Step

SSL_MODE_SINCE = (5, 7, 11)
SHORTEST_REPORTED_S = 0.1
"""Minimum duration, in seconds, for which mysqlslap's whole milliseconds are exact enough. A shorter duration is
measured by the clock of rqps, and then includes the time of mysqlslap's shell commands."""
CLOCKS_DIFFER_S, CLOCKS_DIFFER_SHARE = 0.05, 0.02
"""Maximum difference between the durations that rqps and mysqlslap measure, above which there is a warning: seconds,
plus a share of the duration."""
_CSV = re.compile(r"^[^,]*,[^,]*,(\d+\.\d{3}),(\d+\.\d{3}),(\d+\.\d{3}),(\d+),(\d+)$")
_VERSION = re.compile(r"\b(?:mysqlslap|mariadb-slap)\b.*\b(?:Ver|Distrib) (\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Slap:
    """A mysqlslap binary."""

    path: Path
    version: str
    without_tls: str
    """The option that switches TLS off in this version."""
    digest: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The version and the digest, since two binaries of the same version may differ."""
        return f"{self.version} (sha256 {self.digest[:12]})"

    def argv(self, server: Server, database: str, query: str, clients: int, queries: int) -> list[str]:
        """The command line for `queries` queries per client. With it, mysqlslap creates and drops nothing.

        mysqlslap's --number-of-queries is the total, which it divides among the clients.
        """
        options = {
            "socket": server.socket,
            "user": "root",
            "create-schema": database,  # the database of the clients; mysqlslap creates it only with --create
            "concurrency": clients,
            "number-of-queries": clients * queries,
            "query": query,
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return [str(self.path), "--no-defaults", self.without_tls, "--no-drop", "--csv", *given]


@cache
def mysqlslap(asked: str) -> Slap:
    """The requested mysqlslap: a version in the catalogue, which is fetched if necessary, or a path."""
    versions = ", ".join(with_mysqlslap())
    if asked.startswith(("/", "~")):
        path = Path(asked).expanduser()
    elif asked in with_mysqlslap():
        spec = BuildSpec(mysql=asked)
        path = engine_of(spec).locate("mysqlslap", spec, print).directory / "bin/mysqlslap"
    else:
        raise RqpsError(
            f"mysqlslap: the catalogue has no mysqlslap of version {asked}",
            fix=f"give one of {versions}, or the path of a mysqlslap",
        )
    if not path.is_file():
        raise RqpsError(
            f"mysqlslap: {path} is no file", fix=f"give the path of a mysqlslap, or one of the versions {versions}"
        )
    environment = library_environment("mysqlslap", path, print)
    answer = answer_of([str(path), "--no-defaults", "--version"], environment)
    match = _VERSION.search(answer)
    if not match:
        raise RqpsError(
            f"{path} does not report its version as a mysqlslap does: {answer.strip()[-400:] or 'it prints nothing'}",
            fix=f"give the path of a mysqlslap that runs here, or one of the versions {versions}",
        )
    has_ssl_mode = tuple(map(int, match[1].split("."))) >= SSL_MODE_SINCE and "MariaDB" not in answer
    return Slap(path, match[1], "--ssl-mode=DISABLED" if has_ssl_mode else "--skip-ssl", sha256(path), environment)


def with_mysqlslap() -> list[str]:
    """The versions in the catalogue that include a mysqlslap."""
    return [version for version, entry in catalogue("mysql").items() if "bin/mysqlslap" in entry.files]


class Counted(NamedTuple):
    """Counters of the server."""

    selects: int
    """SELECT statements, including failed ones. The control connections of rqps run none."""
    refused: int
    """Refused connections. mysqlslap retries after a tenth of a second and does not report the refusal."""
    threads_ended: int
    """Threads that ended with their connections instead of being cached for new ones; their counters are lost."""


def _count(server: Server) -> Counted:
    connection = server.connect()
    names = "'^(Com_select|Aborted_connects|Threads_)'"
    counts = dict(query(connection, f"SHOW GLOBAL STATUS WHERE variable_name RLIKE {names}"))
    connection.close()
    threads_ready = int(counts["Threads_cached"]) + int(counts["Threads_connected"])
    return Counted(
        int(counts["Com_select"]), int(counts["Aborted_connects"]), int(counts["Threads_created"]) - threads_ready
    )


class Generator(LoadGenerator):
    """A running mysqlslap, which runs a shell command before its clients start and another after they have ended."""

    program = "mysqlslap"
    begins_by_itself = False

    def __init__(self, slap: Slap, server: Server, step: Step, queries: int, **how: Unpack[How]) -> None:
        """Starts mysqlslap with `queries` queries per client."""
        self.step = step
        self.queries = queries
        self.counted = _count(server)
        """The server's counters at the start of mysqlslap; after its end, their increase since then."""
        shell = ["--pre-system=echo rqps ready; read -r go", "--post-system=echo rqps ended; read -r go; true"]
        argv = [*slap.argv(server, step.database, step.kind.query, step.clients, queries), *shell]
        super().__init__((argv, slap.environment), (server,), step.name, 1, how)

    def wait_until_gone(self) -> None:
        """Waits until mysqlslap has ended without an error, and reads the number of queries from the server."""
        super().wait_until_gone()
        self.counted = Counted(*(now - then for now, then in zip(_count(self.servers[0]), self.counted, strict=True)))

    def complaints(self) -> list[str]:
        return complaints(self.lines)

    def answers(self, step: str, columns: Mapping[str, Any]) -> list[Answer]:
        """The result of a step; `columns` describe the step."""
        report, clients = read_report(self.lines), self.step.clients
        if report is None or (report.clients, report.queries) != (clients, self.queries):
            raise RqpsError(
                f"{step}: mysqlslap did not report {clients} clients with {self.queries} queries each: {report}",
                fix=f"read all of its output in {self.log.name}",
            )
        elapsed_s = self.elapsed_s if report.elapsed_s < SHORTEST_REPORTED_S else report.elapsed_s
        asked = clients * self.queries
        done = min(asked, self.counted.selects - failed(self.lines))
        result = {
            **columns,
            "clients": clients,
            "warmup_s": self.warmup_s,
            "elapsed_s": elapsed_s,
            "operations": done,
            "transactions": done,
            "operations_per_s": done / elapsed_s if done else None,
            "errors": asked - done + self.counted.refused,
            "client_context_switches": None,  # the clients' threads have ended, and their counters are lost
            **({"server_context_switches": None} if self.counted.threads_ended else {}),
        }
        warnings = [Warning_(kind=kind, text=text, step=step) for kind, text in self._warnings(report)]
        return [Answer(columns=result, intervals=[], latencies=[], warnings=tuple(warnings))]

    def _warnings(self, report: "Report") -> Iterator[tuple[str, str]]:
        """The kind and the text of each warning."""
        asked = report.clients * report.queries
        done = self.counted.selects - failed(self.lines)
        if done != asked:
            message = "; ".join(complaints(self.lines)) or "mysqlslap reports no error"
            yield "errors", f"the server ran {done} of {asked} queries: {message}"
        if refused := self.counted.refused:
            yield (
                "errors",
                f"{refused} connections were refused and repeated 0.1 s later, which adds to the measured time",
            )
        if report.elapsed_s < SHORTEST_REPORTED_S:
            text = (
                f"the queries took {sized(report.elapsed_s)} s, too short for mysqlslap's whole milliseconds; "
                "the time is from our clock, with a few ms for mysqlslap's shell: ask for more queries"
            )
            yield "short", text
        elif abs(self.elapsed_s - report.elapsed_s) > CLOCKS_DIFFER_S + CLOCKS_DIFFER_SHARE * report.elapsed_s:
            theirs, ours = (formatted(elapsed_s, ".3f") for elapsed_s in (report.elapsed_s, self.elapsed_s))
            text = (
                f"mysqlslap reports {theirs} s, and our clock {ours} s: "
                "its shell had to wait for a CPU, or the clock was set"
            )
            yield "clock", text


def ask_once(slap: Slap, server: Server, step: Step, *, queries: int, cpus: tuple[int, ...]) -> float:
    """Runs the warm-up, `queries` queries from one client, and returns its duration in seconds. Raises an error if
    this mysqlslap does not work with this server.
    """
    began = time.monotonic()
    done = run_to_its_end(slap.argv(server, step.database, step.kind.query, 1, queries), slap.environment, cpus)
    complained = complaints(done.stdout.splitlines())
    if done.returncode != 0 or complained:
        message = "\n".join(complained) or done.stdout.strip() or f"exit code {done.returncode}"
        raise RqpsError(
            f"{server.build.name}: mysqlslap {slap.version} can't put load on MySQL {server.build.version}: "
            f"{message}",
            fix="give another mysqlslap in the study's parameters, usually a newer one, for all its dbms",
        )
    return time.monotonic() - began


class Report(NamedTuple):
    """mysqlslap's result line. Its time begins when the clients may connect, and ends when all clients have ended."""

    elapsed_s: float
    clients: int
    queries: int
    """The number of queries that each client should run. mysqlslap does not check that they were run."""


def read_report(lines: list[str]) -> Report | None:
    """The values from mysqlslap's line of comma-separated values; None if it did not print the line."""
    for line in lines:
        if match := _CSV.match(line.rstrip("\n")):
            return Report(float(match[1]), int(match[4]), int(match[5]))
    return None


def complaints(lines: list[str]) -> list[str]:
    """The lines of mysqlslap's own messages, without repetitions."""
    messages = (re.sub(r"^\S*mysqlslap: ", "mysqlslap: ", line.rstrip()) for line in lines)
    return list(dict.fromkeys(line for line in messages if line.startswith("mysqlslap: ")))


def failed(lines: list[str]) -> int:
    """The number of queries that returned an error. A client stops after its first error."""
    return sum("mysqlslap: Cannot run query" in line for line in lines)
