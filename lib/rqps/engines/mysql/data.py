"""Data directories: for each build an empty one, and one for each set of loaded tables. Every run gets a copy."""

import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from rqps import keeper
from rqps.engines import Option, Say
from rqps.engines.cache import cache_dir, copy_folder, made_once, short_key
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.instance import Server, mysqld, running
from rqps.engines.mysql.options import argument
from rqps.engines.mysql.reports import Known, read_known
from rqps.errors import RqpsError

SHAPING = (
    *("character_set_server", "collation_server", "innodb_checksum_algorithm", "innodb_data_file_path"),
    *("innodb_file_per_table", "innodb_page_size", "innodb_undo_tablespaces", "lower_case_table_names"),
)
"""Options that change the files of a table when it is made. Only configs with the same values of these options share
data directories."""

FILE = "known.json"
_KNOWN = TypeAdapter(Known)
QUICK = {
    "performance_schema": "OFF",
    "innodb_buffer_pool_size": "512M",
    "innodb_flush_log_at_trx_commit": "0",
    "sync_binlog": "0",
    "innodb_fast_shutdown": "0",  # purges and merges everything, so that no round inherits debt
    "innodb_buffer_pool_dump_at_shutdown": "OFF",
}
"""Options that are set while tables are loaded, if the version has them. They leave no trace in the data."""


@dataclass(frozen=True)
class Origin:
    """Identifies data directories: the build that makes them, and the options of `SHAPING`."""

    build: Build
    shape: Mapping[str, str]

    @property
    def folder(self) -> Path:
        key = short_key(self.build.digest, dict(sorted(self.shape.items())))
        return cache_dir() / "data" / f"{self.build.name}-{self.build.version}-{key}"


def origin(build: Build, asked: Mapping[str, Option]) -> Origin:
    """The origin of the data of a dbms; configs with the same values of `SHAPING` share one origin."""
    return Origin(build, {name: argument(asked[name].value, build.version) for name in SHAPING if name in asked})


def known(source: Origin, say: Say) -> Known:
    """The variables and performance schema settings of a build, which its server reported once."""
    return _KNOWN.validate_json((_empty(source, say) / FILE).read_bytes())


def known_before(version: str | None) -> dict[str, str]:
    """The variables that servers of a version have reported on this machine; of all versions if `version` is None."""
    variables: dict[str, str] = {}
    for file in (cache_dir() / "data").glob(f"*-{version or '*'}-*/initialised/{FILE}"):
        variables |= _KNOWN.validate_json(file.read_bytes()).variables
    return variables


def loaded(source: Origin, name: str, load: Callable[[Server], None], say: Say) -> Path:
    """A data directory with the tables that `load` makes. It is made once for each `name`."""
    start_from = _empty(source, say)
    variables = known(source, say).variables
    quick = {key: value for key, value in {**QUICK, **source.shape}.items() if key in variables}
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in quick.items()]

    def make(work: Path) -> None:
        say(f"{source.build.name}: loading {name}")
        copy_folder(start_from / "data", work / "data")
        log = source.folder / f"{name}.err"  # stays in place if the load fails
        with running(source.build, work / "data", arguments=(*arguments, "--skip-log-bin"), log=log) as server:
            load(server)
        log.unlink(missing_ok=True)
        _forget_redo_log(source.build, work / "data")

    return made_once(source.folder / name, make, say) / "data"


def _empty(source: Origin, say: Say) -> Path:
    """A folder with a freshly initialised data directory and a file with its server's variables and performance
    schema settings. It is made once."""

    def make(work: Path) -> None:
        say(f"{source.build.name}: initialising an empty data directory")
        data = work / "data"
        if source.build.empty_data:
            copy_folder(source.build.empty_data, data)
        elif source.build.number >= (5, 7, 6):
            shape = (f"--{name.replace('_', '-')}={value}" for name, value in source.shape.items())
            _call(source.build, work, [*shape, "--initialize-insecure"])
        else:
            for schema in ("mysql", "test"):
                (data / schema).mkdir(parents=True)
            _call(source.build, work, ["--bootstrap"], sql=_system_tables(source.build))
        arguments, log = ("--loose-performance-schema=ON",), source.folder / "initialised.err"
        with (
            running(source.build, data, arguments=arguments, log=log) as server,
            closing(server.connect()) as connection,
        ):
            (work / FILE).write_bytes(_KNOWN.dump_json(read_known(connection), indent=1))
        log.unlink(missing_ok=True)
        _forget_redo_log(source.build, data)

    return made_once(source.folder / "initialised", make, say)


def _system_tables(build: Build) -> bytes:
    """The statements that mysql_install_db sends to a server before 5.7. Reading them here needs no shell or Perl."""
    share = build.directory / "share"
    scripts = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
    if missing := [name for name in scripts if not (share / name).exists()]:
        raise RqpsError(
            f"{build.name}: {share} has no {' and no '.join(missing)}",
            fix="give the path of a whole server tree: its share directory holds the scripts for the system tables",
        )
    return b"USE mysql;\n" + b"\n".join((share / name).read_bytes() for name in scripts)


def _call(build: Build, work: Path, arguments: list[str], sql: bytes = b"") -> None:
    """Runs mysqld once to initialise a data directory. If mysqld fails, the error shows the end of its output."""
    done = subprocess.run(
        keeper.command("exec", [*mysqld(build, work / "data"), *arguments], cpus=()),
        input=sql,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", **build.environment},
        cwd=work,
    )
    if done.returncode != 0:
        output = (done.stderr + done.stdout).decode(errors="replace").splitlines()
        raise RqpsError(
            f"{build.name} ({build.version}): its empty data directory could not be made:\n"
            + "\n".join(output[-15:]),
            fix="see what the server says above; a library that is missing is named there",
        )


def _forget_redo_log(build: Build, data: Path) -> None:
    """Deletes the redo log files, which are not needed after a clean stop. 5.5 does not start if their size is not
    the configured one."""
    if build.number < (8, 0, 30):
        for file in data.glob("ib_logfile*"):
            file.unlink()
