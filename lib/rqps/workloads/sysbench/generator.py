"""sysbench as a process: started on its CPUs, read while it runs, and never outliving us."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from rqps.errors import RqpsError
from rqps.servers import keeper
from rqps.servers.instance import Server
from rqps.tools import sysbench
from rqps.workloads.sysbench.answer import read_origin
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step

DATABASE = "rqps"
START_PATIENCE_S = 120
LUA = Path(str(files(__package__) / "lua"))


@dataclass
class Generator:
    """A running sysbench and what it has written so far."""

    process: "subprocess.Popen[str]"
    log: Path
    lines: list[str] = field(default_factory=list)
    origin_ns: int | None = None
    reader: threading.Thread | None = None

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if self.origin_ns is None:
                self.origin_ns = read_origin(line)

    def failure(self, what: str, server: Server) -> RqpsError:
        """Why it ended: the server's end comes first, since sysbench only tells that it lost it."""
        said = [line.rstrip() for line in self.lines if "FATAL" in line or "rror" in line][-5:]
        if server.ended(within_s=1):
            return RqpsError(
                f"{what}: the server ended in the middle of it ({server.how_it_ended()}); the end of its error log:\n"
                + server.last_words(),
                fix="look for what ended it there; the kernel's log tells if memory ran out",
            )
        return RqpsError(
            f"{what}: sysbench ended with code {self.process.returncode}: " + "\n".join(said),
            fix=f"read the whole of what it said, {self.log.name}",
        )


def argv(
    server: Server, script: str, parameters: SysbenchParameters, step: Step | None, seed: int
) -> list[str]:
    """The command line of one step, or of loading where there is no step."""
    options: dict[str, object] = {
        "db-driver": "mysql",
        "mysql-socket": server.socket,
        "mysql-user": "root",
        "mysql-db": DATABASE,
        "rand-type": "uniform",
        "rand-seed": seed,
        "tables": parameters.tables,
        "table-size": parameters.table_rows,
    }
    if step:
        options |= {
            "threads": parameters.threads,
            "warmup-seconds": parameters.warmup_seconds,
            "measured-seconds": parameters.seconds,
            "prepared": "on" if parameters.prepared else "off",
            "time": 0,  # our own loop ends by the clock
            **{name.replace("_", "-"): value for name, value in step.options.items()},
        }
    return [
        *sysbench().argv,
        str(LUA / f"{script}.lua"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]


@contextmanager
def generating(
    server: Server, step: Step, parameters: SysbenchParameters, *, seed: int, cpus: tuple[int, ...], log: Path
) -> Iterator[Generator]:
    """sysbench putting the load of one step, from its first connection to its end."""
    command = keeper.command("exec", [*argv(server, step.script, parameters, step, seed), "run"], cpus=cpus)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(),
        start_new_session=True,
    )
    generator = Generator(process, log)
    generator.reader = threading.Thread(target=generator.read, daemon=True)
    generator.reader.start()
    try:
        yield generator
    finally:
        process.kill()  # nothing, when it has ended
        process.wait()
        generator.reader.join()
        log.write_text("".join(generator.lines))


def wait_for_origin(generator: Generator, server: Server, what: str) -> int:
    """Waits until all threads have connected and the first one began; the origin of the measured part."""
    deadline = time.monotonic() + START_PATIENCE_S
    while generator.origin_ns is None:
        if generator.process.poll() is not None or server.ended():
            raise generator.failure(what, server)
        if time.monotonic() > deadline:
            raise RqpsError(
                f"{what}: sysbench did not begin within {START_PATIENCE_S} s", fix=f"see {generator.log.name}"
            )
        time.sleep(0.01)
    return generator.origin_ns


def wait_until(moment_ns: int, generator: Generator, server: Server, what: str) -> None:
    """Waits for a moment of CLOCK_MONOTONIC, with an eye on both processes."""
    while (left_s := (moment_ns - time.monotonic_ns()) / 1e9) > 0:
        if generator.process.poll() not in (None, 0) or server.ended():
            generator.process.kill()
            raise generator.failure(what, server)
        time.sleep(min(left_s, 0.25))


def wait_for_end(generator: Generator, server: Server, what: str, patience_s: float) -> None:
    """Waits until sysbench has ended well."""
    try:
        code = generator.process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        generator.process.kill()
        raise RqpsError(
            f"{what}: sysbench did not end within {patience_s:.0f} s of the measured part's end",
            fix="a statement hangs: see the server's process list while it runs",
        ) from None
    if code != 0:
        raise generator.failure(what, server)
    assert generator.reader is not None
    generator.reader.join()


def load(server: Server, parameters: SysbenchParameters, seed: int) -> None:
    """Makes the tables and fills them, by sysbench."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    connection.close()
    done = subprocess.run(
        keeper.command("exec", [*argv(server, "load", parameters, None, seed), "load"], cpus=()),
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


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LUA_PATH": f"{LUA}/?.lua;;", **sysbench().environment}
