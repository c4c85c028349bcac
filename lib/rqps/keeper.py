"""Starts a program that can't outlive the calling process, however the caller ends: success, Ctrl-C or SIGKILL.

The keeper runs as a process of its own; `command()` below gives its command line. It uses only Python's standard
library, since it starts with every server and every step. It pins the program to its CPUs, and has two modes:

- `exec`: becomes the program, which Linux kills when its parent ends. Load generators and Jupyter kernels run so.
- `guard`: stays beside the program and reads its own standard input, a pipe from rqps. When the pipe closes,
  `guard` asks the program to stop (by SIGTERM, or another signal), and kills it if it does not stop. Then `guard`
  kills all processes that outlive the program, and removes its scratch folders. Servers run so, since they need time
  for a clean shutdown.

`guard` writes `pid N` when the program runs and `exit CODE` when the program has ended.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import IO, Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IN_USE = "in-use"
"""The name of the lock file in each scratch folder: while a process holds the lock, the folder is in use."""


def command(
    mode: str,
    argv: list[str],
    *,
    cpus: tuple[int, ...],
    scratch: tuple[str, ...] = (),
    patience_s: float = 60,
    stop: int = signal.SIGTERM,
) -> list[str]:
    """The command line that starts `argv` under a keeper; the caller adds pipes and environment."""
    order: dict[str, Any] = {"argv": argv, "cpus": cpus}
    order |= (
        {"parent": os.getpid()} if mode == "exec" else {"scratch": scratch, "patience_s": patience_s, "stop": stop}
    )
    return [sys.executable, "-I", "-S", __file__, mode, json.dumps(order)]


def _become(argv: list[str], cpus: list[int], parent: int) -> None:
    """Replaces this process by the program, which is pinned to the given CPUs and is killed when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before prctl took effect
        os._exit(137)
    if cpus:
        os.sched_setaffinity(0, cpus)
    os.execv(argv[0], argv)


def _start(argv: list[str], cpus: list[int]) -> int:
    """Starts the program as a child that does not read the keeper's pipe, and returns the child's process id."""
    keeper = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # a signal during the fork must not get lost
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        return child
    try:
        for number in STOPPING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)  # the program writes to stderr: stdout is the pipe through which the keeper reports to rqps
        _become(argv, cpus, keeper)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127)


def _ended(child: int) -> int | None:
    """The program's exit code, negative for a signal; None while it runs."""
    done, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def _guard(argv: list[str], cpus: list[int], scratch: list[str], patience_s: float, stop: int) -> None:
    import shutil  # the import takes 2 ms of CPU time, and a load generator does not need it

    locks = [_in_use(folder) for folder in scratch]
    asked_to_stop: list[int] = []
    wakeup, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in STOPPING:
        signal.signal(number, lambda number, _: asked_to_stop.append(number))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # to adopt processes that outlive the program
    child = _start(argv, cpus)
    _report(f"pid {child}")
    while (code := _ended(child)) is None and not asked_to_stop:
        ready, _, _ = select.select([0, wakeup], [], [])
        if 0 in ready and not os.read(0, 1):  # rqps closed the pipe
            break
        if wakeup in ready:
            os.read(wakeup, 64)
    if code is None:
        os.kill(child, stop)
        for pid in (child, *_below(child)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)  # a paused server of a duet must run again to stop
        deadline = time.monotonic() + patience_s
        while (code := _ended(child)) is None:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
    while outliving := _below(os.getpid()):
        for pid in outliving:
            os.kill(pid, signal.SIGKILL)  # this does not fail if the process has ended: it is a zombie until waitpid
        for pid in outliving:
            with contextlib.suppress(ChildProcessError):  # not yet a child of this process: its parent still runs
                os.waitpid(pid, 0)
    for folder in scratch:
        shutil.rmtree(folder, ignore_errors=True)
    del locks
    _report(f"exit {code}")


def _below(root: int) -> list[int]:
    """The process ids of all descendants of a process."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 pathlib takes long to import
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    tree = [root]
    for pid in tree:
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree[1:]


def _in_use(folder: str) -> IO[bytes] | None:
    """Takes a shared lock on a scratch folder, so that no other rqps removes the folder while the guarded
    program stops."""
    with contextlib.suppress(FileNotFoundError):
        lock = open(f"{folder}/{IN_USE}", "rb")  # noqa: SIM115, PTH123 the lock needs the open file
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return lock
    return None


def _report(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # rqps has ended
        os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    (_become if sys.argv[1] == "exec" else _guard)(**json.loads(sys.argv[2]))
