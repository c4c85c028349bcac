"""One try of a run: papermill in a thread of ours, its kernel in a process that certainly ends."""

import logging
import os
import signal
import subprocess
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from rqps.execute.failure import explain
from rqps.execute.parameters_check import literal
from rqps.execute.processes import Process, descendants, listed

LOGS = "logs"
PIDS = "pids.txt"
INTERRUPT_PATIENCE_S = 5.0


class Attempt:
    """Starts when made. Signals stay with the main thread, which waits here and may `stop` at any moment."""

    def __init__(self, notebook: Path, folder: Path, parameters: Mapping[str, str]) -> None:
        self.notebook = notebook
        self.folder = folder
        self._kernel: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._below: frozenset[Process] = frozenset()
        pool = ThreadPoolExecutor(1, thread_name_prefix="papermill")
        self._ended = pool.submit(self._execute, dict(parameters))
        pool.shutdown(wait=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; whether it came."""
        return bool(wait([self._ended], seconds).done)

    def stop(self) -> None:
        """End the notebook: the cell under way gets a KeyboardInterrupt, then the kernel is killed."""
        self._stopping.set()
        self._signal(signal.SIGINT)
        if not self.wait(INTERRUPT_PATIENCE_S):
            self._signal(signal.SIGKILL)
            self.wait()
        self._signal(signal.SIGKILL)

    def error(self) -> str | None:
        """Why the notebook did not come to its end, if it did not."""
        error = self._ended.exception()
        if error is None:
            return None
        # A full disk may be the very error.
        with suppress(OSError), (self.folder / LOGS / "papermill.log").open("a", encoding="utf-8") as log:
            log.writelines(traceback.format_exception(error))
        return explain(error, self._kernel.poll() if self._kernel else None)

    def remains(self) -> frozenset[Process]:
        """Processes of the run that are still there."""
        return frozenset(each for each in self._below | listed(self.folder / PIDS) if each.alive)

    def _execute(self, parameters: dict[str, str]) -> None:
        import papermill

        from rqps.execute.kernel import kernel_class

        with _logged(self.folder / LOGS / "papermill.log"):
            papermill.execute_notebook(
                literal(self.notebook),
                literal(self.folder / "notebook.ipynb"),
                parameters,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                autosave_cell_every=0,  # saving while a step is measured would disturb it
                kernel_manager_class=kernel_class(
                    self.notebook.parent, self.folder / LOGS / "kernel.log", self._started
                ),
            )

    def _started(self, kernel: "subprocess.Popen[bytes]") -> None:
        with (self.folder / PIDS).open("a") as pids:
            pids.write(f"{kernel.pid}\n")
        self._kernel = kernel
        if self._stopping.is_set():  # asked to stop while it was starting
            kernel.kill()

    def _signal(self, number: int) -> None:
        kernel = self._kernel
        if kernel and kernel.poll() is None:
            self._below |= descendants(kernel.pid)
            os.kill(kernel.pid, number)
            if number == signal.SIGKILL:
                kernel.wait()


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Papermill's words go into a file, not between our lines."""
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    logger = logging.getLogger("papermill")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
