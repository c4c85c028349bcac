"""The cost of a database change: relative queries per second, measured on real servers.

`rqps.load("demo")` reads a study's frames; the command `rqps` measures a study, and `rqps.what_if` measures one more
build or config against a dbms of a study.
"""

import atexit
import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqps.experiment import what_if
    from rqps.store.read import Study, load, load_levels, load_run

__version__ = "0.1.0"
__all__ = ["Study", "__version__", "load", "load_levels", "load_run", "what_if"]

# Altair, nbformat and papermill import jsonschema, which imports rfc3987_syntax if it is installed. That import would
# take 1.3 s of CPU in each Jupyter kernel and command, to build a grammar of all URIs; rqps never checks a URI.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


class _Icons(ModuleType):
    """Stands for the package faicons, which great_tables imports. The import of faicons reads 3.6 MB of icons, none
    of which rqps shows; this class reads them only when an icon is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `inspect` asks all modules for these
            raise AttributeError(name)
        sys.modules.pop(self.__name__, None)
        vars(self).update(vars(import_module(self.__name__)))
        return object.__getattribute__(self, name)


sys.modules.setdefault("faicons", _Icons("faicons"))


def save_cpu() -> None:
    """Makes imports and exits take less CPU time. Only processes of rqps call it, not programs that import rqps."""
    # By default, the search for cycles of unused objects takes a fifth of the CPU time of a command's imports.
    gc.set_threshold(50_000, 20, 100)
    # At exit, Python searches for cycles several times more, which takes almost as long as the imports.
    atexit.register(gc.freeze)
    # jsonschema imports the first two to check durations and URIs, papermill the third to read from S3.
    for unused in ("isoduration", "rfc3986_validator", "papermill.s3"):
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    # polars takes a third of a second to import, and most commands do not need it.
    if name in ("Study", "load", "load_levels", "load_run"):
        from rqps.store import read

        return getattr(read, name)
    if name == "what_if":
        from rqps import experiment

        return experiment.what_if
    raise AttributeError(f"module 'rqps' has no attribute {name!r}")
