"""`perf record` beside a step: ready before its measured part, sampling while that lasts, gone afterwards."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rqps.engines import keeper
from rqps.engines.tools import perf
from rqps.errors import RqpsError
from rqps.observe.stacks.sampling import Sampling

READY_PATIENCE_S = 60
WRITE_PATIENCE_S = 120


class Recording:
    """A perf that has its counters open on the server's CPUs, and samples when it is told to."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, to_perf: int, from_perf: int) -> None:
        self.process = process
        self.folder = folder
        self.began_ns = 0
        self.ended_ns = 0
        self._to_perf = to_perf
        self._from_perf = from_perf

    @property
    def data(self) -> Path:
        return self.folder / "perf.data"

    @property
    def sampled_s(self) -> float:
        """For how long samples were taken."""
        return (self.ended_ns - self.began_ns) / 1e9

    def begin(self) -> None:
        """From here on samples are taken."""
        self._tell("enable")
        self.began_ns = time.monotonic_ns()

    def end(self) -> None:
        """Up to here samples are taken."""
        self.ended_ns = time.monotonic_ns()
        self._tell("disable")

    def finish(self) -> None:
        """Waits until perf has written all it has."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(WRITE_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise RqpsError(
                f"perf did not finish its file within {WRITE_PATIENCE_S} s",
                fix=f"see that the disk of {self.folder.parent} is not full or very slow",
            ) from None
        if code not in (0, -signal.SIGINT):
            raise self.failure()

    def failure(self) -> RqpsError:
        said = said_by_perf(self.folder / "record.err")
        code = self.process.poll()
        how = "" if code is None else f" (exit status {code})"
        return RqpsError(
            f"perf record failed{how}: {said}", fix="mend what it says; rqps doctor tells what perf may do"
        )

    def _tell(self, word: str) -> None:
        """Gives an order and waits until it is carried out."""
        try:
            os.write(self._to_perf, f"{word}\n".encode())
        except BrokenPipeError:
            self.process.wait()
            raise self.failure() from None
        deadline = time.monotonic() + READY_PATIENCE_S
        answer = b""
        while b"ack" not in answer:
            ready, _, _ = select.select([self._from_perf], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._from_perf, 64) if ready else b""
            if not piece:
                if ready:  # it has ended and closed its end
                    self.process.wait()
                raise self.failure()
            answer += piece


@contextmanager
def recording(
    sampling: Sampling, *, server_cpus: tuple[int, ...], cpus: tuple[int, ...], scratch: Path
) -> Iterator[Recording]:
    """A perf that is ready to sample these CPUs and itself runs on `cpus`; what it wrote is removed at the end.

    Whole CPUs are sampled: sampling one process switches counters with every change of thread, which slowed point
    queries by a fifth and more. What is not the server's is left out when the file is read.
    """
    folder = Path(tempfile.mkdtemp(prefix="stacks-", dir=scratch))
    try:
        with _started(sampling, server_cpus, cpus, folder) as running:
            running._tell("disable")  # answered when all counters are open
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _started(
    sampling: Sampling, server_cpus: tuple[int, ...], cpus: tuple[int, ...], folder: Path
) -> Iterator[Recording]:
    tool = perf()
    orders, to_perf = os.pipe()
    from_perf, answers = os.pipe()
    argv = [
        *tool.argv,
        "record",
        "--output",
        str(folder / "perf.data"),
        "--cpu",
        ",".join(map(str, server_cpus)),
        "--delay",
        "-1",
        "--control",
        f"fd:{orders},{answers}",
        "--no-buildid",
        "--no-buildid-cache",
        *sampling.arguments(),
    ]
    try:
        with (folder / "record.err").open("wb") as errors:
            process = subprocess.Popen(
                keeper.command("exec", argv, cpus=cpus),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=perf_environment(),
                pass_fds=(orders, answers),
                start_new_session=True,  # a Ctrl-C in the terminal is for us, who end it in order
            )
    finally:
        os.close(orders)
        os.close(answers)
    try:
        yield Recording(process, folder, to_perf, from_perf)
    finally:
        process.kill()
        process.wait()
        os.close(to_perf)
        os.close(from_perf)


def perf_environment() -> dict[str, str]:
    """What perf runs with: nobody's own settings of it."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PERF_CONFIG": "/dev/null", **perf().environment}


def said_by_perf(file: Path) -> str:
    """What perf said, without what it always says."""
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    told = [line.strip() for line in lines if line.strip() and not line.startswith("[ perf record:")]
    return "\n".join(told[-6:]) or "it said nothing"
