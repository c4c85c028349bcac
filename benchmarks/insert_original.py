"""The original Insert Benchmark client, as its users run it: fetched where it is public, at one commit, unchanged.

It is Python with mysqlclient, for which Debian's own package of both is unpacked in the cache. A client is a tree of
processes: one makes statements, one inserts, one deletes, one queries, and one prints a line a second.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rqps import keeper
from rqps.engines.cache import cache_dir, made_once
from rqps.engines.mysql.instance import Server
from rqps.engines.sources import debian
from rqps.engines.sources.fetching import run_client
from rqps.errors import RqpsError

REPOSITORY = "https://github.com/mdcallag/mytools"
COMMIT = "e1ba3d9edff258d867ef6430353cb4dc60e5eca4"
PROGRAM = "bench/ibench/iibench.py"
DATABASE = "original"
TABLE = "pi1"

WRITING = ("--delete_per_insert",)
QUERYING = (*WRITING, "--query_threads=1")
STEPS: dict[str, tuple[int, tuple[str, ...]]] = {
    "l.i0": (100, ("--setup",)),
    "l.x": (100, ("--secondary_at_end",)),
    "l.i1": (50, WRITING),
    "l.i2": (5, WRITING),
    "qr100": (50, (*QUERYING, "--inserts_per_second=100")),
    "qp100": (50, (*QUERYING, "--inserts_per_second=100", "--query_pk_only")),
}
"""Of each step the rows of a statement, and what else is asked for, as in the published scripts."""


@dataclass(frozen=True)
class Client:
    """The program, and a Python that has mysqlclient."""

    program: Path
    python: tuple[str, ...]
    environment: dict[str, str]

    def command(self, server: Server, step: str, rows: int, seed: int) -> list[str]:
        rows_of_statement, more = STEPS[step]
        asked = {
            "dbms": "mysql",
            "db_socket": server.socket,
            "db_user": "root",
            "db_name": DATABASE,
            "table_name": TABLE,
            "my_id": 1,
            "seed": seed,
            "data_length_min": 10,
            "data_length_max": 20,
            "max_rows": rows,
            "rows_per_commit": rows_of_statement,
            "secs_per_report": 1,
        }
        options = [f"--{name}={value}" for name, value in asked.items()]
        return [*self.python, str(self.program), *options, *more]


@dataclass(frozen=True)
class Second:
    """One of the lines that it prints each second: all that was done since its begin."""

    elapsed_s: float
    rows: int
    queries: int


def client(original: Path | None, python: Path | None, repository: str) -> Client:
    """The client: of a checkout that is there, else fetched; with a Python that is there, else one of the cache."""
    program = _fetched(repository) / PROGRAM if original is None else original
    program = program / PROGRAM if program.is_dir() else program
    if not program.is_file():
        raise RqpsError(f"{program} is not there", fix=f"name the checkout of {REPOSITORY}, or its iibench.py")
    if python is not None:
        return Client(program, (str(python),), {})
    tree = debian.unpacked("python3-mysqldb", None, print)
    plugins = next(tree.glob("usr/lib/*/libmariadb*/plugin"))
    return Client(
        program,
        (str(tree / "usr/bin/python3"),),
        {
            "LD_LIBRARY_PATH": ":".join(map(str, debian.library_folders(tree))),
            "PYTHONHOME": str(tree / "usr"),
            "PYTHONPATH": str(tree / "usr/lib/python3/dist-packages"),
            "MARIADB_PLUGIN_DIR": str(plugins),
        },
    )


def _fetched(repository: str) -> Path:
    """The one file of the one commit, without the rest of a large repository."""

    def make(work: Path) -> None:
        git = ["git", "-C", str(work)]
        run_client([*git, "init", "-q"], work)
        run_client([*git, "remote", "add", "origin", repository], work)
        run_client([*git, "config", "remote.origin.promisor", "true"], work)
        run_client([*git, "config", "remote.origin.partialclonefilter", "blob:none"], work)
        run_client([*git, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", COMMIT], work)
        text = run_client([*git, "show", f"FETCH_HEAD:{PROGRAM}"], work)
        (work / PROGRAM).parent.mkdir(parents=True)
        (work / PROGRAM).write_text(text)

    return made_once(cache_dir() / "insert-benchmark-original" / COMMIT[:12], make)


def run(client: Client, server: Server, step: str, rows: int, *, seed: int, cpus: tuple[int, ...]) -> list[Second]:
    """A step from its first process to its last; its seconds, of which the last is not whole."""
    done = subprocess.run(
        keeper.command("exec", client.command(server, step, rows, seed), cpus=cpus),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **client.environment},
        check=False,
    )
    if done.returncode != 0 or "Done" not in done.stdout:
        raise RqpsError(
            f"{step}: the original client ended with code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}",
            fix="where MySQLdb is missing, name a Python that has it with --python",
        )
    return list(_seconds(done.stdout))


def _seconds(output: str) -> Iterator[Second]:
    for line in output.splitlines():
        fields = line.split("\t")
        if len(fields) == 17 and fields[0] != "i_sec":
            yield Second(float(fields[1]), int(fields[11]), int(fields[13]))


def begin(server: Server) -> None:
    """An empty database of its own, so that it and ours are on one server and meet nowhere."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    connection.close()
