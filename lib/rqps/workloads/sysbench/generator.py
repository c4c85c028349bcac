"""sysbench as a process: started on its CPUs, read while it runs, and never outliving us."""

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from rqps.errors import RqpsError
from rqps.servers import keeper
from rqps.servers.instance import Server
from rqps.tools import sysbench
from rqps.workloads.sysbench.answer import read_end, read_origin
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step

DATABASE = "rqps"
START_PATIENCE_S = 120
STATEMENT_PATIENCE_S = 60
WHOLE_PATIENCE_S = 3600
"""For a transaction that is waited for before the step ends, such as a scan."""
READY_S = 1
"""Before a step without a warm-up of its own, for whoever observes it."""
DONE_AGAIN = "1213,1205,1020"
"""Errors after which a transaction is done again: a deadlock, a lock wait that took too long, a row that changed
meanwhile. sysbench's own choice, and the published one."""
LUA = Path(str(files(__package__) / "lua"))


class Generator:
    """A running sysbench, and what it has written so far."""

    def __init__(
        self, process: "subprocess.Popen[str]", server: Server, step: Step, parameters: SysbenchParameters, log: Path
    ) -> None:
        self.process = process
        self.server = server
        self.step = step
        self.threads = parameters.clients
        self.seconds = parameters.seconds_of(step)
        self.warmup_s = 0.0 if step.whole else float(parameters.warmup_seconds)
        self.whole_within_s = self.seconds if step.whole else None
        """Where transactions are whole: when the last ones begin at the latest."""
        self.log = log
        self.lines: list[str] = []
        self._origin_ns: int | None = None
        self._ends_ns: list[int] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_begin(self) -> int:
        """Waits until all threads have connected and warmed up; the origin of the measured part."""
        deadline = time.monotonic() + START_PATIENCE_S
        while self._origin_ns is None:
            if self.process.poll() is not None or self.server.ended():
                raise self._failure()
            if time.monotonic() > deadline:
                raise RqpsError(
                    f"{self.step.name}: sysbench did not begin within {START_PATIENCE_S} s",
                    fix=f"see {self.log.name}",
                )
            time.sleep(0.01)
        self._wait_until(self._origin_ns)
        return self._origin_ns

    def wait_for_end(self) -> None:
        """Waits until the measured part has ended: by the clock, or with every thread's last transaction."""
        assert self._origin_ns is not None
        ends_ns = self._origin_ns + self.seconds * 1_000_000_000
        self._wait_until(ends_ns)
        while self.step.whole and len(self._ends_ns) < self.threads:
            if time.monotonic_ns() > ends_ns + WHOLE_PATIENCE_S * 1_000_000_000:
                raise self._hangs(WHOLE_PATIENCE_S)
            self._wait_until(time.monotonic_ns() + 10_000_000)

    @property
    def elapsed_s(self) -> float:
        """How long the measured part was."""
        if not self.step.whole:
            return float(self.seconds)
        assert self._origin_ns is not None
        return (max(self._ends_ns) - self._origin_ns) / 1e9

    def wait_until_gone(self) -> None:
        """Waits until the last statement came to its end and sysbench ended well."""
        assert self.process.stdin is not None
        self.process.stdin.close()  # threads that have ended wait for it, so that their counters could be read
        try:
            code = self.process.wait(timeout=STATEMENT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self._hangs(STATEMENT_PATIENCE_S) from None
        if code != 0:
            raise self._failure()
        self._reader.join()

    def end(self) -> None:
        """Ends it, if it has not, and keeps what it said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.log.write_text("".join(self.lines))

    def _wait_until(self, moment_ns: int) -> None:
        """Waits for a moment of CLOCK_MONOTONIC, with an eye on both processes."""
        while (left_s := (moment_ns - time.monotonic_ns()) / 1e9) > 0:
            if self.process.poll() not in (None, 0) or self.server.ended():
                raise self._failure()
            time.sleep(min(left_s, 0.25))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if self._origin_ns is None:
                self._origin_ns = read_origin(line)
            if (end_ns := read_end(line)) is not None:
                self._ends_ns.append(end_ns)

    def _hangs(self, patience_s: int) -> RqpsError:
        return RqpsError(
            f"{self.step.name}: sysbench did not end within {patience_s} s of the measured part's end",
            fix="a statement hangs: see the server's process list while it runs",
        )

    def _failure(self) -> RqpsError:
        """Why it ended: the server's end comes first, since sysbench only tells that it lost it."""
        if self.server.ended(within_s=1):
            return self.server.end_of(self.step.name)
        self.end()
        said = [line.rstrip() for line in self.lines if "FATAL" in line or "rror" in line][-5:]
        return RqpsError(
            f"{self.step.name}: sysbench ended with code {self.process.returncode}: " + "\n".join(said),
            fix=f"read the whole of what it said, {self.log.name}",
        )


@contextmanager
def generating(
    server: Server, step: Step, parameters: SysbenchParameters, *, seed: int, cpus: tuple[int, ...], log: Path
) -> Iterator[Generator]:
    """sysbench putting the load of one step, from its first connection to its end."""
    by_the_clock: dict[str, str | int | float] = {
        "warmup-seconds": READY_S if step.whole else parameters.warmup_seconds,
        "measured-seconds": parameters.seconds_of(step),
        "whole": _switch(step.whole),
    }
    process = started(server, step, parameters, by_the_clock, seed=seed, cpus=cpus)
    generator = Generator(process, server, step, parameters, log)
    try:
        yield generator
    finally:
        generator.end()


def started(
    server: Server,
    step: Step,
    parameters: SysbenchParameters,
    more: Mapping[str, str | int | float],
    *,
    seed: int,
    cpus: tuple[int, ...],
) -> "subprocess.Popen[str]":
    """sysbench with the statements of a step; `more` says for how long."""
    options: dict[str, str | int | float] = {
        "threads": parameters.clients,
        "prepared": _switch(parameters.prepared and step.prepared),
        "statements": ";".join(step.statements),
        "mysql-ignore-errors": DONE_AGAIN,
        "time": 0,  # our own loop ends by the clock, or by its count
        **more,
        **{name.replace("_", "-"): value for name, value in step.options.items()},
    }
    return subprocess.Popen(
        keeper.command("exec", _argv(server, "statements", parameters, seed, options), cpus=cpus),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(),
        start_new_session=True,  # a Ctrl-C in the terminal is for us, who end it in order
    )


def load(server: Server, parameters: SysbenchParameters, seed: int) -> None:
    """Makes the tables and fills them, by sysbench."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    connection.close()
    options = {"index-first": _switch(parameters.index_first), "threads": "1"}
    done = subprocess.run(
        keeper.command("exec", _argv(server, "load", parameters, seed, options), cpus=()),
        capture_output=True,
        text=True,
        env=_environment(),
        start_new_session=True,
        check=False,
    )
    if done.returncode != 0:
        raise RqpsError(
            f"{server.build.name}: the tables could not be loaded:\n{(done.stdout + done.stderr)[-2000:]}",
            fix=f"the server's error log ends with:\n{server.last_words()}",
        )


def _argv(
    server: Server,
    script: str,
    parameters: SysbenchParameters,
    seed: int,
    more: Mapping[str, str | int | float],
) -> list[str]:
    options = {
        "db-driver": "mysql",
        "mysql-socket": server.socket,
        "mysql-user": "root",
        "mysql-db": DATABASE,
        "rand-type": "uniform",
        "rand-seed": seed,
        "tables": parameters.tables,
        "table-size": parameters.table_rows,
        **more,
    }
    script_file = str(LUA / f"{script}.lua")
    return [*sysbench().argv, script_file, *(f"--{name}={value}" for name, value in options.items()), "run"]


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _environment() -> dict[str, str]:
    given = sysbench().environment
    return {"PATH": "/usr/bin:/bin", **given, "LUA_PATH": f"{LUA}/?.lua;{given.get('LUA_PATH', ';')}"}
