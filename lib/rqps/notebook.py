"""Executes a notebook: papermill runs in a thread, the Jupyter kernel in a process that ends even if rqps is killed.

papermill and the Jupyter kernel communicate through Unix sockets in a private folder, so that no two Jupyter kernels
choose the same port.
"""

import ast
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from rqps import keeper
from rqps.errors import RqpsError
from rqps.numbers import counted
from rqps.scratch import Scratch

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

LOGS = "logs"
RESULT = "notebook.ipynb"
KERNEL_LOG = "kernel.log"
PIDS = "pids.txt"
"""File in a notebook's folder: the ids of the processes that have to end with the notebook, one per line."""
INTERRUPT_PATIENCE_S = 5.0
QUIET = "--IPKernelApp.log_level=ERROR"  # a Jupyter kernel warns at each start about things that do not matter here
NO_HISTORY = "--HistoryManager.enabled=False"  # nobody typed these cells
KERNEL = """\
import rqps, runpy, sys
rqps.save_cpu()
sys.modules["debugpy"] = None
from ipykernel.iostream import IOPubThread
IOPubThread._setup_pipe_in = lambda thread: setattr(thread, "_pipe_flag", False)
runpy.run_module("ipykernel_launcher", run_name="__main__")
"""
"""The program of a Jupyter kernel. It imports rqps before a notebook imports Altair, because rqps stops Altair's
jsonschema from importing a package that takes a second. Without its debugger, a kernel starts in 0.15 s in place of
0.21 s. The kernel's pipe for forked children is disabled, because every user of the machine could write to it: it is
a port on the loopback interface."""
SOCKET = "kernel-ipc-5"
"""The longest name of a socket that Jupyter creates beside its kernel's connection file. A notebook is refused if the
path with this name is too long for a socket."""
SHUTDOWN_PATIENCE_S = 1.0
"""Seconds in which a Jupyter kernel has to shut down. After half of this time the kernel gets a SIGTERM: about one
kernel in thirty does not end by itself, because it waits for its own threads."""
ANEW = """
import polars
from rqps.show import renderer
polars.Config.restore_defaults()
renderer.enable()
get_ipython().reset()
"""
"""Code that runs between two notebooks in one Jupyter kernel: the second finds no names or settings of the first."""
LAST_LINES, LONGEST_WORDS = 5, 1000
"""Maximum number of lines, and of characters, of a dead Jupyter kernel's last messages in an error."""


class SharedKernel:
    """A Jupyter kernel that executes several notebooks in turn, which only read results: starting a kernel takes
    longer than many of these notebooks. Before each further notebook the kernel's names and settings are reset.
    `variables` are added to the environment of its process."""

    def __init__(self, log: Path, variables: Mapping[str, str]) -> None:
        self.log = log
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="papermill")
        self._variables, self._scratch = variables, Scratch()
        self._manager: Any = None
        self._client: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.submit(self._end).result()
        self.thread.shutdown()
        self._scratch.remove()

    def options(self, cwd: Path, started: Callable[["subprocess.Popen[bytes]"], None]) -> dict[str, Any]:
        """The options with which papermill executes the next notebook in this Jupyter kernel; `started` is
        called with the kernel's process."""

        def first(process: "subprocess.Popen[bytes]") -> None:
            self._process = process
            started(process)

        if self._process:
            started(self._process)
        else:
            self._manager = _kernel_class(cwd, _for_sockets(self._scratch), self.log, first, self._variables)()
        return {"km": self._manager, "on_notebook_start": self._begin}

    async def _begin(self, **_: object) -> None:
        before, self._client = self._client, self._manager.newest_client
        if before:
            before.stop_channels()
            await self._client.execute(ANEW, silent=True, reply=True)

    def _end(self) -> None:
        from nbclient.util import run_sync

        if self._process:
            self._process.kill()
            self._process.wait()
            run_sync(self._manager.cleanup_resources)()
        if self._client:
            self._client.stop_channels()


