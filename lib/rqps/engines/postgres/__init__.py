"""PostgreSQL: the facts that are known before any of its builds is on this machine. `engine` starts its servers."""

from rqps.engines import Facts, Program
from rqps.engines.postgres.block_io import read_kb, syncs, written_kb

_PLACES = ("config_file", "data_directory", "external_pid_file", "hba_file", "ident_file", "unix_socket_directories")
_NETWORK = ("listen_addresses", "port", "unix_socket_group", "unix_socket_permissions")
_LOG = ("log_destination", "log_directory", "log_filename", "logging_collector")
# Settings that are not compared: they belong to one instance or one machine, or name the build.
_PASSING = (
    r"^(config_file|data_directory|external_pid_file|hba_file|ident_file|unix_socket_directories|TimeZone|log_timezone"
    r"|server_version|server_version_num|shared_memory_size(_in_huge_pages)?|num_os_semaphores)$"
)
_ROLES = {
    # A backend whose name was not read is recognised by the function PostgresMain in its stacks.
    "connection": "client backend|PostgresMain",
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
    written=written_kb,
    read=read_kb,
    syncs=syncs,
    serves=r"^(exec_simple_query|exec_(parse|bind|execute)_message)$",
)
