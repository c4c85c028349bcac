"""PostgreSQL: the facts that are known before any of its builds is on this machine. `engine` starts its servers."""

from collections.abc import Mapping

from rqps.engines import Facts, Program

_PLACES = ("config_file", "data_directory", "external_pid_file", "hba_file", "ident_file", "unix_socket_directories")
_NETWORK = ("listen_addresses", "port", "unix_socket_group", "unix_socket_permissions")
_LOG = ("log_destination", "log_directory", "log_filename", "logging_collector")
# Settings that are not compared: they belong to one instance or one machine, or name the build.
_PASSING = (
    r"^(config_file|data_directory|external_pid_file|hba_file|ident_file|unix_socket_directories|TimeZone|log_timezone"
    r"|server_version|server_version_num|shared_memory_size(_in_huge_pages)?|num_os_semaphores)$"
)
_ROLES = {
    "connection": "client backend|PostgresMain",  # a backend whose name was not read has PostgresMain
    "main": "postmaster",
    "checkpointer": "checkpointer",
    "background writer": "background writer",
    "WAL writer": "walwriter",
    "autovacuum": "autovacuum (launcher|worker)",
    "io worker": "io worker",
    "parallel worker": "parallel worker",
    "statistics": "stats collector",
    "replication": "logical replication launcher|walsender|walreceiver",
    "startup": "startup|archiver|walsummarizer|slotsync worker|logger",
}

_PAGE_KB = 8
_PAGES_WRITTEN = {
    # Releases before 17 have the first of these counters, later releases the second.
    "checkpoints": ("bgwriter.buffers_checkpoint", "checkpointer.buffers_written"),
    "background writer": ("bgwriter.buffers_clean",),
    "backends and vacuum": ("bgwriter.buffers_backend",),  # 17 removed this counter
}


def _written_kb(grew: Mapping[str, float], _now: Mapping[str, float]) -> dict[str, float]:
    """The KB that the server wrote, by purpose. The bytes of WAL include full-page images; releases before 14 do not
    count them."""
    of = {
        purpose: sum(grew.get(name, 0) for name in names) * _PAGE_KB
        for purpose, names in _PAGES_WRITTEN.items()
        if any(name in grew for name in names)
    }
    return of | ({"WAL": grew["wal.wal_bytes"] / 1024} if "wal.wal_bytes" in grew else {})


facts = Facts(
    name="postgres",
    title="PostgreSQL",
    program="postgres",
    log="postgres.log",
    example="17.0",
    debian_package="postgresql-17",
    fetched_with=(Program("mvn", "PostgreSQL from Maven", "install Maven (maven on Debian and Fedora)"),),
    ours=frozenset((*_PLACES, *_NETWORK, *_LOG)),
    connections=("max_connections", 100),
    memory="shared_buffers",
    passing=_PASSING,
    processes=r"unix_socket_directories=\S*/{private}[^/ ]+",
    socket=".s.PGSQL.5432",
    roles=_ROLES,
    written=_written_kb,
    serves=r"^(exec_simple_query|exec_(parse|bind|execute)_message)$",
)