class Execution:
    """The execution of a notebook, which starts at once, in another thread. The main thread waits in `wait`, and
    may call `stop` at any time, such as after a signal.

    The notebook is written after each cell, so that an interrupted notebook is readable. With `only_reads` the
    notebook is written at the end, and then its Jupyter kernel is killed, since an orderly shutdown would take half a
    second. A `kernel` that several notebooks share is left running.
    """

    def __init__(
        self,
        notebook: Path,
        folder: Path,
        parameters: Mapping[str, Any],
        *,
        only_reads: bool = False,
        kernel: SharedKernel | None = None,
    ) -> None:
        self.notebook = notebook
        self.folder = folder
        self._only_reads = only_reads
        self._shared = kernel
        self._log = kernel.log if kernel else folder / LOGS / KERNEL_LOG
        self._kernel: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._below: set[psutil.Process] = set()
        thread = kernel.thread if kernel else ThreadPoolExecutor(1, thread_name_prefix="papermill")
        self._ended = thread.submit(self._execute, dict(parameters))
        if not kernel:
            thread.shutdown(wait=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the notebook has ended, for at most that many `seconds` if given; True if it has ended."""
        return bool(wait([self._ended], seconds).done)

    def stop(self) -> None:
        """Stops the notebook: the current cell gets a KeyboardInterrupt, then the Jupyter kernel is killed."""
        self._stopping.set()
        self._signal(signal.SIGINT)
        if not self.wait(INTERRUPT_PATIENCE_S):
            self._signal(signal.SIGKILL)
            self.wait()
        self._signal(signal.SIGKILL)

    def error(self) -> str | None:
        """The reason why the notebook failed; None if it succeeded."""
        error = self._ended.exception()
        if error is None:
            return None
        # Writing to the log may fail as well, if the notebook's error is a full disk.
        with suppress(OSError), (self.folder / LOGS / "papermill.log").open("a", encoding="utf-8") as log:
            log.writelines(traceback.format_exception(error))
        return _explain(error, self._kernel.poll() if self._kernel else None, self._log)

    def remains(self) -> set[psutil.Process]:
        """The notebook's processes that still run."""
        return {process for process in self._below | listed(self.folder / PIDS) if is_alive(process)}

    def _execute(self, parameters: dict[str, Any]) -> None:
        import papermill

        with _logged(self.folder / LOGS / "papermill.log"), (scratch := Scratch()):
            if self._shared:
                kernel = self._shared.options(self.notebook.parent, self._started)
            else:
                private = _for_sockets(scratch)
                made = _kernel_class(self.notebook.parent, private, self._log, self._started)
                kernel = {"kernel_manager_class": made}
            papermill.execute_notebook(
                # papermill takes braces in a path for placeholders
                *(str(path).replace("{", "{{").replace("}", "}}") for path in (self.notebook, self.folder / RESULT)),
                parameters,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                request_save_on_cell_execute=not self._only_reads,
                autosave_cell_every=0,  # saving while a step is measured would disturb it
                shutdown_kernel="immediate" if self._only_reads else "graceful",
                **kernel,
            )

    def _started(self, kernel: "subprocess.Popen[bytes]") -> None:
        self._kernel = kernel
        # The folder may have been removed meanwhile.
        with suppress(FileNotFoundError), (self.folder / PIDS).open("a") as pids:
            pids.write(f"{kernel.pid}\n")
        if self._stopping.is_set():  # `stop` was called while the Jupyter kernel was starting
            kernel.kill()

    def _signal(self, number: int) -> None:
        kernel = self._kernel
        if kernel and kernel.poll() is None:
            with suppress(psutil.NoSuchProcess):
                self._below |= set(psutil.Process(kernel.pid).children(recursive=True))
            os.kill(kernel.pid, number)
            if number == signal.SIGKILL:
                kernel.wait()


def _for_sockets(scratch: Scratch) -> Path:
    return scratch.socket(SOCKET).parent


def check_parameters(notebook: Path, given: Iterable[str]) -> None:
    """Refuses a notebook whose `parameters` cell lacks one of the given names: papermill would only warn and run with
    the defaults."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        fix = "see that the checkout is whole"
        raise RqpsError(f"{notebook}: can't be read as a notebook: {error!r}", fix=fix) from error
    tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    takes = set()
    for line in ast.parse("\n".join(tagged)).body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        takes |= {ast.unparse(target) for target in targets}
    if len(tagged) != 1 or not takes >= set(given):
        named = ", ".join(sorted(takes)) or "nothing"
        raise RqpsError(
            f"{notebook}: has {counted(len(tagged), 'cell')} tagged `parameters`; names set there: {named}",
            fix=f"tag one cell, with one line `name = default` for each of: {', '.join(given)}",
        )


def listed(path: Path) -> set[psutil.Process]:
    """The living processes whose ids are in a file, one per line."""
    try:
        lines = path.read_text().split()
        written_at_s = path.stat().st_mtime
    except OSError:
        return set()
    return {process for line in lines if (process := living(int(line), written_at_s))}


def living(pid: int, known_at_s: float) -> psutil.Process | None:
    """The process that had this id at the time `known_at_s`; None if it has ended. A process that began more than 5 s
    after that time only reuses the id."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if is_alive(process) and process.create_time() < known_at_s + 5:
            return process
    return None


def is_alive(process: psutil.Process) -> bool:
    """True if a process still runs; False for a zombie, or if another process has its id by now."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(
    processes: Iterable[psutil.Process], patience_s: float, say: Callable[[str], None]
) -> set[psutil.Process]:
    """Waits for processes to end; returns those that did not. After two seconds `say` gets their names."""
    start = time.monotonic()
    announced = False
    left = {process for process in processes if is_alive(process)}
    while left and time.monotonic() - start < patience_s:
        if not announced and time.monotonic() - start > 2:
            announced = True
            say(f"waiting for {names_of(left)} to end")
        time.sleep(0.1)
        left = {process for process in left if is_alive(process)}
    return left


def names_of(processes: Iterable[psutil.Process]) -> str:
    words = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            words.append(f"{process.name()} (pid {process.pid})")
    return ", ".join(words)


def _kernel_class(
    cwd: Path,
    private: Path,
    log: Path,
    started: Callable[["subprocess.Popen[bytes]"], None],
    variables: Mapping[str, str] | None = None,
) -> "type[AsyncKernelManager]":
    """Makes a class of managers of Jupyter kernels, since papermill accepts a class but no object. The kernel runs
    this same Python in a session of its own, with private sockets and a log."""
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.provisioning.local_provisioner import LocalProvisioner

    class Kernel(AsyncKernelManager):
        shutdown_wait_time = SHUTDOWN_PATIENCE_S

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            self.transport, self.connection_file = "ipc", str(private / "kernel.json")
            spec = self.kernel_spec
            assert spec is not None
            # Jupyter's own kernel spec is not used: a kernel named python3 in the user's home may be another Python.
            spec.argv = [sys.executable, "-c", KERNEL, "-f", "{connection_file}", QUIET, NO_HISTORY]
            with log.open("ab") as words:
                env = {**os.environ, **(variables or {})}
                # Jupyter gives its kernel a session of its own, so that Ctrl-C in a terminal reaches only rqps.
                await super().start_kernel(**options | {"env": env}, cwd=str(cwd), stdout=words, stderr=words)
            assert isinstance(self.provisioner, LocalProvisioner)
            assert self.provisioner.process is not None
            started(self.provisioner.process)

        def client(self, **options: Any) -> Any:
            self.newest_client = super().client(**options)
            return self.newest_client

        def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
            # Without the keeper, a Jupyter kernel notices late that its parent has ended, and never if the parent
            # ended before the kernel's first check.
            return keeper.command("exec", super().format_kernel_cmd(extra_arguments), cpus=())

    return Kernel


def _explain(error: BaseException, kernel_code: int | None, kernel_log: Path) -> str:
    """The reason why papermill failed, without the traceback."""
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        # The message of an RqpsError is readable without the name of its class.
        words = error.evalue if error.ename == "RqpsError" else f"{error.ename}: {error.evalue}"
        return str(words).strip().rstrip(":") or str(error.ename)
    if isinstance(error, DeadKernelError) or (isinstance(error, RuntimeError) and kernel_code is not None):
        ended = "ended" + (f" with exit code {kernel_code}" if kernel_code else "")
        if kernel_code is not None and kernel_code < 0:
            memory = " (short of memory? dmesg would say so)" if -kernel_code == signal.SIGKILL else ""
            ended = f"was killed by {signal.Signals(-kernel_code).name}{memory}"
        last_words = ""
        with suppress(OSError):
            last_words = "\n".join(kernel_log.read_text(errors="replace").splitlines()[-LAST_LINES:])[-LONGEST_WORDS:]
        return f"the notebook's kernel {ended} before the notebook's end" + f"; its last words:\n{last_words}" * bool(
            last_words
        )
    return f"{type(error).__name__}: {error}"


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Writes papermill's messages to a file."""
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    logger = logging.getLogger("papermill")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
