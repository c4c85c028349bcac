"""A recording read back: `perf script` streamed into the folder, and what speaks against what came out."""

import subprocess
from pathlib import Path

from rqps.engines import keeper
from rqps.engines.tools import perf
from rqps.errors import RqpsError
from rqps.observe.stacks.fold import Folded, fold
from rqps.observe.stacks.recording import perf_environment, said_by_perf

FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
"""No offsets in functions: the fewer different texts, the sooner they are folded."""


def read(data: Path, pid: int, cpus: tuple[int, ...]) -> Folded:
    """All samples of one process in a file of perf. Inlined functions are not looked up: that takes minutes."""
    argv = [
        *perf().argv,
        "script",
        "--input",
        str(data),
        "--no-inline",
        "--show-lost-events",
        f"--pid={pid}",
        f"--fields={FIELDS}",
    ]
    errors = data.with_name("script.err")
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            keeper.command("exec", argv, cpus=cpus),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=perf_environment(),
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        with process.stdout as text:
            folded = fold(text.read)
        code = process.wait()
    finally:
        process.kill()
        process.wait()
    if code != 0 or folded.cut_off:
        raise RqpsError(
            f"perf's file can't be read (exit status {code}): {said_by_perf(errors)}",
            fix="see that its disk is not full, and measure this run again: rqps run does it",
        )
    return folded
