"""The kernel of a run's notebook: this very Python, in a session of its own, its words in a log."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

QUIET = "--IPKernelApp.log_level=ERROR"  # it warns at each start of what does not matter on a loopback


def kernel_class(
    cwd: Path, log: Path, started: Callable[["subprocess.Popen[bytes]"], None]
) -> type[AsyncKernelManager]:
    """A kernel manager for papermill, which makes its own and takes nothing but a class."""

    class Kernel(AsyncKernelManager):
        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            spec = self.kernel_spec
            assert spec is not None
            # A kernel named python3 in the user's home may be another Python.
            spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", QUIET]
            with log.open("ab") as words:
                # In a session of its own (that is Jupyter's way), so that Ctrl-C in a terminal reaches us alone.
                await super().start_kernel(**options, cwd=str(cwd), stdout=words, stderr=words)
            assert isinstance(self.provisioner, LocalProvisioner)
            assert self.provisioner.process is not None
            started(self.provisioner.process)

    return Kernel
