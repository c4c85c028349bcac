"""What each thread of the server is there for.

Newer servers give their threads names in the operating system; some tell of them in the performance schema; of the
rest the first function of their own says it. All three are looked up in one table.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pymysql

from rqps.observe.stacks.fold import Stack

UNKNOWN = "unknown"
ROLES: dict[str, str] = {
    # a server without symbols has names for what its plugins may call: the last two
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
"""Names that mean a role: a thread's own, the last part of its performance-schema name, or its first function's."""

_PATTERNS = {role: re.compile(pattern) for role, pattern in ROLES.items()}
_NUMBER = re.compile(r"-\d+$")
_DEEPEST = 6
"""A thread's first function of its own lies below what the system and the performance schema put there."""


def role_of_name(name: str) -> str | None:
    """
    >>> role_of_name("thread/innodb/page_flush_thread"), role_of_name("ib_io_rd-2"), role_of_name("kworker/0:1")
    ('page cleaner', 'io', None)
    """
    last = _NUMBER.sub("", name.rpartition("/")[2])
    return next((role for role, pattern in _PATTERNS.items() if pattern.fullmatch(last)), None)


def role_of_frames(names: Iterable[str]) -> str | None:
    """What the outermost functions of a stack say, root first.

    >>> role_of_frames(["start_thread", "pfs_spawn_thread(void*)", "handle_one_connection", "do_command(THD*)"])
    'connection'
    """
    for name in list(names)[:_DEEPEST]:
        plain = name.partition("(")[0].rpartition("::")[2]
        role = role_of_name(plain)
        if role:
            return role
    return None


def thread_names(pid: int) -> dict[int, str]:
    """The names that the threads of a process have in the operating system, by thread id."""
    found = {}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(folder.name)] = (folder / "comm").read_text(errors="replace").rstrip("\n")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return found


def told_names(connection: "pymysql.Connection[Any]") -> dict[int, str]:
    """The names of threads in the performance schema, by the operating system's thread id; from 5.7 on."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'performance_schema' "
            "AND table_name = 'threads' AND column_name = 'THREAD_OS_ID'"
        )
        if cursor.fetchone() != (1,):
            return {}
        cursor.execute("SELECT thread_os_id, name FROM performance_schema.threads WHERE thread_os_id IS NOT NULL")
        return {int(thread): str(name) for thread, name in cursor.fetchall()}


def roles(stacks: Iterable[Stack], told: Mapping[int, str], named: Mapping[int, str], main: int) -> dict[int, str]:
    """The role of each thread that was sampled or has a name, by its id.

    `told` are the performance schema's names, `named` the operating system's, `main` is the id of the process.
    """
    votes: dict[int, Counter[str]] = {thread: Counter() for thread in (*told, *named)}
    for stack in stacks:
        voted = votes.setdefault(stack.thread.tid, Counter())
        if role := role_of_frames(frame.name for frame in stack.frames):
            voted[role] += stack.samples
    return {tid: _role(tid, told, named, main, voted) for tid, voted in votes.items()}


def _role(tid: int, told: Mapping[int, str], named: Mapping[int, str], main: int, voted: Counter[str]) -> str:
    if tid == main:
        return "main"
    by_name = role_of_name(told.get(tid, "")) or role_of_name(named.get(tid, ""))
    if by_name and by_name != "main":  # a thread that was given no name has that of the process
        return by_name
    voted.pop("main", None)
    if voted:
        return voted.most_common(1)[0][0]
    if by_name is None and named.get(tid):
        return named[tid]
    return UNKNOWN
